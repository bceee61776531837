//! Networks by hand, over flat arrays: each has a forward that keeps what its backward needs, and a backward that adds
//! to a gradient. No tape, no allocation after the first batch, one thread unless asked.
//!
//! Why by hand and not a tensor library: `docs/decisions/0001-networks-by-hand.md`. Conventions: matrices are row-major,
//! a batch is rows, weights are `[inputs, outputs]`, f32 throughout, gradients are *added* to what is there.

pub mod adam;
pub mod ensemble;
pub mod gaussian;
pub mod linalg;
pub mod lstm;
pub mod mlp;
pub mod smooth;
pub mod standardiser;

pub use adam::{Adam, clip_norm};
pub use mlp::{Mlp, Tape};

use crate::Result;
use crate::checkpoint::{Loader, Saver};
use crate::rng::Rng;

/// A network with its gradient and its optimiser: what is trained travels together.
#[derive(Clone, Debug)]
pub struct Model {
    /// The network.
    pub net: Mlp,
    /// The sum of gradients since [`Model::step`].
    pub grad: Vec<f32>,
    /// Its optimiser.
    pub adam: Adam,
}

impl Model {
    /// A fresh network of these layer sizes, learning at `rate`.
    pub fn new(sizes: &[usize], rate: f32, rng: &mut Rng) -> Self {
        Self::of(Mlp::new(sizes, rng), rate)
    }

    /// Trains a network that is there already.
    pub fn of(net: Mlp, rate: f32) -> Self {
        let n = net.params.len();
        Self { net, grad: vec![0.0; n], adam: Adam::new(n, rate) }
    }

    /// One Adam step on the gradient, which is zeroed.
    pub fn step(&mut self) {
        self.adam.step(&mut self.net.params, &self.grad);
        self.grad.fill(0.0);
    }

    /// Adds weights (as `name`: `policy/actor`, `weights/critic1`) and optimiser state to a checkpoint.
    pub fn save<'a>(&'a self, name: &str, to: &mut Saver<'a>) {
        to.f32s(name, &self.net.params, 1);
        self.adam.save(base(name), to);
    }

    /// Reads them back.
    pub fn load(&mut self, name: &str, from: &Loader) -> Result<()> {
        from.f32s_into(name, &mut self.net.params)?;
        self.adam.load(base(name), from)
    }
}

fn base(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, base)| base)
}

/// `target ← (1 − τ)·target + τ·online`: Polyak averaging of target networks.
pub fn polyak(target: &mut [f32], online: &[f32], tau: f32) {
    assert_eq!(target.len(), online.len());
    for (t, o) in target.iter_mut().zip(online) {
        *t += tau * (o - *t);
    }
}
