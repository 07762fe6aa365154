use super::*;
use crate::subject::{KeyFamily, protect};
use crate::tools::matrix::normal;
use crate::view::ServerView;

fn subject(rows: usize, prefixes: bool, planted: bool) -> Subject {
    let coordinates = normal(rows, 24, 1);
    let cells: Vec<u32> = (0..rows as u32).map(|row| row % 3).collect();
    let residuals = if planted { coordinates.columns(6..24) } else { normal(rows, 18, 8) };
    let mut release = protect(&residuals, &cells, KeyFamily::Orthogonal, &mut generator(2, 0));
    let held = if planted { coordinates.columns(0..6) } else { normal(rows, 6, 9) };
    release.prefixes = prefixes.then_some(held);
    Subject {
        vectors: coordinates.clone(),
        coordinates,
        public: 6,
        cells,
        keys: KeyFamily::Orthogonal,
        texts: Some((0..rows).map(|row| format!("alpha beta number {row}")).collect()),
        queries: None,
        view: ServerView { releases: vec![release], requests: Vec::new() },
        documents: (0..rows).map(Some).collect(),
        seed: 3,
    }
}

fn value(section: &Section, setting: &str, metric: &str) -> f64 {
    let of = |f: &&Finding| f.metric == metric && f.setting.starts_with(setting);
    section.findings.iter().find(of).unwrap_or_else(|| panic!("no {setting} {metric}")).value
}

#[test]
fn an_overlapping_reference_names_texts_and_a_disjoint_one_only_similar_ones() {
    let section = channel(&subject(300, false, true), &|_| ()).expect("a section");
    assert!(value(&section, "attack=gram,in_cell_pairs=1,", "recall_at_1") > 0.95);
    assert!(value(&section, "attack=gram,in_cell_pairs=1,", "jaccard_overlapping") > 0.95);
    // Three shared words of five.
    let disjoint = value(&section, "attack=gram,in_cell_pairs=1,", "jaccard_disjoint");
    assert!((disjoint - 0.6).abs() < 1e-9, "{disjoint}");
    assert!(value(&section, "attack=ols,in_cell_pairs=32,", "recall_at_1") > 0.95);
    assert_eq!(section.verdict, Some(Verdict::Open));
}

#[test]
fn rows_of_other_vectors_are_not_found() {
    let section = channel(&subject(300, false, false), &|_| ()).expect("a section");
    let recalls = section.findings.iter().filter(|f| f.metric == "recall_at_1");
    assert!(recalls.clone().count() == 6 && recalls.clone().all(|f| f.value < 0.04));
}

#[test]
fn prefixes_are_found_where_they_are_held_and_closed_where_not() {
    let open = prefix_channel(&subject(300, true, true), &|_| ()).expect("a section");
    assert_eq!((open.verdict, open.findings[0].value), (Some(Verdict::Open), 1.0));
    let noise = prefix_channel(&subject(300, true, false), &|_| ()).expect("a section");
    assert!(noise.findings[0].value < 0.05, "{}", noise.findings[0].value);
    let none = prefix_channel(&subject(300, false, true), &|_| ()).expect("a section");
    assert_eq!(none.verdict, Some(Verdict::Closed));
}

#[test]
fn token_sets_are_compared_without_case_and_punctuation() {
    assert_eq!(jaccard("The cat, the CAT.", "a cat"), 1.0 / 3.0);
    assert_eq!(jaccard("", "..."), 0.0);
    assert_eq!(jaccard("x y", "Y x"), 1.0);
}

#[test]
fn a_disjoint_reference_never_offers_a_target() {
    let reference = normal(50, 4, 5);
    let own: Vec<usize> = (0..10).collect();
    let lookups = look_up(&reference.select(&own), &reference, 10, Metric::Cosine);
    for (at, lookup) in lookups.iter().enumerate() {
        assert_eq!(lookup.overlapping[0] as usize, at);
        assert!(lookup.overlapping.len() == 10 && lookup.disjoint.is_some_and(|row| row >= 10));
    }
}
