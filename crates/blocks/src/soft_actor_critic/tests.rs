//! The update against its equations, written out anew one row at a time.

use super::*;
use crate::env::End;
use crate::nets::Tape;
use crate::replay::Replay;

const OBS: usize = 3;
const ACTION: usize = 2;
const ROWS: usize = 5;

fn fixture(config: SoftActorCriticConfig, threads: usize) -> (SoftActorCritic, Batch) {
    let mut rng = Rng::stream(2, "fixture");
    let config = SoftActorCriticConfig { width: 6, alpha: 0.3, ..config };
    let mut sac = SoftActorCritic::new(config, OBS, ACTION, threads, &mut rng).unwrap();
    let mut replay = Replay::new(OBS, ACTION, 10);
    for i in 0..ROWS {
        let mut row = [0.0; 2 * OBS];
        rng.fill_normal(&mut row);
        replay.push(&row[..OBS], &[0.1 * i as f32, -0.2], i as f32 - 1.5, None, &row[OBS..]);
    }
    let mut batch = Batch::default();
    replay.sample(ROWS, &mut rng, &mut batch);
    // Whatever was drawn: a violation, another end, and rows that go on.
    (batch.violation[1], batch.goes_on[1], batch.goes_on[2]) = (1.0, 0.0, 0.0);
    for noise in &mut sac.noise {
        noise.resize(ROWS * ACTION, 0.0);
        rng.fill_normal(noise);
    }
    (sac, batch)
}

const ALL: Part = Part { from: 0, rows: ROWS, of: ROWS };

fn value(net: &Mlp, input: &[f32]) -> f64 {
    f64::from(net.forward(input, 1, &mut Tape::default())[0])
}

/// One row's squashed action and its log-probability, written out anew in f64.
fn act(net: &Mlp, state: &[f32], noise: &[f32]) -> (Vec<f32>, f64) {
    let mut tape = Tape::default();
    let head = net.forward(state, 1, &mut tape);
    let mut log_prob = 0.0;
    let action = (0..ACTION)
        .map(|i| {
            let std = f64::from(head[ACTION + i]).exp();
            let u = f64::from(head[i]) + std * f64::from(noise[i]);
            let density = (-0.5 * f64::from(noise[i]).powi(2)).exp() / (std * (2.0 * std::f64::consts::PI).sqrt());
            log_prob += (density / (1.0 - u.tanh().powi(2))).ln();
            u.tanh() as f32
        })
        .collect();
    (action, log_prob)
}

/// One row's plain choice and its divergence from the prior, written out anew in f64.
fn act_near(net: &Mlp, prior: &Prior, state: &[f32], noise: &[f32]) -> (Vec<f32>, f64) {
    let (mut tape, mut prior_tape) = (Tape::default(), Tape::default());
    let (p, q) = (net.forward(state, 1, &mut tape), prior.net.forward(state, 1, &mut prior_tape));
    let mut kl = 0.0;
    let choice = (0..ACTION)
        .map(|i| {
            let [mp, lp, mq, lq] = [p[i], p[ACTION + i], q[i], q[ACTION + i]].map(f64::from);
            kl += lq - lp + ((2.0 * lp).exp() + (mp - mq).powi(2)) / (2.0 * (2.0 * lq).exp()) - 0.5;
            ((mp + lp.exp() * f64::from(noise[i])) as f32).clamp(-prior.bound[i], prior.bound[i])
        })
        .collect();
    (choice, kl)
}

