//! `sskp fall-study`: when a trained policy's falls were decided.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use sskp_blocks::files::write_whole;
use sskp_lab::fall_study::within::{ENOUGH, Judge, Measured, PICK, Undecided};
use sskp_lab::fall_study::{FallSearch, FallStudy, STRIDE, fall_study};
use sskp_lab::registry::Registry;
use sskp_lab::wording::{plural, significant};

use crate::error::OrUsage;
use crate::table::Table;

/// Find out when falls were decided, and whether the predicted risk knew
///
/// Plays the newest policy of a run as in training until it has fallen often enough. The simulator is then set back to the beginning of
/// the skill in which it fell, of the skill before it, and so on, and each is played again many times with fresh random
/// choices. Where nearly all tries fall again nothing could be done any more; where few do, another choice would have helped, and
/// a good risk predictor tells the tries that fell from those that stood.
///
/// Whether it does is measured in the places where 5 to 95 % of the tries fell again. There the first skill is also drawn from the policy and not
/// planned: those tries are what planning chooses among. Within-state AUC: the chance that, of two tries from the same place, the one that
/// fell had the higher risk (0.5 says nothing, 1 everything). Least of 32: how often the try with the least risk among 32 fell. Both are also given
/// for the risk of the state in which the first skill really ended (what planning would gain if it knew where skills lead), and for what
/// became of the same first skill when it was played again (all that the first skill decides). Means over places, with 95 %
/// intervals by resampling falls.
///
/// Places are chosen because a fall happened there, so skills near the one that was played fall more often than elsewhere. Falls in spite of
/// planning are falls of skills that were predicted to be safe, so that the predicted risk looks worse there than it is, and planning too;
/// among falls --unplanned the places do not depend on what was predicted, and planning looks better than it is. And few places mislead: believe no
/// difference that the intervals do not show.
#[derive(clap::Args)]
pub struct Args {
    /// Run directory, or one folder under its checkpoints/ or policies/
    run: PathBuf,
    /// Falls to look at
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    falls: u32,
    /// Times that a fall is played again from each place
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tries: u32,
    /// Skills to go back before the one in which it fell
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=100))]
    back: u32,
    /// Episodes after which the search for falls ends
    #[arg(long, default_value_t = 2000)]
    episodes: u64,
    /// Seed of the start states, and of the skills that a state's risk is averaged over
    #[arg(long, default_value_t = 0, value_parser = crate::options::whole)]
    seed: u64,
    /// Look for falls of the policy without planning; only first skills of tries are planned, for comparison
    #[arg(long)]
    unplanned: bool,
    /// Write a table with one row per fall and place
    #[arg(long, value_name = "FILE.csv")]
    out: Option<PathBuf>,
}

impl Args {
    /// Runs the verb.
    pub fn run(self, registry: &Registry) -> Result<()> {
        let mut trained =
            sskp_lab::evaluate::load_policy(registry, &self.run, crate::error::older_checkpoint).or_usage()?;
        let Self { falls, tries, back, episodes, seed, .. } = self;
        let (falls, back, planned) = (falls as usize, back as usize, !self.unplanned);
        let study = fall_study(&mut trained, FallSearch { falls, tries, back, episodes, planned, seed })?;
        let mut table = Table::new(&["steps back", "falls", "fell again", "median", "risk: fell", "stood"]);
        table = table.right(&[0, 1, 2, 3, 4, 5]);
        for at in study.by_distance() {
            let share = |x: f64| format!("{:.0} %", 100.0 * x);
            let place = format!("{}-{}", at.back * STRIDE + 1, (at.back + 1) * STRIDE);
            let risks = at.risks.map(|risk| risk.map_or("–".into(), significant));
            let [fell, stood] = risks;
            table.row([place, at.falls.to_string(), share(at.mean), share(at.median), fell, stood]);
        }
        let run = &trained.config.run;
        let mut out = std::io::stdout().lock();
        let (n, of) = (plural(study.falls as u64, "fall"), plural(study.episodes, "episode"));
        let how = if planned { "" } else { ", without planning" };
        writeln!(out, "{} on {} after {}{how}: {n} in {of}", run.algo, run.env, plural(trained.steps, "step"))?;
        write!(out, "{table}")?;
        undecided(&mut out, &study)?;
        if let Some(path) = self.out {
            write_whole(&path, study.csv().as_bytes()).or_usage()?;
            writeln!(out, "wrote {}", path.display())?;
        }
        Ok(())
    }
}

/// What can be told apart in the same place.
fn undecided(out: &mut impl std::io::Write, study: &FallStudy) -> Result<()> {
    let Some(seen) = study.undecided() else {
        let n = plural(study.rows.len() as u64, "place");
        writeln!(
            out,
            "In none of {n} did 5 to 95 % of the tries fall again: nothing says whether skills can be told apart."
        )?;
        return Ok(());
    };
    let Undecided { places, falls, drawn, planned, judges } = seen;
    let (at, of) = (plural(places as u64, "place"), plural(falls as u64, "fall"));
    let within = |x: Measured, write: &dyn Fn(f64) -> String| match x.interval {
        Some([low, high]) => format!("{} [{}, {}]", write(x.mean), write(low), write(high)),
        None => write(x.mean),
    };
    let share = |x: Measured| within(x, &|x| format!("{:.1} %", 100.0 * x));
    let number = |x: Measured| within(x, &|x| format!("{x:.3}"));
    writeln!(
        out,
        "\nWhere 5 to 95 % of the tries fell again ({at} of {of}), skills drawn from the policy fell {}",
        share(drawn)
    )?;
    if let Some(planned) = planned {
        writeln!(out, "and planned skills fell {}", share(planned))?;
    }
    let header = ["judged by", "within-state AUC", &format!("least of {PICK} fell")];
    let mut table = Table::new(&header).right(&[1, 2]);
    for (judge, skilled) in Judge::ALL.into_iter().zip(judges) {
        let cells = skilled.map_or(["–".into(), "–".into()], |s| [number(s.auc), share(s.pick)]);
        table.row(std::iter::once(judge.words().to_string()).chain(cells));
    }
    write!(out, "{table}")?;
    if places < ENOUGH {
        writeln!(
            out,
            "These are fewer than {ENOUGH} places: too few to believe. Ask for more --falls, --back or --episodes."
        )?;
    }
    Ok(())
}
