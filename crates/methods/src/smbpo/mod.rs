//! SMBPO: *Safe Reinforcement Learning by Imagining the Near Future* (Thomas, Luo and Ma 2021), and their public
//! implementation Safe-MBPO, from which every number here comes unless another source is named.
//!
//! A model of the robot is learnt from real transitions ([`dynamics`]); the policy is learnt by SAC, mostly from short
//! rollouts imagined with the model. The robot's own constraint is asked of every imagined state, and a violating
//! transition, real or imagined, is worth −C/(1−γ), with C so large that a state from which a violation within H steps cannot
//! be avoided is worth less than any safe one. `docs/methods/smbpo.md` has the equations and the departures.

pub mod dynamics;

use std::time::Instant;

use serde::{Deserialize, Serialize};
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::env::{Constraint, End, Env, Spec};
use sskp_blocks::nets::ensemble::EnsembleConfig;
use sskp_blocks::nets::{Tape, gaussian};
use sskp_blocks::record::Metrics;
use sskp_blocks::replay::{Batch, Replay};
use sskp_blocks::rng::{Rng, RngState};
use sskp_blocks::run::Run;
use sskp_blocks::soft_actor_critic::{SoftActorCritic, SoftActorCriticConfig, ViolationValue, violation_cost};
use sskp_blocks::{Error, Result};

use crate::sac::SacActor;
use crate::{Actor, Method, Setup};
use dynamics::{Dynamics, Imagination, Imagined};

/// Settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmbpoConfig {
    /// Uniform random actions before the model is first fitted and the policy acts. Their violations count.
    pub random_steps: u64,
    /// Updates of the policy per environment step; 0.1 is one update every ten steps.
    pub updates_per_step: f64,
    /// Transitions per minibatch of the policy.
    pub batch: usize,
    /// Share of a minibatch that is real; the rest is imagined.
    pub real_fraction: f64,
    /// Real transitions kept.
    pub replay: usize,
    /// Environment steps between rows of `progress.csv`.
    pub log_every: u64,
    /// C of a violation's value −C/(1−γ); 0 for the formula (r_max − r_min)/γ^H − r_max.
    pub violation_cost: f64,
    /// When and how the model learns.
    pub model: ModelConfig,
    /// What is imagined.
    pub imagination: ImaginationConfig,
    /// The update of the policy.
    pub learner: SoftActorCriticConfig,
}

/// When and how the model learns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Updates of the first fit.
    pub first_updates: u64,
    /// Environment steps from one fit to the next.
    pub refit_every: u64,
    /// Updates of every later fit, which goes on from the weights there are.
    pub refit_updates: u64,
    /// Transitions per update and member.
    pub batch: usize,
    /// The networks.
    pub ensemble: EnsembleConfig,
}

/// What is imagined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImaginationConfig {
    /// H: the most steps of a rollout, and the H of C's formula.
    pub horizon: u32,
    /// Rollouts imagined at once.
    pub rollouts: usize,
    /// Updates of the policy between one batch of rollouts and the next.
    pub updates_between: u64,
    /// Transitions imagined with uniform actions before the first update.
    pub first_transitions: usize,
    /// Imagined transitions kept.
    pub replay: usize,
}

impl SmbpoConfig {
    /// Safe-MBPO's settings for a robot. Only the target entropy depends on it.
    pub fn of(spec: &Spec) -> Self {
        let entropy = match spec.name.as_str() {
            "ant" => 4.0,
            "cheetah" => 3.0,
            "hopper" => 1.0,
            "humanoid" => 2.0,
            // A robot they did not have: half a nat per action, as Ant and Cheetah.
            _ => 0.5 * spec.action_dim as f64,
        };
        Self {
            random_steps: 5000,
            updates_per_step: 10.0,
            batch: 256,
            real_fraction: 0.1,
            replay: 1_000_000,
            // Safe-MBPO's epoch. At ten updates per step even these are minutes apart.
            log_every: 1000,
            violation_cost: 0.0,
            model: ModelConfig {
                first_updates: 10_000,
                refit_every: 250,
                refit_updates: 2000,
                batch: 256,
                ensemble: EnsembleConfig::default(),
            },
            imagination: ImaginationConfig {
                horizon: 10,
                rollouts: 100,
                // Safe-MBPO imagines once per environment step and then learns ten times. Tied to the updates instead, the
                // policy learns from equally fresh rollouts whatever the number of updates per step.
                updates_between: 10,
                first_transitions: 5000,
                replay: 1_000_000,
            },
            learner: SoftActorCriticConfig {
                entropy_per_action: entropy / spec.action_dim as f64,
                min_critic: false,
                ..SoftActorCriticConfig::default()
            },
        }
    }

