//! `cargo xtask setup`: MuJoCo's library and the robots' descriptions, fetched once into a folder that Git ignores.
//!
//! Both come out of Python wheels, because the Python package index and its mirrors are what most machines reach.
//! Every file must have the sha256 pinned below. All files are completed in a folder of this process's own
//! (`.partial-<process id>`) and only then renamed into place, one by one: whoever interrupts this, at any moment,
//! finds each file either absent (or as it was before) or whole.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use sha2::{Digest, Sha256};

use crate::python::{Python, offers_no_such_wheel};

/// What helps against every problem with Python, pip or the network; the end of a sentence.
const WAY_OUT: &str = "or name existing copies with SSKP_MUJOCO_DIR and SSKP_ASSETS_DIR (see docs/setup.md)";

/// The file name that MuJoCo's library is looked for at run time (its SONAME).
const LIBRARY: &str = "libmujoco.so.3.17.0";

/// The name that the linker looks for.
const LINK: &str = "libmujoco.so";

/// A wheel, and the files that we take out of it.
struct Wheel {
    package: &'static str,
    version: &'static str,
    files: &'static [Pinned],
}

struct Pinned {
    /// Path inside the wheel.
    member: &'static str,
    /// Path inside the vendor folder.
    place: &'static str,
    sha256: &'static str,
}

/// Apache-2.0. The wheels for all versions of Python carry the same library.
const MUJOCO: Wheel = Wheel {
    package: "mujoco",
    version: "3.17.0",
    files: &[Pinned {
        member: "mujoco/libmujoco.so.3.17.0",
        place: "mujoco/libmujoco.so.3.17.0",
        sha256: "23496b023ee80fb61ab71167e94bc649f9941710fde96b18bb8204fb332523ad",
    }],
};

/// MIT.
const ROBOTS: Wheel = Wheel {
    package: "gymnasium",
    version: "1.4.0",
    files: &[
        Pinned {
            member: "gymnasium/envs/mujoco/assets/ant.xml",
            place: "assets/ant.xml",
            sha256: "cd5f83ef0ea35b0969e65d360c5bacd5b74ccaef6b27e4433b5168c605e3e2be",
        },
        Pinned {
            member: "gymnasium/envs/mujoco/assets/half_cheetah.xml",
            place: "assets/half_cheetah.xml",
            sha256: "11797a5d69e8ac955e89ca6fdd3a0087f1c990094fda401ac51420de1b6c5494",
        },
        Pinned {
            member: "gymnasium/envs/mujoco/assets/hopper.xml",
            place: "assets/hopper.xml",
            sha256: "3ce93a055ffdcd83c0c701d2400768e40d2cbb9532f3c4ae33377c27f8b39f9e",
        },
        Pinned {
            member: "gymnasium/envs/mujoco/assets/humanoid.xml",
            place: "assets/humanoid.xml",
            sha256: "85816f372c826d2094b4a598918233bd9c5843b2439119eece2733bdc2e0d073",
        },
    ],
};

/// Where the files come from.
pub struct Sources {
    python: Python,
    /// A folder with an existing MuJoCo, used instead of fetching one.
    mujoco: Option<PathBuf>,
    /// A folder with the robots' XML files, used instead of fetching them.
    assets: Option<PathBuf>,
}

impl Sources {
    pub fn from_environment() -> Sources {
        let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Sources { python: Python::new("python3"), mujoco: folder("SSKP_MUJOCO_DIR"), assets: folder("SSKP_ASSETS_DIR") }
    }
}

/// Makes sure that `vendor` holds everything, fetching what is missing.
pub fn run(vendor: &Path, sources: &Sources) -> Result<()> {
    check_platform(std::env::consts::OS, std::env::consts::ARCH)?;
    lay(vendor, sources, &MUJOCO, &ROBOTS)
}

fn check_platform(os: &str, arch: &str) -> Result<()> {
    ensure!(
        os == "linux" && arch == "x86_64",
        "this is {os} on {arch}, but the pinned MuJoCo library is for Linux on x86_64: use such a machine or container"
    );
    Ok(())
}

/// `mujoco` and `robots` are [`MUJOCO`] and [`ROBOTS`], except in tests, which pin small files of their own.
fn lay(vendor: &Path, sources: &Sources, mujoco: &'static Wheel, robots: &'static Wheel) -> Result<()> {
    remove_stale_partials(vendor);
    let mut staged = Staged::new(vendor);

    match &sources.mujoco {
        Some(folder) => stage_own_library(&mut staged, folder, &mujoco.files[0])?,
        None => stage_wheel(&mut staged, sources, mujoco)?,
    }
    if fs::read_link(vendor.join("mujoco").join(LINK)).ok().as_deref() != Some(Path::new(LIBRARY)) {
        staged.link(Path::new(LIBRARY), &format!("mujoco/{LINK}"))?;
    }
    match &sources.assets {
        Some(folder) => stage_own_assets(&mut staged, folder, robots)?,
        None => stage_wheel(&mut staged, sources, robots)?,
    }

    let changed = staged.move_into_place()?;
    let verb = if changed { "now" } else { "already" };
    println!("setup: MuJoCo {} and the robots' files are {verb} in {}", mujoco.version, vendor.display());
    Ok(())
}

