//! Blind vaults with and without cells, searched as they are by default.

use shard_audit::finding::{Section, Verdict};
use shard_audit::report::channels::find;
use shard_audit::report::{Kind, Report, headline, page};

use super::super::Audited;
use super::*;
use crate::{CellCount, Choice, Documents, FitOptions, Settings, Unlock};

const WIDTH: usize = 16;

/// Vectors around eight centres.
fn clustered(rows: usize, seed: u64, centre: impl Fn(usize) -> usize) -> VectorSet {
    let centres = Matrix::normal(8, WIDTH, &mut generator(1, 0));
    let mut vectors = Matrix::normal(rows, WIDTH, &mut generator(seed, 1));
    for row in 0..rows {
        let centre = centres.row(centre(row));
        vectors.row_mut(row).iter_mut().zip(centre).for_each(|(x, c)| *x = 0.5 * *x + c);
    }
    let values = vectors.values().iter().map(|&x| x as f32).collect();
    VectorSet::new(WIDTH, values).unwrap()
}

/// The audit of what cells change, of a vault of 480 documents.
fn audited(settings: Settings) -> Report {
    audited_with(settings, &clustered(40, 3, |row| row % 8))
}

fn audited_with(settings: Settings, queries: &VectorSet) -> Report {
    let directory = tempfile::tempdir().unwrap();
    let vectors = clustered(480, 2, |row| row % 8);
    let rows = (0..vectors.rows()).map(|row| (format!("d{row}"), vectors.row(row)));
    let settings = Settings { tile: Choice::Fixed(32), ..settings };
    let unlock = Unlock::passphrase("cells");
    let mut vault = Vault::create(directory.path().join("vault"), &unlock, &settings).unwrap();
    vault.ingest(&Documents::new(rows).unwrap(), FitOptions::default()).unwrap();
    let options = AuditOptions { queries: Some(queries), ..AuditOptions::default() };
    let channels =
        ["shape", "request-leakage", "collection-size", "block-changes", "request-shape"]
            .map(|name| find(name).expect("a channel"));
    Audited::from_vault(&vault, &options).unwrap().attack(&channels, None).unwrap()
}

fn section<'a>(report: &'a Report, name: &str) -> &'a Section {
    report.sections.iter().find(|section| section.name == name).expect("it was measured")
}

fn figure(report: &Report, metric: &str) -> f64 {
    let mut findings = report.sections.iter().flat_map(|section| &section.findings);
    findings.find(|finding| finding.metric == metric).expect("a figure").value
}

const ALL_IS_SCORED: &str = "every document is scored";

#[test]
fn a_vault_with_cells_is_not_closed_to_whoever_reads_its_requests() {
    let cells = Settings { cells: CellCount::Cells(8), probe: Some(2), ..Settings::blind() };
    let report = audited(cells);
    assert_eq!(report.metadata.kind, Kind::BlindCells);
    assert!(!page::html(&report).contains(ALL_IS_SCORED));
    let requests = section(&report, "request-leakage");
    assert!(requests.verdict > Some(Verdict::Closed), "{requests:?}");
    let found = headline(requests).unwrap();
    assert!(found.setting == "jitter=0.1" && found.metric == "auc" && found.ci95.is_some());
    let shape = section(&report, "shape");
    assert!(shape.verdict > Some(Verdict::Closed), "{shape:?}");
    assert_eq!(figure(&report, "active_cells_mean"), 2.0);
    assert_eq!(figure(&report, "cells_named_by_a_search"), 2.0);
    // Forty queries, and three near each.
    assert_eq!(figure(&report, "requests_recorded"), 160.0);
    assert_eq!(figure(&report, "sizes_of_requests"), 1.0);
}

#[test]
fn queries_sorted_by_topic_are_compared_with_those_of_other_topics() {
    let cells = Settings { cells: CellCount::Cells(8), probe: Some(2), ..Settings::blind() };
    let report = audited_with(cells, &clustered(40, 3, |row| row / 5));
    let requests = section(&report, "request-leakage");
    let jaccard = requests.findings.iter().find(|finding| finding.metric == "jaccard").unwrap();
    assert!(jaccard.chance.unwrap() < 0.5, "{jaccard:?}");
    assert!(requests.verdict > Some(Verdict::Closed), "{requests:?}");
}

#[test]
fn queries_are_drawn_from_the_whole_file() {
    // The first hundred are about one thing.
    let cells = Settings { cells: CellCount::Cells(8), probe: Some(2), ..Settings::blind() };
    let report = audited_with(cells, &clustered(400, 3, |row| if row < 100 { 0 } else { row % 8 }));
    assert!(figure(&report, "active_cells_entropy_bits") > 2.0);
}

#[test]
fn searches_of_all_cells_name_none_and_are_closed() {
    let cells = Settings { cells: CellCount::Cells(8), probe: Some(8), ..Settings::blind() };
    let report = audited(cells);
    let requests = section(&report, "request-leakage");
    assert_eq!(requests.verdict, Some(Verdict::Closed), "{requests:?}");
    assert!(requests.notes[0].contains("names none"), "{:?}", requests.notes);
    assert_eq!(figure(&report, "cells_named_by_a_search"), 0.0);
    // What a server sees on its disk does not depend on what is asked for.
    assert!(section(&report, "shape").verdict > Some(Verdict::Closed));
    assert!(!page::html(&report).contains(ALL_IS_SCORED));
}

#[test]
fn a_vault_without_cells_is_scored_whole_and_its_requests_are_closed() {
    let report = audited(Settings::blind());
    assert_eq!(report.metadata.kind, Kind::Blind);
    assert!(page::html(&report).contains(ALL_IS_SCORED));
    let requests = section(&report, "request-leakage");
    assert_eq!(requests.verdict, Some(Verdict::Closed), "{requests:?}");
    assert!(section(&report, "shape").verdict.is_none());
    assert_eq!(figure(&report, "requests_recorded"), 1_000.0);
    // Neither a publish of sealed values nor a change is made, so these figures are by construction.
    assert_eq!(figure(&report, "documents_by_sealed_values"), 480.0);
    let size = section(&report, "collection-size");
    assert!(size.notes.iter().any(|note| note.contains("480 in all")), "{:?}", size.notes);
    let changes = section(&report, "block-changes");
    assert!(changes.findings.iter().all(|finding| finding.constructed), "{changes:?}");
}
