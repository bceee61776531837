//! The paper's rivals on the toy, from a demonstrator of middling quality.

#[path = "../../../tests/root.rs"]
mod root;

use sskp_blocks::checkpoint::{self, Loader, Saver};
use sskp_blocks::demos::Demonstrations;
use sskp_blocks::env::{End, Env};
use sskp_blocks::offline::OfflineReport;
use sskp_blocks::record::{EpisodeRow, Memory, Metrics, Recorder};
use sskp_blocks::rng::Rng;
use sskp_blocks::run::{Clock, Run};
use sskp_blocks::toy::{Toy, demonstrations};
use sskp_methods::cpq::{Cpq, CpqConfig};
use sskp_methods::recovery_rl::{RecoveryRl, RecoveryRlConfig};
use sskp_methods::{Method, Setup};

fn quiet(_: &'static str, _: u64, _: u64) -> sskp_blocks::Result<()> {
    Ok(())
}

fn spec() -> sskp_blocks::env::Spec {
    Toy::default().spec().clone()
}

fn setup(algo: &'static str, seed: u64) -> Setup {
    Setup::new(algo, seed, 1)
}

/// Mean return and violations of the trained policy without exploration.
fn evaluate(method: &dyn Method, episodes: usize) -> (f64, usize) {
    let mut actor = method.actor();
    let mut rng = Rng::stream(1, "evaluation");
    let mut toy = Toy::default();
    let (mut total, mut falls, mut state, mut action) = (0.0, 0, [0.0f32; 5], [0.0f32; 2]);
    for _ in 0..episodes {
        toy.reset(&mut rng).unwrap();
        actor.begin();
        loop {
            state.iter_mut().zip(toy.obs()).for_each(|(s, o)| *s = *o as f32);
            actor.act(&state, false, &mut action);
            let step = toy.step(&action).unwrap();
            total += step.reward;
            falls += usize::from(step.end == Some(End::Violation));
            if step.end.is_some() {
                break;
            }
        }
    }
    (total / episodes as f64, falls)
}

struct Outcome {
    report: OfflineReport,
    clock: Clock,
    last: f64,
    metrics: Vec<(Clock, Metrics)>,
    evaluation: (f64, usize),
}

/// The offline stage, then `steps` online.
fn whole_run(method: &mut dyn Method, seed: u64, steps: u64, demos: Option<&Demonstrations>) -> Outcome {
    let report = match demos {
        Some(demos) => method.pretrain(demos, &mut quiet).unwrap(),
        None => OfflineReport::default(),
    };
    let mut memory = Memory::default();
    let mut run = Run::new(Box::<Toy>::default(), seed, steps, &mut memory);
    method.train(&mut run).unwrap();
    let clock = run.clock();
    let last = memory.episodes.iter().rev().take(20).map(|r| r.total_reward).sum::<f64>() / 20.0;
    Outcome { report, clock, last, metrics: memory.metrics, evaluation: evaluate(method, 20) }
}

/// Small and quick: seconds.
fn recovery_config() -> RecoveryRlConfig {
    let mut config = RecoveryRlConfig { batch: 64, random_steps: 200, log_every: 1000, ..RecoveryRlConfig::default() };
    config.learner.width = 64;
    config.learner.rate = 1e-3;
    config.risk.width = 64;
    config.risk.rate = 1e-3;
    config.risk.tau = 5e-3;
    config.risk.offline_updates = 3000;
    config.recovery.width = 64;
    config.recovery.rate = 1e-3;
    config
}

/// Stops the run after so many steps and writes its checkpoint, as the run directory would.
struct StopAt<'a> {
    steps: u64,
    folder: &'a std::path::Path,
    now: u64,
    episodes: Vec<EpisodeRow>,
}

impl Recorder for StopAt<'_> {
    fn episode(&mut self, row: &EpisodeRow) -> sskp_blocks::Result<()> {
        self.episodes.push(row.clone());
        Ok(())
    }
    fn metrics(&mut self, _: Clock, _: &Metrics) -> sskp_blocks::Result<()> {
        Ok(())
    }
    fn checkpoint(&mut self, at: Clock, state: &mut Saver, _: bool) -> sskp_blocks::Result<()> {
        checkpoint::write(self.folder, "test", at.steps, state, 9).map(|_| ())
    }
    fn stop_requested(&self) -> bool {
        self.now == self.steps
    }
    fn step(&mut self, at: Clock) {
        self.now = at.steps;
    }
}

