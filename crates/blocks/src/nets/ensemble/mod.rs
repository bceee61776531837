//! An ensemble of networks that each predict a Gaussian: the dynamics model of SMBPO (Thomas et al. 2021).
//!
//! Each member has a trunk and, on top of it, two heads: one for the mean m, one for a raw log-variance v. The log-variance
//! is kept softly between two learnt bounds per output, which all members share:
//!
//! ```math
//! u = \max - \mathrm{softplus}(\max - v), \qquad \log\sigma^2 = \min + \mathrm{softplus}(u - \min),
//! ```
//!
//! ```math
//! L = \left\langle \sum_d (y_d - m_d)^2\, e^{-\log\sigma_d^2} + \log\sigma_d^2 \right\rangle + 0.01\, \Big(\sum_d \max\nolimits_d - \sum_d \min\nolimits_d\Big),
//! ```
//!
//! with the mean over members and rows.
//!
//! For dynamics the inputs are `[standardised s, a]` and the targets `[s' − s, r]`; both are the caller's business.
//! A batched matrix product over the members would do the same arithmetic; one product per member keeps each member's
//! activations in the cache.

mod chain;
mod config;
mod gradient;
#[cfg(test)]
mod tests;

pub use config::EnsembleConfig;

use super::{Adam, smooth};
use crate::checkpoint::{Loader, Saver};
use crate::rng::Rng;
use crate::team::Team;
use crate::{Error, Result};
use chain::Layer;

/// The ensemble, its gradient and its optimiser.
pub struct Ensemble {
    config: EnsembleConfig,
    inputs: usize,
    outputs: usize,
    /// Layers of one member: trunk, mean head, log-variance head.
    layers: Vec<Layer>,
    /// All parameters, member by member; then the upper and the lower bounds.
    pub params: Vec<f32>,
    grad: Vec<f32>,
    adam: Adam,
    tapes: Vec<EnsembleTape>,
    /// Each member's gradient in the bounds and its loss, so that they can be summed in the members' order.
    bound_grads: Vec<f32>,
    losses: Vec<f64>,
    team: Team,
}

/// What one member's forward pass leaves behind. Grows to the largest batch seen and is then reused.
#[derive(Clone, Debug, Default)]
pub struct EnsembleTape {
    layers: Vec<Vec<f32>>,
    log_var: Vec<f32>,
    /// The slopes of the two softplus of the bounds, and e to the minus log-variance.
    upper: Vec<f32>,
    lower: Vec<f32>,
    precision: Vec<f32>,
    /// Gradients flowing back: two buffers for each chain of layers, and the trunk's sum over the heads.
    delta: [Vec<f32>; 2],
    d_trunk: Vec<f32>,
    d_raw: Vec<f32>,
}

impl Ensemble {
    /// Fresh networks. Weights and biases are uniform in ±1/√inputs, as in [`super::Mlp`]: SMBPO's own first weights are
    /// ten times smaller by an accident of tensor shapes. `threads` bounds how many members learn at once; the results do
    /// not depend on it.
    pub fn new(config: EnsembleConfig, inputs: usize, outputs: usize, threads: usize, rng: &mut Rng) -> Result<Self> {
        assert!(config.members > 0 && config.trunk_layers > 0, "an ensemble has members, and they have a trunk");
        let width = config.width;
        let trunk = std::iter::once((inputs, width)).chain((1..config.trunk_layers).map(|_| (width, width)));
        let head = || (0..config.head_layers).map(|_| (width, width)).chain(std::iter::once((width, outputs)));
        let mut at = 0;
        let layers: Vec<Layer> = trunk
            .chain(head())
            .chain(head())
            .map(|(inputs, outputs)| {
                let layer = Layer { at, inputs, outputs };
                at += (inputs + 1) * outputs;
                layer
            })
            .collect();
        let mut params = Vec::with_capacity(config.members * at + 2 * outputs);
        for _ in 0..config.members {
            for layer in &layers {
                let bound = 1.0 / (layer.inputs as f64).sqrt();
                let n = (layer.inputs + 1) * layer.outputs;
                params.extend((0..n).map(|_| rng.uniform(-bound, bound) as f32));
            }
        }
        params.extend(std::iter::repeat_n(config.max_log_var as f32, outputs));
        params.extend(std::iter::repeat_n(config.min_log_var as f32, outputs));
        let threads = threads.clamp(1, config.members);
        let n = params.len();
        Ok(Self {
            inputs,
            outputs,
            layers,
            params,
            grad: vec![0.0; n],
            adam: Adam::new(n, config.rate as f32),
            tapes: vec![EnsembleTape::default(); threads],
            bound_grads: vec![0.0; config.members * 2 * outputs],
            losses: vec![0.0; config.members],
            team: Team::new(threads),
            config,
        })
    }

    /// Number of members.
    pub fn members(&self) -> usize {
        self.config.members
    }
    /// Length of an input.
    pub fn inputs(&self) -> usize {
        self.inputs
    }
    /// Length of an output.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Updates done.
    pub fn updates(&self) -> u64 {
        self.adam.steps()
    }

