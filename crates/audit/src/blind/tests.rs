//! Every channel reads chance on noise with a limit to its sight, and finds a leak.

use shard_geometry::{Pca, VectorSet};
use shard_rlwe::blind::{MODULUS, QueryRank};

use super::limit::mixed;
use super::*;
use crate::finding::DETECTED_FROM;
use crate::finding::{Section, Verdict};
use crate::linkage::candidates::{FEWEST_QUERIES, JITTERS};
use crate::linkage::requests::jittered;
use crate::report::channels::{CHANNELS, Channel, run_blind};
use crate::subject::{KeyFamily, coordinates};
use crate::tools::statistics::{below, generator};
use crate::view::{Release, ServerView};

const ROWS: usize = 512;
const WIDTH: usize = 24;
const PLACES: usize = 64;

fn normals(rows: usize, width: usize, seed: u64) -> Matrix {
    Matrix::normal(rows, width, &mut generator(seed, 0))
}

/// Rows read with a leak of a level, of two epochs.
fn reading(name: &'static str, level: f64) -> Reading {
    // Coordinates of falling variance, all skewed: what a cloud can be aligned by.
    let mut vectors = normals(ROWS, WIDTH, 1);
    for row in 0..ROWS {
        for (at, x) in vectors.row_mut(row).iter_mut().enumerate() {
            *x = (*x * *x - 1.0) * 0.85_f64.powi(at as i32);
        }
    }
    let values = vectors.values().iter().map(|&x| x as f32).collect();
    let set = VectorSet::new(WIDTH, values).expect("vectors");
    let coordinates = coordinates(&Pca::fit(&set).expect("axes"), &set);
    let cells: Vec<u32> = (0..ROWS).map(|row| (row / PLACES) as u32).collect();
    let release = |seed| Release {
        rows: mixed(&normals(ROWS, WIDTH, seed), &coordinates, level),
        cells: cells.clone(),
        prefixes: None,
    };
    let view = ServerView { releases: vec![release(2), release(3)], requests: Vec::new() };
    let subject = Subject {
        vectors,
        coordinates,
        given: None,
        axes: None,
        other_lengths: Vec::new(),
        prefix_width: 0,
        cells: cells.clone(),
        keys: KeyFamily::Orthogonal,
        texts: None,
        queries: None,
        view,
        documents: (0..ROWS).collect(),
        canaries: Vec::new(),
        seed: 7,
    };
    Reading { name, subject }
}

/// A collection whose ciphertexts leak at a level everywhere; zero is as it should be.
pub(crate) fn subject(level: f64) -> BlindSubject {
    let queries = normals(100, WIDTH, 4);
    let request = |seed| mixed(&normals(100, WIDTH, seed), &queries, level);
    let changed: Vec<bool> = (0..ROWS).map(|row| row % 4 == 1).collect();
    let changes = Changes { differences: normals(ROWS, WIDTH, 8), changed };
    let rng = &mut generator(9, 0);
    let mut piece = |_| (0..2_048).map(|_| below(MODULUS as usize, rng) as u64).collect();
    let mut pieces: Vec<Vec<u64>> = (0..30).map(&mut piece).collect();
    if level > 0.0 {
        pieces[3] = pieces[17].clone();
    }
    BlindSubject {
        readings: vec![reading("coefficients", level), reading("words", 0.0)],
        changes: attacks::planted_changes(&changes, level),
        requests: Requests {
            queries: queries.clone(),
            readings: vec![("coefficients", [request(5), request(6)])],
        },
        streams: vec![Stream { of: "stored-blocks", reading: "words", modulus: MODULUS, pieces }],
        seen: Seen {
            shape: Shape::new(WIDTH, 32, QueryRank::One).expect("a shape"),
            documents: ROWS,
            blocks: 8,
            checks: 12,
            stored_bytes: 1_000_000,
            requests: vec![(100, 200); 50],
            cells: None,
            records: None,
        },
        seed: 7,
    }
}

/// The cells of vectors: those of their largest coordinates, of the first eight.
fn cells_near(vectors: &Matrix, count: usize) -> Vec<Vec<usize>> {
    let largest = |row: &[f64]| {
        let mut order: Vec<usize> = (0..CELLS).collect();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
        order.truncate(count);
        order
    };
    vectors.iter().map(largest).collect()
}

const CELLS: usize = 8;

/// The same collection, ciphertexts of which leak nothing, with cells of which a search names two.
pub(crate) fn with_cells() -> BlindSubject {
    let mut subject = subject(0.0);
    let own = cells_near(&subject.readings[0].subject.vectors, 1);
    let rng = &mut generator(10, 0);
    let queries = &subject.requests.queries;
    let near = JITTERS.map(|jitter| (jitter, cells_near(&jittered(queries, jitter, rng), 2)));
    subject.seen.cells = Some(SeenCells {
        blocks: vec![1; CELLS],
        probe: 2,
        of_documents: own.into_iter().map(|cells| cells[0] as u32).collect(),
        asked: cells_near(queries, 2),
        near: near.into(),
    });
    subject
}

