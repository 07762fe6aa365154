use super::*;
use crate::settings::{CellCount, Choice, Settings};
use proptest::prelude::*;
use shard_protocol::{Epoch, RowHandle};

use crate::collection::Canaries;
use crate::collection::{RoutingRows, RowRecord};
use crate::keys::SaltedEpoch;
use crate::progress::UNWATCHED;

const WIDTH: usize = 16;
const EPOCH: SaltedEpoch = SaltedEpoch { epoch: Epoch(1), salt: [0; 32] };

fn figures() -> Figures {
    Figures {
        outside_prefix: 0.2,
        outside_basis: 0.0,
        cells: Some(Balance { imbalance: 1.5, effective: 0.9 }),
        recall: 0.998,
    }
}

fn model_drift(now: Figures, documents: usize, late: usize) -> ModelDrift {
    let late = EnergySum { count: late as u64, ..EnergySum::default() };
    ModelDrift { fitted: figures(), now, documents: documents as u64, late, changes: 0 }
}

#[test]
fn nothing_is_due_while_the_figures_hold() {
    assert_eq!(model_drift(figures(), 100, 0).refit_due(), []);
    let within = Figures {
        outside_prefix: 0.249,
        outside_basis: 0.0099,
        cells: Some(Balance { imbalance: 2.99, effective: 0.5 }),
        recall: 0.9901,
    };
    assert_eq!(model_drift(within, 100, 50).refit_due(), []);
}

#[test]
fn each_threshold_is_a_reason_of_its_own() {
    let due = |now: Figures, late: usize| {
        let reasons = model_drift(now, 100, late).refit_due();
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        reasons[0]
    };
    let recall = |recall| Figures { recall, ..figures() };
    assert!(matches!(due(recall(0.987), 0), RefitReason::RecallFell { .. }));
    assert!(matches!(due(recall(0.989), 0), RefitReason::RecallBelowTarget { .. }));
    let outside = Figures { outside_prefix: 0.251, ..figures() };
    assert!(matches!(due(outside, 10), RefitReason::OutsidePrefix { .. }));
    let outside = Figures { outside_basis: 0.011, ..figures() };
    assert!(matches!(due(outside, 10), RefitReason::OutsideBasis(_)));
    let uneven = Figures { cells: Some(Balance { imbalance: 3.1, effective: 0.5 }), ..figures() };
    assert!(matches!(due(uneven, 0), RefitReason::Imbalance { .. }));
    assert!(matches!(due(figures(), 51), RefitReason::Growth { late: 51, documents: 100 }));
    for reason in model_drift(Figures { recall: 0.5, ..outside }, 100, 60).refit_due() {
        assert!(!reason.to_string().contains('\n'));
    }
}

#[test]
fn a_few_odd_documents_are_no_drift() {
    let outside = Figures { outside_prefix: 0.9, outside_basis: 0.5, ..figures() };
    assert_eq!(model_drift(outside, 100, 9).refit_due(), []);
    assert_eq!(model_drift(outside, 100, 10).refit_due().len(), 2);
}

#[test]
fn a_fit_that_missed_the_target_is_not_due_for_that() {
    let poor = Figures { recall: 0.9, ..figures() };
    let drift = ModelDrift { fitted: poor, ..model_drift(poor, 100, 0) };
    assert_eq!(drift.refit_due(), []);
}

/// Rows that vary in the first `varying` directions, the more the earlier.
fn rows(count: usize, varying: usize, seed: u64) -> VectorSet {
    let mut state = seed;
    let mut values = Vec::new();
    for _ in 0..count {
        for at in 0..WIDTH {
            // Knuth's linear congruential generator.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let unit = (state >> 40) as f32 / (1 << 24) as f32 - 0.5;
            values.push(if at < varying { unit / (1.0 + at as f32) } else { 0.25 });
        }
    }
    VectorSet::new(WIDTH, values).unwrap()
}

fn model(vectors: &VectorSet) -> Model {
    let settings = Settings { d_pub: Choice::Fixed(4), ..Settings::new(CellCount::Cells(1)) };
    Model::fit(&settings, EPOCH, vectors, None, UNWATCHED).unwrap().0
}

#[test]
fn energies_are_parts_of_the_whole() {
    let fitted = rows(200, 8, 1);
    let model = model(&fitted);
    let energies = |vectors: &VectorSet| model.place(vectors).unwrap().energies;
    let mean = |vectors: &VectorSet| EnergySum::of(&energies(vectors)).means().unwrap();
    assert!(mean(&fitted).1 < 1e-9, "{:?}", mean(&fitted));
    for (row, energy) in energies(&fitted).iter().enumerate() {
        let coordinates = model.pca().centred(fitted.row(row));
        let of = |coordinates: &[f64]| coordinates.iter().map(|x| x * x).sum::<f64>();
        let expected = of(&coordinates[4..]) / of(&coordinates);
        assert!((f64::from(energy.outside_prefix) - expected).abs() < 1e-6);
    }
    // Directions that the fitted rows did not take.
    let (outside_prefix, outside_basis) = mean(&rows(50, WIDTH, 2));
    assert!(outside_basis > 0.05 && outside_basis < outside_prefix);
    // The mean itself has no energy.
    let centre: Vec<f32> = model.pca().mean().iter().map(|mu| *mu as f32).collect();
    let centre = energies(&VectorSet::new(WIDTH, centre).unwrap())[0];
    assert!(centre.outside_prefix.is_finite());
}