    /// Parameters of one member.
    fn size(&self) -> usize {
        (self.params.len() - 2 * self.outputs) / self.config.members
    }
    /// The upper and lower bounds of the log-variances, one of each per output.
    pub fn bounds(&self) -> (&[f32], &[f32]) {
        self.params[self.config.members * self.size()..].split_at(self.outputs)
    }
    /// Indices of the layers of the trunk, the mean head and the log-variance head.
    fn chains(&self) -> [std::ops::Range<usize>; 3] {
        let trunk = self.config.trunk_layers;
        let head = self.config.head_layers + 1;
        [0..trunk, trunk..trunk + head, trunk + head..trunk + 2 * head]
    }

    /// Mean and log-variance `[rows, outputs]` of one member for inputs `x[rows, inputs]`.
    pub fn predict<'t>(
        &self,
        member: usize,
        x: &[f32],
        rows: usize,
        tape: &'t mut EnsembleTape,
    ) -> (&'t [f32], &'t [f32]) {
        assert!(member < self.config.members, "member {member} of {}", self.config.members);
        assert_eq!(x.len(), rows * self.inputs, "input of {} numbers for {rows} rows", x.len());
        let params = &self.params[member * self.size()..][..self.size()];
        tape.layers.resize_with(self.layers.len(), Vec::new);
        let [trunk, mean, raw] = self.chains();
        chain::forward(params, &self.layers[trunk.clone()], true, x, rows, &mut tape.layers[trunk.clone()]);
        let (below, heads) = tape.layers.split_at_mut(trunk.end);
        let hidden = &below[trunk.end - 1];
        for head in [&mean, &raw] {
            let outs = &mut heads[head.start - trunk.end..head.end - trunk.end];
            chain::forward(params, &self.layers[head.clone()], false, hidden, rows, outs);
        }
        let (max, min) = self.bounds();
        let n = rows * self.outputs;
        [&mut tape.log_var, &mut tape.upper, &mut tape.lower].into_iter().for_each(|v| v.resize(n, 0.0));
        for r in 0..rows {
            let row = r * self.outputs..(r + 1) * self.outputs;
            let (log_var, raw) = (&mut tape.log_var[row.clone()], &tape.layers[raw.end - 1][row.clone()]);
            bound(log_var, &mut tape.upper[row.clone()], &mut tape.lower[row], raw, max, min);
        }
        (&tape.layers[mean.end - 1], &tape.log_var)
    }

    /// Draws `out[rows, outputs]` from one member's Gaussians for inputs `x[rows, inputs]`. SMBPO draws one member per step
    /// of imagination for the whole batch.
    pub fn sample(
        &self,
        member: usize,
        x: &[f32],
        rows: usize,
        rng: &mut Rng,
        tape: &mut EnsembleTape,
        out: &mut [f32],
    ) {
        assert_eq!(out.len(), rows * self.outputs);
        rng.fill_normal(out);
        let (mean, log_var) = self.predict(member, x, rows, tape);
        for ((z, m), lv) in out.iter_mut().zip(mean).zip(log_var) {
            *z = m + smooth::exp(0.5 * lv) * *z;
        }
    }

    /// One member's loss on rows it need not have learnt from, without the pull on the bounds.
    pub fn loss(&self, member: usize, x: &[f32], y: &[f32], rows: usize, tape: &mut EnsembleTape) -> f64 {
        assert_eq!(y.len(), rows * self.outputs);
        let (mean, log_var) = self.predict(member, x, rows, tape);
        let terms = y.iter().zip(mean).zip(log_var).map(|((y, m), lv)| f64::from((y - m).powi(2) * (-lv).exp() + lv));
        terms.sum::<f64>() / rows as f64
    }

    /// One Adam step. `x[members, rows, inputs]` and `y[members, rows, outputs]` hold each member's own minibatch. Gives
    /// the loss before the step; one that is not finite is an error, and nothing is changed.
    pub fn update(&mut self, x: &[f32], y: &[f32], rows: usize) -> Result<f64> {
        let loss = self.gradient(x, y, rows);
        if !loss.is_finite() {
            self.grad.fill(0.0);
            return Err(Error::other(format!("the ensemble's loss is {loss} at update {}", self.adam.steps() + 1)));
        }
        self.adam.step(&mut self.params, &self.grad);
        self.grad.fill(0.0);
        Ok(loss)
    }

    /// Adds parameters and optimiser state to a checkpoint.
    pub fn save<'a>(&'a self, name: &str, to: &mut Saver<'a>) {
        to.f32s(&format!("weights/{name}"), &self.params, 1);
        self.adam.save(name, to);
    }

    /// Reads them back.
    pub fn load(&mut self, name: &str, from: &Loader) -> Result<()> {
        from.f32s_into(&format!("weights/{name}"), &mut self.params)?;
        self.adam.load(name, from)
    }
}

/// One row of log-variances between their bounds, and the slopes of both softplus. A function of its own, because the compiler
/// takes only parameters not to overlap, and makes no vector code otherwise.
#[inline(never)]
fn bound(log_var: &mut [f32], upper: &mut [f32], lower: &mut [f32], raw: &[f32], max: &[f32], min: &[f32]) {
    let outs = log_var.iter_mut().zip(upper).zip(lower);
    for (((log_var, upper), lower), ((v, max), min)) in outs.zip(raw.iter().zip(max).zip(min)) {
        let (over, slope) = smooth::softplus(max - v);
        *upper = slope;
        let (inside, slope) = smooth::softplus(max - over - min);
        *lower = slope;
        *log_var = min + inside;
    }
}
