use super::*;
use crate::checkpoint;

fn small(members: usize, width: usize) -> EnsembleConfig {
    EnsembleConfig { members, width, ..EnsembleConfig::default() }
}

#[test]
fn the_loss_by_hand() {
    // All weights zero: mean and raw log-variance are the heads' last biases, (0.5, 0) and (−1, 2).
    let mut ensemble = Ensemble::new(small(2, 3), 1, 1, 1, &mut Rng::stream(0, "t")).unwrap();
    let size = ensemble.size();
    ensemble.params[..2 * size].fill(0.0);
    let last = |e: &Ensemble, chain: usize| {
        let layer = e.layers[e.chains()[chain].end - 1];
        layer.at + layer.inputs * layer.outputs
    };
    let (mean, raw) = (last(&ensemble, 1), last(&ensemble, 2));
    for (m, (a, b)) in [(0.5, 0.0), (-1.0, 2.0)].into_iter().enumerate() {
        ensemble.params[m * size + mean] = a;
        ensemble.params[m * size + raw] = b;
    }
    // With bounds 1 and −10: v = 0 gives u = 1 − softplus(1) = −0.313262 and log σ² = −10 + softplus(9.686738)
    // = −0.313200; v = 2 gives u = 1 − softplus(−1) = 0.686738 and log σ² = 0.686761.
    let mut tape = EnsembleTape::default();
    let (m, lv) = ensemble.predict(1, &[7.0], 1, &mut tape);
    assert!(m[0] == -1.0 && (lv[0] - 0.686_761).abs() < 2e-6, "{lv:?}");
    // Targets 1.5 and 0: errors 1 and 1. Loss = ½·[(e^0.313200 − 0.313200) + (e^−0.686761 + 0.686761)] + 0.01·11
    // = ½·[1.054595 + 1.189964] + 0.11 = 1.232280.
    let loss = ensemble.gradient(&[7.0, -3.0], &[1.5, 0.0], 1);
    assert!((loss - 1.232_280).abs() < 2e-6, "{loss}");
    // One member alone, and no pull: e^−0.686761 + 0.686761.
    let loss = ensemble.loss(1, &[7.0], &[0.0], 1, &mut tape);
    assert!((loss - 1.189_964).abs() < 2e-6, "{loss}");
}

#[test]
fn gradients_agree_with_finite_differences() {
    let mut rng = Rng::stream(2, "t");
    let (members, inputs, outputs, rows) = (2, 3, 2, 4);
    let mut ensemble = Ensemble::new(small(members, 6), inputs, outputs, 1, &mut rng).unwrap();
    // Narrow bounds, so that both bind and their gradients are far from zero.
    let n = ensemble.params.len();
    ensemble.params[n - 4..].copy_from_slice(&[0.4, 0.6, -0.7, -0.3]);
    let mut x = vec![0.0; members * rows * inputs];
    let mut y = vec![0.0; members * rows * outputs];
    rng.fill_normal(&mut x);
    rng.fill_normal(&mut y);
    ensemble.gradient(&x, &y, rows);
    let by_hand = std::mem::replace(&mut ensemble.grad, vec![0.0; n]);
    assert!(by_hand[n - 4..].iter().all(|g| g.abs() > 0.01), "the bounds matter: {:?}", &by_hand[n - 4..]);
    for i in 0..n {
        let (old, step) = (ensemble.params[i], 2e-3);
        let mut at = |value: f32| {
            ensemble.params[i] = value;
            ensemble.gradient(&x, &y, rows)
        };
        let expected = (at(old + step) - at(old - step)) / (2.0 * f64::from(step));
        ensemble.params[i] = old;
        let got = f64::from(by_hand[i]);
        assert!((expected - got).abs() < 2e-3 * expected.abs().max(1.0), "{i}: {got} by hand, {expected}");
    }
}

/// y = [sin 2a + b, a·b] with noise of standard deviation 0.1·e^a and 0.2.
fn problem(n: usize, rng: &mut Rng) -> (Vec<f32>, Vec<f32>) {
    let mut x = vec![0.0; 2 * n];
    rng.fill_action(&mut x);
    let y = x.chunks_exact(2).flat_map(|x| {
        let (mean, std) = truth(x);
        [0, 1].map(|d| mean[d] + std[d] * rng.normal() as f32)
    });
    let y = y.collect();
    (x, y)
}

fn truth(x: &[f32]) -> ([f32; 2], [f32; 2]) {
    ([(2.0 * x[0]).sin() + x[1], x[0] * x[1]], [0.1 * x[0].exp(), 0.2])
}

