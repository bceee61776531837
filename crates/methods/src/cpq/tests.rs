//! The losses against the equations written out anew, and against finite differences.

use sskp_blocks::env::Spec;
use sskp_blocks::nets::{Mlp, Tape, gaussian};
use sskp_blocks::replay::{Batch, Replay};
use sskp_blocks::rng::Rng;

use super::CpqConfig;
use super::networks::{Losses, Networks, discounted_limit};

const OBS: usize = 3;
const ACTION: usize = 2;
const ROWS: usize = 8;

fn fixture(change: impl Fn(&mut CpqConfig)) -> (Networks, Batch) {
    let mut rng = Rng::stream(4, "fixture");
    let mut config = CpqConfig { width: 8, ..CpqConfig::default() };
    config.vae.width = 8;
    config.critic_rate = 0.05;
    config.tau = 0.5;
    change(&mut config);
    let spec = Spec { name: "test".into(), obs_dim: OBS, action_dim: ACTION, time_limit: Some(100), dt: 0.1 };
    let mut networks = Networks::new(config, &spec, &mut rng);
    // Steeper than fresh critics are, and targets unlike them.
    for twin in [&mut networks.rewards, &mut networks.costs] {
        for model in twin.models_mut() {
            model.net.params.iter_mut().for_each(|p| *p *= 2.0);
        }
        twin.add_gradient(&[0.3; 2 * (OBS + ACTION)], 2, |_, _| (0.0, 1.0));
        twin.step();
    }
    let mut replay = Replay::new(OBS, ACTION, ROWS);
    for i in 0..ROWS {
        let mut row = [0.0; 2 * OBS];
        rng.fill_normal(&mut row);
        replay.push(&row[..OBS], &[0.2 * i as f32 - 0.7, 0.3], i as f32 - 3.0, None, &row[OBS..]);
    }
    let mut batch = Batch::default();
    replay.sample(ROWS, &mut rng, &mut batch);
    batch.violation = vec![0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0];
    batch.goes_on = batch.violation.iter().map(|c| 1.0 - c).collect();
    (networks, batch)
}

/// Puts l in the middle of these values, so that some are above and some below.
fn limit_amid(networks: &mut Networks, values: &[f32]) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f32::total_cmp);
    networks.limit = 0.5 * (sorted[ROWS / 2 - 1] + sorted[ROWS / 2]);
}

fn values(nets: [&Mlp; 2], input: &[f32]) -> [f64; 2] {
    nets.map(|net| f64::from(net.forward(input, 1, &mut Tape::default())[0]))
}

#[test]
fn the_limit_by_hand() {
    // γ 0.99, T 1000: (1 − 4.3e-5)/(0.01·1000) = 0.0999957.
    assert!((discounted_limit(1.0, 0.99, 1000) - 0.099_995_7).abs() < 1e-7);
}

#[test]
fn targets_are_those_of_the_equations() {
    for (ends, greatest) in [(true, true), (false, false)] {
        let (mut networks, batch) = fixture(|c| (c.cost.ends, c.cost.greatest) = (ends, greatest));
        let mut rng = Rng::stream(1, "next");
        networks.look_ahead(&batch, &mut rng.clone());
        let next_cost = networks.scratch.next_cost.clone();
        limit_amid(&mut networks, &next_cost);
        let mut losses = Losses::default();
        networks.reward_gradient(&batch, &mut losses);
        networks.cost_gradient(&batch, &mut losses);

        let mut noise = [0.0; ROWS * ACTION];
        rng.fill_normal(&mut noise);
        let (mut reward_loss, mut cost_loss, mut gated) = (0.0, 0.0, 0);
        for row in 0..ROWS {
            let next = &batch.next_state[row * OBS..][..OBS];
            let (mut action, mut tape) = ([0.0; ACTION], Tape::default());
            let head = networks.actor.net.forward(next, 1, &mut tape);
            gaussian::squashed_sample(head, &noise[row * ACTION..][..ACTION], ACTION, &mut action, &mut [0.0]);
            let input = [next, &action].concat();
            let [a, b] = networks.costs.forward_targets(&input, 1).map(|q| f64::from(q[0]));
            let cost_ahead = if greatest { a.max(b) } else { a.min(b) };
            let [a, b] = networks.rewards.forward_targets(&input, 1).map(|q| f64::from(q[0]));
            let violated = batch.violation[row] > 0.0;
            let open = cost_ahead <= f64::from(networks.limit);
            gated += usize::from(!open);
            let mut y = 0.1 * f64::from(batch.reward[row]);
            let mut y_c = f64::from(batch.violation[row]);
            if !violated && open {
                y += 0.99 * a.min(b);
            }
            if !ends {
                y_c += 0.99 * cost_ahead;
            } else if !violated {
                y_c += 0.99 * cost_ahead.clamp(0.0, 1.0);
            }
            let here = &batch.state_action[row * (OBS + ACTION)..][..OBS + ACTION];
            let squares = |q: [f64; 2], y: f64| q.iter().map(|q| (q - y).powi(2)).sum::<f64>() / (2 * ROWS) as f64;
            reward_loss += squares(values(networks.rewards.nets(), here), y);
            cost_loss += squares(values(networks.costs.nets(), here), y_c);
        }
        assert!((1..ROWS).contains(&gated), "the gate must be open and closed: {gated}");
        assert!((losses.reward_critic - reward_loss).abs() < 1e-5, "{} {reward_loss}", losses.reward_critic);
        assert!((losses.cost_critic - cost_loss).abs() < 1e-5, "{} {cost_loss}", losses.cost_critic);
    }
}

