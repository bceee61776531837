//! How an episode ended decides what its last transition is worth, in every target of the methods that learn by SAC: a violation
//! has its own value, another end of the robot's own is worth its reward, and a time limit is no end.

use sskp_blocks::Result;
use sskp_blocks::demos::{Demonstrations, Ending, Trajectory};
use sskp_blocks::env::{Constraint, End, Env, Spec, Step};
use sskp_blocks::record::Memory;
use sskp_blocks::rng::Rng;
use sskp_blocks::run::Run;
use sskp_methods::recovery_rl::{RecoveryRl, RecoveryRlConfig};
use sskp_methods::sac::{Sac, SacConfig};
use sskp_methods::smbpo::{Smbpo, SmbpoConfig};
use sskp_methods::{Method, Setup};

/// Whatever is done, one step earns 1 and the episode is over, always in the same way.
struct OneStep {
    spec: Spec,
    end: End,
    obs: [f64; 1],
}

impl OneStep {
    fn new(end: End) -> Self {
        let spec = Spec { name: "one-step".into(), obs_dim: 1, action_dim: 1, time_limit: None, dt: 1.0 };
        Self { spec, end, obs: [0.0] }
    }
}

impl Env for OneStep {
    fn spec(&self) -> &Spec {
        &self.spec
    }
    fn reset(&mut self, rng: &mut Rng) -> Result<()> {
        self.obs = [rng.uniform(-0.1, 0.1)];
        Ok(())
    }
    fn step(&mut self, _: &[f32]) -> Result<Step> {
        Ok(Step::new(1.0, Some(self.end)))
    }
    fn obs(&self) -> &[f64] {
        &self.obs
    }
    fn constraint(&self) -> Option<&dyn Constraint> {
        Some(self)
    }
}

impl Constraint for OneStep {
    /// The same state follows every step, so nothing can be told from it. SMBPO's real transitions know it.
    fn violates(&self, _: &[f64]) -> bool {
        false
    }
}

const GAMMA: f64 = 0.5;
const STEPS: u64 = 900;

fn spec() -> Spec {
    OneStep::new(End::Terminated).spec
}

/// Trains on episodes that all end like this; gives a figure of the last row of metrics.
fn learnt(method: &mut dyn Method, end: End, figure: &str) -> f64 {
    let mut memory = Memory::default();
    let mut run = Run::new(Box::new(OneStep::new(end)), 0, STEPS, &mut memory);
    method.suits(run.env()).unwrap();
    method.train(&mut run).unwrap();
    memory.metrics.last().expect("a row").1.get(figure).unwrap()
}

/// What Q must be: with a temperature next to nothing, the entropy counts for nothing.
fn expect(name: &str, q: f64, expected: f64) {
    assert!((q - expected).abs() < 0.08 * expected.abs().max(1.0), "{name}: Q is {q}, should be {expected}");
}

fn sac(mut config: SacConfig) -> Sac {
    (config.random_steps, config.batch, config.log_every) = (10, 32, 100);
    let learner = &mut config.learner;
    (learner.width, learner.rate, learner.gamma, learner.tau) = (16, 1e-2, GAMMA, 0.05);
    (learner.alpha, learner.auto_alpha) = (1e-6, false);
    Sac::new(&spec(), config, Setup::new("sac", 0, 1)).unwrap()
}

#[test]
fn sac_values_every_end_as_it_should() {
    let q = |config: &SacConfig, end| learnt(&mut sac(config.clone()), end, "Value/reward_critic");
    let plain = SacConfig::default();
    expect("terminated", q(&plain, End::Terminated), 1.0);
    expect("violation", q(&plain, End::Violation), 1.0);
    expect("truncated", q(&plain, End::Truncated), 1.0 / (1.0 - GAMMA));
    // Safe SAC punishes the violation and nothing else: −C/(1−γ) = −4/(1/2).
    let mut safe = SacConfig::safe();
    safe.violation.cost = 4.0;
    expect("safe, terminated", q(&safe, End::Terminated), 1.0);
    expect("safe, violation", q(&safe, End::Violation), -8.0);
    expect("safe, truncated", q(&safe, End::Truncated), 1.0 / (1.0 - GAMMA));
}

