//! `manifest.json` of a run: what made its rows. Whoever has the same binary, MuJoCo, settings and demonstrations, and the same
//! kind of CPU, gets the same rows.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use sskp_blocks::Result;
use sskp_blocks::checkpoint::sha256;

use crate::config::Config;
use sskp_blocks::files::write_whole;

/// What the file holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunManifest {
    /// Identity of the run, as in the manifests of its checkpoints: the hash of all settings that decide its rows.
    pub run: String,
    /// Hash of `config.toml`.
    pub config_sha256: String,
    /// Hash of the demonstrations' content, for methods that begin with some.
    pub demos_sha256: Option<String>,
    /// Hash of the skill model's file, where one was named.
    pub skills_sha256: Option<String>,
    /// Threads of the learner.
    pub threads: usize,
    /// Who made which rows: a run that was resumed by another binary, or on another kind of machine, has several.
    pub parts: Vec<Part>,
}

/// Rows made by one binary on one kind of machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Environment steps after which it took over.
    pub steps: u64,
    /// Version of sskp.
    pub version: String,
    /// The commit it was built from, as `SSKP_COMMIT` or git said then; "+changes" behind it where the sources were not quite those.
    /// None outside of a repository.
    pub commit: Option<String>,
    /// Hash of the binary.
    pub binary_sha256: Option<String>,
    /// Hash of the robot's model as compiled into the binary; none for the toy.
    pub model_sha256: Option<String>,
    /// Version of MuJoCo's library, as it says itself.
    pub mujoco: String,
    /// Architecture and system.
    pub target: String,
    /// Features of the CPU that matrix kernels are chosen by.
    pub cpu: Vec<String>,
}

/// What makes the rows where it is a library of another program, like a module of Python's.
static LIBRARY: OnceLock<PathBuf> = OnceLock::new();

/// Says that what makes the rows is this file, and not the program that runs. To be called once, before the first run.
pub fn made_by(library: PathBuf) {
    let _ = LIBRARY.set(library);
}

/// Hash of the running binary; none where it cannot be read.
fn binary() -> Option<String> {
    static HASH: OnceLock<Option<String>> = OnceLock::new();
    let read = || match LIBRARY.get() {
        Some(library) => fs::read(library),
        // On Linux this name is the program that runs, also when a new build has taken its place.
        None => fs::read("/proc/self/exe").or_else(|_| fs::read(std::env::current_exe()?)),
    };
    HASH.get_or_init(|| read().ok().map(sha256)).clone()
}

fn cpu() -> Vec<String> {
    #[cfg(target_arch = "x86_64")]
    let features = [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let features: [(&str, bool); 0] = [];
    features.iter().filter(|(_, there)| *there).map(|(name, _)| name.to_string()).collect()
}

impl Part {
    /// This process, from `steps` on.
    pub(crate) fn here(model: Option<&str>, steps: u64) -> Self {
        Self {
            steps,
            version: env!("CARGO_PKG_VERSION").into(),
            commit: option_env!("SSKP_COMMIT").map(String::from),
            binary_sha256: binary(),
            model_sha256: model.map(sha256),
            mujoco: sskp_robots::MUJOCO_VERSION.into(),
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            cpu: cpu(),
        }
    }
}

impl fmt::Display for Part {
    /// "sskp 0.1.0, commit 529da04c01d2, binary dc74fa0fb186".
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "sskp {}", self.version)?;
        if let Some(commit) = &self.commit {
            write!(f, ", commit {commit}")?;
        }
        match &self.binary_sha256 {
            Some(hash) => write!(f, ", binary {}", &hash[..hash.len().min(12)]),
            None => Ok(()),
        }
    }
}

