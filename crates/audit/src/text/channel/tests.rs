use super::super::encoder::{encode, pieces};
use super::super::records::notes;
use super::*;
use crate::subject::{KeyFamily, coordinates, protect};
use crate::tools::statistics::generator;
use crate::view::{Release, ServerView};
use shard_geometry::gaussian::Normals;
use shard_geometry::{Pca, VectorSet};

const WIDTH: usize = 48;
const PREFIX_WIDTH: usize = 12;

/// Notes under keys, in so many cells and with no prefix at the server.
fn subject(documents: usize, cells: usize) -> Subject {
    let texts = notes(documents, 5);
    let words: Vec<Words> = texts.iter().map(|text| pieces(text)).collect();
    let values = encode(&words, WIDTH, 5).values().iter().map(|&x| x as f32).collect();
    let vectors = VectorSet::new(WIDTH, values).expect("finite vectors");
    let pca = Pca::fit(&vectors).expect("a model");
    let coordinates = coordinates(&pca, &vectors);
    let cells: Vec<u32> = (0..documents).map(|row| (row % cells) as u32).collect();
    let residuals = coordinates.columns(PREFIX_WIDTH..WIDTH);
    let release = protect(&residuals, &cells, KeyFamily::Orthogonal, &mut generator(5, 0));
    Subject {
        vectors: Matrix::from_vectors(&vectors),
        coordinates,
        given: None,
        axes: None,
        other_lengths: Vec::new(),
        prefix_width: PREFIX_WIDTH,
        cells,
        keys: KeyFamily::Orthogonal,
        texts: Some(texts),
        queries: None,
        view: ServerView { releases: vec![release], requests: Vec::new() },
        documents: (0..documents).collect(),
        canaries: Vec::new(),
        seed: 5,
    }
}

fn release(subject: &mut Subject) -> &mut Release {
    subject.view.releases.last_mut().expect("there is a release")
}

fn audit(subject: &Subject) -> Section {
    channel(subject, &|_| {}).expect("a section")
}

#[test]
fn a_store_without_keys_is_open() {
    let mut subject = subject(600, 2);
    let all: Vec<usize> = (0..600).collect();
    let (rows, prefixes) = (subject.residuals(&all), subject.prefixes(&all));
    release(&mut subject).rows = rows;
    release(&mut subject).prefixes = Some(prefixes);
    let section = audit(&subject);
    assert_eq!(section.verdict, Some(Verdict::Open));
    let headline = &section.findings[section.headline.expect("a headline")];
    assert_eq!(headline.setting, "view=unknown-key,pairs=0");
    assert!(headline.value > headline.chance.expect("chance") + 0.2, "{}", headline.value);
}

#[test]
fn noise_is_closed() {
    let mut subject = subject(600, 1);
    Normals::new(&mut generator(8, 0)).fill(release(&mut subject).rows.values_mut());
    let section = audit(&subject);
    assert_eq!(section.verdict, Some(Verdict::Closed), "{:?}", section.notes);
}

#[test]
fn keys_reduce_what_is_read_until_pairs_undo_them() {
    let section = audit(&subject(600, 2));
    assert_eq!(section.verdict, Some(Verdict::Reduced));
    let f1 = |setting: &str| {
        let finding =
            section.findings.iter().find(|f| f.setting == setting && f.metric == "token_f1");
        finding.expect("a finding").value
    };
    assert!(f1("view=ols,pairs=64") > f1("view=unknown-key,pairs=0") + 0.1);
    // The mean prefix of the pairs is there before the key is attacked at all.
    let baseline = f1("view=cell-mean,pairs=64");
    let lift =
        |f: &&Finding| f.metric == "lift_above_cell_mean" && f.setting == "view=ols,pairs=64";
    let lift = section.findings.iter().find(lift).expect("a lift").value;
    let expected = (f1("view=ols,pairs=64") - baseline) / (f1("view=raw,pairs=0") - baseline);
    assert!((lift - expected).abs() < 1e-12 && lift > 0.1, "{lift}");
    assert_eq!(section.plots.len(), 1);
    assert!(section.plots[0].series.iter().all(|series| series.points.len() >= 2));
}

#[test]
fn what_is_missing_is_said() {
    let mut without = subject(200, 2);
    without.texts = None;
    for (subject, missing) in [(without, "documents' texts"), (subject(40, 2), "100 documents")] {
        let section = audit(&subject);
        assert!(section.verdict.is_none() && section.findings.is_empty());
        assert!(section.notes[0].contains(missing), "{:?}", section.notes);
    }
    let mut strangers = subject(200, 2);
    strangers.texts = Some((0..200).map(|at| format!("word{at}")).collect());
    assert!(audit(&strangers).notes[0].contains("no word"));
}

#[test]
fn keys_of_one_document_each_leave_no_pairs() {
    let section = audit(&subject(200, 200));
    assert!(section.findings.iter().all(|finding| finding.setting.ends_with("pairs=0")));
    assert!(section.notes.iter().any(|note| note.contains("known pairs of one cell do not apply")));
}

#[test]
fn exported_views_are_vectors_of_the_documents_named() {
    let subject = subject(600, 2);
    let views = export_views(&subject).expect("views");
    let (names, matrices): (Vec<String>, Vec<Matrix>) = views.into_iter().unzip();
    assert_eq!(names[..3], ["documents", "raw", "prefix-if-public"]);
    assert!(names.contains(&"ols-64".to_owned()) && names.contains(&"unknown-key".to_owned()));
    let documents: Vec<usize> = matrices[0].values().iter().map(|&at| at as usize).collect();
    assert_eq!(matrices[1], subject.vectors.select(&documents));
    assert!(matrices[1..].iter().all(|m| (m.rows(), m.width()) == (documents.len(), WIDTH)));
    // 36 residual coordinates, 64 pairs: the residual is undone, and only the prefix is missing.
    let at = names.iter().position(|name| name == "ols-64").expect("a view");
    let off = matrices[at].values().iter().zip(matrices[1].values()).map(|(a, b)| (a - b).powi(2));
    let truth = subject.coordinates.select(&documents);
    let prefix: f64 = truth.columns(0..PREFIX_WIDTH).values().iter().map(|x| x * x).sum();
    let off: f64 = off.sum();
    assert!(off > 0.1 * prefix && off < 1.5 * prefix, "{off} of {prefix}");
}
