//! SAC, and safe SAC: the same loop, with a violation worth −C/(1−γ) (Thomas et al. 2021, section 4).

use std::time::Instant;

use serde::{Deserialize, Serialize};
use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::env::Spec;
use sskp_blocks::nets::{Mlp, Tape, gaussian};
use sskp_blocks::record::Metrics;
use sskp_blocks::replay::{Batch, Replay};
use sskp_blocks::rng::{Rng, RngState};
use sskp_blocks::run::Run;
use sskp_blocks::soft_actor_critic::{SoftActorCritic, SoftActorCriticConfig, ViolationValue, violation_cost};

use crate::{Actor, Method, Setup};

/// Settings of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SacConfig {
    /// Uniform random actions before the policy acts.
    pub random_steps: u64,
    /// Gradient updates per environment step; 0.25 is one update every four steps.
    pub updates_per_step: f64,
    /// Transitions per minibatch.
    pub batch: usize,
    /// Transitions kept.
    pub replay: usize,
    /// Environment steps between rows of `progress.csv`.
    pub log_every: u64,
    /// The update itself.
    pub learner: SoftActorCriticConfig,
    /// What a violation is worth.
    pub violation: ViolationConfig,
}

/// What a violation is worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViolationConfig {
    /// Whether a violating transition is worth −C/(1−γ) instead of its reward, with
    /// C = (r_max − r_min)/γ^H − r_max and the least and greatest reward seen so far.
    pub penalised: bool,
    /// C itself; 0 for SMBPO's formula.
    pub cost: f64,
    /// H: steps within which a violation may be unavoidable (SMBPO's model horizon).
    pub horizon: u32,
}

impl Default for SacConfig {
    fn default() -> Self {
        Self {
            // Two episodes' worth of clipped noise fill the replay before the first update; SB3 and CleanRL have 100 and 5000.
            random_steps: 5000,
            updates_per_step: 1.0,
            batch: 256,
            replay: 1_000_000,
            log_every: 5000,
            learner: SoftActorCriticConfig::default(),
            violation: ViolationConfig { penalised: false, cost: 0.0, horizon: 10 },
        }
    }
}

impl SacConfig {
    /// Safe SAC: SAC with SMBPO's value of a violation, and nothing else changed.
    ///
    /// SMBPO's own learner differs in two more things, a higher target entropy (about half of ours) and an actor that climbs
    /// one critic drawn at random. With both, four seeds on the toy reached returns of 29 to 51 in 16 000 steps; without
    /// them, 51 to 53. The penalty itself can be too much of a good thing: of eight seeds, two stood still after 20 000 steps;
    /// with C = 0.1, a third of the toy's reward rate, all eight learnt in 12 000, with fewer violations than plain SAC.
    pub fn safe() -> Self {
        Self { violation: ViolationConfig { penalised: true, cost: 0.0, horizon: 10 }, ..Self::default() }
    }

    fn check(&self, algo: &str) -> Result<()> {
        let need = |key: &str, fine: bool, needed: &str| crate::need(algo, key, fine, needed);
        need("updates_per_step", (0.0..=100.0).contains(&self.updates_per_step), "between 0 and 100")?;
        need("batch", (1..=1 << 20).contains(&self.batch), "between 1 and 1048576")?;
        need("replay", (1..=1 << 31).contains(&self.replay), "between 1 and 2147483648")?;
        need("log_every", self.log_every > 0, "at least 1")?;
        need("violation.cost", self.violation.cost >= 0.0, "0 or more")?;
        self.learner.check(&format!("{algo}.learner"))
    }
}

/// The learner.
pub struct Sac {
    config: SacConfig,
    pub(crate) learner: SoftActorCritic,
    pub(crate) replay: Replay,
    act_rng: Rng,
    learn_rng: Rng,
    reward_range: [f64; 2],
    // Scratch.
    tape: Tape,
    state: Vec<f32>,
    action: Vec<f32>,
    noise: Vec<f32>,
    batch: Batch,
}

#[derive(Serialize, Deserialize)]
struct SacState {
    act_rng: RngState,
    learn_rng: RngState,
    reward_range: [f64; 2],
}

impl Sac {
    /// A fresh learner.
    pub fn new(spec: &Spec, config: SacConfig, setup: Setup) -> Result<Self> {
        config.check(setup.table)?;
        let mut init = Rng::stream(setup.seed, "init");
        let (obs, action) = (spec.obs_dim, spec.action_dim);
        let learner = SoftActorCritic::new(config.learner.clone(), obs, action, setup.threads, &mut init)?;
        Ok(Self {
            learner,
            replay: Replay::new(obs, action, config.replay),
            act_rng: Rng::stream(setup.seed, "policy"),
            learn_rng: Rng::stream(setup.seed, "learner"),
            reward_range: [0.0, 0.0],
            tape: Tape::default(),
            state: vec![0.0; obs],
            action: vec![0.0; action],
            noise: vec![0.0; action],
            batch: Batch::default(),
            config,
        })
    }

