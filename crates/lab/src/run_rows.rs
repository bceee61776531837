//! Rows of runs, as reports and checks read them: out of a run directory, or out of committed files, where
//! `results/<env>/<algo>/seed-<n>.csv.gz` holds the rows of `episodes.csv` and `seed-<n>.toml` the resolved settings. Beside them lie the
//! run's other files, those that only grow with its length packed, too.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;
use sskp_blocks::record::EpisodeRow;
use sskp_blocks::{Error, Result};

use crate::config::Config;
use crate::episodes;
use sskp_blocks::files::{PendingFile, write_whole};

/// What `sskp plan-study` leaves in a folder of its own in the run directory, and committed rows have beside them.
const STUDY: &str = "plan-study.csv";
const FALLS: &str = "fall-study.csv";
/// What a run logs while it learns, online and from demonstrations. Reports do without, and nothing else can tell it afterwards.
const PROGRESS: &str = "progress.csv";
const OFFLINE: &str = "offline.json";

/// A run's settings and episodes, and what else is known of it.
#[derive(Clone, Debug)]
pub struct RunRows {
    /// The run directory or the file.
    pub source: PathBuf,
    /// Its settings.
    pub config: Config,
    /// Its episodes.
    pub episodes: Vec<EpisodeRow>,
    /// The text of the rows, as it was written.
    pub text: String,
    /// `summary.json`, where there is one: time and how it was spent.
    pub summary: Option<Value>,
    /// `manifest.json`, where there is one: what made the run.
    pub manifest: Option<Value>,
    /// `plan-study.csv`, where there is one: what the planner's iterations did to the risk.
    pub plan_study: Option<String>,
    /// `fall-study.csv`, where there is one: when falls were decided.
    pub fall_study: Option<String>,
}

impl RunRows {
    /// Reads a run directory or a file of rows.
    pub fn read(path: &Path) -> Result<Self> {
        if path.is_dir() {
            let config = crate::train::read_config(path)?;
            let inside = |name: &str| if name == STUDY { path.join("plan-study").join(name) } else { path.join(name) };
            return Self::new(path, &path.join(episodes::FILE), config, inside);
        }
        let stem = stem(path).ok_or_else(|| {
            Error::other(format!(
                "{} holds no rows: a run directory or a .csv or .csv.gz file is needed",
                path.display()
            ))
        })?;
        let settings = stem.with_extension("toml");
        if !settings.exists() {
            return Err(Error::other(format!("{} has no settings beside it: {}", path.display(), settings.display())));
        }
        let config = Config::read(&settings)?;
        Self::new(path, path, config, |name| stem.with_extension(name))
    }

    fn new(source: &Path, file: &Path, config: Config, beside: impl Fn(&str) -> PathBuf) -> Result<Self> {
        let (text, episodes) = episodes::read(file)?;
        let (summary, manifest) = (json(&beside("summary.json")), json(&beside("manifest.json")));
        let [plan_study, fall_study] = [STUDY, FALLS].map(|name| fs::read_to_string(beside(name)).ok());
        Ok(Self { source: source.into(), config, episodes, text, summary, manifest, plan_study, fall_study })
    }

    /// Environment steps of the episodes.
    pub fn steps(&self) -> u64 {
        self.episodes.last().map_or(0, |row| row.steps)
    }

    /// Whether all steps were taken.
    pub fn finished(&self) -> bool {
        self.steps() >= self.config.run.total_steps
    }

    /// Hash of the rows' text.
    pub fn sha256(&self) -> String {
        sskp_blocks::checkpoint::sha256(&self.text)
    }

    /// What a file of the run's says, out of its directory or from beside its rows, where it may be packed.
    fn beside(&self, name: &str) -> Option<String> {
        match stem(&self.source).filter(|_| self.source.is_file()) {
            None => episodes::text(&self.source.join(name)).ok(),
            Some(stem) => {
                [name, &format!("{name}.gz")].iter().find_map(|n| episodes::text(&stem.with_extension(n)).ok())
            }
        }
    }

