//! By plain loops.

use std::ops::Range;

use super::Eigen;
use crate::kernel;

/// Iterations for one eigenvalue; three are usual.
const MOST_ITERATIONS: usize = 60;

/// `out = a b^T`, for rows of `width` values.
pub(crate) fn products(a: &[f64], b: &[f64], width: usize, out: &mut [f64]) {
    let columns = b.len() / width;
    kernel::dispatch(
        #[inline(always)]
        || {
            for (a, out) in a.chunks_exact(width).zip(out.chunks_exact_mut(columns)) {
                for (b, out) in b.chunks_exact(width).zip(out) {
                    *out = kernel::dot(a, b);
                }
            }
        },
    );
}

/// `out = scale a b^T`, for rows of `width` values, in any order of summation.
pub(crate) fn scaled_products(a: &[f32], b: &[f32], width: usize, scale: f32, out: &mut [f32]) {
    let columns = b.len() / width;
    kernel::dispatch(
        #[inline(always)]
        || {
            for (a, out) in a.chunks_exact(width).zip(out.chunks_exact_mut(columns)) {
                for (b, out) in b.chunks_exact(width).zip(out) {
                    *out = scale * kernel::dot_f32(a, b) as f32;
                }
            }
        },
    );
}

/// `out += a b^T` over some columns of rows of `width` values, in any order of summation.
pub(crate) fn add_products(
    a: &[f32],
    b: &[f32],
    width: usize,
    columns: Range<usize>,
    out: &mut [f32],
) {
    let rows = b.len() / width;
    kernel::dispatch(
        #[inline(always)]
        || {
            for (a, out) in a.chunks_exact(width).zip(out.chunks_exact_mut(rows)) {
                for (b, out) in b.chunks_exact(width).zip(out) {
                    *out += kernel::product(&a[columns.clone()], &b[columns.clone()]);
                }
            }
        },
    );
}

/// Adds rows `start..` of the lower triangle of `data^T data` to `out`, as many as it holds.
pub(crate) fn add_gram(data: &[f64], width: usize, start: usize, out: &mut [f64]) {
    kernel::dispatch(
        #[inline(always)]
        || {
            for row in data.chunks_exact(width) {
                for (at, out) in (start..).zip(out.chunks_exact_mut(width)) {
                    for (out, value) in out[..=at].iter_mut().zip(row) {
                        *out += row[at] * value;
                    }
                }
            }
        },
    );
}

/// Rows `start..` of `matrix columns`, or of `matrix^T columns`, as many as `out` holds; `matrix` is square, and
/// `columns` has `count` of them.
pub(crate) fn multiply(
    matrix: &[f64],
    transposed: bool,
    columns: &[f64],
    count: usize,
    start: usize,
    out: &mut [f64],
) {
    let width = columns.len() / count;
    for (row, out) in (start..).zip(out.chunks_exact_mut(count)) {
        out.fill(0.0);
        for (at, column) in columns.chunks_exact(count).enumerate() {
            let entry =
                if transposed { matrix[at * width + row] } else { matrix[row * width + at] };
            out.iter_mut().zip(column).for_each(|(out, value)| *out += entry * value);
        }
    }
}

/// The eigenvalues and eigenvectors of a matrix given by its lower triangle: Householder reduction to tridiagonal form,
/// then the implicit QL method, as in EISPACK's `tred2` and `tql2`.
pub fn eigen(lower: &[f64], width: usize) -> Option<Eigen> {
    let mut rows = vec![0.0; width * width];
    for (at, row) in lower.chunks_exact(width).enumerate() {
        for (column, &value) in row[..=at].iter().enumerate() {
            rows[at * width + column] = value;
            rows[column * width + at] = value;
        }
    }
    let mut work =
        Tridiagonal { width, rows, diagonal: vec![0.0; width], beside: vec![0.0; width] };
    work.reduce();
    work.accumulate();
    work.solve()?;
    Some(Eigen { values: work.diagonal, vectors: work.rows })
}

struct Tridiagonal {
    width: usize,
    /// Transposed: in the end an eigenvector per row.
    rows: Vec<f64>,
    diagonal: Vec<f64>,
    /// Entry `i` is left of the diagonal's entry `i`.
    beside: Vec<f64>,
}

