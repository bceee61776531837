//! Checkpoints: one folder of safetensors files, a JSON of small values, and a manifest with the hash of each.
//!
//! Written into a hidden folder first and renamed, so that a killed run leaves either a whole checkpoint or none.
//! [`newest`] refuses a damaged or foreign one by name and takes the one before it.
//!
//! ```
//! use sskp_blocks::checkpoint::{self, Saver};
//!
//! let folder = std::env::temp_dir().join(format!("sskp-example-{}", std::process::id()));
//! let weights = vec![0.25f32; 6];
//! let mut to = Saver::default(); // borrows what it is lent
//! to.f32s("policy/actor", &weights, 3);
//! to.json("updates", &17);
//! checkpoint::write(&folder, "this run", 1000, &to, 2)?;
//!
//! let from = checkpoint::newest(&folder, Some("this run"), |_refused| ())?.expect("one was written");
//! let mut back = [0.0; 6];
//! from.f32s_into("policy/actor", &mut back)?;
//! assert_eq!((from.manifest.steps, from.json::<u64>("updates")?), (1000, 17));
//! assert_eq!(back[..], weights);
//! # std::fs::remove_dir_all(folder).unwrap();
//! # Ok::<(), sskp_blocks::Error>(())
//! ```

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, View};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::files::{PendingFolder, write_whole};
use crate::nets::Mlp;
use crate::nets::lstm::Lstm;
use crate::{Error, Result};

/// Version of the folder's form. A checkpoint of another version is refused.
pub const FORMAT: u32 = 1;

/// Collects what a checkpoint holds. Large arrays are borrowed, not copied.
///
/// Tensors are named `file/name`: `policy/actor`, `weights/critic1`, `optimiser/actor.m`, `replay/rows`. The file
/// `policy` is all that is needed to act, and all that a snapshot holds.
#[derive(Default)]
pub struct Saver<'a> {
    tensors: BTreeMap<String, Array<'a>>,
    values: BTreeMap<String, serde_json::Value>,
}

struct Array<'a> {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Cow<'a, [u8]>,
}

impl View for &Array<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }
    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

pub(crate) fn bytes_of(values: &[f32]) -> &[u8] {
    // SAFETY: f32 has no padding and any alignment is fine for bytes; the length is exact.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), std::mem::size_of_val(values)) }
}

impl<'a> Saver<'a> {
    /// Adds a matrix of f32, borrowed.
    pub fn f32s(&mut self, name: &str, values: &'a [f32], columns: usize) {
        assert!(columns > 0 && values.len().is_multiple_of(columns), "{name}: {} by {columns}", values.len());
        let shape = vec![values.len() / columns, columns];
        self.insert(name, Array { dtype: Dtype::F32, shape, bytes: Cow::Borrowed(bytes_of(values)) });
    }
    /// Adds a network, borrowed, its layers by name: `NAME.0.weight` `[inputs, outputs]`, `NAME.0.bias`, and so on.
    pub fn mlp(&mut self, name: &str, net: &'a Mlp) {
        for (i, (weights, bias, [inputs, outputs])) in net.layers().enumerate() {
            self.part(format!("{name}.{i}.weight"), weights, vec![inputs, outputs]);
            self.part(format!("{name}.{i}.bias"), bias, vec![outputs]);
        }
    }
    /// Adds a cell, borrowed: `NAME.input.weight` `[inputs, 4·hidden]`, `NAME.hidden.weight` `[hidden, 4·hidden]` and `NAME.bias`.
    pub fn lstm(&mut self, name: &str, cell: &'a Lstm) {
        let (input, hidden, bias) = cell.parts();
        self.part(format!("{name}.input.weight"), input, vec![cell.inputs(), bias.len()]);
        self.part(format!("{name}.hidden.weight"), hidden, vec![cell.hidden(), bias.len()]);
        self.part(format!("{name}.bias"), bias, vec![bias.len()]);
    }
    fn part(&mut self, name: String, values: &'a [f32], shape: Vec<usize>) {
        self.insert(&name, Array { dtype: Dtype::F32, shape, bytes: Cow::Borrowed(bytes_of(values)) });
    }
    /// Adds a vector of f64.
    pub fn f64s(&mut self, name: &str, values: Vec<f64>) {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.insert(name, Array { dtype: Dtype::F64, shape: vec![values.len()], bytes: Cow::Owned(bytes) });
    }
    /// Adds bytes.
    pub fn bytes(&mut self, name: &str, bytes: Vec<u8>) {
        self.insert(name, Array { dtype: Dtype::U8, shape: vec![bytes.len()], bytes: Cow::Owned(bytes) });
    }
    /// Adds a small value.
    pub fn json(&mut self, name: &str, value: &impl Serialize) {
        let value = serde_json::to_value(value).expect("plain data");
        assert!(self.values.insert(name.into(), value).is_none(), "two values called {name}");
    }
    /// The small value called `name`, where there is one of this kind.
    pub fn value<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        T::deserialize(self.values.get(name)?).ok()
    }
    fn insert(&mut self, name: &str, array: Array<'a>) {
        assert!(name.contains('/'), "{name}: tensors are named file/name");
        assert!(self.tensors.insert(name.into(), array).is_none(), "two tensors called {name}");
    }
}

