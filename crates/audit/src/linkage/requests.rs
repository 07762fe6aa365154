//! Requests as a server would see them, made from sample queries.
//!
//! A query's candidates are the `K` documents whose centred prefixes are nearest to its own. A
//! subject has the coordinates of its documents and not the basis, so the basis is fitted back:
//! with centred vectors `X` and coordinates `Y = X V`, `V = (X^T X)^+ X^T Y`, where eigenvalues
//! below `1e-10` of the largest count as zero (encoders have dead coordinates).

use faer::Side;
use rand_core::Rng;
use shard_geometry::gaussian::Normals;

use super::same_key::rows_of_documents;
use crate::subject::Subject;
use crate::tools::matrix::Matrix;
use crate::tools::neighbours::{Metric, nearest};
use crate::tools::statistics::{generator, sample};

/// Candidates of a request, as the client asks for by default.
pub const CANDIDATES: usize = 128;

/// Rows that the basis is fitted to.
const FITTED: usize = 5_000;

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
pub fn requests(subject: &Subject, queries: &Matrix) -> Vec<Request> {
    let count = CANDIDATES.min(subject.vectors.rows() / 4).max(1);
    let rows = rows_of_documents(&subject.documents, subject.vectors.rows());
    let prefixes = coordinates_of(subject, queries).columns(0..subject.public);
    let found = nearest(&prefixes, &subject.prefixes(), count, Metric::Distance);
    let request = |documents: Vec<u32>| {
        let stored = documents.into_iter().map(|document| document as usize);
        let stored = stored.filter_map(|document| Some((document, rows[document]?)));
        let (documents, ranked) = stored.unzip();
        Request { documents, ranked }
    };
    found.into_iter().map(request).collect()
}

/// `V^T (q - mu)` of other vectors, by the basis that the documents' coordinates imply.
pub fn coordinates_of(subject: &Subject, vectors: &Matrix) -> Matrix {
    let chosen = sample(subject.vectors.rows(), FITTED, &mut generator(subject.seed, 150));
    let (x, x_mean) = centred(subject.vectors.select(&chosen));
    let (y, y_mean) = centred(subject.coordinates.select(&chosen));
    let gram = x.as_faer().transpose() * x.as_faer();
    let eigen = gram.self_adjoint_eigen(Side::Lower).expect("a finite symmetric matrix");
    let values: Vec<f64> = eigen.S().column_vector().iter().copied().collect();
    let largest = values.iter().fold(0.0, |largest: f64, &x| largest.max(x));
    let mut projected = eigen.U().transpose() * (x.as_faer().transpose() * y.as_faer());
    for (row, &value) in values.iter().enumerate() {
        let inverse = if value > 1e-10 * largest { 1.0 / value } else { 0.0 };
        (0..projected.ncols()).for_each(|column| projected[(row, column)] *= inverse);
    }
    let basis = Matrix::from_faer((eigen.U() * projected).as_ref());
    let mut shifted = vectors.clone();
    for row in 0..shifted.rows() {
        shifted.row_mut(row).iter_mut().zip(&x_mean).for_each(|(x, mean)| *x -= mean);
    }
    let mut coordinates = shifted.times(&basis);
    for row in 0..coordinates.rows() {
        coordinates.row_mut(row).iter_mut().zip(&y_mean).for_each(|(y, mean)| *y += mean);
    }
    coordinates
}

fn centred(mut rows: Matrix) -> (Matrix, Vec<f64>) {
    let mut mean = vec![0.0; rows.width()];
    rows.iter().for_each(|row| mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += x));
    mean.iter_mut().for_each(|mean| *mean /= rows.rows() as f64);
    for row in 0..rows.rows() {
        rows.row_mut(row).iter_mut().zip(&mean).for_each(|(x, mean)| *x -= mean);
    }
    (rows, mean)
}

/// Another wording of each query: `q + 0.1 |q| g / |g|` with `g` standard normal.
pub fn reworded(queries: &Matrix, rng: &mut impl Rng) -> Matrix {
    let mut noise = Matrix::zeros(queries.rows(), queries.width());
    Normals::new(rng).fill(noise.values_mut());
    let noise = noise.normalised();
    let mut out = queries.clone();
    for (row, norm) in queries.norms().into_iter().enumerate() {
        let noise = noise.row(row);
        out.row_mut(row).iter_mut().zip(noise).for_each(|(x, e)| *x += 0.1 * norm * e);
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
        let found = coordinates_of(&subject, &Matrix::from_vectors(&queries));
        let worst = found.values().iter().zip(expected.values()).map(|(a, b)| (a - b).abs());
        assert!(worst.fold(0.0, f64::max) < 1e-9);
    }

    #[test]
    fn requests_name_the_nearest_prefixes_and_send_them_by_handle() {
        let subject = planted::subject(300, 16, 8, 4, 1.0, false);
        let queries = subject.queries.clone().unwrap();
        let requests = requests(&subject, &queries);
        assert_eq!(requests.len(), 100);
        for (at, request) in requests.iter().enumerate() {
            assert_eq!(request.ranked.len(), 75);
            assert_eq!(request.documents[0], 3 * at, "the query's own document is nearest");
            assert_eq!(subject.documents[request.ranked[0]], Some(3 * at));
            assert!(request.as_sent().is_sorted() && !request.ranked.is_sorted());
        }
    }
}