    /// Where its committed rows lie under `folder`. Where there are several variants of a method, each has a folder of its own, named
    /// after `settings`. A place that holds the rows of other settings is refused: a report of one variant alone does not know the others.
    pub fn place(&self, folder: &Path, settings: &str) -> Result<PathBuf> {
        let run = &self.config.run;
        let mut folder = folder.join(&run.env).join(&run.algo);
        if !settings.is_empty() {
            let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '-' };
            folder.push(settings.replace(", ", "-").chars().map(plain).collect::<String>());
        }
        let file = folder.join(format!("seed-{}.csv.gz", run.seed));
        let there = folder.join(format!("seed-{}.toml", run.seed));
        if there.exists()
            && let Some(difference) = self.config.difference(&Config::read(&there)?)
        {
            return Err(Error::other(format!(
                "{} holds a run of other settings ({difference}): report both together, so that each has a place of its own, or remove it",
                file.display()
            )));
        }
        Ok(file)
    }

    /// Writes it as committed rows to the [`place`](Self::place) of its rows.
    pub fn commit(&self, file: &Path) -> Result<()> {
        let folder = file.parent().expect("a file in a folder");
        fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
        let stem = stem(file).expect("a name of rows");
        write_packed(file, self.text.as_bytes())?;
        if let Some(progress) = self.beside(PROGRESS) {
            write_packed(&stem.with_extension(format!("{PROGRESS}.gz")), progress.as_bytes())?;
        }
        if let Some(offline) = self.beside(OFFLINE) {
            write_whole(&stem.with_extension(OFFLINE), offline.as_bytes())?;
        }
        write_whole(&stem.with_extension("toml"), self.config.to_toml().as_bytes())?;
        for (name, value) in [("summary.json", &self.summary), ("manifest.json", &self.manifest)] {
            if let Some(value) = value {
                let text = serde_json::to_string_pretty(value).expect("plain data") + "\n";
                write_whole(&stem.with_extension(name), text.as_bytes())?;
            }
        }
        for (name, study) in [(STUDY, &self.plan_study), (FALLS, &self.fall_study)] {
            if let Some(study) = study {
                write_whole(&stem.with_extension(name), study.as_bytes())?;
            }
        }
        Ok(())
    }
}

/// No time and no name in the header: the same rows are the same bytes.
fn write_packed(file: &Path, bytes: &[u8]) -> Result<()> {
    let mut packed = flate2::GzBuilder::new().write(PendingFile::create(file)?, flate2::Compression::best());
    packed.write_all(bytes).map_err(|e| Error::io(file, e))?;
    packed.finish().map_err(|e| Error::io(file, e))?.commit()
}

