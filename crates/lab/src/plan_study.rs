//! Figure 5 of the paper for a trained run: how the iterations of risk planning change the predicted risk of sampled skills.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sskp_blocks::record::Memory;
use sskp_blocks::rng::Rng;
use sskp_blocks::run::Run;
use sskp_blocks::{Error, Result};

use crate::chart::{Chart, Mark, Series};
use crate::evaluate::Trained;
use crate::stats::Spread;
use crate::wording::{plural, significant};
use sskp_blocks::files::write_whole;

/// Episodes that the states are drawn from, at least.
const EPISODES: u64 = 10;

/// p̄_i of every state: the mean predicted risk of skills drawn from the Gaussian of iteration i, the policy's being the first.
#[derive(Clone, Debug)]
pub struct PlanStudy {
    /// One row per state, one number per Gaussian.
    pub risks: Vec<Vec<f64>>,
    /// Episodes that were played for the states.
    pub episodes: u64,
}

/// Plays the policy as in training, draws `states` of the states it comes through at random, and plans in each.
pub fn plan_study(trained: &mut Trained, states: usize, seed: u64) -> Result<PlanStudy> {
    let mut rng = Rng::stream(seed, "plan study");
    let refused = || {
        let algo = &trained.config.run.algo;
        Error::other(format!("{algo} learns no risk of skills: there is no planning to study"))
    };
    let env = trained.make_env()?;
    let mut memory = Memory::default();
    let mut run = Run::new(env, seed, u64::MAX, &mut memory);
    let (obs, mut action) = (run.spec().obs_dim, vec![0.0; run.spec().action_dim]);
    if trained.actor.planned_risks(&vec![0.0; obs], &mut rng.clone()).is_none() {
        return Err(refused());
    }
    let mut visited: Vec<f32> = Vec::new();
    while run.clock().episodes < EPISODES || run.clock().steps < states as u64 {
        run.next_episode()?;
        trained.actor.begin();
        while !run.over() {
            visited.extend_from_slice(run.state());
            trained.actor.act(run.state(), true, &mut action);
            run.step(&action)?;
        }
    }
    let mut left: Vec<usize> = (0..visited.len() / obs).collect();
    let mut risks = Vec::with_capacity(states);
    for _ in 0..states {
        let state = left.swap_remove(rng.below(left.len()));
        risks.push(trained.actor.planned_risks(&visited[state * obs..][..obs], &mut rng).ok_or_else(refused)?);
    }
    Ok(PlanStudy { risks, episodes: run.clock().episodes })
}

impl PlanStudy {
    /// Of every iteration: the risk p̄_i over the states, and its change p̄_i − p̄_0 over the states, which is what the paper draws.
    pub fn by_iteration(&self) -> Vec<(Spread, Spread)> {
        let iterations = self.risks.first().map_or(0, Vec::len);
        let of = |i: usize| {
            let over_states = |value: &dyn Fn(&[f64]) -> f64| {
                Spread::of(&self.risks.iter().map(|risks| value(risks)).collect::<Vec<f64>>())
            };
            (over_states(&|risks| risks[i]), over_states(&|risks| risks[i] - risks[0]))
        };
        (0..iterations).map(of).collect()
    }

    /// One row per iteration.
    pub fn csv(&self) -> String {
        let kinds = ["", "change_"].map(|kind| {
            ["mean", "std", "standard_error", "quartile_1", "median", "quartile_3"]
                .map(|c| format!("{kind}{c}"))
                .join(",")
        });
        let mut text = format!("iteration,states,{}\n", kinds.join(","));
        for (i, (risk, change)) in self.by_iteration().into_iter().enumerate() {
            let _ = write!(text, "{i},{}", self.risks.len());
            for spread in [risk, change] {
                let Spread { mean, std, standard_error, low, median, high, .. } = spread;
                for value in [mean, std, standard_error, low, median, high] {
                    let _ = write!(text, ",{value}");
                }
            }
            text.push('\n');
        }
        text
    }

    /// One row per state, one column per iteration.
    pub fn states_csv(&self) -> String {
        let iterations = self.risks.first().map_or(0, Vec::len);
        let columns: Vec<String> = (0..iterations).map(|i| format!("iteration_{i}")).collect();
        let mut text = format!("state,{}\n", columns.join(","));
        for (state, risks) in self.risks.iter().enumerate() {
            let cells: Vec<String> = risks.iter().map(f64::to_string).collect();
            let _ = writeln!(text, "{state},{}", cells.join(","));
        }
        text
    }

    /// The figure.
    pub fn chart(&self, title: impl Into<String>) -> Chart {
        let rows = self.by_iteration();
        let along = |value: fn(&Spread) -> f64| rows.iter().enumerate().map(move |(i, row)| (i as f64, value(&row.1)));
        let half = along(|c| c.low).zip(along(|c| c.high)).map(|((i, low), (_, high))| (i, low, high));
        let error = along(|c| c.mean).zip(along(|c| 2.0 * c.standard_error)).map(|((i, m), (_, e))| (i, m - e, m + e));
        let first = rows.first().map_or(0.0, |row| row.0.mean);
        Chart {
            title: title.into(),
            subtitle: format!(
                "{}; before planning the mean predicted risk is {}",
                plural(self.risks.len() as u64, "state"),
                significant(first)
            ),
            x_label: "planning iteration".into(),
            y_label: "change of the predicted risk".into(),
            from_zero: true,
            series: vec![
                Series {
                    name: "median and middle half of the states".into(),
                    points: along(|c| c.median).collect(),
                    mark: Mark::Dashed,
                    band: half.collect(),
                    colour: 1,
                    ..Series::default()
                },
                Series {
                    name: "mean and two standard errors".into(),
                    points: along(|c| c.mean).collect(),
                    mark: Mark::LineWithDots,
                    band: error.collect(),
                    whiskers: true,
                    ..Series::default()
                },
            ],
            ..Chart::default()
        }
    }

    /// Writes the figure and both tables into a folder; gives their paths.
    pub fn write(&self, folder: &Path, title: &str) -> Result<[PathBuf; 3]> {
        std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
        let paths = ["plan-study.csv", "plan-study-states.csv", "plan-study.svg"].map(|name| folder.join(name));
        let texts = [self.csv(), self.states_csv(), self.chart(title).svg()];
        for (path, text) in paths.iter().zip(texts) {
            write_whole(path, text.as_bytes())?;
        }
        Ok(paths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_taken_state_by_state() {
        // Both states fall by 0.1 and by another 0.1 to 0.3: the change of a state says more than the risks' own spread.
        let study = PlanStudy { risks: vec![vec![0.9, 0.8, 0.7], vec![0.3, 0.2, 0.0]], episodes: 10 };
        let rows = study.by_iteration();
        assert_eq!(rows.len(), 3);
        assert!((rows[0].0.mean - 0.6).abs() < 1e-12 && rows[0].1.mean == 0.0);
        assert!((rows[1].1.mean + 0.1).abs() < 1e-12 && rows[1].1.std < 1e-12 && rows[1].0.std > 0.4);
        assert!((rows[2].1.mean + 0.25).abs() < 1e-12);
        let csv = study.csv();
        let header = csv.lines().next().unwrap();
        assert!(
            header.starts_with("iteration,states,mean,std,standard_error,quartile_1,median,quartile_3,change_mean,")
        );
        assert!(csv.lines().all(|l| l.split(',').count() == header.split(',').count()), "{csv}");
        assert_eq!(study.states_csv().lines().nth(2), Some("1,0.3,0.2,0"));
        assert!(study.chart("x").svg().contains("before planning the mean predicted risk is 0.600"));
    }
}
