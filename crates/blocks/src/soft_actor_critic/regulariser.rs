//! What holds the policy: the penalty D on it, D's gradient, and where α holds its mean. Also how the policy's head becomes a
//! choice, because the penalty is one of the choice's distribution.

use crate::Result;
use crate::checkpoint::{Loader, Saver};
use crate::nets::{Mlp, Tape, gaussian};

/// The penalty on the policy, and the mean D̄ of it that the temperature holds.
#[derive(Clone, Debug)]
pub enum Regulariser {
    /// Entropy: D = log π(a|s) of a Gaussian squashed by tanh; D̄ is minus the target entropy.
    Entropy {
        /// D̄.
        target: f64,
    },
    /// Closeness to a frozen prior: D = KL(π(·|s) ‖ q(·|s)) of plain Gaussians, choices kept inside a box (Pertsch et al. 2021;
    /// section 4.2.2 of the paper).
    KlToPrior {
        /// q, and the box.
        prior: Prior,
        /// D̄.
        target: f64,
    },
}

/// What a policy is held to, and the box its choices are kept in.
#[derive(Clone, Debug)]
pub struct Prior {
    /// Heads `[mean, log σ]` of q(·|s).
    pub net: Mlp,
    /// Choices are cut at ± this, coordinate by coordinate, and a cut coordinate has no gradient. Nothing outside is ever
    /// played, so critics know nothing of it: without the box, policy and critics talk each other up without end.
    pub bound: Vec<f32>,
}

impl Regulariser {
    /// D̄, at which α holds the mean penalty.
    pub(super) fn target(&self) -> f64 {
        match self {
            Self::Entropy { target } | Self::KlToPrior { target, .. } => *target,
        }
    }

    /// What the mean penalty is called in `progress.csv`.
    pub(super) fn metric(&self) -> &'static str {
        match self {
            Self::Entropy { .. } => "Value/log_pi",
            Self::KlToPrior { .. } => "Value/kl_to_prior",
        }
    }

    /// Choices of the policy `actor` in `state` rows with this noise, and their penalties D.
    pub(super) fn choose(&self, actor: &Mlp, state: &[f32], noise: &[f32], to: &mut Choices) {
        let (n, dim) = (state.len() / actor.inputs(), actor.outputs() / 2);
        to.dim = dim;
        to.choice.resize(n * dim, 0.0);
        to.penalty.resize(n, 0.0);
        let head = actor.forward(state, n, &mut to.tape);
        match self {
            Self::Entropy { .. } => gaussian::squashed_sample(head, noise, dim, &mut to.choice, &mut to.penalty),
            Self::KlToPrior { prior, .. } => {
                gaussian::sample(head, noise, dim, &mut to.choice);
                for choice in to.choice.chunks_exact_mut(dim) {
                    choice.iter_mut().zip(&prior.bound).for_each(|(z, bound)| *z = z.clamp(-bound, *bound));
                }
                let prior = prior.net.forward(state, n, &mut to.prior_tape);
                let heads = head.chunks_exact(2 * dim).zip(prior.chunks_exact(2 * dim));
                to.penalty.iter_mut().zip(heads).for_each(|(d, (head, prior))| *d = gaussian::kl(head, prior));
            }
        }
    }

    /// Gradient in the policy's head of `weight·D + d_choice·choice`, row by row. Changes `d_choice`.
    pub(super) fn backward(
        &self,
        chosen: &Choices,
        noise: &[f32],
        d_choice: &mut [f32],
        weight: f32,
        d_head: &mut [f32],
    ) {
        let Choices { dim, tape, prior_tape, choice, .. } = chosen;
        let (dim, head) = (*dim, tape.output());
        match self {
            Self::Entropy { .. } => {
                gaussian::squashed_backward(head, noise, dim, choice, d_choice, weight, d_head);
            }
            Self::KlToPrior { prior, .. } => {
                for (d, choice) in d_choice.chunks_exact_mut(dim).zip(choice.chunks_exact(dim)) {
                    for ((d, z), bound) in d.iter_mut().zip(choice).zip(&prior.bound) {
                        *d = if z.abs() < *bound { *d } else { 0.0 };
                    }
                }
                gaussian::sample_backward(head, noise, dim, d_choice, d_head);
                let heads = head.chunks_exact(2 * dim).zip(prior_tape.output().chunks_exact(2 * dim));
                for (d_head, (head, prior)) in d_head.chunks_exact_mut(2 * dim).zip(heads) {
                    gaussian::kl_backward(head, prior, weight, d_head);
                }
            }
        }
    }

    /// Adds what learning needs of it to a checkpoint.
    pub(super) fn save<'a>(&'a self, to: &mut Saver<'a>) {
        if let Self::KlToPrior { prior, .. } = self {
            to.f32s("weights/policy_prior", &prior.net.params, 1);
            to.f32s("weights/policy_bound", &prior.bound, 1);
        }
    }

    /// Reads it back.
    pub(super) fn load(&mut self, from: &Loader) -> Result<()> {
        if let Self::KlToPrior { prior, .. } = self {
            from.f32s_into("weights/policy_prior", &mut prior.net.params)?;
            from.f32s_into("weights/policy_bound", &mut prior.bound)?;
        }
        Ok(())
    }
}

/// Choices of the policy for some rows, with what the way back needs. Grows to the largest batch seen and is then reused.
#[derive(Clone, Debug, Default)]
pub(super) struct Choices {
    dim: usize,
    /// Of the policy's network.
    pub(super) tape: Tape,
    prior_tape: Tape,
    /// The choices.
    pub(super) choice: Vec<f32>,
    /// D of each row.
    pub(super) penalty: Vec<f32>,
}