#[test]
fn even_cells_are_as_many_as_there_are_and_one_full_cell_is_one() {
    let balance = measure::balance(&[2; 4]);
    assert!((balance.imbalance - 1.0).abs() < 1e-12 && (balance.effective - 1.0).abs() < 1e-12);
    let full = measure::balance(&[0, 0, 8, 0]);
    assert!((full.imbalance - 4.0).abs() < 1e-12 && (full.effective - 0.25).abs() < 1e-12);
}

/// An index of documents with a key each.
fn index(placed: &crate::model::Placed) -> Index {
    let width = placed.prefix_width;
    let mut rows = RoutingRows::empty(width, false);
    for (at, &residual_norm) in placed.residual_norms.iter().enumerate() {
        rows.push(&RowRecord {
            id: &at.to_string(),
            handle: RowHandle(at as u64),
            cell: None,
            residual_norm,
            length: 1.0,
            is_late: false,
            prefix: placed.prefix(at),
        });
    }
    let count = rows.rows();
    let canaries = Canaries::new(Vec::new(), Vec::new(), false);
    Index::new(rows, &[(0, count)], None, canaries, 0).unwrap()
}

#[test]
fn recall_of_a_shortlist_of_everything_is_whole_and_of_a_short_one_is_not() {
    let vectors = rows(300, WIDTH, 3);
    let settings = |candidates| Settings {
        d_pub: Choice::Fixed(2),
        candidates: Choice::Fixed(candidates),
        ..Settings::new(CellCount::Micro)
    };
    let recall = |candidates| {
        let (model, placed) =
            Model::fit(&settings(candidates), EPOCH, &vectors, None, UNWATCHED).unwrap();
        let index = index(&placed);
        // The measure of the tuning, on its own sample, is the same one.
        let measured = measure::recall(&model, &index, &vectors).unwrap();
        assert_eq!(measured, measure::recall(&model, &index, &vectors).unwrap());
        assert!((measured - model.tuning().held).abs() < 0.08, "{measured}");
        measured
    };
    assert_eq!(recall(300), 1.0);
    assert!(recall(20) < recall(150) && recall(150) < 1.0);
}

proptest! {
    #[test]
    fn a_record_reads_back(
        energies in proptest::collection::vec((0.0_f32..1.0, 0.0_f32..1.0), 0..30),
        gone in 0_usize..30,
        others in 0_u64..1000,
        changes: u64,
    ) {
        let energies: Vec<Energy> = energies
            .into_iter()
            .map(|(outside_prefix, outside_basis)| Energy { outside_prefix, outside_basis })
            .collect();
        let mut late = EnergySum::of(&energies);
        let left = &energies[gone.min(energies.len())..];
        late.remove(EnergySum::of(&energies[..energies.len() - left.len()]));
        // What was taken out leaves nothing behind.
        prop_assert_eq!(late, EnergySum::of(left));
        let documents = late.count + others;
        let now = Figures { cells: None, ..figures() };
        let record = ModelDrift { fitted: figures(), now, documents, late, changes };
        prop_assert_eq!(ModelDrift::decode(&record.encode()).unwrap(), record);
    }
}

#[test]
fn a_record_whose_parts_do_not_go_together_is_refused() {
    let whole = model_drift(figures(), 4, 2);
    let too_much = EnergySum { outside_basis: 3 << 30, ..whole.late };
    for wrong in [
        ModelDrift { documents: 1, ..whole.clone() },
        ModelDrift { documents: 1 << 40, ..whole.clone() },
        ModelDrift { late: too_much, ..whole.clone() },
    ] {
        assert!(ModelDrift::decode(&wrong.encode()).is_err());
    }
    let record = whole.encode();
    assert!(ModelDrift::decode(&record).is_ok());
    assert!(ModelDrift::decode(&record[..record.len() - 1]).is_err());
}

#[test]
fn recall_is_measured_again_after_a_thousand_changes_and_one_in_a_hundred() {
    let after = |changes| ModelDrift { changes, ..model_drift(figures(), 100, 0) };
    for (changes, documents, due) in [
        (1000, 100, false),
        (1001, 100, true),
        (1001, 100_000, true),
        (9_999, 1_000_000, false),
        (10_001, 1_000_000, true),
    ] {
        assert_eq!(after(changes).measure_due(documents), due, "{changes} of {documents}");
    }
}

#[test]
fn changes_are_counted_until_recall_is_measured_and_energies_follow_every_one() {
    let vectors = rows(300, WIDTH, 4);
    let settings = Settings { d_pub: Choice::Fixed(4), ..Settings::new(CellCount::Micro) };
    let (model, placed) = Model::fit(&settings, EPOCH, &vectors, None, UNWATCHED).unwrap();
    let index = index(&placed);
    let mut drift = ModelDrift::at_fit(&model, &index, &vectors, &placed.energies).unwrap();
    assert_eq!((drift.documents(), drift.changes(), drift.late()), (300, 0, 0));

    drift.came(&placed.energies[..20]);
    drift.settle(300, None, 0);
    let early = *drift.now();
    drift.came(&placed.energies[20..30]);
    drift.settle(300, None, 0);
    assert_eq!((drift.changes(), drift.late()), (30, 30));
    assert_ne!(drift.now().outside_prefix, early.outside_prefix);
    drift.gone(&placed.energies[20..30]);
    drift.settle(300, None, 10);
    assert_eq!((drift.changes(), drift.late()), (40, 20));
    assert_eq!(*drift.now(), early);

    drift.now.recall = 0.0;
    drift.measure(&model, &index, &vectors).unwrap();
    assert_eq!((drift.changes(), drift.now().recall), (0, drift.fitted().recall));
}