/// Trains to `steps`, from the checkpoint in `folder` if one is there, and leaves a checkpoint.
fn part(method: &mut dyn Method, folder: &std::path::Path, steps: u64) -> Vec<EpisodeRow> {
    let from = checkpoint::newest(folder, None, |e| panic!("{e}")).unwrap();
    let mut recorder = StopAt { steps, folder, now: 0, episodes: Vec::new() };
    let mut run = Run::new(Box::<Toy>::default(), 3, 100_000, &mut recorder);
    if let Some(from) = from {
        run.load(&from).unwrap();
        method.load(&from).unwrap();
    }
    method.train(&mut run).unwrap();
    assert_eq!(run.clock().steps, steps);
    recorder.episodes
}

fn files(folder: &std::path::Path, steps: u64) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder.join(format!("step-{steps:012}")))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

/// The same seed gives the same bytes, another does not, and a run that was stopped twice, once within an episode and once
/// between two updates, ends in the bytes of one that was not.
fn repeats_and_resumes(build: impl Fn(u64) -> Box<dyn Method>) {
    let demos = demonstrations(12);
    let dir = tempfile::tempdir().unwrap();
    let fresh = |seed: u64| {
        let mut method = build(seed);
        method.pretrain(&demos, &mut quiet).unwrap();
        method
    };
    let whole = |name: &str, seed: u64| {
        let folder = dir.path().join(name);
        let episodes = part(&mut *fresh(seed), &folder, 900);
        (episodes, files(&folder, 900))
    };
    let (a, b, c) = (whole("a", 1), whole("b", 1), whole("c", 2));
    assert!(a == b, "the same seed gives the same bytes");
    assert!(a.1 != c.1, "another seed does not");

    let folder = dir.path().join("broken");
    let mut episodes = part(&mut *fresh(1), &folder, 437);
    episodes.extend(part(&mut *build(1), &folder, 661));
    episodes.extend(part(&mut *build(1), &folder, 900));
    assert_eq!(episodes, a.0);
    for ((name, left), (_, right)) in files(&folder, 900).iter().zip(&a.1) {
        assert!(left == right, "{name} differs after resuming");
    }

    // The policy alone, out of the checkpoint, acts as the learner's does.
    let mut copy = build(7);
    copy.load_policy(&Loader::open(&folder.join("step-000000000900"), None).unwrap()).unwrap();
    let mut again = build(1);
    again.load(&Loader::open(&folder.join("step-000000000900"), None).unwrap()).unwrap();
    let state = [0.3, -0.1, 1.0, 0.6, 0.8];
    let act = |method: &dyn Method, state: &[f32]| {
        let mut action = [0.0; 2];
        method.actor().act(state, false, &mut action);
        action
    };
    assert_eq!(act(&*copy, &state), act(&*again, &state));
    assert_ne!(act(&*copy, &state), act(&*build(7), &state));
}

fn refuses_other_robots(method: &mut dyn Method) {
    let other = Demonstrations::new("hopper", 11, 3);
    assert!(method.accepts(&other).unwrap_err().to_string().contains("hopper (11 observations, 3 actions)"));
    assert!(method.pretrain(&other, &mut quiet).is_err());
}

/// A file of `configs` laid over a method's defaults for the toy.
fn with_file<T: serde::de::DeserializeOwned>(algo: &str, file: &str, defaults: &str) -> T {
    fn lay(over: &toml::Table, base: &mut toml::Table) {
        for (key, value) in over {
            let old = base.get_mut(key).unwrap_or_else(|| panic!("there is no setting called {key}"));
            match (old, value) {
                (toml::Value::Table(old), toml::Value::Table(new)) => lay(new, old),
                (old, new) => *old = new.clone(),
            }
        }
    }
    let path = root::repository().join("configs").join(file);
    let file: toml::Table = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut table: toml::Table = toml::from_str(defaults).unwrap();
    lay(file[algo].as_table().unwrap(), &mut table);
    table.try_into().unwrap()
}

/// The tuned variant with the threshold that Ant has in `configs/paper.toml`: most robots are too clumsy at first for one so low, the toy is not.
fn recovery_tuned() -> RecoveryRlConfig {
    let mut config: RecoveryRlConfig =
        with_file("recovery-rl", "recovery-rl-tuned.toml", &toml::to_string(&recovery_config()).unwrap());
    config.risk.threshold = 0.3;
    config
}

