//! Grids as arrays of Slurm.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use sskp_blocks::files::write_whole;
use sskp_blocks::{Error, Result};

use super::{Job, quoted};

/// What is submitted, with the places to be filled in.
pub const TEMPLATE: &str = include_str!("../../../../../configs/slurm.sh");
/// Seconds between the signal and the time limit: a checkpoint with a replay of a million steps takes a few, on slow shared disks
/// more, and Slurm may be a minute early but never late.
const WARNING: u64 = 120;
/// What was submitted for a folder of runs.
const FILE: &str = "slurm.json";

/// What to ask of Slurm.
#[derive(Clone, Debug, Default)]
pub struct Slurm {
    /// The partition; the site's default where none is named.
    pub partition: Option<String>,
    /// Time limit of a task, as Slurm writes it; the partition's where none is named.
    pub time: Option<String>,
    /// Tasks at the same time at most.
    pub array_limit: Option<u32>,
    /// Seconds before the time limit at which a task is asked to write its checkpoint.
    pub warning: Option<u64>,
    /// The template, if not [`TEMPLATE`].
    pub template: Option<PathBuf>,
}

/// What was handed to Slurm.
#[derive(Debug, PartialEq)]
pub enum Submitted {
    /// Nothing: these cells are in the queue or running already, and the others are finished.
    Nothing(usize),
    /// An array of so many cells, under this number.
    Array(String, usize),
}

/// The arrays that were submitted for a folder.
#[derive(Default, Serialize, Deserialize)]
struct Arrays {
    jobs: Vec<String>,
}

impl Arrays {
    fn read(out: &Path) -> Self {
        fs::read(out.join(FILE)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }
}

impl Slurm {
    /// The script for these cells.
    pub fn script(&self, job: &Job, program: &Path, cells: &[usize]) -> Result<String> {
        let text = match &self.template {
            None => TEMPLATE.to_string(),
            Some(path) => fs::read_to_string(path).map_err(|e| Error::io(path, e))?,
        };
        let fail = |why: String| {
            let name = self.template.as_ref().map_or("the template".into(), |path| path.display().to_string());
            Error::other(format!("{name}: {why}"))
        };
        let limit = self.array_limit.map_or(String::new(), |limit| format!("%{limit}"));
        let values = BTreeMap::from([
            ("name", job.name()),
            ("array", ranges(cells) + &limit),
            ("threads", job.threads().to_string()),
            ("partition", self.partition.clone().unwrap_or_default()),
            ("time", self.time.clone().unwrap_or_default()),
            ("warning", self.warning.unwrap_or(WARNING).to_string()),
            ("logs", job.out.join("slurm").display().to_string()),
            ("grid", quoted(&job.grid)),
            ("out", quoted(&job.out)),
            ("program", quoted(program)),
        ]);
        let needed = ["array", "grid", "out", "program"].into_iter().find(|name| !text.contains(&place(name)));
        if let Some(name) = needed {
            return Err(fail(format!("{} stands nowhere in it; configs/slurm.sh shows where", place(name))));
        }
        let mut lines = Vec::new();
        for line in text.lines() {
            let mut filled = line.to_string();
            let mut left_out = false;
            for (name, value) in &values {
                left_out |= value.is_empty() && line.contains(&place(name));
                filled = filled.replace(&place(name), value);
            }
            if let Some(unknown) = filled.split_once("{{").and_then(|(_, rest)| Some(rest.split_once("}}")?.0)) {
                let names: Vec<&str> = values.keys().copied().collect();
                return Err(fail(format!("{} is nothing that is filled in: {}", place(unknown), names.join(", "))));
            }
            if !left_out {
                lines.push(filled);
            }
        }
        Ok(lines.join("\n") + "\n")
    }

    /// Submits what is neither finished nor in the queue.
    pub fn submit(&self, job: &Job, program: &Path) -> Result<Submitted> {
        self.check_partition()?;
        let mut arrays = Arrays::read(&job.out);
        let queued = queue(&job.out)?;
        let cells: Vec<usize> = job.open().into_iter().filter(|cell| !queued.contains_key(cell)).collect();
        if cells.is_empty() {
            return Ok(Submitted::Nothing(queued.len()));
        }
        let script = self.script(job, program, &cells)?;
        job.sweep.number_cells()?;
        let logs = job.out.join("slurm");
        fs::create_dir_all(&logs).map_err(|e| Error::io(&logs, e))?;
        let mut child = Command::new("sbatch")
            .arg("--parsable")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| missing("sbatch", &e))?;
        let sent = child.stdin.take().expect("it is piped").write_all(script.as_bytes());
        let output = child.wait_with_output().map_err(|e| missing("sbatch", &e))?;
        if !output.status.success() || sent.is_err() {
            return Err(Error::other(format!("Slurm refused the array: {}", said(&output.stderr))));
        }
        // "12", or "12;cluster".
        let number = said(&output.stdout).split(';').next().unwrap_or("").to_string();
        arrays.jobs.push(number.clone());
        let text = serde_json::to_string_pretty(&arrays).expect("plain data") + "\n";
        write_whole(&job.out.join(FILE), text.as_bytes())?;
        Ok(Submitted::Array(number, cells.len()))
    }