    fn check(&self, algo: &str) -> Result<()> {
        let need = |key: &str, fine: bool, needed: &str| crate::need(algo, key, fine, needed);
        let (model, imagination) = (&self.model, &self.imagination);
        let size = "between 1 and 2147483648";
        need("updates_per_step", (0.0..=100.0).contains(&self.updates_per_step), "between 0 and 100")?;
        need("batch", (1..=1 << 20).contains(&self.batch), "between 1 and 1048576")?;
        need("real_fraction", (0.0..=1.0).contains(&self.real_fraction), "between 0 and 1")?;
        need("replay", (1..=1 << 31).contains(&self.replay), size)?;
        need("log_every", self.log_every > 0, "at least 1")?;
        need("violation_cost", self.violation_cost >= 0.0 && self.violation_cost.is_finite(), "0 or more")?;
        need("model.refit_every", model.refit_every > 0, "at least 1")?;
        need("model.batch", (1..=1 << 20).contains(&model.batch), "between 1 and 1048576")?;
        // What the model has not met yet must still be there when it does.
        let unmet = self.random_steps.max(1).max(model.refit_every);
        need("replay", self.replay as u64 >= unmet, "at least random_steps and model.refit_every")?;
        need("imagination.horizon", (1..=1000).contains(&imagination.horizon), "between 1 and 1000")?;
        need("imagination.rollouts", (1..=1 << 20).contains(&imagination.rollouts), "between 1 and 1048576")?;
        need("imagination.updates_between", imagination.updates_between > 0, "at least 1")?;
        need("imagination.replay", (1..=1 << 31).contains(&imagination.replay), size)?;
        let fits = imagination.first_transitions <= imagination.replay;
        need("imagination.first_transitions", fits, "at most imagination.replay")?;
        model.ensemble.check(&format!("{algo}.model.ensemble"))?;
        self.learner.check(&format!("{algo}.learner"))
    }

    /// Updates the model has after `steps` environment steps.
    fn model_updates(&self, steps: u64) -> u64 {
        match steps.checked_sub(self.random_steps) {
            None => 0,
            Some(since) => self.model.first_updates + since / self.model.refit_every * self.model.refit_updates,
        }
    }

    /// Updates the policy has after `steps` environment steps.
    fn policy_updates(&self, steps: u64) -> u64 {
        (steps.saturating_sub(self.random_steps) as f64 * self.updates_per_step) as u64
    }
}

/// Updates of the model between two looks at whether the run was asked to stop: a fit takes minutes, a signal's grace less.
const LOOK_EVERY: u64 = 20;

/// The learner.
pub struct Smbpo {
    config: SmbpoConfig,
    dynamics: Dynamics,
    pub(crate) learner: SoftActorCritic,
    pub(crate) real: Replay,
    pub(crate) imagined: Replay,
    act_rng: Rng,
    model_rng: Rng,
    imagine_rng: Rng,
    learn_rng: Rng,
    state: Progress,
    // Scratch.
    imagination: Imagination,
    tape: Tape,
    observation: Vec<f32>,
    action: Vec<f32>,
    noise: Vec<f32>,
    batch: Batch,
}

/// The small numbers that a checkpoint must hold.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Progress {
    /// Least and greatest real reward.
    rewards: Option<[f64; 2]>,
    /// −C/(1−γ) as of the last fit of the model.
    violation_value: f64,
    /// A step has been taken and not all has been learnt from it.
    unfinished: bool,
    /// A row of metrics is due.
    log_due: bool,
    /// The model's loss at its last update, and before the last fit on the transitions new to it.
    model_loss: Option<f64>,
    fresh_loss: Option<f64>,
    /// Since the last row of metrics.
    seen: Imagined,
}

