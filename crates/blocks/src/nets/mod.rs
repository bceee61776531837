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
pub mod model;
pub mod smooth;
pub mod standardiser;

pub use adam::Adam;
pub use mlp::{Mlp, Tape};
pub use model::Model;

/// `target ← (1 − τ)·target + τ·online`: Polyak averaging of target networks.
pub fn polyak(target: &mut [f32], online: &[f32], tau: f32) {
    assert_eq!(target.len(), online.len());
    for (t, o) in target.iter_mut().zip(online) {
        *t += tau * (o - *t);
    }
}

/// Layer sizes of a perceptron with `layers` hidden layers of `width` units.
pub fn layer_sizes(inputs: usize, width: usize, layers: usize, outputs: usize) -> Vec<usize> {
    std::iter::once(inputs).chain(std::iter::repeat_n(width, layers)).chain([outputs]).collect()
}