/// What identifies a checkpoint, and the hash of each of its files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckpointManifest {
    /// [`FORMAT`].
    pub format: u32,
    /// Version of the program that wrote it.
    pub version: String,
    /// Identity of the run: the hash of its resolved configuration. Another run's checkpoint is foreign.
    pub run: String,
    /// Environment steps taken.
    pub steps: u64,
    /// SHA-256 of each file.
    pub files: BTreeMap<String, String>,
}

/// SHA-256 of bytes, in hexadecimal digits: the form of every hash that is written down.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Writes the checkpoint `folder/step-<steps>` atomically and removes all but the newest `keep`.
pub fn write(folder: &Path, run: &str, steps: u64, saver: &Saver, keep: usize) -> Result<PathBuf> {
    let done = write_one(folder, run, steps, saver, |_| true)?;
    let all = list(folder);
    for old in &all[..all.len().saturating_sub(keep.max(1))] {
        let _ = fs::remove_dir_all(old);
    }
    Ok(done)
}

/// Writes a snapshot, `folder/step-<steps>`: the policy alone, small enough to keep many.
pub fn write_snapshot(folder: &Path, run: &str, steps: u64, saver: &Saver) -> Result<PathBuf> {
    write_one(folder, run, steps, saver, |group| group == "policy")
}

fn write_one(folder: &Path, run: &str, steps: u64, saver: &Saver, wanted: fn(&str) -> bool) -> Result<PathBuf> {
    fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
    let name = format!("step-{steps:012}");
    let done = folder.join(&name);
    let pending = PendingFolder::create(&done, &format!(".partial-{name}"))?;
    write_into(&pending, run, steps, saver, wanted)?;
    // The same step may be asked for twice (a signal right after a due checkpoint): the bytes are the same.
    let _ = fs::remove_dir_all(&done);
    pending.commit()?;
    Ok(done)
}

fn write_into(pending: &PendingFolder, run: &str, steps: u64, saver: &Saver, wanted: fn(&str) -> bool) -> Result<()> {
    let mut files = BTreeMap::new();
    let mut write = |name: String, bytes: &[u8]| {
        pending.write(&name, bytes)?;
        files.insert(name, sha256(bytes));
        Ok::<(), Error>(())
    };
    let mut groups: BTreeMap<&str, Vec<(&str, &Array)>> = BTreeMap::new();
    for (name, array) in &saver.tensors {
        let (group, rest) = name.split_once('/').expect("checked on insertion");
        if wanted(group) {
            groups.entry(group).or_default().push((rest, array));
        }
    }
    for (group, arrays) in groups {
        let bytes = safetensors::serialize(arrays, None).map_err(|e| Error::other(format!("{group}: {e}")))?;
        write(format!("{group}.safetensors"), &bytes)?;
    }
    let values = serde_json::to_vec_pretty(&saver.values).expect("plain data");
    write("state.json".into(), &values)?;
    let version = env!("CARGO_PKG_VERSION").into();
    let manifest = CheckpointManifest { format: FORMAT, version, run: run.into(), steps, files };
    pending.write("manifest.json", &serde_json::to_vec_pretty(&manifest).expect("plain data"))
}

