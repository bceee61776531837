//! The policy that SAC-like methods act with: a network whose head `[mean, log σ]` is a Gaussian squashed by tanh. Sampled in
//! training, its mean in evaluation.

use crate::nets::{Mlp, Tape, gaussian};
use crate::rng::Rng;

/// Acts with such a network; holds what that needs, so that nothing is allocated after the first time.
#[derive(Clone, Debug, Default)]
pub struct Squashed {
    tape: Tape,
    noise: Vec<f32>,
    log_prob: Vec<f32>,
}

impl Squashed {
    /// Sampled actions for rows of states, a = tanh(mean + σ·noise); uniform ones without a policy.
    pub fn explore(&mut self, policy: Option<&Mlp>, state: &[f32], rng: &mut Rng, action: &mut [f32]) {
        let Some(net) = policy else {
            return rng.fill_action(action);
        };
        let (rows, dim) = (state.len() / net.inputs(), net.outputs() / 2);
        self.noise.resize(rows * dim, 0.0);
        self.log_prob.resize(rows, 0.0);
        rng.fill_normal(&mut self.noise);
        let head = net.forward(state, rows, &mut self.tape);
        gaussian::squashed_sample(head, &self.noise, dim, action, &mut self.log_prob);
    }

    /// The actions without noise, a = tanh(mean).
    pub fn exploit(&mut self, net: &Mlp, state: &[f32], action: &mut [f32]) {
        let head = net.forward(state, state.len() / net.inputs(), &mut self.tape);
        gaussian::squashed_mean(head, net.outputs() / 2, action);
    }
}

/// A copy of such a policy that no longer learns, and of the stream it draws from.
///
/// ```
/// use sskp_blocks::{nets::Mlp, policy::SquashedPolicy, rng::Rng};
///
/// // Two observations, one action: mean and log σ.
/// let net = Mlp::new(&[2, 16, 2], &mut Rng::stream(0, "init"));
/// let mut policy = SquashedPolicy::new(&net, &Rng::stream(0, "policy"));
/// let (mut first, mut second) = ([0.0], [0.0]);
/// policy.act(&[0.1, -0.3], false, &mut first);
/// policy.act(&[0.1, -0.3], false, &mut second);
/// assert_eq!(first, second);
/// policy.act(&[0.1, -0.3], true, &mut second);
/// assert_ne!(first, second);
/// ```
#[derive(Clone, Debug)]
pub struct SquashedPolicy {
    net: Mlp,
    rng: Rng,
    squashed: Squashed,
}

impl SquashedPolicy {
    /// Copies both.
    pub fn new(net: &Mlp, rng: &Rng) -> Self {
        Self { net: net.clone(), rng: rng.clone(), squashed: Squashed::default() }
    }

    /// The network.
    pub fn net(&self) -> &Mlp {
        &self.net
    }

    /// The action for `state`: sampled as in training with `explore`, else the mean.
    pub fn act(&mut self, state: &[f32], explore: bool, action: &mut [f32]) {
        match explore {
            true => self.squashed.explore(Some(&self.net), state, &mut self.rng, action),
            false => self.squashed.exploit(&self.net, state, action),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_explores_around_its_mean_and_evaluates_at_it() {
        let mut rng = Rng::stream(0, "policy");
        let mut net = Mlp::new(&[3, 8, 4], &mut rng);
        // log σ = −2 in both coordinates, and means of −0.5 and 0.5, whatever the state.
        let last = net.params.len() - (8 + 1) * 4;
        net.params[last..last + 8 * 4].fill(0.0);
        net.params[last + 8 * 4..].copy_from_slice(&[-0.5, 0.5, -2.0, -2.0]);
        let mut policy = SquashedPolicy::new(&net, &rng);
        let (state, mut action) = ([0.3, -0.8, 0.1], [0.0; 2]);
        policy.act(&state, false, &mut action);
        assert_eq!(action, [(-0.5f32).tanh(), 0.5f32.tanh()]);

        // u = artanh a is N(±0.5, e⁻⁴): over 4000 draws the mean is off by 0.002·3 at most, as good as always.
        let n = 4000;
        let (states, mut actions) = (state.repeat(n), vec![0.0; 2 * n]);
        Squashed::default().explore(Some(&net), &states, &mut rng, &mut actions);
        for (which, mean) in [-0.5, 0.5].into_iter().enumerate() {
            let u: Vec<f64> = actions.iter().skip(which).step_by(2).map(|a| f64::from(*a).atanh()).collect();
            let middle = u.iter().sum::<f64>() / n as f64;
            let spread = (u.iter().map(|u| (u - middle).powi(2)).sum::<f64>() / n as f64).sqrt();
            assert!((middle - mean).abs() < 0.007, "{middle} for {mean}");
            assert!((spread / (-2.0f64).exp() - 1.0).abs() < 0.05, "{spread}");
        }
    }

    #[test]
    fn without_a_policy_actions_are_uniform() {
        let mut actions = vec![0.0; 8000];
        Squashed::default().explore(None, &[], &mut Rng::stream(0, "uniform"), &mut actions);
        assert!(actions.iter().all(|a| (-1.0..=1.0).contains(a)));
        // The fourth moment of a uniform number in [−1, 1] is 1/5; that of any squashed Gaussian with the same variance is not.
        for (power, moment) in [(1, 0.0), (2, 1.0 / 3.0), (4, 1.0 / 5.0)] {
            let found = actions.iter().map(|a| f64::from(*a).powi(power)).sum::<f64>() / 8000.0;
            assert!((found - moment).abs() < 0.025, "{power}: {found}");
        }
    }
}
