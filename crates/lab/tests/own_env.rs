//! An environment that users write themselves, in a registry that they extend: it is trained on, stopped, resumed and evaluated as
//! the robots are. This one has the four methods that must be written and nothing else; no snapshot, for one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sskp_blocks::env::{End, Env, Spec, Step};
use sskp_blocks::registry::EnvEntry;
use sskp_blocks::rng::Rng;
use sskp_blocks::toy::Toy;
use sskp_lab::config::{Config, Overrides, RunConfig};
use sskp_lab::registry::Registry;
use sskp_lab::train::{self, Session, Stop};

/// The toy with nothing but its dynamics, which reaches a goal after a while. It asks its run to stop at a given step.
struct Bare {
    toy: Toy,
    spec: Spec,
    length: u64,
    stop: Stop,
    stop_after: Arc<AtomicU64>,
}

impl Env for Bare {
    fn spec(&self) -> &Spec {
        &self.spec
    }
    fn reset(&mut self, rng: &mut Rng) -> sskp_blocks::Result<()> {
        self.length = 0;
        self.toy.reset(rng)
    }
    fn step(&mut self, action: &[f32]) -> sskp_blocks::Result<Step> {
        let mut step = self.toy.step(action)?;
        self.length += 1;
        if step.end.is_none() && self.length >= 30 {
            step.end = Some(End::Terminated);
        }
        if self.stop_after.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.stop.store(true, Ordering::Relaxed);
        }
        Ok(step)
    }
    fn obs(&self) -> &[f64] {
        self.toy.obs()
    }
}

fn registry(stop: &Stop, stop_after: u64) -> Registry {
    let (stop, stop_after) = (Arc::clone(stop), Arc::new(AtomicU64::new(stop_after)));
    let mut registry = Registry::standard();
    let make = move |_| -> sskp_blocks::Result<Box<dyn Env>> {
        let toy = Toy::default();
        let spec = Spec { name: "bare".into(), time_limit: None, ..toy.spec().clone() };
        let (stop, stop_after) = (Arc::clone(&stop), Arc::clone(&stop_after));
        Ok(Box::new(Bare { toy, spec, length: 0, stop, stop_after }))
    };
    registry.add_env(EnvEntry::new("bare", make)).unwrap();
    registry
}

/// A session whose run is asked to stop after so many steps of its own.
fn session(stop_after: u64) -> Session {
    let stop = Stop::default();
    Session { registry: registry(&stop, stop_after), stop, quiet: true, ..Session::default() }
}

fn config(registry: &Registry, algo: &str) -> sskp_blocks::Result<Config> {
    let mut overrides = Overrides::default();
    if algo == "sac" {
        for set in ["sac.random_steps=100", "sac.batch=16", "sac.learner.width=16", "sac.log_every=100"] {
            overrides.set(set).unwrap();
        }
    }
    Config::resolve(registry, RunConfig::new(algo, "bare", 3, 1000), &overrides)
}

const NEVER: u64 = u64::MAX;

fn rows(path: &Path) -> String {
    std::fs::read_to_string(path.join("episodes.csv")).unwrap()
}

#[test]
fn without_snapshots_a_run_stops_at_an_episodes_end_and_goes_on_to_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, broken] = ["whole", "broken"].map(|name| folder.path().join(name));
    let never = session(NEVER);
    let config = config(&never.registry, "sac").unwrap();
    assert!(train::train(&config, &whole, never).unwrap().finished);

    let mut summary = train::train(&config, &broken, session(150)).unwrap();
    let mut stops = 0;
    while !summary.finished {
        let text = rows(&broken);
        let last = text.lines().next_back().unwrap().split(',').nth(1).unwrap();
        assert_eq!(last, summary.steps.to_string(), "it stopped where an episode ended");
        stops += 1;
        summary = train::resume(&broken, None, session(170), |e| panic!("{e}")).unwrap();
    }
    assert!(stops > 3, "{stops}");
    assert_eq!(rows(&whole), rows(&broken));
    let ended = rows(&whole).lines().skip(1).filter(|row| row.split(',').nth(2) == Some("30")).count();
    assert!(ended > 3, "episodes end by themselves, without violation");
}

#[test]
fn a_method_that_needs_more_than_an_environment_has_says_so() {
    let session = session(NEVER);
    let config = config(&session.registry, "smbpo").unwrap();
    let error = train::check(&session.registry, &config).unwrap_err().to_string();
    assert!(error.contains("bare cannot tell"), "{error}");
}

#[test]
fn numbers_that_are_not_finite_and_observations_of_the_wrong_length_stop_the_run_with_their_name() {
    type Break = fn(&mut Broken) -> f64;
    struct Broken {
        spec: Spec,
        obs: Vec<f64>,
        steps: usize,
        how: Break,
    }
    impl Env for Broken {
        fn spec(&self) -> &Spec {
            &self.spec
        }
        fn reset(&mut self, _: &mut Rng) -> sskp_blocks::Result<()> {
            Ok(())
        }
        fn step(&mut self, _: &[f32]) -> sskp_blocks::Result<Step> {
            self.steps += 1;
            let reward = if self.steps == 7 { (self.how)(self) } else { 0.0 };
            Ok(Step::new(reward, None))
        }
        fn obs(&self) -> &[f64] {
            &self.obs
        }
    }
    let cases: [(Break, &str); 3] = [
        (|_| f64::INFINITY, "the reward is not finite at environment step 6"),
        (
            |env| {
                env.obs[1] = f64::NAN;
                0.0
            },
            "observation 1 is not finite at environment step 7",
        ),
        (
            |env| {
                env.obs.pop();
                0.0
            },
            "bare has 2 observations, but gave 1",
        ),
    ];
    for (how, needed) in cases {
        let mut registry = Registry::standard();
        let make = move |_| -> sskp_blocks::Result<Box<dyn Env>> {
            let spec = Spec { name: "bare".into(), obs_dim: 2, action_dim: 1, time_limit: None, dt: 1.0 };
            Ok(Box::new(Broken { spec, obs: vec![0.0; 2], steps: 0, how }))
        };
        registry.add_env(EnvEntry::new("bare", make)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let config = config(&registry, "sac").unwrap();
        let session = Session { registry, quiet: true, ..Session::default() };
        let error = train::train(&config, &folder.path().join("run"), session).unwrap_err().to_string();
        assert!(error.contains(needed), "{error}");
    }
}
