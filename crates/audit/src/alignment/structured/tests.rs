use super::*;
use crate::tools::matrix::normal;

/// Relative errors with the structure and by least squares.
fn errors(rounds: usize, width: usize, pairs: usize) -> (f64, f64) {
    let native = normal(width + 10, width, 5);
    let rows = rotated(&native, rounds, &mut generator(6, 0));
    let shown = Pairs::of(&native, &rows, &(0..pairs).collect::<Vec<_>>());
    let held_out: Vec<usize> = (width..width + 10).collect();
    let (attacked, truth) = (rows.select(&held_out), native.select(&held_out));
    let generic = Estimator::LeastSquares.fit(&shown).expect("a map").apply(&attacked);
    let solved = solve(&shown, &attacked, rounds).expect("a key");
    (relative_error(&solved, &truth), relative_error(&generic, &truth))
}

#[test]
fn one_pair_solves_one_round() {
    let (structure, generic) = errors(1, 64, 1);
    assert!(structure < 1e-9 && generic > 0.9, "{structure} {generic}");
}

#[test]
fn three_quarters_of_the_pairs_solve_two_rounds() {
    let (structure, generic) = errors(2, 32, 24);
    assert!(structure < 1e-9 && generic > 0.2, "{structure} {generic}");
    let (structure, _) = errors(2, 32, 8);
    assert!(structure > 0.2, "{structure}");
}

#[test]
fn the_key_in_use_has_the_entries_that_the_attack_expects() {
    let (structure, generic) = errors(3, 32, 32);
    assert!(structure < 1e-9 && generic < 1e-9, "{structure} {generic}");
    let (structure, _) = errors(3, 32, 8);
    assert!(structure > 0.5, "{structure}");
}

#[test]
fn rows_that_no_key_made_are_not_solved() {
    let (native, rows) = (normal(40, 16, 1), normal(40, 16, 2));
    let shown = Pairs::of(&native, &rows, &(0..30).collect::<Vec<_>>());
    let held_out: Vec<usize> = (30..40).collect();
    for rounds in 1..=ROUNDS {
        let found = solve(&shown, &rows.select(&held_out), rounds).expect("a key");
        assert!(relative_error(&found, &native.select(&held_out)) > 0.8);
    }
}

#[test]
fn only_structured_keys_of_a_width_that_can_be_solved_get_a_verdict() {
    use super::super::axes::tests::subject;
    // Of 16 coordinates 12 are residual; without a prefix all 16 are.
    let mut other_width = subject(100, 16, 2, true);
    other_width.keys = KeyFamily::Structured;
    let section = channel(&other_width, &|_| ()).expect("a section");
    assert_eq!((section.verdict, section.headline), (None, None));
    let mut solvable = other_width;
    solvable.prefix_width = 0;
    let rng = &mut generator(2, 0);
    solvable.view.releases =
        vec![protect(&solvable.coordinates, &solvable.cells, solvable.keys, rng)];
    let section = channel(&solvable, &|_| ()).expect("a section");
    assert!(section.verdict.is_some());
    let headline = &section.findings[section.headline.expect("a headline")];
    assert_eq!(
        (headline.setting.as_str(), headline.metric.as_str()),
        ("rounds=3,width=16", "share_of_pairs_saved")
    );
    solvable.keys = KeyFamily::Orthogonal;
    assert_eq!(channel(&solvable, &|_| ()).expect("a section").verdict, None);
}
