//! Demonstrations on disk: Minari's HDF5 layout for our own sets, and DSRL and D4RL files of other people.
//!
//! [`open`] reads any of them into [`Demonstrations`]; [`Set`] keeps what the file says as it says it, for
//! [`check`](check::check), `sskp data info` and the dataset card.
//!
//! ```
//! use sskp_lab::data::{About, Set, check::check, open, write_minari};
//! use sskp_lab::registry::Registry;
//!
//! # let folder = std::env::temp_dir().join(format!("sskp-data-example-{}", std::process::id()));
//! // Your own come from `Demonstrations::play`, or from whatever recorded them.
//! let demos = sskp_blocks::toy::demonstrations(9);
//! let set = write_minari(&folder, "toy/shaken-v0", &demos, &[], &About::default())?;
//! assert_eq!(open(&set)?, demos); // what `--demos` and `run.demos` read
//! let report = check(&Registry::standard(), &Set::open(&set)?, None)?;
//! assert!(report.fine() && report.problems.is_empty());
//! # std::fs::remove_dir_all(folder).unwrap();
//! # Ok::<(), sskp_blocks::Error>(())
//! ```

pub mod card;
pub mod check;
pub mod collect;
mod convert;
mod flat;
mod hdf5;
mod json;
mod minari;
mod stats;

use std::fs;
use std::path::{Path, PathBuf};

pub use convert::{CostFrom, convert, recost};
pub use hdf5::Array;
use serde::Serialize;
use serde_json::{Map, Value};
use sskp_blocks::demos::{Demonstrations, Ending, Trajectory};
use sskp_blocks::{Error, Result};
pub use stats::Stats;

use crate::wording::{plural, verb};

/// How a set is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A folder with one group per episode (<https://minari.farama.org>).
    Minari,
    /// One flat file with costs (<https://github.com/liuzuxin/DSRL>).
    Dsrl,
    /// One flat file without costs (<https://github.com/Farama-Foundation/D4RL>).
    D4rl,
}

impl Format {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Format::Minari => "Minari HDF5",
            Format::Dsrl => "DSRL HDF5",
            Format::D4rl => "D4RL HDF5",
        }
    }
    /// Where it keeps costs.
    pub fn cost_field(self) -> &'static str {
        match self {
            Format::Minari => "infos/cost",
            Format::Dsrl | Format::D4rl => "costs",
        }
    }
    /// How many costs an episode of `steps` steps has: Minari's begin with that of the reset.
    fn cost_count(self, steps: usize) -> usize {
        steps + usize::from(self == Format::Minari)
    }
}

/// An episode as the file has it: lengths may be wrong.
#[derive(Clone, Debug, Default)]
pub struct Episode {
    /// Its name in the file: a group, or a range of rows.
    pub label: String,
    /// States, one more than steps.
    pub observations: Array,
    /// Actions.
    pub actions: Array,
    /// Rewards.
    pub rewards: Vec<f32>,
    /// Costs as stored, if the file has any.
    pub costs: Option<Vec<f32>>,
    /// Terminated, by step.
    pub terminations: Vec<bool>,
    /// Truncated, by step.
    pub truncations: Vec<bool>,
}

impl Episode {
    /// Steps.
    pub fn steps(&self) -> usize {
        self.rewards.len()
    }

    /// c_0 … c_{T−1}, when there are as many as the format asks for.
    fn step_costs(&self, format: Format) -> Option<&[f32]> {
        let costs = self.costs.as_ref()?;
        let count = format.cost_count(self.steps());
        (costs.len() == count).then(|| &costs[count - self.steps()..])
    }

    /// Whether some step has a cost.
    fn violates(&self, format: Format) -> bool {
        self.step_costs(format).is_some_and(|costs| costs.iter().any(|c| *c > 0.0))
    }
}

/// A set as its files have it.
pub struct Set {
    /// The HDF5 file.
    pub file: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// How it is stored.
    pub format: Format,
    /// The robot's registry name, or empty.
    pub env: String,
    /// Numbers in an observation.
    pub obs_dim: usize,
    /// Numbers in an action.
    pub action_dim: usize,
    /// Everything the set says about itself.
    pub metadata: Map<String, Value>,
    /// The episodes.
    pub episodes: Vec<Episode>,
    /// What already did not fit together when reading: (kind, where).
    pub(crate) misfits: Vec<(&'static str, String)>,
}

/// Opens demonstrations: a Minari folder, its `data` folder, or an HDF5 file in Minari's, DSRL's or D4RL's layout.
pub fn open(path: &Path) -> Result<Demonstrations> {
    Set::open(path)?.into_demonstrations()
}

impl Set {
    /// Reads a set without judging it, beyond what makes it unreadable.
    pub fn open(path: &Path) -> Result<Self> {
        let file = locate(path)?;
        let metadata = minari::metadata_beside(&file)?;
        let reader = hdf5::Reader::open(&file)?;
        let mut set = Self {
            bytes: reader.bytes(),
            format: Format::Minari,
            env: String::new(),
            obs_dim: 0,
            action_dim: 0,
            metadata,
            episodes: Vec::new(),
            misfits: Vec::new(),
            file,
        };
        if let Some(groups) = minari::episodes(&reader)? {
            minari::read(groups, &mut set)?;
        } else {
            flat::read(&reader.root(), &mut set)?;
        }
        let first = set.episodes.first().ok_or_else(|| Error::other(format!("{}: no episode", set.file.display())))?;
        (set.obs_dim, set.action_dim) = (first.observations.cols, first.actions.cols);
        if set.obs_dim == 0 || set.action_dim == 0 {
            let text = format!("{}: {}: observations or actions have no column", set.file.display(), first.label);
            return Err(Error::other(text));
        }
        set.env = set.guess_env();
        Ok(set)
    }