/// The one key of a single file's header: safetensors writes several in random order.
const HEADER: &str = "sskp";

#[derive(Serialize, Deserialize)]
struct Header {
    format: u32,
    version: String,
    sha256: String,
    values: BTreeMap<String, serde_json::Value>,
}

/// SHA-256 of names, sizes, numbers and small values.
fn digest<'t>(
    tensors: impl Iterator<Item = (&'t str, &'t [usize], &'t [u8])>,
    values: &BTreeMap<String, serde_json::Value>,
) -> String {
    let mut hash = Sha256::new();
    for (name, shape, bytes) in tensors {
        hash.update(format!("{name} {shape:?}\n"));
        hash.update(bytes);
    }
    hash.update(serde_json::to_vec(values).expect("plain data"));
    hex(&hash.finalize())
}

/// Writes everything collected to one safetensors file, which appears whole or not at all. The same content gives the same
/// bytes.
pub fn write_single(path: &Path, saver: &Saver) -> Result<()> {
    let tensors = saver.tensors.iter().map(|(name, a)| (name.as_str(), &a.shape[..], &a.bytes[..]));
    let sha256 = digest(tensors, &saver.values);
    let values = saver.values.clone();
    let header = Header { format: FORMAT, version: env!("CARGO_PKG_VERSION").into(), sha256, values };
    let header = HashMap::from([(HEADER.into(), serde_json::to_string(&header).expect("plain data"))]);
    let bytes = safetensors::serialize(saver.tensors.iter(), Some(header))
        .map_err(|e| Error::other(format!("{}: {e}", path.display())))?;
    write_whole(path, &bytes)
}

/// The checkpoint folders in `folder`, oldest first.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("step-")))
        .collect();
    all.sort();
    all
}

/// A checkpoint read back.
pub struct Loader {
    /// Where it was read from.
    pub path: PathBuf,
    /// Its manifest.
    pub manifest: CheckpointManifest,
    tensors: BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>,
    values: BTreeMap<String, serde_json::Value>,
}

impl Loader {
    /// Reads and checks the checkpoint at `path`. With `run` given, it must belong to that run.
    pub fn open(path: &Path, run: Option<&str>) -> Result<Self> {
        let bad = |why: String| Error::Checkpoint { path: path.into(), why };
        let read = |name: &str| fs::read(path.join(name)).map_err(|e| bad(format!("{name} cannot be read: {e}")));
        let manifest: CheckpointManifest = serde_json::from_slice(&read("manifest.json")?)
            .map_err(|e| bad(format!("its manifest is damaged ({e})")))?;
        if manifest.format != FORMAT {
            return Err(bad(format!("it has format {}, and this program reads format {FORMAT}", manifest.format)));
        }
        if run.is_some_and(|run| run != manifest.run) {
            return Err(bad("it belongs to a run with another configuration".into()));
        }
        let mut loader = Loader { path: path.into(), manifest, tensors: BTreeMap::new(), values: BTreeMap::new() };
        for (file, expected) in &loader.manifest.files {
            let bytes = read(file)?;
            if sha256(&bytes) != *expected {
                return Err(bad(format!("{file} is damaged: its hash differs from the manifest's")));
            }
            if file == "state.json" {
                loader.values = serde_json::from_slice(&bytes).map_err(|e| bad(format!("{file}: {e}")))?;
            } else if let Some(group) = file.strip_suffix(".safetensors") {
                let tensors = SafeTensors::deserialize(&bytes).map_err(|e| bad(format!("{file}: {e}")))?;
                for (name, view) in tensors.iter() {
                    let array = (view.dtype(), view.shape().to_vec(), view.data().to_vec());
                    loader.tensors.insert(format!("{group}/{name}"), array);
                }
            }
        }
        Ok(loader)
    }