#[derive(Serialize, Deserialize)]
struct SmbpoState {
    rngs: [RngState; 4],
    state: Progress,
}

impl Smbpo {
    /// A fresh learner.
    pub fn new(spec: &Spec, config: SmbpoConfig, setup: Setup) -> Result<Self> {
        config.check(setup.table)?;
        let mut init = Rng::stream(setup.seed, "init");
        let (obs, action) = (spec.obs_dim, spec.action_dim);
        let stream = |name| Rng::stream(setup.seed, name);
        Ok(Self {
            learner: SoftActorCritic::new(config.learner.clone(), obs, action, setup.threads, &mut init)?,
            dynamics: Dynamics::new(config.model.ensemble.clone(), obs, action, setup.threads, &mut init)?,
            real: Replay::new(obs, action, config.replay),
            imagined: Replay::new(obs, action, config.imagination.replay),
            act_rng: stream("policy"),
            model_rng: stream("model"),
            imagine_rng: stream("imagination"),
            learn_rng: stream("learner"),
            state: Progress::default(),
            imagination: Imagination::default(),
            tape: Tape::default(),
            observation: vec![0.0; obs],
            action: vec![0.0; action],
            noise: vec![0.0; action],
            batch: Batch::default(),
            config,
        })
    }

    fn choose(&mut self, random: bool) {
        if random {
            self.act_rng.fill_action(&mut self.action);
            return;
        }
        let head = self.learner.actor().forward(&self.observation, 1, &mut self.tape);
        self.act_rng.fill_normal(&mut self.noise);
        gaussian::squashed_sample(head, &self.noise, self.noise.len(), &mut self.action, &mut [0.0]);
    }

    /// Keeps a real transition.
    fn remember(&mut self, reward: f64, end: Option<End>, next: &[f32]) {
        let [least, greatest] = self.state.rewards.unwrap_or([reward; 2]);
        self.state.rewards = Some([least.min(reward), greatest.max(reward)]);
        self.real.push(&self.observation, &self.action, reward as f32, end, next);
    }

    /// −C/(1−γ), from the real rewards so far.
    fn value_of_a_violation(&self) -> f64 {
        let gamma = self.config.learner.gamma;
        let cost = match self.config.violation_cost {
            0.0 => violation_cost(self.state.rewards.unwrap_or_default(), gamma, self.config.imagination.horizon),
            cost => cost,
        };
        -cost / (1.0 - gamma)
    }

    /// Learns all that is due after the step that was just taken. Leaves early, to be called again, when the run was asked to
    /// stop.
    fn finish_step(&mut self, run: &mut Run) -> Result<()> {
        if !self.state.unfinished {
            return Ok(());
        }
        let steps = run.clock().steps;
        self.fit_model(run, steps)?;
        if run.stopped() {
            return Ok(());
        }
        self.state.log_due |= steps > self.config.random_steps && steps.is_multiple_of(self.config.log_every);
        let mut metrics = Metrics::default();
        self.improve_policy(run, steps, self.state.log_due.then_some(&mut metrics))?;
        // With less than one update per step, a row waits for the next update: every row has all columns.
        if !metrics.0.is_empty() {
            self.describe(&mut metrics);
            run.record(&metrics)?;
            self.state.log_due = false;
        }
        self.state.unfinished = false;
        run.checkpoint(|to| self.save(to))
    }

    fn fit_model(&mut self, run: &mut Run, steps: u64) -> Result<()> {
        let due = self.config.model_updates(steps);
        if self.dynamics.updates() >= due {
            return Ok(());
        }
        let fitting = Instant::now();
        // A fit that goes on after a stop has met them already.
        if self.dynamics.known() < steps {
            self.state.fresh_loss = self.dynamics.meet(&self.real, steps);
            self.state.violation_value = self.value_of_a_violation();
        }
        while self.dynamics.updates() < due && !run.stopped() {
            let loss = self.dynamics.update(&self.real, self.config.model.batch, &mut self.model_rng)?;
            self.state.model_loss = Some(loss);
            // A run whose last step has been taken counts as finished, so it must be.
            if self.dynamics.updates().is_multiple_of(LOOK_EVERY) && !run.finished() {
                run.checkpoint(|to| self.save(to))?;
            }
        }
        run.add_time("model", fitting);
        Ok(())
    }