#[test]
fn a_policy_near_its_prior_has_the_gradients_of_the_equations() {
    let (plain, batch) = fixture(SoftActorCriticConfig::default(), 1);
    let mut rng = Rng::stream(4, "prior");
    let prior = Mlp::new(&[OBS, 5, 2 * ACTION], &mut rng);
    let config = SoftActorCriticConfig { width: 6, alpha: 0.3, ..Default::default() };
    // Tight enough to cut some of the choices.
    let bound = vec![0.4; ACTION];
    let prior = Prior { net: prior, bound };
    let mut sac = SoftActorCritic::near_prior(config, prior.clone(), 1.0, 1, &mut rng).unwrap();
    sac.noise = plain.noise.clone();
    // Away from the prior, so that the divergence has a gradient.
    sac.actor.net.params.iter_mut().enumerate().for_each(|(i, p)| *p += 0.6 * (i as f32).sin());
    let mut worker = sac.workers[0].clone();
    sac.critic_part(&mut worker, ALL, &batch, ViolationValue::Terminal);
    for r in 0..ROWS {
        let next = &batch.next_state[r * OBS..][..OBS];
        let (z, kl) = act_near(&sac.actor.net, &prior, next, &sac.noise[0][r * ACTION..][..ACTION]);
        let q = sac.critics.targets().map(|t| value(t, &[next, &z].concat()));
        let bootstrap = if batch.goes_on[r] == 0.0 { 0.0 } else { 0.99 * (q[0].min(q[1]) - 0.3 * kl) };
        assert!((f64::from(worker.target[r]) - f64::from(batch.reward[r]) - bootstrap).abs() < 1e-4, "row {r}");
    }
    sac.actor_part(&mut worker, ALL, &batch, Pick::Least);
    let cut = worker.chosen.choice.iter().filter(|z| z.abs() == 0.4).count();
    assert!(cut > 0 && cut < worker.chosen.choice.len(), "{cut} of {} are cut", worker.chosen.choice.len());
    differences(&sac.actor.net.params, &worker.actor_grad, |params| {
        let mut net = sac.actor.net.clone();
        net.params.copy_from_slice(params);
        let row = |r: usize| {
            let state = &batch.state[r * OBS..][..OBS];
            let (z, kl) = act_near(&net, &prior, state, &sac.noise[1][r * ACTION..][..ACTION]);
            let q = sac.critics.nets().map(|net| value(net, &[state, &z].concat()));
            0.3 * kl - q[0].min(q[1])
        };
        (0..ROWS).map(row).sum::<f64>() / ROWS as f64
    });
}

/// The critics' targets as the equation of the module's documentation has them, one row at a time.
fn target(sac: &SoftActorCritic, batch: &Batch, row: usize, violation: ViolationValue) -> f64 {
    let next = &batch.next_state[row * OBS..][..OBS];
    let (action, log_prob) = act(&sac.actor.net, next, &sac.noise[0][row * ACTION..][..ACTION]);
    let input = [next, &action].concat();
    let q = sac.critics.targets().map(|t| value(t, &input)).into_iter().fold(f64::INFINITY, f64::min);
    match (row, violation) {
        (1, ViolationValue::Fixed(v)) => f64::from(v),
        (1 | 2, _) => f64::from(batch.reward[row]),
        _ => f64::from(batch.reward[row]) + 0.99 * (q - 0.3 * log_prob),
    }
}

/// Compares a gradient with central differences of `loss`. Where two step sizes disagree the loss has a kink (a ReLU
/// switches) and there is nothing to compare.
fn differences(params: &[f32], gradient: &[f32], loss: impl Fn(&[f32]) -> f64) {
    let mut at = params.to_vec();
    let (mut smooth, mut steepest) = (0, 0.0f64);
    for i in 0..at.len() {
        let old = at[i];
        let mut slope = |h: f32| {
            at[i] = old + h;
            let up = loss(&at);
            at[i] = old - h;
            let down = loss(&at);
            at[i] = old;
            (up - down) / (2.0 * f64::from(h))
        };
        let (wide, expected) = (slope(4e-3), slope(2e-3));
        if (wide - expected).abs() > 2e-3 * expected.abs().max(1.0) {
            continue;
        }
        let got = f64::from(gradient[i]);
        assert!((expected - got).abs() < 4e-3 * expected.abs().max(1.0), "{i}: {got}, differences {expected}");
        smooth += 1;
        steepest = steepest.max(expected.abs());
    }
    assert!(smooth * 10 > 8 * at.len(), "only {smooth} of {} could be compared", at.len());
    assert!(steepest > 0.1, "the gradient must not vanish for the test to mean anything: {steepest}");
}

#[test]
fn targets_and_critic_gradients_agree_with_the_equations() {
    for violation in [ViolationValue::Terminal, ViolationValue::Fixed(-7.0)] {
        let (sac, batch) = fixture(SoftActorCriticConfig::default(), 1);
        let mut worker = sac.workers[0].clone();
        sac.critic_part(&mut worker, ALL, &batch, violation);
        let targets: Vec<f64> = (0..ROWS).map(|r| target(&sac, &batch, r, violation)).collect();
        for r in 0..ROWS {
            assert!((f64::from(worker.target[r]) - targets[r]).abs() < 1e-4, "row {r}");
        }
        for i in 0..2 {
            differences(&sac.critics.nets()[i].params, &worker.critic_grads[i], |params| {
                let mut net = sac.critics.nets()[i].clone();
                net.params.copy_from_slice(params);
                let row = |r: usize| &batch.state_action[r * (OBS + ACTION)..][..OBS + ACTION];
                (0..ROWS).map(|r| (value(&net, row(r)) - targets[r]).powi(2)).sum::<f64>() / ROWS as f64
            });
        }
    }
}

