//! The policy's loss.

use sskp_blocks::nets::gaussian;
use sskp_blocks::replay::Batch;
use sskp_blocks::rng::Rng;
use sskp_blocks::twin::{Pick, join};

use super::networks::{Losses, Networks};

impl Networks {
    /// Adds the gradient of −E[1[Q_c(s, a) ≤ l]·Q(s, a) − 1[Q_c(s, a) > l]·E|Q|·Q_c(s, a)], with the actor's outputs that [`Networks::ood_gradient`] left.
    pub(super) fn actor_gradient(&mut self, batch: &Batch, rng: &mut Rng, losses: &mut Losses) {
        let (n, dim, pick, limit) = (batch.rows, self.action, self.cost_pick(), self.limit);
        let s = &mut self.scratch;
        rng.fill_normal(&mut s.noise);
        let head = s.actor_tape.output();
        gaussian::squashed_sample(head, &s.noise, dim, &mut s.choice, &mut s.log_prob);
        join(&mut s.input, &batch.state, self.obs, &s.choice, dim);
        let [a, b] = self.costs.forward(&s.input, n);
        s.open.clear();
        s.open.extend((0..n).map(|row| pick.of(a[row], b[row]) <= limit));
        self.rewards.forward(&s.input, n);
        s.d_action.resize(n * dim, 0.0);
        s.d_head.resize(n * 2 * dim, 0.0);
        let (open, scale, mut loss) = (&s.open, 1.0 / n as f32, 0.0);
        let slope = |row: usize, q: f32| {
            if !open[row] {
                return 0.0;
            }
            loss -= f64::from(q * scale);
            -scale
        };
        self.rewards.action_gradient(n, Pick::Least, self.obs, slope, &mut s.d_action);
        if self.config.cost.descend {
            // In units of the values that the other rows climb, so that neither drowns the other.
            let [a, b] = self.rewards.outputs();
            let unit = (0..n).map(|row| a[row].min(b[row]).abs()).sum::<f32>() * scale;
            s.d_closed.resize(n * dim, 0.0);
            let slope = |row: usize, _: f32| if open[row] { 0.0 } else { unit * scale };
            self.costs.action_gradient(n, pick, self.obs, slope, &mut s.d_closed);
            s.d_action.iter_mut().zip(&s.d_closed).for_each(|(d, closed)| *d += closed);
        }
        gaussian::squashed_backward(head, &s.noise, dim, &s.choice, &s.d_action, 0.0, &mut s.d_head);
        let grad = Some(&mut self.actor.grad[..]);
        self.actor.net.backward(&batch.state, n, &mut s.actor_tape, &s.d_head, grad, None);
        losses.actor = loss;
        losses.gate_open = s.open.iter().filter(|open| **open).count() as f64 / n as f64;
    }
}
