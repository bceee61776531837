//! `sskp eval`: play a trained policy.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use sskp_blocks::env::End;
use sskp_lab::evaluate::{Pick, Trained, Watched};
use sskp_lab::registry::Registry;
use sskp_lab::replay_page::ReplayPage;
use sskp_lab::wording::plural;

use crate::error::OrUsage;
use crate::table::Table;

/// Play episodes with a trained policy
///
/// Evaluation steps are not training steps: nothing in the run directory changes. With the policy's best guesses the same seed gives
/// the same episodes.
#[derive(clap::Args)]
pub struct Args {
    /// Run directory, one folder under its checkpoints/ or policies/, or a folder of runs, of which the newest is taken
    run: PathBuf,
    /// Episodes to play
    #[arg(long, default_value_t = 10)]
    episodes: u64,
    /// Seed of the start states
    #[arg(long, default_value_t = 0, value_parser = crate::options::whole)]
    seed: u64,
    /// Sample actions as in training instead of taking the policy's best guess
    #[arg(long)]
    stochastic: bool,
    /// Write episodes as a page to watch, side by side if there are several
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "replay.html")]
    html: Option<PathBuf>,
    /// Write them as a video without a browser: FILE.gif, FILE.mp4 or FILE.webm
    #[arg(long, value_name = "FILE")]
    video: Option<PathBuf>,
    /// Simulated seconds of the video, if not all
    #[arg(long, value_name = "N", requires = "video", value_parser = seconds)]
    seconds: Option<f64>,
    /// Which of the episodes to write: best, worst, first-fall, or a number; several with commas between
    #[arg(long, value_name = "WHICH", value_delimiter = ',', default_value = "1", value_parser = |text: &str| text.parse::<Pick>())]
    episode: Vec<Pick>,
    /// Another run, whose policy plays the same start states and is shown beside
    #[arg(long, value_name = "RUN")]
    beside: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Runs the verb.
    pub fn run(self, registry: &Registry) -> Result<()> {
        let (run, of) = sskp_lab::evaluate::newest_run(&self.run).or_usage()?;
        if run != self.run {
            let runs = plural(of as u64, "run");
            eprintln!("{} holds {runs}; the newest is taken: {}", self.run.display(), run.display());
        }
        let mut trained = sskp_lab::evaluate::load_policy(registry, &run, crate::error::older_checkpoint).or_usage()?;
        let mut other = match &self.beside {
            Some(path) => {
                Some(sskp_lab::evaluate::load_policy(registry, path, crate::error::older_checkpoint).or_usage()?)
            }
            None => None,
        };
        if let Some(path) = &self.video {
            sskp_lab::video::check(path).or_usage()?;
        }
        let watched = self.play(&mut trained)?;
        let mut pages = Vec::new();
        if self.shown() {
            pages = self.pages(&trained, &watched).or_usage()?;
            if let Some(other) = &mut other {
                let beside = self.play(other)?;
                pages.extend(self.pages(other, &beside).or_usage()?);
            }
        }
        let Watched { rows, ends, risks, .. } = watched;
        let mean_risk = Watched::mean_risk;
        let (algo, env) = (trained.config.run.algo.clone(), trained.config.run.env.clone());
        let kind = if self.stochastic { "sampled actions" } else { "mean actions" };
        let mut out = std::io::stdout().lock();
        if self.json {
            let returns: Vec<f64> = rows.iter().map(|r| r.total_reward).collect();
            let lengths: Vec<u64> = rows.iter().map(|r| r.length).collect();
            let violations = rows.iter().filter(|r| r.violation).count();
            writeln!(
                out,
                r#"{{"algo":"{algo}","env":"{env}","trained_steps":{},"stochastic":{},"episodes":{},"violations":{violations},"predicted_risk":{},"returns":{returns:?},"lengths":{lengths:?}}}"#,
                trained.steps,
                self.stochastic,
                rows.len(),
                mean_risk(&risks).map_or("null".into(), |r| r.to_string())
            )?;
        } else {
            let columns = ["episode", "steps", "return", "per step", "end", "predicted risk"];
            // The last column is for methods that predict risk.
            let columns = &columns[..columns.len() - usize::from(mean_risk(&risks).is_none())];
            let mut table = Table::new(columns).right(&[0, 1, 2, 3, 5]);
            let cell = |risks: &[[f64; 2]]| mean_risk(risks).map(|r| format!("{r:.4}"));
            for ((row, end), risk) in rows.iter().zip(&ends).zip(&risks) {
                let per_step = row.total_reward / row.length.max(1) as f64;
                let cells = [
                    row.episode.to_string(),
                    row.length.to_string(),
                    format!("{:.1}", row.total_reward),
                    format!("{per_step:.3}"),
                    end_in_words(*end).to_string(),
                ];
                table.row(cells.into_iter().chain(cell(&[*risk])));
            }
            let steps: u64 = rows.iter().map(|r| r.length).sum();
            let total: f64 = rows.iter().map(|r| r.total_reward).sum();
            let n = rows.len().max(1) as f64;
            let cells = [
                "mean".to_string(),
                format!("{:.0}", steps as f64 / n),
                format!("{:.1}", total / n),
                format!("{:.3}", total / steps.max(1) as f64),
                plural(rows.iter().filter(|r| r.violation).count() as u64, "violation"),
            ];
            table.row(cells.into_iter().chain(cell(&risks)));
            writeln!(out, "{algo} on {env} after {}, {kind}", plural(trained.steps, "step"))?;
            write!(out, "{table}")?;
        }
        if let Some(path) = &self.html {
            sskp_lab::replay_page::write_side_by_side(&pages, path)?;
            if !self.json {
                writeln!(out, "replay: {}", path.display())?;
            }
        }
        if let Some(path) = &self.video {
            sskp_lab::video::write(&pages, path, self.seconds)?;
            if !self.json {
                writeln!(out, "video: {}", path.display())?;
            }
        }
        Ok(())
    }

    fn shown(&self) -> bool {
        self.html.is_some() || self.video.is_some()
    }

    fn play(&self, trained: &mut Trained) -> Result<Watched> {
        Ok(sskp_lab::evaluate::watch(trained, self.episodes, self.seed, self.stochastic, self.shown())?)
    }

    /// The episodes that were asked for, each as the page of one.
    fn pages(&self, trained: &Trained, watched: &Watched) -> sskp_blocks::Result<Vec<ReplayPage>> {
        let kind = if self.stochastic { "sampled actions" } else { "mean actions" };
        let page = |pick: &Pick| {
            let i = watched.pick(*pick)?;
            let which = if self.episodes > 1 {
                format!(", episode {} of {}", i + 1, watched.rows.len())
            } else {
                String::new()
            };
            let (algo, after) = (&trained.config.run.algo, plural(trained.steps, "step"));
            let subtitle = format!("{algo} after {after}, {kind}, seed {}{which}", self.seed);
            Ok(watched.episodes[i].clone().into_page(&trained.env, subtitle))
        };
        self.episode.iter().map(page).collect()
    }
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    let wrong = || format!("{text} is no number of seconds above 0");
    text.parse().ok().filter(|s: &f64| s.is_finite() && *s > 0.0).ok_or_else(wrong)
}

/// How an episode ended, in a cell of the table.
fn end_in_words(end: Option<End>) -> &'static str {
    match end {
        Some(End::Violation) => "violation",
        Some(End::Terminated) => "ended by itself",
        Some(End::Truncated) => "time limit",
        None => "still running",
    }
}