/// The channels that have a verdict here, in the order of the report.
const JUDGED: [&str; 9] = [
    "same-key-neighbours",
    "partial-alignment",
    "reference-lookup",
    "unsupervised-alignment",
    "release-linkage",
    "release-churn",
    "request-leakage",
    "membership",
    "ciphertext-noise",
];

fn measured(level: f64) -> Vec<Section> {
    let own: Vec<&Channel> = CHANNELS.iter().filter(|channel| channel.scope.is_attack()).collect();
    run_blind(&subject(level), &own, &|_, _| ()).expect("sections")
}

#[test]
fn noise_reads_chance_and_says_what_would_have_been_seen() {
    let sections = measured(0.0);
    let closed: Vec<&str> = sections
        .iter()
        .filter(|section| section.verdict.is_some())
        .map(|section| {
            assert_eq!(section.verdict, Some(Verdict::Closed), "{section:?}");
            let limit = section.findings.iter().find(|finding| finding.metric == DETECTED_FROM);
            assert!(limit.is_some_and(|limit| limit.value <= 1.0), "{}", section.name);
            assert!(section.headline.is_some());
            section.name.as_str()
        })
        .collect();
    assert_eq!(closed, JUDGED);
    // The others say why, and have no figure.
    for section in sections.iter().filter(|section| section.verdict.is_none()) {
        assert!(section.findings.is_empty(), "{}", section.name);
        assert!(section.notes[0].starts_with("Not measured: "), "{:?}", section.notes);
    }
}

#[test]
fn a_leak_is_found_by_every_channel() {
    let sections = measured(0.9);
    let found: Vec<&str> = sections
        .iter()
        .filter(|section| matches!(section.verdict, Some(Verdict::Open | Verdict::Reduced)))
        .map(|section| {
            assert!(section.notes[0].starts_with("This should not be"), "{:?}", section.notes);
            section.name.as_str()
        })
        .collect();
    assert_eq!(found, JUDGED);
}

#[test]
fn cells_that_requests_name_link_them_and_cells_of_documents_are_known() {
    let mut subject = with_cells();
    let requests = channels::requests(&subject, &|_| ()).expect("a section");
    assert!(requests.verdict > Some(Verdict::Closed), "{requests:?}");
    let headline = &requests.findings[requests.headline.expect("a headline")];
    assert_eq!((headline.setting.as_str(), headline.metric.as_str()), ("jitter=0.1", "auc"));
    assert!(headline.ci95.is_some_and(|[low, _]| low > 0.5), "{headline:?}");
    assert!(requests.findings.iter().all(|finding| finding.metric != DETECTED_FROM));
    assert!(requests.notes[0].contains("names them in the clear"), "{:?}", requests.notes);
    assert!(requests.notes[1].starts_with("Of the ciphertexts alone: No attack"));
    let shape = channels::shape(&subject, &|_| ()).expect("a section");
    assert!(shape.verdict > Some(Verdict::Closed), "{shape:?}");
    // A leak of the ciphertexts is a fault, and comes before what cells tell.
    subject.requests.readings = self::subject(0.9).requests.readings;
    let faulty = channels::requests(&subject, &|_| ()).expect("a section");
    assert_eq!(faulty.verdict, Some(Verdict::Open));
    assert!(faulty.notes[1].contains("This should not be"), "{:?}", faulty.notes);
}

#[test]
fn cells_that_have_nothing_to_do_with_queries_or_documents_are_closed() {
    let mut subject = with_cells();
    let cells = subject.seen.cells.as_mut().expect("cells");
    cells.asked = cells_near(&normals(100, WIDTH, 11), 2);
    let rng = &mut generator(12, 0);
    cells.of_documents.iter_mut().for_each(|cell| *cell = below(CELLS, rng) as u32);
    for channel in [channels::requests, channels::shape] {
        let section = channel(&subject, &|_| ()).expect("a section");
        assert_eq!(section.verdict, Some(Verdict::Closed), "{section:?}");
        // The limit is that of the cells.
        let limits = section.findings.iter().filter(|finding| finding.metric == DETECTED_FROM);
        let limits: Vec<Option<f64>> = limits.map(|limit| limit.chance).collect();
        assert_eq!(limits, [Some(0.5)], "{section:?}");
    }
}

/// The section on requests where only the first queries ask for cells, of which each asks for those given.
fn requests_for(queries: usize, asked: impl Fn(usize) -> Vec<usize>) -> Section {
    let mut subject = with_cells();
    let cells = subject.seen.cells.as_mut().expect("cells");
    cells.asked = (0..queries).map(&asked).collect();
    for (_, near) in &mut cells.near {
        *near = cells.asked.clone();
    }
    channels::requests(&subject, &|_| ()).expect("a section")
}