/// On four seeds it falls 6 to 12 times in 8000 steps, earns 40 to 50 at their end and 53 to 54 when evaluated; without its switch it falls 35 to 56
/// times (three seeds).
#[test]
fn recovery_rl_walks_the_bridge_with_far_fewer_falls_than_without_its_switch() {
    let demos = demonstrations(60);
    let tuned = recovery_tuned();
    let run = |threshold: f64, seed: u64| {
        let mut config = tuned.clone();
        config.risk.threshold = threshold;
        let mut method = RecoveryRl::new(&spec(), config, setup("recovery-rl", seed)).unwrap();
        whole_run(&mut method, seed, 8000, Some(&demos))
    };
    let guarded = run(tuned.risk.threshold, 1);
    let (mean, falls) = guarded.evaluation;
    let risk_auc = guarded.report.held_out.auc.unwrap();
    println!(
        "violations {} last {:.1} evaluated {mean:.1} {falls} auc {risk_auc:.3}",
        guarded.clock.violations, guarded.last
    );
    assert!(risk_auc > 0.9, "{:?}", guarded.report);
    assert!(guarded.clock.violations <= 8, "{} violations", guarded.clock.violations);
    assert!(guarded.last > 30.0, "the last 20 episodes earn {}", guarded.last);
    assert!(mean > 36.0 && falls <= 1, "evaluated: {mean}, {falls} of 20 fall");
    let shares = guarded.metrics.iter().map(|(_, m)| m.get("Recovery/share").unwrap());
    assert!(shares.fold(0.0, f64::max) > 0.01, "the recovery policy acts now and then");
    let unguarded = run(1.0, 1).clock.violations;
    assert!(unguarded > 15 && unguarded >= 2 * guarded.clock.violations, "{unguarded} violations without the switch");
}

