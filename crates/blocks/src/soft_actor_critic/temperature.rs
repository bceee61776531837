//! The temperature α: how much the penalty on the policy counts.

use crate::Result;
use crate::checkpoint::{Loader, Saver};
use crate::nets::Adam;

/// log α and its optimiser.
#[derive(Clone, Debug)]
pub(super) struct Temperature {
    log_alpha: [f32; 1],
    adam: Adam,
    learns: bool,
}

impl Temperature {
    pub(super) fn new(first: f64, rate: f64, learns: bool) -> Self {
        Self { log_alpha: [(first as f32).ln()], adam: Adam::new(1, rate as f32), learns }
    }

    pub(super) fn alpha(&self) -> f32 {
        self.log_alpha[0].exp()
    }

    pub(super) fn parameters(&self) -> usize {
        usize::from(self.learns)
    }

    /// One step on the loss −log α·(D − D̄): α grows while the mean penalty D is above its target D̄, so that the policy comes
    /// nearer to it, and shrinks while it is below.
    pub(super) fn update(&mut self, penalty: f64, target: f64) {
        if self.learns {
            self.adam.step(&mut self.log_alpha, &[-(penalty - target) as f32]);
        }
    }

    pub(super) fn save<'a>(&'a self, to: &mut Saver<'a>) {
        to.f32s("weights/log_alpha", &self.log_alpha, 1);
        self.adam.save("log_alpha", to);
    }

    pub(super) fn load(&mut self, from: &Loader) -> Result<()> {
        from.f32s_into("weights/log_alpha", &mut self.log_alpha)?;
        self.adam.load("log_alpha", from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_above_the_target_shrinks_below_and_stays_where_it_is_not_learnt() {
        let after = |penalty: f64, learns: bool| {
            let mut temperature = Temperature::new(0.5, 1e-2, learns);
            (0..10).for_each(|_| temperature.update(penalty, 3.0));
            temperature.alpha()
        };
        // Ten steps of Adam at 1e-2 against a constant slope move log α by 0.1.
        assert!((after(4.0, true) - 0.5 * 0.1f32.exp()).abs() < 1e-3);
        assert!((after(2.0, true) - 0.5 * (-0.1f32).exp()).abs() < 1e-3);
        assert_eq!(after(4.0, false), 0.5);
    }
}
