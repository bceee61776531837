//! How long one gradient update of every learner takes here, and what share of the machine's arithmetic
//! that is. `cargo xtask bench update` calls it.
//!
//! What is timed is the function that training calls, at default settings, on one thread ([`crate::updates`]). Operations are
//! those of the matrix products, counted where they are done ([`linalg::operations`]); element-wise work (biases, gates,
//! Gaussians, Adam, Polyak) counts as time only.

use std::io::{Write as _, stdout};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use sskp_blocks::nets::linalg;
use sskp_lab::registry::Registry;

use crate::Robot;
use crate::update::peak_gflops;
use crate::updates::{ROWS, Row};

/// Measure the median time of one update of every learner, on one thread
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    robot: Robot,
    /// Measure this update only
    #[arg(long, value_parser = PossibleValuesParser::new(ROWS.iter().map(|row| row.name)))]
    row: Option<String>,
    /// How long to measure each
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Only say which updates there are, with their sizes
    #[arg(long)]
    list: bool,
    /// Print one line of JSON for each
    #[arg(long)]
    json: bool,
}

/// Updates before the clock starts: buffers grow and caches warm up.
const WARM_UPDATES: usize = 10;

impl Args {
    pub fn run(self, registry: &Registry) -> Result<()> {
        let spec = self.robot.make(registry)?.spec().clone();
        let (env, obs, action) = (spec.name.clone(), spec.obs_dim, spec.action_dim);
        let wanted = |row: &&Row| self.row.as_ref().is_none_or(|name| name == row.name);
        for Row { name, methods, build } in ROWS.iter().filter(wanted) {
            let mut update = build(&spec)?;
            let (batch, parameters, methods) = (update.batch, update.parameters, methods.join(" "));
            let mut out = stdout().lock();
            let sizes = format!(
                "\"row\":\"{name}\",\"methods\":\"{methods}\",\"env\":\"{env}\",\"obs\":{obs},\"action\":{action},\
                 \"batch\":{batch},\"parameters\":{parameters}"
            );
            if self.list {
                match self.json {
                    true => writeln!(out, "{{{sizes}}}")?,
                    false => writeln!(out, "{name} ({methods}): batch {batch}, {parameters} parameters")?,
                }
                continue;
            }
            let limit = Duration::from_secs_f64(self.seconds.clamp(0.001, 3600.0));
            let Timed { updates, ms, flops, peak } = time(&mut update.once, limit)?;
            let (mflop, gflops) = (flops / 1e6, flops / ms / 1e6);
            let share = gflops / peak;
            match self.json {
                true => writeln!(
                    out,
                    "{{{sizes},\"updates\":{updates},\"ms_per_update\":{ms:.5},\"mflop_per_update\":{mflop:.3},\
                     \"gflop_per_second\":{gflops:.2},\"peak_gflop_per_second\":{peak:.2},\"share_of_peak\":{share:.4}}}"
                )?,
                false => writeln!(
                    out,
                    "{name} ({methods}): {ms:.3} ms, batch {batch}, {parameters} parameters, {mflop:.0} MFLOP, \
                     {gflops:.1} GFLOP/s, {:.0} % of the {peak:.1} that matrix products of one thread reach here",
                    100.0 * share
                )?,
            }
        }
        Ok(())
    }
}

struct Timed {
    updates: usize,
    /// The median.
    ms: f64,
    flops: f64,
    peak: f64,
}

fn time(once: &mut dyn FnMut() -> sskp_blocks::Result<()>, limit: Duration) -> Result<Timed> {
    // Clocks change while a machine warms up or its neighbours wake: the better of before and after counts.
    let peak_before = peak_gflops();
    for _ in 0..WARM_UPDATES {
        once()?;
    }
    let (operations, begin) = (linalg::operations(), Instant::now());
    let mut times = Vec::new();
    while times.is_empty() || begin.elapsed() < limit {
        let start = Instant::now();
        once()?;
        times.push(start.elapsed().as_secs_f64());
    }
    let updates = times.len();
    let flops = (linalg::operations() - operations) as f64 / updates as f64;
    Ok(Timed { updates, ms: 1e3 * median(times), flops, peak: peak_before.max(peak_gflops()) })
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let n = times.len();
    (times[(n - 1) / 2] + times[n / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_and_the_median_are_of_one_update() {
        let (a, b, mut out) = ([1.0; 6], [1.0; 6], [0.0; 4]);
        let mut calls = 0;
        let mut once = || {
            calls += 1;
            linalg::ab(&mut out, &a, &b, 2, 3, 2);
            Ok(())
        };
        let timed = time(&mut once, Duration::from_millis(10)).unwrap();
        assert_eq!((timed.flops, timed.updates + WARM_UPDATES), (24.0, calls));
        assert!(timed.ms > 0.0 && timed.peak > 0.0);
        // A slow update does not move it.
        assert_eq!((median(vec![2.0, 90.0, 1.0]), median(vec![4.0, 1.0, 2.0, 90.0])), (2.0, 3.0));
    }
}
