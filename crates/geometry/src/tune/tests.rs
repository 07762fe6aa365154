use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::*;
use crate::gaussian::Normals;
use crate::kernel;
use crate::route::{FlatRouter, RouteQuery};
use crate::score::exact_top_k;

/// Unit vectors whose spread falls along the axes like `1 / (1 + decay * axis)`.
fn corpus(rows: usize, width: usize, decay: f64, seed: u64) -> VectorSet {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut normals = Normals::new(&mut rng);
    let mut values = Vec::new();
    for _ in 0..rows {
        let row: Vec<f64> =
            (0..width).map(|at| normals.draw() / (1.0 + decay * at as f64)).collect();
        let norm = kernel::dot(&row, &row).sqrt();
        values.extend(row.iter().map(|x| (x / norm) as f32));
    }
    VectorSet::new(width, values).unwrap()
}

fn run(
    vectors: &VectorSet,
    queries: Option<&VectorSet>,
    request: TuneRequest,
) -> Result<Tuning, TuneError> {
    let pca = Pca::fit(vectors).unwrap();
    let rng = &mut ChaCha8Rng::seed_from_u64(9);
    tune(vectors, &pca, queries, request, rng, Work::unwatched())
}

/// What a router needs of some vectors.
struct Routed {
    width: usize,
    prefixes: Vec<f32>,
    residual_norms: Vec<f32>,
}

impl Routed {
    fn new(pca: &Pca, vectors: &VectorSet, width: usize) -> Self {
        let mut routed = Self { width, prefixes: Vec::new(), residual_norms: Vec::new() };
        for row in 0..vectors.rows() {
            let coordinates = pca.centred(vectors.row(row));
            let (prefix, residual) = coordinates.split_at(width);
            routed.prefixes.extend(prefix.iter().map(|&x| x as f32));
            routed.residual_norms.push(kernel::dot(residual, residual).sqrt() as f32);
        }
        routed
    }

    fn shortlist(&self, pca: &Pca, query: &[f32], weight: f64, k: usize) -> Vec<u32> {
        let query = RouteQuery::new(&pca.uncentred(query), self.width, weight);
        let router = FlatRouter::new(self.width, &self.prefixes, &self.residual_norms).unwrap();
        router.shortlist(&[query], k).unwrap().swap_remove(0)
    }
}

/// The part of the true neighbours of all queries that shortlists hold.
fn held_by(lists: &[Vec<u32>], vectors: &VectorSet, queries: &VectorSet) -> f64 {
    let inside = lists.iter().enumerate().map(|(query, list)| {
        let truth = exact_top_k(vectors, queries.row(query), NEIGHBOURS).unwrap();
        truth.iter().filter(|ranked| list.contains(&ranked.row)).count()
    });
    inside.sum::<usize>() as f64 / (NEIGHBOURS * lists.len()) as f64
}

#[test]
fn measured_length_is_the_shortest_that_routing_confirms() {
    let (vectors, queries) = (corpus(700, 24, 0.2, 1), corpus(40, 24, 0.2, 2));
    let tuning = run(&vectors, Some(&queries), TuneRequest::default()).unwrap();
    assert_eq!((tuning.sample, tuning.source), (40, SampleSource::Queries));

    let pca = Pca::fit(&vectors).unwrap();
    for measured in &tuning.measured {
        let rows = Routed::new(&pca, &vectors, measured.d_pub);
        let held = |k: usize| {
            let list = |query| rows.shortlist(&pca, queries.row(query), measured.weight, k);
            held_by(&(0..40).map(list).collect::<Vec<_>>(), &vectors, &queries)
        };
        assert!(held(measured.candidates_needed) >= HELD);
        assert!(held(measured.candidates_needed - 1) < HELD);
        assert_eq!(held(DEFAULT_CAP), measured.held_at_cap);
    }
}

