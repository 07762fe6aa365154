//! Neighbours that a public prefix shows.
//!
//! The attacker ranks documents by the distance of their centred prefixes, `|u_i - u_j|`, as the
//! router does, or by their cosine, which may show more. The judge counts how many of a probe's ten true neighbours (cosine of the whole
//! vectors, which is their inner product when they have unit length) are among its ten:
//! NN-overlap@10. A server that holds no prefix has nothing to rank.

use anyhow::ensure;

use super::game::REPETITIONS;
use super::{largest, same_key, unfit};
use crate::finding::{Finding, Plot, Section, Series, Verdict};
use crate::subject::{Corpus, Subject, cells_of, coordinates};
use crate::tools::matrix::Matrix;
use crate::tools::neighbours::{Metric, nearest_others, nearest_others_within, shares};
use crate::tools::statistics::{generator, interval, mean, sample};
use crate::view::Release;

/// Probes, as in the paper.
const PROBES: usize = 1_000;

/// Neighbours of each.
pub const DEPTH: usize = 10;

/// Fewest documents for which ten neighbours mean something.
const FEWEST: usize = 50;

/// Divisors of the width that are tried as widths of the prefix.
const DIVISORS: [usize; 4] = [16, 8, 4, 2];

/// Points of a line: `(x, y, interval of y)`.
type Points = Vec<(f64, f64, Option<[f64; 2]>)>;

/// How prefixes are compared.
const RANKINGS: [(Metric, &str); 2] = [(Metric::Distance, "distance"), (Metric::Cosine, "cosine")];

/// The attack: the rows nearest to each probe by the prefixes that the server holds, if any.
pub fn neighbours_by_prefix(
    release: &Release,
    probes: &[usize],
    metric: Metric,
) -> Option<Vec<Vec<u32>>> {
    Some(neighbours_of(release.prefixes.as_ref()?, probes, metric))
}

/// The ten nearest rows of some, other than themselves.
pub fn neighbours_of(rows: &Matrix, probes: &[usize], metric: Metric) -> Vec<Vec<u32>> {
    nearest_others(rows, probes, DEPTH, metric)
}

/// What the server's prefixes show of the neighbourhoods of this collection.
///
/// # Errors
/// None so far.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> anyhow::Result<Section> {
    let mut section = Section::new("prefix", "Neighbours shown by the routing prefix");
    if let Some(note) = unfit(subject) {
        section.notes.push(note);
        return Ok(section);
    }
    let documents = subject.vectors.rows();
    if documents < FEWEST {
        section.notes.push(format!(
            "Not measured: {documents} documents are too few to have neighbourhoods."
        ));
        return Ok(section);
    }
    progress("prefix: true neighbours");
    let probes = sample(documents, PROBES, &mut generator(subject.seed, 100));
    let truth = neighbours_of(&subject.vectors, &probes, Metric::Cosine);
    let chance = DEPTH as f64 / (documents - 1) as f64;
    let finding = |setting: String, shares: &[f64]| {
        Finding::new("prefix", setting, "nn_overlap_at_10", mean(shares))
            .ci95(interval(shares, REPETITIONS, subject.seed))
            .chance(chance)
            .on(subject.seed, documents)
    };

    let release = subject.release();
    let rows = same_key::rows_of_documents(&subject.documents);
    let seen: Vec<usize> = probes.iter().map(|&probe| rows[probe]).collect();
    for (metric, name) in RANKINGS {
        if let Some(found) = neighbours_by_prefix(release, &seen, metric) {
            let found = same_key::documents_of_rows(&subject.documents, &found);
            let setting = format!("seen-by=server,rank-by={name}");
            section.findings.push(finding(setting, &shares(&truth, &found)));
        }
    }
    section.rest_on(1.0, |_| true);
    if let Some(at) = section.headline {
        let value = section.findings[at].value;
        section.notes.push(format!(
            "The server holds the prefixes. Ranking by them shows {:.0} % of each document's ten \
             nearest neighbours.",
            100.0 * value
        ));
    } else {
        section.headline = Some(0);
        section.verdict = Some(Verdict::Closed);
        section.findings.push(
            Finding::new("prefix", "seen-by=server", "nn_overlap_at_10", chance)
                .chance(chance)
                .constructed()
                .on(subject.seed, documents),
        );
        section.notes.push(
            "Closed: routing is private, the server holds no prefix, and has nothing to rank by. \
             Its figure is the level of chance by construction; the figures not on this server are \
             what a public prefix would have shown."
                .to_owned(),
        );
    }

    progress("prefix: by width");
    let mut lines = Vec::new();
    for (metric, name) in RANKINGS {
        let mut points = Points::new();
        for width in widths(subject.coordinates.width(), Some(subject.prefix_width)) {
            let found =
                nearest_others_within(&subject.coordinates, 0..width, &probes, DEPTH, metric);
            let shares = shares(&truth, &found);
            let finding = finding(format!("seen-by=nobody,width={width},rank-by={name}"), &shares);
            points.push((width as f64, finding.value, finding.ci95));
            section.findings.push(finding);
        }
        lines.push((name, points));
    }
    section.plots.push(plot("nn-overlap-by-width", lines, chance));
    section.notes.push(format!(
        "True neighbours by cosine of the whole vectors; centred prefixes by distance, as the \
         router ranks, and by cosine: an attacker takes the better. {} probes.",
        probes.len()
    ));
    Ok(section)
}

