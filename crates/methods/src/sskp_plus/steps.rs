//! Single steps as the critics learn them: rewards summed over the next few, and how near a violation came.

use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::env::End;
use sskp_blocks::rng::Rng;
use sskp_blocks::{Error, Result};

use super::config::AdaptConfig;

/// What happened in one episode: standardised states, one more than actions.
#[derive(Clone, Debug, Default)]
pub(super) struct Episode {
    pub(super) states: Vec<f32>,
    pub(super) actions: Vec<f32>,
    pub(super) rewards: Vec<f32>,
}

impl Episode {
    pub(super) fn clear(&mut self) {
        self.states.clear();
        self.actions.clear();
        self.rewards.clear();
    }
}

/// A ring of rows `[s, a, R, d, y, s_n]`: R the discounted rewards of the next n steps, d what the value of s_n counts (γⁿ, 0 where
/// nothing follows), y = γ_c^k where a violation came k steps later, 0 where none did, −1 where the time limit came first.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    obs: usize,
    action: usize,
    capacity: usize,
    rows: Vec<f32>,
    next: usize,
}

/// A minibatch; its buffers are reused.
#[derive(Clone, Debug, Default)]
pub(super) struct StepBatch {
    pub(super) rows: usize,
    pub(super) state_action: Vec<f32>,
    pub(super) state: Vec<f32>,
    pub(super) reward: Vec<f32>,
    pub(super) discount: Vec<f32>,
    pub(super) danger: Vec<f32>,
    pub(super) next_state: Vec<f32>,
}

impl Steps {
    pub(super) fn new(obs: usize, action: usize, capacity: usize) -> Self {
        Self { obs, action, capacity, rows: Vec::new(), next: 0 }
    }

    fn stride(&self) -> usize {
        2 * self.obs + self.action + 3
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len() / self.stride()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds the steps of an episode from step `from` on.
    pub(super) fn push(&mut self, config: &AdaptConfig, episode: &Episode, end: Option<End>, from: usize) {
        let total = episode.rewards.len();
        let (gamma, risk_gamma) = (config.gamma, config.risk_gamma);
        for t in from..total {
            let (mut sum, mut discount, mut at) = (0.0, 1.0, t);
            while at < total && at < t + config.returns {
                sum += discount * f64::from(episode.rewards[at]);
                discount *= gamma;
                at += 1;
            }
            if at == total && matches!(end, Some(End::Violation | End::Terminated)) {
                discount = 0.0;
            }
            let danger = match end {
                Some(End::Violation) if at == total => risk_gamma.powi((total - 1 - t) as i32),
                _ => 0.0,
            };
            let (obs, action) = (self.obs, self.action);
            let row = self.place();
            row[..obs].copy_from_slice(&episode.states[t * obs..][..obs]);
            row[obs..obs + action].copy_from_slice(&episode.actions[t * action..][..action]);
            row[obs + action..obs + action + 3].copy_from_slice(&[sum, discount, danger].map(|x| x as f32));
            row[obs + action + 3..].copy_from_slice(&episode.states[at * obs..][..obs]);
        }
    }

    fn place(&mut self) -> &mut [f32] {
        let stride = self.stride();
        if self.len() < self.capacity && self.next == self.len() {
            self.rows.resize(self.rows.len() + stride, 0.0);
        }
        let at = self.next * stride;
        self.next = (self.next + 1) % self.capacity;
        &mut self.rows[at..][..stride]
    }

    /// Draws rows with replacement into rows `from..to` of a minibatch.
    pub(super) fn sample(&self, from: usize, to: usize, rng: &mut Rng, batch: &mut StepBatch) {
        let (obs, action) = (self.obs, self.action);
        let both = obs + action;
        for i in from..to {
            let row = &self.rows[rng.below(self.len()) * self.stride()..][..self.stride()];
            batch.state_action[i * both..][..both].copy_from_slice(&row[..both]);
            batch.state[i * obs..][..obs].copy_from_slice(&row[..obs]);
            (batch.reward[i], batch.discount[i], batch.danger[i]) = (row[both], row[both + 1], row[both + 2]);
            batch.next_state[i * obs..][..obs].copy_from_slice(&row[both + 3..]);
        }
    }

    /// Room for a minibatch of these sizes.
    pub(super) fn begin(&self, rows: usize, batch: &mut StepBatch) {
        batch.rows = rows;
        batch.state_action.resize(rows * (self.obs + self.action), 0.0);
        batch.state.resize(rows * self.obs, 0.0);
        batch.next_state.resize(rows * self.obs, 0.0);
        for column in [&mut batch.reward, &mut batch.discount, &mut batch.danger] {
            column.resize(rows, 0.0);
        }
    }

    pub(super) fn save<'a>(&'a self, name: &str, to: &mut Saver<'a>) {
        to.f32s(&format!("replay/{name}"), &self.rows, self.stride());
        to.json(&format!("replay/{name}.next"), &self.next);
    }

    pub(super) fn load(&mut self, name: &str, from: &Loader) -> Result<()> {
        self.rows = from.f32s(&format!("replay/{name}"))?;
        self.next = from.json(&format!("replay/{name}.next"))?;
        if !self.rows.len().is_multiple_of(self.stride()) || self.len() > self.capacity || self.next > self.len() {
            let why = format!("replay {name} does not fit this run's sizes");
            return Err(Error::Checkpoint { path: from.path.clone(), why });
        }
        Ok(())
    }
}
