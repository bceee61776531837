//! WebM: Matroska (RFC 9559) with AV1, one track, a cluster for every picture that stands by itself.

use super::av1::Film;

/// An element: its identifier, its length in eight bytes, what is in it.
fn element(id: u32, inside: &[u8]) -> Vec<u8> {
    let name = id.to_be_bytes();
    let skip = name.iter().take_while(|b| **b == 0).count();
    let length = (1 << 56 | inside.len() as u64).to_be_bytes();
    [&name[skip..], &length, inside].concat()
}

fn number(id: u32, n: u64) -> Vec<u8> {
    element(id, &n.to_be_bytes())
}

fn text(id: u32, text: &str) -> Vec<u8> {
    element(id, text.as_bytes())
}

pub fn write(film: &Film) -> Vec<u8> {
    let milliseconds = |i: usize| (1000 * i as u64 + film.rate / 2) / film.rate;
    let head = [
        number(0x4286, 1),
        number(0x42f7, 1),
        number(0x42f2, 4),
        number(0x42f3, 8),
        text(0x4282, "webm"),
        number(0x4287, 4),
        number(0x4285, 2),
    ];
    let length = milliseconds(film.packets.len()) as f64;
    let about = [
        number(0x2a_d7b1, 1_000_000), // a unit of time is a millisecond
        element(0x4489, &length.to_be_bytes()),
        text(0x4d80, "sskp"),
        text(0x5741, "sskp"),
    ];
    let picture = [number(0xb0, film.width as u64), number(0xba, film.height as u64)].concat();
    let track = [
        number(0xd7, 1),
        number(0x73c5, 1),
        number(0x83, 1),
        number(0x9c, 0),
        text(0x86, "V_AV1"),
        element(0x63a2, &film.head),
        number(0x23_e383, 1_000_000_000 / film.rate),
        element(0xe0, &picture),
    ];
    let tracks = element(0x1654_ae6b, &element(0xae, &track.concat()));
    let mut clusters = Vec::new();
    let mut cluster: Vec<u8> = Vec::new();
    let mut begun = 0;
    for (i, (data, key)) in film.packets.iter().enumerate() {
        if *key && !cluster.is_empty() {
            clusters.extend(element(0x1f43_b675, &std::mem::take(&mut cluster)));
        }
        if cluster.is_empty() {
            begun = milliseconds(i);
            cluster.extend(number(0xe7, begun));
        }
        let since = (milliseconds(i) - begun) as i16;
        let flags = if *key { 0x80 } else { 0 };
        cluster.extend(element(0xa3, &[&[0x81][..], &since.to_be_bytes(), &[flags], data].concat()));
    }
    clusters.extend(element(0x1f43_b675, &cluster));
    let segment = [element(0x1549_a966, &about.concat()), tracks, clusters].concat();
    [element(0x1a45_dfa3, &head.concat()), element(0x1853_8067, &segment)].concat()
}
