//! A policy taken apart: its networks and how they are put together, for use where this program is not ([`crate::Actor::portable`]).

use serde_json::Value;
use sskp_blocks::nets::Mlp;
use sskp_blocks::nets::lstm::Lstm;

/// What acting without noise needs.
pub struct Portable {
    /// Which recipe: `squashed`, `recovery` or `skill`.
    pub kind: &'static str,
    /// Its networks.
    pub networks: Vec<Network>,
    /// Settings and numbers of the recipe.
    pub recipe: Value,
    /// Numbers that the recipe draws, the same in every state: rounds, rows and columns, and all of them.
    pub noise: Option<([usize; 3], Vec<f32>)>,
}

/// One network with named inputs and outputs.
pub struct Network {
    /// Its name.
    pub name: &'static str,
    /// Inputs by name and length, joined in this order.
    pub inputs: Vec<(&'static str, usize)>,
    /// What it computes.
    pub body: Body,
}

/// What a network computes of its joined inputs.
pub enum Body {
    /// `logit`, the perceptron's output.
    Logit(Mlp),
    /// `mean` and `std` of a Gaussian, out of a head `[mean, log σ]`.
    Gaussian(Mlp),
    /// `action`, the first so many outputs through tanh: of a head with a Gaussian, its mean.
    Tanh(Mlp, usize),
    /// `action`, clipped to [−1, 1].
    Clipped(Mlp),
    /// `risk`, the logistic function of the greater output.
    Greater(Mlp, Mlp),
    /// A cell that is stepped: besides the inputs it takes `h` and `c` and gives `next_action` (unclipped: the
    /// next step's input), `next_h` and `next_c`.
    Cell(Lstm, Mlp),
}
