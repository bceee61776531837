//! Reports of hundreds of runs, while some of them go on.

#[path = "common/program.rs"]
mod program;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sskp_blocks::rng::Rng;
use sskp_lab::config::{Config, Overrides, RunConfig};
use sskp_lab::registry::Registry;

const STEPS: u64 = 1_000_000;

/// Rows of a run with so many steps, in episodes of 30 to 250.
fn rows(rng: &mut Rng, steps: u64) -> String {
    let mut text = format!("{}\n", sskp_lab::episodes::COLUMNS);
    let (mut at, mut episode, mut violations) = (0, 0, 0);
    while at < steps {
        let length = (30 + rng.below(220) as u64).min(steps - at);
        (at, episode) = (at + length, episode + 1);
        let violation = u64::from(at < steps);
        violations += violation;
        let total = length as f64 * 2.0 / 3.0 + rng.below(1000) as f64 / 7.0;
        writeln!(text, "{episode},{at},{length},{total},{violation},{violations}").unwrap();
    }
    text
}

fn make(folder: &Path) -> Vec<PathBuf> {
    let registry = Registry::standard();
    let mut rng = Rng::stream(0, "many runs");
    let mut runs = Vec::new();
    for robot in ["ant", "cheetah", "hopper", "humanoid"] {
        for method in ["sskp", "sskp-np", "sskp-wo-rp", "sskp-plus", "sac", "ssac", "smbpo", "recovery-rl", "cpq"] {
            for seed in 0..10 {
                let run = RunConfig::new(method, robot, seed, STEPS);
                let config = Config::resolve(&registry, run, &Overrides::default()).unwrap();
                let folder = folder.join(format!("{robot}/{method}/seed-{seed}"));
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("config.toml"), config.to_toml()).unwrap();
                // One run is not done.
                let steps = if runs.is_empty() { STEPS / 2 } else { STEPS };
                fs::write(folder.join("episodes.csv"), rows(&mut rng, steps)).unwrap();
                runs.push(folder);
            }
        }
    }
    runs
}

/// Seconds of CPU and bytes of memory that a process has used.
fn used(id: u32) -> Option<(f64, f64)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let fields: Vec<&str> = stat[stat.rfind(')')?..].split_whitespace().collect();
    let ticks = fields.get(12)?.parse::<f64>().ok()? + fields.get(13)?.parse::<f64>().ok()?;
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    // A tick is a hundredth of a second on every Linux in use.
    Some((ticks / 100.0, peak.trim().trim_end_matches(" kB").parse::<f64>().ok()? * 1024.0))
}

#[test]
fn a_report_of_360_runs_of_a_million_steps_takes_less_than_20_s_and_1_gb_while_runs_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("runs");
    let runs = make(&folder);
    let cells: String = (0..11).map(|seed| format!("sac on ant, seed {seed}\tant/sac/seed-{seed}\n")).collect();
    fs::write(folder.join("cells.txt"), cells).unwrap();
    let over = AtomicBool::new(false);
    let (cpu, peak, output) = std::thread::scope(|scope| {
        scope.spawn(|| {
            // What runs do to their folders: checkpoints come and go.
            for run in runs.iter().cycle() {
                let checkpoint = run.join("checkpoints/step-000000001000");
                fs::create_dir_all(&checkpoint).unwrap();
                fs::write(checkpoint.join("policy.safetensors"), "x").unwrap();
                fs::remove_dir_all(run.join("checkpoints")).unwrap();
                std::thread::sleep(Duration::from_millis(1));
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let mut command = Command::new(program::program());
        command.arg("report").arg(&folder).arg("--out").arg(dir.path().join("report.html"));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (start, mut most) = (Instant::now(), (0.0, 0.0));
        while child.try_wait().unwrap().is_none() {
            most = used(child.id()).unwrap_or(most);
            assert!(start.elapsed() < Duration::from_secs(600));
            std::thread::sleep(Duration::from_millis(5));
        }
        over.store(true, Ordering::Relaxed);
        (most.0, most.1, child.wait_with_output().unwrap())
    });
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    // Of the processor: what others do on this machine is not the report's.
    println!("{} runs: {cpu} s of CPU, {:.0} MB", runs.len(), peak / 1e6);
    assert!(cpu > 0.0 && cpu < 20.0, "{cpu} s");
    assert!(peak > 1e7 && peak < 1e9, "{peak} bytes");
    assert!(text.contains("sskp on ant, seed 0, is not finished: 500000 of 1000000 steps"), "{text}");
    assert!(text.contains("1 run of the grid has no rows yet: sac on ant, seed 10"), "{text}");
}
