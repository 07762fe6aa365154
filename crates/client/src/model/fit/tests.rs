use std::ops::ControlFlow;
use std::sync::Mutex;

use rand_chacha::rand_core::Rng;
use shard_protocol::Epoch;

use super::*;
use crate::progress::{Progress, UNWATCHED};
use crate::settings::{CellCount, Choice};

const EPOCH: SaltedEpoch = SaltedEpoch { epoch: Epoch(1), salt: [0; 32] };

/// Rows with falling variance around a mean.
fn vectors(rows: usize, width: usize, seed: u64) -> VectorSet {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let values = (0..rows * width).map(|at| {
        let unit = rng.next_u32() as f32 / u32::MAX as f32 - 0.5;
        0.1 + unit / (1.0 + (at % width) as f32 / 4.0)
    });
    VectorSet::new(width, values.collect()).unwrap()
}

fn fit(vectors: &VectorSet) -> (Model, Placed) {
    Model::fit(&Settings::rotated(), EPOCH, vectors, None, UNWATCHED).unwrap()
}

#[test]
fn what_a_fit_keeps_of_a_document_is_what_its_coordinates_say() {
    let vectors = vectors(700, 24, 1);
    let (model, placed) = fit(&vectors);
    let prefix = model.split().prefix();
    let residuals = model.residuals(&vectors).unwrap();
    for row in 0..vectors.rows() {
        let coordinates = model.pca().centred(vectors.row(row));
        let (own, residual) = model.split().halves(&coordinates);
        let kept = &placed.prefixes[row * prefix..][..prefix];
        assert!(kept.iter().zip(own).all(|(kept, u)| (f64::from(*kept) - u).abs() < 1e-6));
        let norm = residual.iter().map(|r| r * r).sum::<f64>().sqrt();
        let bound = f64::from(placed.residual_norms[row]);
        assert!(bound >= norm * (1.0 - 1e-14) && bound < norm * (1.0 + 1e-6));
        let kept = &residuals[row * residual.len()..][..residual.len()];
        assert!(kept.iter().zip(residual).all(|(kept, r)| (f64::from(*kept) - r).abs() < 1e-6));
    }
    let again = model.place(&vectors).unwrap();
    assert!(again.prefixes == placed.prefixes && again.residual_norms == placed.residual_norms);
    assert!(again.cells == placed.cells && again.energies == placed.energies);
}

#[test]
fn a_stored_row_is_within_the_bound_that_follows_from_its_residual() {
    let vectors = vectors(300, 24, 2);
    let (model, placed) = fit(&vectors);
    let width = model.split().residual();
    let residuals = model.residuals(&vectors).unwrap();
    for (residual, &norm) in residuals.chunks_exact(width).zip(&placed.residual_norms) {
        let wide: Vec<f64> = residual.iter().map(|&r| f64::from(r)).collect();
        let stored = model.operand_scale().quantise(&wide).unwrap();
        let (actual, bound) = (shard_rlwe::OperandBound::of(&stored), model.operand_bound(norm));
        assert!(actual <= bound, "{actual:?} beyond {bound:?}");
        assert!(bound.norm() <= actual.norm() + (width as f64).sqrt() + 1.0);
    }
}

#[test]
fn progress_grows_from_nothing_to_the_whole() {
    for cells in [CellCount::Auto, CellCount::Micro] {
        let told = Mutex::new(Vec::new());
        let watch = |progress: Progress| {
            told.lock().unwrap().push(progress);
            ControlFlow::Continue(())
        };
        let vectors = vectors(5000, 32, 3);
        Model::fit(&Settings::new(cells), EPOCH, &vectors, None, &watch).unwrap();
        let told = told.into_inner().unwrap();
        let total = told[0].total;
        assert!(told.len() > 40 && told.iter().all(|progress| progress.total == total));
        assert!(told.is_sorted_by_key(|progress| progress.done));
        assert_eq!((told[0].done, told[told.len() - 1].done), (0, total));
        // No step is a jump, but for rounds that were not needed.
        let passes = told.len() * 9 / 10;
        let steps = told[..passes].windows(2).map(|pair| pair[1].done - pair[0].done);
        assert!(steps.max().unwrap() < total / 8);
    }
}

#[test]
fn a_fit_ends_wherever_the_watch_ends_it() {
    let vectors = vectors(3000, 32, 4);
    for percent in [0, 3, 20, 60, 90, 99, 100] {
        let watch = |progress: Progress| {
            let reached = progress.done * 100 >= progress.total * percent;
            if reached { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let ended = Model::fit(&Settings::rotated(), EPOCH, &vectors, None, &watch);
        assert!(matches!(ended, Err(ClientError::Cancelled)), "at {percent} %");
    }
}

#[test]
fn any_number_of_documents_is_fitted() {
    for (rows, cells) in [(1, 1), (2, 1), (50, 1), (80, 2), (400, 10)] {
        for width in [2, 3, 40] {
            let vectors = vectors(rows, width, 5);
            let (model, placed) = fit(&vectors);
            assert_eq!(model.cells().unwrap().count(), cells);
            assert_eq!(placed.residual_norms.len(), rows);
            assert!((1..width).contains(&model.split().prefix()));
        }
    }
    let equal = VectorSet::new(3, [0.5, -0.25, 1.0].repeat(90)).unwrap();
    let zeros = VectorSet::new(3, vec![0.0; 270]).unwrap();
    for vectors in [equal, zeros] {
        let (model, placed) = fit(&vectors);
        assert_eq!(model.tuning().held, 1.0);
        assert!(placed.residual_norms.iter().all(|norm| *norm < 1e-6));
    }
}

#[test]
fn what_cannot_be_fitted_is_refused_before_the_work() {
    let watch = |_: Progress| panic!("work in vain");
    let refused = |settings: &Settings, vectors: &VectorSet| {
        Model::fit(settings, EPOCH, vectors, None, &watch).map(drop).unwrap_err()
    };
    let few = vectors(10, 8, 6);
    let cells = Settings::new(CellCount::Cells(11));
    assert!(matches!(refused(&cells, &few), ClientError::Cells(_)));
    let wide = Settings { d_pub: Choice::Fixed(8), ..Settings::rotated() };
    assert!(matches!(refused(&wide, &few), ClientError::Split(_)));
    let narrow = VectorSet::new(1, vec![1.0; 5]).unwrap();
    assert!(matches!(refused(&Settings::rotated(), &narrow), ClientError::Tune(_)));
}

#[test]
fn vectors_beyond_single_precision_are_refused() {
    let long = VectorSet::new(2, vec![1e38, 1e38, -1e38, 1e38]).unwrap();
    let fitted = Model::fit(&Settings::rotated(), EPOCH, &long, None, UNWATCHED);
    assert!(matches!(fitted, Err(ClientError::TooLong { .. })));
    let (model, _) = fit(&vectors(20, 2, 7));
    assert!(matches!(model.place(&long), Err(ClientError::TooLong { .. })));
}

#[test]
fn a_model_reads_back() {
    for cells in [CellCount::Auto, CellCount::Cells(3), CellCount::Micro] {
        let (model, _) =
            Model::fit(&Settings::new(cells), EPOCH, &vectors(200, 8, 8), None, UNWATCHED).unwrap();
        let bytes = model.encode();
        let back = Model::decode(&bytes).unwrap();
        assert_eq!(back.encode(), bytes);
        assert_eq!(back.residual_weight, model.residual_weight);
    }
}
