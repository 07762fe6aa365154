//! The paper's table: sizes, overlaps, formats and keyings.

use anyhow::ensure;

use super::super::format::Format;
use super::super::game::{Keying, Population};
use super::super::linker::Linker;
use super::super::pooled;
use super::{Game, LINKERS, OVERLAPS, add, game, plot, releases};
use crate::finding::Section;
use crate::subject::Corpus;
use crate::tools::statistics::generator;

/// What is keyed. The paper's figures for micro-keys are those of candidates in the same cell, at
/// two to three times the chance of a guess there.
const KEYINGS: [Keying; 2] = [Keying::Cells, Keying::MicroInCells];

/// How releases are stored.
const FORMATS: [Format; 3] = [Format::Clean, Format::Half, Format::Int8];

/// The paper's Experiment 28.
///
/// # Errors
/// When no collection has the vectors, or one has no principal axes.
pub fn reproduce_churn(corpora: &[Corpus], progress: &dyn Fn(&str)) -> anyhow::Result<Section> {
    const SIZES: [usize; 2] = [2_000, 10_000];
    let mut section = Section::new("churn", "Linkage under insertion and deletion");
    let mut lines = Vec::new();
    for encoder in ["minilm", "wordllama"] {
        let Some((vectors, data)) = pooled(corpora, encoder, 17_500) else { continue };
        if vectors.rows() < 500 {
            section.notes.push(format!("{encoder}: too few documents."));
            continue;
        }
        let population = Population::fit(&vectors, 20_000, 64, 0)?;
        let most = population.len() * 4 / 7 / 100 * 100;
        let mut sizes = SIZES.map(|size| size.min(most)).to_vec();
        sizes.dedup();
        for &rows in &sizes {
            one_size(&population, rows, encoder, &mut section, progress);
        }
        let largest = sizes.last().copied().unwrap_or(most);
        for (keying, linker) in
            KEYINGS.into_iter().flat_map(|keying| LINKERS.map(|linker| (keying, linker)))
        {
            lines.push((
                format!("{encoder}, {} keys, {}", keying.name(), linker.name()),
                format!(
                    "{},linker={}",
                    labels(encoder, largest, "*", keying, Format::Clean),
                    linker.name()
                ),
            ));
        }
        section.notes.push(format!(
            "{encoder}: releases of {sizes:?} rows from {} documents of {data}; the paper has \
             2,000 and 10,000, which at 25 % overlap takes 17,500 documents.",
            population.len()
        ));
    }
    ensure!(!lines.is_empty(), "no collection of minilm or wordllama vectors was given");
    section.plots.push(plot(&section, "churn-by-overlap", &lines));
    section.notes.extend([
        "The paper's figures are for e5-small. Those for clean prefix and norm are its lower \
         bounds over all overlaps, and stand beside both keyings; those for rounded norms, which it \
         does not split by keying, beside cell keys."
            .to_owned(),
        "64 cells, three pairs of releases (seeds 0, 1, 2), candidates of the same cell: public \
         prefixes show the cells whatever the keys. Norms in f64 of f32 rows, matched to the \
         nearest."
            .to_owned(),
        "Of documents with the very same vector one is taken: nothing tells them apart.".to_owned(),
        "The combined signature gives norm, Gram and neighbours the same weight, which links more \
         at low overlap than the paper's; where the others say nothing, it matches worse than the \
         norm alone. Under micro-keys they are of rows under different keys."
            .to_owned(),
    ]);
    Ok(section)
}

fn labels(
    encoder: &str,
    rows: usize,
    percent: impl std::fmt::Display,
    keying: Keying,
    format: Format,
) -> String {
    let (keys, format) = (keying.name(), format.name());
    format!("encoder={encoder},n={rows},keys={keys},format={format},overlap={percent}")
}

/// Adds all settings of one size.
fn one_size(
    population: &Population,
    rows: usize,
    encoder: &str,
    section: &mut Section,
    progress: &dyn Fn(&str),
) {
    for keying in KEYINGS {
        for percent in OVERLAPS {
            progress(&format!(
                "churn: {encoder}, {rows} rows, {} keys, {percent} % overlap",
                keying.name()
            ));
            let mut games: [Vec<Game>; FORMATS.len()] = Default::default();
            for seed in 0..3 {
                // The formats are compared on the same releases, whose keys cost the most.
                let mut rng = generator(seed, 140 + percent as u64);
                let snapshots = releases(population, rows, percent, keying, &mut rng);
                for (format, games) in FORMATS.into_iter().zip(&mut games) {
                    games.push(game(snapshots.clone(), keying, format, &mut rng));
                }
            }
            for (format, games) in FORMATS.into_iter().zip(&games) {
                let of_paper = encoder == "minilm" && rows == 10_000;
                let figures = |linker| {
                    if of_paper {
                        paper_figures(keying, format, percent, linker)
                    } else {
                        [None, None]
                    }
                };
                let precision = match (of_paper, format, percent) {
                    (true, Format::Clean, 25) => Some(0.583),
                    (true, Format::Clean, 90) => Some(0.996),
                    _ => None,
                };
                let labels = labels(encoder, rows, percent, keying, format);
                add(section, &labels, games, figures, precision, (0, rows));
            }
        }
    }
}

/// The paper's R@1 and AUC for e5-small at 10,000 rows.
fn paper_figures(
    keying: Keying,
    format: Format,
    percent: usize,
    linker: Linker,
) -> [Option<f64>; 2] {
    let column = OVERLAPS.iter().position(|&overlap| overlap == percent);
    let of = |row: [f64; 5]| [column.map(|column| row[column]), None];
    match (format, keying, linker) {
        (Format::Clean, Keying::Cells, Linker::Combined) => of([0.148, 0.315, 0.650, 0.913, 1.0]),
        (Format::Clean, Keying::Cells, Linker::Gram) => of([0.134, 0.285, 0.604, 0.884, 1.0]),
        (Format::Clean, Keying::MicroInCells, Linker::Combined) => {
            of([0.016, 0.020, 0.020, 0.017, 0.021])
        }
        (Format::Clean, Keying::MicroInCells, Linker::Gram) => {
            of([0.015, 0.018, 0.015, 0.015, 0.017])
        }
        (Format::Clean, _, Linker::Prefix) => [Some(0.9997), None],
        (Format::Clean, _, Linker::Norm) => [Some(0.9996), None],
        (Format::Half, Keying::Cells, Linker::Norm) if percent == 50 => [Some(0.9632), None],
        (Format::Int8, Keying::Cells, Linker::Norm) if percent == 50 => {
            [Some(0.4505), Some(0.9930)]
        }
        _ => [None, None],
    }
}
