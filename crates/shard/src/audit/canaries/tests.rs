use std::path::Path;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use shard_audit::finding::Verdict;
use shard_client::vault::{KdfCost, Unlock, Vault};
use shard_client::{
    CellCount, Documents, Settings, UNWATCHED, create_vault, ingest, published_rows, rekey,
};
use zeroize::Zeroizing;

use super::*;

/// Requests that the attacker has.
const REQUESTS: usize = 10_000;

/// How the keys of the three vaults are made. Each is attacked in two ways, by the best trick and by all
/// together, and each attack has two figures: one of all of them is the worst by chance.
const KEYS: [CellCount; 3] = [CellCount::Auto, CellCount::Cells(1), CellCount::Micro];
const TRIED: usize = 2 * 2 * KEYS.len();

/// The vectors of SciFact, of documents or queries, which are shipped with the command.
fn scifact(vectors: &str, ids: &str) -> crate::Documents {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/assets/scifact");
    crate::input::read_vectors(&assets.join(vectors), Some(&assets.join(ids))).unwrap()
}

/// A vault of all of SciFact.
fn vault(directory: &Path, cells: CellCount, rng: &mut ChaCha20Rng) -> Vault {
    let unlock = Unlock::KeyFile(Zeroizing::new(vec![5; 32]));
    let cost = KdfCost::new(8, 1, 1).unwrap();
    let mut vault = create_vault(directory, &unlock, cost, &Settings::new(cells), rng).unwrap();
    let documents = scifact("docs.npy", "ids.txt");
    let (ids, vectors) = (documents.ids(), documents.vectors());
    let given = Documents { ids, vectors, sample_queries: None };
    ingest(&mut vault, &given, UNWATCHED, rng).unwrap();
    vault
}

#[test]
fn canaries_are_not_found_in_ten_thousand_requests_nor_over_a_rekey() {
    for cells in KEYS {
        let directory = tempfile::tempdir().unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut vault = vault(&directory.path().join("vault"), cells, &mut rng);
        let older = published_rows(&vault).unwrap();
        rekey(&mut vault, UNWATCHED, &mut rng).unwrap();
        let rows = published_rows(&vault).unwrap();
        let queries = scifact("queries.npy", "query_ids.txt");
        let queries = asked_again(queries.vectors(), REQUESTS, &mut rng);
        let collection = Collection::open(&vault).unwrap();
        assert_eq!(rows.rows().len(), collection.index().rows(), "a row for every document");
        let section = look_for_canaries(&collection, &rows, Some(&older), &queries, 6).unwrap();
        let mut judged = 0;
        for finding in section.findings.iter().filter(|it| it.setting.starts_with("trick=")) {
            if ["auc", "precision"].contains(&finding.metric.as_str()) {
                let verdict = Verdict::of_best(finding, 1.0, TRIED);
                assert_eq!(verdict, Verdict::Closed, "{cells:?} {finding:?}");
                judged += 1;
            }
        }
        assert_eq!(judged * KEYS.len(), TRIED);
    }
}

#[test]
fn every_other_time_a_query_is_asked_to_the_bit() {
    let queries = scifact("queries.npy", "query_ids.txt");
    let queries = queries.vectors();
    let again = asked_again(queries, 900, &mut ChaCha20Rng::seed_from_u64(2));
    for row in 0..queries.rows() {
        assert_eq!(again.row(row), queries.row(row));
        assert_eq!(again.row(600 + row), queries.row(row));
        let apart: f32 =
            again.row(300 + row).iter().zip(queries.row(row)).map(|(a, b)| (a - b) * (a - b)).sum();
        assert!((0.2..0.4).contains(&apart.sqrt()), "{apart}");
    }
}
