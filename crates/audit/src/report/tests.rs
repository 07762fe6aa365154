use super::*;
use crate::finding::{Plot, Series};

/// A report with a section of every verdict; the channels are made up.
pub(super) fn report() -> Report {
    let plot = Plot {
        name: "recovery".into(),
        title: "Recovery by pairs".into(),
        x_label: "pairs".into(),
        y_label: "R@1".into(),
        logarithmic: true,
        series: vec![Series {
            name: "ols".into(),
            points: vec![(0.0, 0.0, None), (64.0, 0.9, Some([0.8, 1.0]))],
        }],
    };
    let section = |name: &str, verdict, value: f64| {
        let mut section = Section::new(name, &format!("The <{name}> channel"));
        let figure = Finding::new(name, "pairs=64,attack=ols", "recall_at_1", value);
        section.findings = vec![figure.ci95([value - 0.05, value + 0.05]).chance(0.1).on(7, 500)];
        section.headline = Some(0);
        section.verdict = verdict;
        section.notes = vec!["A note & more.".into()];
        section.plots = vec![plot.clone()];
        section
    };
    Report {
        metadata: Metadata {
            kind: Kind::Cells,
            subject: "a vault".into(),
            date: "2026-01-02".into(),
            version: "0".into(),
            seed: 7,
            documents: 500,
            rows: 500,
            width: 16,
            stored_width: 12,
            cells: 4,
            queries: 0,
            notes: vec!["No queries were given.".into()],
        },
        sections: vec![
            section("first", Some(Verdict::Reduced), 0.99),
            section("second", Some(Verdict::Open), 0.6),
            section("third", Some(Verdict::Open), 0.8),
            section("fourth", Some(Verdict::Closed), 0.1),
            section("fifth", None, 0.0),
        ],
    }
}

#[test]
fn the_strongest_attack_is_the_worst_of_the_worst_verdict() {
    let mut report = report();
    let counts = Counts { open: 2, reduced: 1, closed: 1, constructed: 0, unmeasured: 1 };
    assert_eq!(report.counts(), counts);
    assert_eq!(report.strongest().expect("one is open").0.name, "third");
    report.sections.retain(|section| section.verdict != Some(Verdict::Open));
    assert_eq!(report.strongest().expect("one is reduced").0.name, "first");
    report.sections.retain(|section| section.verdict != Some(Verdict::Reduced));
    assert!(report.strongest().is_none());
}

#[test]
fn an_attack_that_identifies_documents_comes_before_one_that_does_not() {
    let mut report = report();
    report.sections[0].name = "reference-lookup".into();
    assert_eq!(report.strongest().expect("one identifies").0.name, "reference-lookup");
    // A closed one is no attack to warn of.
    report.sections[0].verdict = Some(Verdict::Closed);
    assert_eq!(report.strongest().expect("one is open").0.name, "third");
}

#[test]
fn what_follows_from_the_construction_is_neither_measured_nor_an_attack() {
    let mut report = report();
    report.sections[2].findings[0].constructed = true;
    let counts = Counts { open: 1, reduced: 1, closed: 1, constructed: 1, unmeasured: 1 };
    assert_eq!(report.counts(), counts);
    assert_eq!(report.strongest().expect("another is open").0.name, "second");
    let page = page::html(&report);
    assert!(
        page.contains(
            "Measured: 3; open: 1, reduced: 1, closed: 1. Decided by the construction: 1."
        )
    );
    assert_eq!(page.matches(">by construction</td>").count(), 1);
    assert_eq!(json::report(&report)["findings"][2]["constructed"], true);
}

#[test]
fn excess_is_the_share_of_the_way_from_chance_to_certainty() {
    let figure = |value, chance| Finding::new("c", "", "auc", value).chance(chance);
    assert_eq!(excess(&figure(0.75, 0.5)), 0.5);
    assert_eq!(excess(&figure(1.0, 0.001)), 1.0);
    assert_eq!(excess(&figure(12.0, 0.1)), 0.0);
    assert_eq!(excess(&Finding::new("c", "", "auc", 0.9)), 0.0);
}

#[test]
fn every_figure_is_a_flat_row_with_all_its_fields() {
    let value = json::report(&report());
    assert_eq!(value["metadata"]["seed"], 7);
    assert_eq!(value["sections"].as_array().map(Vec::len), Some(5));
    assert_eq!(value["sections"][1]["verdict"], "open");
    assert!(value["sections"][4]["verdict"].is_null());
    let rows = value["findings"].as_array().expect("a list");
    assert_eq!(rows.len(), 5);
    for row in rows {
        let mut names: Vec<&str> =
            row.as_object().expect("an object").keys().map(String::as_str).collect();
        names.sort_unstable();
        let mut expected = vec![
            "channel",
            "chance",
            "ci95",
            "constructed",
            "metric",
            "paper",
            "rows",
            "seed",
            "setting",
            "trials",
            "value",
        ];
        expected.sort_unstable();
        assert_eq!(names, expected);
    }
}

#[test]
fn the_page_says_what_stayed_hidden_first_and_escapes_what_it_was_given() {
    let page = page::html(&report());
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text:?} in {page}"));
    let order = [
        "What stayed hidden",
        "<strong>The query</strong>",
        "2 channels are as open as with unprotected vectors.",
        "Measured: 4; open: 2, reduced: 1, closed: 1. Not measured: 1.",
        "The strongest attack.</strong> The &lt;third&gt; channel: 80 % of documents identified, 10 % by guessing.",
        "<table class=\"channels\"",
        "What each attack found",
    ];
    assert!(order.map(at).is_sorted(), "{page}");
    // Of the rows the worst come first.
    let rows = ["second", "third", "first", "fourth", "fifth"];
    assert!(rows.map(|name| at(&format!("<a href=\"#{name}\">"))).is_sorted());
    assert!(page.contains("A note &amp; more.") && !page.contains("The <third>"));
    assert_eq!(page.matches("<summary>The figure</summary>").count(), 5);
    assert_eq!(page.matches("<svg").count(), 5);
    for foreign in ["<script", "http:", "https:", "@import", "url("] {
        let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!without_namespace.contains(foreign), "{foreign}");
    }
}

#[test]
fn what_stayed_hidden_follows_from_what_is_audited() {
    let hidden = |kind: Kind| {
        let mut report = report();
        report.metadata.kind = kind;
        page::html(&report)
    };
    assert!(hidden(Kind::Micro).contains("<strong>The scores</strong>"));
    assert!(hidden(Kind::Blind).contains("<strong>The query and what it asks for</strong>"));
    let with_cells = hidden(Kind::BlindCells);
    assert!(with_cells.contains("Which cells it asks for is not hidden"));
    assert!(!with_cells.contains("every document is scored"));
    let foreign = hidden(Kind::Foreign);
    assert!(foreign.contains("Shard does not protect these vectors") && !foreign.contains("<ul"));
}

#[test]
fn a_plot_of_many_lines_becomes_several_pictures() {
    let mut report = report();
    report.sections.truncate(1);
    let plot = &mut report.sections[0].plots[0];
    plot.series = (0..6)
        .map(|at| Series { name: format!("ols, C = {at}"), ..plot.series[0].clone() })
        .collect();
    let page = page::html(&report);
    assert_eq!((page.matches("<svg").count(), page.matches("class=\"series").count()), (2, 6));
    assert!(page.contains("least squares, 5 cells"));
}

mod visible;