/// Writes the manifest of the run in `folder`, which this process goes on with after `steps`. Parts that stand there already
/// stay, as far as their rows do.
pub fn write(folder: &Path, config: &Config, model: Option<&str>, steps: u64) -> Result<()> {
    let file = folder.join("manifest.json");
    // A run begun before there were manifests goes on; of its first rows nothing is known.
    let there = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice::<RunManifest>(&bytes).ok());
    let parts = there.map_or(Vec::new(), |manifest| manifest.parts);
    let known = |hash: &str| Some(hash.to_string()).filter(|hash| !hash.is_empty());
    let manifest = RunManifest {
        run: config.identity(),
        config_sha256: sha256(config.to_toml()),
        demos_sha256: known(&config.run.demos_sha256),
        skills_sha256: known(&config.run.skills_sha256),
        threads: config.run.threads,
        parts: take_over(parts, Part::here(model, steps)),
    };
    let text = serde_json::to_string_pretty(&manifest).expect("plain data") + "\n";
    write_whole(&file, text.as_bytes())
}

/// The parts, once `next` goes on: rows after its step are its own, and those of a part that had come further are gone.
fn take_over(mut parts: Vec<Part>, next: Part) -> Vec<Part> {
    parts.retain(|part| part.steps < next.steps);
    let same = parts.last().is_some_and(|last| *last == Part { steps: last.steps, ..next.clone() });
    if !same {
        parts.push(next);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Overrides, RunConfig};

    fn part(steps: u64, binary: &str) -> Part {
        Part {
            steps,
            version: "1".into(),
            commit: None,
            binary_sha256: Some(binary.into()),
            model_sha256: None,
            mujoco: "3".into(),
            target: "x".into(),
            cpu: vec![],
        }
    }

    #[test]
    fn parts_say_who_made_which_rows() {
        let a = take_over(vec![], part(0, "a"));
        assert_eq!(a, [part(0, "a")]);
        assert_eq!(take_over(a.clone(), part(300, "a")), a, "the same binary goes on");
        let ab = take_over(a.clone(), part(300, "b"));
        assert_eq!(ab, [part(0, "a"), part(300, "b")]);
        assert_eq!(take_over(ab.clone(), part(300, "b")), ab, "killed before its first checkpoint");
        assert_eq!(take_over(ab.clone(), part(200, "a")), a, "back before b came: its rows are gone");
        assert_eq!(take_over(ab.clone(), part(400, "a")), [ab.clone(), vec![part(400, "a")]].concat());
        assert_eq!(take_over(ab, part(0, "c")), [part(0, "c")], "begun again");
        assert_eq!(take_over(vec![], part(500, "a")), [part(500, "a")], "nothing is known of the first rows");
        let elsewhere = Part { cpu: vec!["avx2".into()], ..part(300, "a") };
        assert_eq!(take_over(a.clone(), elsewhere.clone()), [a, vec![elsewhere]].concat(), "another machine");
    }

    #[test]
    fn a_manifest_names_what_can_be_hashed_again() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunConfig::new("sac", "hopper", 0, 100);
        let config = Config::resolve(&Default::default(), run, &Overrides::default()).unwrap();
        write(folder.path(), &config, Some("<model/>"), 0).unwrap();
        let read = || -> RunManifest {
            serde_json::from_slice(&fs::read(folder.path().join("manifest.json")).unwrap()).unwrap()
        };
        let manifest = read();
        assert_eq!(manifest.config_sha256, sha256(config.to_toml()));
        assert_eq!((manifest.demos_sha256, manifest.parts.len()), (None, 1));
        let part = &manifest.parts[0];
        assert_eq!(part.binary_sha256, Some(sha256(fs::read(std::env::current_exe().unwrap()).unwrap())));
        assert_eq!(part.model_sha256, Some(sha256("<model/>")));
        assert!(part.mujoco.split('.').count() == 3 && part.mujoco.starts_with("3."), "{}", part.mujoco);
        // Another binary goes on, for longer.
        let text = fs::read_to_string(folder.path().join("manifest.json")).unwrap();
        let other = text.replace(part.binary_sha256.as_ref().unwrap(), "another");
        fs::write(folder.path().join("manifest.json"), other).unwrap();
        let mut longer = config.clone();
        longer.run.total_steps = 200;
        write(folder.path(), &longer, Some("<model/>"), 50).unwrap();
        let both = read();
        assert_eq!(both.parts.iter().map(|p| p.steps).collect::<Vec<_>>(), [0, 50]);
        assert_eq!(both.parts[0].binary_sha256.as_deref(), Some("another"));
        assert_eq!((both.run, both.config_sha256), (manifest.run, sha256(longer.to_toml())));
    }
}
