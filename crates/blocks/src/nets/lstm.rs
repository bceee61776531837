//! A long short-term memory cell (Hochreiter & Schmidhuber 1997), stepped forwards and backwards through time.
//!
//! For each row of a batch, with σ the logistic function and ⊙ the element-wise product:
//!
//! ```text
//! [i, f, g, o] = x_t·W_x + h_{t−1}·W_h + b        i, f, o through σ, g through tanh
//! c_t = f ⊙ c_{t−1} + i ⊙ g        h_t = o ⊙ tanh c_t
//! ```
//!
//! The interface is one step at a time, because a decoder's input at step t depends on its own output at step t − 1, and
//! the gradient of that input must be known before step t − 1 is walked back. An encoder is the same with all inputs known:
//!
//! ```text
//! lstm.begin(None, rows, &mut tape);
//! for t in 0..steps { lstm.step_forward(t, x[t], rows, &mut tape); }
//! for t in (0..steps).rev() { lstm.step_backward(t, d_h[t], rows, &mut tape, Some(&mut grad), Some(&mut d_x[t])); }
//! lstm.start_backward(rows, &tape, &mut d_h0, &mut d_c0);      // only where the first state is learnt
//! ```

use super::linalg;
use super::smooth::{sigmoid, tanh};
use crate::rng::Rng;

/// The cell; all its parameters in one flat array: `W_x [inputs, 4·hidden]`, `W_h [hidden, 4·hidden]`, `b [4·hidden]`,
/// with the columns of the gates i, f, g, o side by side.
#[derive(Clone, Debug)]
pub struct Lstm {
    inputs: usize,
    hidden: usize,
    /// All parameters.
    pub params: Vec<f32>,
}

/// What the steps of one sequence leave for the way back. Grows to the longest sequence and the largest batch seen and
/// is then reused.
#[derive(Clone, Debug, Default)]
pub struct LstmTape {
    start_h: Vec<f32>,
    start_c: Vec<f32>,
    steps: Vec<Step>,
    /// Steps taken forwards in this sequence: `steps` may hold more, of a longer one before.
    taken: usize,
    /// The next step of the way back is the one before this.
    back: usize,
    /// The loss's gradient in h and c of the step before `back`, as far as later steps are concerned.
    d_h: Vec<f32>,
    d_c: Vec<f32>,
    d_gates: Vec<f32>,
}

#[derive(Clone, Debug, Default)]
struct Step {
    x: Vec<f32>,
    /// The four gates after σ and tanh.
    gates: Vec<f32>,
    c: Vec<f32>,
    tanh_c: Vec<f32>,
    h: Vec<f32>,
}

impl LstmTape {
    /// Steps taken forwards in this sequence.
    pub fn steps(&self) -> usize {
        self.taken
    }
    /// h_t `[rows, hidden]`.
    pub fn h(&self, t: usize) -> &[f32] {
        assert!(t < self.taken, "step {t} of {}", self.taken);
        &self.steps[t].h
    }
    /// c_t `[rows, hidden]`.
    pub fn c(&self, t: usize) -> &[f32] {
        assert!(t < self.taken, "step {t} of {}", self.taken);
        &self.steps[t].c
    }
}

impl Lstm {
    /// A cell for inputs and states of these sizes. Weights and biases are uniform in ±1/√hidden as PyTorch's are, except
    /// the forget gate's biases: they are 2, as in SPiRL, whose two bias vectors are 1 each there. An untrained cell then
    /// keeps σ(2) = 88 % of its memory per step, 28 % over ten, instead of half per step.
    pub fn new(inputs: usize, hidden: usize, rng: &mut Rng) -> Self {
        let bound = 1.0 / (hidden as f64).sqrt();
        let n = (inputs + hidden + 1) * 4 * hidden;
        let mut params: Vec<f32> = (0..n).map(|_| rng.uniform(-bound, bound) as f32).collect();
        let bias = (inputs + hidden) * 4 * hidden;
        params[bias + hidden..bias + 2 * hidden].fill(2.0);
        Self { inputs, hidden, params }
    }

