//! Runs that whoever comes may go on with, under a claim: cells of grids, and trials of studies.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use sskp::blocks::{Error, Result};
use sskp::lab::run_dir::claim::{Claimed, STALE, look};
use sskp::lab::sweep::engine::Job;
use sskp::lab::sweep::{Ended, Sweep};
use sskp::lab::train::News;

use crate::exchange::Link;
use crate::raised;
use crate::work::{Work, session};

/// How a claimed run ended, as JSON: a word, why somebody else has it, and what it came to so far.
pub(crate) fn outcome(ended: Ended, path: &Path) -> String {
    let (word, why) = match ended {
        Ended::Finished | Ended::Already => ("finished", None),
        Ended::Stopped => ("stopped", None),
        Ended::Elsewhere(why) => ("elsewhere", Some(why)),
    };
    let summary = std::fs::read(path.join("summary.json")).ok();
    let summary: Option<serde_json::Value> = summary.and_then(|text| serde_json::from_slice(&text).ok());
    serde_json::json!({ "ended": word, "why": why, "path": path, "summary": summary }).to_string()
}

/// Hears of checkpoints that could not be used.
pub(crate) fn refused(link: &Arc<Link>) -> impl FnMut(&Error) {
    |error: &Error| link.hear(News::Line(&format!("warning: {error}")))
}

/// A grid whose cells have their numbers noted in the folder of its runs, as JSON.
#[pyfunction]
pub fn open_grid(py: Python, grid: PathBuf, out: Option<PathBuf>) -> PyResult<String> {
    let open = || -> Result<String> {
        let sweep = Sweep::read(&crate::registry(), &grid, out.as_deref())?;
        sweep.number_cells()?;
        let job = Job::new(&sweep, &grid)?;
        let open = job.open();
        let cells = sweep.cells.iter().enumerate().map(|(index, cell)| {
            let path = std::path::absolute(&cell.folder).map_err(|e| Error::io(&cell.folder, e))?;
            let threads = cell.config.run.threads;
            Ok(serde_json::json!({ "name": cell.name(), "path": path, "threads": threads, "open": open.contains(&index) }))
        });
        let cells = cells.collect::<Result<Vec<_>>>()?;
        let warnings = &sweep.warnings;
        Ok(serde_json::json!({ "grid": job.grid, "out": job.out, "warnings": warnings, "cells": cells }).to_string())
    };
    py.detach(open).map_err(raised)
}

/// Runs a cell of a grid, from where it is, unless another process does.
#[pyfunction]
pub fn run_cell(grid: PathBuf, out: PathBuf, index: usize) -> PyResult<Work> {
    Work::start(Link::new(0, 0, false), move |link| {
        let sweep = Sweep::read(&crate::registry(), &grid, Some(&out))?;
        let ended = sweep.run_cell(index, session(crate::registry(), link, None, true), STALE, refused(link))?;
        Ok(outcome(ended, &sweep.cells[index].folder))
    })
}

/// Who may be running what is in a folder; none where nobody is.
#[pyfunction]
pub fn holder(path: PathBuf) -> PyResult<Option<String>> {
    Ok(match look(&path).map_err(raised)? {
        Claimed::Free => None,
        Claimed::Held(holder) | Claimed::Perhaps(Some(holder), _) => Some(holder.to_string()),
        Claimed::Perhaps(None, _) => Some("a process that has just begun".into()),
    })
}
