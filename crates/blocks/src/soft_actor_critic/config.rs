//! Settings of the update.

use serde::{Deserialize, Serialize};

use crate::nets::layer_sizes;
use crate::{Error, Result};

/// Sizes and rates of the update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoftActorCriticConfig {
    /// Width of the hidden layers of actor and critics.
    pub width: usize,
    /// Number of hidden layers.
    pub layers: usize,
    /// Learning rate of actor, critics and temperature.
    pub rate: f64,
    /// Discount γ per choice.
    pub gamma: f64,
    /// Polyak rate of the target critics.
    pub tau: f64,
    /// The first temperature α.
    pub alpha: f64,
    /// Whether α is learnt.
    pub auto_alpha: bool,
    /// The target entropy is −this·(action dimension).
    pub entropy_per_action: f64,
    /// The actor learns at every this many updates of the critics.
    pub actor_every: u64,
    /// Whether the actor climbs the smaller of both critics (SAC), or one drawn at random per update (SMBPO's SSAC).
    pub min_critic: bool,
}

impl Default for SoftActorCriticConfig {
    /// The constants of Haarnoja et al. 2018b (automatic temperature), as every later implementation has them.
    fn default() -> Self {
        Self {
            width: 256,
            layers: 2,
            rate: 3e-4,
            gamma: 0.99,
            tau: 0.005,
            alpha: 1.0,
            auto_alpha: true,
            entropy_per_action: 1.0,
            actor_every: 1,
            min_critic: true,
        }
    }
}

impl SoftActorCriticConfig {
    /// Says what is wrong with a setting; `prefix` is the name of the table they stand in.
    pub fn check(&self, prefix: &str) -> Result<()> {
        let need = |key: &str, fine: bool, needed: &str| match fine {
            true => Ok(()),
            false => Err(Error::other(format!("{prefix}.{key} must be {needed}"))),
        };
        need("width", (1..=1 << 14).contains(&self.width), "between 1 and 16384")?;
        need("layers", (1..=64).contains(&self.layers), "between 1 and 64")?;
        need("rate", self.rate > 0.0 && self.rate < 1.0, "between 0 and 1")?;
        need("gamma", (0.0..1.0).contains(&self.gamma), "at least 0 and below 1")?;
        need("tau", self.tau > 0.0 && self.tau <= 1.0, "above 0 and at most 1")?;
        need("alpha", self.alpha > 0.0 && self.alpha.is_finite(), "above 0")?;
        need("actor_every", self.actor_every > 0, "at least 1")
    }

    /// Layer sizes of a network of these inputs and outputs.
    pub(super) fn sizes(&self, inputs: usize, outputs: usize) -> Vec<usize> {
        layer_sizes(inputs, self.width, self.layers, outputs)
    }
}