    /// Length of an input.
    pub fn inputs(&self) -> usize {
        self.inputs
    }
    /// Length of h and c.
    pub fn hidden(&self) -> usize {
        self.hidden
    }

    /// W_x `[inputs, 4·hidden]`, W_h `[hidden, 4·hidden]` and b.
    pub fn parts(&self) -> (&[f32], &[f32], &[f32]) {
        let (w_x, rest) = self.params.split_at(self.inputs * 4 * self.hidden);
        let (w_h, bias) = rest.split_at(self.hidden * 4 * self.hidden);
        (w_x, w_h, bias)
    }

    /// Starts a sequence: at h = c = 0, or at the given `(h, c)` of `hidden` numbers each, the same for every row.
    pub fn begin(&self, start: Option<(&[f32], &[f32])>, rows: usize, tape: &mut LstmTape) {
        let n = rows * self.hidden;
        tape.start_h.resize(n, 0.0);
        tape.start_c.resize(n, 0.0);
        match start {
            None => {
                tape.start_h.fill(0.0);
                tape.start_c.fill(0.0);
            }
            Some((h, c)) => {
                assert!(h.len() == self.hidden && c.len() == self.hidden, "a start of {} and {}", h.len(), c.len());
                tape.start_h.chunks_exact_mut(self.hidden).for_each(|row| row.copy_from_slice(h));
                tape.start_c.chunks_exact_mut(self.hidden).for_each(|row| row.copy_from_slice(c));
            }
        }
        tape.taken = 0;
        tape.back = 0;
    }

