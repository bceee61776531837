//! The push: Q_c is raised on actions unlike the data's, where the data cannot speak.

use sskp_blocks::nets::gaussian;
use sskp_blocks::replay::Batch;
use sskp_blocks::rng::Rng;

use super::networks::{Losses, Networks};

/// The value from which on `quantile` of `values` lie below. Puts them in another order.
fn quantile(values: &mut [f32], quantile: f64) -> f32 {
    let at = ((values.len() - 1) as f64 * quantile).ceil() as usize;
    *values.select_nth_unstable_by(at, f32::total_cmp).1
}

impl Networks {
    /// Samples actions ã ~ π(·|s) and brings the rows `[s, ã]` that are out of distribution to the front of `ood_input`. Gives how
    /// many those are.
    fn sample_unlike(&mut self, batch: &Batch, rng: &mut Rng) -> usize {
        let (n, dim, obs) = (batch.rows, self.action, self.obs);
        let config = &self.config.cost;
        let (columns, all) = (obs + dim, n * config.ood_actions);
        let s = &mut self.scratch;
        s.ood_input.resize(all * columns, 0.0);
        s.ood_divergence.resize(all, 0.0);
        // A minibatch at a time: its layers stay in the cache.
        for (input, divergence) in s.ood_input.chunks_exact_mut(n * columns).zip(s.ood_divergence.chunks_exact_mut(n)) {
            rng.fill_normal(&mut s.noise);
            let head = s.actor_tape.output();
            match config.ood_gradient {
                true => gaussian::squashed_sample(head, &s.noise, dim, &mut s.choice, &mut s.log_prob),
                false => gaussian::sample(head, &s.noise, dim, &mut s.choice),
            }
            for (row, input) in input.chunks_exact_mut(columns).enumerate() {
                input[..obs].copy_from_slice(&batch.state[row * obs..][..obs]);
                input[obs..].copy_from_slice(&s.choice[row * dim..][..dim]);
            }
            self.vae.divergence(input, divergence);
        }
        s.order.clear();
        if config.ood_by_data {
            s.order.resize(n, 0.0);
            self.vae.divergence(&batch.state_action, &mut s.order);
        } else {
            s.order.extend_from_slice(&s.ood_divergence);
        }
        let threshold = quantile(&mut s.order, config.ood_quantile);
        let mut count = 0;
        for row in 0..all {
            if s.ood_divergence[row] >= threshold {
                s.ood_input.copy_within(row * columns..(row + 1) * columns, count * columns);
                count += 1;
            }
        }
        count
    }

    /// Adds the gradient of −α·E[1[ã out of distribution]·min(Q_c(s, ã), l_c)] and moves α.
    pub(super) fn ood_gradient(&mut self, batch: &Batch, rng: &mut Rng, losses: &mut Losses) {
        // This tape stays as it is until the actor's own gradient.
        let s = &mut self.scratch;
        self.actor.net.forward(&batch.state, batch.rows, &mut s.actor_tape);
        s.noise.resize(batch.rows * self.action, 0.0);
        s.choice.resize(batch.rows * self.action, 0.0);
        s.log_prob.resize(batch.rows, 0.0);
        if !self.push {
            return;
        }
        let count = self.sample_unlike(batch, rng);
        let all = batch.rows * self.config.cost.ood_actions;
        losses.ood_share = count as f64 / all as f64;
        if count == 0 {
            return;
        }
        let (pick, config) = (self.cost_pick(), &self.config.cost);
        let input = &self.scratch.ood_input[..count * (self.obs + self.action)];
        let wanted = config.ood_scale * f64::from(self.limit);
        let below = if config.ood_gradient {
            let push = -(self.alpha / all as f64) as f32;
            let slope = |q: f32| if f64::from(q) < wanted { push } else { 0.0 };
            let sum = self.costs.add_gradient(input, count, |_, q| (f64::from(q), slope(q)));
            losses.ood_cost = sum / (2 * count) as f64;
            (wanted - losses.ood_cost) * losses.ood_share
        } else {
            let [a, b] = self.costs.forward_targets(input, count);
            let sum = (0..count).map(|row| f64::from(pick.of(a[row], b[row]))).sum::<f64>();
            losses.ood_cost = sum / count as f64;
            wanted - sum / all as f64
        };
        self.alpha = (self.alpha + config.alpha_rate * below).clamp(0.0, config.alpha_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_by_hand() {
        let mut x = [4.0, 1.0, 3.0, 2.0, 5.0];
        assert_eq!(quantile(&mut x, 0.75), 4.0);
        assert_eq!(quantile(&mut x, 0.0), 1.0);
    }
}
