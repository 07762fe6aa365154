use super::*;
use crate::tools::matrix::normal;

fn subject(rows: usize, prefixes: bool, planted: bool) -> Subject {
    let mut subject = axes::tests::subject(rows, 24, 3, planted);
    subject.texts = Some((0..rows).map(|row| format!("alpha beta number {row}")).collect());
    let all: Vec<usize> = (0..rows).collect();
    let held = if planted { subject.prefixes(&all) } else { normal(rows, subject.prefix_width, 9) };
    let release = subject.view.releases.last_mut().expect("a release");
    release.prefixes = prefixes.then_some(held);
    subject
}

fn value(section: &Section, setting: &str, metric: &str) -> f64 {
    let of = |f: &&Finding| f.metric == metric && f.setting.starts_with(setting);
    section.findings.iter().find(of).unwrap_or_else(|| panic!("no {setting} {metric}")).value
}

#[test]
fn an_overlapping_reference_names_texts_and_a_disjoint_one_only_similar_ones() {
    let section = channel(&subject(300, false, true), &|_| ()).expect("a section");
    let owner = "subject=release,axes=owner,attack=gram,pairs=1,";
    assert!(value(&section, owner, "recall_at_1") > 0.95);
    assert!(value(&section, owner, "jaccard_overlapping") > 0.95);
    assert_eq!(value(&section, owner, "in_cell_pairs"), 1.0);
    // Three shared words of five, as any other text has.
    let disjoint = section.findings.iter().find(|f| f.metric == "jaccard_disjoint");
    let (disjoint, chance) = disjoint.map(|f| (f.value, f.chance)).expect("texts");
    assert!((disjoint - 0.6).abs() < 1e-9, "{disjoint}");
    assert!(chance.is_some_and(|chance| (0.6..0.62).contains(&chance)), "{chance:?}");
    // Axes of the reference's own make one pair too few.
    let reference = "subject=release,axes=reference,attack=";
    assert!(value(&section, &format!("{reference}gram,pairs=1,"), "recall_at_1") < 0.5);
    assert!(value(&section, &format!("{reference}ols,pairs=32,"), "recall_at_1") > 0.9);
    assert_eq!(section.verdict, Some(Verdict::Open));
    let headline = &section.findings[section.headline.expect("a headline")];
    assert_eq!((headline.part("axes"), headline.pairs()), (Some("owner"), 0));
}

#[test]
fn rows_of_other_vectors_are_not_found() {
    let section = channel(&subject(300, false, false), &|_| ()).expect("a section");
    let real = |f: &&Finding| f.metric == "recall_at_1" && f.part("subject") == Some("release");
    let recalls = section.findings.iter().filter(real);
    assert!(recalls.clone().count() == 9 && recalls.clone().all(|f| f.value < 0.06));
    assert_eq!(section.verdict, Some(Verdict::Closed));
}

#[test]
fn prefixes_are_found_where_they_are_held_and_closed_where_not() {
    let open = prefix_channel(&subject(300, true, true), &|_| ()).expect("a section");
    assert_eq!((open.verdict, open.findings[0].value), (Some(Verdict::Open), 1.0));
    let noise = prefix_channel(&subject(300, true, false), &|_| ()).expect("a section");
    assert!(noise.findings[0].value < 0.05, "{}", noise.findings[0].value);
    assert_eq!(noise.verdict, Some(Verdict::Closed));
    let none = prefix_channel(&subject(300, false, true), &|_| ()).expect("a section");
    assert_eq!(none.verdict, Some(Verdict::Closed));
}

#[test]
fn rows_of_a_cell_without_a_pair_are_looked_up_by_length() {
    let subject = axes::tests::subject(90, 24, 45, true);
    let known = Known::of(&subject).expect("rows");
    let all: Vec<usize> = (0..90).collect();
    let draw = Draw::new(&all, 30, 90, 5, &mut generator(1, 0));
    let reference = known.residuals.select(&draw.gallery);
    let found = in_cells(&known, &draw, &reference, 1, false).expect("lookups");
    assert!(found.numbers.len() == 30 && mean(&found.pairs) < 0.2);
    let names: Vec<usize> = draw.gallery.clone();
    assert!(mean(&judge(&found.lookups, &found.numbers, &names, None).first) > 0.9);
    let published = in_cells(&known, &draw, &reference, 1, true).expect("lookups");
    assert!(published.numbers.len() < 10);
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
