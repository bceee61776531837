//! Your own environment, in pure Rust: a pendulum that must not tip over, learnt by SAC from nothing and by SSkP from demonstrations
//! that are made here.
//!
//! `cargo run --release --example own_environment`; what it writes goes into `runs`.

use sskp::blocks::Result;
use sskp::blocks::demos::Demonstrations;
use sskp::blocks::env::{End, Env, Spec, Step};
use sskp::blocks::registry::EnvEntry;
use sskp::blocks::rng::Rng;
use sskp::lab::config::{Config, Overrides, RunConfig};
use sskp::lab::data::{About, write_minari};
use sskp::lab::registry::Registry;
use sskp::lab::train::{self, Session, Summary};

const DT: f64 = 0.05;
const TIME_LIMIT: usize = 200;

/// A rod on a motor, kept upright. The further it leans to the right the more it earns, and at half a radian it has tipped over.
pub struct Pendulum {
    spec: Spec,
    /// Angle and angular speed.
    obs: [f64; 2],
    steps: usize,
}

/// These four methods are all that must be written. Without the optional ones a run is resumed at the end of an episode, not at any
/// step; SMBPO, which asks for the constraint of imagined states, cannot be used; and there are no replay pages.
impl Env for Pendulum {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn reset(&mut self, rng: &mut Rng) -> Result<()> {
        (self.obs, self.steps) = ([rng.uniform(-0.1, 0.1), rng.uniform(-0.1, 0.1)], 0);
        Ok(())
    }

    fn step(&mut self, action: &[f32]) -> Result<Step> {
        let [mut angle, mut speed] = self.obs;
        let torque = f64::from(action[0].clamp(-1.0, 1.0));
        // Gravity pulls it over; the motor is just strong enough to bring it back from half a radian.
        speed += DT * (9.81 * angle.sin() + 6.0 * torque);
        angle += DT * speed;
        self.obs = [angle, speed];
        self.steps += 1;
        let end = match angle.abs() {
            a if !(a <= 0.5) => Some(End::Violation),
            _ => (self.steps >= TIME_LIMIT).then_some(End::Truncated),
        };
        Ok(Step::new(angle - 0.01 * torque * torque, end))
    }

    fn obs(&self) -> &[f64] {
        &self.obs
    }
}

/// What a registry needs: a name, and how one is made.
pub fn pendulum() -> EnvEntry {
    EnvEntry::new("pendulum", |_| {
        let spec = Spec { name: "pendulum".into(), obs_dim: 2, action_dim: 1, time_limit: Some(TIME_LIMIT), dt: DT };
        Ok(Box::new(Pendulum { spec, obs: [0.0; 2], steps: 0 }))
    })
}

/// A cautious controller whose hand shakes, and so much in every third episode that the pendulum tips over in some of them: risk can
/// only be learnt from demonstrations that show it.
fn demonstrations(env: &mut dyn Env, episodes: usize) -> Result<Demonstrations> {
    let mut rng = Rng::stream(0, "demonstrator");
    let mut demos = Demonstrations::of(env.spec());
    for episode in 0..episodes {
        let shake = if episode % 3 == 0 { 0.5 } else { 0.1 };
        let mut hand = 0.0;
        demos.play(env, &mut rng, |obs, rng, action| {
            hand = 0.8 * hand + shake * rng.normal();
            action[0] = (-3.0 * (obs[0] - 0.15) - 0.8 * obs[1] - 0.25 + hand) as f32;
        })?;
    }
    Ok(demos)
}

/// Small networks that learn early: this is over in seconds.
const SAC: [&str; 4] = ["sac.random_steps=500", "sac.batch=64", "sac.learner.width=32", "sac.learner.rate=1e-3"];
const SSKP: [&str; 17] = [
    "sskp.skill.dim=4",
    "sskp.skill.hidden=32",
    "sskp.skill.prior_width=32",
    "sskp.skill.prior_layers=2",
    "sskp.skill.batch=64",
    "sskp.skill.steps=1000",
    "sskp.risk.width=32",
    "sskp.risk.steps=1000",
    "sskp.planner.samples=64",
    "sskp.planner.elites=16",
    "sskp.policy.learner.width=32",
    "sskp.policy.learner.rate=1e-3",
    "sskp.policy.batch=64",
    "sskp.policy.warm_up=32",
    "sskp.policy.updates_per_skill=4",
    // It earns a tenth of what the robots do per step, and its demonstrator is too cautious to be followed closely.
    "sskp.policy.reward_scale=1",
    "sskp.policy.divergence=20",
];

fn main() -> Result<()> {
    let mut registry = Registry::standard();
    registry.add_env(pendulum())?;
    let demos = demonstrations(&mut *registry.make_env("pendulum", Default::default())?, 60)?;
    println!("demonstrations: {} episodes, {} tip over", demos.trajectories().len(), demos.violations());
    let run = |algo: &str, settings: &[&str]| -> Result<Summary> {
        let mut config =
            Config::resolve(&registry, RunConfig::new(algo, "pendulum", 0, 8000), &Overrides::of(settings)?)?;
        let folder = config.default_folder();
        if registry.method(algo)?.demos {
            let set =
                write_minari(&folder.with_extension("demos"), "pendulum/shaken-v0", &demos, &[], &About::default())?;
            config.run.demos = set.display().to_string();
        }
        train::train(&config, &folder, Session { quiet: true, ..Session::of(&registry) })
    };
    for (algo, settings) in [("sac", &SAC[..]), ("sskp", &SSKP[..])] {
        let Summary { steps, ptr, violations, .. } = run(algo, settings)?;
        println!("{algo}: {steps} steps, {ptr:.3} per step, {violations} violations");
    }
    Ok(())
}
