use super::*;
use crate::view::{Release, ServerView};

/// `rows` documents of `width` coordinates, the first `public` of which are the prefix, in cells
/// by turns; stored in fixed point.
fn subject(rows: usize, width: usize, cells: u32, planted: bool) -> Subject {
    let public = width / 4;
    let coordinates = Matrix::normal(rows, width, &mut generator(1, 0));
    let cells: Vec<u32> = (0..rows as u32).map(|row| row % cells).collect();
    let mut release = if planted {
        let residuals = coordinates.columns(public..width);
        protect(&residuals, &cells, KeyFamily::Orthogonal, &mut generator(2, 0))
    } else {
        let noise = Matrix::normal(rows, width - public, &mut generator(3, 0));
        Release { rows: noise, cells: cells.clone(), prefixes: None }
    };
    release.rows.values_mut().iter_mut().for_each(|x| *x = (*x * 65_536.0).round());
    Subject {
        vectors: coordinates.clone(),
        coordinates,
        public,
        cells,
        keys: KeyFamily::Orthogonal,
        texts: None,
        queries: None,
        view: ServerView { releases: vec![release], requests: Vec::new() },
        documents: (0..rows).map(Some).collect(),
        seed: 9,
    }
}

fn recall(section: &Section, setting: &str) -> f64 {
    let of = |f: &&Finding| f.metric == "recall_at_1" && f.setting == setting;
    section.findings.iter().find(of).unwrap_or_else(|| panic!("no {setting}")).value
}

#[test]
fn a_turned_release_is_open_and_one_pair_in_the_cell_is_enough() {
    let section = channel(&subject(400, 32, 4, true), &|_| ()).expect("a section");
    assert_eq!(section.verdict, Some(Verdict::Open));
    assert!(recall(&section, "disclosure=targeted,attack=gram,pairs=1") > 0.95);
    assert!(recall(&section, "disclosure=targeted,attack=ols,pairs=1") < 0.1);
    assert!(recall(&section, "disclosure=targeted,attack=ols,pairs=32") > 0.95);
    assert!(section.plots.iter().all(|plot| plot.series.iter().all(|s| !s.points.is_empty())));
}

#[test]
fn rows_that_have_nothing_to_do_with_the_vectors_are_closed() {
    let section = channel(&subject(400, 32, 4, false), &|_| ()).expect("a section");
    let real = section
        .findings
        .iter()
        .filter(|f| f.metric == "recall_at_1" && !f.setting.contains("cells="));
    assert!(real.clone().count() > 20 && real.clone().all(|f| f.value < 0.03));
}

#[test]
fn with_a_key_for_every_row_only_the_norm_is_left() {
    let section = channel(&subject(300, 32, 300, true), &|_| ()).expect("a section");
    assert_eq!(section.findings.len(), 1);
    assert!(recall(&section, "disclosure=none,attack=norm,pairs=0") > 0.9);
}

#[test]
fn too_small_a_subject_gets_a_note() {
    let section = channel(&subject(20, 16, 2, true), &|_| ()).expect("a section");
    assert!(section.verdict.is_none() && section.findings.is_empty() && section.notes.len() == 1);
}

#[test]
fn pairs_are_nested_and_spread_or_put_into_cells() {
    let known = Known::of(&subject(300, 32, 3, true)).expect("rows");
    let all: Vec<usize> = (0..300).collect();
    let draw = Draw::new(&all, 30, 200, 200, &mut generator(4, 0));
    assert!(draw.disclosed.iter().all(|row| !draw.targets.contains(row)));
    assert_eq!(draw.gallery[..30], draw.targets[..]);
    let trial = known.trial(&draw).expect("a trial");
    let attack = Attack::Estimate(Estimator::LeastSquares);
    let pairs = |disclosure, budget| trial.play(attack, disclosure, budget).expect("played").pairs;
    assert!(pairs(Disclosure::Targeted, 5).iter().all(|&pairs| pairs == 5.0));
    let (few, many) = (pairs(Disclosure::Diffuse, 8), pairs(Disclosure::Diffuse, 32));
    assert!(few.iter().zip(&many).all(|(few, many)| few <= many));
    let full = trial.play(attack, Disclosure::Targeted, 60).expect("played").full_rank;
    assert!(full.expect("of an estimate").iter().all(|&full| full == 1.0));
}

#[test]
fn norms_and_scale_come_out_of_fixed_point() {
    let known = Known::of(&subject(300, 32, 3, true)).expect("rows");
    for (stored, native) in known.rows.norms().iter().zip(known.residuals.norms()) {
        assert!((stored / native - 1.0).abs() < 1e-4);
    }
}
