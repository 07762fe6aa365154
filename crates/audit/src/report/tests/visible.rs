//! Every channel, on small collections: what a reader sees has no keys of programs in it.

use std::sync::LazyLock;

use rand_core::Rng;
use shard_geometry::VectorSet;

use super::super::channels::{CHANNELS, Channel, run, run_blind};
use super::super::{Kind, Metadata, Report, figure, page};
use crate::blind::tests as blind;
use crate::finding::Section;
use crate::subject::{FittedAxes, Given, KeyFamily, Subject, cells_of, protect};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::generator;
use crate::view::{SeenRequest, ServerView};

const DOCUMENTS: usize = 420;
const WIDTH: usize = 24;
const PREFIX: usize = 8;

/// A collection with all that a channel may ask for. Texts name the largest coordinates.
fn subject(cells: usize, public: bool, keys: KeyFamily) -> Subject {
    let rng = &mut generator(3, 0);
    let mut vectors = Matrix::normal(DOCUMENTS, WIDTH, rng);
    for row in 0..DOCUMENTS {
        for (at, x) in vectors.row_mut(row).iter_mut().enumerate() {
            *x *= 0.9_f64.powi(at as i32);
        }
    }
    let vectors = vectors.normalised();
    let words = |row: &[f64]| {
        let large = (0..WIDTH).filter(|&at| row[at].abs() > 0.2);
        large.map(|at| format!("word{at}{} ", row[at] > 0.0)).collect::<String>()
    };
    let texts = vectors.iter().map(words).collect();
    let values = vectors.values().iter().map(|&x| x as f32).collect();
    let all: Vec<usize> = (0..DOCUMENTS).collect();
    let set = VectorSet::new(WIDTH, values).expect("finite vectors");
    let axes = FittedAxes::fit(&set, &all, 5).expect("axes");
    let cells = if cells == DOCUMENTS {
        (0..DOCUMENTS as u32).collect()
    } else {
        cells_of(&vectors.columns(0..PREFIX), cells, rng).expect("cells")
    };
    let mut release = protect(&vectors.columns(PREFIX..WIDTH), &cells, keys, rng);
    release.prefixes = public.then(|| vectors.columns(0..PREFIX));
    let request = |_| SeenRequest {
        candidates: (0..30).map(|_| rng.next_u32() as usize % DOCUMENTS).collect(),
    };
    let requests = (0..20).map(request).collect();
    Subject {
        coordinates: vectors.clone(),
        queries: Some(vectors.select(&(0..DOCUMENTS).step_by(7).collect::<Vec<_>>())),
        axes: Some(axes),
        given: None,
        other_lengths: Vec::new(),
        vectors,
        prefix_width: PREFIX,
        cells,
        keys,
        texts: Some(texts),
        view: ServerView { releases: vec![release], requests },
        documents: (0..DOCUMENTS).collect(),
        canaries: Vec::new(),
        seed: 5,
    }
}

/// A release of another program: no prefix, one key, and an earlier release.
fn foreign() -> Subject {
    let mut subject = subject(1, false, KeyFamily::Orthogonal);
    subject.prefix_width = 0;
    let rng = &mut generator(4, 0);
    let release = || protect(&subject.vectors, &[0; DOCUMENTS], KeyFamily::Orthogonal, rng);
    subject.view.releases = std::iter::repeat_with(release).take(2).collect();
    let rows = subject.release().rows.clone();
    subject.given = Some(Given { rows, coordinates: subject.vectors.clone(), labelled: true });
    subject
}

fn report(kind: Kind, sections: Vec<Section>) -> Report {
    let metadata = Metadata {
        kind,
        subject: "a vault as gaussian=512".into(),
        date: "2026-01-02".into(),
        version: "0".into(),
        seed: 5,
        documents: DOCUMENTS,
        rows: DOCUMENTS,
        width: WIDTH,
        stored_width: WIDTH - PREFIX,
        cells: 6,
        queries: 60,
        notes: vec!["The baseline `gaussian=512` of its vectors.".into()],
    };
    Report { metadata, sections }
}

/// Made once for all tests.
static REPORTS: LazyLock<Vec<Report>> = LazyLock::new(reports);

