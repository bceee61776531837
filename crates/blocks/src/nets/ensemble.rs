//! An ensemble of networks that each predict a Gaussian: the dynamics model of SMBPO (Thomas et al. 2021).
//!
//! Each member has a trunk and, on top of it, two heads: one for the mean m, one for a raw log-variance v. The log-variance
//! is kept softly between two learnt bounds per output, which all members share:
//!
//! ```text
//! u = max − softplus(max − v)        log σ² = min + softplus(u − min)
//! loss = mean over members and rows of Σ_d [ (y − m)²·exp(−log σ²) + log σ² ] + 0.01·(Σ max − Σ min)
//! ```
//!
//! For dynamics the inputs are `[standardised s, a]` and the targets `[s' − s, r]`; both are the caller's business.
//! A batched matrix product over the members would do the same arithmetic; one product per member keeps each member's
//! activations in the cache.

use serde::{Deserialize, Serialize};

use super::{Adam, linalg, smooth};
use crate::checkpoint::{Loader, Saver};
use crate::rng::Rng;
use crate::team::{Shares, Team};
use crate::{Error, Result};

/// Sizes and rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnsembleConfig {
    /// Number of networks.
    pub members: usize,
    /// Width of all hidden layers.
    pub width: usize,
    /// Layers of the trunk, at least one, each with a ReLU.
    pub trunk_layers: usize,
    /// Hidden layers of each head.
    pub head_layers: usize,
    /// Learning rate.
    pub rate: f64,
    /// The first upper bound of every log-variance.
    pub max_log_var: f64,
    /// The first lower bound of every log-variance.
    pub min_log_var: f64,
    /// Weight of the pull that keeps the bounds close.
    pub bound_weight: f64,
}

impl Default for EnsembleConfig {
    /// SMBPO's.
    fn default() -> Self {
        Self {
            members: 5,
            width: 200,
            trunk_layers: 2,
            head_layers: 1,
            rate: 1e-3,
            max_log_var: 1.0,
            min_log_var: -10.0,
            bound_weight: 0.01,
        }
    }
}

impl EnsembleConfig {
    /// Says what is wrong with a setting; `prefix` is the name of the table they stand in.
    pub fn check(&self, prefix: &str) -> Result<()> {
        let need = |key: &str, fine: bool, needed: &str| match fine {
            true => Ok(()),
            false => Err(Error::other(format!("{prefix}.{key} must be {needed}"))),
        };
        need("members", (1..=1000).contains(&self.members), "between 1 and 1000")?;
        need("width", (1..=1 << 14).contains(&self.width), "between 1 and 16384")?;
        need("trunk_layers", (1..=64).contains(&self.trunk_layers), "between 1 and 64")?;
        need("head_layers", self.head_layers <= 64, "at most 64")?;
        need("rate", self.rate > 0.0 && self.rate < 1.0, "between 0 and 1")?;
        need("max_log_var", self.max_log_var.is_finite(), "a number")?;
        let apart = self.min_log_var.is_finite() && self.min_log_var < self.max_log_var;
        need("min_log_var", apart, "below max_log_var")?;
        need("bound_weight", self.bound_weight >= 0.0 && self.bound_weight.is_finite(), "0 or more")
    }
}

/// Where a layer's weights `[inputs, outputs]` and biases lie within a member's parameters.
#[derive(Clone, Copy, Debug)]
struct Layer {
    at: usize,
    inputs: usize,
    outputs: usize,
}