impl Tridiagonal {
    /// Householder reduction, from the last row up. Row `i` keeps the reflection that cleared it.
    fn reduce(&mut self) {
        let n = self.width;
        let (v, d, e) = (&mut self.rows, &mut self.diagonal, &mut self.beside);
        for (j, d) in d.iter_mut().enumerate() {
            *d = v[j * n + n - 1];
        }
        for i in (1..n).rev() {
            let scale: f64 = d[..i].iter().map(|value| value.abs()).sum();
            let mut h = 0.0;
            if scale == 0.0 {
                e[i] = d[i - 1];
                for j in 0..i {
                    d[j] = v[j * n + i - 1];
                    v[j * n + i] = 0.0;
                    v[i * n + j] = 0.0;
                }
            } else {
                for value in &mut d[..i] {
                    *value /= scale;
                    h += *value * *value;
                }
                let f = d[i - 1];
                let g = if f > 0.0 { -h.sqrt() } else { h.sqrt() };
                e[i] = scale * g;
                h -= f * g;
                d[i - 1] = f - g;
                e[..i].fill(0.0);
                for j in 0..i {
                    let f = d[j];
                    v[i * n + j] = f;
                    let column = &v[j * n..(j + 1) * n];
                    let mut g = e[j] + column[j] * f;
                    for k in j + 1..i {
                        g += column[k] * d[k];
                        e[k] += column[k] * f;
                    }
                    e[j] = g;
                }
                let mut f = 0.0;
                for j in 0..i {
                    e[j] /= h;
                    f += e[j] * d[j];
                }
                let half = f / (h + h);
                for j in 0..i {
                    e[j] -= half * d[j];
                }
                for j in 0..i {
                    let (f, g) = (d[j], e[j]);
                    let column = &mut v[j * n..(j + 1) * n];
                    for k in j..i {
                        column[k] -= f * e[k] + g * d[k];
                    }
                    d[j] = column[i - 1];
                    column[i] = 0.0;
                }
            }
            d[i] = h;
        }
    }

    /// Multiplies the reflections out.
    fn accumulate(&mut self) {
        let n = self.width;
        let (v, d) = (&mut self.rows, &mut self.diagonal);
        for i in 0..n - 1 {
            v[i * n + n - 1] = v[i * n + i];
            v[i * n + i] = 1.0;
            let (before, after) = v.split_at_mut((i + 1) * n);
            let reflection = &mut after[..=i];
            let h = d[i + 1];
            if h != 0.0 {
                d[..=i].iter_mut().zip(&*reflection).for_each(|(d, value)| *d = value / h);
                for column in before.chunks_exact_mut(n) {
                    let g: f64 = reflection.iter().zip(&*column).map(|(a, b)| a * b).sum();
                    column.iter_mut().zip(&d[..=i]).for_each(|(value, d)| *value -= g * d);
                }
            }
            reflection.fill(0.0);
        }
        for j in 0..n {
            d[j] = v[j * n + n - 1];
            v[j * n + n - 1] = 0.0;
        }
        v[n * n - 1] = 1.0;
    }

    /// The implicit QL method. `None` when an eigenvalue does not converge.
    fn solve(&mut self) -> Option<()> {
        let n = self.width;
        let (v, d, e) = (&mut self.rows, &mut self.diagonal, &mut self.beside);
        e.copy_within(1.., 0);
        e[n - 1] = 0.0;
        let (mut shift, mut largest) = (0.0, 0.0f64);
        for l in 0..n {
            largest = largest.max(d[l].abs() + e[l].abs());
            let negligible = |value: f64| value.abs() <= f64::EPSILON * largest;
            let m = (l..n).find(|&at| negligible(e[at]))?;
            for iteration in 0.. {
                if m == l || iteration > 0 && negligible(e[l]) {
                    break;
                }
                if iteration == MOST_ITERATIONS {
                    return None;
                }
                let g = d[l];
                let p = (d[l + 1] - g) / (2.0 * e[l]);
                let r = length(p, 1.0).copysign(p);
                d[l] = e[l] / (p + r);
                d[l + 1] = e[l] * (p + r);
                let next = d[l + 1];
                let h = g - d[l];
                d[l + 2..].iter_mut().for_each(|value| *value -= h);
                shift += h;
                let mut p = d[m];
                let (mut c, mut c2, mut c3, mut s, mut s2) = (1.0, 1.0, 1.0, 0.0, 0.0);
                let above = e[l + 1];
                for i in (l..m).rev() {
                    (c3, c2, s2) = (c2, c, s);
                    let (g, h) = (c * e[i], c * p);
                    let r = length(p, e[i]);
                    e[i + 1] = s * r;
                    s = e[i] / r;
                    c = p / r;
                    p = c * d[i] - s * g;
                    d[i + 1] = h + s * (c * g + s * d[i]);
                    let (low, high) = v.split_at_mut((i + 1) * n);
                    for (low, high) in low[i * n..].iter_mut().zip(high) {
                        let h = *high;
                        *high = s * *low + c * h;
                        *low = c * *low - s * h;
                    }
                }
                p = -s * s2 * c3 * above * e[l] / next;
                e[l] = s * p;
                d[l] = c * p;
            }
            d[l] += shift;
            e[l] = 0.0;
        }
        Some(())
    }
}