fn train(threads: usize, updates: usize) -> (Ensemble, f64) {
    let mut rng = Rng::stream(5, "ensemble");
    let (x, y) = problem(8000, &mut rng);
    let mut ensemble = Ensemble::new(small(3, 48), 2, 2, threads, &mut rng).unwrap();
    let rows = 128;
    let mut batch = (vec![0.0; 3 * rows * 2], vec![0.0; 3 * rows * 2]);
    let mut loss = 0.0;
    for update in 0..updates {
        for i in 0..3 * rows {
            let from = rng.below(8000);
            batch.0[2 * i..2 * i + 2].copy_from_slice(&x[2 * from..2 * from + 2]);
            batch.1[2 * i..2 * i + 2].copy_from_slice(&y[2 * from..2 * from + 2]);
        }
        // A falling rate averages the last minibatches' noise away.
        ensemble.adam.rate = 3e-3 * (1.0 - update as f32 / updates as f32).max(0.01);
        loss = ensemble.update(&batch.0, &batch.1, rows).unwrap();
    }
    (ensemble, loss)
}

#[test]
fn it_learns_a_function_and_the_noise_around_it() {
    let (ensemble, _) = train(1, 1500);
    let mut rng = Rng::stream(6, "test");
    let n = 4000;
    let (x, y) = problem(n, &mut rng);
    let mut tape = EnsembleTape::default();
    for member in 0..3 {
        let (mean, log_var) = ensemble.predict(member, &x, n, &mut tape);
        for d in 0..2 {
            let (mut error, mut ratio, mut z2) = (0.0, 0.0, 0.0);
            for i in 0..n {
                let (true_mean, true_std) = truth(&x[2 * i..2 * i + 2]);
                let (m, std) = (mean[2 * i + d], (0.5 * log_var[2 * i + d]).exp());
                error += f64::from(m - true_mean[d]).powi(2) / n as f64;
                ratio += f64::from((std / true_std[d]).ln()).abs() / n as f64;
                z2 += f64::from((y[2 * i + d] - m) / std).powi(2) / n as f64;
            }
            assert!(error.sqrt() < 0.04, "member {member}, output {d}: mean off by {}", error.sqrt());
            assert!(ratio < 0.1, "member {member}, output {d}: deviations off by a factor e^{ratio}");
            assert!((z2 - 1.0).abs() < 0.15, "member {member}, output {d}: squared z of {z2}");
        }
    }
    let (max, min) = ensemble.bounds();
    assert!(max.iter().zip(min).all(|(max, min)| max < &1.0 && min > &-10.0), "the bounds close in");
    // Samples have the moments that were predicted.
    let x = [0.3f32, -0.5].repeat(n);
    let mut out = vec![0.0; 2 * n];
    ensemble.sample(1, &x, n, &mut rng, &mut tape, &mut out);
    let (mean, log_var) = ensemble.predict(1, &x[..2], 1, &mut tape);
    for d in 0..2 {
        let values = || out.iter().skip(d).step_by(2).map(|y| f64::from(*y));
        let m = values().sum::<f64>() / n as f64;
        let std = (values().map(|y| (y - m).powi(2)).sum::<f64>() / n as f64).sqrt();
        let expected = f64::from((0.5 * log_var[d]).exp());
        assert!((m - f64::from(mean[d])).abs() < 0.1 * expected && (std / expected - 1.0).abs() < 0.05);
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let (one, two) = (train(1, 20), train(2, 20));
    assert_eq!(one.0.params, two.0.params);
    assert_eq!(one.1, two.1);
}

#[test]
fn a_loss_that_is_not_finite_is_refused_and_nothing_is_changed() {
    let mut ensemble = Ensemble::new(small(2, 4), 1, 1, 1, &mut Rng::stream(0, "t")).unwrap();
    let before = ensemble.params.clone();
    let error = ensemble.update(&[0.0, 0.0], &[1.0, f32::NAN], 1).unwrap_err().to_string();
    assert!(error.contains("loss is NaN at update 1"), "{error}");
    assert_eq!(ensemble.params, before);
    ensemble.update(&[0.0, 0.0], &[1.0, 1.0], 1).unwrap();
    assert!(ensemble.params.iter().all(|p| p.is_finite()));
}

#[test]
fn it_goes_on_from_a_checkpoint_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let (mut original, _) = train(1, 5);
    let mut saver = Saver::default();
    original.save("model", &mut saver);
    let path = checkpoint::write(dir.path(), "run", 1, &saver, 1).unwrap();
    let mut back = Ensemble::new(small(3, 48), 2, 2, 1, &mut Rng::stream(9, "other")).unwrap();
    back.load("model", &Loader::open(&path, None).unwrap()).unwrap();
    back.adam.rate = original.adam.rate;
    let (x, y) = problem(3 * 4, &mut Rng::stream(1, "p"));
    for _ in 0..3 {
        assert_eq!(original.update(&x, &y, 4).unwrap(), back.update(&x, &y, 4).unwrap());
    }
    assert_eq!(original.params, back.params);
}
