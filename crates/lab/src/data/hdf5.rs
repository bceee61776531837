//! The one place that knows `hdf5-pure`. Everything else sees trees of plain arrays ([`Tree`]) and nodes to read from
//! ([`Node`]).

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use hdf5_pure::{
    AttrValue, DType, DatasetBuilder, EnumTypeBuilder, File, FileBuilder, FormatError, Group, GroupBuilder,
};
use sskp_blocks::{Error, Result};

/// No filter of HDF5 that we read packs better than deflate's 1032 : 1. A file that claims more numbers than that is
/// damaged, and believing it would ask for more memory than there is.
const BEST_RATIO: u64 = 1100;

/// Numbers as stored: a row per step (or state), one column for plain lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Array {
    /// Rows.
    pub rows: usize,
    /// Numbers in a row.
    pub cols: usize,
    /// Row after row.
    pub data: Vec<f32>,
}

impl Array {
    /// One row.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.data[i * self.cols..][..self.cols]
    }
}

/// An HDF5 file, read whole.
pub(super) struct Reader {
    path: PathBuf,
    file: File,
    bytes: u64,
}

/// A group of a file.
pub(super) struct Node<'a> {
    reader: &'a Reader,
    group: Group,
    /// Its name; empty for the root.
    pub name: String,
}

/// Runs a call into the library. Its parsers work on bytes nobody vouches for; a panic in there must be an error about
/// that file and not the end of the program.
fn guarded<T>(call: impl FnOnce() -> std::result::Result<T, hdf5_pure::Error>) -> std::result::Result<T, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|e| e.to_string()),
        Err(_) => Err("the file is damaged in a way the HDF5 reader did not expect".into()),
    }
}

impl Reader {
    /// Opens a file. Anything but HDF5 is refused.
    pub fn open(path: &Path) -> Result<Self> {
        let data = std::fs::read(path).map_err(|e| Error::io(path, e))?;
        if !hdf5_pure::is_hdf5_bytes(&data) {
            return Err(Error::other(format!("{}: this is no HDF5 file", path.display())));
        }
        let bytes = data.len() as u64;
        let file = guarded(|| File::from_bytes(data)).map_err(|e| Error::other(format!("{}: {e}", path.display())))?;
        Ok(Self { path: path.into(), file, bytes })
    }
    /// Size of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Its root group.
    pub fn root(&self) -> Node<'_> {
        Node { reader: self, group: self.file.root(), name: String::new() }
    }
}

impl<'a> Node<'a> {
    /// An error about a field of this group, with file and group in front.
    pub fn error(&self, field: &str, why: impl std::fmt::Display) -> Error {
        let name = if self.name.is_empty() { String::new() } else { format!("{}: ", self.name) };
        Error::other(format!("{}: {name}{field}: {why}", self.reader.path.display()))
    }

    /// The groups inside.
    pub fn groups(&self) -> Result<Vec<Node<'a>>> {
        let collect = || -> std::result::Result<Vec<_>, hdf5_pure::Error> {
            Ok(self.group.iter_groups()?.map(|(name, group)| (name.to_string(), group)).collect())
        };
        let groups = guarded(collect).map_err(|e| self.error("groups", e))?;
        Ok(groups.into_iter().map(|(name, group)| Node { reader: self.reader, group, name }).collect())
    }

    /// Whether there is a dataset called `field`, directly or by a path.
    pub fn has(&self, field: &str) -> Result<bool> {
        let found = || match self.group.dataset(field) {
            Ok(_) => Ok(true),
            Err(hdf5_pure::Error::Format(FormatError::PathNotFound(_))) => Ok(false),
            Err(e) => Err(e),
        };
        guarded(found).map_err(|e| self.error(field, e))
    }

    /// All numbers of a field, whatever their stored type.
    pub fn numbers(&self, field: &str) -> Result<Array> {
        let limit = self.reader.bytes.saturating_mul(BEST_RATIO);
        let read = || -> std::result::Result<std::result::Result<Array, String>, hdf5_pure::Error> {
            let dataset = self.group.dataset(field)?;
            let kind = dataset.dtype()?;
            let number = matches!(
                kind,
                DType::F32
                    | DType::F64
                    | DType::I8
                    | DType::I16
                    | DType::I32
                    | DType::I64
                    | DType::U8
                    | DType::U16
                    | DType::U32
                    | DType::U64
                    | DType::Enum(_)
            );
            if !number {
                return Ok(Err(format!("holds {kind}, not numbers")));
            }
            let shape = dataset.shape()?;
            let count = shape.iter().try_fold(1_u64, |n, d| n.checked_mul(*d));
            let size = count.and_then(|n| n.checked_mul(dataset.element_size().unwrap_or(8).max(1)));
            let (Some(count), Some(size)) = (count, size) else {
                return Ok(Err(format!("claims the shape {shape:?}, which no file holds")));
            };
            if size > limit {
                return Ok(Err(format!("claims the shape {shape:?}, more than a file of this size can hold")));
            }
            let (rows, cols) = match shape.as_slice() {
                [] => (1, 1),
                [rows, rest @ ..] => (*rows as usize, rest.iter().product::<u64>() as usize),
            };
            let data = if count == 0 { Vec::new() } else { dataset.read_f32()? };
            if data.len() as u64 != count {
                return Ok(Err(format!("has {} numbers, its shape {shape:?} needs {count}", data.len())));
            }
            Ok(Ok(Array { rows, cols, data }))
        };
        guarded(read).map_err(|e| self.error(field, e))?.map_err(|e| self.error(field, e))
    }

    /// A list of one number per row: `(n)` or `(n, 1)`.
    pub fn list(&self, field: &str) -> Result<Vec<f32>> {
        let array = self.numbers(field)?;
        if array.cols != 1 {
            return Err(self.error(field, format!("needs one number per row, has {}", array.cols)));
        }
        Ok(array.data)
    }

    /// A list of yes and no: HDF5's bool enumeration, or numbers of which anything but 0 is yes.
    pub fn flags(&self, field: &str) -> Result<Vec<bool>> {
        let list = self.list(field)?;
        match list.iter().position(|x| *x != 0.0 && *x != 1.0) {
            Some(i) => Err(self.error(field, format!("{} in row {i} is neither 0 nor 1", list[i]))),
            None => Ok(list.iter().map(|x| *x != 0.0).collect()),
        }
    }

    /// A text attribute.
    pub fn text(&self, name: &str) -> Option<String> {
        let attrs = guarded(|| self.group.attrs()).ok()?;
        attrs.get(name)?.as_str().map(String::from)
    }

    /// A number attribute.
    pub fn number(&self, name: &str) -> Option<f64> {
        let attrs = guarded(|| self.group.attrs()).ok()?;
        let value = attrs.get(name)?;
        value.as_f64().or_else(|| value.as_i64().map(|i| i as f64))
    }
}

