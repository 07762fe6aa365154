//! Small collections for the tests of this folder.

use shard_geometry::gaussian::Normals;
use shard_geometry::{Pca, VectorSet, exact_top_k};

use crate::quality::Qrels;
use crate::subject::{Corpus, KeyFamily, Subject, coordinates, protect};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::generator;
use crate::view::ServerView;

/// Unit vectors around eight centres, with more variance in the first coordinates, and a mean that is
/// not zero.
pub fn mixture(rows: usize, width: usize, seed: u64) -> VectorSet {
    // The centres are the same for every seed, so that queries are like documents.
    let (mut fixed, mut rng) = (generator(99, 0), generator(seed, 1));
    let centres: Vec<f64> = {
        let mut normals = Normals::new(&mut fixed);
        (0..8 * width).map(|_| normals.draw()).collect()
    };
    let mut normals = Normals::new(&mut rng);
    let mut values = Vec::with_capacity(rows * width);
    for row in 0..rows {
        let centre = &centres[row % 8 * width..][..width];
        let point: Vec<f64> = (0..width)
            .map(|at| 0.7 + (centre[at] + 0.8 * normals.draw()) / (1.0 + 0.2 * at as f64))
            .collect();
        let norm = point.iter().map(|x| x * x).sum::<f64>().sqrt();
        values.extend(point.iter().map(|x| (x / norm) as f32));
    }
    VectorSet::new(width, values).expect("unit vectors are finite")
}

/// A judged collection: relevant to a query are the five documents of the largest inner product.
pub fn judged_corpus(rows: usize, width: usize, queries: usize) -> Corpus {
    let (vectors, questions) = (mixture(rows, width, 11), mixture(queries, width, 12));
    let mut qrels = Qrels::default();
    for query in 0..queries {
        for hit in exact_top_k(&vectors, questions.row(query), 5).expect("queries of this width") {
            let (query, document) = (format!("q{query}"), format!("d{}", hit.row));
            qrels.judge(&query, &document, 1).expect("each pair once");
        }
    }
    Corpus {
        name: "sample".into(),
        encoder: "minilm".into(),
        ids: (0..rows).map(|row| format!("d{row}")).collect(),
        texts: None,
        vectors,
        query_ids: (0..queries).map(|row| format!("q{row}")).collect(),
        queries: questions,
        qrels,
    }
}

/// An audited collection of this size in four cells, with queries.
pub fn subject(rows: usize, width: usize, seed: u64) -> Subject {
    let vectors = mixture(rows, width, 21);
    let coordinates = coordinates(&Pca::fit(&vectors).expect("a model"), &vectors);
    let prefix_width = (width / 4).max(1);
    let cells: Vec<u32> = (0..rows as u32).map(|row| row % 4).collect();
    let residuals = coordinates.columns(prefix_width..width);
    // The server's order is not the owner's.
    let documents: Vec<usize> = (0..rows).rev().collect();
    let mut release = protect(&residuals, &cells, KeyFamily::Orthogonal, &mut generator(seed, 77));
    let order: Vec<usize> = (0..rows).rev().collect();
    release.rows = release.rows.select(&order);
    release.cells = order.iter().map(|&row| cells[row]).collect();
    Subject {
        vectors: Matrix::from_vectors(&vectors),
        coordinates,
        given: None,
        axes: None,
        other_lengths: Vec::new(),
        prefix_width,
        cells,
        keys: KeyFamily::Orthogonal,
        texts: None,
        queries: Some(Matrix::from_vectors(&mixture(30, width, 22))),
        view: ServerView { releases: vec![release], requests: Vec::new() },
        documents,
        canaries: Vec::new(),
        seed,
    }
}
