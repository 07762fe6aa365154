//! The whole path through a real server: fit, protect, publish, search, compare with exact
//! inner products. Client and server meet only here and in the command.

use std::convert::Infallible;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use shard_client::vault::{KdfCost, Unlock, Vault};
use shard_client::{
    CellCount, Choice, ClientError, Collection, Documents, SearchOptions, Searcher, Settings,
    TransformKind, Transport, UNWATCHED, create_vault, ingest, published_rows, stored_vectors,
};
use shard_geometry::{VectorSet, dot_f64, exact_top_k};
use shard_protocol::{Epoch, Leak, RefusalCode, Row, RowBatch, declassify};
use shard_rlwe::Objective;
#[cfg(feature = "slots")]
use shard_rlwe::slots::SlotsParameters;
use shard_server::Embedded;
use tempfile::TempDir;
use zeroize::Zeroizing;

/// Anisotropic vectors of any norm around a mean, as embeddings are.
fn vectors(rng: &mut ChaCha20Rng, rows: usize, width: usize, norm: f64) -> VectorSet {
    let mut uniform = || (rng.next_u32() as f32 / u32::MAX as f32) - 0.5;
    let mut values = Vec::with_capacity(rows * width);
    for _ in 0..rows {
        let row: Vec<f32> = (0..width).map(|j| 0.2 + uniform() / (1.0 + j as f32 / 16.0)).collect();
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        values.extend(row.iter().map(|x| x / length * norm as f32));
    }
    VectorSet::new(width, values).unwrap()
}

struct World {
    _directory: TempDir,
    vault: Vault,
    documents: VectorSet,
}

fn unlock() -> Unlock {
    Unlock::KeyFile(Zeroizing::new(vec![9; 32]))
}

fn settings(cells: CellCount) -> Settings {
    Settings { candidates: Choice::Fixed(40), d_pub: Choice::Auto, ..Settings::new(cells) }
}

fn world(settings: &Settings, documents: VectorSet) -> World {
    let directory = tempfile::tempdir().unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let path = directory.path().join("vault");
    let mut vault = create_vault(&path, &unlock(), KdfCost::default(), settings, &mut rng).unwrap();
    let ids: Vec<String> = (0..documents.rows()).map(|row| format!("doc-{row}")).collect();
    let given = Documents { ids: &ids, vectors: &documents, sample_queries: None };
    ingest(&mut vault, &given, UNWATCHED, &mut rng).unwrap();
    World { _directory: directory, vault, documents }
}

fn searcher(vault: &Vault) -> Searcher<Embedded> {
    Searcher::new(Embedded::serving(published_rows(vault).unwrap()))
}

fn batch(collection: &Collection, width: usize, rows: Vec<Row>) -> RowBatch {
    RowBatch::new(
        declassify(collection.model().epoch(), Leak::CollectionShape),
        declassify(width, Leak::CollectionShape),
        declassify(rows, Leak::StoredRows),
    )
}

fn options() -> SearchOptions {
    SearchOptions::default()
}

/// Searches and holds every score against the exact inner product and the whole ranking against
/// exact search among the candidates.
fn check(world: &World, queries: &VectorSet) {
    let collection = Collection::open(&world.vault).unwrap();
    let searcher = searcher(&world.vault);
    let everything = SearchOptions { top: usize::MAX, candidates: Some(40), ..options() };
    let longest = world.documents.max_norm();
    let objectives = [Objective::Compute, Objective::Balanced, Objective::Bytes];
    for (row, objective) in (0..queries.rows()).zip(objectives.iter().cycle()) {
        let options = SearchOptions { objective: Some(*objective), ..everything.clone() };
        let query = queries.row(row);
        let answer = searcher.search(&collection, query, &options).unwrap();
        assert_eq!(answer.hits.len(), answer.cost.candidates);
        let allowed = answer.error_bound + answer.precision / 2.0;
        let norm = dot_f64(query, query).sqrt();
        assert!(allowed <= 1e-5 * norm * longest, "{allowed} is a useless bound");
        for hit in &answer.hits {
            let exact = dot_f64(query, world.documents.row(hit.row as usize));
            assert!((hit.score - exact).abs() <= allowed, "{} for {exact}", hit.score);
            let steps = hit.score / answer.precision;
            assert_eq!(steps, steps.round(), "scores leave on the stated grid");
        }
        let plain = collection
            .search_in_the_clear(&published_rows(&world.vault).unwrap(), query, &options)
            .unwrap();
        let best = exact_top_k(&world.documents, query, world.documents.rows()).unwrap();
        let listed: Vec<u32> = plain.iter().map(|hit| hit.row).collect();
        let expected: Vec<u32> =
            best.iter().map(|hit| hit.row).filter(|row| listed.contains(row)).collect();
        let tie = 2.0 * allowed;
        for (ours, theirs) in listed.iter().zip(&expected) {
            let score = |row: u32| dot_f64(query, world.documents.row(row as usize));
            assert!(ours == theirs || (score(*ours) - score(*theirs)).abs() < tie);
        }
    }
}

