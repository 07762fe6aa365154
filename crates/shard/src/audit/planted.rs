//! Releases of which it is known what they give away, and the verdict that each must get.

use ctr::cipher::{KeyIvInit, StreamCipher};
use shard_audit::finding::{Finding, Verdict};
use shard_audit::report::channels::find;
use shard_audit::subject::{KeyFamily, coordinates, protect};
use shard_audit::tools::matrix::Matrix;
use shard_audit::tools::statistics::{below, generator, sample};
use shard_geometry::{Pca, VectorSet};

use super::{AuditOptions, Audited, Channel, Report};
use crate::{CellCount, Documents, FitOptions, Settings, Unlock, Vault};

const ROWS: usize = 1_200;
const WIDTH: usize = 32;
const PREFIX: usize = 8;
const CELLS: u32 = 64;

/// The channels of the table.
const SHOWN: [&str; 6] = [
    "same-key-neighbours",
    "partial-alignment",
    "reference-lookup",
    "unsupervised-alignment",
    "release-linkage",
    "membership",
];

/// Unit vectors with a mean, a falling spectrum and skewed coordinates, as encoders make them.
fn originals() -> VectorSet {
    let mut rows = Matrix::normal(ROWS, WIDTH, &mut generator(1, 0));
    for row in 0..ROWS {
        for (at, x) in rows.row_mut(row).iter_mut().enumerate() {
            *x = 0.4 + (*x + 0.3 * (*x * *x - 1.0)) * 0.95_f64.powi(at as i32);
        }
    }
    set(&rows.normalised())
}

fn set(rows: &Matrix) -> VectorSet {
    VectorSet::new(rows.width(), rows.values().iter().map(|&x| x as f32).collect()).unwrap()
}

/// Rows under keys of cells, one for all by default.
fn keyed(rows: &Matrix, cells: u32, seed: u64) -> Matrix {
    let cells: Vec<u32> = (0..rows.rows() as u32).map(|row| row % cells).collect();
    protect(rows, &cells, KeyFamily::Orthogonal, &mut generator(seed, 7)).rows
}

/// With noise of a share of the root mean square of the numbers, around their mean.
fn noisy(rows: &Matrix, share: f64, seed: u64) -> Matrix {
    let centred = rows.clone().minus(&rows.column_means());
    let square = centred.values().iter().map(|x| x * x).sum::<f64>();
    let deviation = share * (square / centred.values().len() as f64).sqrt();
    let noise = Matrix::normal(rows.rows(), rows.width(), &mut generator(seed, 8));
    let values = rows.values().iter().zip(noise.values()).map(|(x, e)| x + deviation * e);
    Matrix::new(rows.width(), values.collect())
}

/// Wider by numbers that are given for each row.
fn padded(rows: &Matrix, by: &Matrix) -> Matrix {
    let values = rows.iter().zip(by.iter()).flat_map(|(row, by)| [row, by].concat());
    Matrix::new(rows.width() + by.width(), values.collect())
}

/// The bytes of the vectors under AES-256 in counter mode, four to a number.
fn ciphertexts(vectors: &VectorSet) -> Matrix {
    let mut bytes: Vec<u8> = vectors.values().iter().flat_map(|x| x.to_le_bytes()).collect();
    let (key, counter) = ([7; 32], [9; 16]);
    ctr::Ctr128BE::<aes::Aes256>::new(&key.into(), &counter.into()).apply_keystream(&mut bytes);
    let words = bytes.as_chunks().0.iter().map(|&word| f64::from(i32::from_le_bytes(word)));
    Matrix::new(vectors.width(), words.collect())
}

fn audit(release: &Matrix, second: Option<&Matrix>, labels: Option<&[String]>) -> Report {
    let options = AuditOptions { cells: labels, seed: 5, ..AuditOptions::default() };
    let (originals, release) = (originals(), set(release));
    let second = second.map(set);
    let audited =
        Audited::from_vectors("planted", &originals, &release, second.as_ref(), &options).unwrap();
    let channels: Vec<&Channel> =
        ["shape"].iter().chain(&SHOWN).map(|name| find(name).expect("a channel")).collect();
    audited.attack(&channels, None).unwrap()
}

