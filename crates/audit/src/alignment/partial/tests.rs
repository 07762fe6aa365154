use super::super::axes::tests::subject;
use super::*;
use crate::finding::Verdict;

fn recall(section: &Section, setting: &str) -> f64 {
    let of = |f: &&Finding| f.metric == "recall_at_1" && f.setting == setting;
    section.findings.iter().find(of).unwrap_or_else(|| panic!("no {setting}")).value
}

#[test]
fn one_pair_is_enough_in_the_owners_axes_and_some_are_in_fitted_ones() {
    let section = channel(&subject(600, 32, 4, true), &|_| ()).expect("a section");
    let with_pairs = |axes: &str, attack: &str, pairs: usize| {
        let setting = format!("axes={axes},disclosure=targeted,attack={attack},pairs={pairs}");
        let subject = if axes == "auxiliary" { "anew" } else { "release" };
        recall(&section, &format!("subject={subject},{setting}"))
    };
    assert!(with_pairs("owner", "gram", 1) > 0.95);
    assert!(with_pairs("owner", "ols", 1) < 0.1);
    assert!(with_pairs("owner", "ols", 32) > 0.95);
    // Axes of the attacker's own need more pairs.
    let [reference, auxiliary] = ["reference", "auxiliary"].map(|axes| with_pairs(axes, "gram", 1));
    assert!(auxiliary <= reference && reference < 0.5, "{auxiliary} {reference}");
    assert!(with_pairs("reference", "gram", 32) > 0.9);
    assert_eq!(section.verdict, Some(Verdict::Open));
    let headline = &section.findings[section.headline.expect("a headline")];
    // Whoever has the same collection has its axes, and needs no pair.
    assert_eq!((headline.part("axes"), headline.pairs()), (Some("owner"), 0));
    // Curves go on where every row is found.
    assert_eq!(with_pairs("owner", "gram", 64), 1.0);
    assert!(section.plots.iter().all(|plot| plot.series.iter().all(|s| !s.points.is_empty())));
}

#[test]
fn rows_that_have_nothing_to_do_with_the_vectors_are_closed() {
    let section = channel(&subject(400, 32, 4, false), &|_| ()).expect("a section");
    let real = section
        .findings
        .iter()
        .filter(|f| f.metric == "recall_at_1" && f.part("subject") == Some("release"));
    assert!(real.clone().count() > 20 && real.clone().all(|f| f.value < 0.05));
    assert_eq!(section.verdict, Some(Verdict::Closed));
}

#[test]
fn with_a_key_for_every_row_only_the_norm_is_left() {
    let section = channel(&subject(300, 32, 300, true), &|_| ()).expect("a section");
    assert_eq!(section.findings.len(), 3);
    assert!(
        recall(&section, "subject=release,axes=owner,disclosure=none,attack=norm,pairs=0") > 0.9
    );
    assert_eq!(section.verdict, Some(Verdict::Open));
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
    let trial = Trial::on(&known, &draw).expect("a trial");
    let attack = Attack::Estimate(Estimator::LeastSquares);
    let pairs = |disclosure, budget| trial.play(attack, disclosure, budget).expect("played").pairs;
    assert!(pairs(Disclosure::Targeted, 5).iter().all(|&pairs| pairs == 5.0));
    let (few, many) = (pairs(Disclosure::Diffuse, 8), pairs(Disclosure::Diffuse, 32));
    assert!(few.iter().zip(&many).all(|(few, many)| few <= many));
    let full = trial.play(attack, Disclosure::Targeted, 60).expect("played").full_rank;
    assert!(full.expect("of an estimate").iter().all(|&full| full == 1.0));
}

#[test]
fn where_a_cell_has_no_pair_the_norm_still_finds_rows() {
    let known = Known::of(&subject(300, 32, 30, true)).expect("rows");
    let all: Vec<usize> = (0..300).collect();
    let draw = Draw::new(&all, 60, 200, 200, &mut generator(4, 0));
    let trial = [Trial::on(&known, &draw).expect("a trial")];
    let found = |attack, pairs| measure(&trial, attack, Disclosure::Diffuse, pairs);
    let (gram, norm) = (found(Attack::Match(Matcher::Gram), 1), found(Attack::Norm, 0));
    let (gram, norm) = (gram.expect("played"), norm.expect("played"));
    assert!(gram.pairs < 0.2 && norm.recall > 0.9 && gram.recall >= norm.recall);
}
