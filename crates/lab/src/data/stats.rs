//! The numbers that describe a set.

use serde::Serialize;

use super::Set;
use crate::stats::Spread;
use crate::wording::plural;

/// What a set holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stats {
    /// The set's id, or its file's name.
    pub id: String,
    /// How it is stored.
    pub format: &'static str,
    /// The robot; empty when unknown.
    pub env: String,
    /// Numbers in an observation.
    pub obs_dim: usize,
    /// Numbers in an action.
    pub action_dim: usize,
    /// Episodes.
    pub episodes: usize,
    /// Steps.
    pub steps: usize,
    /// Episodes with a violation.
    pub violations: usize,
    /// Steps with a cost.
    pub violating_steps: usize,
    /// Their share of all steps.
    pub violating_share: f64,
    /// Sum of all costs.
    pub total_cost: f64,
    /// Whether the file has costs at all.
    pub has_costs: bool,
    /// Returns of episodes.
    pub returns: Spread,
    /// Mean reward of a step.
    pub reward_per_step: f64,
    /// Lengths of episodes.
    pub lengths: Spread,
    /// Size of the data file.
    pub bytes: u64,
    /// Return of every episode, in the set's order.
    #[serde(skip)]
    pub all_returns: Vec<f64>,
    /// Length of every episode.
    #[serde(skip)]
    pub all_lengths: Vec<f64>,
    /// Whether every episode has a violation.
    #[serde(skip)]
    pub all_violations: Vec<bool>,
}

impl Stats {
    /// Of a set, however damaged its lengths.
    pub fn of(set: &Set) -> Self {
        let sum = |numbers: &[f32]| numbers.iter().map(|x| f64::from(*x)).sum::<f64>();
        let costs = || set.episodes.iter().filter_map(|e| e.step_costs(set.format));
        let all_returns: Vec<f64> = set.episodes.iter().map(|e| sum(&e.rewards)).collect();
        let all_lengths: Vec<f64> = set.episodes.iter().map(|e| e.steps() as f64).collect();
        let all_violations: Vec<bool> = set.episodes.iter().map(|e| e.violates(set.format)).collect();
        let steps: usize = set.episodes.iter().map(super::Episode::steps).sum();
        let violating_steps = costs().flatten().filter(|c| **c > 0.0).count();
        Self {
            id: set.id(),
            format: set.format.name(),
            env: set.env.clone(),
            obs_dim: set.obs_dim,
            action_dim: set.action_dim,
            episodes: set.episodes.len(),
            steps,
            violations: all_violations.iter().filter(|v| **v).count(),
            violating_steps,
            violating_share: violating_steps as f64 / steps.max(1) as f64,
            total_cost: costs().map(sum).sum(),
            has_costs: set.episodes.iter().all(|e| e.costs.is_some()),
            returns: Spread::of(&all_returns),
            reward_per_step: all_returns.iter().sum::<f64>() / steps.max(1) as f64,
            lengths: Spread::of(&all_lengths),
            bytes: set.bytes,
            all_returns,
            all_lengths,
            all_violations,
        }
    }

    /// As a table for people.
    pub fn table(&self) -> String {
        let robot = if self.env.is_empty() { "unknown" } else { &self.env };
        let dims = format!("{} observations, {} actions", self.obs_dim, self.action_dim);
        let spread = |s: &Spread, digits: usize| {
            format!(
                "min {:.digits$}, quartiles {:.digits$} {:.digits$} {:.digits$}, max {:.digits$}, mean {:.digits$}",
                s.min, s.low, s.median, s.high, s.max, s.mean
            )
        };
        let violations = match self.has_costs {
            true => format!("{} of {}", self.violations, plural(self.episodes as u64, "episode")),
            false => "unknown: the file has no costs".into(),
        };
        let share = format!("{} ({:.3} %)", self.violating_steps, 100.0 * self.violating_share);
        let rows = [
            ("set", self.id.clone()),
            ("stored as", format!("{}, {:.2} MB", self.format, self.bytes as f64 / 1e6)),
            ("robot", format!("{robot}: {dims}")),
            ("episodes", self.episodes.to_string()),
            ("steps", self.steps.to_string()),
            ("violations", violations),
            ("violating steps", share),
            ("return", spread(&self.returns, 1)),
            ("reward per step", format!("{:.3}", self.reward_per_step)),
            ("length", spread(&self.lengths, 0)),
        ];
        rows.map(|(name, value)| format!("{name:<16} {value}")).join("\n")
    }
}
