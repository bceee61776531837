//! The loss and its gradient, member by member.

use super::{Ensemble, EnsembleTape, chain};
use crate::nets::smooth;
use crate::team::Shares;

impl Ensemble {
    /// Adds the loss's gradient to `grad`; gives the loss.
    pub(super) fn gradient(&mut self, x: &[f32], y: &[f32], rows: usize) -> f64 {
        let (members, outputs, size) = (self.config.members, self.outputs, self.size());
        assert_eq!(x.len(), members * rows * self.inputs);
        assert_eq!(y.len(), members * rows * outputs);
        let mut tapes = std::mem::take(&mut self.tapes);
        let mut grad = std::mem::take(&mut self.grad);
        let mut bound_grads = std::mem::take(&mut self.bound_grads);
        let mut losses = std::mem::take(&mut self.losses);
        bound_grads.fill(0.0);

        let this = &*self;
        let learn = |m: usize, tape: &mut EnsembleTape, grad: &mut [f32], bounds: &mut [f32], loss: &mut f64| {
            let x = &x[m * rows * this.inputs..][..rows * this.inputs];
            let y = &y[m * rows * outputs..][..rows * outputs];
            *loss = this.member_gradient(m, x, y, rows, tape, grad, bounds);
        };
        let (member_grads, bounds_grad) = grad.split_at_mut(members * size);
        let (member_grads, bound_parts) = (Shares::new(member_grads), Shares::new(&mut bound_grads));
        let (loss_parts, tape_parts) = (Shares::new(&mut losses), Shares::new(&mut tapes));
        this.team.run(&|i| {
            // SAFETY: each thread has its own tape and its own members, whose parts do not overlap.
            let tape = &mut unsafe { tape_parts.part(i..i + 1) }[0];
            for m in this.team.share(i, members) {
                let (grad, bounds, loss) = unsafe {
                    (
                        member_grads.part(m * size..(m + 1) * size),
                        bound_parts.part(m * 2 * outputs..(m + 1) * 2 * outputs),
                        loss_parts.part(m..m + 1),
                    )
                };
                learn(m, tape, grad, bounds, &mut loss[0]);
            }
        });

        let pull = self.config.bound_weight as f32;
        for member in bound_grads.chunks_exact(2 * outputs) {
            bounds_grad.iter_mut().zip(member).for_each(|(b, m)| *b += m);
        }
        let (max, min) = bounds_grad.split_at_mut(outputs);
        max.iter_mut().for_each(|g| *g += pull);
        min.iter_mut().for_each(|g| *g -= pull);
        let (max, min) = self.bounds();
        let gap: f64 = max.iter().zip(min).map(|(a, b)| f64::from(a - b)).sum();
        let loss = losses.iter().sum::<f64>() + f64::from(pull) * gap;
        (self.tapes, self.grad, self.bound_grads, self.losses) = (tapes, grad, bound_grads, losses);
        loss
    }

    /// One member's share of the loss; adds its gradient in the member's parameters and in the bounds.
    fn member_gradient(
        &self,
        member: usize,
        x: &[f32],
        y: &[f32],
        rows: usize,
        tape: &mut EnsembleTape,
        grad: &mut [f32],
        bounds: &mut [f32],
    ) -> f64 {
        self.predict(member, x, rows, tape);
        let [trunk, mean, raw] = self.chains();
        let EnsembleTape { layers, log_var, upper, lower, precision, delta: [here, below], d_trunk, d_raw } = tape;
        let outputs = self.outputs;
        let n = rows * outputs;
        here.resize(n, 0.0);
        d_raw.resize(n, 0.0);
        precision.resize(n, 0.0);
        precision.iter_mut().zip(&*log_var).for_each(|(p, lv)| *p = smooth::exp(-lv));

        let (d_max, d_min) = bounds.split_at_mut(outputs);
        let weight = 1.0 / (self.config.members * rows) as f32;
        let mut loss = 0.0;
        for r in 0..rows {
            let row = r * outputs..(r + 1) * outputs;
            let (y, m, log_var) = (&y[row.clone()], &layers[mean.end - 1][row.clone()], &log_var[row.clone()]);
            let (upper, lower, precision) = (&upper[row.clone()], &lower[row.clone()], &precision[row.clone()]);
            let (d_m, d_v) = (&mut here[row.clone()], &mut d_raw[row]);
            for d in 0..outputs {
                let error = y[d] - m[d];
                let square = error * error * precision[d];
                loss += f64::from(square + log_var[d]);
                d_m[d] = -2.0 * weight * error * precision[d];
                let d_log_var = weight * (1.0 - square);
                // softplus' = σ: how far v passes the upper bound, and the result the lower one.
                d_v[d] = d_log_var * lower[d] * upper[d];
                d_max[d] += d_log_var * lower[d] * (1.0 - upper[d]);
                d_min[d] += d_log_var * (1.0 - lower[d]);
            }
        }

        let params = &self.params[member * self.size()..][..self.size()];
        let hidden = &layers[trunk.end - 1];
        chain::backward(params, grad, &self.layers[mean.clone()], hidden, rows, &layers[mean], here, below, true);
        std::mem::swap(here, d_trunk);
        here.resize(n, 0.0);
        here.copy_from_slice(d_raw);
        chain::backward(params, grad, &self.layers[raw.clone()], hidden, rows, &layers[raw], here, below, true);
        for ((d, other), h) in here.iter_mut().zip(&*d_trunk).zip(hidden) {
            *d = (*d + other) * chain::open(*h);
        }
        chain::backward(params, grad, &self.layers[trunk.clone()], x, rows, &layers[trunk], here, below, false);
        loss * f64::from(weight)
    }
}
