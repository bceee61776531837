//! Rollouts imagined with the learnt model (Thomas et al. 2021, section 5).

use sskp_blocks::env::End;
use sskp_blocks::nets::Mlp;
use sskp_blocks::policy::Squashed;
use sskp_blocks::replay::Replay;
use sskp_blocks::rng::Rng;

use super::dynamics::Dynamics;

/// How imagined rollouts went, since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Imagined {
    /// Rollouts begun.
    pub rollouts: u64,
    /// Transitions kept.
    pub transitions: u64,
    /// Rollouts that ended in a violation.
    pub violations: u64,
    /// Rollouts that ended because the model predicted numbers that are none. Their last transition is not kept.
    pub broken: u64,
}

/// Imagines rollouts; holds what that needs, so that nothing is allocated after the first time.
#[derive(Default)]
pub struct Imagination {
    state: Vec<f32>,
    action: Vec<f32>,
    next: Vec<f32>,
    reward: Vec<f32>,
    wide: Vec<f64>,
    squashed: Squashed,
}

impl Imagination {
    /// `rollouts` branches of at most `horizon` steps, from states drawn out of `real`, with the policy's sampled actions
    /// (uniform ones without a policy). Every transition goes into `imagined`; a branch ends where `violates` says so of
    /// its predicted state.
    pub fn rollouts(
        &mut self,
        dynamics: &mut Dynamics,
        policy: Option<&Mlp>,
        violates: &dyn Fn(&[f64]) -> bool,
        real: &Replay,
        (rollouts, horizon): (usize, u32),
        rng: &mut Rng,
        imagined: &mut Replay,
    ) -> Imagined {
        let (obs, dim) = real.sizes();
        let mut seen = Imagined { rollouts: rollouts as u64, ..Imagined::default() };
        for (buffer, columns) in [(&mut self.state, obs), (&mut self.next, obs), (&mut self.action, dim)] {
            buffer.resize(rollouts * columns, 0.0);
        }
        self.reward.resize(rollouts, 0.0);
        self.wide.resize(obs, 0.0);
        for state in self.state.chunks_exact_mut(obs) {
            state.copy_from_slice(real.get(rng.below(real.len())).state);
        }
        let mut alive = rollouts;
        for _ in 0..horizon {
            if alive == 0 {
                break;
            }
            let (state, action) = (&self.state[..alive * obs], &mut self.action[..alive * dim]);
            self.squashed.explore(policy, state, rng, action);
            let (next, reward) = (&mut self.next[..alive * obs], &mut self.reward[..alive]);
            dynamics.step(state, action, rng, next, reward);
            let mut left = 0;
            for i in 0..alive {
                let next = &self.next[i * obs..][..obs];
                if !next.iter().all(|x| x.is_finite()) || !self.reward[i].is_finite() {
                    seen.broken += 1;
                    continue;
                }
                self.wide.iter_mut().zip(next).for_each(|(w, x)| *w = f64::from(*x));
                let violation = violates(&self.wide);
                let (state, action) = (&self.state[i * obs..][..obs], &self.action[i * dim..][..dim]);
                imagined.push(state, action, self.reward[i], violation.then_some(End::Violation), next);
                seen.transitions += 1;
                if violation {
                    seen.violations += 1;
                } else {
                    // Branches that go on move together, in their order: row `left` has been used up already.
                    self.state[left * obs..][..obs].copy_from_slice(next);
                    left += 1;
                }
            }
            alive = left;
        }
        seen
    }
}

impl std::ops::AddAssign for Imagined {
    fn add_assign(&mut self, other: Self) {
        self.rollouts += other.rollouts;
        self.transitions += other.transitions;
        self.violations += other.violations;
        self.broken += other.broken;
    }
}

#[cfg(test)]
mod tests {
    use sskp_blocks::nets::ensemble::EnsembleConfig;

    use super::*;

    /// A model that believes that nothing moves and nothing is earned, with next to no doubt.
    fn still(obs: usize, action: usize) -> Dynamics {
        let config = EnsembleConfig { width: 4, max_log_var: -30.0, min_log_var: -31.0, ..EnsembleConfig::default() };
        let mut dynamics = Dynamics::new(config, obs, action, 1, &mut Rng::stream(0, "t")).unwrap();
        let weights = dynamics.ensemble.params.len() - 2 * (obs + 1);
        dynamics.ensemble.params[..weights].fill(0.0);
        dynamics
    }

    #[test]
    fn a_branch_ends_at_its_first_violating_state_and_the_others_go_on() {
        let mut dynamics = still(2, 1);
        let mut real = Replay::new(2, 1, 20);
        // Half of the states to start from are such that whatever follows violates.
        for i in 0..20 {
            real.push(&[(i % 2) as f32, i as f32], &[0.0], 0.0, None, &[0.0; 2]);
        }
        let mut imagined = Replay::new(2, 1, 1000);
        let violates = |state: &[f64]| state[0] > 0.5;
        let mut rng = Rng::stream(1, "t");
        let mut imagination = Imagination::default();
        let seen = imagination.rollouts(&mut dynamics, None, &violates, &real, (60, 4), &mut rng, &mut imagined);
        let ended = seen.violations;
        assert!((15..45).contains(&ended), "{seen:?}");
        assert_eq!(
            seen,
            Imagined { rollouts: 60, transitions: ended + 4 * (60 - ended), violations: ended, broken: 0 }
        );
        assert_eq!(imagined.len() as u64, seen.transitions);
        // Afterwards only branches that may go on are left, in their order; each goes on from where it was.
        let alive = 60 - ended as usize;
        for i in 0..imagined.len() {
            let t = imagined.get(i);
            assert_eq!(t.end == Some(End::Violation), t.state[0] > 0.5, "{t:?}");
            assert!(t.end.is_none() || i < 60, "a branch went on after its violation: {t:?}");
            assert!((t.next_state[1] - t.state[1]).abs() < 1e-4 && t.reward.abs() < 1e-4);
            if i >= 60 + alive {
                assert!((t.state[1] - imagined.get(i - alive).next_state[1]).abs() < 1e-6);
            }
        }
        // The next batch begins anew.
        let more = imagination.rollouts(&mut dynamics, None, &|_| true, &real, (7, 4), &mut rng, &mut imagined);
        assert_eq!(more, Imagined { rollouts: 7, transitions: 7, violations: 7, broken: 0 });
    }

    #[test]
    fn numbers_that_are_none_are_not_kept() {
        let mut dynamics = still(2, 1);
        dynamics.ensemble.params.fill(f32::NAN);
        let mut real = Replay::new(2, 1, 1);
        real.push(&[0.0; 2], &[0.0], 0.0, None, &[0.0; 2]);
        let (mut imagined, mut rng) = (Replay::new(2, 1, 10), Rng::stream(1, "t"));
        let seen =
            Imagination::default().rollouts(&mut dynamics, None, &|_| false, &real, (5, 3), &mut rng, &mut imagined);
        assert_eq!(seen, Imagined { rollouts: 5, broken: 5, ..Imagined::default() });
        assert!(imagined.is_empty());
    }
}