#[test]
fn smallest_width_within_the_cap_is_chosen() {
    let vectors = corpus(1200, 32, 0.3, 3);
    let tuning = run(
        &vectors,
        None,
        TuneRequest { d_pub: None, candidates: Some(60), ..Default::default() },
    )
    .unwrap();
    assert_eq!((tuning.cap, tuning.candidates), (60, 60));
    let fits: Vec<usize> = tuning
        .measured
        .iter()
        .filter(|width| width.candidates_needed <= 60)
        .map(|width| width.d_pub)
        .collect();
    assert_eq!(tuning.d_pub, fits[0]);
    assert!(
        tuning.d_pub > tuning.measured[0].d_pub,
        "the smallest width of all would make this test empty"
    );
    assert!(tuning.held >= HELD);
}

#[test]
fn a_given_width_gets_the_length_it_needs_even_above_the_cap() {
    let vectors = corpus(1200, 32, 0.0, 4);
    let tuning =
        run(&vectors, None, TuneRequest { d_pub: Some(2), candidates: None, ..Default::default() })
            .unwrap();
    assert_eq!((tuning.d_pub, tuning.measured.len()), (2, 1));
    assert!(tuning.candidates > DEFAULT_CAP && tuning.held >= HELD);

    let tuning = run(
        &vectors,
        None,
        TuneRequest { d_pub: Some(2), candidates: Some(20), ..Default::default() },
    )
    .unwrap();
    assert_eq!((tuning.d_pub, tuning.candidates), (2, 20));
    assert!(tuning.held < 0.5);
}

#[test]
fn noisy_rows_ask_for_more_than_bare_rows() {
    let vectors = corpus(2000, 32, 0.3, 5);
    let bare = VectorSet::new(32, vectors.values()[..300 * 32].to_vec()).unwrap();
    let request = TuneRequest { d_pub: Some(8), candidates: None, ..Default::default() };
    let (noisy, bare) =
        (run(&vectors, None, request).unwrap(), run(&vectors, Some(&bare), request).unwrap());
    assert!(noisy.candidates > bare.candidates, "{} {}", noisy.candidates, bare.candidates);
}

#[test]
fn small_corpora_and_narrow_vectors_work() {
    for rows in [1, 2, 5, 10, 11, 12] {
        for width in [2, 3, 9] {
            let tuning = run(&corpus(rows, width, 0.1, 6), None, TuneRequest::default()).unwrap();
            assert!((1..width).contains(&tuning.d_pub) && tuning.held >= HELD);
            assert!((1..=rows).contains(&tuning.candidates) && tuning.sample == rows);
        }
    }
    let zeros = VectorSet::new(3, vec![0.0; 60]).unwrap();
    assert_eq!(run(&zeros, None, TuneRequest::default()).unwrap().d_pub, 1);
}

#[test]
fn requests_that_cannot_be_met_are_errors() {
    let vectors = corpus(20, 4, 0.1, 7);
    let with = |d_pub, candidates| {
        run(&vectors, None, TuneRequest { d_pub, candidates, ..Default::default() }).unwrap_err()
    };
    assert_eq!(with(Some(4), None), TuneError::BadPrefix { d_pub: 4, width: 4 });
    assert_eq!(with(Some(0), None), TuneError::BadPrefix { d_pub: 0, width: 4 });
    assert_eq!(with(None, Some(0)), TuneError::NoCandidates);
    let narrow = VectorSet::new(1, vec![1.0; 5]).unwrap();
    assert_eq!(run(&narrow, None, TuneRequest::default()), Err(TuneError::TooNarrow { width: 1 }));
    let queries = corpus(3, 5, 0.1, 8);
    let expected = TuneError::WrongWidth { part: "queries", expected: 4, actual: 5 };
    assert_eq!(run(&vectors, Some(&queries), TuneRequest::default()), Err(expected));
}

#[test]
fn ladder_ascends_within_the_width() {
    assert_eq!(ladder(384), [48, 72, 96, 120, 144, 168, 192, 240, 288]);
    for width in 2..40 {
        let widths = ladder(width);
        assert!(
            widths.is_sorted_by(|a, b| a < b) && widths[0] >= 1 && widths[widths.len() - 1] < width
        );
    }
}

