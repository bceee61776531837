//! Copies that the user has and names. They are used where they lie.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail, ensure};

use crate::pins::{HEADER_LINE, LIBRARY, Pinned, Wheel};
use crate::sha256;

/// The folder of the library of a MuJoCo that the user names, and what to say about it.
///
/// Other builds of the same release (the one on MuJoCo's download page, or the user's own) have other bytes than the
/// wheel's, so a different hash is allowed here and only mentioned; another release or platform is refused.
pub fn library(folder: &Path, pinned: &Pinned) -> Result<(PathBuf, Option<String>)> {
    let candidates = [folder.join(LIBRARY), folder.join("lib").join(LIBRARY)];
    let Some(library) = candidates.iter().find_map(|path| path.canonicalize().ok()).filter(|path| path.is_file())
    else {
        bail!(
            "SSKP_MUJOCO_DIR is {}, but there is no {LIBRARY} in it or in its lib folder: name the folder of a MuJoCo 3.17.0, \
             or unset the variable to have it fetched",
            folder.display()
        );
    };
    let bytes = fs::read(&library).map_err(|error| anyhow!("{} cannot be read: {error}", library.display()))?;
    let pinned = sha256(&bytes) == pinned.sha256;
    ensure!(
        pinned || is_the_library(&bytes),
        "{} is not MuJoCo 3.17.0 for Linux on x86_64: correct SSKP_MUJOCO_DIR, or unset it to have MuJoCo fetched",
        library.display()
    );
    let note = format!("{} is another build than the pinned one: last digits of results may differ", library.display());
    let folder = library.parent().expect("a file lies in a folder").to_path_buf();
    Ok((folder, (!pinned).then_some(note)))
}

/// Whether these are the bytes of a 64-bit x86 ELF file that carries the library's name.
pub fn is_the_library(bytes: &[u8]) -> bool {
    let class_64_little_endian = bytes.starts_with(b"\x7fELF\x02\x01");
    let machine_x86_64 = bytes.get(18..20) == Some(&[62, 0]);
    let name = [b"\0", LIBRARY.as_bytes(), b"\0"].concat();
    class_64_little_endian && machine_x86_64 && bytes.windows(name.len()).any(|window| window == name)
}

/// The headers that came with a library: in `include` below or beside its folder, if anywhere.
pub fn headers(library: &Path) -> Result<Option<PathBuf>> {
    for include in [library.join("include"), library.join("../include")] {
        let header = include.join("mujoco/mujoco.h");
        let Ok(text) = fs::read_to_string(&header) else { continue };
        ensure!(
            text.contains(HEADER_LINE),
            "{} is not the header of MuJoCo 3.17.0, whose library lies beside it: correct SSKP_MUJOCO_DIR, or unset it to \
             have MuJoCo fetched",
            header.display()
        );
        return Ok(Some(include));
    }
    Ok(None)
}

/// Checks the robots' files in a folder that the user names.
pub fn assets(folder: &Path, wheel: &'static Wheel) -> Result<PathBuf> {
    for pinned in wheel.files {
        let name = Path::new(pinned.place).file_name().expect("a place names a file");
        let source = folder.join(name);
        let bytes = fs::read(&source).map_err(|error| {
            anyhow!(
                "SSKP_ASSETS_DIR is {}, but its {} cannot be read ({error}): name the folder gymnasium/envs/mujoco/assets of \
                 Gymnasium 1.4.0, or unset the variable to have the files fetched",
                folder.display(),
                name.display()
            )
        })?;
        ensure!(
            sha256(&bytes) == pinned.sha256,
            "{} is not the file of Gymnasium 1.4.0 (its sha256 differs from the pinned one): correct SSKP_ASSETS_DIR, or unset \
             it to have the files fetched",
            source.display()
        );
    }
    folder.canonicalize().map_err(|error| anyhow!("{} cannot be read: {error}", folder.display()))
}