fn differences(params: &[f32], gradient: &[f32], loss: impl Fn(&[f32]) -> f64) {
    let (smooth, steepest) = crate::differences::compare(params, gradient, 2e-4, 5e-4, loss);
    assert!(smooth * 10 > 7 * params.len(), "only {smooth} of {} could be compared", params.len());
    assert!(steepest > 0.02, "the gradient must not vanish for the test to mean anything: {steepest}");
}

#[test]
fn the_cost_critics_have_the_gradient_of_error_and_push() {
    let (mut networks, batch) = fixture(|c| {
        (c.cost.ood_actions, c.cost.ood_by_data, c.cost.ood_quantile) = (3, false, 0.75);
    });
    let rng = Rng::stream(1, "next");
    networks.look_ahead(&batch, &mut rng.clone());
    networks.alpha = 0.15;
    // l_c in the widest gap between the values it is compared with: some are above, some below, none so near that a difference
    // would cross it.
    let mut trial = networks.clone();
    trial.ood_gradient(&batch, &mut rng.clone(), &mut Losses::default());
    let ood = trial.scratch.ood_input[..6 * (OBS + ACTION)].to_vec();
    let mut pushed: Vec<f64> =
        ood.chunks_exact(OBS + ACTION).flat_map(|row| values(networks.costs.nets(), row)).collect();
    pushed.sort_by(f64::total_cmp);
    let gap = pushed.windows(2).max_by(|a, b| (a[1] - a[0]).total_cmp(&(b[1] - b[0]))).unwrap();
    networks.limit = (0.5 * (gap[0] + gap[1]) / 1.5) as f32;
    let wanted = 1.5 * f64::from(networks.limit);
    let next_cost = networks.scratch.next_cost.clone();
    let targets: Vec<f64> = (0..ROWS)
        .map(|r| match batch.violation[r] > 0.0 {
            true => 1.0,
            false => 0.99 * f64::from(next_cost[r].clamp(0.0, 1.0)),
        })
        .collect();
    for model in networks.costs.models_mut() {
        model.grad.fill(0.0);
    }
    let mut losses = Losses::default();
    networks.cost_gradient(&batch, &mut losses);
    networks.ood_gradient(&batch, &mut rng.clone(), &mut losses);
    // Three actions for each of eight states; those at or above the 75 % quantile, rounded up to a whole one: 18 … 23.
    assert_eq!(losses.ood_share, 6.0 / 24.0);
    assert_eq!(networks.scratch.ood_input[..ood.len()], ood);
    let gradients = networks.costs.models_mut().each_ref().map(|m| m.grad.clone());
    for i in 0..2 {
        let net = networks.costs.nets()[i].clone();
        differences(&net.params, &gradients[i], |params| {
            let mut net = net.clone();
            net.params.copy_from_slice(params);
            let q = |input: &[f32]| values([&net, &net], input)[0];
            let rows = batch.state_action.chunks_exact(OBS + ACTION);
            let error: f64 = rows.zip(&targets).map(|(row, y)| (q(row) - y).powi(2)).sum::<f64>() / ROWS as f64;
            let push: f64 = ood.chunks_exact(OBS + ACTION).map(|row| q(row).min(wanted)).sum();
            error - 0.15 * push / 24.0
        });
    }
    let expected = 0.15 + 1e-4 * (wanted - losses.ood_cost) * 0.25;
    assert!((networks.alpha - expected).abs() < 1e-12);
}

#[test]
fn as_osrl_the_push_has_no_gradient() {
    let (mut networks, batch) = fixture(|c| {
        (c.cost.ood_gradient, c.cost.ood_by_data, c.cost.ood_quantile) = (false, false, 0.75);
    });
    let rng = Rng::stream(1, "next");
    networks.look_ahead(&batch, &mut rng.clone());
    networks.alpha = 0.15;
    let mut losses = Losses::default();
    networks.ood_gradient(&batch, &mut rng.clone(), &mut losses);
    assert!(networks.costs.models_mut().iter().all(|m| m.grad.iter().all(|g| *g == 0.0)));
    assert_eq!(losses.ood_share, 0.25);
    let expected = 0.15 + 1e-4 * (1.5 * f64::from(networks.limit) - 0.25 * losses.ood_cost);
    assert!((networks.alpha - expected).abs() < 1e-12);
}

