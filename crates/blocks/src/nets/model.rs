//! A network with its gradient and its optimiser: what is trained travels together.

use super::{Adam, Mlp, polyak};
use crate::Result;
use crate::checkpoint::{Loader, Saver};
use crate::rng::Rng;
use crate::team::{Shares, Team};

/// A network that learns.
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

    /// One Adam step on the sum of a team's gradients, `grads(i)` being member i's, and the target network's step towards the
    /// result. Every member does it for its own share of the parameters, summing all in the same order: the bytes depend on the
    /// size of the team and on nothing else.
    pub fn step_with<'g>(
        &mut self,
        team: &Team,
        grads: impl Fn(usize) -> &'g [f32] + Sync,
        target: Option<(&mut Mlp, f32)>,
    ) {
        let n = self.grad.len();
        let step = self.adam.begin();
        let (m, v) = self.adam.moments();
        let [params, total, m, v] = [&mut self.net.params[..], &mut self.grad[..], m, v].map(Shares::new);
        let target = target.map(|(target, tau)| (Shares::new(&mut target.params), tau));
        team.run(&|member| {
            let range = || team.share(member, n);
            // SAFETY: shares of different members do not overlap, and each array is taken once.
            let [params, total, m, v] = [&params, &total, &m, &v].map(|s| unsafe { s.part(range()) });
            if team.size() == 1 {
                step.apply(params, grads(0), m, v);
            } else {
                for i in 0..team.size() {
                    total.iter_mut().zip(&grads(i)[range()]).for_each(|(t, g)| *t += g);
                }
                step.apply(params, total, m, v);
                total.fill(0.0);
            }
            if let Some((target, tau)) = &target {
                // SAFETY: as above.
                polyak(unsafe { target.part(range()) }, params, *tau);
            }
        });
    }

    /// Adds weights (as `name`: `policy/actor`, `weights/critic1`) and optimiser state to a checkpoint.
    pub fn save<'a>(&'a self, name: &str, to: &mut Saver<'a>) {
        match name.starts_with("policy/") {
            // What others may want to read has its layers by name.
            true => to.mlp(name, &self.net),
            false => to.f32s(name, &self.net.params, 1),
        }
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
