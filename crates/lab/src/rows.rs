//! Rows of runs, as reports and checks read them: out of a run directory, or out of committed files, where
//! `results/<env>/<algo>/seed-<n>.csv.gz` holds the rows of `episodes.csv` and `seed-<n>.toml` the resolved settings.

use std::fs::{self, File};
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;
use sskp_blocks::record::EpisodeRow;
use sskp_blocks::{Error, Result};

use crate::config::Config;
use crate::files::{PendingFile, write_whole};
use crate::run_dir::EPISODE_COLUMNS;

/// What `sskp plan-study` leaves in a folder of its own in the run directory, and committed rows have beside them.
const STUDY: &str = "plan-study.csv";

/// A run's settings and episodes, and what else is known of it.
#[derive(Clone, Debug)]
pub struct Rows {
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
}

impl Rows {
    /// Reads a run directory or a file of rows.
    pub fn read(path: &Path) -> Result<Self> {
        if path.is_dir() {
            let config = crate::train::read_config(path)?;
            let inside = |name: &str| if name == STUDY { path.join("plan-study").join(name) } else { path.join(name) };
            return Self::new(path, config, read_text(&path.join("episodes.csv"))?, inside);
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
        Self::new(path, config, read_text(path)?, |name| stem.with_extension(name))
    }

    fn new(source: &Path, config: Config, mut text: String, beside: impl Fn(&str) -> PathBuf) -> Result<Self> {
        // A run that is under way, or was killed, may have written a part of a row.
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        let episodes = parse(&text).map_err(|why| Error::other(format!("{}: {why}", source.display())))?;
        let (summary, manifest) = (json(&beside("summary.json")), json(&beside("manifest.json")));
        let plan_study = fs::read_to_string(beside(STUDY)).ok();
        Ok(Self { source: source.into(), config, episodes, text, summary, manifest, plan_study })
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

    /// Writes it as committed rows under `folder`; gives the file of the rows.
    pub fn commit(&self, folder: &Path) -> Result<PathBuf> {
        let run = &self.config.run;
        let folder = folder.join(&run.env).join(&run.algo);
        fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, e))?;
        let stem = folder.join(format!("seed-{}", run.seed));
        let file = stem.with_extension("csv.gz");
        // No time and no name in the header: the same rows are the same bytes.
        let mut packed = flate2::GzBuilder::new().write(PendingFile::create(&file)?, flate2::Compression::best());
        packed.write_all(self.text.as_bytes()).map_err(|e| Error::io(&file, e))?;
        packed.finish().map_err(|e| Error::io(&file, e))?.commit()?;
        write_whole(&stem.with_extension("toml"), self.config.to_toml().as_bytes())?;
        for (name, value) in [("summary.json", &self.summary), ("manifest.json", &self.manifest)] {
            if let Some(value) = value {
                let text = serde_json::to_string_pretty(value).expect("plain data") + "\n";
                write_whole(&stem.with_extension(name), text.as_bytes())?;
            }
        }
        if let Some(study) = &self.plan_study {
            write_whole(&stem.with_extension(STUDY), study.as_bytes())?;
        }
        Ok(file)
    }
}

/// `seed-0` of `seed-0.csv` and of `seed-0.csv.gz`.
fn stem(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let stem = name.strip_suffix(".csv.gz").or(name.strip_suffix(".csv"))?;
    if stem.ends_with(".plan-study") {
        return None;
    }
    Some(path.with_file_name(stem))
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn read_text(path: &Path) -> Result<String> {
    let io = |e| Error::io(path, e);
    let mut file = File::open(path).map_err(io)?;
    let mut text = String::new();
    if path.extension().is_some_and(|e| e == "gz") {
        flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).map_err(io)?;
    } else {
        file.read_to_string(&mut text).map_err(io)?;
    }
    Ok(text)
}

/// The line of an episode in `episodes.csv`.
pub fn line(row: &EpisodeRow) -> String {
    let EpisodeRow { episode, steps, length, total_reward, violation, cumulative_violations, .. } = row;
    format!("{episode},{steps},{length},{total_reward},{},{cumulative_violations}", u8::from(*violation))
}

