//! `cargo xtask test --stress N`: the tests again and again on a machine that is busy otherwise, to find those that depend on its speed.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::build::cargo;

/// Threads that do nothing but keep cores busy. They are this process's own, so that none outlives it.
const BUSY: usize = 4;

/// Builds the tests, then runs all of them `times` times beside the busy threads. Stops at the first failure.
pub fn run(root: &Path, times: u32) -> Result<()> {
    let tests = |more: &[&str]| -> Result<bool> {
        let mut command = cargo(root);
        command.args(["test", "--workspace", "--release"]).args(more);
        Ok(command.status().context("cargo could not be started")?.success())
    };
    ensure!(tests(&["--no-run"])?, "the tests could not be built");
    let mut seconds = Vec::new();
    beside_busy_threads(|| {
        for run in 1..=times {
            println!("\n== run {run} of {times}, beside {BUSY} busy threads");
            let start = Instant::now();
            ensure!(tests(&[])?, "run {run} of {times} failed beside {BUSY} busy threads");
            seconds.push(format!("{:.0} s", start.elapsed().as_secs_f64()));
        }
        Ok(())
    })?;
    println!("\nall {times} runs passed beside {BUSY} busy threads: {}", seconds.join(", "));
    Ok(())
}

/// Does `work` while the threads keep cores busy.
fn beside_busy_threads<T>(work: impl FnOnce() -> T) -> T {
    /// Ends the threads however `work` ends.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..BUSY {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let _over = Over(&over);
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_threads_end_with_the_work_even_if_it_panics() {
        assert_eq!(beside_busy_threads(|| 7), 7);
        assert!(std::panic::catch_unwind(|| beside_busy_threads(|| panic!("the work fails"))).is_err());
    }
}