#[test]
fn every_width_works_end_to_end() {
    for width in [2, 32, 256, 384, 768, 1024, 1536, 3072] {
        let mut rng = ChaCha20Rng::seed_from_u64(width as u64);
        let documents = vectors(&mut rng, 120, width, 1.0);
        let queries = vectors(&mut rng, 2, width, 1.0);
        // To draw an orthogonal key takes the cube of the width.
        let (cells, transform) = match width {
            ..1000 => (16, TransformKind::Orthogonal),
            1000..1500 => (2, TransformKind::Orthogonal),
            _ => (16, TransformKind::Structured),
        };
        let settings = Settings { transform, ..settings(CellCount::Cells(cells)) };
        check(&world(&settings, documents), &queries);
    }
}

#[test]
fn every_number_of_keys_and_every_family_works() {
    for cells in
        [CellCount::Cells(1), CellCount::Cells(16), CellCount::Cells(256), CellCount::Micro]
    {
        for transform in [TransformKind::Orthogonal, TransformKind::Structured] {
            let mut rng = ChaCha20Rng::seed_from_u64(5);
            let documents = vectors(&mut rng, 300, 96, 1.0);
            let queries = vectors(&mut rng, 3, 96, 1.0);
            check(&world(&Settings { transform, ..settings(cells) }, documents), &queries);
        }
    }
}

#[test]
fn vectors_and_queries_of_any_norm_keep_their_scores() {
    for (document_norm, query_norm) in [(1e-4, 1.0), (350.0, 1e-3), (1.0, 1e4), (1e6, 1e6)] {
        let mut rng = ChaCha20Rng::seed_from_u64(6);
        let documents = vectors(&mut rng, 100, 64, document_norm);
        let queries = vectors(&mut rng, 2, 64, query_norm);
        check(&world(&settings(CellCount::Cells(4)), documents), &queries);
    }
}

#[test]
fn probing_all_cells_equals_the_flat_scan() {
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let world = world(&settings(CellCount::Cells(8)), vectors(&mut rng, 200, 48, 1.0));
    let (collection, searcher) = (Collection::open(&world.vault).unwrap(), searcher(&world.vault));
    let queries = vectors(&mut rng, 4, 48, 1.0);
    for row in 0..queries.rows() {
        let rows = |probe| -> Vec<u32> {
            let options = SearchOptions { top: 40, candidates: Some(40), probe, ..options() };
            let answer = searcher.search(&collection, queries.row(row), &options).unwrap();
            let mut rows: Vec<u32> = answer.hits.iter().map(|hit| hit.row).collect();
            rows.sort_unstable();
            rows
        };
        assert_eq!(rows(Some(8)), rows(None));
    }
}

#[test]
fn an_upsert_replaces_by_id_and_adds_the_rest_without_refitting() {
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let mut world = world(&settings(CellCount::Cells(4)), vectors(&mut rng, 60, 32, 1.0));
    let before = Collection::open(&world.vault).unwrap();
    let fresh = vectors(&mut rng, 3, 32, 1.0);
    let ids = ["doc-5", "new-1", "doc-7"].map(String::from);
    let given = Documents { ids: &ids, vectors: &fresh, sample_queries: None };
    let done = ingest(&mut world.vault, &given, UNWATCHED, &mut rng).unwrap();
    assert_eq!((done.added, done.replaced, done.fitted), (1, 2, false));

    let collection = Collection::open(&world.vault).unwrap();
    assert_eq!(collection.index().rows(), 61);
    assert_eq!(collection.index().id(60), "new-1");
    let renamed = |row| collection.index().handle(row) != before.index().handle(row);
    assert!(renamed(5) && renamed(7) && !renamed(6), "what was replaced has another name");
    let error = searcher(&world.vault).search(&before, fresh.row(0), &options()).unwrap_err();
    assert!(matches!(error, ClientError::Refused(_)), "an older copy is told: {error}");
    assert_eq!(stored_vectors(&world.vault).unwrap().row(5), fresh.row(0));
    let published = published_rows(&world.vault).unwrap().rows().len();
    assert_eq!(published, 61);

    let mut values = world.documents.values().to_vec();
    values[5 * 32..6 * 32].copy_from_slice(fresh.row(0));
    values[7 * 32..8 * 32].copy_from_slice(fresh.row(2));
    values.extend_from_slice(fresh.row(1));
    world.documents = VectorSet::new(32, values).unwrap();
    let queries = vectors(&mut rng, 3, 32, 1.0);
    check(&world, &queries);
}