/// Fetches the files of a wheel that are missing or differ from their pin.
fn stage_wheel(staged: &mut Staged, sources: &Sources, wheel: &'static Wheel) -> Result<()> {
    let missing: Vec<&Pinned> = staged.not_in_place(wheel);
    if missing.is_empty() {
        return Ok(());
    }
    println!("setup: fetching {} {} from the Python package index", wheel.package, wheel.version);
    let file = download(&sources.python, wheel, staged.folder()?).map_err(|error| anyhow!("{error}, {WAY_OUT}"))?;
    for pinned in missing {
        let bytes = extract(&sources.python, &file, pinned.member)?;
        let found = sha256(&bytes);
        ensure!(
            found == pinned.sha256,
            "{} in the fetched wheel {} {} has sha256 {found}, but {} is pinned: nothing was installed; check which package \
             index pip uses (python3 -m pip config list) and run the command again, {WAY_OUT}",
            pinned.member,
            wheel.package,
            wheel.version,
            pinned.sha256
        );
        staged.file(&bytes, pinned.place)?;
    }
    Ok(())
}

/// Downloads a wheel into `folder` and returns its path.
fn download(python: &Python, wheel: &Wheel, folder: &Path) -> Result<PathBuf> {
    let requirement = format!("{}=={}", wheel.package, wheel.version);
    let purpose = format!("download {} {}", wheel.package, wheel.version);
    let attempt = |target: &[&str]| {
        let mut command = python.pip(folder);
        command
            .args(["download", "--no-deps", "--only-binary", ":all:", "-d"])
            .arg(folder)
            .args(target)
            .arg(&requirement);
        python.run(&mut command, &purpose)
    };
    if let Err(error) = attempt(&[]) {
        // We only unpack the wheel, so one for another version of Python serves as well: this is for machines
        // whose own Python is too old or too new to have wheels of this release.
        if !offers_no_such_wheel(&error) {
            return Err(error);
        }
        attempt(&[
            "--python-version=3.12",
            "--implementation=cp",
            "--abi=cp312",
            "--platform=manylinux_2_27_x86_64",
            "--platform=manylinux_2_28_x86_64",
        ])?;
    }
    let prefix = format!("{}-{}-", wheel.package, wheel.version);
    let entries = fs::read_dir(folder).map_err(|error| explain_io(folder, error))?;
    entries
        .flatten()
        .find(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with(&prefix) && name.ends_with(".whl")
        })
        .map(|entry| entry.path())
        .with_context(|| {
            format!("pip reported success but left no wheel of {requirement}: update pip and run the command again")
        })
}

/// The bytes of one member of a wheel (a zip file). Python unpacks it, so that we need no zip library of our own.
fn extract(python: &Python, wheel: &Path, member: &str) -> Result<Vec<u8>> {
    const PROGRAM: &str =
        "import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))";
    let purpose = format!("read {member} from the fetched wheel");
    let output = python.run(python.command().args(["-c", PROGRAM]).arg(wheel).arg(member), &purpose)?;
    Ok(output.stdout)
}

/// Links the library of a MuJoCo that the user names.
///
/// Other builds of the same release (the one on MuJoCo's download page, or the user's own) have other bytes than the
/// wheel's, so a different hash is allowed here and only mentioned; another release or platform is refused.
fn stage_own_library(staged: &mut Staged, folder: &Path, pinned: &Pinned) -> Result<()> {
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
    if sha256(&bytes) != pinned.sha256 {
        ensure!(
            is_the_library(&bytes),
            "{} is not MuJoCo 3.17.0 for Linux on x86_64: correct SSKP_MUJOCO_DIR, or unset it to have MuJoCo fetched",
            library.display()
        );
        println!(
            "setup: {} is another build than the pinned one: last digits of results may differ",
            library.display()
        );
    }
    // Comparing resolved paths also keeps the vendor folder itself, named here, from becoming a link to itself.
    if staged.vendor.join(pinned.place).canonicalize().ok().as_deref() != Some(library.as_path()) {
        staged.link(&library, pinned.place)?;
    }
    Ok(())
}

