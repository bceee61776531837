//! Set-up against a `python3` of our own: a shell script that plays pip and hands everything else to the real one.

use std::fs;
use std::io;
use std::process::Command;

use tempfile::TempDir;

use super::*;
use crate::own::is_the_library;
use crate::staged::{PARTIAL, explain_io};
use crate::testing::write_script;

/// Small stand-ins for the real wheels: same places, contents "library", "header", "ant" and "hopper".
const TEST_MUJOCO: Wheel = Wheel {
    package: "mujoco",
    version: "3.17.0",
    files: &[
        Pinned {
            member: "mujoco/libmujoco.so.3.17.0",
            place: "mujoco/libmujoco.so.3.17.0",
            sha256: "b718f1354f7247312eca086d9a024afe5fa717ddea5adeddd6f12bcf945b2e8c",
        },
        Pinned {
            member: "mujoco/include/mujoco/mujoco.h",
            place: "mujoco/include/mujoco/mujoco.h",
            sha256: "1e0584a25d9f43bf5cbd0aec01eb1af2220ed085b4e7f1837b0d89958cae353a",
        },
    ],
};
const TEST_ROBOTS: Wheel = Wheel {
    package: "gymnasium",
    version: "1.4.0",
    files: &[
        Pinned {
            member: "assets/ant.xml",
            place: "assets/ant.xml",
            sha256: "67a333356cdc566e6e346b5718447308ec0e25f47e623161fb03962b327a651f",
        },
        Pinned {
            member: "assets/hopper.xml",
            place: "assets/hopper.xml",
            sha256: "392a5bcbd71a7db2cfb9796c633326f7fba6730bdb0c801d3b0fd30886821000",
        },
    ],
};

/// A scratch folder with a fake `python3`, a package index (a folder of wheels) and an empty place to fill.
struct Scene {
    folder: TempDir,
}

impl Scene {
    /// `pip` is the shell code that runs in place of `python3 -m pip …`. In it, `$into` is the folder to download into,
    /// `$requirement` the wheel asked for, and `$index` the folder of wheels.
    fn new(pip: &str) -> Scene {
        let scene = Scene { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(scene.path("index")).unwrap();
        let script = format!(
            "if [ \"$2\" != pip ]; then exec python3 \"$@\"; fi\n\
             index='{index}'\n\
             echo \"$*\" >> '{calls}'\n\
             for word; do [ \"$before\" = -d ] && into=$word; before=$word; done\n\
             requirement=$before\n\
             {pip}",
            index = scene.path("index").display(),
            calls = scene.path("calls").display(),
        );
        write_script(&scene.path("python3"), &script);
        scene
    }

    /// A working pip and an index with the right wheels.
    fn working() -> Scene {
        let scene = Scene::new(SERVE);
        scene.publish_all();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts a wheel into the index.
    fn publish(&self, name: &str, members: &[(&str, &str)]) {
        let program = "import sys, zipfile\n\
                       with zipfile.ZipFile(sys.argv[1], 'w') as wheel:\n\
                       \tfor i in range(2, len(sys.argv), 2): wheel.writestr(sys.argv[i], sys.argv[i + 1])";
        let mut command = Command::new("python3");
        command.args(["-c", program]).arg(self.path("index").join(name));
        for (member, content) in members {
            command.args([member, content]);
        }
        assert!(command.status().unwrap().success());
    }

    /// Puts the right wheels into the index.
    fn publish_all(&self) {
        self.publish(
            "mujoco-3.17.0-cp312-cp312-manylinux.whl",
            &[("mujoco/libmujoco.so.3.17.0", "library"), ("mujoco/include/mujoco/mujoco.h", "header")],
        );
        self.publish("gymnasium-1.4.0-py3-none-any.whl", &[("assets/ant.xml", "ant"), ("assets/hopper.xml", "hopper")]);
    }

    fn sources(&self) -> Sources {
        Sources { python: Python::new(self.path("python3")), mujoco: None, assets: None }
    }

    fn vendor(&self) -> PathBuf {
        self.path("vendor")
    }

    fn set_up(&self) -> Result<()> {
        self.set_up_with(&self.sources())
    }

    fn set_up_with(&self, sources: &Sources) -> Result<()> {
        mujoco(&self.vendor(), sources, &TEST_MUJOCO)?;
        assets(&self.vendor(), sources, &TEST_ROBOTS).map(|_| ())
    }

    /// The one sentence that a failing set-up gives.
    fn failure(&self) -> String {
        self.failure_with(&self.sources())
    }

    fn failure_with(&self, sources: &Sources) -> String {
        let sentence = format!("{:#}", self.set_up_with(sources).unwrap_err());
        assert!(!sentence.contains('\n'), "more than one line: {sentence}");
        sentence
    }

    /// Every file and link below the vendor folder, by its path there.
    fn laid(&self) -> Vec<String> {
        fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    walk(&entry.path(), found);
                } else {
                    found.push(entry.path());
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.vendor(), &mut found);
        let mut names: Vec<String> =
            found.iter().map(|path| path.strip_prefix(self.vendor()).unwrap().display().to_string()).collect();
        names.sort();
        names
    }

    fn partials(&self) -> usize {
        let entries = fs::read_dir(self.vendor()).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PARTIAL)).count()
    }

    fn calls_of_pip(&self) -> usize {
        fs::read_to_string(self.path("calls")).map_or(0, |calls| calls.lines().count())
    }
}