/// `sqrt(a^2 + b^2)` without overflow.
fn length(a: f64, b: f64) -> f64 {
    let (large, small) = if a.abs() > b.abs() { (a.abs(), b.abs()) } else { (b.abs(), a.abs()) };
    if large == 0.0 { 0.0 } else { large * (1.0 + (small / large) * (small / large)).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values between -1 and 1 that look random.
    fn values(count: usize) -> Vec<f64> {
        (1..=count).map(|at| (at as f64 * 12.9898).sin() * 43_758.547 % 1.0).collect()
    }

    /// `G^T G` of `rows` rows, the lower triangle.
    fn gram(rows: usize, width: usize) -> Vec<f64> {
        let mut out = vec![0.0; width * width];
        add_gram(&values(rows * width), width, 0, &mut out);
        out
    }

    #[test]
    fn eigenvectors_are_orthonormal_and_put_the_matrix_together_again() {
        for (rows, width) in [(1, 1), (4, 3), (3, 8), (100, 40)] {
            let lower = gram(rows, width);
            let found = eigen(&lower, width).unwrap();
            let vector = |at: usize| &found.vectors[at * width..(at + 1) * width];
            for i in 0..width {
                for j in 0..=i {
                    let product = kernel::dot(vector(i), vector(j));
                    let expected = if i == j { 1.0 } else { 0.0 };
                    assert!((product - expected).abs() < 1e-12, "{width} {i} {j} {product}");
                    let entry: f64 =
                        (0..width).map(|at| found.values[at] * vector(at)[i] * vector(at)[j]).sum();
                    assert!((entry - lower[i * width + j]).abs() < 1e-11, "{width} {i} {j}");
                }
            }
        }
    }

    #[test]
    fn a_diagonal_matrix_is_its_own_answer() {
        let found = eigen(&[3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0], 3).unwrap();
        let mut values = found.values;
        values.sort_by(f64::total_cmp);
        assert_eq!(values, [0.0, 3.0, 5.0]);
    }

    #[cfg(feature = "faer")]
    #[test]
    fn both_ways_agree() {
        use crate::linear::fast;
        let (width, rows) = (24, 10);
        let (a, b) = (values(rows * width), values(rows * width + 1)[1..].to_vec());
        let (mut ours, mut theirs) = (vec![0.0; rows * rows], vec![0.0; rows * rows]);
        products(&a, &b, width, &mut ours);
        fast::products(&a, &b, width, &mut theirs);
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-11);
        assert!(close(&ours, &theirs));

        let narrow = |values: &[f64]| values.iter().map(|&x| x as f32).collect::<Vec<f32>>();
        let (mut one, mut other) = (vec![0.0; rows * rows], vec![0.0; rows * rows]);
        scaled_products(&narrow(&a), &narrow(&b), width, -2.0, &mut one);
        fast::scaled_products(&narrow(&a), &narrow(&b), width, -2.0, &mut other);
        assert!(one.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-4));
        add_products(&narrow(&a), &narrow(&b), width, 5..19, &mut one);
        fast::add_products(&narrow(&a), &narrow(&b), width, 5..19, &mut other);
        assert!(one.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-4));

        let (mut ours, mut theirs) = (vec![0.5; 8 * width], vec![0.5; 8 * width]);
        add_gram(&a, width, 16, &mut ours);
        fast::add_gram(&a, width, 16, &mut theirs);
        for (row, at) in (16..width).enumerate() {
            let lower = row * width..row * width + at + 1;
            assert!(close(&ours[lower.clone()], &theirs[lower]), "row {at}");
        }

        let lower = gram(30, width);
        for transposed in [false, true] {
            let columns = values(width * 3);
            let (mut ours, mut theirs) = (vec![0.0; 5 * 3], vec![0.0; 5 * 3]);
            multiply(&lower, transposed, &columns, 3, 7, &mut ours);
            fast::multiply(&lower, transposed, &columns, 3, 7, &mut theirs);
            assert!(close(&ours, &theirs));
        }
        let sorted = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values
        };
        let ours = sorted(eigen(&lower, width).unwrap().values);
        assert!(close(&ours, &sorted(fast::eigen(&lower, width).unwrap().values)));
    }
}