/// Reads rows; they must follow from one another.
fn parse(text: &str) -> std::result::Result<Vec<EpisodeRow>, String> {
    let mut lines = text.lines();
    match lines.next() {
        Some(header) if header == EPISODE_COLUMNS => {}
        other => return Err(format!("the columns must be {EPISODE_COLUMNS}, not {}", other.unwrap_or("nothing"))),
    }
    let mut rows: Vec<EpisodeRow> = Vec::new();
    for (i, line) in lines.enumerate() {
        let row = || -> Option<EpisodeRow> {
            let cells: Vec<&str> = line.split(',').collect();
            let [episode, steps, length, total_reward, violation, violations] = cells.as_slice() else { return None };
            let violation = match *violation {
                "0" => false,
                "1" => true,
                _ => return None,
            };
            let total_reward: f64 = total_reward.parse().ok().filter(|r: &f64| r.is_finite())?;
            Some(EpisodeRow {
                episode: episode.parse().ok()?,
                steps: steps.parse().ok()?,
                length: length.parse().ok()?,
                total_reward,
                violation,
                cumulative_violations: violations.parse().ok()?,
                anomaly: None,
            })
        };
        let row = row().ok_or_else(|| format!("row {} is no episode: {line}", i + 1))?;
        let before = rows.last().map_or((0, 0, 0), |r| (r.episode, r.steps, r.cumulative_violations));
        let follows = (before.0 + 1, before.1 + row.length, before.2 + u64::from(row.violation));
        if (row.episode, row.steps, row.cumulative_violations) != follows {
            return Err(format!("row {} does not follow from the one before it: {line}", i + 1));
        }
        rows.push(row);
    }
    Ok(rows)
}

/// All runs and files of rows at or below these paths, in order of their names.
pub fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        let before = found.len();
        fs::metadata(path).map_err(|e| Error::io(path, e))?;
        collect(path, &mut found)?;
        if found.len() == before {
            let text = "holds no run: neither a run directory nor files seed-N.csv.gz with settings beside them";
            return Err(Error::other(format!("{} {text}", path.display())));
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn collect(path: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_file() {
        found.push(path.into());
        return Ok(());
    }
    if path.join("config.toml").exists() {
        // A run that was stopped at once may have no rows.
        if path.join("episodes.csv").exists() {
            found.push(path.into());
        }
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(|e| Error::io(path, e))?;
    for entry in entries {
        let entry = entry.map_err(|e| Error::io(path, e))?.path();
        if entry.is_dir() {
            collect(&entry, found)?;
        } else if stem(&entry).is_some_and(|s| s.with_extension("toml").exists()) {
            found.push(entry);
        }
    }
    Ok(())
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
        let config = Config::resolve(RunConfig::new("sac", "toy", 7, 50), &Overrides::default()).unwrap();
        fs::write(run.join("config.toml"), config.to_toml()).unwrap();
        fs::write(run.join("episodes.csv"), TEXT).unwrap();
        fs::write(run.join("summary.json"), "{\"finished\": true}").unwrap();
        run
    }

    #[test]
    fn committed_rows_read_back_as_the_run_they_came_from() {
        let folder = tempfile::tempdir().unwrap();
        let run = Rows::read(&run(folder.path())).unwrap();
        assert_eq!((run.episodes.len(), run.steps(), run.finished()), (2, 50, true));
        let file = run.commit(&folder.path().join("results")).unwrap();
        assert!(file.ends_with("toy/sac/seed-7.csv.gz"));
        let back = Rows::read(&file).unwrap();
        assert_eq!((&back.config, &back.episodes, &back.summary), (&run.config, &run.episodes, &run.summary));
        assert_eq!(back.sha256(), run.sha256());
        let bytes = fs::read(&file).unwrap();
        run.commit(&folder.path().join("results")).unwrap();
        assert_eq!(fs::read(&file).unwrap(), bytes);
        let found = find(&[folder.path().into()]).unwrap();
        assert_eq!(found, [file, folder.path().join("run")]);
        let lines: Vec<String> = back.episodes.iter().map(line).collect();
        assert_eq!(lines, ["1,20,20,1.5,1,1", "2,50,30,-2,0,1"]);
    }

    #[test]
    fn what_is_no_rows_is_refused() {
        for (text, needed) in [
            ("", "the columns must be"),
            ("steps,return\n", "not steps,return"),
            ("1,20,20,x,1,1\n", "row 1 is no episode"),
            ("1,20,20,inf,1,1\n", "row 1 is no episode"),
            ("1,20,20,1,1,1\n2,30,20,1,0,1\n", "row 2 does not follow"),
            ("1,20,20,1,1,2\n", "row 1 does not follow"),
            ("2,20,20,1,1,1\n", "row 1 does not follow"),
        ] {
            let text = if text.starts_with(|c: char| c.is_ascii_digit()) {
                format!("{EPISODE_COLUMNS}\n{text}")
            } else {
                text.into()
            };
            let error = parse(&text).unwrap_err();
            assert!(error.contains(needed), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let error = find(&[folder.path().into()]).unwrap_err().to_string();
        assert!(error.contains("holds no run"), "{error}");
        assert!(find(&[folder.path().join("none")]).is_err());
        fs::write(folder.path().join("a.csv"), TEXT).unwrap();
        let error = Rows::read(&folder.path().join("a.csv")).unwrap_err().to_string();
        assert!(error.contains("no settings beside it"), "{error}");
    }
}
