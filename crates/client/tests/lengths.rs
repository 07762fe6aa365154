//! Queries and documents of any length, through a real server: what is found is what exact search
//! finds.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use shard_client::vault::{KdfCost, Unlock, Vault};
use shard_client::{
    CellCount, Collection, Documents, SearchOptions, Searcher, Settings, UNWATCHED, create_vault,
    ingest, published_rows,
};
use shard_geometry::gaussian::Normals;
use shard_geometry::{VectorSet, dot_f64, exact_top_k};
use shard_server::Embedded;
use tempfile::TempDir;
use zeroize::Zeroizing;

const WIDTH: usize = 48;

/// Vectors of falling spread around a mean, at lengths that `length` draws.
fn vectors(rows: usize, seed: u64, length: impl Fn(f64) -> f64) -> VectorSet {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut normals = Normals::new(&mut rng);
    let mut values = Vec::with_capacity(rows * WIDTH);
    for _ in 0..rows {
        let row: Vec<f64> =
            (0..WIDTH).map(|at| 0.1 + normals.draw() / (1.0 + 0.3 * at as f64)).collect();
        let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        let length = length(normals.draw()) / norm;
        values.extend(row.iter().map(|x| (x * length) as f32));
    }
    VectorSet::new(WIDTH, values).unwrap()
}

fn scaled(vectors: &VectorSet, scale: f32) -> VectorSet {
    let values = vectors.values().iter().map(|x| x * scale).collect();
    VectorSet::new(vectors.width(), values).unwrap()
}

fn ingested(documents: &VectorSet, settings: &Settings) -> (TempDir, Vault) {
    let directory = tempfile::tempdir().unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let unlock = Unlock::KeyFile(Zeroizing::new(vec![9; 32]));
    let path = directory.path().join("vault");
    let cost = KdfCost::new(8, 1, 1).unwrap();
    let mut vault = create_vault(&path, &unlock, cost, settings, &mut rng).unwrap();
    let ids: Vec<String> = (0..documents.rows()).map(|row| row.to_string()).collect();
    let given = Documents { ids: &ids, vectors: documents, sample_queries: None };
    ingest(&mut vault, &given, UNWATCHED, &mut rng).unwrap();
    (directory, vault)
}

/// The rows that encrypted search finds for every query, and that its scores are the inner products.
fn found(vault: &Vault, documents: &VectorSet, queries: &VectorSet) -> Vec<Vec<u32>> {
    let collection = Collection::open(vault).unwrap();
    let searcher = Searcher::new(Embedded::serving(published_rows(vault).unwrap()));
    let search = |row| {
        let query = queries.row(row);
        let answer = searcher.search(&collection, query, &SearchOptions::default()).unwrap();
        let allowed = answer.error_bound + answer.precision / 2.0;
        let size = dot_f64(query, query).sqrt() * documents.max_norm();
        assert!(allowed <= 2e-5 * size, "{allowed} is a useless bound");
        for hit in &answer.hits {
            let exact = dot_f64(query, documents.row(hit.row as usize));
            assert!((hit.score - exact).abs() <= allowed, "{} for {exact}", hit.score);
        }
        answer.hits.iter().map(|hit| hit.row).collect()
    };
    (0..queries.rows()).map(search).collect()
}

fn recall(found: &[Vec<u32>], documents: &VectorSet, queries: &VectorSet) -> f64 {
    let held = found.iter().enumerate().map(|(row, found)| {
        let exact = exact_top_k(documents, queries.row(row), 10).unwrap();
        exact.iter().filter(|hit| found.contains(&hit.row)).count()
    });
    held.sum::<usize>() as f64 / (10 * found.len()) as f64
}

#[test]
fn encrypted_search_finds_the_true_top_ten_at_any_length() {
    let unit = vectors(1500, 2, |_| 1.0);
    let log_normal = vectors(1500, 3, f64::exp);
    let long = scaled(&unit, 6.0);
    for documents in [unit, log_normal, long] {
        let (_directory, vault) = ingested(&documents, &Settings::rotated());
        let queries = vectors(30, 4, |_| 1.0);
        for scale in [1e-20, 0.1, 1.0, 1e20] {
            let queries = scaled(&queries, scale);
            let found = found(&vault, &documents, &queries);
            let recall = recall(&found, &documents, &queries);
            assert!(recall >= 0.99, "{recall} at {scale:e}");
        }
    }
}

#[test]
fn powers_of_two_change_no_digit_of_the_unencrypted_ranking() {
    let documents = vectors(300, 5, f64::exp);
    let (_directory, vault) = ingested(&documents, &Settings::rotated());
    let collection = Collection::open(&vault).unwrap();
    let rows = published_rows(&vault).unwrap();
    let query = vectors(1, 6, |_| 1.0);
    let ranked = |scale: f32| {
        let query = scaled(&query, scale);
        let options = SearchOptions::default();
        let hits = collection.search_in_the_clear(&rows, query.row(0), &options).unwrap();
        hits.iter().map(|hit| (hit.row, hit.score / f64::from(scale))).collect::<Vec<_>>()
    };
    for exponent in [-60, -3, 60] {
        assert_eq!(ranked(2f32.powi(exponent)), ranked(1.0));
    }
}

#[test]
fn a_handful_of_documents_is_searched() {
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let row: Vec<f32> = (0..WIDTH).map(|_| rng.next_u32() as f32 / u32::MAX as f32).collect();
    let one = VectorSet::new(WIDTH, row.clone()).unwrap();
    let equal = VectorSet::new(WIDTH, [row.clone(), row].concat()).unwrap();
    let zeros = VectorSet::new(WIDTH, vec![0.0; 3 * WIDTH]).unwrap();
    let narrow = VectorSet::new(2, vec![0.6, 0.8, 0.8, -0.6, -1.0, 0.0]).unwrap();
    for documents in [one, equal, zeros, narrow] {
        for cells in [CellCount::Auto, CellCount::Micro] {
            let (_directory, vault) = ingested(&documents, &Settings::new(cells));
            let collection = Collection::open(&vault).unwrap();
            let searcher = Searcher::new(Embedded::serving(published_rows(&vault).unwrap()));
            let mut query = vec![0.25; documents.width()];
            for value in [0.25, 0.0] {
                query[0] = value;
                let options = SearchOptions::default();
                let answer = searcher.search(&collection, &query, &options).unwrap();
                assert_eq!(answer.hits.len(), documents.rows());
                let exact = exact_top_k(&documents, &query, 1).unwrap()[0].score;
                let allowed = answer.error_bound + answer.precision / 2.0;
                assert!((answer.hits[0].score - exact).abs() <= allowed);
            }
            let nothing = vec![0.0; documents.width()];
            let answer = searcher.search(&collection, &nothing, &SearchOptions::default()).unwrap();
            assert!(answer.hits.iter().all(|hit| hit.score == 0.0));
        }
    }
}