    /// Reads and checks a file of [`write_single`].
    pub fn open_single(path: &Path) -> Result<Self> {
        let bad = |why: String| Error::Checkpoint { path: path.into(), why };
        let bytes = fs::read(path).map_err(|e| bad(format!("it cannot be read: {e}")))?;
        let damaged = |e: &dyn std::fmt::Display| bad(format!("it is damaged ({e})"));
        let (_, metadata) = SafeTensors::read_metadata(&bytes).map_err(|e| damaged(&e))?;
        let header = metadata.metadata().as_ref().and_then(|m| m.get(HEADER));
        let header = header.ok_or_else(|| bad("it was not written by this program".into()))?;
        let header: Header = serde_json::from_str(header).map_err(|e| damaged(&e))?;
        if header.format != FORMAT {
            return Err(bad(format!("it has format {}, and this program reads format {FORMAT}", header.format)));
        }
        let views = SafeTensors::deserialize(&bytes).map_err(|e| damaged(&e))?;
        let tensors: BTreeMap<_, _> = views
            .iter()
            .map(|(name, view)| (name.to_string(), (view.dtype(), view.shape().to_vec(), view.data().to_vec())))
            .collect();
        let content = tensors.iter().map(|(name, (_, shape, bytes))| (name.as_str(), &shape[..], &bytes[..]));
        if digest(content, &header.values) != header.sha256 {
            return Err(bad("it is damaged: its hash differs from the one it names".into()));
        }
        let Header { format, version, values, .. } = header;
        let manifest = CheckpointManifest { format, version, run: String::new(), steps: 0, files: BTreeMap::new() };
        Ok(Loader { path: path.into(), manifest, tensors, values })
    }

    fn missing(&self, name: &str) -> Error {
        Error::Checkpoint { path: self.path.clone(), why: format!("it has no {name}") }
    }

    /// The f32 matrix called `name`, flat; of a network or a cell, all its parts in the order of its parameters.
    fn flat(&self, name: &str) -> Result<Vec<f32>> {
        if self.tensors.contains_key(name) {
            // A matrix; also networks, as they were written before their layers had names.
            return self.f32s(name);
        }
        let layers = (0..).map_while(|i| {
            let parts = ["weight", "bias"].map(|part| format!("{name}.{i}.{part}"));
            parts.iter().all(|part| self.tensors.contains_key(part)).then_some(parts)
        });
        let mut parts: Vec<String> = layers.flatten().collect();
        if parts.is_empty() {
            parts = ["input.weight", "hidden.weight", "bias"].map(|part| format!("{name}.{part}")).into();
        }
        if !parts.iter().all(|part| self.tensors.contains_key(part)) {
            return Err(self.missing(name));
        }
        let all = parts.iter().map(|part| self.f32s(part)).collect::<Result<Vec<_>>>()?;
        Ok(all.concat())
    }

    /// Copies the f32 matrix, network or cell called `name` into `out`, which must have its length.
    pub fn f32s_into(&self, name: &str, out: &mut [f32]) -> Result<()> {
        let values = self.flat(name)?;
        if values.len() != out.len() {
            let why = format!("{name} has {} numbers where {} are needed", values.len(), out.len());
            return Err(Error::Checkpoint { path: self.path.clone(), why });
        }
        out.copy_from_slice(&values);
        Ok(())
    }
    /// The f32 matrix called `name`, flat.
    pub fn f32s(&self, name: &str) -> Result<Vec<f32>> {
        let (_, _, bytes) = self.tensor(name, Dtype::F32)?;
        Ok(bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect())
    }
    /// The f64 vector called `name`.
    pub fn f64s(&self, name: &str) -> Result<Vec<f64>> {
        let (_, _, bytes) = self.tensor(name, Dtype::F64)?;
        Ok(bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes"))).collect())
    }
    /// The bytes called `name`.
    pub fn bytes(&self, name: &str) -> Result<&[u8]> {
        Ok(&self.tensor(name, Dtype::U8)?.2)
    }
    fn tensor(&self, name: &str, dtype: Dtype) -> Result<&(Dtype, Vec<usize>, Vec<u8>)> {
        self.tensors.get(name).filter(|t| t.0 == dtype).ok_or_else(|| self.missing(name))
    }
    /// The small value called `name`.
    pub fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let value = self.values.get(name).ok_or_else(|| self.missing(name))?;
        serde_json::from_value(value.clone())
            .map_err(|e| Error::Checkpoint { path: self.path.clone(), why: format!("{name}: {e}") })
    }
}