#[test]
fn actor_gradients_agree_with_the_equations() {
    for pick in [Pick::Least, Pick::Only(0), Pick::Only(1)] {
        let (sac, batch) = fixture(SoftActorCriticConfig::default(), 1);
        let mut worker = sac.workers[0].clone();
        sac.critic_part(&mut worker, ALL, &batch, ViolationValue::Terminal); // sizes the buffers
        sac.actor_part(&mut worker, ALL, &batch, pick);
        let loss = |params: &[f32]| {
            let mut net = sac.actor.net.clone();
            net.params.copy_from_slice(params);
            (0..ROWS)
                .map(|r| {
                    let state = &batch.state[r * OBS..][..OBS];
                    let (action, log_prob) = act(&net, state, &sac.noise[1][r * ACTION..][..ACTION]);
                    let input = [state, &action].concat();
                    let q = sac.critics.nets().map(|net| value(net, &input));
                    0.3 * log_prob - f64::from(pick.of(q[0] as f32, q[1] as f32))
                })
                .sum::<f64>()
                / ROWS as f64
        };
        differences(&sac.actor.net.params, &worker.actor_grad, loss);
        assert!((worker.sums.actor_loss / ROWS as f64 - loss(&sac.actor.net.params)).abs() < 1e-4);
    }
}

#[test]
fn two_threads_give_the_gradients_of_one() {
    let update = |threads| {
        let (mut sac, batch) = fixture(SoftActorCriticConfig::default(), threads);
        let mut rng = Rng::stream(9, "u");
        for _ in 0..3 {
            sac.update(&batch, ViolationValue::Terminal, &mut rng, None).unwrap();
        }
        [&sac.actor.net.params[..], &sac.critics.nets()[1].params, &sac.critics.targets()[0].params].concat()
    };
    let (one, two) = (update(1), update(2));
    assert_eq!(two, update(2), "and twice the same bytes");
    let worst = one.iter().zip(&two).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-4, "{worst}");
}

#[test]
fn the_temperature_falls_while_entropy_is_above_its_target() {
    // A fresh policy is nearly uniform, far above the target entropy of −2: α must fall from its first update on.
    let (mut sac, batch) = fixture(SoftActorCriticConfig::default(), 1);
    let mut rng = Rng::stream(9, "u");
    let before = sac.alpha();
    sac.update(&batch, ViolationValue::Terminal, &mut rng, None).unwrap();
    assert!(sac.alpha() < before);
    let config = SoftActorCriticConfig { entropy_per_action: -5.0, ..Default::default() };
    let (mut sac, batch) = fixture(config, 1);
    sac.update(&batch, ViolationValue::Terminal, &mut rng, None).unwrap();
    assert!(sac.alpha() > before, "a target of +10 is above any entropy of two actions");
}

#[test]
fn a_nan_reward_stops_learning_with_an_error() {
    let (mut sac, mut batch) = fixture(SoftActorCriticConfig::default(), 1);
    batch.reward[0] = f32::NAN;
    assert!(sac.update(&batch, ViolationValue::Terminal, &mut Rng::stream(0, "u"), None).is_err());
}

#[test]
fn the_temperature_grows_while_the_policy_is_further_from_its_prior_than_allowed() {
    let (_, batch) = fixture(SoftActorCriticConfig::default(), 1);
    let mut rng = Rng::stream(4, "prior");
    let prior = Prior { net: Mlp::new(&[OBS, 5, 2 * ACTION], &mut rng), bound: vec![2.0; ACTION] };
    let config = SoftActorCriticConfig { width: 6, alpha: 0.3, ..Default::default() };
    let mut alpha_after = |shift: f32, metrics: &mut Metrics| {
        let mut sac = SoftActorCritic::near_prior(config.clone(), prior.clone(), 0.5, 1, &mut rng).unwrap();
        let biases = sac.actor.net.params.len() - 2 * ACTION;
        sac.actor.net.params[biases..biases + ACTION].iter_mut().for_each(|mean| *mean += shift);
        sac.update(&batch, ViolationValue::Terminal, &mut rng, Some(metrics)).unwrap();
        sac.alpha()
    };
    let (mut near, mut far) = (Metrics::default(), Metrics::default());
    assert!(alpha_after(0.0, &mut near) < 0.3, "a copy of its prior may go further");
    assert!(alpha_after(3.0, &mut far) > 0.3);
    let [near, far] = [near, far].map(|metrics| metrics.get("Value/kl_to_prior").unwrap());
    assert!(near == 0.0 && far > 0.5, "{near} and {far}, where 0.5 is allowed");
}