/// Whether these are the bytes of a 64-bit x86 ELF file that carries the library's name.
fn is_the_library(bytes: &[u8]) -> bool {
    let class_64_little_endian = bytes.starts_with(b"\x7fELF\x02\x01");
    let machine_x86_64 = bytes.get(18..20) == Some(&[62, 0]);
    let name = [b"\0", LIBRARY.as_bytes(), b"\0"].concat();
    class_64_little_endian && machine_x86_64 && bytes.windows(name.len()).any(|window| window == name)
}

/// Copies the robots' files from a folder that the user names. They are small, so unlike the library they are copied.
fn stage_own_assets(staged: &mut Staged, folder: &Path, wheel: &'static Wheel) -> Result<()> {
    for pinned in staged.not_in_place(wheel) {
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
        staged.file(&bytes, pinned.place)?;
    }
    Ok(())
}

/// Files that are complete but not yet in place. Dropping it removes what was not moved.
struct Staged {
    vendor: PathBuf,
    partial: PathBuf,
    places: Vec<String>,
}

impl Staged {
    fn new(vendor: &Path) -> Staged {
        let partial = vendor.join(format!("{PARTIAL}{}", std::process::id()));
        Staged { vendor: vendor.to_path_buf(), partial, places: Vec::new() }
    }

    /// The files of `wheel` that are missing from the vendor folder or have the wrong content.
    fn not_in_place(&self, wheel: &'static Wheel) -> Vec<&'static Pinned> {
        let wrong = |pinned: &&Pinned| match fs::read(self.vendor.join(pinned.place)) {
            Ok(bytes) if sha256(&bytes) == pinned.sha256 => false,
            Ok(_) => {
                println!("setup: {} differs from the pinned file and will be replaced", pinned.place);
                true
            }
            Err(_) => true,
        };
        wheel.files.iter().filter(wrong).collect()
    }

    /// The folder to work in, made when it is first needed: a set-up that finds everything in place writes nothing.
    fn folder(&self) -> Result<&Path> {
        fs::create_dir_all(&self.partial).map_err(|error| explain_io(&self.vendor, error))?;
        Ok(&self.partial)
    }

    fn file(&mut self, bytes: &[u8], place: &str) -> Result<()> {
        let path = self.staging_path(place)?;
        let write = || -> io::Result<()> {
            let mut file = fs::File::create(&path)?;
            file.write_all(bytes)?;
            // The rename must not reach the disk before the content does.
            file.sync_all()
        };
        write().map_err(|error| explain_io(&self.vendor, error))?;
        self.places.push(place.to_owned());
        Ok(())
    }

    fn link(&mut self, target: &Path, place: &str) -> Result<()> {
        let path = self.staging_path(place)?;
        symlink(target, &path).map_err(|error| explain_io(&self.vendor, error))?;
        self.places.push(place.to_owned());
        Ok(())
    }

    fn staging_path(&self, place: &str) -> Result<PathBuf> {
        let path = self.folder()?.join("done").join(place);
        let parent = path.parent().expect("a place is below the folder");
        fs::create_dir_all(parent).map_err(|error| explain_io(&self.vendor, error))?;
        Ok(path)
    }

    /// Renames everything into place; says whether there was anything.
    fn move_into_place(self) -> Result<bool> {
        for place in &self.places {
            let target = self.vendor.join(place);
            let parent = target.parent().expect("a place is below the folder");
            fs::create_dir_all(parent)
                .and_then(|()| fs::rename(self.partial.join("done").join(place), &target))
                .map_err(|error| explain_io(&target, error))?;
        }
        Ok(!self.places.is_empty())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Best effort: what cannot be removed now is removed by the next set-up.
        let _ = fs::remove_dir_all(&self.partial);
    }
}

const PARTIAL: &str = ".partial-";

/// Removes what interrupted set-ups left behind. A folder whose process still runs belongs to a set-up in progress.
fn remove_stale_partials(vendor: &Path) {
    for entry in fs::read_dir(vendor).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|name| name.strip_prefix(PARTIAL)) else { continue };
        let running = process != std::process::id().to_string() && Path::new("/proc").join(process).exists();
        if !running {
            // Best effort, as in `Staged::drop`: a left-over folder does no harm.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// What to do about an error while writing at `path`.
fn explain_io(path: &Path, error: io::Error) -> Error {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            anyhow!("the disk that holds {path} is full: free about 50 MB and run the command again")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            anyhow!("{path} cannot be written ({error}): make it writable for this user and run the command again")
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::AlreadyExists => {
            anyhow!(
                "{path} cannot be written ({error}): something else is in the way there; move it and run the command again"
            )
        }
        _ => anyhow!("{path} cannot be written: {error}"),
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
