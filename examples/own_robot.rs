//! Your own robot, out of a MuJoCo file that is read when the program runs: a cart that carries a pole along a rail and must not drop
//! it. Trained with safe SAC, for which nothing is worse than a violation; the page shows what it learnt.
//!
//! `cargo run --release --example own_robot [FILE.xml]`; what it writes goes into `runs`.

use std::path::PathBuf;

use sskp::blocks::{Error, Result};
use sskp::lab::config::{Config, Overrides, RunConfig};
use sskp::lab::evaluate::{self, Watched};
use sskp::lab::registry::Registry;
use sskp::lab::replay_page::write_html;
use sskp::lab::train::{self, Session, Summary};
use sskp::robots::sim::{Noise, Robot};

/// Small networks that learn early: this is over in seconds.
const SETTINGS: [&str; 6] = [
    "ssac.random_steps=500",
    "ssac.batch=64",
    "ssac.learner.width=64",
    "ssac.learner.rate=1e-3",
    // The temperature to begin with: at 1 the policy of so short a run is still half a random one.
    "ssac.learner.alpha=0.1",
    // A violation is worth as much as losing so much per step for ever. Without it that is computed from the rewards seen so far.
    "ssac.violation.cost=1",
];

fn main() -> Result<()> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/own_robot.xml");
    let file = std::env::args_os().nth(1).map_or(PathBuf::from(beside), PathBuf::from);
    let xml = std::fs::read_to_string(&file).map_err(|e| Error::io(&file, e))?;
    // Observed are all positions but the first, how far it has come, and all speeds: here lean, speed, speed of leaning.
    let robot = Robot {
        frame_skip: 2,
        noise: Noise::Uniform(0.05),
        reward: Box::new(|motion| motion.speed - 0.1 * motion.squared_controls),
        violates: Box::new(|obs| !(obs[0].abs() <= 0.4)),
        time_limit: Some(200),
        ..Robot::new("carrier", xml)
    };
    let mut registry = Registry::standard();
    registry.add_env(robot.into_entry())?;

    let config = Config::resolve(&registry, RunConfig::new("ssac", "carrier", 0, 12_000), &Overrides::of(&SETTINGS)?)?;
    let folder = config.default_folder();
    let summary = train::train(&config, &folder, Session { quiet: true, ..Session::of(&registry) })?;
    let Summary { steps, violations, ptr, .. } = summary;
    println!("training: {steps} steps, {ptr:.3} per step, {violations} violations");

    let mut trained = evaluate::load_policy(&registry, &folder, |refused| eprintln!("warning: {refused}"))?;
    let Watched { rows, episodes, .. } = evaluate::watch(&mut trained, 10, 1, false, true)?;
    let [mut steps, mut reward, mut falls] = [0.0; 3];
    for row in &rows {
        (steps, reward) = (steps + row.length as f64, reward + row.total_reward);
        falls += f64::from(u8::from(row.violation));
    }
    println!(
        "trained policy: 10 episodes, {:.0} steps each, {:.3} per step, {falls} violations",
        steps / 10.0,
        reward / steps
    );
    if let Some(first) = episodes.into_iter().next() {
        let page = folder.join("replay.html");
        write_html(&first.into_page(&trained.env, "safe SAC, mean actions"), &page)?;
        println!("replay: {}", page.display());
    }
    Ok(())
}
