//! Event files of TensorBoard: the rows of `progress.csv` again, in the form that TensorBoard reads.
//!
//! A file is a row of TFRecords, each a protocol buffer `Event`: two messages, written by hand here, against the definitions
//! in TensorFlow's `event.proto`, `summary.proto` and `record_writer.h`. The file follows from the text of `progress.csv` alone,
//! so a resumed run needs no memory of it.

/// Where it lies in a run directory. TensorBoard asks for `tfevents` in the name; usual writers put time and host there, which
/// would make a resumed run begin another file.
pub const FILE: &str = "tb/events.out.tfevents.0000000000.sskp";

/// The column that becomes the x axis.
const STEP: &str = "TotalEnvSteps";
/// The column that becomes an event's time: seconds of the run, without the time it lay stopped.
const SECONDS: &str = "Time/Total";

/// The whole file, for the text of a `progress.csv`. Nothing for no rows.
pub fn of_progress(text: &str) -> Vec<u8> {
    let mut lines = text.lines();
    let columns: Vec<String> = lines.next().unwrap_or("").split(',').map(String::from).collect();
    let mut file = Vec::new();
    for line in lines {
        if file.is_empty() {
            file = beginning();
        }
        file.extend(of_row(&columns, line));
    }
    file
}

/// What a file begins with: the version of its form.
pub fn beginning() -> Vec<u8> {
    let mut event = event(0.0, 0);
    bytes_field(&mut event, 3, b"brain.Event:2");
    record(&event)
}

/// One row of `progress.csv`, as one event. A cell without a number is no point.
pub fn of_row(columns: &[String], line: &str) -> Vec<u8> {
    let numbers =
        columns.iter().zip(line.split(',')).filter_map(|(name, cell)| Some((name, cell.parse::<f64>().ok()?)));
    let (mut step, mut seconds, mut summary) = (0, 0.0, Vec::new());
    for (name, number) in numbers {
        match name.as_str() {
            STEP => {
                step = number as u64;
                continue;
            }
            SECONDS => seconds = number,
            _ => {}
        }
        let mut value = Vec::new();
        bytes_field(&mut value, 1, name.as_bytes());
        key(&mut value, 2, Wire::Fixed32);
        value.extend((number as f32).to_le_bytes());
        bytes_field(&mut summary, 1, &value);
    }
    let mut event = event(seconds, step);
    bytes_field(&mut event, 5, &summary);
    record(&event)
}

/// `Event` with its time (field 1) and step (field 2).
fn event(seconds: f64, step: u64) -> Vec<u8> {
    let mut event = Vec::new();
    key(&mut event, 1, Wire::Fixed64);
    event.extend(seconds.to_le_bytes());
    key(&mut event, 2, Wire::Varint);
    varint(&mut event, step);
    event
}

/// How a field of a protocol buffer is written.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    Fixed32 = 5,
}

fn key(to: &mut Vec<u8>, field: u64, wire: Wire) {
    varint(to, field << 3 | wire as u64);
}

fn bytes_field(to: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    key(to, field, Wire::Bytes);
    varint(to, bytes.len() as u64);
    to.extend(bytes);
}

/// Seven bits a byte, the lowest first; the high bit says that more follow.
fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// A TFRecord: length, its checksum, the bytes, their checksum.
fn record(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), bytes, &masked(bytes)].concat()
}

/// TFRecords mask their checksums, because a CRC over bytes that hold their own CRC says little.
fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// CRC-32C (Castagnoli), reflected.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut i = 0;
        while i < 256 {
            let (mut crc, mut bit) = (i as u32, 0);
            while bit < 8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
                bit += 1;
            }
            table[i] = crc;
            i += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc, b| TABLE[(crc as u8 ^ b) as usize] ^ crc >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_castagnolis() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
        // RFC 3720, appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&rising), 0x46dd_794e);
    }

    #[test]
    fn a_record_is_framed_as_by_tensorflow() {
        // Length 24, and the checksum of that length, as in the first bytes of any file that TensorFlow has written.
        let framed = record(&[7; 24]);
        assert_eq!(framed[..12], [24, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22]);
        assert_eq!((framed.len(), &framed[12..36]), (8 + 4 + 24 + 4, &[7; 24][..]));
        assert_eq!(framed[36..], masked(&[7; 24]));
    }

    #[test]
    fn varints_have_seven_bits_a_byte() {
        let of = |value| {
            let mut bytes = Vec::new();
            varint(&mut bytes, value);
            bytes
        };
        assert_eq!((of(0), of(127), of(128), of(300)), (vec![0], vec![127], vec![0x80, 1], vec![0xac, 2]));
        assert_eq!(of(u64::MAX).len(), 10);
    }

    /// By hand, field by field.
    #[test]
    fn a_row_is_one_event_at_its_step_with_one_value_a_column() {
        let columns = ["TotalEnvSteps", "a/b", "Time/Total", "c"].map(String::from);
        let framed = of_row(&columns, "300,0.5,2.5,");
        let event = &framed[12..framed.len() - 4];
        let mut expected = vec![0x09]; // wall_time, 8 bytes
        expected.extend(2.5f64.to_le_bytes());
        expected.extend([0x10, 0xac, 0x02]); // step 300
        expected.extend([0x2a, 12 + 19]); // summary
        expected.extend([0x0a, 10, 0x0a, 3, b'a', b'/', b'b', 0x15, 0, 0, 0, 0x3f]); // tag, 0.5
        expected.extend([0x0a, 17, 0x0a, 10]);
        expected.extend(b"Time/Total");
        expected.extend([0x15, 0, 0, 0x20, 0x40]); // 2.5
        assert_eq!(event, expected, "and nothing for the empty cell");
    }

    #[test]
    fn a_file_is_its_beginning_and_its_rows() {
        assert!(of_progress("").is_empty() && of_progress("TotalEnvSteps,x\n").is_empty());
        let columns = ["TotalEnvSteps", "x"].map(String::from);
        let rows = [beginning(), of_row(&columns, "1,2"), of_row(&columns, "3,NaN")].concat();
        assert_eq!(of_progress("TotalEnvSteps,x\n1,2\n3,NaN\n"), rows);
    }
}
