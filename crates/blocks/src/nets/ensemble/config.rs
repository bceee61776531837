//! The ensemble's settings.

use serde::{Deserialize, Serialize};

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
