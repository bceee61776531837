//! What must hold for every robot and every method together. The tests read the registries, so that the robot and the
//! method of tomorrow are covered too.

#[path = "common/whole.rs"]
mod whole;

use sskp_blocks::env::{End, Env, Spec, Step};
use sskp_blocks::registry::{EnvEntry, EnvOptions};
use sskp_blocks::rng::Rng;
use sskp_lab::config::{Config, Overrides, RunConfig};
use sskp_lab::evaluate;
use sskp_lab::registry::Registry;
use sskp_lab::train::{self, Session, Stop};
use sskp_methods::METHODS;
use sskp_robots::robots;
use whole::{assert_same, bytes, go, session, small};

#[test]
fn every_robot_keeps_its_contract() {
    for robot in &robots() {
        let mut env = robot.make(EnvOptions::default()).unwrap();
        let spec = env.spec().clone();
        assert_eq!(spec.name, robot.name);
        assert_eq!(spec.obs_dim, robot.contract.observation.len(), "{}: observation table", robot.name);
        assert_eq!(spec.action_dim, robot.contract.action.len(), "{}: action table", robot.name);
        let mut rng = Rng::stream(0, "contract");
        let mut action = vec![0.0; spec.action_dim];
        let (mut violations, mut truncations) = (0, 0);
        for episode in 0..20 {
            env.reset(&mut rng).unwrap();
            assert!(!env.constraint().unwrap().violates(env.obs()), "{} must not start in a violation", robot.name);
            for t in 1.. {
                // Some episodes play random actions, some none at all.
                if episode % 4 != 0 {
                    rng.fill_action(&mut action);
                } else {
                    action.fill(0.0);
                }
                let step = env.step(&action).unwrap();
                assert_eq!(env.obs().len(), spec.obs_dim);
                assert!(step.reward.is_finite());
                let violated = step.end == Some(End::Violation);
                assert_eq!(step.cost(), f64::from(u8::from(violated)), "{}: cost is 1 at a violation", robot.name);
                assert_eq!(
                    violated,
                    env.constraint().unwrap().violates(env.obs()) || step.anomaly.is_some(),
                    "{}",
                    robot.name
                );
                if step.end.is_some() {
                    violations += u32::from(violated);
                    truncations += u32::from(!violated);
                    assert!(violated || t == spec.time_limit.unwrap());
                    break;
                }
                assert!(t < spec.time_limit.unwrap(), "{} must end by its limit", robot.name);
            }
        }
        assert!(violations > 0, "{} can be violated", robot.name);
        let stands = ["ant", "cheetah", "toy"].contains(&robot.name.as_str());
        assert_eq!(truncations > 0, stands, "{}: zero actions survive on robots that stand by themselves", robot.name);
    }
}

#[test]
fn a_saved_state_continues_bit_for_bit() {
    for robot in &robots() {
        let mut env = robot.make(EnvOptions::default()).unwrap();
        let mut other = robot.make(EnvOptions::default()).unwrap();
        let mut rng = Rng::stream(3, "save");
        env.reset(&mut rng).unwrap();
        let mut action = vec![0.0; env.spec().action_dim];
        for _ in 0..15 {
            rng.fill_action(&mut action);
            env.step(&action).unwrap();
        }
        other.snapshot().unwrap().restore(&env.snapshot().unwrap().save()).unwrap();
        for t in 0..200 {
            assert_eq!(env.obs(), other.obs(), "{} at {t}", robot.name);
            rng.fill_action(&mut action);
            let (a, b) = (env.step(&action).unwrap(), other.step(&action).unwrap());
            assert_eq!((a.reward.to_bits(), a.end), (b.reward.to_bits(), b.end), "{} at {t}", robot.name);
        }
        assert!(
            env.snapshot().unwrap().restore(&[0.0; 3]).is_err(),
            "{}: a state of the wrong length is refused",
            robot.name
        );
    }
}

