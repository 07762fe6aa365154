//! Small collections for tests, with leaks of a known size.

use crate::subject::{KeyFamily, Subject, cells_of, protect};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{generator, sample};
use crate::view::ServerView;

/// Standard normal numbers.
pub(super) fn normals(rows: usize, width: usize, seed: u64) -> Matrix {
    Matrix::normal(rows, width, &mut generator(seed, 9))
}

/// A collection whose coordinates are its vectors: standard normal in the prefix, of deviation
/// `spread` in the residual, then scaled to unit length. As many cells as documents are micro-keys. Every third document gives
/// a query near to it.
pub(super) fn subject(
    documents: usize,
    width: usize,
    prefix_width: usize,
    cells: usize,
    spread: f64,
    public_routing: bool,
) -> Subject {
    let mut vectors = normals(documents, width, 40);
    for row in 0..documents {
        vectors.row_mut(row)[prefix_width..].iter_mut().for_each(|x| *x *= spread);
    }
    let vectors = vectors.normalised();
    let mut rng = generator(41, 0);
    let cells = if cells == documents {
        (0..documents as u32).collect()
    } else {
        cells_of(&vectors.columns(0..prefix_width), cells, &mut rng).unwrap()
    };
    let order = sample(documents, documents, &mut rng);
    let row_cells: Vec<u32> = order.iter().map(|&document| cells[document]).collect();
    let residuals = vectors.part(&order, prefix_width..width);
    let mut release = protect(&residuals, &row_cells, KeyFamily::Orthogonal, &mut rng);
    release.prefixes = public_routing.then(|| vectors.part(&order, 0..prefix_width));
    let mut queries = vectors.select(&(0..documents).step_by(3).collect::<Vec<_>>());
    let noise = normals(queries.rows(), width, 42);
    queries.values_mut().iter_mut().zip(noise.values()).for_each(|(x, e)| *x += 0.05 * e);
    Subject {
        coordinates: vectors.clone(),
        vectors,
        given: None,
        axes: None,
        other_lengths: Vec::new(),
        prefix_width,
        cells,
        keys: KeyFamily::Orthogonal,
        texts: None,
        queries: Some(queries),
        view: ServerView { releases: vec![release], requests: Vec::new() },
        documents: order,
        canaries: Vec::new(),
        seed: 6,
    }
}
