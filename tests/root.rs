use std::path::{Path, PathBuf};

/// The repository, two folders above a crate's own: where nextest says that it lies now, or where it was built.
pub fn repository() -> PathBuf {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&own).join("../..")
}
