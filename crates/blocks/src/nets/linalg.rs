//! Matrix products of row-major matrices, on one thread. The only place that knows the `gemm` crate.

use std::cell::Cell;

thread_local! {
    static OPERATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Floating-point operations of all matrix products that this thread has done: 2·m·k·n for each, whatever its form. Benchmarks
/// compare them with the time.
pub fn operations() -> u64 {
    OPERATIONS.get()
}

/// Every product below counts itself, which costs about a nanosecond.
fn count(m: usize, k: usize, n: usize) {
    OPERATIONS.set(OPERATIONS.get() + 2 * (m * k * n) as u64);
}

fn product(
    (m, k, n): (usize, usize, usize),
    out: &mut [f32],
    a: (&[f32], usize, usize), // values, row stride, column stride
    b: (&[f32], usize, usize),
    add: bool,
) {
    assert!(out.len() >= m * n && a.0.len() >= m * k && b.0.len() >= k * n, "matrix sizes {m}x{k}x{n}");
    // SAFETY: the three slices hold m·n, m·k and k·n values (checked above), and the strides address exactly those.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            add,
            a.0.as_ptr(),
            a.2 as isize,
            a.1 as isize,
            b.0.as_ptr(),
            b.2 as isize,
            b.1 as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// The sum of products, in sixteen lanes so that it vectorises; always in the same order.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 16];
    let (a_chunks, b_chunks) = (a.chunks_exact(16), b.chunks_exact(16));
    let tail: f32 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a_chunks.zip(b_chunks) {
        for i in 0..16 {
            lanes[i] += x[i] * y[i];
        }
    }
    lanes.iter().sum::<f32>() + tail
}

/// `out[m,n] = a[m,k]·b[k,n]`.
pub fn ab(out: &mut [f32], a: &[f32], b: &[f32], m: usize, k: usize, n: usize) {
    count(m, k, n);
    // A critic's last layer: packing a matrix for one column costs more than the product.
    if n == 1 {
        assert!(out.len() >= m && a.len() >= m * k && b.len() >= k);
        for (y, row) in out.iter_mut().zip(a.chunks_exact(k)).take(m) {
            *y = dot(row, &b[..k]);
        }
        return;
    }
    product((m, k, n), out, (a, k, 1), (b, n, 1), false);
}

/// `out[m,n] += a[m,k]·b[k,n]`.
pub fn add_ab(out: &mut [f32], a: &[f32], b: &[f32], m: usize, k: usize, n: usize) {
    count(m, k, n);
    product((m, k, n), out, (a, k, 1), (b, n, 1), true);
}

/// `out[m,n] = a[m,k]·b[n,k]ᵀ`.
pub fn abt(out: &mut [f32], a: &[f32], b: &[f32], m: usize, k: usize, n: usize) {
    count(m, k, n);
    if k == 1 {
        assert!(out.len() >= m * n && a.len() >= m && b.len() >= n);
        for (row, x) in out.chunks_exact_mut(n).zip(a).take(m) {
            row.iter_mut().zip(b).for_each(|(o, y)| *o = x * y);
        }
        return;
    }
    product((m, k, n), out, (a, k, 1), (b, 1, k), false);
}

/// `out[m,n] += a[k,m]ᵀ·b[k,n]`.
pub fn add_atb(out: &mut [f32], a: &[f32], b: &[f32], m: usize, k: usize, n: usize) {
    count(m, k, n);
    if n == 1 {
        assert!(out.len() >= m && a.len() >= m * k && b.len() >= k);
        for (row, y) in a.chunks_exact(m).zip(b).take(k) {
            out.iter_mut().zip(row).for_each(|(o, x)| *o += x * y);
        }
        return;
    }
    product((m, k, n), out, (a, 1, m), (b, n, 1), true);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_agree_with_pencil_and_paper() {
        let a = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; // 2x3
        let b = [1.0, 0.0, -1.0, 2.0, 0.5, 1.0]; // 3x2
        let mut out = [9.0; 4];
        let before = operations();
        ab(&mut out, &a, &b, 2, 3, 2);
        assert_eq!(operations() - before, 24);
        assert_eq!(out, [0.5, 7.0, 2.0, 16.0]);
        add_ab(&mut out, &a, &b, 2, 3, 2);
        assert_eq!(out, [1.0, 14.0, 4.0, 32.0]);
        // a·cᵀ with c = bᵀ stored as 2x3
        abt(&mut out, &a, &[1.0, -1.0, 0.5, 0.0, 2.0, 1.0], 2, 3, 2);
        assert_eq!(out, [0.5, 7.0, 2.0, 16.0]);
        // One column: the short cuts agree with the general product.
        let mut one = [9.0; 2];
        ab(&mut one, &a, &[1.0, -1.0, 0.5], 2, 3, 1);
        assert_eq!(one, [0.5, 2.0]);
        let mut one = [1.0; 3];
        add_atb(&mut one, &a, &[1.0, -1.0], 3, 2, 1);
        assert_eq!(one, [-2.0, -2.0, -2.0]);
        let mut one = [9.0; 4];
        abt(&mut one, &[2.0, 3.0], &[5.0, -1.0], 2, 1, 2);
        assert_eq!(one, [10.0, -2.0, 15.0, -3.0]);
        // aᵀ·b with a as 3x2
        let mut out = [1.0; 4];
        add_atb(&mut out, &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0], &b, 2, 3, 2);
        assert_eq!(out, [1.5, 8.0, 3.0, 17.0]);
    }
}
