//! Grids as Indexed Jobs of Kubernetes.

use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

use sskp_blocks::{Error, Result};

use super::Job;

/// Where the grid lies in the container.
const GRID: &str = "/grid";
/// Where the runs lie there.
const RUNS: &str = "/runs";
/// Seconds a pod has for its checkpoint when it is evicted.
const GRACE: u64 = 120;
/// How often a cell may end without having said that it is to be continued: killed for its memory, say.
const RETRIES: u32 = 6;
/// What a config map may hold, by Kubernetes' own limit of 1 MiB for an object, less its frame.
const MOST: usize = 1_000_000;

/// What to ask of Kubernetes.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    /// The image, built from `Dockerfile`.
    pub image: String,
    /// The claim of the volume that all pods share; runs lie there.
    pub volume: String,
    /// Memory of a pod.
    pub memory: String,
    /// Pods at the same time; all cells where none is named.
    pub limit: Option<u32>,
}

impl Kubernetes {
    /// The manifest: the grid's files as a config map, and a Job with a pod for every cell.
    pub fn manifest(&self, job: &Job) -> Result<String> {
        let (name, cells) = (job.name(), job.sweep.cells.len());
        let parallel = self.limit.map_or(cells, |limit| cells.min(limit as usize));
        let files = files(&job.grid)?;
        let grid = format!("{GRID}/{}", files[0].0.display());
        let mut text = format!(
            "# Made by sskp {} from {}; `kubectl apply -f` takes it.\n\
             apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n",
            env!("CARGO_PKG_VERSION"),
            job.grid.file_name().unwrap_or_default().display()
        );
        for (i, (_, content)) in files.iter().enumerate() {
            writeln!(text, "  file-{i}: {}", quoted(content)).expect("a string");
        }
        let command = ["sskp", "sweep", &grid, "--out", &format!("{RUNS}/{name}"), "--quiet"].map(quoted).join(", ");
        write!(
            text,
            r#"---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completionMode: Indexed
  completions: {cells}
  parallelism: {parallel}
  backoffLimitPerIndex: {RETRIES}
  # Exit code 75 says: to be continued. 1 and 2 say that trying again would not help. A pod that was evicted is no failure.
  podFailurePolicy:
    rules:
      - action: Ignore
        onPodConditions:
          - type: DisruptionTarget
            status: "True"
      - action: Ignore
        onExitCodes:
          containerName: cell
          operator: In
          values: [75]
      - action: FailIndex
        onExitCodes:
          containerName: cell
          operator: In
          values: [1, 2]
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: {GRACE}
      containers:
        - name: cell
          image: {image}
          command: [{command}, "--cell", "$(JOB_COMPLETION_INDEX)"]
          env:
            - name: SSKP_CACHE
              value: {RUNS}/{name}/cache
          resources:
            requests:
              cpu: "{threads}"
              memory: {memory}
            limits:
              memory: {memory}
          volumeMounts:
            - name: grid
              mountPath: {GRID}
              readOnly: true
            - name: runs
              mountPath: {RUNS}
      volumes:
        - name: grid
          configMap:
            name: {name}
            items:
"#,
            image = quoted(&self.image),
            memory = quoted(&self.memory),
            threads = job.threads(),
        )
        .expect("a string");
        for (i, (path, _)) in files.iter().enumerate() {
            let path = quoted(&path.display().to_string());
            writeln!(text, "              - key: file-{i}\n                path: {path}").expect("a string");
        }
        let volume = quoted(&self.volume);
        write!(text, "        - name: runs\n          persistentVolumeClaim:\n            claimName: {volume}\n")
            .expect("a string");
        Ok(text)
    }
}

/// A string of YAML: those of JSON are.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("plain data")
}

/// The grid's file and the settings files it names, with their places beside each other.
fn files(grid: &Path) -> Result<Vec<(PathBuf, String)>> {
    let read = |path: &Path| fs::read_to_string(path).map_err(|e| Error::io(path, e));
    let content = read(grid)?;
    let parsed: super::super::Grid = crate::config::read_toml(grid)?;
    let name = PathBuf::from(grid.file_name().unwrap_or_default());
    let mut files = vec![(name, content)];
    let blocks = parsed.cells.iter().filter_map(|block| block.file.as_ref());
    for path in parsed.files.values().chain(blocks) {
        if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(Error::other(format!(
                "{}: the settings file {} does not lie beside or below the grid; a pod is given only what does",
                grid.display(),
                path.display()
            )));
        }
        let plain: PathBuf = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        if !files.iter().any(|(there, _)| *there == plain) {
            let content = read(&grid.parent().unwrap_or(Path::new("")).join(path))?;
            files.push((plain, content));
        }
    }
    let size: usize = files.iter().map(|(_, content)| content.len()).sum();
    if size > MOST {
        return Err(Error::other(format!("{} and its settings files are too large for a config map", grid.display())));
    }
    Ok(files)
}