fn reports() -> Vec<Report> {
    let channels: Vec<&Channel> = CHANNELS.iter().collect();
    let of_rows = |subject: &Subject| {
        let sections = run(subject, &channels, &|_, _| ()).expect("sections");
        report(Kind::of_rows(subject), sections)
    };
    let mut with_canaries = subject(6, false, KeyFamily::Orthogonal);
    with_canaries.canaries = (0..DOCUMENTS).map(|row| row < 30).collect();
    let rows = [
        with_canaries,
        subject(6, true, KeyFamily::Structured),
        subject(DOCUMENTS, false, KeyFamily::Orthogonal),
        foreign(),
    ];
    let mut reports: Vec<Report> = rows.iter().map(of_rows).collect();
    for level in [0.0, 0.9] {
        let sections = run_blind(&blind::subject(level), &channels, &|_, _| ()).expect("sections");
        reports.push(report(Kind::Blind, sections));
    }
    // What cells change of a blind collection, and what is said of it without a measurement.
    let names = [
        "shape",
        "prefix",
        "prefix-lookup",
        "structured-keys",
        "request-leakage",
        "canaries",
        "collection-size",
        "block-changes",
        "request-shape",
        "frontier",
    ];
    let of_cells: Vec<&Channel> = CHANNELS.iter().filter(|it| names.contains(&it.name)).collect();
    let sections = run_blind(&blind::with_cells(), &of_cells, &|_, _| ()).expect("sections");
    reports.push(report(Kind::BlindCells, sections));
    let kinds: Vec<Kind> = reports.iter().map(|report| report.metadata.kind).collect();
    let [cells, micro, blind, with_cells, foreign] = Kind::ALL;
    assert_eq!(kinds, [cells, cells, micro, foreign, blind, blind, with_cells]);
    for channel in CHANNELS {
        let sections = reports.iter().flat_map(|report| &report.sections);
        let measured = sections.filter(|it| it.name == channel.name && !it.findings.is_empty());
        assert!(measured.count() > 0, "{} has figures nowhere", channel.name);
    }
    reports
}

/// The text of a page without marks and styles.
fn visible(page: &str) -> String {
    let mut out = String::new();
    for (at, piece) in page.split("<style>").enumerate() {
        let shown = if at == 0 { piece } else { piece.split_once("</style>").expect("an end").1 };
        for tag in shown.split('<').skip(1) {
            out.push_str(tag.split_once('>').expect("a tag ends").1);
            out.push('\n');
        }
    }
    out
}

#[test]
fn no_key_of_a_program_is_left_in_the_text_of_any_page() {
    for report in REPORTS.iter() {
        let page = page::html(report);
        let kind = report.metadata.kind;
        for line in visible(&page).lines() {
            assert!(!line.contains(['=', '`']), "{kind:?}: {line}");
            let is_key = |word: &str| word.contains('_');
            assert!(!line.split_whitespace().any(is_key), "{kind:?}: {line}");
            assert!(!line.contains("All 1 "), "{kind:?}: {line}");
        }
        for picture in page.split("<svg").skip(1) {
            let lines = picture.split("</svg>").next().expect("an end");
            let (title, lines) = (lines.split("</title>").next(), lines.matches("class=\"series"));
            assert!(lines.count() <= 4, "{kind:?}: {title:?}");
        }
    }
}

#[test]
fn a_page_on_a_collection_with_cells_says_nothing_that_holds_only_without() {
    const WITHOUT_CELLS: [&str; 3] =
        ["nothing is routed", "every document is scored", "name no candidates and no cells"];
    let of = |kind: Kind| REPORTS.iter().filter(move |report| report.metadata.kind == kind);
    let is_said = |report: &Report, words: &str| visible(&page::html(report)).contains(words);
    for report in of(Kind::BlindCells) {
        for words in WITHOUT_CELLS {
            assert!(!is_said(report, words), "{words}");
        }
    }
    for words in &WITHOUT_CELLS[1..] {
        assert!(of(Kind::Blind).any(|report| is_said(report, words)), "{words} is said nowhere");
    }
}

#[test]
fn every_setting_of_every_channel_has_words() {
    for report in REPORTS.iter() {
        for finding in report.sections.iter().flat_map(|section| &section.findings) {
            let unknown = figure::unknown_parts(&finding.setting);
            assert!(unknown.is_empty(), "no words for {unknown:?} of {}", finding.channel);
        }
    }
}
