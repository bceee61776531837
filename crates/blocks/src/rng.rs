//! Named random streams from one seed.
//!
//! Each place that draws has a stream of its own, so that adding a draw in one place moves nothing elsewhere, and every
//! stream can be saved as three numbers and continued exactly.

use rand::{Rng as _, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

/// One stream.
///
/// ```
/// use sskp_blocks::rng::Rng;
///
/// let mut noise = Rng::stream(7, "noise");
/// assert_ne!(noise.normal(), Rng::stream(7, "another").normal());
/// let kept = noise.save();
/// let next = noise.normal();
/// assert_eq!(Rng::load(&kept)?.normal(), next, "continued exactly");
/// # Ok::<(), sskp_blocks::Error>(())
/// ```
///
/// ChaCha8 keyed by the run's seed, with the hash of the stream's name as its stream number.
#[derive(Clone, Debug)]
pub struct Rng {
    seed: u64,
    chacha: ChaCha8Rng,
}

/// A stream's state: enough to continue it exactly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RngState {
    seed: u64,
    stream: u64,
    /// ChaCha's word position as text: 68 bits do not fit JSON's numbers.
    word: String,
}

impl Rng {
    /// The stream called `name` of the run with this `seed`.
    pub fn stream(seed: u64, name: &str) -> Self {
        // FNV-1a: a fixed, documented hash, so that streams never move between releases of the standard library.
        let hash =
            name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        Self::at(seed, hash, 0)
    }

    fn at(seed: u64, stream: u64, word: u128) -> Self {
        let mut chacha = ChaCha8Rng::seed_from_u64(seed);
        chacha.set_stream(stream);
        chacha.set_word_pos(word);
        Self { seed, chacha }
    }

    /// What must be kept to continue this stream.
    pub fn save(&self) -> RngState {
        RngState { seed: self.seed, stream: self.chacha.get_stream(), word: self.chacha.get_word_pos().to_string() }
    }

    /// Continues a saved stream.
    pub fn load(state: &RngState) -> crate::Result<Self> {
        let word = state.word.parse().map_err(|_| crate::Error::other("a random stream's position is no number"))?;
        Ok(Self::at(state.seed, state.stream, word))
    }

    /// Uniform in `[low, high)`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.chacha.random::<f64>()
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        self.chacha.sample(StandardNormal)
    }

    /// Fills with standard normals.
    pub fn fill_normal(&mut self, out: &mut [f32]) {
        for x in out {
            *x = self.chacha.sample(StandardNormal);
        }
    }

    /// Fills with uniforms in `[-1, 1)`: a random action.
    pub fn fill_action(&mut self, out: &mut [f32]) {
        for x in out {
            *x = self.chacha.random::<f32>() * 2.0 - 1.0;
        }
    }

    /// Uniform in `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        debug_assert!(n > 0 && n <= u32::MAX as usize);
        // Lemire's multiply-shift; its bias is below n / 2^64.
        ((u128::from(self.chacha.next_u64()) * n as u128) >> 64) as usize
    }

    /// A fresh seed for something that keeps a stream of its own.
    pub fn seed(&mut self) -> u64 {
        self.chacha.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let mut a = Rng::stream(3, "env");
        let mut b = Rng::stream(3, "env");
        let mut c = Rng::stream(3, "policy");
        let mut d = Rng::stream(4, "env");
        let first: Vec<u64> = (0..4).map(|_| a.seed()).collect();
        assert_eq!(first, (0..4).map(|_| b.seed()).collect::<Vec<_>>());
        assert_ne!(first, (0..4).map(|_| c.seed()).collect::<Vec<_>>());
        assert_ne!(first, (0..4).map(|_| d.seed()).collect::<Vec<_>>());
    }

    #[test]
    fn a_saved_stream_continues_where_it_stopped() {
        let mut a = Rng::stream(7, "x");
        for _ in 0..13 {
            a.normal();
            a.below(10);
        }
        let text = serde_json::to_string(&a.save()).unwrap();
        let mut b = Rng::load(&serde_json::from_str(&text).unwrap()).unwrap();
        for _ in 0..50 {
            assert_eq!(a.normal().to_bits(), b.normal().to_bits());
            assert_eq!(a.below(1000), b.below(1000));
        }
    }

    #[test]
    fn draws_have_the_moments_they_should() {
        let mut rng = Rng::stream(0, "moments");
        let n = 200_000;
        let (mut mean, mut square, mut low, mut uniform) = (0.0, 0.0, 0usize, 0.0);
        for _ in 0..n {
            let z = rng.normal();
            mean += z / n as f64;
            square += z * z / n as f64;
            low += usize::from(rng.below(10) < 3);
            uniform += rng.uniform(-2.0, 4.0) / n as f64;
        }
        assert!(mean.abs() < 0.01 && (square - 1.0).abs() < 0.02, "{mean} {square}");
        assert!((low as f64 / n as f64 - 0.3).abs() < 0.01);
        assert!((uniform - 1.0).abs() < 0.02);
    }
}