/// Widths to try: fractions of `width`, and the one in use.
fn widths(width: usize, own: Option<usize>) -> Vec<usize> {
    let mut widths: Vec<usize> = DIVISORS.iter().map(|divisor| width / divisor).collect();
    widths.extend(own);
    widths.retain(|&prefix| prefix > 0 && prefix <= width);
    widths.sort_unstable();
    widths.dedup();
    widths
}

fn plot(name: &str, lines: Vec<(&str, Points)>, chance: f64) -> Plot {
    let mut series: Vec<Series> =
        lines.into_iter().map(|(name, points)| Series { name: name.to_owned(), points }).collect();
    if let Some(first) = series.first() {
        let points = first.points.iter().map(|&(x, ..)| (x, chance, None)).collect();
        series.push(Series { name: "chance".to_owned(), points });
    }
    Plot {
        name: name.to_owned(),
        title: "NN-overlap by width".to_owned(),
        x_label: "coordinates of the prefix".to_owned(),
        y_label: "share of the true ten neighbours".to_owned(),
        logarithmic: false,
        series,
    }
}

/// The paper's public-index leakage: overlap by width of the prefix, true neighbours in the same
/// cell, and true residual neighbours under the same key.
///
/// # Errors
/// When no collection has the vectors, or one has no principal axes.
pub fn reproduce_prefix(corpora: &[Corpus], progress: &dyn Fn(&str)) -> anyhow::Result<Section> {
    let mut section = Section::new("prefix", "Public-index leakage by prefix width and cells");
    let mut lines = Vec::new();
    let mut chance = 0.0;
    for encoder in ["minilm", "wordllama"] {
        let Some(corpus) = largest(corpora, encoder) else { continue };
        if corpus.vectors.rows() < FEWEST {
            continue;
        }
        chance = DEPTH as f64 / (corpus.vectors.rows() - 1) as f64;
        lines.push((encoder, one_corpus(corpus, &mut section, progress)?));
    }
    ensure!(!lines.is_empty(), "no collection of minilm or wordllama vectors was given");
    section.plots.push(plot("prefix-by-width", lines, chance));
    section.notes.extend([
        "The paper's figures are for e5-small on 100,000 documents; ours for MiniLM on the wiki \
         passages and WordLlama on the largest judged set. Encoders differ, so levels do; the \
         order by width should not."
            .to_owned(),
        "True neighbours by cosine of whole vectors, 1000 probes, seed 0. Prefixes are compared by \
         distance (rank-by=distance) and, for comparison, by cosine; the paper does not say which."
            .to_owned(),
        "The paper's figure beside d/2 is that of its baseline's exposed SVD geometry of the same \
         width. Residual neighbours are by cosine of residuals."
            .to_owned(),
    ]);
    Ok(section)
}

