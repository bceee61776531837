//! A trained policy in a control loop of your own, at a fixed rate, with an eye on the risk that it predicts for itself.
//!
//! `cargo run --release --example control_loop [RUN]`: the policy of a run directory, or of a small run of SSkP on the toy that is made
//! first.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use sskp::blocks::Result;
use sskp::blocks::rng::Rng;
use sskp::lab::config::{Config, Overrides, RunConfig};
use sskp::lab::evaluate;
use sskp::lab::registry::Registry;
use sskp::lab::train::{self, Session};

/// Steps per second.
const RATE: u32 = 100;
/// From this predicted risk on somebody should look.
const RISKY: f32 = 0.3;

fn main() -> Result<()> {
    let registry = Registry::standard();
    let run = match std::env::args_os().nth(1) {
        Some(run) => PathBuf::from(run),
        None => trained_run(&registry)?,
    };
    let mut trained = evaluate::load_policy(&registry, &run, |refused| eprintln!("warning: {refused}"))?;
    // Your robot is here in place of the simulated one: `obs` is its sensors, `step` its motors.
    let mut robot = trained.make_env()?;
    robot.reset(&mut Rng::stream(1, "env"))?;

    let period = Duration::from_secs(1) / RATE;
    let mut action = vec![0.0; robot.spec().action_dim];
    let (mut slowest, mut risks, mut reward) = (Duration::ZERO, Vec::new(), 0.0);
    trained.actor.begin(); // forgets what it was playing
    let mut next = Instant::now();
    let end = loop {
        let state: Vec<f32> = robot.obs().iter().map(|x| *x as f32).collect();
        let thinking = Instant::now();
        trained.actor.act(&state, false, &mut action);
        slowest = slowest.max(thinking.elapsed());
        // Methods that know no risk give none.
        if let Some(risk) = trained.actor.risk() {
            // It is that of a skill, and stays the same while the skill is played.
            if risk > RISKY && risks.last() != Some(&risk) {
                println!("step {}: predicted risk {risk:.2}", risks.len());
            }
            risks.push(risk);
        }
        let step = robot.step(&action)?;
        reward += step.reward;
        if let Some(end) = step.end {
            break end;
        }
        next += period;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    };
    println!("{}: return {reward:.1}, slowest decision {:.1} ms", end.name(), 1e3 * slowest.as_secs_f64());
    if !risks.is_empty() {
        println!("mean predicted risk {:.4} of {} steps", risks.iter().sum::<f32>() / risks.len() as f32, risks.len());
    }
    Ok(())
}

/// The paper's method on the toy, small, from the shipped demonstrations.
fn trained_run(registry: &Registry) -> Result<PathBuf> {
    let settings = [
        "sskp.skill.hidden=32",
        "sskp.skill.prior_width=32",
        "sskp.skill.prior_layers=2",
        "sskp.skill.batch=64",
        "sskp.skill.steps=1000",
        "sskp.risk.width=64",
        "sskp.risk.rate=1e-3",
        "sskp.risk.steps=2000",
        "sskp.planner.samples=64",
        "sskp.planner.elites=16",
        "sskp.policy.learner.width=32",
        "sskp.policy.batch=64",
        "sskp.policy.reward_scale=1",
    ];
    let config = Config::resolve(registry, RunConfig::new("sskp", "toy", 0, 2000), &Overrides::of(&settings)?)?;
    let folder = config.default_folder();
    let summary = train::train(&config, &folder, Session { quiet: true, ..Session::of(registry) })?;
    println!("trained for {} steps, {:.3} per step, {} violations", summary.steps, summary.ptr, summary.violations);
    Ok(folder)
}