    /// Step `t` for inputs `x[rows, inputs]`; gives h_t `[rows, hidden]`. The inputs are copied: the caller may reuse them.
    pub fn step_forward<'t>(&self, t: usize, x: &[f32], rows: usize, tape: &'t mut LstmTape) -> &'t [f32] {
        let (inputs, hidden) = (self.inputs, self.hidden);
        assert_eq!(x.len(), rows * inputs, "input of {} numbers for {rows} rows", x.len());
        assert!(t == tape.taken && tape.start_h.len() == rows * hidden, "step {t} after {} steps", tape.taken);
        if tape.steps.len() == t {
            tape.steps.push(Step::default());
        }
        let (before, here) = tape.steps.split_at_mut(t);
        let step = &mut here[0];
        let (h_before, c_before) = match before.last() {
            Some(last) => (&last.h, &last.c),
            None => (&tape.start_h, &tape.start_c),
        };
        step.x.resize(rows * inputs, 0.0);
        step.x.copy_from_slice(x);
        step.gates.resize(rows * 4 * hidden, 0.0);
        for buffer in [&mut step.c, &mut step.tanh_c, &mut step.h] {
            buffer.resize(rows * hidden, 0.0);
        }

        let (w_x, w_h, bias) = self.parts();
        linalg::ab(&mut step.gates, x, w_x, rows, inputs, 4 * hidden);
        linalg::add_ab(&mut step.gates, h_before, w_h, rows, hidden, 4 * hidden);
        for r in 0..rows {
            let gates = &mut step.gates[r * 4 * hidden..][..4 * hidden];
            for (gate, b) in gates.iter_mut().zip(bias) {
                *gate += b;
            }
            let (input_forget, rest) = gates.split_at_mut(2 * hidden);
            let (candidate, output) = rest.split_at_mut(hidden);
            // Separate loops over plain slices: each vectorises.
            input_forget.iter_mut().for_each(|x| *x = sigmoid(*x));
            candidate.iter_mut().for_each(|x| *x = tanh(*x));
            output.iter_mut().for_each(|x| *x = sigmoid(*x));
            let (input, forget) = input_forget.split_at(hidden);
            let row = r * hidden..(r + 1) * hidden;
            let (c, tanh_c, h) = (&mut step.c[row.clone()], &mut step.tanh_c[row.clone()], &mut step.h[row.clone()]);
            let c_before = &c_before[row];
            for j in 0..hidden {
                c[j] = forget[j] * c_before[j] + input[j] * candidate[j];
                tanh_c[j] = tanh(c[j]);
                h[j] = output[j] * tanh_c[j];
            }
        }
        tape.taken = t + 1;
        tape.back = t + 1;
        &tape.steps[t].h
    }

    /// Walks step `t` back; the last step first. `d_h_extra[rows, hidden]` is the loss's gradient in h_t other than through
    /// step t + 1, which the tape carries itself. Adds the gradient in the parameters to `grad` (if asked) and writes the
    /// gradient in the inputs `x_t` to `d_x` (if asked).
    pub fn step_backward(
        &self,
        t: usize,
        d_h_extra: Option<&[f32]>,
        rows: usize,
        tape: &mut LstmTape,
        grad: Option<&mut [f32]>,
        d_x: Option<&mut [f32]>,
    ) {
        let (inputs, hidden) = (self.inputs, self.hidden);
        let n = rows * hidden;
        assert!(tape.start_h.len() == n && t < tape.taken, "step {t} of {} forward steps", tape.taken);
        if t + 1 == tape.taken {
            tape.d_h.resize(n, 0.0);
            tape.d_h.fill(0.0);
            tape.d_c.resize(n, 0.0);
            tape.d_c.fill(0.0);
            tape.d_gates.resize(4 * n, 0.0);
        } else {
            assert_eq!(t + 1, tape.back, "steps are walked back one by one");
        }
        tape.back = t;
        if let Some(extra) = d_h_extra {
            assert_eq!(extra.len(), n);
            for (d, e) in tape.d_h.iter_mut().zip(extra) {
                *d += e;
            }
        }

        let LstmTape { start_h, start_c, steps, d_h, d_c, d_gates, .. } = tape;
        let step = &steps[t];
        let (h_before, c_before) = match t {
            0 => (&*start_h, &*start_c),
            _ => (&steps[t - 1].h, &steps[t - 1].c),
        };
        for r in 0..rows {
            let gates = &step.gates[r * 4 * hidden..][..4 * hidden];
            let (input, rest) = gates.split_at(hidden);
            let (forget, rest) = rest.split_at(hidden);
            let (candidate, output) = rest.split_at(hidden);
            let (d_input, rest) = d_gates[r * 4 * hidden..][..4 * hidden].split_at_mut(hidden);
            let (d_forget, rest) = rest.split_at_mut(hidden);
            let (d_candidate, d_output) = rest.split_at_mut(hidden);
            let row = r * hidden..(r + 1) * hidden;
            let (d_h, d_c) = (&d_h[row.clone()], &mut d_c[row.clone()]);
            let (tanh_c, c_before) = (&step.tanh_c[row.clone()], &c_before[row]);
            for j in 0..hidden {
                let (i, f, g, o, y) = (input[j], forget[j], candidate[j], output[j], tanh_c[j]);
                let d = d_c[j] + d_h[j] * o * (1.0 - y * y);
                d_input[j] = d * g * i * (1.0 - i);
                d_forget[j] = d * c_before[j] * f * (1.0 - f);
                d_candidate[j] = d * i * (1.0 - g * g);
                d_output[j] = d_h[j] * y * o * (1.0 - o);
                d_c[j] = d * f;
            }
        }

        let (w_x, w_h, _) = self.parts();
        if let Some(grad) = grad {
            assert_eq!(grad.len(), self.params.len());
            let (d_w_x, rest) = grad.split_at_mut(w_x.len());
            let (d_w_h, d_bias) = rest.split_at_mut(w_h.len());
            linalg::add_atb(d_w_x, &step.x, d_gates, inputs, rows, 4 * hidden);
            linalg::add_atb(d_w_h, h_before, d_gates, hidden, rows, 4 * hidden);
            for row in d_gates.chunks_exact(4 * hidden) {
                for (g, d) in d_bias.iter_mut().zip(row) {
                    *g += d;
                }
            }
        }
        linalg::abt(d_h, d_gates, w_h, rows, 4 * hidden, hidden);
        if let Some(d_x) = d_x {
            assert_eq!(d_x.len(), rows * inputs);
            linalg::abt(d_x, d_gates, w_x, rows, 4 * hidden, inputs);
        }
    }

    /// After step 0 was walked back: adds the gradient in the shared start `(h, c)`, the sum over the rows.
    pub fn start_backward(&self, rows: usize, tape: &LstmTape, d_h0: &mut [f32], d_c0: &mut [f32]) {
        assert!(tape.back == 0 && tape.taken > 0, "the way back has reached step {}, not the start", tape.back);
        assert!(tape.d_h.len() == rows * self.hidden && d_h0.len() == self.hidden && d_c0.len() == self.hidden);
        for (out, carried) in [(d_h0, &tape.d_h), (d_c0, &tape.d_c)] {
            for row in carried.chunks_exact(self.hidden) {
                for (o, d) in out.iter_mut().zip(row) {
                    *o += d;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nets::{Adam, Model, Tape};

    #[test]
    fn one_step_by_hand() {
        let mut lstm = Lstm::new(1, 1, &mut Rng::stream(0, "t"));
        lstm.params.copy_from_slice(&[0.5, -0.3, 0.8, 0.1, 0.2, 0.4, -0.6, 0.3, 0.1, 2.0, 0.0, -0.1]);
        let mut tape = LstmTape::default();
        // x = 1, h = 0.5, c = −1: i = σ(0.5 + 0.1 + 0.1) = σ(0.7) = 0.668188, f = σ(−0.3 + 0.2 + 2) = σ(1.9) = 0.869892,
        // g = tanh(0.8 − 0.3) = 0.462117, o = σ(0.1 + 0.15 − 0.1) = σ(0.15) = 0.537430;
        // c = −0.869892 + 0.668188·0.462117 = −0.561110, h = 0.537430·tanh c = 0.537430·−0.508801 = −0.273445.
        lstm.begin(Some((&[0.5], &[-1.0])), 1, &mut tape);
        let h = lstm.step_forward(0, &[1.0], 1, &mut tape)[0];
        assert!((h + 0.273_445).abs() < 2e-6, "{h}");
        assert!((tape.c(0)[0] + 0.561_110).abs() < 2e-6, "{}", tape.c(0)[0]);
        // From zero, only the bias of i, g and o and the input count: c = σ(0.6)·tanh(0.8) = 0.645656·0.664037.
        lstm.begin(None, 1, &mut tape);
        lstm.step_forward(0, &[1.0], 1, &mut tape);
        assert!((tape.c(0)[0] - 0.428_740).abs() < 2e-6, "{}", tape.c(0)[0]);
    }

    #[test]
    fn the_forget_gate_starts_open() {
        let lstm = Lstm::new(3, 5, &mut Rng::stream(0, "t"));
        let (_, _, bias) = lstm.parts();
        assert!(bias[5..10].iter().all(|b| *b == 2.0));
        assert!(bias[..5].iter().chain(&bias[10..]).all(|b| b.abs() <= 1.0 / 5f32.sqrt()));
    }

    const INPUTS: usize = 2;
    const HIDDEN: usize = 3;
    const ROWS: usize = 2;
    const STEPS: usize = 4;

    /// Everything a loss may depend on, in one flat array so that one loop differentiates it all.
    #[derive(Clone)]
    struct Case {
        params: Vec<f32>,
        h0: Vec<f32>,
        c0: Vec<f32>,
        x: Vec<f32>,
        weights: Vec<f32>,
    }

    impl Case {
        fn new() -> Self {
            let mut rng = Rng::stream(3, "lstm");
            let mut normals = |n: usize, scale: f32| {
                let mut v = vec![0.0; n];
                rng.fill_normal(&mut v);
                v.iter_mut().for_each(|x| *x *= scale);
                v
            };
            Self {
                params: normals((INPUTS + HIDDEN + 1) * 4 * HIDDEN, 0.5),
                h0: normals(HIDDEN, 0.5),
                c0: normals(HIDDEN, 0.5),
                x: normals(STEPS * ROWS * INPUTS, 1.0),
                weights: normals(STEPS * ROWS * HIDDEN, 1.0),
            }
        }

        fn lstm(&self) -> Lstm {
            Lstm { inputs: INPUTS, hidden: HIDDEN, params: self.params.clone() }
        }

        /// Σ w_t·h_t + ½·h_t² over all steps. With `fed_back`, the input of step t > 0 is x_t plus the first entries of
        /// h_{t−1}, as in a decoder.
        fn loss(&self, fed_back: bool, tape: &mut LstmTape) -> f64 {
            let lstm = self.lstm();
            lstm.begin(Some((&self.h0, &self.c0)), ROWS, tape);
            let mut loss = 0.0;
            for t in 0..STEPS {
                let mut x = self.x[t * ROWS * INPUTS..][..ROWS * INPUTS].to_vec();
                if fed_back && t > 0 {
                    let h = tape.h(t - 1);
                    (0..ROWS * INPUTS).for_each(|i| x[i] += h[i / INPUTS * HIDDEN + i % INPUTS]);
                }
                let h = lstm.step_forward(t, &x, ROWS, tape);
                let weights = &self.weights[t * ROWS * HIDDEN..];
                loss += h.iter().zip(weights).map(|(h, w)| f64::from(h * w + 0.5 * h * h)).sum::<f64>();
            }
            loss
        }

        /// The gradient of the same, part by part.
        fn gradient(&self, fed_back: bool) -> Case {
            let mut tape = LstmTape::default();
            self.loss(fed_back, &mut tape);
            let lstm = self.lstm();
            let mut d = self.clone();
            for part in [&mut d.params, &mut d.h0, &mut d.c0, &mut d.x] {
                part.fill(0.0);
            }
            let mut fed = vec![0.0; ROWS * HIDDEN];
            for t in (0..STEPS).rev() {
                let weights = &self.weights[t * ROWS * HIDDEN..];
                let mut d_h: Vec<f32> = tape.h(t).iter().zip(weights).map(|(h, w)| w + h).collect();
                d_h.iter_mut().zip(&fed).for_each(|(d, f)| *d += f);
                let d_x = &mut d.x[t * ROWS * INPUTS..][..ROWS * INPUTS];
                lstm.step_backward(t, Some(&d_h), ROWS, &mut tape, Some(&mut d.params), Some(d_x));
                if fed_back {
                    fed.fill(0.0);
                    (0..ROWS * INPUTS).for_each(|i| fed[i / INPUTS * HIDDEN + i % INPUTS] = d_x[i]);
                }
            }
            lstm.start_backward(ROWS, &tape, &mut d.h0, &mut d.c0);
            d
        }
    }

    #[test]
    fn gradients_of_four_steps_agree_with_finite_differences() {
        for fed_back in [false, true] {
            let mut case = Case::new();
            let gradient = case.gradient(fed_back);
            type Part = fn(&mut Case) -> &mut Vec<f32>;
            let parts: [(&str, Part); 4] =
                [("params", |c| &mut c.params), ("h0", |c| &mut c.h0), ("c0", |c| &mut c.c0), ("x", |c| &mut c.x)];
            for (name, part) in parts {
                let by_hand = part(&mut gradient.clone()).clone();
                assert!(by_hand.iter().any(|g| g.abs() > 0.05), "{name} matters");
                for i in 0..by_hand.len() {
                    let mut tape = LstmTape::default();
                    let mut at = |case: &mut Case, step: f32| {
                        part(case)[i] += step;
                        let loss = case.loss(fed_back, &mut tape);
                        part(case)[i] -= step;
                        loss
                    };
                    let step = 1e-2;
                    let expected = (at(&mut case, step) - at(&mut case, -step)) / (2.0 * f64::from(step));
                    let got = f64::from(by_hand[i]);
                    assert!(
                        (expected - got).abs() < 1e-3 * expected.abs().max(1.0),
                        "{name} {i}, fed back {fed_back}: {got} by hand, {expected} by differences"
                    );
                }
            }
        }
    }

    #[test]
    fn a_tape_is_reused_for_shorter_and_longer_sequences() {
        let case = Case::new();
        let lstm = case.lstm();
        let run = |steps: usize, tape: &mut LstmTape| {
            lstm.begin(None, ROWS, tape);
            for t in 0..steps {
                lstm.step_forward(t, &case.x[t * ROWS * INPUTS..][..ROWS * INPUTS], ROWS, tape);
            }
            let mut grad = vec![0.0; lstm.params.len()];
            for t in (0..steps).rev() {
                let last = (t + 1 == steps).then_some(&case.weights[..ROWS * HIDDEN]);
                lstm.step_backward(t, last, ROWS, tape, Some(&mut grad), None);
            }
            grad
        };
        let mut tape = LstmTape::default();
        let (long, buffer) = (run(4, &mut tape), tape.steps[0].gates.as_ptr());
        let short = run(2, &mut tape);
        assert_eq!(short, run(2, &mut LstmTape::default()));
        assert_eq!(long, run(4, &mut tape));
        assert_eq!(buffer, tape.steps[0].gates.as_ptr());
    }

    #[test]
    fn it_learns_to_remember_the_first_input_among_others() {
        const STEPS: usize = 8;
        const ROWS: usize = 32;
        const HIDDEN: usize = 16;
        let mut rng = Rng::stream(1, "memory");
        // The second input says which number to keep.
        let mut lstm = Lstm::new(2, HIDDEN, &mut rng);
        let mut head = Model::new(&[HIDDEN, 1], 1e-2, &mut rng);
        let mut adam = Adam::new(lstm.params.len(), 1e-2);
        let mut grad = vec![0.0; lstm.params.len()];
        let (mut tape, mut head_tape) = (LstmTape::default(), Tape::default());
        let mut d_h = vec![0.0; ROWS * HIDDEN];
        let mut recent = 1.0;
        for _ in 0..800 {
            let x: Vec<f32> = (0..STEPS * ROWS)
                .flat_map(|i| [rng.uniform(-1.0, 1.0) as f32, f32::from(u8::from(i < ROWS))])
                .collect();
            lstm.begin(None, ROWS, &mut tape);
            for t in 0..STEPS {
                lstm.step_forward(t, &x[t * ROWS * 2..][..ROWS * 2], ROWS, &mut tape);
            }
            let y = head.net.forward(tape.h(STEPS - 1), ROWS, &mut head_tape);
            let errors: Vec<f32> = (0..ROWS).map(|r| y[r] - x[2 * r]).collect();
            let loss = errors.iter().map(|e| f64::from(e * e)).sum::<f64>() / ROWS as f64;
            recent += 0.05 * (loss - recent);
            let d_y: Vec<f32> = errors.iter().map(|e| 2.0 * e / ROWS as f32).collect();
            let last = tape.h(STEPS - 1);
            head.net.backward(last, ROWS, &mut head_tape, &d_y, Some(&mut head.grad), Some(&mut d_h));
            for t in (0..STEPS).rev() {
                let extra = (t + 1 == STEPS).then_some(&d_h[..]);
                lstm.step_backward(t, extra, ROWS, &mut tape, Some(&mut grad), None);
            }
            head.step();
            adam.step(&mut lstm.params, &grad);
            grad.fill(0.0);
        }
        // Knowing nothing costs 1/3, the variance of the number.
        assert!(recent < 0.01, "{recent}");
    }
}