/// An attribute to write.
pub(super) enum Attr {
    Int(i64),
    Float(f64),
    Text(String),
}

/// A dataset to write.
pub(super) enum Field<'a> {
    /// Numbers, so many to a row; 0 for a plain list.
    Numbers(Cow<'a, [f32]>, usize),
    /// HDF5's bool as h5py writes it: an enumeration of FALSE and TRUE over a byte.
    Flags(Vec<bool>),
}

/// A group to write, with all that is in it.
#[derive(Default)]
pub(super) struct Tree<'a> {
    pub name: String,
    pub attrs: Vec<(&'static str, Attr)>,
    pub fields: Vec<(&'static str, Field<'a>)>,
    pub groups: Vec<Tree<'a>>,
}

/// Rows of a chunk at most, so that reading a part of a long recording does not unpack all of it.
const CHUNK_ROWS: usize = 8192;

fn fill(dataset: &mut DatasetBuilder, field: Field) -> std::result::Result<(), FormatError> {
    match field {
        Field::Numbers(numbers, cols) => {
            let width = cols.max(1);
            let rows = numbers.len() / width;
            dataset.with_f32_data(&numbers);
            if rows == 0 {
                return Ok(());
            }
            let chunk_rows = rows.min(CHUNK_ROWS) as u64;
            // An episode is a chunk. A chunk per column was measured and packs no better: deflate finds as little in one
            // joint over time as in all of them.
            if cols == 0 {
                dataset.with_chunks(&[chunk_rows]);
            } else {
                dataset.with_shape(&[rows as u64, cols as u64]).with_chunks(&[chunk_rows, cols as u64]);
            }
            dataset.with_shuffle().with_deflate(9);
        }
        Field::Flags(flags) => {
            let kind =
                EnumTypeBuilder::with_base(hdf5_pure::make_i8_type()).value("FALSE", 0).value("TRUE", 1).build()?;
            let bytes: Vec<u8> = flags.iter().map(|f| u8::from(*f)).collect();
            dataset.with_enum_u8_data(kind, &bytes);
            if !bytes.is_empty() {
                dataset.with_chunks(&[bytes.len().min(CHUNK_ROWS) as u64]).with_deflate(9);
            }
        }
    }
    Ok(())
}

fn attribute(attr: Attr) -> AttrValue {
    match attr {
        Attr::Int(i) => AttrValue::I64(i),
        Attr::Float(x) => AttrValue::F64(x),
        Attr::Text(text) => AttrValue::String(text),
    }
}

fn grow(group: &mut GroupBuilder, tree: Tree) -> std::result::Result<(), FormatError> {
    for (name, attr) in tree.attrs {
        group.set_attr(name, attribute(attr));
    }
    for (name, field) in tree.fields {
        fill(group.create_dataset(name), field)?;
    }
    for inner in tree.groups {
        let mut child = group.create_group(&inner.name);
        grow(&mut child, inner)?;
        group.add_group(child.finish());
    }
    Ok(())
}

/// The bytes of a file with this content; the root's own name is not used.
pub(super) fn serialise(root: Tree) -> Result<Vec<u8>> {
    let write = || -> std::result::Result<Vec<u8>, hdf5_pure::Error> {
        let mut file = FileBuilder::new();
        for (name, attr) in root.attrs {
            file.set_attr(name, attribute(attr));
        }
        for (name, field) in root.fields {
            fill(file.create_dataset(name), field)?;
        }
        for inner in root.groups {
            let mut child = file.create_group(&inner.name);
            grow(&mut child, inner)?;
            file.add_group(child.finish());
        }
        file.finish()
    };
    write().map_err(|e| Error::other(format!("the HDF5 file could not be built: {e}")))
}
