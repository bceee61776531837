//! `violations.bin`: the last violations of a run and the last moments that came near one, each to be played again.
//!
//! The file is a function of the rows alone, whenever checkpoints came and whatever was killed: a record is appended when it happens, and when twice as many
//! of its kind are there as are kept, the older half goes. A checkpoint has the file's bytes, so that a resumed run begins with them.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::keep::Moment;
use sskp_blocks::{Error, Result};

use super::log::Log;

/// Its name in a run directory.
pub const FILE: &str = "violations.bin";
/// Its name in a checkpoint.
const KEPT: &str = "moments/kept";
/// A longer file was not written by a run: twice forty records of the largest robot are two megabytes.
const LONGEST: u64 = 64 << 20;
/// A longer record neither.
const LONGEST_RECORD: u64 = 16 << 20;

pub(crate) struct Moments {
    log: Log,
    keep: usize,
    /// Whether each is a violation, and its record.
    all: Vec<(bool, Vec<u8>)>,
}

impl Moments {
    pub(crate) fn new(path: PathBuf, keep: usize) -> Self {
        Self { log: Log::new(path), keep, all: Vec::new() }
    }

    pub(crate) fn wanted(&self) -> bool {
        self.keep > 0
    }

    pub(crate) fn add(&mut self, moment: &Moment) -> Result<()> {
        let record = record(moment);
        self.log.append(&record)?;
        self.all.push((moment.violation, record));
        let of_kind = self.all.iter().filter(|one| one.0 == moment.violation).count();
        if of_kind < 2 * self.keep {
            return Ok(());
        }
        let mut out = of_kind - self.keep;
        self.all.retain(|one| {
            let stays = one.0 != moment.violation || out == 0;
            out -= usize::from(!stays);
            stays
        });
        self.rewrite()
    }

    /// Puts another file in its place, whole for whoever reads. It need not have reached the disk: a run goes on with what its checkpoint has.
    fn rewrite(&mut self) -> Result<()> {
        let (bytes, partial) = (self.bytes(), self.log.path.with_extension("partial"));
        let put = std::fs::write(&partial, &bytes).and_then(|()| std::fs::rename(&partial, &self.log.path));
        put.map_err(|e| Error::io(&self.log.path, e))?;
        self.log.cut(bytes.len() as u64)
    }

    fn bytes(&self) -> Vec<u8> {
        self.all.iter().flat_map(|one| &one.1).copied().collect()
    }

    pub(crate) fn sync(&self) -> Result<()> {
        self.log.sync()
    }

    pub(crate) fn save(&self, to: &mut Saver) {
        if self.wanted() {
            to.bytes(KEPT, self.bytes());
        }
    }

    /// The run goes on from a checkpoint, or from its beginning.
    pub(crate) fn load(&mut self, from: Option<&Loader>) -> Result<()> {
        // Checkpoints of before have none.
        let bytes = from.and_then(|from| from.bytes(KEPT).ok()).unwrap_or_default();
        self.all =
            records(bytes).map(|(record, moment)| Ok((moment?.violation, record.to_vec()))).collect::<Result<_>>()?;
        self.log.put(bytes)
    }
}

fn record(moment: &Moment) -> Vec<u8> {
    let mut packed = DeflateEncoder::new(vec![0; 4], Compression::fast());
    packed.write_all(&moment.to_bytes()).expect("memory");
    let mut record = packed.finish().expect("memory");
    let length = (record.len() - 4) as u32;
    record[..4].copy_from_slice(&length.to_le_bytes());
    record
}

/// Whole records, and what they say. One that is still being written is left out.
fn records(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8], Result<Moment>)> {
    std::iter::from_fn(move || {
        let (length, _) = bytes.split_first_chunk::<4>()?;
        let (record, rest) = bytes.split_at_checked(4 + u32::from_le_bytes(*length) as usize)?;
        bytes = rest;
        let mut plain = Vec::new();
        let read = DeflateDecoder::new(&record[4..]).take(LONGEST_RECORD).read_to_end(&mut plain);
        let moment =
            read.map_err(|_| Error::other("a kept moment is damaged")).and_then(|_| Moment::from_bytes(&plain));
        Some((record, moment))
    })
}

/// The moments that a run has kept, oldest first; none where it has kept nothing.
pub fn read(run: &Path) -> Result<Vec<Moment>> {
    let path = run.join(FILE);
    let bytes = match std::fs::metadata(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io(&path, e)),
        Ok(data) if data.len() > LONGEST => {
            return Err(Error::other(format!("{} is too long to be a run's", path.display())));
        }
        Ok(_) => std::fs::read(&path).map_err(|e| Error::io(&path, e))?,
    };
    let moments = records(&bytes).map(|(_, moment)| moment).collect::<Result<Vec<_>>>();
    moments.map_err(|e| Error::other(format!("{}: {e}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(steps: u64, violation: bool) -> Moment {
        Moment {
            violation,
            steps,
            state: vec![0.5; 9],
            actions: vec![steps as f32; 40],
            choices: vec![(3, f32::NAN)],
            ..Moment::default()
        }
    }

    #[test]
    fn the_last_ones_of_each_kind_are_kept_and_half_a_record_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(folder.path()).unwrap().is_empty());
        let path = folder.path().join(FILE);
        let mut kept = Moments::new(path.clone(), 3);
        for steps in 0..100 {
            kept.add(&moment(steps, steps % 4 > 0)).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), kept.bytes());
        }
        let back = read(folder.path()).unwrap();
        let of =
            |violation: bool| back.iter().filter(|m| m.violation == violation).map(|m| m.steps).collect::<Vec<_>>();
        assert!(of(true).ends_with(&[97, 98, 99]) && of(true).len() < 6, "{:?}", of(true));
        assert_eq!(of(false).last(), Some(&96));
        assert!((3..6).contains(&of(false).len()));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.truncate(bytes.len() - 5);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read(folder.path()).unwrap().len(), back.len() - 1);
        bytes[10] ^= 255;
        std::fs::write(&path, &bytes).unwrap();
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("violations.bin") && error.contains("damaged"), "{error}");
    }
}