    /// What sskp itself wrote about how the set was made.
    pub fn provenance(&self) -> Option<&Map<String, Value>> {
        self.metadata.get("sskp")?.as_object()
    }

    /// The same as a flat list: nested keys are joined by dots.
    pub fn provenance_rows(&self) -> Vec<(String, String)> {
        fn walk(prefix: &str, value: &Value, rows: &mut Vec<(String, String)>) {
            match value {
                Value::Object(map) => {
                    for (key, value) in map {
                        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                        walk(&name, value, rows);
                    }
                }
                Value::String(text) => rows.push((prefix.into(), text.clone())),
                other => rows.push((prefix.into(), other.to_string())),
            }
        }
        let mut rows = Vec::new();
        if let Some(value) = self.metadata.get("sskp") {
            walk("", value, &mut rows);
        }
        rows
    }

    /// Numbers and provenance as one JSON object.
    pub fn to_json(&self) -> String {
        let mut all = serde_json::to_value(Stats::of(self)).expect("plain data");
        all["provenance"] = self.metadata.get("sskp").cloned().unwrap_or(Value::Null);
        serde_json::to_string_pretty(&all).expect("plain data")
    }

    /// Minari's id, or the file's name.
    pub fn id(&self) -> String {
        let id = self.metadata.get("dataset_id").and_then(Value::as_str);
        id.map_or_else(|| self.file.file_name().unwrap_or_default().to_string_lossy().into_owned(), String::from)
    }

    /// The robot: what we wrote ourselves, else a part of the set's id that is the name of one of our robots.
    fn guess_env(&self) -> String {
        if let Some(env) = self.provenance().and_then(|p| p.get("env")).and_then(Value::as_str) {
            return env.into();
        }
        let id = self.id().to_lowercase().replace("halfcheetah", "cheetah");
        let mut parts = id.split(|c: char| !c.is_alphanumeric());
        let robots = sskp_robots::robots();
        parts.find(|part| robots.iter().any(|robot| robot.name == *part)).unwrap_or_default().into()
    }

    /// What is wrong with the arrays of an episode, with the field's name first.
    fn defect(&self, episode: &Episode) -> Option<String> {
        let steps = episode.steps();
        if episode.observations.cols != self.obs_dim {
            return Some(format!("observations: {} numbers a row, not {}", episode.observations.cols, self.obs_dim));
        }
        if episode.actions.cols != self.action_dim {
            return Some(format!("actions: {} numbers a row, not {}", episode.actions.cols, self.action_dim));
        }
        let mut lengths = vec![
            ("observations", episode.observations.rows, steps + 1),
            ("actions", episode.actions.rows, steps),
            ("terminations", episode.terminations.len(), steps),
            ("truncations", episode.truncations.len(), steps),
        ];
        if let Some(costs) = &episode.costs {
            lengths.push((self.format.cost_field(), costs.len(), self.format.cost_count(steps)));
        }
        let wrong = lengths.into_iter().find(|(_, got, needed)| got != needed);
        wrong.map(|(field, got, needed)| {
            let [steps, got, needed] = [steps, got, needed].map(|n| n as u64);
            let (need, are) = (verb(steps, "needs", "need"), verb(got, "is", "are"));
            format!("{field}: {} {need} {}, there {are} {got}", plural(steps, "step"), plural(needed, "row"))
        })
    }