/// The newest usable checkpoint in `folder`; `refused` hears of each newer one that is not.
pub fn newest(folder: &Path, run: Option<&str>, mut refused: impl FnMut(&Error)) -> Result<Option<Loader>> {
    for path in list(folder).iter().rev() {
        match Loader::open(path, run) {
            Ok(loader) => return Ok(Some(loader)),
            Err(error) => refused(&error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saver(values: &[f32]) -> Saver<'_> {
        let mut saver = Saver::default();
        saver.f32s("weights/w", values, 2);
        saver.f64s("simulator/state", vec![0.1, f64::NAN]);
        saver.json("count", &17u64);
        saver
    }

    #[test]
    fn what_is_written_is_read_back_bit_for_bit_and_only_the_newest_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let values = [1.0f32, -2.5, 1e-40, f32::INFINITY];
        for step in [10, 20, 30] {
            write(dir.path(), "run", step, &saver(&values), 2).unwrap();
        }
        assert_eq!(list(dir.path()).len(), 2);
        let loader = newest(dir.path(), Some("run"), |e| panic!("{e}")).unwrap().unwrap();
        assert_eq!(loader.manifest.steps, 30);
        assert_eq!(loader.f32s("weights/w").unwrap(), values);
        assert!(loader.f64s("simulator/state").unwrap()[1].is_nan());
        assert_eq!(loader.json::<u64>("count").unwrap(), 17);
        assert!(loader.f32s("weights/other").is_err());
    }

    #[test]
    fn a_single_file_reads_back_repeats_its_bytes_and_notices_every_changed_byte() {
        let dir = tempfile::tempdir().unwrap();
        let values = [1.0f32, -2.5, 1e-40, f32::INFINITY];
        let (a, b) = (dir.path().join("a.safetensors"), dir.path().join("b.safetensors"));
        for path in [&a, &b] {
            write_single(path, &saver(&values)).unwrap();
        }
        let bytes = fs::read(&a).unwrap();
        assert_eq!(bytes, fs::read(&b).unwrap());
        let loader = Loader::open_single(&a).unwrap();
        assert_eq!(loader.f32s("weights/w").unwrap(), values);
        assert_eq!(loader.json::<u64>("count").unwrap(), 17);
        for at in (0..bytes.len()).step_by(7) {
            let mut broken = bytes.clone();
            broken[at] ^= 0x10;
            fs::write(&b, &broken).unwrap();
            // A byte of the version's text or of a space changes nothing that is read.
            if let Ok(loader) = Loader::open_single(&b) {
                assert_eq!(loader.f32s("weights/w").unwrap(), values, "byte {at}");
                assert_eq!(loader.json::<u64>("count").unwrap(), 17, "byte {at}");
            }
        }
        fs::write(&b, &bytes[..bytes.len() - 1]).unwrap();
        assert!(Loader::open_single(&b).is_err());
        assert!(write_single(&dir.path().join("no/a.safetensors"), &saver(&values)).is_err());
    }

    #[test]
    fn a_truncated_or_foreign_checkpoint_is_refused_by_name_and_the_one_before_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let values = [1.0f32, 2.0];
        for step in [10, 20] {
            write(dir.path(), "run", step, &saver(&values), 3).unwrap();
        }
        let file = dir.path().join("step-000000000020/weights.safetensors");
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() - 3]).unwrap();
        let mut heard = Vec::new();
        let loader = newest(dir.path(), Some("run"), |e| heard.push(e.to_string())).unwrap().unwrap();
        assert_eq!(loader.manifest.steps, 10);
        assert!(heard[0].contains("step-000000000020") && heard[0].contains("weights.safetensors"), "{heard:?}");
        let foreign = Loader::open(&dir.path().join("step-000000000010"), Some("other")).err().unwrap();
        assert!(foreign.to_string().contains("another configuration"));
    }
}