/// `seed-0` of `seed-0.csv` and of `seed-0.csv.gz`.
fn stem(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(".csv.gz").or(name.strip_suffix(".csv"))?;
    if [STUDY, FALLS, PROGRESS].iter().any(|name| stem.ends_with(&format!(".{}", name.trim_end_matches(".csv")))) {
        return None;
    }
    Some(path.with_file_name(stem))
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// All runs and files of rows at or below these paths, in order of their names; runs that lie in the folder of another one
/// among them. What several paths or links lead to is found once.
pub fn find_runs(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for path in paths {
        let before = found.len();
        collect(path, &mut seen, &mut found)?;
        // A path that another one has led to already adds nothing, and is no mistake.
        if found.len() == before && !found.iter().any(|run| inside(run, path)) {
            let text = "holds no run: neither a run directory nor files seed-N.csv.gz with settings beside them";
            return Err(Error::other(format!("{} {text}", path.display())));
        }
    }
    found.sort();
    Ok(found)
}

fn inside(run: &Path, folder: &Path) -> bool {
    fs::canonicalize(run).ok().zip(fs::canonicalize(folder).ok()).is_some_and(|(run, folder)| run.starts_with(folder))
}

fn collect(path: &Path, seen: &mut BTreeSet<PathBuf>, found: &mut Vec<PathBuf>) -> Result<()> {
    if !seen.insert(fs::canonicalize(path).map_err(|e| Error::io(path, e))?) {
        return Ok(());
    }
    // A run that was stopped at once may have no rows.
    if path.is_file() || (path.join("config.toml").exists() && path.join(episodes::FILE).exists()) {
        found.push(path.into());
    }
    if path.is_file() {
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(|e| Error::io(path, e))? {
        let entry = entry.map_err(|e| Error::io(path, e))?.path();
        if entry.is_dir() || stem(&entry).is_some_and(|s| s.with_extension("toml").exists()) {
            // A run that goes on removes its old checkpoints.
            match collect(&entry, seen, found) {
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                other => other?,
            }
        }
    }
    Ok(())
}

/// Runs of the grids in these folders that have no rows yet, as the grid's list of cells names them; for reports of a grid that is
/// still running.
pub fn missing(paths: &[PathBuf], all: &[RunRows]) -> Vec<String> {
    let mut missing = Vec::new();
    for path in paths {
        let text = fs::read_to_string(path.join(crate::sweep::CELLS)).unwrap_or_default();
        let there: BTreeSet<PathBuf> =
            all.iter().filter(|rows| !rows.episodes.is_empty()).map(|r| r.source.clone()).collect();
        for line in text.lines() {
            let Some((name, folder)) = line.split_once('\t') else { continue };
            if !there.contains(&path.join(folder)) {
                missing.push(name.to_string());
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Overrides, RunConfig};

    const TEXT: &str =
        "episode,steps,length,return,violation,cumulative_violations\n1,20,20,1.5,1,1\n2,50,30,-2,0,1\n3,6";

    fn run(folder: &Path) -> PathBuf {
        let run = folder.join("run");
        fs::create_dir_all(&run).unwrap();
        let config =
            Config::resolve(&Default::default(), RunConfig::new("sac", "toy", 7, 50), &Overrides::default()).unwrap();
        fs::write(run.join("config.toml"), config.to_toml()).unwrap();
        fs::write(run.join("episodes.csv"), TEXT).unwrap();
        fs::write(run.join("summary.json"), "{\"finished\": true}").unwrap();
        fs::write(run.join(PROGRESS), "Train/Epoch\n1\n").unwrap();
        fs::write(run.join(OFFLINE), "{\"updates\": 5}").unwrap();
        run
    }

    #[test]
    fn committed_rows_read_back_as_the_run_they_came_from() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunRows::read(&run(folder.path())).unwrap();
        assert_eq!((run.episodes.len(), run.steps(), run.finished()), (2, 50, true));
        let results = folder.path().join("results");
        let commit = |run: &RunRows, settings: &str| {
            let file = run.place(&results, settings)?;
            run.commit(&file).map(|()| file)
        };
        let file = commit(&run, "").unwrap();
        assert!(file.ends_with("toy/sac/seed-7.csv.gz"));
        let back = RunRows::read(&file).unwrap();
        assert_eq!((&back.config, &back.episodes, &back.summary), (&run.config, &run.episodes, &run.summary));
        assert_eq!(back.sha256(), run.sha256());
        for name in [PROGRESS, OFFLINE] {
            assert_eq!(back.beside(name).unwrap(), run.beside(name).unwrap(), "{name}");
        }
        let bytes = fs::read(&file).unwrap();
        commit(&run, "").unwrap();
        assert_eq!(fs::read(&file).unwrap(), bytes);
        let mut other = run.clone();
        other.config.method.insert("batch".into(), toml::Value::Integer(7));
        let refused = commit(&other, "").unwrap_err().to_string();
        assert!(refused.contains("of other settings (sac.batch is 256 there, 7 here)"), "{refused}");
        assert_eq!(fs::read(&file).unwrap(), bytes, "what is there stays");
        let variant = commit(&other, "batch 7, lr 0.1").unwrap();
        assert!(variant.ends_with("toy/sac/batch-7-lr-0.1/seed-7.csv.gz"), "{}", variant.display());
        let found = find_runs(&[folder.path().into()]).unwrap();
        assert_eq!(found, [variant, file, folder.path().join("run")]);
    }

    #[test]
    fn runs_inside_the_folder_of_a_run_and_behind_links_are_found_once() {
        let folder = tempfile::tempdir().unwrap();
        let outer = run(folder.path());
        let inner = run(&outer.join("variants/deeper"));
        fs::create_dir_all(outer.join("checkpoints/step-000000000050")).unwrap();
        std::os::unix::fs::symlink(&outer, outer.join("variants/back")).unwrap();
        let expected = [outer.clone(), inner];
        assert_eq!(find_runs(&[folder.path().into()]).unwrap(), expected);
        assert_eq!(find_runs(&[outer.clone(), folder.path().into(), outer]).unwrap(), expected);
    }

    #[test]
    fn what_holds_no_run_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = find_runs(&[folder.path().into()]).unwrap_err().to_string();
        assert!(error.contains("holds no run"), "{error}");
        assert!(find_runs(&[folder.path().join("none")]).is_err());
        fs::write(folder.path().join("a.csv"), TEXT).unwrap();
        let error = RunRows::read(&folder.path().join("a.csv")).unwrap_err().to_string();
        assert!(error.contains("no settings beside it"), "{error}");
    }
}
