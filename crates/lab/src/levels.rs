//! What a run is compared with: the returns of its demonstrations, and of the robot's expert.

use std::path::PathBuf;

use crate::config::RunConfig;
use crate::data::{Set, Stats};
use crate::places;

/// Returns of whole episodes: what the agent behind a set earns without the noise of the set, as its metadata say, and else the mean of
/// the set's episodes without a violation. None where the set is not found, cannot be read, or has no such episode.
///
/// Without the noise, because skills do not imitate it: the episodes of Cheetah's demonstrations are worth 5163, their agent 5823, and
/// SSkP, which learns nothing beyond its demonstrator, 5600 to 5900.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Levels {
    /// Of the run's demonstrations.
    pub demonstrator: Option<f64>,
    /// Of the robot's shipped expert, if the demonstrations are not the expert's themselves.
    pub expert: Option<f64>,
}

impl Levels {
    /// Those of a run whose episodes last for `limit` steps at most; a run without demonstrations has none. Reads both sets: a fraction
    /// of a second for the shipped ones.
    pub fn of(run: &RunConfig, limit: u64) -> Self {
        let find = |name: &str| places::find_set(name).ok()?.canonicalize().ok();
        if run.demos.is_empty() {
            return Self::default();
        }
        let demos = find(&run.demos);
        let expert = find(&places::expert_set(&run.env)).filter(|path| demos.as_ref() != Some(path));
        let level = |path: Option<PathBuf>| level_of(&Set::open(&path?).ok()?, limit);
        Self { demonstrator: level(demos), expert: level(expert) }
    }
}

fn level_of(set: &Set, limit: u64) -> Option<f64> {
    // Not its mean return, which has the episodes that ended early.
    let agent = || set.provenance()?.get("agent")?.get("reward_per_step")?.as_f64();
    if let Some(reward) = agent().filter(|_| limit < u64::MAX) {
        return Some(reward * limit as f64);
    }
    let stats = Stats::of(set);
    let whole = stats.all_returns.iter().zip(&stats.all_violations).filter(|(_, violation)| !**violation);
    let (count, sum) = whole.fold((0.0, 0.0), |(count, sum), (earned, _)| (count + 1.0, sum + earned));
    Some(sum / count).filter(|mean: &f64| mean.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{About, write_minari};

    fn levels(env: &str, demos: &str) -> Levels {
        let mut run = RunConfig::new("sskp", env, 0, 1);
        run.demos = demos.into();
        Levels::of(&run, 1000)
    }

    #[test]
    fn the_shipped_sets_of_a_robot_give_both_levels() {
        let cheetah = levels("cheetah", "cheetah/medium-v0");
        let (low, high) = (cheetah.demonstrator.unwrap(), cheetah.expert.unwrap());
        // The cards: the agents' own reward per step is 5.82 and 9.59.
        assert!((low - 5823.0).abs() < 1.0 && (high - 9587.0).abs() < 1.0, "{cheetah:?}");
        // An expert's demonstrations are one line, not two.
        assert_eq!(levels("cheetah", "cheetah/expert-v0"), Levels { demonstrator: Some(high), expert: None });
    }

    #[test]
    fn what_is_missing_or_unreadable_is_left_out() {
        assert_eq!(levels("cheetah", ""), Levels::default());
        assert_eq!(levels("nobody", "nobody/of-these-v7"), Levels::default());
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(levels("toy", &folder.path().display().to_string()), Levels::default());
        let gone = levels("cheetah", "nobody/of-these-v7");
        assert!(gone.demonstrator.is_none() && gone.expert.is_some());
    }

    #[test]
    fn a_set_that_names_no_agent_has_the_mean_of_its_episodes_without_a_violation() {
        let folder = tempfile::tempdir().unwrap();
        let demos = sskp_blocks::toy::demonstrations(9);
        let set = write_minari(folder.path(), "toy/some-v0", &demos, &[], &About::default()).unwrap();
        let safe: Vec<f64> = demos.trajectories().iter().filter(|t| !t.violates()).map(|t| t.total_reward()).collect();
        assert!(!safe.is_empty() && safe.len() < demos.trajectories().len());
        let mean = safe.iter().sum::<f64>() / safe.len() as f64;
        let found = levels("toy", &set.display().to_string()).demonstrator.unwrap();
        assert!((found - mean).abs() < 1e-6, "{found} {mean}");
    }
}
