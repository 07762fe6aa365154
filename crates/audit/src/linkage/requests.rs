//! Requests as a server would see them, made from sample queries.
//!
//! A query's candidates are the `K` documents whose centred prefixes are nearest to its own. A
//! subject has the coordinates of its documents and not the basis, so the basis is fitted back
//! ([`Affine`]).

use anyhow::Result;
use rand_core::Rng;

use super::same_key::rows_of_documents;
use crate::alignment::affine::Affine;
use crate::subject::Subject;
use crate::tools::matrix::Matrix;
use crate::tools::neighbours::{Metric, nearest_within};

/// Candidates of a request, as the client asks for by default.
pub const CANDIDATES: usize = 128;

/// A request of a sample query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Documents, nearest prefix first: the judge's names for what was asked.
    pub documents: Vec<usize>,
    /// The same as rows of the release, nearest prefix first.
    pub ranked: Vec<usize>,
}

impl Request {
    /// The rows in the order they are sent: that of the release, which is by handle.
    pub fn as_sent(&self) -> Vec<usize> {
        let mut rows = self.ranked.clone();
        rows.sort_unstable();
        rows
    }
}

/// The requests of queries, each for at most a quarter of the documents.
///
/// # Errors
/// When a decomposition does not converge.
pub fn requests(subject: &Subject, queries: &Matrix) -> Result<Vec<Request>> {
    let count = CANDIDATES.min(subject.vectors.rows() / 4).max(1);
    let rows = rows_of_documents(&subject.documents);
    let prefixes = coordinates_of(subject, queries)?.columns(0..subject.prefix_width);
    let found = nearest_within(
        &prefixes,
        (&subject.coordinates, 0..subject.prefix_width),
        count,
        Metric::Distance,
        |_, _| true,
    );
    let request = |documents: Vec<u32>| {
        let documents: Vec<usize> = documents.into_iter().map(|it| it as usize).collect();
        let ranked = documents.iter().map(|&document| rows[document]).collect();
        Request { documents, ranked }
    };
    Ok(found.into_iter().map(request).collect())
}

/// `V^T (q - mu)` of other vectors, by the basis that the documents' coordinates imply.
///
/// # Errors
/// When a decomposition does not converge.
pub fn coordinates_of(subject: &Subject, vectors: &Matrix) -> Result<Matrix> {
    Ok(Affine::between(&subject.vectors, &subject.coordinates, subject.seed)?.apply(vectors))
}

/// A query near each: `q + jitter |q| g / |g|` with `g` standard normal, at a cosine of about
/// `1 / sqrt(1 + jitter^2)`.
pub fn jittered(queries: &Matrix, jitter: f64, rng: &mut impl Rng) -> Matrix {
    let noise = Matrix::normal(queries.rows(), queries.width(), rng).normalised();
    let mut out = queries.clone();
    for (row, norm) in queries.norms().into_iter().enumerate() {
        let noise = noise.row(row);
        out.row_mut(row).iter_mut().zip(noise).for_each(|(x, e)| *x += jitter * norm * e);
    }
    out
}

#[cfg(test)]
mod tests {
    use shard_geometry::{Pca, VectorSet};

    use super::super::planted;
    use super::*;

    #[test]
    fn the_basis_comes_back_from_coordinates_in_spite_of_a_dead_one() {
        let mut subject = planted::subject(300, 12, 4, 3, 0.8, false);
        let mut all = planted::normals(320, 12, 4);
        (0..320).for_each(|row| all.row_mut(row)[5] = 0.0);
        let narrow = |matrix: &Matrix| {
            let values = matrix.values().iter().map(|&x| x as f32).collect();
            VectorSet::new(12, values).unwrap()
        };
        let documents = narrow(&all.select(&(0..300).collect::<Vec<_>>()));
        let pca = Pca::fit(&documents).unwrap();
        subject.coordinates = crate::subject::coordinates(&pca, &documents);
        subject.vectors = Matrix::from_vectors(&documents);
        let queries = narrow(&all.select(&(300..320).collect::<Vec<_>>()));
        let expected = crate::subject::coordinates(&pca, &queries);
        let found = coordinates_of(&subject, &Matrix::from_vectors(&queries)).unwrap();
        let worst = found.values().iter().zip(expected.values()).map(|(a, b)| (a - b).abs());
        assert!(worst.fold(0.0, f64::max) < 1e-9);
    }

    #[test]
    fn requests_name_the_nearest_prefixes_and_send_them_by_handle() {
        let subject = planted::subject(300, 16, 8, 4, 1.0, false);
        let queries = subject.queries.clone().unwrap();
        let requests = requests(&subject, &queries).unwrap();
        assert_eq!(requests.len(), 100);
        for (at, request) in requests.iter().enumerate() {
            assert_eq!(request.ranked.len(), 75);
            assert_eq!(request.documents[0], 3 * at, "the query's own document is nearest");
            assert_eq!(subject.documents[request.ranked[0]], 3 * at);
            assert!(request.as_sent().is_sorted() && !request.ranked.is_sorted());
        }
    }
}
