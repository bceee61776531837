//! The decoder p_ν of section 4.1, in two forms. The paper's is open-loop, p_ν(a_t:t+H−1 | z): ten actions that follow from
//! the skill alone. The closed-loop one, p_ν(a_k | s_k, z), sees the state of every step; docs/decisions/0003 has what it
//! changes.

use serde::{Deserialize, Serialize};
use sskp_blocks::Result;
use sskp_blocks::checkpoint::{Loader, Saver};
use sskp_blocks::nets::lstm::{Lstm, LstmTape};
use sskp_blocks::nets::{Adam, Mlp, Tape};
use sskp_blocks::rng::Rng;

use super::config::SkillConfig;
use super::skill::Learnt;

/// Which decoder a skill model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecoderKind {
    /// The paper's: an LSTM that sees the skill and its own last action.
    OpenLoop,
    /// An MLP on the state and the skill, asked again at every step.
    ClosedLoop,
}

/// A decoder with its buffers. Its variance is fixed at 1, so that its mean is what is executed.
#[derive(Clone, Debug)]
pub enum Decoder {
    /// See [`DecoderKind::OpenLoop`].
    Open(Box<OpenLoop>),
    /// See [`DecoderKind::ClosedLoop`].
    Closed(Box<ClosedLoop>),
}

/// p_ν(a_t:t+H−1 | z).
#[derive(Clone, Debug)]
pub struct OpenLoop {
    horizon: usize,
    skill: usize,
    action: usize,
    cell: Learnt<Lstm>,
    head: Learnt<Mlp>,
    /// The first h, c and "previous action", one after the other.
    start: Learnt<Vec<f32>>,
    tape: LstmTape,
    heads: Vec<Tape>,
    input: Vec<f32>,
    d_out: Vec<f32>,
    d_h: Vec<f32>,
    d_x: Vec<f32>,
}

/// p_ν(a_k | s_k, z).
#[derive(Clone, Debug)]
pub struct ClosedLoop {
    skill: usize,
    net: Learnt<Mlp>,
    tape: Tape,
    input: Vec<f32>,
    d_input: Vec<f32>,
}

impl Decoder {
    /// A fresh decoder for a robot with these sizes.
    pub fn new(config: &SkillConfig, obs: usize, action: usize, rng: &mut Rng) -> Self {
        let (hidden, skill, rate) = (config.hidden, config.dim, config.rate);
        match config.decoder {
            DecoderKind::OpenLoop => Self::Open(Box::new(OpenLoop {
                horizon: config.horizon,
                skill,
                action,
                cell: Learnt::lstm(Lstm::new(action + skill, hidden, rng), rate),
                head: Learnt::mlp(Mlp::new(&[hidden, action], rng), rate),
                start: Learnt::new(vec![0.0; 2 * hidden + action], 2 * hidden + action, rate),
                tape: LstmTape::default(),
                heads: Vec::new(),
                input: Vec::new(),
                d_out: Vec::new(),
                d_h: Vec::new(),
                d_x: Vec::new(),
            })),
            DecoderKind::ClosedLoop => Self::Closed(Box::new(ClosedLoop {
                skill,
                net: Learnt::mlp(Mlp::new(&[obs + skill, hidden, hidden, action], rng), rate),
                tape: Tape::default(),
                input: Vec::new(),
                d_input: Vec::new(),
            })),
        }
    }

    /// Predicts the actions of skills `z[rows, dim]` along the standardised states `[H][rows, obs]` that were passed; `out`
    /// becomes `[H][rows, action]`, unclipped.
    pub fn forward(&mut self, z: &[f32], states: &[f32], rows: usize, out: &mut Vec<f32>) {
        out.clear();
        match self {
            Self::Open(open) => {
                open.unroll(z, rows);
                open.heads.iter().for_each(|head| out.extend_from_slice(head.output()));
            }
            Self::Closed(closed) => {
                closed.join(z, states, rows);
                let all = closed.input.len() / closed.net.part.inputs();
                out.extend_from_slice(closed.net.part.forward(&closed.input, all, &mut closed.tape));
            }
        }
    }

    /// After [`Self::forward`]: adds the gradient, given the loss's gradient in the actions, and writes that in z.
    pub fn backward(&mut self, d_actions: &[f32], rows: usize, d_z: &mut [f32]) {
        d_z.fill(0.0);
        match self {
            Self::Open(open) => open.backward(d_actions, rows, d_z),
            Self::Closed(closed) => closed.backward(d_actions, rows, d_z),
        }
    }

