//! How fast SAC learns here, and what share of the machine's arithmetic that is.
//! `cargo xtask bench update` calls it.
//!
//! What is timed is the method as it trains: one environment step and one update per step, through the same run that
//! counts every other run's steps. Only the recorder differs: it looks at the clock and stops the run.

use std::hint::black_box;
use std::io::{Write as _, stdout};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sskp_blocks::env::Spec;
use sskp_blocks::nets::linalg;
use sskp_blocks::record::{EpisodeRow, Metrics, Recorder};
use sskp_blocks::rng::Rng;
use sskp_blocks::run::{Clock, Run};
use sskp_lab::registry::Registry;
use sskp_methods::sac::{Sac, SacConfig};
use sskp_methods::{Method as _, Setup};

use crate::Robot;

/// Measure environment steps per second of SAC with one update per step, at its default sizes
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    robot: Robot,
    /// Threads of the learner
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// How long to measure
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,
    /// Seed of the run
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Random steps that fill the replay before the first update.
const RANDOM_STEPS: u64 = 1000;
/// Steps with an update before the clock starts: buffers grow and caches warm up.
const WARM_STEPS: u64 = 50;

impl Args {
    pub fn run(self, registry: &Registry) -> Result<()> {
        let config = SacConfig { random_steps: RANDOM_STEPS, ..SacConfig::default() };
        let env = self.robot.make(registry)?;
        let spec = env.spec().clone();
        let setup = Setup::new("sac", self.seed, self.threads.into());
        let mut method = Sac::new(&spec, config.clone(), setup)?;

        // Clocks change while a machine warms up or its neighbours wake: the better of before and after counts.
        let peak_before = peak_gflops();
        let mut stopwatch = Stopwatch::new(Duration::from_secs(self.seconds.into()));
        let mut run = Run::new(env, self.seed, u64::MAX, &mut stopwatch);
        method.train(&mut run)?;
        let updates = run.clock().steps - RANDOM_STEPS;
        let phase = |name: &str| run.times().get(name).map_or(0.0, Duration::as_secs_f64);
        let (learning, physics) = (phase("learning"), phase("physics"));
        let all_steps = run.clock().steps;
        let peak = peak_before.max(peak_gflops());

        let (from, to) = stopwatch.span().context("the run ended before the time was up")?;
        let steps = to.0 - from.0;
        ensure!(steps > 0 && updates > 0, "no step was taken within the time");
        let seconds = to.1.duration_since(from.1).as_secs_f64();
        let (env, threads) = (self.robot.env, self.threads);
        let (batch, width, layers) = (config.batch, config.learner.width, config.learner.layers);
        let rate = steps as f64 / seconds;
        let per_update = learning / updates as f64;
        let flops = flops_per_update(&config, &spec);
        let gflops = flops / per_update / 1e9;
        let share = gflops / (peak * f64::from(threads));
        let (update_ms, physics_ms) = (1e3 * per_update, 1e3 * physics / all_steps as f64);
        let plural = if threads == 1 { "" } else { "s" };
        let mut out = stdout().lock();
        if self.json {
            writeln!(
                out,
                "{{\"env\":\"{env}\",\"threads\":{threads},\"batch\":{batch},\"width\":{width},\"layers\":{layers},\
                 \"steps\":{steps},\"seconds\":{seconds:.6},\"steps_per_second\":{rate:.2},\
                 \"update_ms\":{update_ms:.4},\"physics_ms\":{physics_ms:.4},\"mflop_per_update\":{:.3},\
                 \"gflop_per_second\":{gflops:.2},\"peak_gflop_per_second\":{peak:.2},\"share_of_peak\":{share:.4}}}",
                flops / 1e6
            )?;
        } else {
            writeln!(
                out,
                "{env}: {rate:.1} steps/s with one update per step on {threads} thread{plural} ({steps} steps in {seconds:.2} s)\n\
                 one update (batch {batch}, {layers} layers of {width}): {update_ms:.2} ms, {:.0} MFLOP, \
                 {gflops:.1} GFLOP/s; one step of physics: {physics_ms:.3} ms\n\
                 matrix products of one thread reach {peak:.1} GFLOP/s here: the update has {:.0} % of that per thread",
                flops / 1e6,
                100.0 * share
            )?;
        }
        Ok(())
    }
}