#[test]
fn smbpo_values_every_end_as_it_should() {
    let q = |end| {
        let mut config = SmbpoConfig { random_steps: 50, updates_per_step: 1.0, batch: 32, ..Default::default() };
        // Real transitions alone: what is imagined ends by the constraint only.
        (config.real_fraction, config.log_every, config.violation_cost) = (1.0, 100, 4.0);
        (config.model.first_updates, config.model.refit_every, config.model.refit_updates) = (20, 1000, 0);
        config.model.ensemble.width = 8;
        (config.imagination.first_transitions, config.imagination.rollouts) = (10, 5);
        let learner = &mut config.learner;
        (learner.width, learner.rate, learner.gamma, learner.tau) = (16, 1e-2, GAMMA, 0.05);
        (learner.alpha, learner.auto_alpha) = (1e-6, false);
        let mut smbpo = Smbpo::new(&spec(), config, Setup::new("smbpo", 0, 1)).unwrap();
        learnt(&mut smbpo, end, "Value/reward_critic")
    };
    expect("terminated", q(End::Terminated), 1.0);
    expect("violation", q(End::Violation), -8.0);
    expect("truncated", q(End::Truncated), 1.0 / (1.0 - GAMMA));
}

#[test]
fn recovery_rl_sees_a_risk_in_violations_only() {
    let risk = |end, figure: &str| {
        let mut config = RecoveryRlConfig { random_steps: 10, batch: 32, log_every: 100, ..Default::default() };
        let learner = &mut config.learner;
        (learner.width, learner.rate, learner.gamma, learner.tau, learner.alpha) = (16, 1e-2, GAMMA, 0.05, 1e-6);
        let risk = &mut config.risk;
        (risk.width, risk.rate, risk.tau, risk.offline_updates, risk.threshold) = (16, 1e-2, 0.05, 300, 1.0);
        (risk.gamma, risk.positive_fraction) = (0.9, 0.0);
        config.recovery.width = 16;
        let mut method = RecoveryRl::new(&spec(), config, Setup::new("recovery-rl", 0, 1)).unwrap();
        learnt(&mut method, end, figure)
    };
    assert!(risk(End::Violation, "Value/risk_critic") > 0.95);
    assert!(risk(End::Terminated, "Value/risk_critic") < 0.05);
    // After a time limit the same goes on for ever, and nothing ever happens.
    assert!(risk(End::Truncated, "Value/risk_critic") < 0.1);
    expect("terminated", risk(End::Terminated, "Value/reward_critic"), 1.0);
    expect("truncated", risk(End::Truncated, "Value/reward_critic"), 1.0 / (1.0 - GAMMA));
}

/// Two kinds of demonstrations: at −1 they end in a violation, at +1 in a goal. Looking ahead from a goal would find the risk of
/// whatever state was recorded last, which is the violation's.
#[test]
fn recovery_rl_learns_from_demonstrations_that_a_goal_is_not_risky() {
    let mut demos = Demonstrations::new("one-step", 1, 1);
    for i in 0..60 {
        let falls = i % 2 == 0;
        let (start, end) = if falls { (-1.0, Ending::Violation) } else { (1.0, Ending::Terminated) };
        let cost = f32::from(u8::from(falls));
        let observations = vec![start, -1.0];
        let trajectory = Trajectory { observations, actions: vec![0.1], rewards: vec![1.0], costs: vec![cost], end };
        demos.push(trajectory).unwrap();
    }
    let mut config = RecoveryRlConfig { batch: 32, ..Default::default() };
    config.learner.width = 16;
    let risk = &mut config.risk;
    (risk.width, risk.rate, risk.tau, risk.offline_updates) = (16, 1e-2, 0.05, 600);
    (risk.gamma, risk.positive_fraction, risk.threshold) = (0.9, 0.0, 0.5);
    config.recovery.width = 16;
    let mut method = RecoveryRl::new(&spec(), config, Setup::new("recovery-rl", 0, 1)).unwrap();
    let report = method.pretrain(&demos, &mut |_, _, _| Ok(())).unwrap();
    assert_eq!((report.held_out.detected, report.held_out.false_alarms), (Some(1.0), Some(0.0)), "{report:?}");
}