#[test]
fn actions_are_out_of_distribution_against_those_of_the_data() {
    let (mut networks, batch) = fixture(|c| c.cost.ood_quantile = 0.5);
    let rng = Rng::stream(1, "next");
    networks.look_ahead(&batch, &mut rng.clone());
    let mut like = [0.0; ROWS];
    networks.vae.divergence(&batch.state_action, &mut like);
    like.sort_by(f32::total_cmp);
    let mut losses = Losses::default();
    networks.ood_gradient(&batch, &mut rng.clone(), &mut losses);
    let unlike = &networks.scratch.ood_divergence;
    let outside = unlike.iter().filter(|d| **d >= like[4]).count();
    assert!((1..unlike.len()).contains(&outside), "{outside} of {}", unlike.len());
    assert_eq!(losses.ood_share, outside as f64 / unlike.len() as f64);
    // Data so unlike anything that no sample is out of distribution: nothing is pushed, and α stays.
    networks.costs.models_mut().iter_mut().for_each(|m| m.grad.fill(0.0));
    let mut far = batch.clone();
    far.state_action.iter_mut().for_each(|x| *x *= 1e3);
    let alpha = networks.alpha;
    networks.ood_gradient(&far, &mut rng.clone(), &mut losses);
    assert_eq!((losses.ood_share, networks.alpha), (0.0, alpha));
    assert!(networks.costs.models_mut().iter().all(|m| m.grad.iter().all(|g| *g == 0.0)));
}

#[test]
fn without_the_push_neither_autoencoder_nor_multiplier_moves() {
    let (mut networks, batch) = fixture(|_| ());
    networks.alpha = 0.1;
    networks.push = false;
    let before = networks.vae.clone();
    let losses = networks.update(&batch, &mut Rng::stream(1, "next")).unwrap();
    assert_eq!((losses.alpha, losses.ood_share, losses.divergence), (0.1, 0.0, 0.0));
    let mut divergences = [[0.0; ROWS]; 2];
    for (mut vae, to) in [before, networks.vae.clone()].into_iter().zip(&mut divergences) {
        vae.divergence(&batch.state_action, to);
    }
    assert_eq!(divergences[0], divergences[1]);
}

#[test]
fn the_actor_climbs_where_it_may_and_goes_down_the_cost_elsewhere() {
    for descend in [true, false] {
        let (mut networks, batch) = fixture(|c| c.cost.descend = descend);
        let mut rng = Rng::stream(1, "actor");
        networks.look_ahead(&batch, &mut rng.clone());
        let mut losses = Losses::default();
        networks.ood_gradient(&batch, &mut rng, &mut losses);
        let mut noise = [0.0; ROWS * ACTION];
        rng.clone().fill_normal(&mut noise);
        let choose = |actor: &Mlp, row: usize| {
            let state = &batch.state[row * OBS..][..OBS];
            let (mut action, mut tape) = ([0.0; ACTION], Tape::default());
            let head = actor.forward(state, 1, &mut tape);
            gaussian::squashed_sample(head, &noise[row * ACTION..][..ACTION], ACTION, &mut action, &mut [0.0]);
            [state, &action].concat()
        };
        let base = networks.actor.net.clone();
        let costs: Vec<f32> = (0..ROWS)
            .map(|row| values(networks.costs.nets(), &choose(&base, row)))
            .map(|[a, b]| a.max(b) as f32)
            .collect();
        limit_amid(&mut networks, &costs);
        networks.actor_gradient(&batch, &mut rng, &mut losses);
        let least = |input: &[f32]| {
            let [a, b] = values(networks.rewards.nets(), input);
            a.min(b)
        };
        let unit = (0..ROWS).map(|row| least(&choose(&base, row)).abs()).sum::<f64>() / ROWS as f64;
        differences(&base.params, &networks.actor.grad, |params| {
            let mut actor = base.clone();
            actor.params.copy_from_slice(params);
            let row = |row: usize| {
                let input = choose(&actor, row);
                let [a, b] = values(networks.costs.nets(), &input);
                match (costs[row] <= networks.limit, descend) {
                    (true, _) => -least(&input),
                    (false, true) => unit * a.max(b),
                    (false, false) => 0.0,
                }
            };
            (0..ROWS).map(row).sum::<f64>() / ROWS as f64
        });
        assert_eq!(losses.gate_open, 0.5);
    }
}