/// Floating-point operations of all matrix products of one update, two per multiplication with its addition.
///
/// With P the weights of a network without biases (A the actor's, C a critic's), P₀ those of its first layer, and n the
/// rows of a minibatch, every product has 2·n·(weights) operations:
///
/// | what | products | how often |
/// |---|---|---|
/// | actor on s' and on s | forward A | 2 |
/// | target critics on (s', a') | forward C | 2 |
/// | critics on (s, a) | forward C, gradient of weights C, gradient of inner inputs C − C₀ | 2 |
/// | critics on (s, π(s)) | forward C | 2 |
/// | | gradient of the actions: C − C₀ + (width × actions), each row in the critic it climbs | 1 |
/// | actor | gradient of weights A, gradient of inner inputs A − A₀ | 1 |
///
/// in sum 2·n·(4·A − A₀ + 11·C − 3·C₀ + width × actions). Element-wise work (biases, ReLU, Gaussians, Adam, Polyak) is not counted; at the
/// default sizes it is below 1 % of the operations, though not of the time.
fn flops_per_update(config: &SacConfig, spec: &Spec) -> f64 {
    let (width, hidden) = (config.learner.width, config.learner.layers);
    let weights = |inputs: usize, outputs: usize| {
        let first = inputs * width;
        (first + hidden.saturating_sub(1) * width * width + width * outputs, first)
    };
    let (actor, actor_first) = weights(spec.obs_dim, 2 * spec.action_dim);
    let (critic, critic_first) = weights(spec.obs_dim + spec.action_dim, 1);
    let weights = 4 * actor - actor_first + 11 * critic - 3 * critic_first + width * spec.action_dim;
    2.0 * config.batch as f64 * weights as f64
}

/// The best rate of f32 matrix products on this thread, in GFLOP/s, with the same routine that the networks use.
pub fn peak_gflops() -> f64 {
    let mut rng = Rng::stream(0, "peak");
    let mut best: f64 = 0.0;
    for n in [256, 512] {
        let [mut a, mut b, mut out] = [(); 3].map(|()| vec![0.0f32; n * n]);
        rng.fill_normal(&mut a);
        rng.fill_normal(&mut b);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(200) {
            let start = Instant::now();
            linalg::ab(&mut out, black_box(&a), black_box(&b), n, n, n);
            black_box(&out);
            best = best.max(2.0 * (n * n * n) as f64 / start.elapsed().as_secs_f64() / 1e9);
        }
    }
    best
}

/// Times a run from its first warm step until the time is up, then asks it to stop.
struct Stopwatch {
    limit: Duration,
    from: Option<(u64, Instant)>,
    to: Option<(u64, Instant)>,
}

impl Stopwatch {
    fn new(limit: Duration) -> Self {
        Self { limit, from: None, to: None }
    }

    /// Steps and moments of the beginning and the end.
    fn span(&self) -> Option<((u64, Instant), (u64, Instant))> {
        self.from.zip(self.to)
    }
}

impl Recorder for Stopwatch {
    fn episode(&mut self, _: &EpisodeRow) -> sskp_blocks::Result<()> {
        Ok(())
    }
    fn metrics(&mut self, _: Clock, _: &Metrics) -> sskp_blocks::Result<()> {
        Ok(())
    }
    /// Called between the step and its update, so from one call to a later one there are as many updates as steps.
    fn step(&mut self, at: Clock) {
        if at.steps <= RANDOM_STEPS + WARM_STEPS {
            return;
        }
        let now = Instant::now();
        let (_, start) = *self.from.get_or_insert((at.steps, now));
        if self.to.is_none() && now.duration_since(start) >= self.limit {
            self.to = Some((at.steps, now));
        }
    }
    fn stop_requested(&self) -> bool {
        self.to.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sskp_blocks::toy::Toy;

    #[test]
    fn operations_by_hand() {
        // Toy: 5 observations, 2 actions. One hidden layer of 10 and a batch of 3: A = 50 + 40, A₀ = 50, C = 70 + 10,
        // C₀ = 70; 2·3·(360 − 50 + 880 − 210 + 20) = 6000.
        let mut config = SacConfig { batch: 3, ..SacConfig::default() };
        config.learner.width = 10;
        config.learner.layers = 1;
        let spec = sskp_blocks::env::Env::spec(&Toy::default()).clone();
        assert_eq!(flops_per_update(&config, &spec), 6000.0);
        // Two layers add 100 to A and to C: 2·3·15·100 more.
        config.learner.layers = 2;
        assert_eq!(flops_per_update(&config, &spec), 6000.0 + 9000.0);
    }

    #[test]
    fn the_stopwatch_times_warm_steps_and_stops_the_run() {
        let mut stopwatch = Stopwatch::new(Duration::from_millis(30));
        let mut config = SacConfig { random_steps: RANDOM_STEPS, batch: 8, ..SacConfig::default() };
        config.learner.width = 8;
        let mut run = Run::new(Box::<Toy>::default(), 0, u64::MAX, &mut stopwatch);
        let mut method = Sac::new(run.spec(), config, Setup::new("sac", 0, 1)).unwrap();
        method.train(&mut run).unwrap();
        let all = run.clock().steps;
        let (from, to) = stopwatch.span().unwrap();
        assert_eq!((from.0, to.0), (RANDOM_STEPS + WARM_STEPS + 1, all));
        assert!(to.1.duration_since(from.1) >= Duration::from_millis(30) && to.0 > from.0);
    }
}