/// A pip that serves the index.
const SERVE: &str = r#"cp "$index/${requirement%%==*}-"*.whl "$into""#;

const COMPLETE: [&str; 4] =
    ["assets/ant.xml", "assets/hopper.xml", "mujoco/include/mujoco/mujoco.h", "mujoco/libmujoco.so.3.17.0"];

/// What is laid when the second wheel fails: each wheel's files come together or not at all.
const MUJOCO_ALONE: [&str; 2] = ["mujoco/include/mujoco/mujoco.h", "mujoco/libmujoco.so.3.17.0"];

#[test]
fn everything_is_fetched_once() {
    let scene = Scene::working();
    scene.set_up().unwrap();
    assert_eq!(scene.laid(), COMPLETE);
    assert_eq!(fs::read_to_string(scene.vendor().join("mujoco").join(LIBRARY)).unwrap(), "library");
    assert_eq!((scene.calls_of_pip(), scene.partials()), (2, 0));

    scene.set_up().unwrap();
    assert_eq!(scene.calls_of_pip(), 2, "a second set-up asks nobody");
}

#[test]
fn only_what_is_wrong_is_fetched_again() {
    let scene = Scene::working();
    scene.set_up().unwrap();
    fs::write(scene.vendor().join("assets/ant.xml"), "an").unwrap();
    scene.set_up().unwrap();
    assert_eq!(scene.laid(), COMPLETE);
    assert_eq!(fs::read_to_string(scene.vendor().join("assets/ant.xml")).unwrap(), "ant");
    assert_eq!(scene.calls_of_pip(), 3);
    fs::remove_file(scene.vendor().join("mujoco/include/mujoco/mujoco.h")).unwrap();
    scene.set_up().unwrap();
    assert_eq!((scene.laid(), scene.calls_of_pip()), (COMPLETE.map(String::from).to_vec(), 4));
}

#[test]
fn left_overs_of_an_interrupted_set_up_are_removed_and_those_of_a_running_one_kept() {
    let scene = Scene::working();
    // Process ids are at most 2^22 on Linux.
    let stale = scene.vendor().join(format!("{PARTIAL}99999999/done"));
    let running = scene.vendor().join(format!("{PARTIAL}1/done"));
    fs::create_dir_all(&stale).unwrap();
    fs::create_dir_all(&running).unwrap();
    scene.set_up().unwrap();
    assert!(!stale.exists());
    assert!(running.exists());
}

#[test]
fn an_interrupted_download_leaves_nothing_in_place_and_can_be_repeated() {
    // The first call of pip is killed after half a wheel. Not by SIGINT: whoever runs the tests in the background may have it ignored.
    let scene = Scene::new(&format!(
        "if [ ! -e \"$index/once\" ]; then touch \"$index/once\"; echo half > \"$into/mujoco-3.17.0-x.whl\"; kill -KILL $$; fi\n{SERVE}"
    ));
    scene.publish_all();
    assert!(scene.failure().starts_with("Python could not download mujoco 3.17.0"));
    assert_eq!((scene.laid().len(), scene.partials()), (0, 0));
    scene.set_up().unwrap();
    assert_eq!(scene.laid(), COMPLETE);
}

#[test]
fn a_missing_python_is_said() {
    let scene = Scene::working();
    fs::remove_file(scene.path("python3")).unwrap();
    let sentence = scene.failure();
    assert!(sentence.contains("python3 was not found: install Python 3"), "{sentence}");
    assert!(sentence.contains("SSKP_MUJOCO_DIR"), "{sentence}");
    assert_eq!(scene.laid().len(), 0);
}

#[test]
fn a_missing_pip_is_said() {
    let sentence = Scene::new("echo '/usr/bin/python3: No module named pip' >&2; exit 1").failure();
    assert!(sentence.starts_with("python3 has no pip: install it"), "{sentence}");
}

#[test]
fn an_unreachable_index_is_said() {
    let scene = Scene::new(
        "echo \"WARNING: Retrying after connection broken by 'NewConnectionError(Connection refused)'\" >&2\n\
         echo 'ERROR: No matching distribution found for mujoco==3.17.0' >&2; exit 1",
    );
    let sentence = scene.failure();
    assert!(sentence.starts_with("the Python package index cannot be reached"), "{sentence}");
    assert_eq!(scene.calls_of_pip(), 1, "no second try with other tags when there is no network");
    assert_eq!((scene.laid().len(), scene.partials()), (0, 0));
}

