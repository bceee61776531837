//! How fast a robot steps here and what one more of it costs in memory. `cargo xtask bench envs` calls it.

use std::hint::black_box;
use std::io::{Write as _, stdout};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sskp_blocks::env::Env;
use sskp_blocks::rng::Rng;
use sskp_lab::registry::Registry;

use crate::Robot;

/// Measure steps per second under random actions, resets included
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    robot: Robot,
    /// Threads, each with a robot of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// How long to measure
    #[arg(long, default_value = "2", value_parser = duration)]
    seconds: Duration,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Robots made to see what one costs: enough that the resident set's grain of a few pages does not show.
const CROWD: usize = 64;
/// Steps each of them takes, so that all memory it will touch is touched; contacts come and go within a fall.
const CROWD_STEPS: usize = 60;

impl Args {
    pub fn run(self, registry: &Registry) -> Result<()> {
        let memory = self.memory_per_env(registry)?;
        let (steps, seconds) = self.speed(registry)?;
        let rate = steps as f64 / seconds;
        let (env, threads) = (self.robot.env, self.threads);
        let mut out = stdout().lock();
        match self.json {
            true => {
                let memory = memory.map_or("null".into(), |kib| format!("{kib:.1}"));
                writeln!(
                    out,
                    "{{\"env\":\"{env}\",\"threads\":{threads},\"steps\":{steps},\"seconds\":{seconds:.6},\
                     \"steps_per_second\":{rate:.1},\"rss_per_env_kib\":{memory}}}"
                )?;
            }
            false => {
                let memory = memory.map_or("unknown".into(), |kib| format!("{kib:.0} KiB"));
                writeln!(
                    out,
                    "{env}: {rate:.0} steps/s on {threads} threads ({steps} steps in {seconds:.2} s); \
                     resident memory of one more robot {memory}"
                )?;
            }
        }
        Ok(())
    }

    /// Growth of the resident set for one more stepping robot, the model (which all share) not counted.
    fn memory_per_env(&self, registry: &Registry) -> Result<Option<f64>> {
        let mut rng = Rng::stream(0, "bench memory");
        let mut first = self.robot.make(registry)?;
        play(&mut *first, &mut rng, CROWD_STEPS);
        let Some(before) = resident_kib() else { return Ok(None) };
        let mut crowd = Vec::with_capacity(CROWD);
        for _ in 0..CROWD {
            let mut env = self.robot.make(registry)?;
            play(&mut *env, &mut rng, CROWD_STEPS);
            crowd.push(env);
        }
        let after = resident_kib().context("the resident set can no longer be read")?;
        black_box(&crowd);
        Ok(Some((after - before).max(0.0) / CROWD as f64))
    }

    /// Steps of all threads together, and the seconds they took.
    fn speed(&self, registry: &Registry) -> Result<(u64, f64)> {
        let threads = u64::from(self.threads);
        let mut envs = (0..threads).map(|_| self.robot.make(registry)).collect::<sskp_blocks::Result<Vec<_>>>()?;
        let start_line = Barrier::new(envs.len());
        let results: Vec<(u64, Duration)> = std::thread::scope(|scope| {
            let racers: Vec<_> = envs
                .iter_mut()
                .zip(0..)
                .map(|(env, seed)| {
                    let (start_line, limit) = (&start_line, self.seconds);
                    scope.spawn(move || {
                        let mut rng = Rng::stream(seed, "bench");
                        play(&mut **env, &mut rng, CROWD_STEPS); // warm caches and touch memory
                        start_line.wait();
                        race(&mut **env, &mut rng, limit)
                    })
                })
                .collect();
            racers.into_iter().map(|r| r.join().expect("stepping does not panic")).collect()
        });
        let steps = results.iter().map(|(steps, _)| steps).sum();
        let longest = results.iter().map(|(_, time)| *time).max().unwrap_or_default();
        Ok((steps, longest.as_secs_f64()))
    }
}

fn play(env: &mut dyn Env, rng: &mut Rng, steps: usize) {
    let mut action = vec![0.0; env.spec().action_dim];
    env.reset(rng).expect("the robots always start");
    for _ in 0..steps {
        rng.fill_action(&mut action);
        if env.step(&action).expect("the robots always step").end.is_some() {
            env.reset(rng).expect("the robots always start");
        }
    }
}

/// Steps until the time is up. Allocates nothing.
fn race(env: &mut dyn Env, rng: &mut Rng, limit: Duration) -> (u64, Duration) {
    let mut action = vec![0.0; env.spec().action_dim];
    env.reset(rng).expect("the robots always start");
    let (mut steps, start) = (0, Instant::now());
    loop {
        rng.fill_action(&mut action);
        let step = black_box(env.step(&action).expect("the robots always step"));
        steps += 1;
        if step.end.is_some() {
            env.reset(rng).expect("the robots always start");
        }
        let elapsed = start.elapsed();
        if elapsed >= limit {
            return (steps, elapsed);
        }
    }
}

/// The resident set in KiB, where the system tells.
fn resident_kib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn duration(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds is needed".to_string())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(d) if !d.is_zero() && seconds <= 3600.0 => Ok(d),
        _ => Err("it must lie above 0 and be an hour at most".into()),
    }
}
