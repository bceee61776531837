//! A trained policy in a control loop: what `crates/c` offers to C, and Rust programs may use as it is.
//!
//! After [`Policy::load`] nothing of ours allocates. Matrix products take their workspace from the allocator each time; an allocator that keeps
//! such blocks, like that of `crates/c`, is asked for none, and then neither is the system.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use sskp_blocks::Result;
use sskp_methods::Actor;

use crate::absent::Absent;
use crate::evaluate::{load_policy, newest_run};
use crate::registry::Registry;

/// Why there is no action. The one before is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The observation or the action has another length.
    Length,
    /// The observation is NaN or infinite.
    NotFinite,
    /// A mistake in this program.
    Broken,
}

/// A policy that is ready to act.
pub struct Policy {
    actor: Box<dyn Actor>,
    obs: usize,
    /// The action before it is copied: what is not finished is not seen.
    action: Vec<f32>,
    /// Limits of the environment's own actions, where they are not −1 and 1.
    limits: Option<(Vec<f64>, Vec<f64>)>,
}

impl Policy {
    /// Loads the policy of a run directory or a checkpoint, and touches all memory that acting needs.
    pub fn load(path: &Path) -> Result<Self> {
        let (path, _) = newest_run(path)?;
        let trained = load_policy(&Registry::standard(), &path, |_| ())?;
        let spec = trained.make_env()?.spec().clone();
        let limits = Absent::read(trained.run())?.map(|absent| (absent.action_low, absent.action_high));
        let (actor, obs) = (trained.actor, spec.obs_dim);
        let mut policy = Self { actor, obs, action: vec![0.0; spec.action_dim], limits };
        policy.warm_up();
        Ok(policy)
    }

    /// Touches all memory that acting needs. An episode begins.
    pub fn warm_up(&mut self) {
        self.actor.warm_up(self.obs, self.action.len());
    }

    /// Numbers in an observation and in an action.
    pub fn sizes(&self) -> (usize, usize) {
        (self.obs, self.action.len())
    }

    /// An episode begins.
    pub fn begin(&mut self) {
        self.actor.begin();
    }

    /// The probability of a violation predicted for the skill that is being played; none of a policy that predicts none.
    pub fn risk(&self) -> Option<f32> {
        self.actor.risk()
    }

    /// The action for an observation, the policy's best guess, in the environment's own limits.
    pub fn act(&mut self, observation: &[f32], action: &mut [f32]) -> std::result::Result<(), Refusal> {
        if observation.len() != self.obs || action.len() != self.action.len() {
            return Err(Refusal::Length);
        }
        if observation.iter().any(|x| !x.is_finite()) {
            return Err(Refusal::NotFinite);
        }
        let Self { actor, action: mine, .. } = self;
        catch_unwind(AssertUnwindSafe(|| actor.act(observation, false, mine))).map_err(|_| Refusal::Broken)?;
        match &self.limits {
            None => action.copy_from_slice(&self.action),
            Some((low, high)) => {
                for (i, to) in action.iter_mut().enumerate() {
                    let a = f64::from(self.action[i].clamp(-1.0, 1.0));
                    *to = (low[i] + (a + 1.0) * 0.5 * (high[i] - low[i])) as f32;
                }
            }
        }
        Ok(())
    }
}
