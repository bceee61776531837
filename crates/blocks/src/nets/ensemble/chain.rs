//! Layers one after the other: a member's trunk, or one of its heads.

use crate::nets::linalg;

/// Where a layer's weights `[inputs, outputs]` and biases lie within a member's parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer {
    pub(super) at: usize,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

impl Layer {
    fn split<'p>(&self, member: &'p [f32]) -> (&'p [f32], &'p [f32]) {
        member[self.at..self.at + (self.inputs + 1) * self.outputs].split_at(self.inputs * self.outputs)
    }
    fn split_mut<'p>(&self, member: &'p mut [f32]) -> (&'p mut [f32], &'p mut [f32]) {
        member[self.at..self.at + (self.inputs + 1) * self.outputs].split_at_mut(self.inputs * self.outputs)
    }
}

/// The slope of a ReLU that gave `y`, as a factor: the compiler turns a product into vector code, a choice into a branch
/// per number, which takes six times as long.
#[inline]
pub(super) fn open(y: f32) -> f32 {
    f32::from(u8::from(y > 0.0))
}

/// Layers one after the other, with a ReLU after each, the last one included only `if relu_last`.
pub(super) fn forward(
    params: &[f32],
    layers: &[Layer],
    relu_last: bool,
    x: &[f32],
    rows: usize,
    outs: &mut [Vec<f32>],
) {
    for (i, layer) in layers.iter().enumerate() {
        let (weights, bias) = layer.split(params);
        let (before, after) = outs.split_at_mut(i);
        let input = before.last().map_or(x, |out| &out[..]);
        let out = &mut after[0];
        out.resize(rows * layer.outputs, 0.0);
        linalg::ab(out, input, weights, rows, layer.inputs, layer.outputs);
        let relu = relu_last || i + 1 < layers.len();
        for row in out.chunks_exact_mut(layer.outputs) {
            for (y, b) in row.iter_mut().zip(bias) {
                *y += b;
            }
            if relu {
                row.iter_mut().for_each(|y| *y = y.max(0.0));
            }
        }
    }
}

/// The way back through a chain. `here` holds the gradient at the last layer before its ReLU, and afterwards the one at
/// the chain's input, if asked.
pub(super) fn backward(
    params: &[f32],
    grad: &mut [f32],
    layers: &[Layer],
    x: &[f32],
    rows: usize,
    outs: &[Vec<f32>],
    here: &mut Vec<f32>,
    below: &mut Vec<f32>,
    input_too: bool,
) {
    for (i, layer) in layers.iter().enumerate().rev() {
        let delta = &here[..rows * layer.outputs];
        let input = if i == 0 { x } else { &outs[i - 1][..] };
        let (weights, _) = layer.split(params);
        let (d_weights, d_bias) = layer.split_mut(grad);
        linalg::add_atb(d_weights, input, delta, layer.inputs, rows, layer.outputs);
        for row in delta.chunks_exact(layer.outputs) {
            for (g, d) in d_bias.iter_mut().zip(row) {
                *g += d;
            }
        }
        if i == 0 && !input_too {
            return;
        }
        below.resize(rows * layer.inputs, 0.0);
        linalg::abt(below, delta, weights, rows, layer.outputs, layer.inputs);
        if i > 0 {
            for (d, y) in below.iter_mut().zip(input) {
                *d *= open(*y);
            }
        }
        std::mem::swap(here, below);
    }
}