/// One row of the table: the verdict of each channel.
fn verdicts(name: &str, report: &Report) -> String {
    let word = |channel: &&str| {
        let section = report.sections.iter().find(|section| section.name == *channel).unwrap();
        match section.verdict {
            Some(Verdict::Open) => "open",
            Some(Verdict::Reduced) => "reduced",
            Some(Verdict::Closed) => "closed",
            None => "-",
        }
    };
    let words: Vec<&str> = SHOWN.iter().map(word).collect();
    format!("| {name} | {} |", words.join(" | "))
}

/// The manual has this table, so what it says of each release is what the audit finds.
#[test]
fn every_planted_release_gets_its_verdict() {
    let vectors = originals();
    let raw = Matrix::from_vectors(&vectors);
    let all = coordinates(&Pca::fit(&vectors).unwrap(), &vectors);
    let residuals = all.columns(PREFIX..WIDTH);
    let rotated = keyed(&raw, 1, 1);
    let permutation = {
        let rng = &mut generator(3, 3);
        let order = sample(WIDTH, WIDTH, rng);
        let signs: Vec<f64> =
            (0..WIDTH).map(|_| if below(2, rng) == 0 { 1.0 } else { -1.0 }).collect();
        let read = raw.iter().flat_map(|row| {
            order.iter().zip(&signs).map(|(&at, sign)| sign * row[at]).collect::<Vec<_>>()
        });
        Matrix::new(WIDTH, read.collect())
    };
    let scaled = {
        let rng = &mut generator(4, 4);
        let mut rows = rotated.clone();
        for row in 0..ROWS {
            let scale = 0.5 + below(1_000, rng) as f64 / 500.0;
            rows.row_mut(row).iter_mut().for_each(|x| *x *= scale);
        }
        rows
    };
    let zeros = Matrix::zeros(ROWS, PREFIX);
    let cases = [
        ("identical", raw.clone(), None),
        ("rotated", rotated.clone(), None),
        ("rotated, 5 % noise", noisy(&rotated, 0.05, 1), None),
        ("rotated, 30 % noise", noisy(&rotated, 0.3, 1), None),
        ("rotated, 100 % noise", noisy(&rotated, 1.0, 1), None),
        ("signed permutation", permutation, None),
        ("wider by padding, rotated", keyed(&padded(&raw, &zeros), 1, 2), None),
        (
            "residual padded to the same width, rotated",
            keyed(&padded(&residuals, &zeros), 1, 2),
            None,
        ),
        ("residual under one key", keyed(&residuals, 1, 2), None),
        ("residual under 64 keys, not labelled", keyed(&residuals, CELLS, 2), None),
        ("residual under 64 keys, labelled", keyed(&residuals, CELLS, 2), None),
        ("rotated, rows scaled one by one", scaled, None),
        (
            "two rotations, 5 % noise each",
            noisy(&rotated, 0.05, 1),
            Some(noisy(&keyed(&raw, 1, 9), 0.05, 2)),
        ),
        (
            "random, twice",
            Matrix::normal(ROWS, WIDTH, &mut generator(6, 6)),
            Some(Matrix::normal(ROWS, WIDTH, &mut generator(7, 7))),
        ),
        ("AES bytes", ciphertexts(&vectors), None),
    ];
    let manual = include_str!("../../../../docs/AUDIT.md");
    let mut lines = Vec::new();
    for (name, release, second) in &cases {
        let labels: Vec<String> = (0..ROWS as u32).map(|row| (row % CELLS).to_string()).collect();
        let labels = name.ends_with(", labelled").then_some(&labels[..]);
        let report = audit(release, second.as_ref(), labels);
        assert_eq!(report.sections[0].verdict.is_some(), labels.is_some(), "{name}: shape");
        lines.push(verdicts(name, &report));
    }
    let table = manual.split("<!-- planted -->").nth(1).expect("a table between marks");
    let written: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).skip(2).collect();
    assert_eq!(written, lines, "docs/AUDIT.md should have\n{}", lines.join("\n"));
}

