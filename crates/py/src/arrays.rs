//! Numbers that Python gives: copied, and refused where they are not what is needed.

use numpy::ndarray::{ArrayView, Dimension};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Draws from [0, 1) as draws from the box [−1, 1): what NumPy's `uniform(-1, 1)` makes of them, then as `f32`, in one call instead of three.
#[pyfunction]
pub fn within_box<'py>(py: Python<'py>, draws: PyReadonlyArray1<'py, f64>) -> Bound<'py, PyArray1<f32>> {
    PyArray1::from_iter(py, draws.as_array().iter().map(|draw| (-1.0 + 2.0 * draw) as f32))
}

/// Copies `from`, called `what` where it is refused: for another shape than `shape`, or for a number that is not finite as an `f32`.
pub fn copy<T: Copy, D: Dimension>(
    what: &str,
    from: ArrayView<'_, T, D>,
    shape: &[usize],
    as_f32: fn(T) -> f32,
    into: &mut [f32],
) -> PyResult<()> {
    let got = from.shape();
    if got != shape {
        let (last, rest) = shape.split_last().expect("one dimension at least");
        let words = match got.split_last() {
            Some((columns, rows)) if rows == rest => format!("{columns} numbers where {last} are needed"),
            _ => format!("{got:?} numbers where {shape:?} are needed"),
        };
        return Err(PyValueError::new_err(format!("{what}: it has {words}")));
    }
    for (to, from) in into.iter_mut().zip(from) {
        *to = as_f32(*from);
    }
    let Some(i) = into.iter().position(|x| !x.is_finite()) else { return Ok(()) };
    let columns = shape[shape.len() - 1];
    let row = if shape.len() > 1 { format!(" of row {}", i / columns) } else { String::new() };
    Err(PyValueError::new_err(format!("{what}: number {}{row} is not finite", i % columns)))
}
