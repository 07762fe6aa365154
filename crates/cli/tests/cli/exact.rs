//! Encrypted search against inner products computed here: every score, in every configuration.

use half::f16;
use serde_json::Value;

use crate::support::{Desk, KEY, VAULT, hits, npy, number, random_rows, vectors};
use vectors::{Rows, dot, norm, with_norms};

/// Largest error of a score as a part of `|q| max|x|`.
const RELATIVE_ERROR: f64 = 1e-5;

fn init(desk: &Desk, flags: &[&str]) {
    desk.succeeds(&[&["init", VAULT, "--key-file", KEY], flags].concat());
}

/// Checks that every document is in the report once, that every score is the inner product with the
/// query, within the stated bound and within [`RELATIVE_ERROR`], and that the order is that of the
/// inner products up to documents too close to be told apart.
fn check(report: &Value, query: &[f32], documents: &Rows) {
    let found = hits(report);
    let rows: Vec<usize> = found.iter().map(|(id, _)| id.parse().expect("row numbers")).collect();
    let mut once = rows.clone();
    once.sort_unstable();
    assert!(once.into_iter().eq(0..documents.len()), "{rows:?}");

    let exact: Vec<f64> = rows.iter().map(|&row| dot(query, &documents[row])).collect();
    let longest = documents.iter().map(|row| norm(row)).fold(0.0, f64::max);
    let stated = number(report, "error_bound") + number(report, "precision") / 2.0;
    let allowed = stated.min(RELATIVE_ERROR * norm(query) * longest);
    for ((id, score), exact) in found.iter().zip(&exact) {
        let error = (score - exact).abs();
        assert!(error <= allowed, "document {id}: {score} for {exact}, {allowed:.1e} allowed");
    }
    for pair in exact.windows(2) {
        assert!(pair[0] + 2.0 * allowed >= pair[1], "{} before {}", pair[0], pair[1]);
    }
}

/// Searches for every query with all documents as candidates and checks every score.
fn search_and_check(desk: &Desk, queries: &Rows, documents: &Rows) {
    desk.npy("queries.npy", queries);
    let count = documents.len().to_string();
    let reports = desk.search(&["--query", "queries.npy", "-k", &count, "--candidates", &count]);
    assert_eq!(reports.len(), queries.len());
    for (report, query) in reports.iter().zip(queries) {
        check(report, query, documents);
    }
}

#[test]
fn scores_are_inner_products_for_every_number_of_keys_and_every_transform() {
    let (documents, queries) = (random_rows(40, 32, 1), random_rows(3, 32, 2));
    for cells in ["1", "4", "micro"] {
        for transform in ["orthogonal", "structured"] {
            let desk = Desk::new();
            desk.npy("docs.npy", &documents);
            init(&desk, &["--protection", "rotated", "--cells", cells, "--transform", transform]);
            desk.ingest(&["docs.npy"]);
            search_and_check(&desk, &queries, &documents);
        }
    }
}

#[test]
fn scores_are_inner_products_for_every_width() {
    for width in [2, 3, 17, 100, 257] {
        let (documents, queries) = (random_rows(20, width, 1), random_rows(2, width, 2));
        let desk = Desk::with_vault("4", &documents);
        search_and_check(&desk, &queries, &documents);
    }
}

#[test]
fn scores_are_inner_products_for_vectors_of_any_length() {
    let documents = with_norms(&random_rows(40, 24, 1), 0.01, 1000.0);
    for cells in ["4", "micro"] {
        let desk = Desk::with_vault(cells, &documents);
        for length in [0.01, 1.0, 1000.0] {
            let queries = with_norms(&random_rows(3, 24, 2), length / 2.0, length);
            search_and_check(&desk, &queries, &documents);
        }
    }
}

/// The same row with another length.
fn of_length(row: &[f32], length: f64) -> Vec<f32> {
    let factor = length / norm(row);
    row.iter().map(|&x| (f64::from(x) * factor) as f32).collect()
}

/// The same rows, with lengths that are log-normal around `scale` within a factor of thirty.
fn log_normal(rows: &Rows, scale: f64) -> Vec<Vec<f32>> {
    let deviates = random_rows(rows.len(), 1, 3);
    let lengths = deviates.iter().map(|x| scale * (1.7 * f64::from(x[0].clamp(-1.0, 1.0))).exp());
    rows.iter().zip(lengths).map(|(row, length)| of_length(row, length)).collect()
}

