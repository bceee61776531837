//! How near to a violation a state is, learnt from the states in which episodes ended in one: what falls say of the steps that did not fall.
//!
//! ```text
//! N(s) = sigmoid(b + w·s + v·s²/2),  on standardised states
//! L = ½·mean over states from which a step was taken of −log(1 − N) + ½·mean over violating states of −log N + (ρ/2)·(|w|² + |v|²)
//! ```
//! Both kinds count alike, however rare violations are. Safety constraints are mostly bounds of a few quantities, which a quadric sees, and it is
//! smooth where there is no data: a network would learn the bound itself, a step that says nothing before it is reached.

use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::nets::Adam;
use sskp_blocks::nets::smooth::sigmoid;
use sskp_blocks::ring::Ring;

use super::config::AdaptConfig;

/// Violating states that are kept; demonstrations have tens, a run of a million steps tens to hundreds.
const KEPT: usize = 10_000;
/// Violating states in a minibatch.
const DRAWN: usize = 32;
/// Standardised states are cut here, or squares of outliers would be all that counts.
const FARTHEST: f32 = 10.0;

/// The classifier and the violating states it learns from.
pub(super) struct Nearness {
    obs: usize,
    /// w, v, b.
    weights: Vec<f32>,
    adam: Adam,
    violating: Ring,
    /// The violating state whose turn it is.
    next: usize,
    grad: Vec<f32>,
}

impl Nearness {
    pub(super) fn new(config: &AdaptConfig, obs: usize) -> Self {
        let n = 2 * obs + 1;
        Self {
            obs,
            weights: vec![0.0; n],
            adam: Adam::new(n, config.rate as f32),
            violating: Ring::new(obs, KEPT),
            next: 0,
            grad: vec![0.0; n],
        }
    }

    pub(super) fn parameters(&self) -> usize {
        self.weights.len()
    }

    /// An episode ended in this state, in a violation.
    pub(super) fn violated(&mut self, state: &[f32]) {
        self.violating.place().copy_from_slice(state);
    }

    /// N of every state; 0 as long as no violation was seen.
    pub(super) fn of(&self, states: &[f32], near: &mut Vec<f32>) {
        near.clear();
        let known = !self.violating.is_empty();
        let each = states.chunks_exact(self.obs).map(|s| if known { sigmoid(logit(&self.weights, s)) } else { 0.0 });
        near.extend(each);
    }

    /// One update on states from which steps were taken.
    pub(super) fn update(&mut self, config: &AdaptConfig, states: &[f32]) {
        if self.violating.is_empty() {
            return;
        }
        let Self { obs, weights, adam, violating, next, grad } = self;
        let decayed = weights.len() - 1;
        grad.iter_mut().zip(&*weights).for_each(|(g, w)| *g = config.near_decay as f32 * w);
        grad[decayed] = 0.0;
        let scale = 0.5 * *obs as f32 / states.len() as f32;
        for s in states.chunks_exact(*obs) {
            let near = sigmoid(logit(weights, s));
            add(grad, s, scale * near);
        }
        for _ in 0..DRAWN {
            let s = violating.row(*next % violating.len());
            *next = (*next + 1) % violating.len();
            let near = sigmoid(logit(weights, s));
            add(grad, s, 0.5 / DRAWN as f32 * (near - 1.0));
        }
        adam.step(weights, grad);
    }

    pub(super) fn save<'a>(&'a self, to: &mut Saver<'a>) {
        to.f32s("weights/nearness", &self.weights, 1);
        self.adam.save("nearness", to);
        self.violating.save("violating", to);
        to.json("nearness.next", &self.next);
    }

    pub(super) fn load(&mut self, from: &Loader) -> Result<()> {
        from.f32s_into("weights/nearness", &mut self.weights)?;
        self.adam.load("nearness", from)?;
        self.violating.load("violating", from)?;
        self.next = from.json("nearness.next")?;
        Ok(())
    }
}