#[test]
fn labels_say_which_rows_share_a_key() {
    let vectors = originals();
    let all = coordinates(&Pca::fit(&vectors).unwrap(), &vectors);
    let release = keyed(&all.columns(PREFIX..WIDTH), 4, 2);
    let labels: Vec<String> = (0..ROWS).map(|row| format!("cell {}", row % 4)).collect();
    let report = audit(&release, None, Some(&labels));
    let shape = &report.sections[0];
    assert_eq!(shape.findings[3].value, 4.0, "{:?}", shape.findings);
    // A few pairs of a cell tell its key, which pairs of any cell do not.
    let gram = |report: &Report| {
        let setting = "subject=release,rows=given,coordinates=last-24,attack=gram,pairs=32";
        let findings = report.sections.iter().flat_map(|section| &section.findings);
        let found = findings.filter(|f| f.channel == "partial-alignment" && f.setting == setting);
        found.map(|f| f.value).next().expect("the attack was made")
    };
    assert_eq!(gram(&report), 1.0);
    assert!(gram(&audit(&release, None, None)) < 0.5);
    let options = AuditOptions { cells: Some(&labels[1..]), ..AuditOptions::default() };
    let refused = Audited::from_vectors("short", &vectors, &set(&release), None, &options);
    let message = refused.err().expect("one label is missing").to_string();
    assert!(message.contains("1200 lines") && message.contains("1199"), "{message}");
}

/// Axes fitted to a sample of 600 would be far off those of 2,400 documents, and its pairs would name
/// fewer rows.
#[test]
fn an_audit_of_a_sample_is_not_calmer_than_one_of_everything() {
    let directory = tempfile::tempdir().unwrap();
    let mut vectors = Matrix::normal(2_400, WIDTH, &mut generator(2, 0));
    for row in 0..vectors.rows() {
        for (at, x) in vectors.row_mut(row).iter_mut().enumerate() {
            *x *= 0.97_f64.powi(at as i32);
        }
    }
    let vectors = set(&vectors);
    let rows = (0..vectors.rows()).map(|row| (format!("d{row}"), vectors.row(row)));
    let (unlock, settings) = (Unlock::passphrase("planted"), Settings::new(CellCount::Cells(8)));
    let mut vault = Vault::create(directory.path().join("vault"), &unlock, &settings).unwrap();
    vault.ingest(&Documents::new(rows).unwrap(), FitOptions::default()).unwrap();
    const FIGURES: [(&str, &str, &[&str]); 3] = [
        ("partial-alignment", "recall_at_1", &["axes=reference", "attack=gram", "pairs=4"]),
        ("reference-lookup", "recall_at_1", &["axes=reference", "attack=gram", "pairs=8"]),
        ("frontier", "link_recall_at_1", &["system=shard"]),
    ];
    let queries = set(&Matrix::normal(10, WIDTH, &mut generator(4, 0)));
    let recalls = |sample: usize| {
        let options = AuditOptions { sample, queries: Some(&queries), ..AuditOptions::default() };
        let audited = Audited::from_vault(&vault, &options).unwrap();
        let channels = FIGURES.map(|(channel, ..)| find(channel).unwrap());
        let report = audited.attack(&channels, None).unwrap();
        FIGURES.map(|(channel, metric, parts)| {
            let has = |f: &Finding, part: &str| f.setting.split(',').any(|own| own == part);
            let mut findings = report.sections.iter().flat_map(|section| &section.findings);
            let found = findings.find(|f| {
                f.channel == channel && f.metric == metric && parts.iter().all(|part| has(f, part))
            });
            found.and_then(|f| f.ci95).expect("the attack was made")
        })
    };
    // Fewer candidates make a sample's figures higher; none must be lower. Intervals are of the targets, and not of which
    // two of the eight cells were drawn, nor of the vault's keys. Axes of the sample cost more than three times as much.
    const OF_CELLS: f64 = 0.1;
    let each = FIGURES.iter().zip(recalls(600)).zip(recalls(usize::MAX));
    for (((channel, ..), [_, sampled]), [all, _]) in each {
        assert!(sampled + OF_CELLS >= all, "{channel}: {sampled} {all}");
    }
}