#[test]
fn a_full_disk_is_said() {
    let scene = Scene::new("echo \"OSError: [Errno 28] No space left on device: '/x'\" >&2; exit 1");
    assert!(scene.failure().starts_with("the disk is full"), "{}", scene.failure());
    // ENOSPC and EDQUOT, as our own writing meets them.
    for code in [28, 122] {
        let sentence = explain_io(Path::new("vendor"), io::Error::from_raw_os_error(code)).to_string();
        assert!(sentence.starts_with("the disk that holds vendor is full: free"), "{sentence}");
    }
}

#[test]
fn a_wrong_hash_installs_nothing_of_its_wheel() {
    let scene = Scene::working();
    scene.publish("gymnasium-1.4.0-py3-none-any.whl", &[("assets/ant.xml", "ant"), ("assets/hopper.xml", "other")]);
    let sentence = scene.failure();
    assert!(sentence.starts_with("assets/hopper.xml in the fetched wheel gymnasium 1.4.0 has sha256"), "{sentence}");
    assert_eq!((scene.laid(), scene.partials()), (MUJOCO_ALONE.map(String::from).to_vec(), 0));
}

#[test]
fn a_broken_wheel_installs_nothing_of_it() {
    let scene = Scene::working();
    fs::write(scene.path("index/gymnasium-1.4.0-py3-none-any.whl"), "no zip file").unwrap();
    let sentence = scene.failure();
    assert!(sentence.starts_with("Python could not read assets/ant.xml from the fetched wheel"), "{sentence}");
    assert_eq!((scene.laid(), scene.partials()), (MUJOCO_ALONE.map(String::from).to_vec(), 0));
}

#[test]
fn a_python_without_wheels_of_its_own_takes_those_of_another() {
    let scene = Scene::new(&format!(
        "case \"$*\" in *--abi=cp312*) ;; *)\n\
         echo 'ERROR: Could not find a version (from versions: 2.2.0)' >&2\n\
         echo 'ERROR: No matching distribution found' >&2; exit 1;; esac\n{SERVE}"
    ));
    scene.publish_all();
    scene.set_up().unwrap();
    assert_eq!(scene.laid(), COMPLETE);
}

#[test]
fn an_index_without_the_release_is_said() {
    let sentence = Scene::new("echo 'ERROR: No matching distribution found' >&2; exit 1").failure();
    assert!(sentence.starts_with("the Python package index that pip uses has no fitting wheel"), "{sentence}");
}

#[test]
fn a_folder_that_cannot_be_written_is_said() {
    // A file where the folder should be: unlike permissions, this stops root as well.
    let scene = Scene::working();
    fs::write(scene.vendor(), "").unwrap();
    let sentence = scene.failure();
    assert!(sentence.contains("vendor cannot be written") && sentence.contains("move it"), "{sentence}");
    for code in [13, 30] {
        let sentence = explain_io(Path::new("vendor"), io::Error::from_raw_os_error(code)).to_string();
        assert!(sentence.contains("make it writable"), "{sentence}");
    }
}

#[test]
fn something_in_the_way_of_a_file_is_said() {
    let scene = Scene::working();
    fs::create_dir_all(scene.vendor().join("assets/ant.xml/folder")).unwrap();
    let sentence = scene.failure();
    assert!(sentence.contains("ant.xml cannot be written"), "{sentence}");
    assert_eq!(scene.partials(), 0);
}

#[test]
fn another_platform_is_refused() {
    assert!(check_platform("linux", "x86_64").is_ok());
    assert!(check_platform("macos", "aarch64").unwrap_err().to_string().starts_with("this is macos on aarch64"));
}

/// The first lines of a header of the pinned release.
const HEADER: &str = "#define mjVERSION_HEADER 3017000\n";

#[test]
fn a_named_mujoco_is_used_where_it_lies_and_no_python_is_needed() {
    let scene = Scene::working();
    for (name, content) in [
        ("own/lib/libmujoco.so.3.17.0", "library"),
        ("own/include/mujoco/mujoco.h", HEADER),
        ("xml/ant.xml", "ant"),
        ("xml/hopper.xml", "hopper"),
    ] {
        fs::create_dir_all(scene.path(name).parent().unwrap()).unwrap();
        fs::write(scene.path(name), content).unwrap();
    }
    fs::remove_file(scene.path("python3")).unwrap();
    let lib = scene.path("own/lib").canonicalize().unwrap();
    // The folder of a release, and the folder of its library.
    for folder in ["own", "own/lib"] {
        let own = Sources { mujoco: Some(scene.path(folder)), assets: Some(scene.path("xml")), ..scene.sources() };
        let found = mujoco(&scene.vendor(), &own, &TEST_MUJOCO).unwrap();
        assert_eq!((&found.library, found.note), (&lib, None));
        assert_eq!(fs::read_to_string(found.include.join("mujoco/mujoco.h")).unwrap(), HEADER);
        let xml = assets(&scene.vendor(), &own, &TEST_ROBOTS).unwrap();
        assert_eq!(xml, scene.path("xml").canonicalize().unwrap());
    }
    assert_eq!(scene.laid().len(), 0, "nothing is copied or linked");
}

