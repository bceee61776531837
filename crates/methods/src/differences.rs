//! For tests: gradients against central differences.

/// Compares `gradient` with central differences of `loss` at `params`, to within `tolerance`, but for places where two step
/// sizes disagree by more than `bend`: there something switches (a ReLU) and there is nothing to compare. Gives how many places
/// were compared, and the steepest slope among them.
pub fn compare(
    params: &[f32],
    gradient: &[f32],
    bend: f64,
    tolerance: f64,
    loss: impl Fn(&[f32]) -> f64,
) -> (usize, f64) {
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
        if (wide - expected).abs() > bend {
            continue;
        }
        let got = f64::from(gradient[i]);
        assert!((expected - got).abs() < tolerance, "{i}: {got} by hand, {expected} by differences");
        smooth += 1;
        steepest = steepest.max(expected.abs());
    }
    (smooth, steepest)
}