    fn improve_policy(&mut self, run: &mut Run, steps: u64, mut metrics: Option<&mut Metrics>) -> Result<()> {
        let due = self.config.policy_updates(steps);
        while self.learner.updates() < due {
            let done = self.learner.updates();
            if done.is_multiple_of(self.config.imagination.updates_between) {
                let imagining = Instant::now();
                self.imagine(constraint(run.env())?)?;
                run.add_time("imagining", imagining);
            }
            let learning = Instant::now();
            self.update_policy(metrics.as_deref_mut().filter(|_| done + 1 == due))?;
            run.add_time("learning", learning);
        }
        Ok(())
    }

    /// One batch of rollouts, after the first ones with uniform actions.
    fn imagine(&mut self, constraint: &dyn Constraint) -> Result<()> {
        let config = &self.config.imagination;
        let mut rollouts = |this: &mut Imagination, policy| {
            this.rollouts(
                &mut self.dynamics,
                policy,
                &|state| constraint.violates(state),
                &self.real,
                (config.rollouts, config.horizon),
                &mut self.imagine_rng,
                &mut self.imagined,
            )
        };
        if self.learner.updates() == 0 {
            let mut first = Imagined::default();
            while first.transitions < config.first_transitions as u64 {
                first += rollouts(&mut self.imagination, None);
                if first.transitions < first.broken {
                    return Err(Error::other("the model's predictions are not finite: it has not learnt the robot"));
                }
            }
        }
        self.state.seen += rollouts(&mut self.imagination, Some(self.learner.actor()));
        if self.imagined.is_empty() {
            return Err(Error::other("the model's predictions are not finite: it has not learnt the robot"));
        }
        Ok(())
    }

    /// One update of the policy on a minibatch of real and imagined transitions.
    pub(crate) fn update_policy(&mut self, metrics: Option<&mut Metrics>) -> Result<()> {
        let n = self.config.batch;
        let real = (self.config.real_fraction * n as f64) as usize;
        Replay::sample_two([&self.real, &self.imagined], Some(real), n, &mut self.learn_rng, &mut self.batch);
        let value = ViolationValue::Fixed(self.state.violation_value as f32);
        self.learner.update(&self.batch, value, &mut self.learn_rng, metrics)
    }

    /// What is logged besides the learner's own.
    fn describe(&mut self, metrics: &mut Metrics) {
        let seen = std::mem::take(&mut self.state.seen);
        let per_rollout = |n: u64| n as f64 / seen.rollouts.max(1) as f64;
        let absent = f64::NAN;
        metrics.push("Loss/Loss_model", self.state.model_loss.unwrap_or(absent));
        metrics.push("Loss/Loss_model_fresh", self.state.fresh_loss.unwrap_or(absent));
        metrics.push("Model/updates", self.dynamics.updates() as f64);
        metrics.push("Model/imagined_length", per_rollout(seen.transitions));
        metrics.push("Model/imagined_violations", per_rollout(seen.violations));
        metrics.push("Model/imagined_broken", per_rollout(seen.broken));
        metrics.push("Value/violation", self.state.violation_value);
    }
}

/// The robot's constraint, which imagined states are asked.
fn constraint(env: &dyn Env) -> Result<&dyn Constraint> {
    env.constraint().ok_or_else(|| {
        let name = &env.spec().name;
        Error::other(format!(
            "smbpo asks imagined states whether they violate the constraint, and {name} cannot tell (Env::constraint)"
        ))
    })
}

impl Method for Smbpo {
    fn suits(&self, env: &dyn Env) -> Result<()> {
        constraint(env).map(|_| ())
    }

    fn train(&mut self, run: &mut Run) -> Result<()> {
        self.finish_step(run)?; // what a stop in the middle of a fit has left
        while run.next_episode()? {
            while !run.over() {
                self.observation.copy_from_slice(run.state());
                let acting = Instant::now();
                self.choose(run.clock().steps < self.config.random_steps);
                run.add_time("acting", acting);
                let step = run.step(&self.action)?;
                self.remember(step.reward, step.end, run.state());
                self.state.unfinished = true;
                self.finish_step(run)?;
            }
        }
        Ok(())
    }