/// b + w·s + v·s²/2.
fn logit(weights: &[f32], s: &[f32]) -> f32 {
    let (w, rest) = weights.split_at(s.len());
    let (v, b) = rest.split_at(s.len());
    let each = |(x, (w, v)): (&f32, (&f32, &f32))| {
        let x = x.clamp(-FARTHEST, FARTHEST);
        x * (w + v * 0.5 * x)
    };
    b[0] + s.iter().zip(w.iter().zip(v)).map(each).sum::<f32>()
}

/// Adds `slope` times the gradient of the logit.
fn add(grad: &mut [f32], s: &[f32], slope: f32) {
    let (w, rest) = grad.split_at_mut(s.len());
    let (v, b) = rest.split_at_mut(s.len());
    for (x, (w, v)) in s.iter().zip(w.iter_mut().zip(v)) {
        let x = x.clamp(-FARTHEST, FARTHEST);
        *w += slope * x;
        *v += slope * 0.5 * x * x;
    }
    b[0] += slope;
}

#[cfg(test)]
mod tests {
    use sskp_blocks::rng::Rng;

    use super::*;

    /// States that fall outside |x| < 2 in the first coordinate, whatever the second; N has to tell how near they are on both sides.
    #[test]
    fn it_learns_a_bound_on_both_sides_and_how_near_it_is() {
        let config = AdaptConfig { rate: 1e-2, ..Default::default() };
        let mut near = Nearness::new(&config, 2);
        let mut rng = Rng::stream(0, "nearness");
        let mut states = vec![0.0; 2 * 256];
        let mut out = Vec::new();
        near.of(&states, &mut out);
        assert!(out.iter().all(|n| *n == 0.0), "nothing is known before the first violation");
        for i in 0..50 {
            near.violated(&[if i % 2 == 0 { 2.1 } else { -2.1 }, rng.normal() as f32]);
        }
        for _ in 0..3000 {
            rng.fill_normal(&mut states);
            states.chunks_exact_mut(2).for_each(|s| s[0] = (0.7 * s[0]).clamp(-1.99, 1.99));
            near.update(&config, &states);
        }
        near.of(&[2.1, 0.0, 1.7, 1.0, 1.2, 0.0, 0.0, 0.0, -1.7, -1.0, -2.1, 1.0], &mut out);
        assert!(out[0] > 0.85 && out[5] > 0.85 && out[3] < 0.1, "{out:?}");
        assert!(out[0] > out[1] + 0.05 && out[1] > out[2] + 0.1 && out[2] > out[3] + 0.05, "{out:?}");
        assert!((out[1] - out[4]).abs() < 0.15, "{out:?}");
    }

    #[test]
    fn its_gradient_agrees_with_finite_differences() {
        let config = AdaptConfig { near_decay: 0.5, ..Default::default() };
        let mut near = Nearness::new(&config, 2);
        near.weights = vec![0.3, -0.2, 0.5, 0.1, -0.4];
        near.violated(&[1.5, -0.5]);
        let states = [0.2, 0.7, -1.0, 0.4];
        let loss = |weights: &[f32]| {
            let of = |s: &[f32]| f64::from(sigmoid(logit(weights, s)));
            let taken: f64 = states.chunks_exact(2).map(|s| -(1.0 - of(s)).ln()).sum();
            let decay: f64 = weights[..4].iter().map(|w| f64::from(w * w)).sum();
            0.25 * taken - 0.5 * of(&[1.5, -0.5]).ln() + 0.25 * decay
        };
        let weights = near.weights.clone();
        near.update(&config, &states);
        for i in 0..5 {
            let moved = |by: f32| {
                let mut weights = weights.clone();
                weights[i] += by;
                loss(&weights)
            };
            let expected = (moved(1e-2) - moved(-1e-2)) / 2e-2;
            assert!((expected - f64::from(near.grad[i])).abs() < 1e-3, "{i}: {expected} against {}", near.grad[i]);
        }
    }
}