    /// Begins to play a skill: an open-loop decoder fixes all its actions here.
    pub fn begin(&mut self, z: &[f32]) {
        match self {
            Self::Open(open) => open.unroll(z, 1),
            Self::Closed(closed) => {
                closed.input.resize(closed.net.part.inputs(), 0.0);
                let obs = closed.input.len() - closed.skill;
                closed.input[obs..].copy_from_slice(z);
            }
        }
    }

    /// The action at step `k` of the skill begun, in a standardised state: the decoder's mean, clipped to what a robot can do.
    pub fn act(&mut self, k: usize, state: &[f32], action: &mut [f32]) {
        let mean = match self {
            Self::Open(open) => open.heads[k].output(),
            Self::Closed(closed) => {
                closed.input[..state.len()].copy_from_slice(state);
                closed.net.part.forward(&closed.input, 1, &mut closed.tape)
            }
        };
        action.iter_mut().zip(mean).for_each(|(a, mean)| *a = mean.clamp(-1.0, 1.0));
    }

    /// The network of a closed-loop decoder, on `[s, z]`.
    pub(crate) fn net(&self) -> Option<&Mlp> {
        match self {
            Self::Open(_) => None,
            Self::Closed(closed) => Some(&closed.net.part),
        }
    }

    /// The same, to be taught.
    pub(crate) fn net_mut(&mut self) -> Option<&mut Mlp> {
        match self {
            Self::Open(_) => None,
            Self::Closed(closed) => Some(&mut closed.net.part),
        }
    }

    /// The parts that learn, under their names in a checkpoint.
    pub(super) fn parts(&mut self) -> Vec<(&'static str, &mut [f32], &mut [f32])> {
        match self {
            Self::Open(open) => vec![
                ("decoder", &mut open.cell.part.params[..], &mut open.cell.grad[..]),
                ("decoder_head", &mut open.head.part.params[..], &mut open.head.grad[..]),
                ("start", &mut open.start.part[..], &mut open.start.grad[..]),
            ],
            Self::Closed(closed) => vec![("decoder", &mut closed.net.part.params[..], &mut closed.net.grad[..])],
        }
    }

    /// The optimisers of those parts.
    pub(super) fn optimisers(&self) -> Vec<(&'static str, &Adam)> {
        match self {
            Self::Open(open) => {
                vec![("decoder", &open.cell.adam), ("decoder_head", &open.head.adam), ("start", &open.start.adam)]
            }
            Self::Closed(closed) => vec![("decoder", &closed.net.adam)],
        }
    }

    /// The same, to be read back.
    pub(super) fn optimisers_mut(&mut self) -> Vec<(&'static str, &mut Adam)> {
        match self {
            Self::Open(open) => vec![
                ("decoder", &mut open.cell.adam),
                ("decoder_head", &mut open.head.adam),
                ("start", &mut open.start.adam),
            ],
            Self::Closed(closed) => vec![("decoder", &mut closed.net.adam)],
        }
    }

    /// One Adam step.
    pub fn step(&mut self) {
        match self {
            Self::Open(open) => {
                open.cell.step(|p| &mut p.params);
                open.head.step(|p| &mut p.params);
                open.start.step(|p| p);
            }
            Self::Closed(closed) => closed.net.step(|p| &mut p.params),
        }
    }

    /// Adds it to a checkpoint.
    pub fn save<'a>(&'a self, to: &mut Saver<'a>) {
        match self {
            Self::Open(open) => {
                to.lstm("policy/skill.decoder", &open.cell.part);
                to.mlp("policy/skill.decoder_head", &open.head.part);
                to.f32s("policy/skill.start", &open.start.part, 1);
            }
            Self::Closed(closed) => to.mlp("policy/skill.decoder", &closed.net.part),
        }
    }

    /// Reads it back.
    pub fn load(&mut self, from: &Loader) -> Result<()> {
        for (name, params, _) in self.parts() {
            from.f32s_into(&format!("policy/skill.{name}"), params)?;
        }
        Ok(())
    }
}

