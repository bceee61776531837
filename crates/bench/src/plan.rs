//! How long one decision of the risk planner takes here, and what share of the machine's arithmetic that is.
//! `cargo xtask bench plan` calls it.
//!
//! What is timed is Algorithm 1 as a run calls it: the planner at its default sizes, scored by a risk predictor with random
//! weights. Weights do not change the time.

use std::hint::black_box;
use std::io::{Write as _, stdout};
use std::time::{Duration, Instant};

use anyhow::Result;
use sskp_blocks::rng::Rng;
use sskp_lab::registry::Registry;
use sskp_methods::sskp::planner::{Gaussian, Planner};
use sskp_methods::sskp::risk::RiskPredictor;
use sskp_methods::sskp::{PlannerConfig, RiskConfig, SskpConfig};

use crate::Robot;
use crate::update::peak_gflops;

/// Measure the time of the fastest plan, on one thread
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    robot: Robot,
    /// Width of the risk predictor
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=4096))]
    width: u16,
    /// How long to measure
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Plans before the clock starts: buffers grow and caches warm up.
const WARM_PLANS: usize = 20;

impl Args {
    pub fn run(self, registry: &Registry) -> Result<()> {
        let spec = self.robot.make(registry)?.spec().clone();
        let (obs, dim, width) = (spec.obs_dim, SskpConfig::default().skill.dim, usize::from(self.width));
        let config = PlannerConfig::default();
        let mut rng = Rng::stream(0, "bench plan");
        let mut risk = RiskPredictor::new(RiskConfig { width, ..RiskConfig::default() }, obs, dim, &mut rng);
        let mut planner = Planner::new(config.clone(), vec![2.0; dim]);
        let policy = Gaussian { mean: vec![0.0; dim], std: vec![1.0; dim] };
        let mut state = vec![0.0; obs];
        rng.fill_normal(&mut state);

        // Clocks change while a machine warms up or its neighbours wake: the better of before and after counts.
        let peak_before = peak_gflops();
        let limit = Duration::from_secs_f64(self.seconds.clamp(0.001, 3600.0));
        let mut plan = || {
            let score = |z: &[f32], out: &mut [f32]| risk.score(&state, z, out);
            let begin = Instant::now();
            black_box(planner.plan(black_box(&policy), score, &mut rng, |_| ()));
            begin.elapsed().as_secs_f64()
        };
        (0..WARM_PLANS).for_each(|_| _ = plan());
        // The fastest counts, as the peak is that of the fastest product: what is slower was the machine's doing.
        let (mut plans, mut per_plan, begin) = (0u64, f64::INFINITY, Instant::now());
        while plans == 0 || begin.elapsed() < limit {
            per_plan = per_plan.min(plan());
            plans += 1;
        }
        let seconds = begin.elapsed().as_secs_f64();
        let peak = peak_before.max(peak_gflops());

        let flops = flops_per_plan(&config, obs, dim, width);
        let gflops = flops / per_plan / 1e9;
        let (env, share, us) = (self.robot.env, gflops / peak, 1e6 * per_plan);
        let (samples, elites, iterations) = (config.samples, config.elites, config.iterations);
        let mut out = stdout().lock();
        if self.json {
            writeln!(
                out,
                "{{\"env\":\"{env}\",\"obs\":{obs},\"dim\":{dim},\"width\":{width},\"samples\":{samples},\
                 \"elites\":{elites},\"iterations\":{iterations},\"plans\":{plans},\"seconds\":{seconds:.6},\
                 \"us_per_plan\":{us:.2},\"mflop_per_plan\":{:.3},\"gflop_per_second\":{gflops:.2},\
                 \"peak_gflop_per_second\":{peak:.2},\"share_of_peak\":{share:.4}}}",
                flops / 1e6
            )?;
        } else {
            writeln!(
                out,
                "{env}: {us:.0} us for a plan of {iterations} x {samples} skills, risk predictor {width} wide (the fastest of {plans} in \
                 {seconds:.2} s)\n{:.0} MFLOP of matrix products, {gflops:.1} GFLOP/s; matrix products of one thread reach \
                 {peak:.1} GFLOP/s here: the plan has {:.0} % of that",
                flops / 1e6,
                100.0 * share
            )?;
        }
        Ok(())
    }
}

/// Floating-point operations of all matrix products of one plan, two per multiplication with its addition: in each of N_p
/// iterations, the state's part of the first layer once, and for each of N_s skills their part of it, the second layer and the
/// output. Drawing, choosing and refitting are not counted, though they take time.
fn flops_per_plan(config: &PlannerConfig, obs: usize, dim: usize, width: usize) -> f64 {
    let per_skill = dim * width + width * width + width;
    (2 * config.iterations * (obs * width + config.samples * per_skill)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_by_hand() {
        // Two iterations of 5 skills, 3 observations, 2 coordinates, width 4: 2·2·(12 + 5·(8 + 16 + 4)) = 608.
        let config = PlannerConfig { iterations: 2, samples: 5, ..PlannerConfig::default() };
        assert_eq!(flops_per_plan(&config, 3, 2, 4), 608.0);
    }
}