/// A corpus like [`corpus`] with lengths of a log-normal law, the deviation of the logarithm one.
fn of_all_lengths(vectors: &VectorSet, seed: u64) -> VectorSet {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut normals = Normals::new(&mut rng);
    let rows = vectors.values().chunks_exact(vectors.width());
    let values = rows.flat_map(|row| {
        let length = normals.draw().exp() as f32;
        row.iter().map(move |x| x * length)
    });
    VectorSet::new(vectors.width(), values.collect()).unwrap()
}

fn scaled(vectors: &VectorSet, scale: f32) -> VectorSet {
    let values = vectors.values().iter().map(|x| x * scale).collect();
    VectorSet::new(vectors.width(), values).unwrap()
}

#[test]
fn routing_finds_what_exact_search_finds_whatever_the_lengths() {
    let (unit, queries) = (corpus(1500, 32, 0.3, 10), corpus(60, 32, 0.3, 11));
    for vectors in [unit.clone(), of_all_lengths(&unit, 12), scaled(&unit, 6.0)] {
        let tuning = run(&vectors, None, TuneRequest::default()).unwrap();
        assert!(tuning.held >= HELD);
        let pca = Pca::fit(&vectors).unwrap();
        let rows = Routed::new(&pca, &vectors, tuning.d_pub);
        for scale in [1e-20, 0.1, 1.0, 6.0, 1e20] {
            let queries = scaled(&queries, scale);
            let list = |at| rows.shortlist(&pca, queries.row(at), tuning.weight, tuning.candidates);
            let held = held_by(&(0..60).map(list).collect::<Vec<_>>(), &vectors, &queries);
            assert!(held >= 0.99, "{held} at {scale}");
        }
    }
}

#[test]
fn a_choice_does_not_depend_on_the_length_of_the_corpus() {
    let vectors = of_all_lengths(&corpus(800, 24, 0.2, 13), 14);
    let expected = run(&vectors, None, TuneRequest::default()).unwrap();
    // Powers of two, which change no digit.
    for scale in [2f32.powi(-60), 2f32.powi(60)] {
        assert_eq!(run(&scaled(&vectors, scale), None, TuneRequest::default()).unwrap(), expected);
    }
}

#[test]
fn choices_keep_within_the_limits_of_the_request() {
    let vectors = corpus(1200, 32, 0.0, 15);
    let limited = |fewest, most| {
        let request = TuneRequest { fewest, most, ..Default::default() };
        run(&vectors, None, request).unwrap()
    };
    let free = limited(1, usize::MAX);
    let longer = limited(free.candidates + 50, usize::MAX);
    assert_eq!(longer.candidates, free.candidates + 50);
    assert!(longer.held > free.held);
    let shorter = limited(1, 20);
    assert!(shorter.candidates == 20 && shorter.held < free.held);
}

#[test]
fn a_measurement_can_be_ended_and_its_work_adds_up() {
    let vectors = corpus(700, 24, 0.2, 16);
    let pca = Pca::fit(&vectors).unwrap();
    let told = std::sync::atomic::AtomicU64::new(0);
    let watch = |amount| {
        told.fetch_add(amount, std::sync::atomic::Ordering::Relaxed);
        std::ops::ControlFlow::Continue(())
    };
    let request = TuneRequest::default();
    let with = |work| tune(&vectors, &pca, None, request, &mut ChaCha8Rng::seed_from_u64(9), work);
    with(Work::new(&watch)).unwrap();
    let told = told.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(told, work(700, 24, None, &request));
    let end = |_| std::ops::ControlFlow::Break(());
    assert_eq!(with(Work::new(&end)), Err(TuneError::Stopped(Stopped)));
}

#[test]
fn equal_rows_are_ranked_by_row() {
    // Every row forty times over, and noise cannot part them: ten of forty equals are the neighbours.
    let few = corpus(20, 16, 0.2, 17);
    let values = (0..800).flat_map(|row| few.row(row % 20)).copied().collect();
    let vectors = VectorSet::new(16, values).unwrap();
    let queries = corpus(30, 16, 0.2, 18);
    let tuning =
        run(&vectors, Some(&queries), TuneRequest { d_pub: Some(15), ..Default::default() });
    assert!(tuning.unwrap().candidates <= 50);
}
