//! Networks by hand, over flat arrays: each has a forward that keeps what its backward needs, and a backward that adds
//! to a gradient. No tape, no allocation after the first batch, one thread unless asked.
//!
//! Why by hand and not a tensor library: `docs/decisions/0001-networks-by-hand.md`. Conventions: matrices are row-major,
//! a batch is rows, weights are `[inputs, outputs]`, f32 throughout, gradients are *added* to what is there.
//!
//! ```
//! use sskp_blocks::nets::{Model, Tape, layer_sizes};
//! use sskp_blocks::rng::Rng;
//!
//! // One hidden layer of 32 learns y = |x|.
//! let mut model = Model::new(&layer_sizes(1, 32, 1, 1), 1e-2, &mut Rng::stream(0, "init"));
//! let x: Vec<f32> = (-8..=8).map(|i| i as f32 / 8.0).collect();
//! let (rows, mut tape) = (x.len(), Tape::default());
//! let mut error = 0.0;
//! for _ in 0..500 {
//!     let y = model.net.forward(&x, rows, &mut tape);
//!     let d_y: Vec<f32> = y.iter().zip(&x).map(|(y, x)| 2.0 * (y - x.abs()) / rows as f32).collect();
//!     error = d_y.iter().map(|d| d.abs()).sum::<f32>();
//!     model.net.backward(&x, rows, &mut tape, &d_y, Some(&mut model.grad), None);
//!     model.step();
//! }
//! assert!(error < 0.1, "{error}");
//! ```

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
