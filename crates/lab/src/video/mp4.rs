//! MP4 (ISO 14496-12, with AV1 as its codec's own binding says): one track, one chunk.

use super::av1::Film;

/// A box: its size, its name, what is in it.
fn part(name: &[u8; 4], inside: &[&[u8]]) -> Vec<u8> {
    let inside = inside.concat();
    [&((inside.len() as u32 + 8).to_be_bytes())[..], name, &inside].concat()
}

/// A box with a version and flags before its content.
fn full(name: &[u8; 4], flags: u32, words: &[u32], rest: &[u8]) -> Vec<u8> {
    part(name, &[&flags.to_be_bytes(), &be(words), rest])
}

fn be(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_be_bytes()).collect()
}

/// No turn, no stretch.
const AS_IT_IS: [u32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];

pub fn write(film: &Film) -> Vec<u8> {
    let (count, rate) = (film.packets.len() as u32, film.rate as u32);
    let (width, height) = (film.width as u32, film.height as u32);
    let head = part(b"ftyp", &[b"isom", &be(&[512]), b"isomav01iso2mp41"]);
    let sample = {
        let mut fixed = vec![0; 6];
        fixed.extend([0, 1]); // where its data are: here
        fixed.extend([0; 16]);
        fixed.extend(be(&[width << 16 | height, 0x48_0000, 0x48_0000, 0]));
        fixed.extend([0, 1]); // pictures in a sample
        fixed.extend([0; 32]); // no name of the encoder
        fixed.extend([0, 24, 0xff, 0xff]);
        part(b"av01", &[&fixed, &part(b"av1C", &[&film.head])])
    };
    let keys: Vec<u32> = (1..).zip(&film.packets).filter(|(_, packet)| packet.1).map(|(i, _)| i).collect();
    let sizes: Vec<u32> = film.packets.iter().map(|packet| packet.0.len() as u32).collect();
    let movie = |offset: u32| {
        let table = part(
            b"stbl",
            &[
                &full(b"stsd", 0, &[1], &sample),
                &full(b"stts", 0, &[1, count, 1], &[]),
                &full(b"stss", 0, &[keys.len() as u32], &be(&keys)),
                &full(b"stsc", 0, &[1, 1, count, 1], &[]),
                &full(b"stsz", 0, &[0, count], &be(&sizes)),
                &full(b"stco", 0, &[1, offset], &[]),
            ],
        );
        let here = part(b"dinf", &[&full(b"dref", 0, &[1], &full(b"url ", 1, &[], &[]))]);
        let media = part(b"minf", &[&full(b"vmhd", 1, &[0, 0], &[]), &here, &table]);
        let kind = full(b"hdlr", 0, &[0, u32::from_be_bytes(*b"vide"), 0, 0, 0], b"\0");
        let times = full(b"mdhd", 0, &[0, 0, rate, count, 0x55c4_0000], &[]);
        let track_head = [&[0, 0, 1, 0, count, 0, 0, 0, 0][..], &AS_IT_IS, &[width << 16, height << 16]].concat();
        let track = part(b"trak", &[&full(b"tkhd", 3, &track_head, &[]), &part(b"mdia", &[&times, &kind, &media])]);
        let movie_head = [&[0, 0, rate, count, 0x1_0000, 0x0100_0000, 0, 0][..], &AS_IT_IS, &[0; 6], &[2]].concat();
        part(b"moov", &[&full(b"mvhd", 0, &movie_head, &[]), &track])
    };
    // Where the pictures begin depends on the size of what comes before, which does not depend on it.
    let offset = head.len() + movie(0).len() + 8;
    let pictures: Vec<&[u8]> = film.packets.iter().map(|packet| packet.0.as_slice()).collect();
    [head, movie(offset as u32), part(b"mdat", &pictures)].concat()
}
