//! Finding and opening MuJoCo's library, once per process.

use std::env;
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::{Error, Result, ffi};

const LIBRARY: &str = env!("SSKP_MUJOCO_LIBRARY");

/// A folder that belongs to the program without being its own, like that of a Python package.
static BESIDE: OnceLock<PathBuf> = OnceLock::new();

/// Looks for the library in this folder, too, as if it were the program's own. To be called once, before the first model is loaded.
pub fn look_in(folder: PathBuf) {
    let _ = BESIDE.set(folder);
}

/// Opens the library, if that has not been done.
pub fn open() -> Result<()> {
    static OPENED: OnceLock<Result<()>> = OnceLock::new();
    OPENED.get_or_init(|| path().and_then(|path| open_at(&path))).clone()
}

fn open_at(path: &Path) -> Result<()> {
    let text = CString::new(path.as_os_str().as_encoded_bytes()).expect("a path of an existing file has no zero byte");
    // SAFETY: a text that ends with zero; the caller's `OnceLock` keeps a second thread out. What comes back is null or
    // a text that stays valid until this thread's next call of the loader.
    let problem = unsafe {
        let problem = ffi::sskp_mj_open(text.as_ptr());
        (!problem.is_null()).then(|| CStr::from_ptr(problem).to_string_lossy().into_owned())
    };
    match problem {
        None => Ok(()),
        Some(problem) => Err(Error(format!(
            "MuJoCo's library {} cannot be used: {problem}; name the folder of another copy with SSKP_MUJOCO_DIR",
            path.display()
        ))),
    }
}

/// The library that this program uses: in the folder that `SSKP_MUJOCO_DIR` names, beside the program, or where it was when the
/// program was built.
pub fn path() -> Result<PathBuf> {
    let named = env::var_os("SSKP_MUJOCO_DIR").filter(|value| !value.is_empty()).map(PathBuf::from);
    let program = env::current_exe().ok();
    let program = BESIDE.get().map(PathBuf::as_path).or(program.as_deref().and_then(Path::parent));
    find(named.as_deref(), program, Path::new(env!("SSKP_MUJOCO_FOLDER")))
}

fn find(named: Option<&Path>, program: Option<&Path>, built: &Path) -> Result<PathBuf> {
    let in_one_of = |folders: &[PathBuf]| folders.iter().map(|f| f.join(LIBRARY)).find(|path| path.is_file());
    if let Some(named) = named {
        return in_one_of(&[named.into(), named.join("lib")]).ok_or_else(|| {
            Error(format!(
                "SSKP_MUJOCO_DIR is {}, but there is no {LIBRARY} in it or in its lib folder: name the folder of a MuJoCo {}, \
                 or unset the variable",
                named.display(),
                crate::VERSION
            ))
        });
    }
    let folders: Vec<PathBuf> = program.into_iter().chain([built]).map(PathBuf::from).collect();
    in_one_of(&folders).ok_or_else(|| {
        let looked: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        Error(format!(
            "MuJoCo's library {LIBRARY} was not found in {}: copy it beside the program, or name its folder with SSKP_MUJOCO_DIR",
            looked.join(" or ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_named_folder_wins_then_the_programs_then_the_builds() {
        let root = env::temp_dir().join(format!("sskp-mujoco-{}", std::process::id()));
        let folder = |name: &str| root.join(name);
        for place in ["named/lib", "program", "built"] {
            fs::create_dir_all(folder(place)).unwrap();
            fs::write(folder(place).join(LIBRARY), "").unwrap();
        }
        let (named, program, built) = (folder("named"), folder("program"), folder("built"));
        let found = |named: Option<&Path>| find(named, Some(&program), &built);
        assert_eq!(found(Some(&named)).unwrap(), named.join("lib").join(LIBRARY));
        assert_eq!(found(None).unwrap(), program.join(LIBRARY));
        let sentence = found(Some(&root)).unwrap_err().to_string();
        assert!(sentence.starts_with("SSKP_MUJOCO_DIR is "), "{sentence}");
        fs::remove_file(program.join(LIBRARY)).unwrap();
        assert_eq!(found(None).unwrap(), built.join(LIBRARY));
        // It is a file, but no library.
        let sentence = open_at(&built.join(LIBRARY)).unwrap_err().to_string();
        assert!(sentence.contains("cannot be used") && sentence.contains("SSKP_MUJOCO_DIR"), "{sentence}");
        fs::remove_file(built.join(LIBRARY)).unwrap();
        let sentence = found(None).unwrap_err().to_string();
        for part in [program.to_str().unwrap(), built.to_str().unwrap(), "SSKP_MUJOCO_DIR"] {
            assert!(sentence.contains(part), "{sentence}");
        }
        fs::remove_dir_all(&root).unwrap();
    }
}
