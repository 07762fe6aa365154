//! By faer.

use std::ops::Range;

use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};

use super::Eigen;

/// From this width on the eigensolver works in parallel; below, its tasks would cost more than they save.
const PARALLEL_WIDTH: usize = 512;

/// Tasks the parallel eigensolver splits a step into. Their number decides where sums are cut, and so the bits: it must
/// not depend on the number of threads.
const SOLVER_TASKS: usize = 8;

/// `out = a b^T`, for rows of `width` values.
pub(crate) fn products(a: &[f64], b: &[f64], width: usize, out: &mut [f64]) {
    let (rows, columns) = (a.len() / width, b.len() / width);
    matmul(
        MatMut::from_row_major_slice_mut(out, rows, columns),
        Accum::Replace,
        MatRef::from_row_major_slice(a, rows, width),
        MatRef::from_row_major_slice(b, columns, width).transpose(),
        1.0,
        Par::Seq,
    );
}

/// `out = scale a b^T`, for rows of `width` values, in any order of summation.
pub(crate) fn scaled_products(a: &[f32], b: &[f32], width: usize, scale: f32, out: &mut [f32]) {
    let (rows, columns) = (a.len() / width, b.len() / width);
    matmul(
        MatMut::from_row_major_slice_mut(out, rows, columns),
        Accum::Replace,
        MatRef::from_row_major_slice(a, rows, width),
        MatRef::from_row_major_slice(b, columns, width).transpose(),
        scale,
        Par::Seq,
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
    let (a_rows, b_rows) = (a.len() / width, b.len() / width);
    let part = |values, rows| {
        MatRef::from_row_major_slice(values, rows, width).subcols(columns.start, columns.len())
    };
    matmul(
        MatMut::from_row_major_slice_mut(out, a_rows, b_rows),
        Accum::Add,
        part(a, a_rows),
        part(b, b_rows).transpose(),
        1.0,
        Par::Seq,
    );
}

/// Adds rows `start..` of the lower triangle of `data^T data` to `out`, as many as it holds.
pub(crate) fn add_gram(data: &[f64], width: usize, start: usize, out: &mut [f64]) {
    let data = MatRef::from_row_major_slice(data, data.len() / width, width);
    let height = out.len() / width;
    let end = start + height;
    matmul(
        MatMut::from_row_major_slice_mut(out, height, width).subcols_mut(0, end),
        Accum::Add,
        data.subcols(start, height).transpose(),
        data.subcols(0, end),
        1.0,
        Par::Seq,
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
    let (width, height) = (columns.len() / count, out.len() / count);
    let matrix = MatRef::from_row_major_slice(matrix, width, width);
    let matrix = if transposed { matrix.transpose() } else { matrix };
    matmul(
        MatMut::from_row_major_slice_mut(out, height, count),
        Accum::Replace,
        matrix.subrows(start, height),
        MatRef::from_row_major_slice(columns, width, count),
        1.0,
        Par::Seq,
    );
}

/// The eigenvalues and eigenvectors of a matrix given by its lower triangle.
pub fn eigen(lower: &[f64], width: usize) -> Option<Eigen> {
    let tasks = if width < PARALLEL_WIDTH { Par::Seq } else { Par::rayon(SOLVER_TASKS) };
    let mut values = Diag::<f64>::zeros(width);
    let mut directions = Mat::<f64>::zeros(width, width);
    let mut memory = MemBuffer::new(self_adjoint_evd_scratch::<f64>(
        width,
        ComputeEigenvectors::Yes,
        tasks,
        Default::default(),
    ));
    self_adjoint_evd(
        MatRef::from_row_major_slice(lower, width, width),
        values.as_mut(),
        Some(directions.as_mut()),
        tasks,
        MemStack::new(&mut memory),
        Default::default(),
    )
    .ok()?;
    Some(Eigen {
        values: values.column_vector().iter().copied().collect(),
        vectors: (0..width).flat_map(|at| directions.col(at).iter().copied()).collect(),
    })
}
