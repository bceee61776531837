//! `sskp eval`: play a trained policy.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use lab::rollout::Recording;

use crate::error::OrUsage;
use crate::table::Table;

/// Play episodes with a trained policy
///
/// Evaluation steps are not training steps: nothing in the run directory changes.
#[derive(clap::Args)]
pub struct Args {
    /// Run directory, or one folder under its checkpoints/ or policies/
    run: PathBuf,
    /// Episodes to play
    #[arg(long, default_value_t = 10)]
    episodes: u64,
    /// Seed of the start states
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Sample actions as in training instead of taking the policy's best guess
    #[arg(long)]
    stochastic: bool,
    /// Write the first episode as a page to watch
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "replay.html")]
    html: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Runs the verb.
    pub fn run(self) -> Result<()> {
        let refused = |error: &blocks::Error| eprintln!("warning: {error}; trying the one before it");
        let mut trained = lab::train::load_policy(&self.run, refused).or_usage()?;
        let mut recording: Option<Recording> = None;
        let mut started = 0u64;
        let record = self.html.is_some();
        let rows =
            lab::train::evaluate(&mut trained, self.episodes, self.seed, self.stochastic, |env, step| match step {
                None => {
                    started += 1;
                    if record && started == 1 {
                        recording = Some(Recording::begin(env));
                    }
                }
                Some(step) if started == 1 => {
                    if let Some(recording) = &mut recording {
                        recording.push(env, step);
                    }
                }
                Some(_) => {}
            })?;
        let (algo, env) = (trained.config.run.algo.clone(), trained.config.run.env.clone());
        let kind = if self.stochastic { "sampled actions" } else { "mean actions" };
        let mut out = std::io::stdout().lock();
        if self.json {
            let returns: Vec<f64> = rows.iter().map(|r| r.total_reward).collect();
            let lengths: Vec<u64> = rows.iter().map(|r| r.length).collect();
            let violations = rows.iter().filter(|r| r.violation).count();
            writeln!(
                out,
                r#"{{"algo":"{algo}","env":"{env}","trained_steps":{},"stochastic":{},"episodes":{},"violations":{violations},"returns":{returns:?},"lengths":{lengths:?}}}"#,
                trained.steps,
                self.stochastic,
                rows.len()
            )?;
        } else {
            let mut table = Table::new(&["episode", "steps", "return", "per step", "end"]).right(&[0, 1, 2, 3]);
            for row in &rows {
                let per_step = row.total_reward / row.length.max(1) as f64;
                let end = if row.violation { "violation" } else { "time limit" };
                table.row([
                    row.episode.to_string(),
                    row.length.to_string(),
                    format!("{:.1}", row.total_reward),
                    format!("{per_step:.3}"),
                    end.to_string(),
                ]);
            }
            let steps: u64 = rows.iter().map(|r| r.length).sum();
            let total: f64 = rows.iter().map(|r| r.total_reward).sum();
            let n = rows.len().max(1) as f64;
            table.row([
                "mean".to_string(),
                format!("{:.0}", steps as f64 / n),
                format!("{:.1}", total / n),
                format!("{:.3}", total / steps.max(1) as f64),
                format!("{} violations", rows.iter().filter(|r| r.violation).count()),
            ]);
            writeln!(out, "{algo} on {env} after {} steps, {kind}", trained.steps)?;
            write!(out, "{table}")?;
        }
        if let (Some(path), Some(recording)) = (&self.html, recording) {
            let subtitle = format!("{algo} after {} steps, {kind}, seed {}", trained.steps, self.seed);
            lab::replay::write_html(&recording.into_replay(env, subtitle), path)?;
            if !self.json {
                writeln!(out, "replay: {}", path.display())?;
            }
        }
        Ok(())
    }
}
