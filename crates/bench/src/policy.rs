//! How long one decision of a trained policy takes. `cargo xtask bench policy` calls it.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use sskp_blocks::rng::Rng;
use sskp_lab::control::Policy;

/// Measure single decisions, as a control loop in C makes them
#[derive(clap::Args)]
pub struct Args {
    /// Run directory
    run: PathBuf,
    /// Decisions
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1000..))]
    decisions: u32,
}

/// Decisions before the clock counts.
const WARM_UP: usize = 50;

impl Args {
    pub fn run(self) -> Result<()> {
        let mut policy = Policy::load(&self.run)?;
        let (obs, dim) = policy.sizes();
        let mut observations = vec![0.0; 256 * obs];
        Rng::stream(0, "bench policy").fill_normal(&mut observations);
        observations.iter_mut().for_each(|x| *x *= 0.3);
        let mut action = vec![0.0; dim];
        let mut times = Vec::with_capacity(self.decisions as usize);
        for i in 0..WARM_UP + self.decisions as usize {
            let observation = &observations[(i % 256) * obs..][..obs];
            let began = Instant::now();
            let fine = black_box(policy.act(black_box(observation), &mut action));
            let took = began.elapsed();
            ensure!(fine.is_ok(), "the policy gave no action");
            if i >= WARM_UP {
                times.push(1e6 * took.as_secs_f64());
            }
        }
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() as f64 * share) as usize).min(times.len() - 1)];
        println!("{{\"p999_us\":{:.3},\"median_us\":{:.3}}}", at(0.999), at(0.5));
        Ok(())
    }
}
