//! The losses of the reward critics (the penalised Bellman operator) and of the cost critics.

use sskp_blocks::replay::Batch;
use sskp_blocks::rng::Rng;
use sskp_blocks::twin::{Pick, join};

use super::networks::{Losses, Networks};

/// With one cost at most, and nothing after it, no true Q_c is above this.
const CEILING: f32 = 1.0;

impl Networks {
    /// Q̄(s', a') and Q̄_c(s', a'), a' ~ π(·|s').
    pub(super) fn look_ahead(&mut self, batch: &Batch, rng: &mut Rng) {
        let (n, dim, pick) = (batch.rows, self.action, self.cost_pick());
        let s = &mut self.scratch;
        s.choice.resize(n * dim, 0.0);
        s.next_cost.resize(n, 0.0);
        s.next_value.resize(n, 0.0);
        s.next.explore(Some(&self.actor.net), &batch.next_state, rng, &mut s.choice);
        join(&mut s.input, &batch.next_state, self.obs, &s.choice, dim);
        let [a, b] = self.costs.forward_targets(&s.input, n);
        (0..n).for_each(|row| s.next_cost[row] = pick.of(a[row], b[row]));
        let [a, b] = self.rewards.forward_targets(&s.input, n);
        (0..n).for_each(|row| s.next_value[row] = Pick::Least.of(a[row], b[row]));
    }

    /// Adds the gradient of the reward critics' mean squared error from y = r + γ·(1 − c)·1[Q̄_c(s', a') ≤ l]·Q̄(s', a').
    pub(super) fn reward_gradient(&mut self, batch: &Batch, losses: &mut Losses) {
        let (n, s) = (batch.rows, &self.scratch);
        let (gamma, scale, limit) = (self.config.gamma as f32, self.config.reward_scale as f32, self.limit);
        let mut value = 0.0;
        let loss = self.rewards.add_gradient(&batch.state_action, n, |row, q| {
            let goes_on = batch.goes_on[row] > 0.0 && s.next_cost[row] <= limit;
            let y = scale * batch.reward[row] + if goes_on { gamma * s.next_value[row] } else { 0.0 };
            value += f64::from(q);
            (f64::from((q - y) * (q - y)), 2.0 * (q - y) / n as f32)
        });
        (losses.reward_critic, losses.reward_value) = (loss / (2 * n) as f64, value / (2 * n) as f64);
    }

    /// Adds the gradient of the cost critics' mean squared error from y_c = c + γ·(1 − c)·Q̄_c(s', a').
    pub(super) fn cost_gradient(&mut self, batch: &Batch, losses: &mut Losses) {
        let (n, s) = (batch.rows, &self.scratch);
        let (gamma, ends) = (self.config.gamma as f32, self.config.cost.ends);
        let mut value = 0.0;
        let loss = self.costs.add_gradient(&batch.state_action, n, |row, q| {
            let cost = batch.violation[row];
            // Without `ends` a violation is a cost like any other, after which costs go on; another end is always one.
            let over = batch.goes_on[row] == 0.0 && (ends || cost == 0.0);
            // With nothing after a violation no true cost is outside [0, 1], and none is bootstrapped from there.
            let next = if ends { s.next_cost[row].clamp(0.0, CEILING) } else { s.next_cost[row] };
            let y = cost + if over { 0.0 } else { gamma * next };
            value += f64::from(q);
            (f64::from((q - y) * (q - y)), 2.0 * (q - y) / n as f32)
        });
        (losses.cost_critic, losses.cost_value) = (loss / (2 * n) as f64, value / (2 * n) as f64);
    }
}