#[test]
fn few_queries_say_nothing_of_named_cells_and_close_nothing() {
    for queries in [1, 2, FEWEST_QUERIES - 1] {
        let section = requests_for(queries, |query| vec![query % CELLS]);
        assert!(section.verdict.is_none(), "{section:?}");
        assert!(section.notes[0].starts_with("No verdict"), "{:?}", section.notes);
        assert!(section.findings.iter().all(|finding| finding.metric != DETECTED_FROM));
    }
    let enough = requests_for(FEWEST_QUERIES, |query| vec![query % CELLS]);
    assert_eq!(enough.verdict, Some(Verdict::Open), "{enough:?}");
    let headline = &enough.findings[enough.headline.expect("a headline")];
    assert!(headline.ci95.is_some_and(|[low, _]| low < 0.9), "{headline:?}");
}

#[test]
fn queries_that_all_ask_for_the_same_cells_close_nothing_unless_they_ask_for_all() {
    let section = requests_for(100, |_| vec![1, 4]);
    assert!(section.verdict.is_none(), "{section:?}");
    assert!(section.notes[0].contains("all ask for the same cells"), "{:?}", section.notes);
    assert!(section.findings.iter().all(|finding| finding.metric != DETECTED_FROM));
    let all = requests_for(100, |_| (0..CELLS).collect());
    assert_eq!(all.verdict, Some(Verdict::Closed), "{all:?}");
    assert!(all.notes.iter().all(|note| !note.contains("No verdict")), "{:?}", all.notes);
}

#[test]
fn what_is_seen_is_counted() {
    let seen = ["collection-size", "block-changes", "request-shape"];
    let channels: Vec<&Channel> = CHANNELS.iter().filter(|it| seen.contains(&it.name)).collect();
    let mut subject = subject(0.0);
    let value = |subject: &BlindSubject, metric: &str| {
        let sections = run_blind(subject, &channels, &|_, _| ()).expect("sections");
        let mut findings = sections.iter().flat_map(|section| &section.findings);
        findings.find(|finding| finding.metric == metric).expect("a figure").value
    };
    assert_eq!(value(&subject, "blocks"), 8.0);
    assert_eq!(value(&subject, "documents_by_sealed_values"), ROWS as f64);
    assert_eq!(value(&subject, "places_that_may_have_changed"), 64.0);
    assert_eq!(value(&subject, "sizes_of_requests"), 1.0);
    subject.seen.requests.push((101, 200));
    assert_eq!(value(&subject, "sizes_of_requests"), 2.0);
    assert_eq!(value(&subject, "sizes_of_answers"), 1.0);
    // What is seen of an exchange are both sizes: the figure counts pairs of them.
    let shape = |requests: Vec<(usize, usize)>| {
        let mut subject = with_cells();
        subject.seen.requests = requests;
        let section = seen::request_shape(&subject, &|_| ()).expect("a section");
        let headline = &section.findings[section.headline.expect("a headline")];
        (headline.value, section.notes[0].clone())
    };
    let (figure, note) = shape((0..12).map(|at| (100, 200 + at % 3)).collect());
    assert_eq!(figure, 3.0);
    assert!(
        note.contains("12 requests that were recorded have one size, and their answers have 3")
    );
    let (figure, note) = shape(vec![(100, 200), (101, 201), (100, 201)]);
    assert_eq!(figure, 3.0);
    assert!(note.contains("have 2 sizes, and their answers have 2 sizes"), "{note}");
    let fetches = vec![(1, 100, 50), (1, 100, 50), (2, 200, 100)];
    let shape = RecordShape::new(3, 1_024, QueryRank::One).expect("a shape");
    subject.seen.records = Some(SeenRecords { shape, fetches });
    assert_eq!(value(&subject, "pages_of_records"), 3.0);
    assert_eq!(value(&subject, "slots_of_records"), 96.0);
    assert_eq!(value(&subject, "fetches_recorded"), 3.0);
    assert_eq!(value(&subject, "numbers_of_slots_fetched"), 2.0);
    assert_eq!(value(&subject, "sizes_of_fetches"), 2.0);
    // Two fetches of as many slots that can be told apart.
    if let Some(records) = &mut subject.seen.records {
        records.fetches.push((2, 200, 101));
    }
    assert_eq!(value(&subject, "sizes_of_fetches"), 3.0);
}

#[test]
fn too_few_documents_have_no_verdict() {
    let mut small = subject(0.0);
    for reading in &mut small.readings {
        let subject = &mut reading.subject;
        let few: Vec<usize> = (0..20).collect();
        subject.vectors = subject.vectors.select(&few);
        subject.coordinates = subject.coordinates.select(&few);
        for release in &mut subject.view.releases {
            release.rows = release.rows.select(&few);
            release.cells.truncate(20);
        }
    }
    let section = channels::known_pairs(&small, &|_| ()).expect("a section");
    assert!(section.verdict.is_none() && section.notes[0].contains("too few"), "{section:?}");
}
