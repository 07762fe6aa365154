use super::*;
use crate::baselines::sample::mixture;

#[test]
fn every_baseline_finds_what_it_stores_and_the_lossless_ones_rank_as_raw_does() {
    let vectors = mixture(300, 16, 1);
    let queries = mixture(5, 16, 2);
    let raw = Baseline::Raw.protect(&vectors, 7).unwrap();
    for baseline in Baseline::ALL {
        let protected = baseline.protect(&vectors, 7).unwrap();
        assert_eq!((protected.baseline(), protected.rows()), (baseline, 300));
        let found = protected.search(queries.row(0), 10, CANDIDATES).unwrap();
        assert_eq!(found.len(), 10, "{baseline}");
        assert!(found.windows(2).all(|pair| pair[0].score >= pair[1].score), "{baseline}");
        assert!(protected.search(&[0.0; 3], 1, 40).is_err(), "{baseline}");
    }
    // Without noise to speak of, a Gaussian release is the collection.
    let quiet = Baseline::Gaussian { epsilon: 1e12 }.protect(&vectors, 7).unwrap();
    for row in 0..queries.rows() {
        let rows = |protected: &Protected| -> Vec<u32> {
            let found = protected.search(queries.row(row), 10, CANDIDATES).unwrap();
            found.iter().map(|hit| hit.row).collect()
        };
        assert_eq!(rows(&quiet), rows(&raw));
    }
}

#[test]
fn global_scores_under_encryption_as_in_the_clear() {
    let vectors = mixture(300, 16, 3);
    let protected = Baseline::Global.protect(&vectors, 7).unwrap();
    for row in 0..3 {
        let encrypted = protected.search(vectors.row(row), 40, 40).unwrap();
        let plain = protected.search_in_the_clear(vectors.row(row), 40, 40).unwrap();
        for hit in &encrypted {
            let same = plain.iter().find(|other| other.row == hit.row).expect("one shortlist");
            assert!((same.score - hit.score).abs() < 1e-5, "{hit:?} {same:?}");
        }
        assert_eq!(encrypted.len(), plain.len());
    }
}

#[test]
fn global_with_all_rows_as_candidates_ranks_by_the_projected_raw_score() {
    let vectors = mixture(200, 16, 4);
    let protected = Baseline::Global.protect(&vectors, 9).unwrap();
    let pca = Pca::fit(&vectors).unwrap();
    let query = mixture(1, 16, 5);
    // q^T V_k V_k^T (x - mu), from its definition.
    let projected = |row: usize| -> f64 {
        let (q, x) = (pca.uncentred(query.row(0)), pca.centred(vectors.row(row)));
        q[..8].iter().zip(&x[..8]).map(|(q, x)| q * x).sum()
    };
    for hit in protected.search_in_the_clear(query.row(0), 200, 200).unwrap() {
        assert!((hit.score - projected(hit.row as usize)).abs() < 1e-5);
    }
}

#[test]
fn rotated_releases_keep_distances_of_the_kept_coordinates_and_hide_directions() {
    let vectors = mixture(60, 8, 6);
    let release = Baseline::Global.protect(&vectors, 1).unwrap().release();
    let other = Baseline::Global.protect(&vectors, 2).unwrap().release();
    assert_eq!((release.rows.rows(), release.rows.width()), (60, 4));
    let (norms, others) = (release.rows.norms(), other.rows.norms());
    assert!(norms.iter().zip(&others).all(|(a, b)| (a - b).abs() < 1e-5));
    assert_ne!(release.rows, other.rows);
    assert!(release.cells.iter().all(|&cell| cell == 0) && release.prefixes.is_none());
}

#[test]
fn orthogonal_projections_shorten_and_gaussian_ones_keep_norms_on_average() {
    let vectors = mixture(400, 32, 8);
    let mean_square = |baseline: Baseline| {
        let norms = baseline.protect(&vectors, 3).unwrap().release().rows.norms();
        norms.iter().map(|norm| norm * norm).sum::<f64>() / 400.0
    };
    let raw = mean_square(Baseline::Raw);
    assert!(mean_square(Baseline::OrthogonalProjection) < raw);
    let gaussian = mean_square(Baseline::GaussianProjection) / raw;
    assert!((0.4..2.5).contains(&gaussian), "{gaussian}");
    assert_eq!(
        Baseline::OrthogonalProjection.protect(&vectors, 3).unwrap().release().rows.width(),
        16
    );
}

#[test]
fn odd_widths_and_few_rows_are_protected_and_too_few_are_refused() {
    for width in [1, 2, 3, 7, 13] {
        let vectors = mixture(40, width, 5);
        for baseline in Baseline::ALL {
            let protected = baseline.protect(&vectors, 1).unwrap();
            assert_eq!(
                protected.search(vectors.row(0), 3, 5).unwrap().len(),
                3,
                "{baseline} {width}"
            );
        }
    }
    assert!(Baseline::Global.protect(&mixture(10, 8, 1), 1).is_err());
}

#[test]
fn runs_name_what_searches_find() {
    let vectors = mixture(50, 8, 6);
    let protected = Baseline::Raw.protect(&vectors, 1).unwrap();
    let ids = ["a".to_owned(), "b".to_owned()];
    let queries = mixture(2, 8, 7);
    let name = |row: u32| format!("d{row}");
    let run = evaluate_baseline(&protected, &queries, &ids, &name, 3, 40, &|| ()).unwrap();
    let best = protected.search(queries.row(1), 3, 40).unwrap();
    assert_eq!((run.len(), run[1].0.as_str()), (2, "b"));
    assert_eq!(run[1].1, best.iter().map(|hit| name(hit.row)).collect::<Vec<_>>());
}