    /// −C/(1−γ).
    fn violation_value(&self) -> ViolationValue {
        let ViolationConfig { penalised, cost, horizon } = self.config.violation;
        if !penalised {
            return ViolationValue::Terminal;
        }
        let gamma = self.config.learner.gamma;
        let cost = if cost > 0.0 { cost } else { violation_cost(self.reward_range, gamma, horizon) };
        ViolationValue::Fixed((-cost / (1.0 - gamma)) as f32)
    }

    /// One update on a minibatch of the replay.
    pub(crate) fn update(&mut self, metrics: Option<&mut Metrics>) -> Result<()> {
        self.replay.sample(self.config.batch, &mut self.learn_rng, &mut self.batch);
        let value = self.violation_value();
        self.learner.update(&self.batch, value, &mut self.learn_rng, metrics)
    }

    fn choose(&mut self, random: bool) {
        if random {
            self.act_rng.fill_action(&mut self.action);
            return;
        }
        let head = self.learner.actor().forward(&self.state, 1, &mut self.tape);
        self.act_rng.fill_normal(&mut self.noise);
        let mut log_prob = [0.0];
        gaussian::squashed_sample(head, &self.noise, self.noise.len(), &mut self.action, &mut log_prob);
    }
}

impl Method for Sac {
    fn train(&mut self, run: &mut Run) -> Result<()> {
        while run.next_episode()? {
            while !run.over() {
                self.state.copy_from_slice(run.state());
                let acting = Instant::now();
                self.choose(run.clock().steps < self.config.random_steps);
                run.add_time("acting", acting);
                let step = run.step(&self.action)?;
                let [least, greatest] = self.reward_range;
                self.reward_range = [least.min(step.reward), greatest.max(step.reward)];
                self.replay.push(&self.state, &self.action, step.reward as f32, step.end, run.state());

                let steps = run.clock().steps;
                let log = steps.is_multiple_of(self.config.log_every);
                let mut metrics = Metrics::default();
                let learning = Instant::now();
                let due = (steps.saturating_sub(self.config.random_steps) as f64 * self.config.updates_per_step) as u64;
                while self.learner.updates() < due {
                    let last = log && self.learner.updates() + 1 == due;
                    self.update(last.then_some(&mut metrics))?;
                }
                run.add_time("learning", learning);
                // The first row names the columns, so there is none before there is anything to say.
                if log && (!metrics.0.is_empty() || self.config.updates_per_step == 0.0) {
                    run.record(&metrics)?;
                }
                run.checkpoint(|to| self.save(to))?;
            }
        }
        Ok(())
    }

    fn actor(&self) -> Box<dyn Actor> {
        Box::new(SacActor::new(self.learner.actor(), &self.act_rng))
    }

    fn load_policy(&mut self, from: &Loader) -> Result<()> {
        self.learner.load_policy(from)
    }

    fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.learner.save(to);
        self.replay.save("transitions", to);
        let (act_rng, learn_rng) = (self.act_rng.save(), self.learn_rng.save());
        to.json("sac", &SacState { act_rng, learn_rng, reward_range: self.reward_range });
    }

    fn load(&mut self, from: &Loader) -> Result<()> {
        self.learner.load(from)?;
        self.replay.load("transitions", from)?;
        let state: SacState = from.json("sac")?;
        self.act_rng = Rng::load(&state.act_rng)?;
        self.learn_rng = Rng::load(&state.learn_rng)?;
        self.reward_range = state.reward_range;
        Ok(())
    }
}

/// A policy whose head is a Gaussian squashed by tanh.
pub(crate) struct SacActor {
    net: Mlp,
    tape: Tape,
    noise: Vec<f32>,
    rng: Rng,
}

impl SacActor {
    /// A copy of the policy and of the stream it draws from.
    pub(crate) fn new(net: &Mlp, rng: &Rng) -> Self {
        Self { noise: vec![0.0; net.outputs() / 2], net: net.clone(), tape: Tape::default(), rng: rng.clone() }
    }
}

impl Actor for SacActor {
    fn act(&mut self, state: &[f32], explore: bool, action: &mut [f32]) {
        let head = self.net.forward(state, 1, &mut self.tape);
        if explore {
            self.rng.fill_normal(&mut self.noise);
            gaussian::squashed_sample(head, &self.noise, action.len(), action, &mut [0.0]);
        } else {
            gaussian::squashed_mean(head, action.len(), action);
        }
    }
}

#[cfg(test)]
mod tests {
    use sskp_blocks::env::Env as _;
    use sskp_blocks::record::Memory;
    use sskp_blocks::toy::Toy;

    use super::*;

    #[test]
    fn every_row_of_metrics_has_the_losses() {
        let mut config = SacConfig { random_steps: 50, log_every: 50, batch: 8, ..SacConfig::default() };
        config.learner.width = 8;
        let setup = Setup::new("sac", 0, 1);
        let mut memory = Memory::default();
        let mut run = Run::new(Box::<Toy>::default(), 0, 150, &mut memory);
        Sac::new(Toy::default().spec(), config, setup).unwrap().train(&mut run).unwrap();
        assert_eq!(memory.metrics.iter().map(|(at, _)| at.steps).collect::<Vec<_>>(), [100, 150]);
        assert!(memory.metrics.iter().all(|(_, m)| m.get("Loss/Loss_pi").is_some()));
    }
}
