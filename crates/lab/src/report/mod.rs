//! The report: the paper's figures and table out of rows of runs, as one page that needs nothing else, with every number in a
//! JSON file and every figure as SVG beside it.
//!
//! Runs are put together by robot and [`Variant`] (`groups.rs`), compared (`compare.rs`), their predicted risks judged (`calibration.rs`), drawn (`figures.rs`), and written as a
//! page (`page.rs`, whose first screen is `glance.rs` and whose last table `runs.rs`) and as tables (`markdown.rs`).

mod calibration;
mod compare;
mod falls;
mod figures;
mod glance;
mod groups;
mod markdown;
mod over_seeds;
mod page;
mod paper;
mod runs;
mod variant;

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sskp_blocks::files::write_whole;
use sskp_blocks::{Error, Result};

pub use compare::{Improvement, Relative};
pub use figures::{Drawing, Figure, Section};
pub use groups::{Group, ReportedRun, ReturnAt};
pub use variant::{Variant, variants};

use crate::registry::Registry;
use crate::run_rows::RunRows;

/// All that the report says.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of the program that made it.
    pub version: String,
    /// The day it was made, as in 2025-03-01.
    pub date: String,
    /// Whether it repeats the paper's study: its methods on its robots, for as long.
    pub of_the_paper: bool,
    /// What was found, a sentence for each robot.
    pub found: Vec<String>,
    /// What is not there: runs, studies, steps.
    pub missing: Vec<String>,
    /// What a reader must know before believing a number.
    pub warnings: Vec<String>,
    /// Steps and updates of the runs that are compared.
    pub budget: String,
    /// Methods on robots.
    pub groups: Vec<Group>,
    /// SSkP against every other method on PtR/#V, over the robots that both ran on.
    pub improvements: Vec<Improvement>,
    /// PtR/#V of methods over all robots, each robot's divided by the paper's SSkP.
    pub relative: Vec<Relative>,
    /// Figures, in sections.
    pub sections: Vec<Section>,
}

impl Report {
    /// Makes it out of rows. `violations` is where the return at a number of violations is read; without it, the largest number
    /// that all runs of a robot reached.
    pub fn new(registry: &Registry, all: &[RunRows], violations: Option<u64>) -> Result<Self> {
        let mut warnings = Vec::new();
        let cells = groups::cells(registry, all, &mut warnings)?;
        let groups =
            cells.iter().map(|cell| cell.group(registry, &cells, violations)).collect::<Result<Vec<Group>>>()?;
        let of_the_paper = glance::of_the_paper(&groups);
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").into(),
            date: glance::today(),
            found: glance::found(&groups),
            missing: glance::missing(&groups, &cells),
            of_the_paper,
            improvements: compare::improvements(&groups),
            // A study of another length is not the paper's, and its numbers are not to be divided by the paper's.
            relative: if of_the_paper { compare::relative(&groups) } else { Vec::new() },
            sections: figures::sections(&cells, of_the_paper),
            budget: groups::budget(registry, &cells),
            warnings,
            groups,
        })
    }

    /// Robots in the order of their names, as the paper has them.
    pub fn robots(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.groups.iter().map(|g| g.robot.as_str()).collect();
        names.dedup();
        names
    }

    /// Methods, and variants of them, in the order of the paper's table.
    pub fn variants(&self) -> Vec<&Variant> {
        let mut all: Vec<&Variant> = self.groups.iter().map(|g| &g.variant).collect();
        all.sort();
        all.dedup();
        all
    }

    /// The runs of a variant on a robot.
    pub fn group(&self, variant: &Variant, robot: &str) -> Option<&Group> {
        self.groups.iter().find(|g| (&g.variant, g.robot.as_str()) == (variant, robot))
    }

    /// The paper's number for a method on a robot, where the runs here are as long as the paper's.
    fn paper(&self, variant: &Variant, robot: &str) -> Option<f64> {
        let mut runs = self.groups.iter().filter(|g| g.robot == robot).flat_map(|g| &g.runs);
        runs.all(|run| run.budget == paper::STEPS).then(|| paper::ratio(&variant.method, robot)).flatten()
    }

    /// The picture of the first screen, and a file of its own.
    pub fn overview(&self) -> Figure {
        glance::picture(self)
    }

    /// The page.
    pub fn html(&self) -> String {
        page::html(self)
    }

    /// The tables as Markdown.
    pub fn markdown(&self) -> String {
        markdown::markdown(self)
    }

    /// Writes the page, `.json` and `.md` (the tables) beside it and the figures in a folder beside it; gives their paths.
    pub fn write(&self, page: &Path) -> Result<Vec<PathBuf>> {
        let (json, tables) = (page.with_extension("json"), page.with_extension("md"));
        let folder = page.with_extension("figures");
        write_whole(page, self.html().as_bytes())?;
        write_whole(&json, (serde_json::to_string_pretty(self).expect("plain data") + "\n").as_bytes())?;
        write_whole(&tables, self.markdown().as_bytes())?;
        fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, e))?;
        let overview = self.overview();
        for figure in self.sections.iter().flat_map(|s| &s.figures).chain([&overview]) {
            write_whole(&folder.join(format!("{}.svg", figure.name)), figure.svg().as_bytes())?;
        }
        Ok(vec![page.into(), json, tables, folder])
    }
}