#[test]
fn a_first_document_alone_does_not_spoil_those_that_follow() {
    let mut rng = ChaCha20Rng::seed_from_u64(14);
    let all = vectors(&mut rng, 200, 32, 1.0);
    let first = VectorSet::new(32, all.row(0).to_vec()).unwrap();
    let auto = Settings { candidates: Choice::Auto, ..settings(CellCount::Cells(1)) };
    let mut world = world(&auto, first);
    let ids: Vec<String> = (0..200).map(|row| format!("doc-{row}")).collect();
    let given = Documents { ids: &ids, vectors: &all, sample_queries: None };
    ingest(&mut world.vault, &given, UNWATCHED, &mut rng).unwrap();
    world.documents = all;
    let queries = vectors(&mut rng, 3, 32, 1.0);
    check(&world, &queries);
    let collection = Collection::open(&world.vault).unwrap();
    let answer = searcher(&world.vault).search(&collection, queries.row(0), &options()).unwrap();
    assert_eq!(answer.hits.len(), 10);
}

#[test]
fn one_long_document_degrades_only_the_searches_that_meet_it() {
    let mut rng = ChaCha20Rng::seed_from_u64(15);
    let mut world = world(&settings(CellCount::Cells(4)), vectors(&mut rng, 200, 32, 1.0));
    // Along the direction in which the others vary most, which is in the prefix.
    let along = |length: f32| -> Vec<f32> {
        (0..32).map(|at| if at == 0 { length } else { 0.0 }).collect()
    };
    let long = VectorSet::new(32, along(300.0)).unwrap();
    let ids = ["long".to_owned()];
    let given = Documents { ids: &ids, vectors: &long, sample_queries: None };
    ingest(&mut world.vault, &given, UNWATCHED, &mut rng).unwrap();
    let collection = Collection::open(&world.vault).unwrap();
    let searcher = searcher(&world.vault);
    let towards = searcher.search(&collection, &along(1.0), &options()).unwrap();
    assert_eq!(towards.hits[0].id, "long");
    let away = searcher.search(&collection, &along(-1.0), &options()).unwrap();
    assert!(away.hits.iter().all(|hit| hit.id != "long"));
    assert!(away.error_bound < 1e-5, "{}", away.error_bound);
    assert!(away.error_bound < towards.error_bound / 100.0, "{}", towards.error_bound);
}

#[test]
fn a_query_without_a_residual_scores_exactly() {
    let mut rng = ChaCha20Rng::seed_from_u64(16);
    let world = world(&settings(CellCount::Cells(4)), vectors(&mut rng, 60, 32, 1.0));
    let collection = Collection::open(&world.vault).unwrap();
    let answer = searcher(&world.vault).search(&collection, &[0.0; 32], &options()).unwrap();
    assert!(answer.hits.iter().all(|hit| hit.score == 0.0));
}

#[test]
fn a_replaced_document_with_a_key_of_its_own_never_gets_an_old_name_again() {
    let mut rng = ChaCha20Rng::seed_from_u64(17);
    let mut world = world(&settings(CellCount::Micro), vectors(&mut rng, 60, 32, 1.0));
    let handle = |vault: &Vault| Collection::open(vault).unwrap().index().handle(5);
    let mut names = vec![handle(&world.vault)];
    let ids = ["doc-5".to_owned()];
    for _ in 0..3 {
        let fresh = vectors(&mut rng, 1, 32, 1.0);
        let given = Documents { ids: &ids, vectors: &fresh, sample_queries: None };
        ingest(&mut world.vault, &given, UNWATCHED, &mut rng).unwrap();
        let name = handle(&world.vault);
        assert!(!names.contains(&name));
        let rows = published_rows(&world.vault).unwrap();
        assert!(rows.rows().iter().all(|row| !names.contains(&row.handle)));
        assert_eq!(rows.rows().len(), 60);
        names.push(name);
    }
}

