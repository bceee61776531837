//! `sskp report`: the paper's figures and table out of runs.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use sskp_lab::registry::Registry;
use sskp_lab::report::{Report, variants};
use sskp_lab::run_rows::{RunRows, find_runs, missing};
use sskp_lab::wording::{plural, verb};

use crate::error::OrUsage;

/// Make the paper's figures and table out of runs
///
/// Writes one page that opens anywhere, without network; a JSON file with every number beside it; and a folder with every figure as
/// SVG.
#[derive(clap::Args)]
pub struct Args {
    /// Run directories, folders of committed rows, or folders of either
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// The page
    #[arg(long, short, default_value = "report.html")]
    out: PathBuf,
    /// Read the return at this many violations [default: the most that every run of a robot reached]
    #[arg(long, value_name = "N")]
    violations: Option<u64>,
    /// Also write the rows and settings of all finished runs into this folder, to be committed
    #[arg(long, value_name = "FOLDER")]
    rows: Option<PathBuf>,
}

impl Args {
    /// Runs the verb.
    pub fn run(self, registry: &Registry) -> Result<()> {
        let found = find_runs(&self.runs).or_usage()?;
        let all =
            found.iter().map(|path| RunRows::read(path)).collect::<sskp_blocks::Result<Vec<RunRows>>>().or_usage()?;
        let mut report = Report::new(registry, &all, self.violations).or_usage()?;
        report.warnings.extend(said_of(&missing(&self.runs, &all)));
        for warning in &report.warnings {
            eprintln!("warning: {warning}");
        }
        for path in report.write(&self.out)? {
            writeln!(std::io::stdout().lock(), "written to {}", path.display())?;
        }
        if let Some(folder) = &self.rows {
            let finished = all.iter().zip(variants(registry, &all)).filter(|(rows, _)| rows.finished());
            // All of them can be written before one is.
            let places = finished.map(|(rows, variant)| Ok((rows, rows.place(folder, &variant.settings)?)));
            let places = places.collect::<sskp_blocks::Result<Vec<_>>>()?;
            places.iter().try_for_each(|(rows, file)| rows.commit(file))?;
            let finished = places.len();
            let left_out = match all.len() - finished {
                0 => String::new(),
                unfinished => format!(", and {unfinished} unfinished left out"),
            };
            writeln!(std::io::stdout().lock(), "runs written to {}: {finished}{left_out}", folder.display())?;
        }
        Ok(())
    }
}

/// Cells of a grid that have not begun; the first few by name.
fn said_of(missing: &[String]) -> Option<String> {
    const NAMED: usize = 5;
    let n = missing.len() as u64;
    let more = missing.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = missing.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    (n > 0).then(|| format!("{} of the grid {} no rows yet: {names}{more}", plural(n, "run"), verb(n, "has", "have")))
}