    /// The set in memory, as the methods take it. The first thing that does not fit is an error with file, episode and
    /// field. A file without costs gives costs of 0.
    pub fn into_demonstrations(self) -> Result<Demonstrations> {
        let at = |label: &str, what: &str| Error::other(format!("{}: {label}: {what}", self.file.display()));
        if let Some((kind, place)) = self.misfits.first() {
            return Err(at(kind, place));
        }
        for episode in &self.episodes {
            if let Some(defect) = self.defect(episode) {
                return Err(at(&episode.label, &defect));
            }
        }
        let mut demos = Demonstrations::new(self.env, self.obs_dim, self.action_dim);
        for episode in self.episodes {
            let costs = match episode.step_costs(self.format) {
                Some(costs) => costs.to_vec(),
                None => vec![0.0; episode.steps()],
            };
            let last = |flags: &[bool]| flags.last().copied().unwrap_or(false);
            let end = match (last(&episode.terminations), last(&episode.truncations)) {
                (true, _) if costs.last().is_some_and(|c| *c > 0.0) => Ending::Violation,
                (true, _) => Ending::Terminated,
                (false, true) => Ending::Truncated,
                (false, false) => Ending::Cut,
            };
            let trajectory = Trajectory {
                observations: episode.observations.data,
                actions: episode.actions.data,
                rewards: episode.rewards,
                costs,
                end,
            };
            // `push` would count episodes, which is not how the file names them.
            if let Some(defect) = trajectory.defect(demos.obs_dim, demos.action_dim) {
                return Err(Error::other(format!("{}: {}: {defect}", self.file.display(), episode.label)));
            }
            demos.push(trajectory)?;
        }
        Ok(demos)
    }
}

/// The HDF5 file a path means.
fn locate(path: &Path) -> Result<PathBuf> {
    let kind = fs::metadata(path).map_err(|e| Error::io(path, e))?;
    if kind.is_file() {
        return Ok(path.into());
    }
    let inner = path.join("data");
    let folder = if inner.is_dir() { inner } else { path.to_path_buf() };
    let file = folder.join(minari::DATA);
    if file.is_file() {
        return Ok(file);
    }
    let metadata = minari::metadata_beside(&file)?;
    let format = metadata.get("data_format").and_then(Value::as_str).unwrap_or("none");
    Err(Error::other(match format {
        "arrow" => format!(
            "{}: this Minari set is stored as Arrow; only HDF5 can be read here. In Python, \
             minari.create_dataset_from_buffers(…, data_format=\"hdf5\") writes its episodes as HDF5",
            folder.display()
        ),
        _ => format!("{}: no Minari set: there is no {}", folder.display(), minari::DATA),
    }))
}

/// What a set says about itself when it is written.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The method whose agent acted.
    pub algorithm: String,
    /// One or two sentences.
    pub description: String,
    /// How it was made, under the key `sskp`.
    pub provenance: Map<String, Value>,
}

/// How an episode of ours was played, kept as attributes of its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Played {
    /// Standard deviation of the noise added to the actions.
    pub noise: f64,
    /// From this step on it was pushed, if at all.
    pub pushed_from: Option<u64>,
    /// Standard deviation of the pushes.
    pub push: f64,
}

/// Rounds to a multiple of 2^−bits, half to even: an error of at most 2^−(bits + 1). Float32 noise does not pack, and
/// nobody learns from it.
pub fn round_to_bits(x: f32, bits: u32) -> f32 {
    // Exact in both directions: a power of two only moves the exponent.
    let scale = (1_u64 << bits) as f32;
    (x * scale).round_ties_even() / scale
}

/// Writes a Minari set `id` under `root` and gives its folder. All or nothing; one that exists is refused.
pub fn write_minari(
    root: &Path,
    id: &str,
    demos: &Demonstrations,
    played: &[Played],
    about: &About,
) -> Result<PathBuf> {
    minari::write(root, id, demos, played, about)
}

/// Writes one flat file as DSRL has it. All or nothing; one that exists is refused.
pub fn write_dsrl(file: &Path, demos: &Demonstrations, about: &About) -> Result<()> {
    flat::write(file, demos, about)
}

/// Refuses what [`write_minari`] would refuse, before an hour of collecting.
pub fn check_target(root: &Path, id: &str) -> Result<PathBuf> {
    minari::target(root, id)
}

/// SHA-256 of a file, in hexadecimal.
pub fn fingerprint(file: &Path) -> Result<String> {
    let bytes = fs::read(file).map_err(|e| Error::io(file, e))?;
    Ok(sskp_blocks::checkpoint::sha256(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_keeps_the_bits_it_promises() {
        // Quarters: half goes to even.
        assert_eq!(
            [0.1, 0.13, 0.125, 0.375, -0.88, 7.3].map(|x| round_to_bits(x, 2)),
            [0.0, 0.25, 0.0, 0.5, -1.0, 7.25]
        );
        let x = 0.123_456_79_f32;
        for bits in 1..20 {
            assert!((round_to_bits(x, bits) - x).abs() <= 0.5_f32.powi(bits as i32 + 1), "{bits}");
            assert_eq!(round_to_bits(round_to_bits(x, bits), bits), round_to_bits(x, bits));
        }
        assert!(round_to_bits(f32::NAN, 8).is_nan());
    }
}