#[cfg(feature = "slots")]
#[test]
fn the_slot_layout_gives_the_same_ranking() {
    let mut rng = ChaCha20Rng::seed_from_u64(19);
    let world = world(&settings(CellCount::Cells(4)), vectors(&mut rng, 80, 48, 1.0));
    let collection = Collection::open(&world.vault).unwrap();
    let searcher = searcher(&world.vault);
    let queries = vectors(&mut rng, 2, 48, 1.0);
    let mut once = Vec::new();
    for (row, cells) in [(0, 1), (1, 1), (1, 3)] {
        let layout = shard_client::LayoutChoice::Slots {
            parameters: SlotsParameters::paper_baseline(),
            cells,
        };
        let in_slots = SearchOptions { layout, candidates: Some(12), ..options() };
        let query = queries.row(row);
        let answer = searcher.search(&collection, query, &in_slots).unwrap();
        assert!(answer.error_bound < 1e-4, "{}", answer.error_bound);
        for hit in &answer.hits {
            let exact = dot_f64(query, world.documents.row(hit.row as usize));
            assert!((hit.score - exact).abs() <= answer.error_bound + answer.precision / 2.0);
        }
        assert_eq!(answer.cost.response_ciphertexts, answer.cost.candidates);
        assert_eq!(answer.cost.query_ciphertexts, answer.cost.active_cells.div_ceil(cells));
        once.push(answer.cost.bytes_once);
    }
    assert!(once[0] > 1_000_000 && once[1] == 0 && once[2] > 1_000_000, "{once:?}");
}

#[test]
fn settings_that_cannot_be_served_are_refused_before_anything_is_sent() {
    let mut rng = ChaCha20Rng::seed_from_u64(18);
    let world = world(&settings(CellCount::Micro), vectors(&mut rng, 60, 32, 1.0));
    let collection = Collection::open(&world.vault).unwrap();
    let query = vectors(&mut rng, 1, 32, 1.0);
    let probing = SearchOptions { probe: Some(1), ..options() };
    let error = searcher(&world.vault).search(&collection, query.row(0), &probing).unwrap_err();
    assert!(error.to_string().contains("no cells to probe"), "{error}");
}

#[test]
fn a_refused_ingest_changes_nothing() {
    let mut rng = ChaCha20Rng::seed_from_u64(9);
    let mut world = world(&settings(CellCount::Cells(4)), vectors(&mut rng, 30, 32, 1.0));
    let head = world.vault.head().unwrap();
    let wide = vectors(&mut rng, 1, 33, 1.0);
    let long = vectors(&mut rng, 1, 32, 1e5);
    let fine = vectors(&mut rng, 2, 32, 1.0);
    let one = ["x".to_owned()];
    let twice = ["x".to_owned(), "x".to_owned()];
    let empty = [String::new(), "y".to_owned()];
    let mut attempt = |ids: &[String], vectors: &VectorSet| {
        let given = Documents { ids, vectors, sample_queries: None };
        ingest(&mut world.vault, &given, UNWATCHED, &mut rng).unwrap_err()
    };
    assert!(matches!(attempt(&one, &wide), ClientError::Vectors(_)));
    assert!(matches!(attempt(&one, &long), ClientError::Overflow(_)));
    assert!(matches!(attempt(&one, &fine), ClientError::IdCount { ids: 1, vectors: 2 }));
    assert!(matches!(attempt(&twice, &fine), ClientError::DuplicateId(_)));
    assert!(matches!(attempt(&empty, &fine), ClientError::IdLength(0)));
    assert_eq!(world.vault.head().unwrap(), head);
    assert_eq!(Collection::open(&world.vault).unwrap().index().rows(), 30);
}

