//! The risk critic's loss.
//!
//! ```text
//! y = c + γ_safe·max_i Q̄_i(s', a') where the episode goes on, a' ~ the task policy
//! L = mean of (Q_i(s, a) − y)²,  Q_i = sigmoid of network i
//! ```

use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::nets::smooth::sigmoid;
use sskp_blocks::nets::{Mlp, Tape, layer_sizes};
use sskp_blocks::policy::Squashed;
use sskp_blocks::replay::Batch;
use sskp_blocks::rng::Rng;
use sskp_blocks::twin::{Pick, Twin, join};
use sskp_blocks::{Error, Result};

use super::RiskCriticConfig;

/// Q_risk: the discounted chance of a violation.
#[derive(Clone, Debug)]
pub(super) struct RiskCritic {
    pub(super) config: RiskCriticConfig,
    obs: usize,
    action: usize,
    pub(super) critics: Twin,
    // Scratch.
    squashed: Squashed,
    choice: Vec<f32>,
    input: Vec<f32>,
    target: Vec<f32>,
}

impl RiskCritic {
    pub(super) fn new(config: &RiskCriticConfig, obs: usize, action: usize, rng: &mut Rng) -> Self {
        let sizes = layer_sizes(obs + action, config.width, config.layers, 1);
        Self {
            obs,
            action,
            critics: Twin::new(&sizes, config.rate as f32, config.tau as f32, rng),
            squashed: Squashed::default(),
            choice: Vec::new(),
            input: Vec::new(),
            target: Vec::new(),
            config: config.clone(),
        }
    }

    /// One update on a minibatch. Gives the mean squared error of both networks, and the mean risk of the minibatch's own actions.
    pub(super) fn update(&mut self, batch: &Batch, task: &Mlp, rng: &mut Rng) -> Result<(f64, f64)> {
        let n = batch.rows;
        self.look_ahead(batch, task, rng);
        let (target, scale, mut value) = (&self.target, 1.0 / n as f32, 0.0);
        let loss = self.critics.add_gradient(&batch.state_action, n, |row, logit| {
            let q = sigmoid(logit);
            let error = q - target[row];
            value += f64::from(q);
            (f64::from(error * error), 2.0 * scale * error * q * (1.0 - q))
        });
        self.critics.step();
        let (loss, value) = (loss / (2 * n) as f64, value / (2 * n) as f64);
        match loss.is_finite() {
            true => Ok((loss, value)),
            false => Err(Error::other(format!("the risk critic's loss is {loss}"))),
        }
    }

    /// y of every row. What ended without a violation has no risk left.
    fn look_ahead(&mut self, batch: &Batch, task: &Mlp, rng: &mut Rng) {
        let (n, gamma) = (batch.rows, self.config.gamma as f32);
        self.choice.resize(n * self.action, 0.0);
        self.squashed.explore(Some(task), &batch.next_state, rng, &mut self.choice);
        join(&mut self.input, &batch.next_state, self.obs, &self.choice, self.action);
        let [a, b] = self.critics.forward_targets(&self.input, n);
        self.target.clear();
        self.target.extend((0..n).map(|row| {
            let next = sigmoid(Pick::Greatest.of(a[row], b[row]));
            batch.violation[row] + batch.goes_on[row] * gamma * next
        }));
    }

    /// The mean of max_i Q_i(s, a), and its gradient in the actions.
    pub(super) fn mean_risk(&mut self, state: &[f32], action: &[f32], d_action: &mut [f32]) -> f64 {
        let n = state.len() / self.obs;
        join(&mut self.input, state, self.obs, action, self.action);
        self.critics.forward(&self.input, n);
        let (scale, mut mean) = (1.0 / n as f32, 0.0);
        let slope = |_: usize, logit: f32| {
            let q = sigmoid(logit);
            mean += f64::from(q * scale);
            scale * q * (1.0 - q)
        };
        self.critics.action_gradient(n, Pick::Greatest, self.obs, slope, d_action);
        mean
    }

    /// max_i Q_i(s, a) of one pair `[s, a]`.
    pub(super) fn risk(&self, pair: &[f32], tapes: &mut [Tape; 2]) -> f32 {
        let [a, b] = self.critics.nets();
        let [tape, other] = tapes;
        sigmoid(Pick::Greatest.of(a.forward(pair, 1, tape)[0], b.forward(pair, 1, other)[0]))
    }

    pub(super) fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.critics.save("policy", "risk", to);
    }

    pub(super) fn load(&mut self, from: &Loader) -> Result<()> {
        self.critics.load("policy", "risk", from)
    }

    /// Reads back what acting needs.
    pub(super) fn load_policy(&mut self, from: &Loader) -> Result<()> {
        self.critics.load_nets("policy", "risk", from)
    }
}

#[cfg(test)]
mod tests {
    use super::super::learner::tests::{ACTION, OBS, ROWS, fixture};
    use super::*;

    #[test]
    fn targets_are_discounted_violations_and_nothing_follows_an_end() {
        let (mut guard, task, batch) = fixture();
        let rng = Rng::stream(1, "actions");
        let mut actions = vec![0.0; ROWS * ACTION];
        Squashed::default().explore(Some(&task), &batch.next_state, &mut rng.clone(), &mut actions);
        guard.risk.look_ahead(&batch, &task, &mut rng.clone());
        for row in 0..ROWS {
            let next = &batch.next_state[row * OBS..][..OBS];
            let input = [next, &actions[row * ACTION..][..ACTION]].concat();
            let [a, b] =
                guard.risk.critics.targets().map(|net| f64::from(net.forward(&input, 1, &mut Tape::default())[0]));
            let q = 1.0 / (1.0 + (-a.max(b)).exp());
            // Rows 0 and 3 are violations; the last ended without one.
            let expected = [1.0, 0.8 * q, 0.8 * q, 1.0, 0.8 * q, 0.0][row];
            assert!((f64::from(guard.risk.target[row]) - expected).abs() < 1e-6, "row {row}");
        }
    }
}
