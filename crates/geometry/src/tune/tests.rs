use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::*;
use crate::route::FlatRouter;
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
    let projected = pca.project(vectors).unwrap();
    tune(vectors, &pca, &projected, queries, request, &mut ChaCha8Rng::seed_from_u64(9))
}

#[test]
fn measured_length_is_the_shortest_that_routing_confirms() {
    let (vectors, queries) = (corpus(700, 24, 0.2, 1), corpus(40, 24, 0.2, 2));
    let tuning = run(&vectors, Some(&queries), TuneRequest::default()).unwrap();
    assert_eq!((tuning.sample, tuning.source), (40, SampleSource::Queries));

    let pca = Pca::fit(&vectors).unwrap();
    for measured in &tuning.measured {
        let prefixes = |set: &VectorSet| -> Vec<f32> {
            (0..set.rows())
                .flat_map(|row| pca.centred(set.row(row))[..measured.d_pub].to_vec())
                .map(|x| x as f32)
                .collect()
        };
        let (rows, wanted) = (prefixes(&vectors), prefixes(&queries));
        let router = FlatRouter::new(measured.d_pub, &rows).unwrap();
        let held = |k: usize| {
            let shortlists = router.shortlist(&wanted, k).unwrap();
            let inside = shortlists.iter().enumerate().map(|(query, shortlist)| {
                let truth = exact_top_k(&vectors, queries.row(query), NEIGHBOURS).unwrap();
                truth.iter().filter(|ranked| shortlist.contains(&ranked.row)).count()
            });
            inside.sum::<usize>() as f64 / 400.0
        };
        assert!(held(measured.candidates_needed) >= HELD);
        assert!(held(measured.candidates_needed - 1) < HELD);
        assert_eq!(held(DEFAULT_CAP), measured.held_at_cap);
    }
}

#[test]
fn smallest_width_within_the_cap_is_chosen() {
    let vectors = corpus(1200, 32, 0.3, 3);
    let tuning = run(&vectors, None, TuneRequest { d_pub: None, candidates: Some(60) }).unwrap();
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
    let tuning = run(&vectors, None, TuneRequest { d_pub: Some(2), candidates: None }).unwrap();
    assert_eq!((tuning.d_pub, tuning.measured.len()), (2, 1));
    assert!(tuning.candidates > DEFAULT_CAP && tuning.held >= HELD);

    let tuning = run(&vectors, None, TuneRequest { d_pub: Some(2), candidates: Some(20) }).unwrap();
    assert_eq!((tuning.d_pub, tuning.candidates), (2, 20));
    assert!(tuning.held < 0.5);
}

#[test]
fn noisy_rows_ask_for_more_than_bare_rows() {
    let vectors = corpus(2000, 32, 0.3, 5);
    let bare = VectorSet::new(32, vectors.values()[..300 * 32].to_vec()).unwrap();
    let request = TuneRequest { d_pub: Some(8), candidates: None };
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
    let with =
        |d_pub, candidates| run(&vectors, None, TuneRequest { d_pub, candidates }).unwrap_err();
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