#[test]
fn the_server_learns_neither_ids_nor_order() {
    let mut rng = ChaCha20Rng::seed_from_u64(10);
    let world = world(&settings(CellCount::Cells(4)), vectors(&mut rng, 64, 32, 1.0));
    let collection = Collection::open(&world.vault).unwrap();
    let bytes = published_rows(&world.vault).unwrap().encode();
    assert!(!bytes.windows(4).any(|window| window == b"doc-"));
    // In release order, the rank correlation with the order of ingestion is that of chance.
    let order: Vec<usize> = published_rows(&world.vault)
        .unwrap()
        .rows()
        .iter()
        .filter_map(|row| (0..64).find(|&i| collection.index().handle(i) == row.handle))
        .map(|row| row as usize)
        .collect();
    assert_eq!(order.len(), 64);
    let inversions = (0..64)
        .flat_map(|i| (i + 1..64).map(move |j| (i, j)))
        .filter(|&(i, j)| order[i] > order[j])
        .count();
    // 2,016 pairs; the number of inversions has mean 1,008 and deviation 86.
    assert!((600..1400).contains(&inversions), "{inversions}");
}

#[test]
fn two_vaults_of_the_same_documents_share_no_names_and_no_rows() {
    let mut rng = ChaCha20Rng::seed_from_u64(11);
    let documents = vectors(&mut rng, 40, 32, 1.0);
    let make = |seed| {
        let directory = tempfile::tempdir().unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let path = directory.path().join("vault");
        let settings = settings(CellCount::Cells(4));
        let mut vault =
            create_vault(&path, &unlock(), KdfCost::default(), &settings, &mut rng).unwrap();
        let ids: Vec<String> = (0..40).map(|row| format!("doc-{row}")).collect();
        let given = Documents { ids: &ids, vectors: &documents, sample_queries: None };
        ingest(&mut vault, &given, UNWATCHED, &mut rng).unwrap();
        published_rows(&vault).unwrap().into_rows()
    };
    let (first, second) = (make(1), make(2));
    for row in &first {
        assert!(second.iter().all(|other| {
            row.handle != other.handle
                && row.cell != other.cell
                && row.coordinates != other.coordinates
        }));
    }
}

#[test]
fn a_server_that_lost_a_row_or_the_epoch_says_so_in_words() {
    let mut rng = ChaCha20Rng::seed_from_u64(12);
    let world = world(&settings(CellCount::Cells(2)), vectors(&mut rng, 30, 32, 1.0));
    let collection = Collection::open(&world.vault).unwrap();
    let query = vectors(&mut rng, 1, 32, 1.0);
    let other = RowBatch::new(
        declassify(Epoch(0), Leak::CollectionShape),
        declassify(1, Leak::CollectionShape),
        declassify(Vec::new(), Leak::StoredRows),
    );
    let searcher = Searcher::new(Embedded::serving(other));
    let error = searcher.search(&collection, query.row(0), &options()).unwrap_err();
    assert!(matches!(error, ClientError::Unpublished { .. }), "{error}");

    let mut rows = published_rows(&world.vault).unwrap().into_rows();
    rows.truncate(3);
    let width = rows[0].coordinates.len();
    let searcher = Searcher::new(Embedded::serving(batch(&collection, width, rows)));
    let error = searcher.search(&collection, query.row(0), &options()).unwrap_err();
    let ClientError::Refused(refusal) = error else { panic!("{error}") };
    assert_eq!(refusal.code, RefusalCode::UnknownRow);
}

#[test]
fn a_server_that_answers_nonsense_is_an_error_not_a_panic() {
    struct Nonsense(Vec<u8>);
    impl Transport for Nonsense {
        type Error = Infallible;

        fn exchange(&self, _: Vec<u8>) -> Result<Vec<u8>, Infallible> {
            Ok(self.0.clone())
        }
    }
    let mut rng = ChaCha20Rng::seed_from_u64(13);
    let world = world(&settings(CellCount::Cells(2)), vectors(&mut rng, 30, 32, 1.0));
    let collection = Collection::open(&world.vault).unwrap();
    let query = vectors(&mut rng, 1, 32, 1.0);
    let accepted = shard_protocol::MessageKind::Accepted.bare();
    for answer in [vec![], b"HTTP/1.1 200 OK".to_vec(), accepted, vec![0xff; 100_000]] {
        let searcher = Searcher::new(Nonsense(answer));
        let error = searcher.search(&collection, query.row(0), &options());
        assert!(matches!(error, Err(ClientError::Answer(_))), "{error:?}");
    }
}