    fn check_partition(&self) -> Result<()> {
        let listed = ask("sinfo", &["-h", "-o", "%R"])?;
        let names: Vec<&str> = listed.lines().map(str::trim).filter(|name| !name.is_empty()).collect();
        for name in self.partition.iter().flat_map(|names| names.split(',')) {
            if !names.contains(&name) {
                return Err(Error::other(format!("there is no partition {name}: this Slurm has {}", names.join(", "))));
            }
        }
        Ok(())
    }
}

fn place(name: &str) -> String {
    format!("{{{{{name}}}}}")
}

/// "0-2,5" of 0, 1, 2, 5.
fn ranges(cells: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for cell in cells {
        match parts.last_mut() {
            Some((_, end)) if *end + 1 == *cell => *end = *cell,
            _ => parts.push((*cell, *cell)),
        }
    }
    let part = |(from, to): &(usize, usize)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

/// What Slurm says of the cells of a folder that it still has, by number: "running on node3", "pending (Priority)". Nothing where nothing
/// was submitted.
pub fn queue(out: &Path) -> Result<BTreeMap<usize, String>> {
    let Arrays { jobs } = Arrays::read(out);
    let mut cells = BTreeMap::new();
    if jobs.is_empty() {
        return Ok(cells);
    }
    for line in ask("squeue", &["-h", "-r", "-o", "%F|%K|%T|%N|%r"])?.lines() {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [array, task, state, node, reason] = fields.as_slice() else { continue };
        if let (true, Ok(cell)) = (jobs.iter().any(|job| job == array), task.parse()) {
            let where_or_why = if node.is_empty() { format!(" ({reason})") } else { format!(" on {node}") };
            cells.insert(cell, format!("Slurm {array}: {}{where_or_why}", state.to_lowercase()));
        }
    }
    Ok(cells)
}

/// How tasks of a folder's arrays ended badly, by number of the cell: what a task's log says where its node saw too little to say more, and
/// otherwise what Slurm knows, for minutes, or for good where it keeps accounts.
pub fn ended_badly(out: &Path) -> BTreeMap<usize, String> {
    let mut cells = BTreeMap::new();
    let Arrays { jobs } = Arrays::read(out);
    if jobs.is_empty() {
        return cells;
    }
    let list = jobs.join(",");
    let bad = ["FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT", "CANCELLED"];
    let recent = ask("squeue", &["-h", "-r", "-t", &bad.join(","), "-o", "%F|%K|%T|%r"]).unwrap_or_default();
    for line in recent.lines() {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [array, task, state, reason] = fields.as_slice() else { continue };
        if let (true, Ok(cell)) = (jobs.iter().any(|job| job == array), task.parse()) {
            let blind =
                if *reason == "JobLaunchFailure" { "; its node may not see the folder of the runs" } else { "" };
            cells.insert(cell, format!("Slurm {array}_{task}: {} ({reason}){blind}", state.to_lowercase()));
        }
    }
    let ended = ask("sacct", &["-n", "-P", "-X", "-j", &list, "-o", "JobID,State,ExitCode"]).unwrap_or_default();
    for line in ended.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let [id, state, code] = fields.as_slice() else { continue };
        let cell: Option<usize> = id.split_once('_').and_then(|(_, task)| task.parse().ok());
        if let (Some(cell), true) = (cell, bad.iter().any(|word| state.starts_with(word))) {
            cells.insert(cell, format!("Slurm {id}: {} with exit code {code}", state.to_lowercase()));
        }
    }
    for (cell, said) in &mut cells {
        let newest =
            jobs.iter().rev().find_map(|job| fs::read_to_string(out.join(format!("slurm/{job}_{cell}.log"))).ok());
        let last = newest.as_deref().and_then(|text| text.lines().next_back()?.strip_prefix("error: the node "));
        if let Some(last) = last {
            *said = format!("the node {last}");
        }
    }
    cells
}

fn ask(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).output().map_err(|e| missing(program, &e))?;
    if !output.status.success() {
        return Err(Error::other(format!("{program} failed: {}", said(&output.stderr))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().replace('\n', "; ")
}

fn missing(program: &str, error: &std::io::Error) -> Error {
    if error.kind() == ErrorKind::NotFound {
        let help = "run this where Slurm is installed, or write the script with --dry-run";
        return Error::other(format!("there is no Slurm here: {program} was not found; {help}"));
    }
    Error::other(format!("{program} could not be started: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_cells_are_written_as_slurm_does() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[3]), "3");
    }
}