    fn actor(&self) -> Box<dyn Actor> {
        Box::new(SacActor::new(self.learner.actor(), &self.act_rng))
    }

    fn save<'a>(&'a self, to: &mut Saver<'a>) {
        self.learner.save(to);
        self.dynamics.save(to);
        self.real.save("real", to);
        self.imagined.save("imagined", to);
        let rngs = [&self.act_rng, &self.model_rng, &self.imagine_rng, &self.learn_rng].map(Rng::save);
        to.json("smbpo", &SmbpoState { rngs, state: self.state });
    }

    fn load(&mut self, from: &Loader) -> Result<()> {
        self.learner.load(from)?;
        self.dynamics.load(from)?;
        self.real.load("real", from)?;
        self.imagined.load("imagined", from)?;
        let state: SmbpoState = from.json("smbpo")?;
        let [act, model, imagine, learn] = &state.rngs;
        self.act_rng = Rng::load(act)?;
        self.model_rng = Rng::load(model)?;
        self.imagine_rng = Rng::load(imagine)?;
        self.learn_rng = Rng::load(learn)?;
        self.state = state.state;
        Ok(())
    }

    fn load_policy(&mut self, from: &Loader) -> Result<()> {
        self.learner.load_policy(from)
    }
}

#[cfg(test)]
mod tests {
    use sskp_blocks::toy::Toy;

    use super::*;

    fn small() -> SmbpoConfig {
        let mut config = SmbpoConfig::of(Toy::default().spec());
        config.model.ensemble = EnsembleConfig { members: 2, width: 16, ..EnsembleConfig::default() };
        config.learner.width = 16;
        config.batch = 32;
        config
    }

    fn build(config: SmbpoConfig) -> Result<Smbpo> {
        Smbpo::new(Toy::default().spec(), config, Setup::new("smbpo", 0, 1))
    }

    #[test]
    fn updates_are_counted_as_in_the_reference_and_may_be_fewer_than_one_per_step() {
        let mut config = small();
        // 5000 random steps, then 10 000 updates of the model and 2000 more every 250 steps; ten of the policy per step.
        for (steps, model, policy) in
            [(4999, 0, 0), (5000, 10_000, 0), (5001, 10_000, 10), (5249, 10_000, 2490), (5750, 16_000, 7500)]
        {
            assert_eq!((config.model_updates(steps), config.policy_updates(steps)), (model, policy), "{steps}");
        }
        config.updates_per_step = 0.1;
        let steps = [5000, 5009, 5010, 5019, 5030, 6000];
        assert_eq!(steps.map(|s| config.policy_updates(s)), [0, 0, 1, 1, 3, 100]);
    }

    #[test]
    fn the_target_entropy_of_each_robot_is_the_references() {
        for (name, action_dim, entropy) in
            [("ant", 8, 4.0), ("cheetah", 6, 3.0), ("hopper", 3, 1.0), ("humanoid", 17, 2.0)]
        {
            let config =
                SmbpoConfig::of(&Spec { name: name.into(), obs_dim: 1, action_dim, time_limit: None, dt: 1.0 });
            let target = config.learner.entropy_per_action * action_dim as f64;
            assert!((target - entropy).abs() < 1e-12, "{name}: {target}");
        }
    }