/// A bandit, r = −|z − z*|², played by a policy that is held to N(0, 1) with mean divergence `divergence`. Gives the distance
/// of its mean from z* and its divergence at the end, both averaged over states.
fn bandit(best: [f32; 2], divergence: f64) -> (f64, f64) {
    let mut rng = Rng::stream(7, "bandit");
    let mut prior = Mlp::new(&[OBS, 16, 4], &mut rng);
    let last = prior.params.len() - (16 + 1) * 4;
    prior.params[last..].fill(0.0);
    let prior = Prior { net: prior, bound: vec![2.0; 2] };
    let config = SoftActorCriticConfig { width: 32, rate: 3e-3, ..Default::default() };
    let mut sac = SoftActorCritic::near_prior(config, prior.clone(), divergence, 1, &mut rng).unwrap();
    let (mut replay, mut batch) = (Replay::new(OBS, 2, 2000), Batch::default());
    let (mut chosen, mut state, mut noise) = (Choices::default(), [0.0; OBS], [0.0; 2]);
    let (mut distance, mut kl) = (0.0, 0.0);
    const STEPS: usize = 4000;
    const LAST: usize = 500;
    for step in 0..STEPS {
        rng.fill_normal(&mut state);
        rng.fill_normal(&mut noise);
        sac.regulariser.choose(&sac.actor.net, &state, &noise, &mut chosen);
        let away = |z: &[f32]| (z[0] - best[0]).powi(2) + (z[1] - best[1]).powi(2);
        replay.push(&state, &chosen.choice, -away(&chosen.choice), Some(End::Terminated), &state);
        if step >= STEPS - LAST {
            distance += f64::from(away(&chosen.tape.output()[..2]).sqrt()) / LAST as f64;
            kl += f64::from(chosen.penalty[0]) / LAST as f64;
        }
        replay.sample(64, &mut rng, &mut batch);
        sac.update(&batch, ViolationValue::Terminal, &mut rng, None).unwrap();
    }
    (distance, kl)
}

#[test]
fn a_policy_held_to_its_prior_learns_what_lies_within_reach() {
    // N(z*, σ²) is |z*|²/2 = 1 away from N(0, 1) for its mean, and the rest of 5 may be spent on a narrow σ.
    let (distance, kl) = bandit([1.0, -1.0], 5.0);
    assert!(distance < 0.1, "the mean is {distance} away from the best choice");
    assert!((4.5..5.5).contains(&kl), "{kl}, where 5 is allowed");
}

#[test]
fn a_policy_held_to_its_prior_stays_where_it_is_held() {
    // The best choice is |z*|²/2 = 3.2 away for its mean alone, and 0.5 is allowed: it may go about a third of the way.
    let (distance, kl) = bandit([1.8, -1.8], 0.5);
    assert!((0.4..0.6).contains(&kl), "{kl}, where 0.5 is allowed");
    assert!((1.3..2.0).contains(&distance), "{distance} of the 2.5 there were");
}

#[test]
fn a_checkpoint_brings_back_the_prior_that_holds_the_policy() {
    let (_, batch) = fixture(SoftActorCriticConfig::default(), 1);
    let build = |seed: u64, bound: f32| {
        let mut rng = Rng::stream(seed, "prior");
        let prior = Prior { net: Mlp::new(&[OBS, 5, 2 * ACTION], &mut rng), bound: vec![bound; ACTION] };
        let config = SoftActorCriticConfig { width: 6, rate: 1e-2, ..Default::default() };
        SoftActorCritic::near_prior(config, prior, 0.5, 1, &mut rng).unwrap()
    };
    let go_on = |sac: &mut SoftActorCritic| {
        let mut rng = Rng::stream(9, "u");
        (0..5).for_each(|_| sac.update(&batch, ViolationValue::Terminal, &mut rng, None).unwrap());
        [&sac.actor.net.params[..], &sac.critics.nets()[1].params, &sac.critics.targets()[0].params].concat()
    };
    let (mut sac, mut other) = (build(1, 2.0), build(2, 0.1));
    go_on(&mut sac);
    let dir = tempfile::tempdir().unwrap();
    let mut saver = Saver::default();
    sac.save(&mut saver);
    let path = crate::checkpoint::write(dir.path(), "test", 5, &saver, 1).unwrap();
    other.load(&Loader::open(&path, None).unwrap()).unwrap();
    assert_eq!((other.alpha(), other.updates()), (sac.alpha(), 5));
    assert_eq!(go_on(&mut other), go_on(&mut sac));
}