/// Adds the findings of one collection, and returns the line of overlap by width.
fn one_corpus(
    corpus: &Corpus,
    section: &mut Section,
    progress: &dyn Fn(&str),
) -> anyhow::Result<Points> {
    const SEED: u64 = 0;
    let rows = corpus.vectors.rows();
    let labels = format!("encoder={},data={}", corpus.encoder, corpus.name);
    let paper = |figure: f64| (corpus.encoder == "minilm").then_some(figure);
    let finding = |setting: String, metric: &str, values: &[f64], chance: f64, figure| {
        Finding::new("prefix", format!("{labels},{setting}"), metric, mean(values))
            .ci95(interval(values, REPETITIONS, SEED))
            .chance(chance)
            .paper(figure)
            .on(SEED, rows)
    };
    progress(&format!("prefix: {} {}: true neighbours", corpus.name, corpus.encoder));
    let probes = sample(rows, PROBES, &mut generator(SEED, 100));
    let truth = neighbours_of(&Matrix::from_vectors(&corpus.vectors), &probes, Metric::Cosine);
    let coordinates = coordinates(&shard_geometry::Pca::fit(&corpus.vectors)?, &corpus.vectors);
    let width = coordinates.width();
    let chance = DEPTH as f64 / (rows - 1) as f64;

    let mut points = Vec::new();
    for (divisor, figure) in DIVISORS.into_iter().zip([0.20, 0.36, 0.55, 0.76]) {
        progress(&format!("prefix: {} {}: d/{divisor}", corpus.name, corpus.encoder));
        let prefixes = coordinates.columns(0..(width / divisor).max(1));
        for (metric, name) in RANKINGS {
            let shares = shares(&truth, &neighbours_of(&prefixes, &probes, metric));
            let setting = format!("width=d/{divisor},rank-by={name}");
            let figure = if metric == Metric::Distance { paper(figure) } else { None };
            let finding = finding(setting, "nn_overlap_at_10", &shares, chance, figure);
            if metric == Metric::Distance {
                points.push((prefixes.width() as f64, finding.value, finding.ci95));
            }
            section.findings.push(finding);
        }
    }

    progress(&format!("prefix: {} {}: cells", corpus.name, corpus.encoder));
    let prefix_width = (width / 4).max(1);
    let residuals = coordinates.columns(prefix_width..width);
    let residual_truth = neighbours_of(&residuals, &probes, Metric::Cosine);
    let prefixes = coordinates.columns(0..prefix_width);
    let micro: Vec<u32> = (0..rows as u32).collect();
    let of_count = |count: usize, figures: [f64; 2]| {
        let cells = cells_of(&prefixes, count, &mut generator(SEED, 101));
        cells.map(|cells| (format!("cells={count}"), cells, figures))
    };
    for (setting, cells, [in_cell, edges]) in [
        of_count(64.min(rows), [0.50, 0.25])?,
        of_count(256.min(rows), [0.41, 0.18])?,
        ("cells=micro".to_owned(), micro, [0.0, 0.0]),
    ] {
        let chance = same_key::chance(&cells, &probes);
        for (metric, truth, figure) in [
            ("true_neighbours_in_cell", &truth, in_cell),
            ("shared_residual_edges", &residual_truth, edges),
        ] {
            let shares = same_key::shares_in_cell(truth, &cells, &probes);
            section.findings.push(finding(setting.clone(), metric, &shares, chance, paper(figure)));
        }
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    #[test]
    fn a_prefix_with_all_the_variance_shows_all_neighbours() {
        let subject = planted::subject(300, 16, 8, 4, 1e-6, true);
        let section = channel(&subject, &|_| {}).unwrap();
        assert!(section.findings[0].value > 0.95, "{:?}", section.findings[0]);
        assert_eq!(section.verdict, Some(Verdict::Open));
        assert_eq!(section.plots[0].series.len(), 3);
    }

    #[test]
    fn a_prefix_of_noise_shows_no_neighbours() {
        let mut subject = planted::subject(300, 16, 8, 4, 1.0, true);
        let noise = planted::normals(300, 8, 77);
        subject.view.releases[0].prefixes = Some(noise);
        let section = channel(&subject, &|_| {}).unwrap();
        let finding = &section.findings[0];
        assert!((finding.value - finding.chance.unwrap()).abs() < 0.02, "{finding:?}");
        assert_eq!(section.verdict, Some(Verdict::Closed));
    }

    #[test]
    fn private_routing_closes_the_channel_and_says_what_it_would_have_been() {
        let subject = planted::subject(300, 16, 8, 4, 1e-6, false);
        assert!(neighbours_by_prefix(subject.release(), &[0], Metric::Distance).is_none());
        let section = channel(&subject, &|_| {}).unwrap();
        assert_eq!(section.verdict, Some(Verdict::Closed));
        let would = section
            .findings
            .iter()
            .find(|f| f.setting == "seen-by=nobody,width=8,rank-by=distance");
        assert!(would.unwrap().value > 0.95);
    }

    #[test]
    fn a_small_collection_gets_a_note() {
        let section = channel(&planted::subject(20, 16, 8, 1, 1.0, true), &|_| {}).unwrap();
        assert!(section.verdict.is_none() && section.notes[0].contains("too few"));
    }
}