    #[test]
    fn imagined_violations_are_learnt_at_their_value_by_hand() {
        let mut config = small();
        config.real_fraction = 0.0;
        config.imagination.horizon = 2;
        config.learner.gamma = 0.5;
        config.learner.rate = 1e-2;
        let mut smbpo = build(config).unwrap();
        // Rewards between −1 and 3: C = 4/(1/2)² − 3 = 13, and a violation is worth −13/(1 − 1/2) = −26.
        for reward in [-1.0, 2.0, 3.0, 0.5] {
            smbpo.choose(true);
            smbpo.remember(reward, None, &[0.1; 5]);
        }
        assert_eq!(smbpo.value_of_a_violation(), -26.0);
        smbpo.state.violation_value = smbpo.value_of_a_violation();
        // Off the bridge wherever it goes: every branch is one transition long, and no critic sees anything else.
        smbpo.dynamics.meet(&smbpo.real, 4);
        let seen = smbpo.imagination.rollouts(
            &mut smbpo.dynamics,
            None,
            &|_| true,
            &smbpo.real,
            (100, 2),
            &mut smbpo.imagine_rng,
            &mut smbpo.imagined,
        );
        assert_eq!(seen, Imagined { rollouts: 100, transitions: 100, violations: 100, broken: 0 });
        let mut metrics = Metrics::default();
        for _ in 0..600 {
            smbpo.update_policy(None).unwrap();
        }
        smbpo.update_policy(Some(&mut metrics)).unwrap();
        let q = metrics.get("Value/reward_critic").unwrap();
        assert!((q + 26.0).abs() < 0.5, "{q}");
        // A cost that is given is used.
        smbpo.config.violation_cost = 2.0;
        assert_eq!(smbpo.value_of_a_violation(), -4.0);
    }

    #[test]
    fn settings_that_make_no_sense_are_refused_in_one_sentence() {
        let refused = |change: fn(&mut SmbpoConfig), key: &str| {
            let mut config = small();
            change(&mut config);
            let error = build(config).err().expect(key).to_string();
            assert!(error.starts_with(&format!("smbpo.{key} must be ")), "{error}");
        };
        refused(|c| c.updates_per_step = -1.0, "updates_per_step");
        refused(|c| c.updates_per_step = f64::NAN, "updates_per_step");
        refused(|c| c.real_fraction = 1.5, "real_fraction");
        refused(|c| c.replay = 100, "replay");
        refused(|c| c.violation_cost = f64::INFINITY, "violation_cost");
        refused(|c| c.model.refit_every = 0, "model.refit_every");
        refused(|c| c.model.ensemble.members = 0, "model.ensemble.members");
        refused(|c| c.model.ensemble.min_log_var = 2.0, "model.ensemble.min_log_var");
        refused(|c| c.imagination.horizon = 0, "imagination.horizon");
        refused(|c| c.imagination.replay = 10, "imagination.first_transitions");
        refused(|c| c.learner.gamma = 1.0, "learner.gamma");
    }

    /// `cargo test --release -p methods -- --ignored --nocapture costs`: the table in `docs/methods/smbpo.md`.
    #[test]
    #[ignore = "a measurement, not a check"]
    fn costs() {
        for (name, obs_dim, action_dim) in [("hopper", 11, 3), ("cheetah", 17, 6), ("humanoid", 45, 17)] {
            let spec = Spec { name: name.into(), obs_dim, action_dim, time_limit: Some(1000), dt: 1.0 };
            let mut smbpo = Smbpo::new(&spec, SmbpoConfig::of(&spec), Setup::new("smbpo", 0, 1)).unwrap();
            let mut next = vec![0.0; obs_dim];
            for _ in 0..5000 {
                smbpo.choose(true);
                smbpo.act_rng.fill_normal(&mut smbpo.observation);
                smbpo.act_rng.fill_normal(&mut next);
                smbpo.remember(0.0, None, &next);
            }
            smbpo.dynamics.meet(&smbpo.real, 5000);
            let mut best = [f64::INFINITY; 3];
            for _ in 0..40 {
                let start = Instant::now();
                smbpo.dynamics.update(&smbpo.real, smbpo.config.model.batch, &mut smbpo.model_rng).unwrap();
                best[0] = best[0].min(start.elapsed().as_secs_f64());
                let start = Instant::now();
                let policy = Some(smbpo.learner.actor());
                smbpo.imagination.rollouts(
                    &mut smbpo.dynamics,
                    policy,
                    &|_| false,
                    &smbpo.real,
                    (100, 10),
                    &mut smbpo.imagine_rng,
                    &mut smbpo.imagined,
                );
                best[1] = best[1].min(start.elapsed().as_secs_f64());
                let start = Instant::now();
                smbpo.update_policy(None).unwrap();
                best[2] = best[2].min(start.elapsed().as_secs_f64());
            }
            let [model, rollouts, policy] = best.map(|s| 1e3 * s);
            println!("{name}: model {model:.2} ms, 100 rollouts {rollouts:.2} ms, policy {policy:.2} ms");
        }
    }
}