impl Layer {
    fn split<'p>(&self, member: &'p [f32]) -> (&'p [f32], &'p [f32]) {
        member[self.at..self.at + (self.inputs + 1) * self.outputs].split_at(self.inputs * self.outputs)
    }
    fn split_mut<'p>(&self, member: &'p mut [f32]) -> (&'p mut [f32], &'p mut [f32]) {
        member[self.at..self.at + (self.inputs + 1) * self.outputs].split_at_mut(self.inputs * self.outputs)
    }
}

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
        chain_forward(params, &self.layers[trunk.clone()], true, x, rows, &mut tape.layers[trunk.clone()]);
        let (below, heads) = tape.layers.split_at_mut(trunk.end);
        let hidden = &below[trunk.end - 1];
        for head in [&mean, &raw] {
            let outs = &mut heads[head.start - trunk.end..head.end - trunk.end];
            chain_forward(params, &self.layers[head.clone()], false, hidden, rows, outs);
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

    /// Adds the loss's gradient to `grad`; gives the loss.
    fn gradient(&mut self, x: &[f32], y: &[f32], rows: usize) -> f64 {
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
        chain_backward(params, grad, &self.layers[mean.clone()], hidden, rows, &layers[mean], here, below, true);
        std::mem::swap(here, d_trunk);
        here.resize(n, 0.0);
        here.copy_from_slice(d_raw);
        chain_backward(params, grad, &self.layers[raw.clone()], hidden, rows, &layers[raw], here, below, true);
        for ((d, other), h) in here.iter_mut().zip(&*d_trunk).zip(hidden) {
            *d = (*d + other) * open(*h);
        }
        chain_backward(params, grad, &self.layers[trunk.clone()], x, rows, &layers[trunk], here, below, false);
        loss * f64::from(weight)
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

/// The slope of a ReLU that gave `y`, as a factor: the compiler turns a product into vector code, a choice into a branch
/// per number, which takes six times as long.
fn open(y: f32) -> f32 {
    f32::from(u8::from(y > 0.0))
}

/// Layers one after the other, with a ReLU after each, the last one included only `if relu_last`.
fn chain_forward(params: &[f32], layers: &[Layer], relu_last: bool, x: &[f32], rows: usize, outs: &mut [Vec<f32>]) {
    for (i, layer) in layers.iter().enumerate() {
        let (weights, bias) = layer.split(params);
        let (before, after) = outs.split_at_mut(i);
        let input = before.last().map_or(x, |out| &out[..]);
        let out = &mut after[0];
        out.resize(rows * layer.outputs, 0.0);
        linalg::ab(out, input, weights, rows, layer.inputs, layer.outputs);
        let relu = relu_last || i + 1 < layers.len();
        for row in out.chunks_exact_mut(layer.outputs) {
            for (y, b) in row.iter_mut().zip(bias) {
                *y += b;
            }
            if relu {
                row.iter_mut().for_each(|y| *y = y.max(0.0));
            }
        }
    }
}

/// The way back through a chain. `here` holds the gradient at the last layer before its ReLU, and afterwards the one at
/// the chain's input, if asked.
fn chain_backward(
    params: &[f32],
    grad: &mut [f32],
    layers: &[Layer],
    x: &[f32],
    rows: usize,
    outs: &[Vec<f32>],
    here: &mut Vec<f32>,
    below: &mut Vec<f32>,
    input_too: bool,
) {
    for (i, layer) in layers.iter().enumerate().rev() {
        let delta = &here[..rows * layer.outputs];
        let input = if i == 0 { x } else { &outs[i - 1][..] };
        let (weights, _) = layer.split(params);
        let (d_weights, d_bias) = layer.split_mut(grad);
        linalg::add_atb(d_weights, input, delta, layer.inputs, rows, layer.outputs);
        for row in delta.chunks_exact(layer.outputs) {
            for (g, d) in d_bias.iter_mut().zip(row) {
                *g += d;
            }
        }
        if i == 0 && !input_too {
            return;
        }
        below.resize(rows * layer.inputs, 0.0);
        linalg::abt(below, delta, weights, rows, layer.outputs, layer.inputs);
        if i > 0 {
            for (d, y) in below.iter_mut().zip(input) {
                *d *= open(*y);
            }
        }
        std::mem::swap(here, below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint;

    fn small(members: usize, width: usize) -> EnsembleConfig {
        EnsembleConfig { members, width, ..EnsembleConfig::default() }
    }

    #[test]
    fn the_loss_by_hand() {
        // All weights zero: mean and raw log-variance are the heads' last biases, (0.5, 0) and (−1, 2).
        let mut ensemble = Ensemble::new(small(2, 3), 1, 1, 1, &mut Rng::stream(0, "t")).unwrap();
        let size = ensemble.size();
        ensemble.params[..2 * size].fill(0.0);
        let last = |e: &Ensemble, chain: usize| {
            let layer = e.layers[e.chains()[chain].end - 1];
            layer.at + layer.inputs * layer.outputs
        };
        let (mean, raw) = (last(&ensemble, 1), last(&ensemble, 2));
        for (m, (a, b)) in [(0.5, 0.0), (-1.0, 2.0)].into_iter().enumerate() {
            ensemble.params[m * size + mean] = a;
            ensemble.params[m * size + raw] = b;
        }
        // With bounds 1 and −10: v = 0 gives u = 1 − softplus(1) = −0.313262 and log σ² = −10 + softplus(9.686738)
        // = −0.313200; v = 2 gives u = 1 − softplus(−1) = 0.686738 and log σ² = 0.686761.
        let mut tape = EnsembleTape::default();
        let (m, lv) = ensemble.predict(1, &[7.0], 1, &mut tape);
        assert!(m[0] == -1.0 && (lv[0] - 0.686_761).abs() < 2e-6, "{lv:?}");
        // Targets 1.5 and 0: errors 1 and 1. Loss = ½·[(e^0.313200 − 0.313200) + (e^−0.686761 + 0.686761)] + 0.01·11
        // = ½·[1.054595 + 1.189964] + 0.11 = 1.232280.
        let loss = ensemble.gradient(&[7.0, -3.0], &[1.5, 0.0], 1);
        assert!((loss - 1.232_280).abs() < 2e-6, "{loss}");
        // One member alone, and no pull: e^−0.686761 + 0.686761.
        let loss = ensemble.loss(1, &[7.0], &[0.0], 1, &mut tape);
        assert!((loss - 1.189_964).abs() < 2e-6, "{loss}");
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let mut rng = Rng::stream(2, "t");
        let (members, inputs, outputs, rows) = (2, 3, 2, 4);
        let mut ensemble = Ensemble::new(small(members, 6), inputs, outputs, 1, &mut rng).unwrap();
        // Narrow bounds, so that both bind and their gradients are far from zero.
        let n = ensemble.params.len();
        ensemble.params[n - 4..].copy_from_slice(&[0.4, 0.6, -0.7, -0.3]);
        let mut x = vec![0.0; members * rows * inputs];
        let mut y = vec![0.0; members * rows * outputs];
        rng.fill_normal(&mut x);
        rng.fill_normal(&mut y);
        ensemble.gradient(&x, &y, rows);
        let by_hand = std::mem::replace(&mut ensemble.grad, vec![0.0; n]);
        assert!(by_hand[n - 4..].iter().all(|g| g.abs() > 0.01), "the bounds matter: {:?}", &by_hand[n - 4..]);
        for i in 0..n {
            let (old, step) = (ensemble.params[i], 2e-3);
            let mut at = |value: f32| {
                ensemble.params[i] = value;
                ensemble.gradient(&x, &y, rows)
            };
            let expected = (at(old + step) - at(old - step)) / (2.0 * f64::from(step));
            ensemble.params[i] = old;
            let got = f64::from(by_hand[i]);
            assert!((expected - got).abs() < 2e-3 * expected.abs().max(1.0), "{i}: {got} by hand, {expected}");
        }
    }

    /// y = [sin 2a + b, a·b] with noise of standard deviation 0.1·e^a and 0.2.
    fn problem(n: usize, rng: &mut Rng) -> (Vec<f32>, Vec<f32>) {
        let mut x = vec![0.0; 2 * n];
        rng.fill_action(&mut x);
        let y = x.chunks_exact(2).flat_map(|x| {
            let (mean, std) = truth(x);
            [0, 1].map(|d| mean[d] + std[d] * rng.normal() as f32)
        });
        let y = y.collect();
        (x, y)
    }

    fn truth(x: &[f32]) -> ([f32; 2], [f32; 2]) {
        ([(2.0 * x[0]).sin() + x[1], x[0] * x[1]], [0.1 * x[0].exp(), 0.2])
    }

    fn train(threads: usize, updates: usize) -> (Ensemble, f64) {
        let mut rng = Rng::stream(5, "ensemble");
        let (x, y) = problem(8000, &mut rng);
        let mut ensemble = Ensemble::new(small(3, 48), 2, 2, threads, &mut rng).unwrap();
        let rows = 128;
        let mut batch = (vec![0.0; 3 * rows * 2], vec![0.0; 3 * rows * 2]);
        let mut loss = 0.0;
        for update in 0..updates {
            for i in 0..3 * rows {
                let from = rng.below(8000);
                batch.0[2 * i..2 * i + 2].copy_from_slice(&x[2 * from..2 * from + 2]);
                batch.1[2 * i..2 * i + 2].copy_from_slice(&y[2 * from..2 * from + 2]);
            }
            // A falling rate averages the last minibatches' noise away.
            ensemble.adam.rate = 3e-3 * (1.0 - update as f32 / updates as f32).max(0.01);
            loss = ensemble.update(&batch.0, &batch.1, rows).unwrap();
        }
        (ensemble, loss)
    }

    #[test]
    fn it_learns_a_function_and_the_noise_around_it() {
        let (ensemble, _) = train(1, 1500);
        let mut rng = Rng::stream(6, "test");
        let n = 4000;
        let (x, y) = problem(n, &mut rng);
        let mut tape = EnsembleTape::default();
        for member in 0..3 {
            let (mean, log_var) = ensemble.predict(member, &x, n, &mut tape);
            for d in 0..2 {
                let (mut error, mut ratio, mut z2) = (0.0, 0.0, 0.0);
                for i in 0..n {
                    let (true_mean, true_std) = truth(&x[2 * i..2 * i + 2]);
                    let (m, std) = (mean[2 * i + d], (0.5 * log_var[2 * i + d]).exp());
                    error += f64::from(m - true_mean[d]).powi(2) / n as f64;
                    ratio += f64::from((std / true_std[d]).ln()).abs() / n as f64;
                    z2 += f64::from((y[2 * i + d] - m) / std).powi(2) / n as f64;
                }
                assert!(error.sqrt() < 0.04, "member {member}, output {d}: mean off by {}", error.sqrt());
                assert!(ratio < 0.1, "member {member}, output {d}: deviations off by a factor e^{ratio}");
                assert!((z2 - 1.0).abs() < 0.15, "member {member}, output {d}: squared z of {z2}");
            }
        }
        let (max, min) = ensemble.bounds();
        assert!(max.iter().zip(min).all(|(max, min)| max < &1.0 && min > &-10.0), "the bounds close in");
        // Samples have the moments that were predicted.
        let x = [0.3f32, -0.5].repeat(n);
        let mut out = vec![0.0; 2 * n];
        ensemble.sample(1, &x, n, &mut rng, &mut tape, &mut out);
        let (mean, log_var) = ensemble.predict(1, &x[..2], 1, &mut tape);
        for d in 0..2 {
            let values = || out.iter().skip(d).step_by(2).map(|y| f64::from(*y));
            let m = values().sum::<f64>() / n as f64;
            let std = (values().map(|y| (y - m).powi(2)).sum::<f64>() / n as f64).sqrt();
            let expected = f64::from((0.5 * log_var[d]).exp());
            assert!((m - f64::from(mean[d])).abs() < 0.1 * expected && (std / expected - 1.0).abs() < 0.05);
        }
    }

    #[test]
    fn the_number_of_threads_changes_no_bit() {
        let (one, two) = (train(1, 20), train(2, 20));
        assert_eq!(one.0.params, two.0.params);
        assert_eq!(one.1, two.1);
    }

    #[test]
    fn a_loss_that_is_not_finite_is_refused_and_nothing_is_changed() {
        let mut ensemble = Ensemble::new(small(2, 4), 1, 1, 1, &mut Rng::stream(0, "t")).unwrap();
        let before = ensemble.params.clone();
        let error = ensemble.update(&[0.0, 0.0], &[1.0, f32::NAN], 1).unwrap_err().to_string();
        assert!(error.contains("loss is NaN at update 1"), "{error}");
        assert_eq!(ensemble.params, before);
        ensemble.update(&[0.0, 0.0], &[1.0, 1.0], 1).unwrap();
        assert!(ensemble.params.iter().all(|p| p.is_finite()));
    }

    #[test]
    fn it_goes_on_from_a_checkpoint_bit_for_bit() {
        let dir = tempfile::tempdir().unwrap();
        let (mut original, _) = train(1, 5);
        let mut saver = Saver::default();
        original.save("model", &mut saver);
        let path = checkpoint::write(dir.path(), "run", 1, &saver, 1).unwrap();
        let mut back = Ensemble::new(small(3, 48), 2, 2, 1, &mut Rng::stream(9, "other")).unwrap();
        back.load("model", &Loader::open(&path, None).unwrap()).unwrap();
        back.adam.rate = original.adam.rate;
        let (x, y) = problem(3 * 4, &mut Rng::stream(1, "p"));
        for _ in 0..3 {
            assert_eq!(original.update(&x, &y, 4).unwrap(), back.update(&x, &y, 4).unwrap());
        }
        assert_eq!(original.params, back.params);
    }
}