#[test]
fn looking_at_a_robot_does_not_disturb_it() {
    for robot in &robots() {
        let play = |look: bool| {
            let mut env = robot.make(EnvOptions::default()).unwrap();
            let mut rng = Rng::stream(4, "look");
            env.reset(&mut rng).unwrap();
            let mut action = vec![0.0; env.spec().action_dim];
            let mut poses = Vec::new();
            let mut total = 0.0;
            for _ in 0..50 {
                rng.fill_action(&mut action);
                total += env.step(&action).unwrap().reward;
                if look {
                    env.scene().unwrap().poses(&mut poses);
                    assert_eq!(poses.len(), env.scene().unwrap().geoms().len());
                }
            }
            (total.to_bits(), env.obs().to_vec())
        };
        assert_eq!(play(true), play(false), "{}", robot.name);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_does_not() {
    let dir = tempfile::tempdir().unwrap();
    for method in METHODS {
        let path = |name: &str| dir.path().join(format!("{}-{name}", method.name));
        go(&small(method.name, "toy", 600, 1), &path("a"));
        go(&small(method.name, "toy", 600, 1), &path("b"));
        go(&small(method.name, "toy", 600, 2), &path("c"));
        assert_same(&path("a"), &path("b"), method.name);
        assert_ne!(bytes(&path("a")), bytes(&path("c")), "{}", method.name);
    }
}

#[test]
fn mean_actions_of_every_method_are_the_same_every_time() {
    let registry = Registry::standard();
    for method in METHODS {
        let dir = tempfile::tempdir().unwrap();
        go(&small(method.name, "toy", 300, 0), dir.path());
        let mut trained = evaluate::load_policy(&registry, dir.path(), |e| panic!("{e}")).unwrap();
        let mut play = |explore: bool| evaluate::evaluate(&mut trained, 3, 7, explore, |_, _, _| ()).unwrap();
        let first = play(false);
        assert_eq!(first, play(false), "{}: asked twice", method.name);
        assert_ne!(first, play(true), "{}: exploring is something else", method.name);
        assert_eq!(first, play(false), "{}: whatever was played meanwhile", method.name);
        // Another process that loads the same checkpoint plays the same.
        let mut again = evaluate::load_policy(&registry, dir.path(), |e| panic!("{e}")).unwrap();
        let rows = evaluate::evaluate(&mut again, 3, 7, false, |_, _, _| ()).unwrap();
        assert_eq!(first, rows, "{}: loaded again", method.name);
    }
}

/// Settings with which a method learns the toy in seconds, and what its policy must then reach: mean return of 20 episodes
/// (the best controller we know earns about 54, a random one about 5) and violations among them. Methods with demonstrations
/// begin with [`small::demos`], whose calm episodes earn about 28.
fn toy_task(algo: &str) -> (Vec<String>, u64, f64, usize) {
    let table = Registry::standard().method(algo).unwrap().table;
    let set = |keys: &[&str]| keys.iter().map(|k| format!("{table}.{k}")).collect::<Vec<String>>();
    let with_demos = |mut sets: Vec<String>| {
        sets.push(format!("run.demos={}", small::demos("toy").display()));
        sets
    };
    match algo {
        "sac" | "ssac" => {
            let mut keys = vec!["random_steps=1000", "learner.width=64", "batch=64", "learner.rate=1e-3"];
            if algo == "ssac" {
                // SMBPO's formula makes falling so dear that one seed in four stands still for good.
                keys.push("violation.cost=0.1");
            }
            (set(&keys), 12_000, 38.0, 1)
        }
        "smbpo" => {
            let policy = ["updates_per_step=1.0", "batch=64", "learner.width=64", "learner.rate=1e-3"];
            let model = ["batch=64", "ensemble.width=48", "first_updates=1000", "refit_updates=50"];
            let mut keys = policy.map(String::from).to_vec();
            keys.extend(model.map(|k| format!("model.{k}")));
            keys.extend(["random_steps=1000".into(), "imagination.rollouts=50".into()]);
            // Eight seeds earn 45 to 52 and do not fall.
            (set(&keys.iter().map(String::as_str).collect::<Vec<_>>()), 8000, 38.0, 1)
        }
        "recovery-rl" => {
            let mut keys = vec!["batch=64", "random_steps=200", "learner.width=64", "learner.rate=1e-3"];
            keys.extend(["learner.auto_alpha=true", "learner.alpha=1.0", "risk.width=64", "risk.rate=1e-3"]);
            keys.extend(["risk.tau=5e-3", "risk.gamma=0.9", "risk.threshold=0.3", "risk.offline_updates=3000"]);
            keys.extend(["recovery.width=64", "recovery.rate=1e-3"]);
            // Four seeds earned 43 to 55.
            (with_demos(set(&keys)), 8000, 36.0, 1)
        }
        "cpq" => {
            let mut keys = vec!["batch=64", "width=64", "actor_rate=1e-3", "vae.width=64", "offline_updates=5000"];
            keys.extend(["cost.alpha_rate=1e-3", "cost.ood_actions=4"]);
            // Four seeds earned 21 to 51 and did not fall. With ten sampled actions one of them stands still, and does not fall either.
            (with_demos(set(&keys)), 8000, 18.0, 1)
        }
        "sskp" | "sskp-np" | "sskp-wo-rp" | "spirl" | "sskp-plus" | "sskp-plus-wo-rp" => {
            let mut keys = vec!["skill.hidden=32", "skill.prior_width=32", "skill.prior_layers=2", "skill.steps=2000"];
            keys.extend(["skill.batch=64", "risk.width=64", "risk.steps=1500", "risk.batch=128"]);
            keys.extend(["planner.samples=128", "planner.elites=16", "policy.learner.width=64", "policy.batch=64"]);
            keys.extend(["policy.learner.rate=1e-3", "policy.warm_up=64", "policy.updates_per_skill=4"]);
            // The toy earns a tenth of what a robot does per step.
            keys.push("policy.reward_scale=1.0");
            if algo.starts_with("sskp-plus") {
                // The skill policy learns, too, which is not the default: 38 seeds each, 53.1 to 54 at the end without a fall, and with the prior
                // 54 but for two seeds that fell in up to three of 20 episodes.
                keys.extend(["adapt.width=64", "adapt.batch=64", "adapt.offline_updates=2000", "adapt.rate=1e-3"]);
                keys.extend(["adapt.warm_up_steps=500", "adapt.decoder_rate=1e-3", "adapt.patience=500.0"]);
                keys.extend(["adapt.allowed=1e-3", "adapt.follow=1e-3"]);
            }
            let sets = with_demos(set(&keys));
            match algo {
                "sskp-plus" | "sskp-plus-wo-rp" => (sets, 12_000, 40.0, 1),
                // Five seeds each earned 35.3 to 37.3, 34.3 to 36.0 and 33.1 to 34.8, and never fell.
                "sskp" => (sets, 12_000, 33.0, 1),
                "sskp-np" => (sets, 12_000, 32.0, 1),
                _ => (sets, 12_000, 31.0, 1),
            }
        }
        _ => panic!("{algo} needs a line here: every method of the registry must learn the toy"),
    }
}

#[test]
fn every_method_learns_the_toy() {
    let dir = tempfile::tempdir().unwrap();
    for method in METHODS {
        let (sets, steps, threshold, falls) = toy_task(method.name);
        let mut overrides = Overrides::default();
        for set in &sets {
            overrides.set(set).unwrap();
        }
        let config =
            Config::resolve(&Registry::standard(), RunConfig::new(method.name, "toy", 0, steps), &overrides).unwrap();
        let path = dir.path().join(method.name);
        go(&config, &path);
        let mut trained = evaluate::load_policy(&Registry::standard(), &path, |e| panic!("{e}")).unwrap();
        let rows = evaluate::evaluate(&mut trained, 20, 1, false, |_, _, _| ()).unwrap();
        let mean = rows.iter().map(|r| r.total_reward).sum::<f64>() / rows.len() as f64;
        let fallen = rows.iter().filter(|r| r.violation).count();
        assert!(mean >= threshold, "{}: return {mean} after {steps} steps, {threshold} needed", method.name);
        assert!(fallen <= falls, "{}: {fallen} violations in 20 episodes", method.name);
    }
}

/// Violations of a run on the toy, and the mean return of 20 episodes of its trained policy.
fn learnt(algo: &str, seed: u64) -> (u64, f64) {
    let (sets, steps, ..) = toy_task(algo);
    let mut overrides = Overrides::default();
    sets.iter().for_each(|set| overrides.set(set).unwrap());
    let run = RunConfig::new(algo, "toy", seed, steps);
    let config = Config::resolve(&Registry::standard(), run, &overrides).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let summary = go(&config, &dir.path().join("run"));
    let mut trained = evaluate::load_policy(&Registry::standard(), &dir.path().join("run"), |e| panic!("{e}")).unwrap();
    let rows = evaluate::evaluate(&mut trained, 20, 1, false, |_, _, _| ()).unwrap();
    (summary.violations, rows.iter().map(|r| r.total_reward).sum::<f64>() / rows.len() as f64)
}

#[test]
fn skills_that_keep_learning_leave_the_demonstrations_behind_and_violate_no_more_than_frozen_ones() {
    let demos = sskp_blocks::toy::demonstrations(60);
    let whole = demos.trajectories().iter().filter(|t| t.end != sskp_blocks::demos::Ending::Violation);
    let returns: Vec<f64> = whole.map(|t| t.total_reward()).collect();
    let demonstrator = returns.iter().sum::<f64>() / returns.len() as f64;
    let mut violations = [0, 0];
    for seed in 0..2 {
        let ((of_plus, plus), (of_spirl, spirl)) = (learnt("sskp-plus", seed), learnt("spirl", seed));
        assert!(plus > 1.7 * demonstrator && plus > 1.4 * spirl, "{plus}, SPiRL {spirl}, demonstrator {demonstrator}");
        violations = [violations[0] + of_plus, violations[1] + of_spirl];
    }
    // A violation more or less in 24 000 steps is chance.
    assert!(violations[0] <= violations[1] + 2, "{violations:?}");
}

/// SSkP on the toy with these settings on top of its own: predicted and actual risk of all its skills, and λ at every row of `progress.csv`.
fn foreseen(more: &[&str], seed: u64) -> (f64, f64, Vec<f64>) {
    let dir = tempfile::tempdir().unwrap();
    let mut overrides = Overrides::default();
    let (sets, steps, ..) = toy_task("sskp");
    sets.iter().map(String::as_str).chain(["sskp.log_every=2000"]).chain(more.iter().copied()).for_each(|set| {
        overrides.set(set).unwrap();
    });
    let run = RunConfig::new("sskp", "toy", seed, steps);
    let config = Config::resolve(&Registry::standard(), run, &overrides).unwrap();
    let all = go(&config, &dir.path().join("run")).calibration.unwrap().total();
    let text = std::fs::read_to_string(dir.path().join("run/progress.csv")).unwrap();
    let column = text.lines().next().unwrap().split(',').position(|name| name == "Risk/class_prior").unwrap();
    let class_priors = text.lines().skip(1).map(|row| row.split(',').nth(column).unwrap().parse().unwrap());
    (all.predicted(), all.actual(), class_priors.collect())
}

#[test]
fn risk_revised_online_is_true_in_the_large_and_one_from_demonstrations_alone_is_not() {
    // Skills that do not see the state fall, and a placebo does not choose where the prediction errs.
    let blind = ["sskp.skill.decoder=open-loop", "sskp.planner.placebo=true"];
    for (seed, relabel) in [(0, 1), (1, 1), (2, 0)] {
        let labels = format!("sskp.risk.relabel={relabel}");
        let ratio = |window: &str| {
            let (predicted, actual, class_priors) = foreseen(&[&blind[..], &[&labels, window]].concat(), seed);
            assert!(actual > 0.005, "too few fell to tell: {actual}");
            (predicted / actual, class_priors)
        };
        // The first skills of the run are predicted with the demonstrations' λ, and count too.
        let (revised, class_priors) = ratio("sskp.risk.revise_over=10000.0");
        assert!((0.5..4.0).contains(&revised), "seed {seed}: {revised} times too large");
        assert!(class_priors.windows(2).all(|w| w[0] != w[1]), "{class_priors:?}");
        let (fixed, class_priors) = ratio("sskp.risk.revise_over=0.0");
        assert!(fixed > 2.5 * revised, "seed {seed}: {fixed} times too large, and revised {revised}");
        assert!(class_priors.iter().all(|prior| *prior == class_priors[0]), "{class_priors:?}");
        println!("seed {seed}: {fixed:.2} {revised:.2}");
    }
    // One that was given is nobody's to revise.
    let (_, _, class_priors) = foreseen(&[&blind[..], &["sskp.risk.class_prior=0.04"]].concat(), 0);
    assert!(class_priors.iter().all(|prior| *prior == 0.04), "{class_priors:?}");
}

/// A bead that is done when it reaches 0.5, and falls off beyond -0.5.
struct Bead {
    spec: Spec,
    x: [f64; 1],
    steps: usize,
}

impl Env for Bead {
    fn spec(&self) -> &Spec {
        &self.spec
    }
    fn reset(&mut self, rng: &mut Rng) -> sskp_blocks::Result<()> {
        (self.x, self.steps) = ([rng.uniform(-0.4, 0.4)], 0);
        Ok(())
    }
    fn step(&mut self, _: &[f32]) -> sskp_blocks::Result<Step> {
        // It rolls to the side on which it starts; from the middle it does not move.
        let side = if self.x[0].abs() < 0.1 { 0.0 } else { self.x[0].signum() };
        self.x[0] += 0.1 * side;
        self.steps += 1;
        let end = match self.x[0] {
            x if x >= 0.5 => Some(End::Terminated),
            x if x <= -0.5 => Some(End::Violation),
            _ => (self.steps >= 20).then_some(End::Truncated),
        };
        Ok(Step::new(self.x[0], end))
    }
    fn obs(&self) -> &[f64] {
        &self.x
    }
}

#[test]
fn an_episode_that_ended_by_itself_is_no_time_limit_and_no_violation() {
    let mut registry = Registry::standard();
    let spec = Spec { name: "bead".into(), obs_dim: 1, action_dim: 1, time_limit: Some(20), dt: 0.1 };
    let bead = move |_| Ok(Box::new(Bead { spec: spec.clone(), x: [0.0], steps: 0 }) as Box<dyn Env>);
    registry.add_env(EnvEntry::new("bead", bead)).unwrap();
    let mut overrides = Overrides::default();
    for set in ["sac.learner.width=8", "sac.random_steps=100"] {
        overrides.set(set).unwrap();
    }
    let config = Config::resolve(&registry, RunConfig::new("sac", "bead", 0, 100), &overrides).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    train::train(&config, &path, Session { registry: registry.clone(), ..session(Stop::default()) }).unwrap();
    let mut trained = evaluate::load_policy(&registry, &path, |e| panic!("{e}")).unwrap();
    let watched = evaluate::watch(&mut trained, 30, 1, false, false).unwrap();
    assert_eq!(watched.ends.len(), watched.rows.len());
    for (row, end) in watched.rows.iter().zip(&watched.ends) {
        assert_eq!(row.violation, *end == Some(End::Violation));
        assert_eq!(row.length == 20, *end == Some(End::Truncated));
    }
    for end in [End::Violation, End::Terminated, End::Truncated] {
        assert!(watched.ends.contains(&Some(end)), "no {}", end.name());
    }
}
