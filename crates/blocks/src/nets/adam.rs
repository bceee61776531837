//! Adam (Kingma & Ba 2015), without weight decay, and clipping of gradients.

use crate::Result;
use crate::checkpoint::{Loader, Saver};

/// Optimiser state of one flat array of parameters.
#[derive(Clone, Debug)]
pub struct Adam {
    /// Learning rate.
    pub rate: f32,
    /// Decay of the mean.
    pub beta1: f32,
    /// Decay of the square.
    pub beta2: f32,
    /// Added to the root, outside it, as in the paper.
    pub epsilon: f32,
    m: Vec<f32>,
    v: Vec<f32>,
    t: u64,
}

impl Adam {
    /// For `n` parameters, with the paper's constants.
    pub fn new(n: usize, rate: f32) -> Self {
        Self { rate, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, m: vec![0.0; n], v: vec![0.0; n], t: 0 }
    }

    /// Steps taken.
    pub fn steps(&self) -> u64 {
        self.t
    }

    /// One step against `grad`.
    pub fn step(&mut self, params: &mut [f32], grad: &[f32]) {
        assert!(params.len() == self.m.len() && grad.len() == self.m.len(), "Adam for {} parameters", self.m.len());
        let step = self.begin();
        step.apply(params, grad, &mut self.m, &mut self.v);
    }

    /// Counts a step and gives its constants, for those who apply it in parts.
    pub fn begin(&mut self) -> AdamStep {
        self.t += 1;
        let t = i32::try_from(self.t).unwrap_or(i32::MAX);
        // Bias corrections in f64: 1 − 0.999^t loses digits in f32 at small t.
        let c1 = 1.0 - f64::from(self.beta1).powi(t);
        let c2 = 1.0 - f64::from(self.beta2).powi(t);
        AdamStep {
            rate: (f64::from(self.rate) / c1) as f32,
            root: (1.0 / c2.sqrt()) as f32,
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
        }
    }

    /// The two moments, for those who apply a step in parts.
    pub fn moments(&mut self) -> (&mut [f32], &mut [f32]) {
        (&mut self.m, &mut self.v)
    }

    /// Adds the state to a checkpoint.
    pub fn save<'a>(&'a self, name: &str, to: &mut Saver<'a>) {
        to.f32s(&format!("optimiser/{name}.m"), &self.m, 1);
        to.f32s(&format!("optimiser/{name}.v"), &self.v, 1);
        to.json(&format!("optimiser/{name}.t"), &self.t);
    }

    /// Reads it back.
    pub fn load(&mut self, name: &str, from: &Loader) -> Result<()> {
        from.f32s_into(&format!("optimiser/{name}.m"), &mut self.m)?;
        from.f32s_into(&format!("optimiser/{name}.v"), &mut self.v)?;
        self.t = from.json(&format!("optimiser/{name}.t"))?;
        Ok(())
    }
}

/// The constants of one step.
#[derive(Clone, Copy, Debug)]
pub struct AdamStep {
    rate: f32,
    root: f32,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
}

impl AdamStep {
    /// The step on matching parts of parameters, gradient and moments.
    pub fn apply(&self, params: &mut [f32], grad: &[f32], m: &mut [f32], v: &mut [f32]) {
        let (b1, b2) = (self.beta1, self.beta2);
        // The moments of a parameter without gradient (a unit that is off for good) fade until they are subnormal, and then
        // never reach zero: many processors take a hundred times longer for each. They count as zero from here on.
        let kept = |x: f32, least: f32| if x.abs() < least { 0.0 } else { x };
        for (((p, g), m), v) in params.iter_mut().zip(grad).zip(m).zip(v) {
            *m = kept(b1 * *m + (1.0 - b1) * g, 1e-30);
            *v = kept(b2 * *v + (1.0 - b2) * g * g, 1e-36);
            *p -= self.rate * *m / (v.sqrt() * self.root + self.epsilon);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_steps_by_hand() {
        let mut adam = Adam::new(1, 0.1);
        let mut p = [1.0f32];
        // Step 1: m̂ = g, v̂ = g², so the step is the rate: 1 − 0.1.
        adam.step(&mut p, &[4.0]);
        assert!((p[0] - 0.9).abs() < 1e-6);
        // Step 2 with g = 2: m = 0.9·0.4 + 0.1·2 = 0.56, m̂ = 0.56/0.19; v = 0.999·0.016 + 0.001·4 = 0.019984,
        // v̂ = 0.019984/0.001999; step 0.1·2.947368/3.161821 = 0.0932174.
        adam.step(&mut p, &[2.0]);
        assert!((p[0] - (0.9 - 0.093_217_4)).abs() < 1e-5, "{}", p[0]);
    }

    #[test]
    fn moments_without_gradient_end_at_zero() {
        let mut adam = Adam::new(1, 0.1);
        let mut p = [1.0f32];
        adam.step(&mut p, &[1e-3]);
        for step in 0..80_000 {
            adam.step(&mut p, &[0.0]);
            let (m, v) = (adam.m[0], adam.v[0]);
            assert!((m == 0.0 || m.is_normal()) && (v == 0.0 || v.is_normal()), "step {step}: {m} {v}");
        }
        assert_eq!((adam.m[0], adam.v[0]), (0.0, 0.0));
    }
}