#[test]
fn blind_scores_are_inner_products_for_vectors_of_any_length() {
    for scale in [1e-6, 1.0, 1e6] {
        let documents = log_normal(&random_rows(60, 24, 1), scale);
        let mut lengths: Vec<f64> = documents.iter().map(|row| norm(row)).collect();
        lengths.sort_by(f64::total_cmp);
        assert!((10.0..31.0).contains(&(lengths[59] / lengths[0])));
        let desk = Desk::new();
        desk.npy("docs.npy", &documents);
        init(&desk, &[]);
        desk.ingest(&["docs.npy"]);
        for length in [0.001, 1.0, 1000.0] {
            let queries = with_norms(&random_rows(3, 24, 2), length / 2.0, length);
            search_and_check(&desk, &queries, &documents);
        }
    }
}

#[test]
fn an_ingest_says_when_one_document_is_much_longer_than_most() {
    let rows = random_rows(42, 24, 1);
    let mut documents = with_norms(&rows[..40], 0.5, 2.0);
    documents.push(of_length(&rows[40], 12.0));
    let desk = Desk::new();
    desk.npy("docs.npy", &documents);
    desk.npy("long.npy", &[of_length(&rows[41], 50.0)]);
    desk.write("long.txt", "41\n");
    let ingest = |vault: &str, flags: &[&str]| {
        let output = desk.shard(&[&["ingest", vault, "--key-file", KEY], flags].concat()).output();
        let output = output.expect("shard starts");
        assert!(output.status.success());
        String::from_utf8(output.stderr).expect("text")
    };
    init(&desk, &[]);
    assert_eq!(ingest(VAULT, &["docs.npy"]), "", "a dozen times is nothing");
    // Against all that are there, not against itself.
    let told = ingest(VAULT, &["long.npy", "--ids", "long.txt"]);
    for words in ["47 times as long as most", "of the longest", "length one"] {
        assert!(told.contains(words), "{told}");
    }
    // And again where most are short.
    assert!(ingest(VAULT, &["docs.npy"]).contains("times as long as most"));
    desk.succeeds(&["init", "rotated", "--protection", "rotated", "--key-file", KEY]);
    ingest("rotated", &["docs.npy"]);
    assert_eq!(ingest("rotated", &["long.npy", "--ids", "long.txt"]), "", "it has no such unit");
}

#[test]
fn scores_are_inner_products_for_every_float_type() {
    let original = random_rows(40, 24, 1);
    let queries = random_rows(2, 24, 2);
    let halved: Vec<Vec<f32>> = original
        .iter()
        .map(|row| row.iter().map(|&x| f16::from_f32(x).to_f32()).collect())
        .collect();
    let files = [
        ("<f2", vectors::bytes(&original, |x| f16::from_f32(x).to_le_bytes()), &halved),
        ("<f4", vectors::bytes(&original, f32::to_le_bytes), &original),
        ("<f8", vectors::bytes(&original, |x| f64::from(x).to_le_bytes()), &original),
    ];
    for (descr, data, documents) in files {
        let desk = Desk::new();
        desk.write("docs.npy", npy(descr, false, &[40, 24], &data));
        init(&desk, &["--protection", "rotated", "--cells", "4"]);
        desk.ingest(&["docs.npy"]);
        search_and_check(&desk, &queries, documents);
    }
}

#[test]
fn an_ingest_replaces_documents_of_the_same_id_and_adds_the_others() {
    for cells in ["4", "micro"] {
        let mut documents = random_rows(40, 24, 1);
        let desk = Desk::with_vault(cells, &documents);
        let queries = random_rows(2, 24, 2);

        // Rows 0, 17 and 39 move, 40 is new.
        let changed = random_rows(4, 24, 3);
        desk.npy("changed.npy", &changed);
        desk.write("changed.txt", "17\n39\n40\n0\n");
        let report = desk.ingest(&["changed.npy", "--ids", "changed.txt"]);
        let counts = ["added", "replaced", "documents"].map(|name| number(&report, name));
        assert_eq!(counts, [1.0, 3.0, 41.0]);
        assert_eq!(report["fitted"], false);

        documents.push(Vec::new());
        for (&row, vector) in [17, 39, 40, 0].iter().zip(changed) {
            documents[row] = vector;
        }
        search_and_check(&desk, &queries, &documents);

        desk.npy("docs.npy", &documents);
        let again = desk.ingest(&["docs.npy"]);
        assert_eq!([number(&again, "added"), number(&again, "documents")], [0.0, 41.0]);
        search_and_check(&desk, &queries, &documents);
    }
}

#[test]
fn scores_of_one_document_or_of_equal_ones_are_inner_products() {
    for count in [1, 20] {
        let documents = vec![random_rows(1, 24, 1).remove(0); count];
        let desk = Desk::with_vault("1", &documents);
        search_and_check(&desk, &random_rows(2, 24, 2), &documents);
    }
}