impl OpenLoop {
    /// The cell, its head, and the first h, c and "previous action".
    pub(super) fn parts_of(&self) -> (&Lstm, &Mlp, [&[f32]; 3]) {
        let (h, rest) = self.start.part.split_at(self.cell.part.hidden());
        let (c, action) = rest.split_at(self.cell.part.hidden());
        (&self.cell.part, &self.head.part, [h, c, action])
    }

    fn unroll(&mut self, z: &[f32], rows: usize) {
        let (h, d, a) = (self.cell.part.hidden(), self.skill, self.action);
        assert_eq!(z.len(), rows * d);
        let (h0, rest) = self.start.part.split_at(h);
        let (c0, a0) = rest.split_at(h);
        self.cell.part.begin(Some((h0, c0)), rows, &mut self.tape);
        self.heads.resize_with(self.horizon, Tape::default);
        self.input.resize(rows * (a + d), 0.0);
        for t in 0..self.horizon {
            for (row, input) in self.input.chunks_exact_mut(a + d).enumerate() {
                let last = if t == 0 { a0 } else { &self.heads[t - 1].output()[row * a..][..a] };
                input[..a].copy_from_slice(last);
                input[a..].copy_from_slice(&z[row * d..][..d]);
            }
            let hidden = self.cell.part.step_forward(t, &self.input, rows, &mut self.tape);
            self.head.part.forward(hidden, rows, &mut self.heads[t]);
        }
    }

    /// Last step first: an action's error also flows through the steps that saw it as their last action.
    fn backward(&mut self, d_actions: &[f32], rows: usize, d_z: &mut [f32]) {
        let (h, d, a) = (self.cell.part.hidden(), self.skill, self.action);
        self.d_out.clear();
        self.d_out.resize(rows * a, 0.0);
        self.d_h.resize(rows * h, 0.0);
        self.d_x.resize(rows * (a + d), 0.0);
        for t in (0..self.horizon).rev() {
            self.d_out.iter_mut().zip(&d_actions[t * rows * a..]).for_each(|(sum, d)| *sum += d);
            let grad = Some(&mut self.head.grad[..]);
            let hidden = self.tape.h(t);
            self.head.part.backward(hidden, rows, &mut self.heads[t], &self.d_out, grad, Some(&mut self.d_h));
            let grad = Some(&mut self.cell.grad[..]);
            self.cell.part.step_backward(t, Some(&self.d_h), rows, &mut self.tape, grad, Some(&mut self.d_x));
            for (row, d_x) in self.d_x.chunks_exact(a + d).enumerate() {
                self.d_out[row * a..][..a].copy_from_slice(&d_x[..a]);
                d_z[row * d..][..d].iter_mut().zip(&d_x[a..]).for_each(|(z, x)| *z += x);
            }
        }
        let (d_h0, rest) = self.start.grad.split_at_mut(h);
        let (d_c0, d_a0) = rest.split_at_mut(h);
        self.cell.part.start_backward(rows, &self.tape, d_h0, d_c0);
        for row in self.d_out.chunks_exact(a) {
            d_a0.iter_mut().zip(row).for_each(|(g, d)| *g += d);
        }
    }
}

impl ClosedLoop {
    /// Rows `[s, z]`, all rows of step 0 first.
    fn join(&mut self, z: &[f32], states: &[f32], rows: usize) {
        let inputs = self.net.part.inputs();
        let (d, obs) = (self.skill, inputs - self.skill);
        let all = states.len() / obs;
        self.input.resize(all * inputs, 0.0);
        for (i, (input, state)) in self.input.chunks_exact_mut(inputs).zip(states.chunks_exact(obs)).enumerate() {
            input[..obs].copy_from_slice(state);
            input[obs..].copy_from_slice(&z[(i % rows) * d..][..d]);
        }
    }

    fn backward(&mut self, d_actions: &[f32], rows: usize, d_z: &mut [f32]) {
        let inputs = self.net.part.inputs();
        let (d, obs) = (self.skill, inputs - self.skill);
        let all = self.input.len() / inputs;
        self.d_input.resize(all * inputs, 0.0);
        let grad = Some(&mut self.net.grad[..]);
        let d_input = Some(&mut self.d_input[..]);
        self.net.part.backward(&self.input, all, &mut self.tape, d_actions, grad, d_input);
        for (i, row) in self.d_input.chunks_exact(inputs).enumerate() {
            d_z[(i % rows) * d..][..d].iter_mut().zip(&row[obs..]).for_each(|(z, x)| *z += x);
        }
    }
}