#[test]
fn every_row_has_every_column_from_the_first_on() {
    let demos = demonstrations(12);
    let columns = |method: &mut dyn Method| {
        let rows = whole_run(method, 0, 700, Some(&demos)).metrics;
        assert!(rows.len() >= 5, "{} rows", rows.len());
        let names = |m: &Metrics| m.0.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        assert!(rows.iter().all(|(_, m)| names(m) == names(&rows[0].1)));
        names(&rows[0].1)
    };
    // One update every ten steps, which fall between the rows.
    let mut config = recovery_config();
    (config.updates_per_step, config.log_every, config.random_steps, config.risk.offline_updates) = (0.1, 100, 105, 10);
    let names = columns(&mut RecoveryRl::new(&spec(), config, setup("recovery-rl", 0)).unwrap());
    for name in ["Loss/Loss_reward_critic", "Loss/Loss_risk_critic", "Loss/Loss_recovery", "Recovery/share"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let config = CpqConfig { updates_per_step: 0.11, log_every: 100, offline_updates: 10, ..cpq_config() };
    let names = columns(&mut Cpq::new(&spec(), config, setup("cpq", 0)).unwrap());
    assert!(names.contains(&"Loss/Loss_cost_critic") && names.contains(&"Value/gate_open"), "{names:?}");
}

#[test]
fn recovery_rl_repeats_and_resumes() {
    repeats_and_resumes(|seed| {
        let mut config = recovery_config();
        config.risk.offline_updates = 50;
        config.updates_per_step = 0.3;
        Box::new(RecoveryRl::new(&spec(), config, setup("recovery-rl", seed)).unwrap())
    });
}

#[test]
fn recovery_rl_refuses_demonstrations_it_cannot_learn_from() {
    let mut method = RecoveryRl::new(&spec(), recovery_config(), setup("recovery-rl", 0)).unwrap();
    refuses_other_robots(&mut method);
    let mut safe = Demonstrations::new("toy", 5, 2);
    for trajectory in demonstrations(6).trajectories().iter().filter(|t| !t.violates()) {
        safe.push(trajectory.clone()).unwrap();
    }
    assert!(method.accepts(&safe).unwrap_err().to_string().contains("no violation"));
}

/// Small and quick: seconds.
fn cpq_config() -> CpqConfig {
    let mut config = CpqConfig {
        batch: 64,
        log_every: 1000,
        width: 64,
        actor_rate: 1e-3,
        offline_updates: 5000,
        ..CpqConfig::default()
    };
    config.vae.width = 64;
    config.cost.alpha_rate = 1e-3;
    config
}

/// The offline stage and 8000 steps: violations of the steps, and the policy after both stages, evaluated.
fn cpq_run(config: CpqConfig, seed: u64) -> ((f64, usize), Outcome) {
    let mut method = Cpq::new(&spec(), config, setup("cpq", seed)).unwrap();
    let report = method.pretrain(&demonstrations(60), &mut quiet).unwrap();
    let offline = evaluate(&method, 20);
    let mut outcome = whole_run(&mut method, seed, 8000, None);
    outcome.report = report;
    let (mean, falls) = outcome.evaluation;
    let (violations, last, auc) = (outcome.clock.violations, outcome.last, outcome.report.held_out.auc);
    println!(
        "seed {seed}: offline {offline:?} violations {violations} last {last:.1} eval {mean:.1} {falls} auc {auc:?}"
    );
    (offline, outcome)
}

/// `SEEDS=4 cargo test --release -p sskp-methods --test rivals_toy seeds -- --ignored --nocapture`: what the thresholds below rest on.
#[test]
#[ignore = "prints; minutes"]
fn seeds() {
    let demos = demonstrations(60);
    for seed in 0..std::env::var("SEEDS").map_or(4, |s| s.parse().unwrap()) {
        let mut method = RecoveryRl::new(&spec(), recovery_tuned(), setup("recovery-rl", seed)).unwrap();
        let o = whole_run(&mut method, seed, 8000, Some(&demos));
        println!(
            "recovery-rl, tuned, seed {seed}: violations {} last {:.1} eval {:?} auc {:?}",
            o.clock.violations, o.last, o.evaluation, o.report.held_out.auc
        );
        cpq_run(cpq_tuned(), seed);
        print!("as OSRL, ");
        cpq_run(cpq_as_osrl(), seed);
    }
}

fn cpq_tuned() -> CpqConfig {
    let mut config: CpqConfig = with_file("cpq", "cpq-tuned.toml", &toml::to_string(&cpq_config()).unwrap());
    // An episode of the toy is short: with the limit of the robots l would be 1.3, above all that Q_c can be.
    config.cost.limit = 1.0;
    config
}

fn cpq_as_osrl() -> CpqConfig {
    let config = with_file("cpq", "cpq-as-osrl.toml", &toml::to_string(&cpq_config()).unwrap());
    CpqConfig { batch: 64, ..config }
}
/// On four seeds: 0 to 17 violations, returns of 21 to 51 and no fall among 20 episodes after 8000 steps, AUC 0.80 to 0.91. The demonstrator earns 28
/// where it does not fall.
#[test]
fn cpq_stays_on_the_bridge_and_moves() {
    let (_, outcome) = cpq_run(cpq_tuned(), 0);
    let (mean, falls) = outcome.evaluation;
    assert!(outcome.clock.violations <= 20, "{} violations", outcome.clock.violations);
    assert!(mean > 18.0 && falls <= 1, "evaluated: {mean}, {falls} of 20 fall");
    let report = &outcome.report;
    let ood_auc = report.figure("autoencoder", "auc").unwrap();
    assert!(report.held_out.auc.unwrap() > 0.75 && ood_auc > 0.8, "{report:?}");
    let value = |name: &str| report.figure("updates", name).unwrap();
    assert!((0.05..0.95).contains(&value("Value/gate_open")), "a gate now open and now shut: {report:?}");
    assert!((0.001..0.1).contains(&value("Value/ood_share")) && value("Value/alpha") > 0.0, "{report:?}");
    // Online there is no push.
    assert_eq!(outcome.metrics.last().unwrap().1.get("Value/ood_share"), Some(0.0));
}

#[test]
fn the_file_of_the_public_behaviour_undoes_every_correction() {
    let CpqConfig { cost, vae, .. } = cpq_as_osrl();
    assert!(!cost.ends && !cost.greatest && !cost.descend && !cost.ood_gradient);
    assert!(cost.ood_online && !cost.ood_by_data);
    assert_eq!((cost.ood_quantile, vae.beta), (0.75, 0.5));
    let ours = CpqConfig::default().cost;
    assert!(ours.ends && ours.greatest && ours.descend && ours.ood_gradient && ours.ood_by_data);
}

#[test]
fn cpq_repeats_and_resumes() {
    repeats_and_resumes(|seed| {
        let mut config = cpq_config();
        config.offline_updates = 50;
        config.updates_per_step = 0.3;
        Box::new(Cpq::new(&spec(), config, setup("cpq", seed)).unwrap())
    });
}

#[test]
fn cpq_refuses_demonstrations_it_cannot_learn_from() {
    let mut method = Cpq::new(&spec(), cpq_config(), setup("cpq", 0)).unwrap();
    refuses_other_robots(&mut method);
    let mut safe = Demonstrations::new("toy", 5, 2);
    for trajectory in demonstrations(6).trajectories().iter().filter(|t| !t.violates()) {
        safe.push(trajectory.clone()).unwrap();
    }
    assert!(method.accepts(&safe).unwrap_err().to_string().contains("no violation"));
    let mut unpaid = Demonstrations::new("toy", 5, 2);
    for mut trajectory in demonstrations(6).trajectories().iter().cloned() {
        trajectory.rewards.fill(0.0);
        unpaid.push(trajectory).unwrap();
    }
    assert!(method.accepts(&unpaid).unwrap_err().to_string().contains("no reward"));
}