#[test]
fn headers_that_a_named_mujoco_lacks_are_fetched_and_those_of_another_release_refused() {
    let scene = Scene::working();
    fs::create_dir(scene.path("own")).unwrap();
    fs::write(scene.path("own").join(LIBRARY), "library").unwrap();
    let own = Sources { mujoco: Some(scene.path("own")), ..scene.sources() };
    let found = mujoco(&scene.vendor(), &own, &TEST_MUJOCO).unwrap();
    assert_eq!(found.include, scene.vendor().join("mujoco/include"));
    assert_eq!(scene.laid(), ["mujoco/include/mujoco/mujoco.h"]);

    fs::create_dir_all(scene.path("own/include/mujoco")).unwrap();
    fs::write(scene.path("own/include/mujoco/mujoco.h"), "#define mjVERSION_HEADER 3016000\n").unwrap();
    let sentence = scene.failure_with(&own);
    assert!(sentence.contains("mujoco.h is not the header of MuJoCo 3.17.0"), "{sentence}");
}

#[test]
fn a_link_whose_target_is_gone_is_replaced() {
    let scene = Scene::working();
    fs::create_dir_all(scene.vendor().join("mujoco")).unwrap();
    std::os::unix::fs::symlink("/nowhere/library", scene.vendor().join("mujoco").join(LIBRARY)).unwrap();
    scene.set_up().unwrap();
    assert_eq!(fs::read_to_string(scene.vendor().join("mujoco").join(LIBRARY)).unwrap(), "library");
    assert!(scene.vendor().join("mujoco").join(LIBRARY).symlink_metadata().unwrap().is_file());
}

#[test]
fn a_named_folder_without_mujoco_is_said() {
    let scene = Scene::working();
    fs::create_dir(scene.path("own")).unwrap();
    let own = Sources { mujoco: Some(scene.path("own")), ..scene.sources() };
    let sentence = scene.failure_with(&own);
    assert!(sentence.contains("there is no libmujoco.so.3.17.0 in it or in its lib folder"), "{sentence}");

    fs::write(scene.path("own").join(LIBRARY), "something else").unwrap();
    let sentence = scene.failure_with(&own);
    assert!(sentence.contains("is not MuJoCo 3.17.0"), "{sentence}");
    assert_eq!(scene.laid().len(), 0);
}

#[test]
fn another_build_of_the_same_release_is_accepted() {
    let mut elf = vec![0; 64];
    elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
    elf[18] = 62;
    elf.extend_from_slice(b"\0libmujoco.so.3.17.0\0");
    assert!(is_the_library(&elf));
    // Another release, and another machine (183 is 64-bit ARM).
    let other_release: Vec<u8> = elf[..64].iter().chain(b"\0libmujoco.so.3.16.0\0").copied().collect();
    assert!(!is_the_library(&other_release));
    elf[18] = 183;
    assert!(!is_the_library(&elf));
    assert!(!is_the_library(b""));
}

#[test]
fn named_assets_that_are_missing_or_wrong_are_said() {
    let scene = Scene::working();
    fs::create_dir(scene.path("xml")).unwrap();
    let own = Sources { assets: Some(scene.path("xml")), ..scene.sources() };
    let sentence = scene.failure_with(&own);
    assert!(sentence.starts_with("SSKP_ASSETS_DIR is ") && sentence.contains("ant.xml cannot be read"), "{sentence}");
    fs::write(scene.path("xml/ant.xml"), "aunt").unwrap();
    let sentence = scene.failure_with(&own);
    assert!(sentence.contains("ant.xml is not the file of Gymnasium 1.4.0"), "{sentence}");
}

#[test]
fn pins_are_hashes_and_places_are_distinct() {
    let files: Vec<&Pinned> = MUJOCO.files.iter().chain(ROBOTS.files).collect();
    for pinned in &files {
        assert!(pinned.sha256.len() == 64 && pinned.sha256.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
    let mut places: Vec<&str> = files.iter().map(|pinned| pinned.place).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), files.len());
    assert_eq!(MUJOCO.files[0].place, format!("mujoco/{LIBRARY}"));
    assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
