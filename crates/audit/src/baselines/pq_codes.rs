//! What public product-quantisation codes give away.
//!
//! Codebooks and codes give `v^ = (c_(1,j1), .., c_(M,jM))` for every row, which is near `v'` and,
//! because rotations keep distances, has nearly its neighbours. Measured are the cosine of `v^` with
//! `v'`, the share of the ten nearest other rows that are among the ten nearest of `v^` (NN overlap)
//! and among the forty nearest. The attacker ranks decoded rows by their distance to a decoded row:
//! both sides are quantised, unlike in a search by the client.

use anyhow::Result;
use shard_geometry::{ProductQuantizer, VectorSet};

use super::baseline::Baseline;
use super::measure::{PlainShard, RESAMPLES, SEED, largest, other_neighbours, select, vectors_of};
use super::protected::{Codes, Stored, rotate};
use crate::finding::{Finding, Plot, Section, Series, Verdict};
use crate::subject::{Corpus, Subject};
use crate::tools::matrix::{Matrix, cosines};
use crate::tools::neighbours::shares;
use crate::tools::statistics::{generator, interval, mean, sample};

/// Documents that the channel of an audit looks at.
const CHANNEL_ROWS: usize = 5000;

/// Documents whose neighbours are looked for.
const PROBES: usize = 1000;

/// Documents of the paper's table.
const TABLE_ROWS: usize = 20_000;

/// Fewest documents with ten neighbours that are not simply all others.
const FEWEST_ROWS: usize = 64;

/// Streams of random words, by use.
const ROWS: u64 = 1;
const PROBED: u64 = 2;
const CODEBOOKS: u64 = 3;

/// How near what was recovered comes, by probe.
#[derive(Clone, Debug)]
pub struct CodeLeak {
    /// Cosine of each recovered row with the row that was coded.
    pub cosines: Vec<f64>,
    /// Share of the true ten nearest among the ten nearest recovered ones.
    pub overlap_at_10: Vec<f64>,
    /// Share of the true ten nearest among the forty nearest recovered ones.
    pub inside_40: Vec<f64>,
}

/// The attack: rows from codebooks and codes alone.
pub fn recover(codes: &Codes) -> Matrix {
    codes.decode()
}

/// The judge: how much of the coded rows and of the true neighbourhoods the recovered rows show.
///
/// # Panics
/// When there are not as many rows of each, or no such probe.
pub fn judge(recovered: &Matrix, coded: &Matrix, truth: &Matrix, probes: &[usize]) -> CodeLeak {
    assert!(recovered.rows() == coded.rows() && recovered.rows() == truth.rows(), "the same rows");
    let exact = other_neighbours(truth, probes, 10);
    let mut found = other_neighbours(recovered, probes, 40);
    let inside_40 = shares(&exact, &found);
    found.iter_mut().for_each(|rows| rows.truncate(10));
    CodeLeak {
        cosines: cosines(&recovered.select(probes), &coded.select(probes)),
        overlap_at_10: shares(&exact, &found),
        inside_40,
    }
}

impl CodeLeak {
    /// Its findings, with the level of chance among `rows` rows.
    fn findings(&self, channel: &str, setting: &str, rows: usize, seed: u64) -> Vec<Finding> {
        let others = (rows - 1) as f64;
        let metrics = [
            ("cosine", &self.cosines, 0.0),
            ("nn_overlap_at_10", &self.overlap_at_10, (10.0 / others).min(1.0)),
            ("top_10_inside_top_40", &self.inside_40, (40.0 / others).min(1.0)),
        ];
        let finding = |(metric, values, chance): (&str, &Vec<f64>, f64)| {
            Finding::new(channel, setting, metric, mean(values))
                .ci95(interval(values, RESAMPLES, seed))
                .chance(chance)
                .on(seed, rows)
        };
        metrics.into_iter().map(finding).collect()
    }
}

/// The channel of an audit: the codes that `global` would publish of the owner's documents. Shard
/// publishes none.
///
/// # Errors
/// When the vectors cannot be protected, which finite ones can.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> Result<Section> {
    const NAME: &str = "pq-codes";
    let mut section = Section::new(NAME, "Codes of a public search index");
    let (seed, total) = (subject.seed, subject.vectors.rows());
    section.notes.push(
        "A server that is given product-quantisation codes, so that clients can search them, can \
         decode them: the documents' neighbours, and near copies of their rotated vectors. The \
         figures are what the baseline `global` would publish of the same documents."
            .into(),
    );
    if subject.prefix_width > 0 {
        section.notes.push("This vault's server holds no such codes.".into());
        section.verdict = Some(Verdict::Closed);
        section.headline = Some(0);
        section.findings.push(
            Finding::new(NAME, "system=shard", "code_bytes_per_row", 0.0)
                .chance(0.0)
                .constructed()
                .on(seed, total),
        );
    } else {
        section.notes.push(
            "What is audited is not Shard's: there is no verdict on codes that its server may hold."
                .into(),
        );
    }
    if total < FEWEST_ROWS {
        section.notes.push(format!(
            "{total} documents are too few to train codebooks: the baseline was not measured."
        ));
        return Ok(section);
    }
    progress("codes of a public index");
    let chosen = sample(total, CHANNEL_ROWS, &mut generator(seed, ROWS));
    let truth = subject.vectors.select(&chosen);
    let protected = Baseline::Global.protect(&vectors_of(&truth)?, seed)?;
    let Stored::Scored { codes, .. } = protected.stored() else {
        unreachable!("global publishes codes");
    };
    let quantizer = &codes.quantizer;
    let setting =
        format!("system=global,subspaces={},bits={}", quantizer.subspaces(), quantizer.bits());
    section.findings.push(
        Finding::new(NAME, &setting, "code_bytes_per_row", quantizer.code_bytes() as f64)
            .on(seed, chosen.len()),
    );
    let probes = sample(chosen.len(), PROBES, &mut generator(seed, PROBED));
    let leak = judge(&recover(codes), &protected.release().rows, &truth, &probes);
    section.findings.extend(leak.findings(NAME, &setting, chosen.len(), seed));
    Ok(section)
}

/// `(M, bits, cosine, NN overlap@10, top 10 inside top 40)` of the paper's table, for e5-small.
const PQ_TABLE: [(usize, u32, f64, f64, Option<f64>); 3] =
    [(24, 8, 0.837, 0.384, None), (48, 8, 0.953, 0.674, Some(0.971)), (48, 6, 0.904, 0.529, None)];

/// The paper's table of PQ-code leakage: 20,000 documents, half of the principal coordinates under one
/// rotation, and codes of three sizes. Neighbours are those of the rotated rows.
///
/// # Errors
/// When the corpus cannot be quantised.
pub fn reproduce_pq(corpora: &[Corpus], progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new("pq", "Leakage from public codes");
    let Some(corpus) = usable(corpora, &mut section) else { return Ok(section) };
    let width = corpus.vectors.width();
    section.notes.push(format!(
        "{} / {} instead of e5-small on the paper's corpus; {} of {} documents, 1,000 probes. \
         Neighbours by distance, the probe left out.",
        corpus.name,
        corpus.encoder,
        corpus.vectors.rows().min(TABLE_ROWS),
        corpus.vectors.rows(),
    ));
    let chosen = sample(corpus.vectors.rows(), TABLE_ROWS, &mut generator(SEED, ROWS));
    let (_, _, rotated) = rotate(&select(&corpus.vectors, &chosen)?, (width / 2).max(1), SEED)?;
    let truth = Matrix::from_vectors(&rotated);
    let probes = sample(chosen.len(), PROBES, &mut generator(SEED, PROBED));
    let mut lines = [("cosine", Vec::new()), ("NN overlap@10", Vec::new())];
    for (subspaces, bits, cosine, overlap, inside) in PQ_TABLE {
        let Some(codes) = quantise(&rotated, subspaces, bits, &mut section, progress)? else {
            continue;
        };
        let setting = setting(corpus, subspaces, bits);
        let leak = judge(&recover(&codes), &truth, &truth, &probes);
        let findings = leak.findings("pq", &setting, chosen.len(), SEED);
        for ((_, points), finding) in lines.iter_mut().zip(&findings) {
            let bytes = codes.quantizer.code_bytes() as f64;
            points.push((bytes, finding.value, finding.ci95));
        }
        let paper = [Some(cosine), Some(overlap), inside];
        section.findings.extend(findings.into_iter().zip(paper).map(|(f, paper)| f.paper(paper)));
    }
    if lines[0].1.is_empty() {
        return Ok(section);
    }
    let series = lines.into_iter().map(|(name, points)| Series::through(name, points));
    section.plots.push(Plot {
        name: "pq".into(),
        title: "What public codes show of rotated rows".into(),
        x_label: "bytes of a row's codes".into(),
        y_label: "share".into(),
        logarithmic: false,
        series: series.collect(),
    });
    Ok(section)
}

/// The paper's table of a PQ-only store: codes of all rotated coordinates beside Shard's prefix of
/// `d/4`, by the neighbours of the whole space that each shows, and how true the scores are that are
/// computed from it.
///
/// # Errors
/// When the corpus cannot be quantised.
pub fn reproduce_pq_only(corpora: &[Corpus], progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new("pq-only", "A store of codes alone, beside Shard's prefix");
    let Some(corpus) = usable(corpora, &mut section) else { return Ok(section) };
    let (rows, width) = (corpus.vectors.rows(), corpus.vectors.width());
    section.notes.push(format!(
        "{} / {} instead of e5-small; {rows} documents, 1,000 probes. Cosines are of centred \
         vectors, and codes of all {width} coordinates: with them the paper's two tables of codes \
         agree (parts of eight coordinates give 0.83 to 0.84 in both).",
        corpus.name, corpus.encoder,
    ));
    section.notes.push(
        "The prefix is what the paper's server holds; a vault of ours keeps it at the client unless \
         told otherwise. That Shard reranks with cosine 1 is so by construction, as keys cancel; \
         `utility` measures what comes of it."
            .into(),
    );
    let probes = sample(rows, PROBES, &mut generator(SEED, PROBED));
    progress("pq-only: exact neighbours");
    let exact = other_neighbours(&Matrix::from_vectors(&corpus.vectors), &probes, 10);
    let chance = (10.0 / (rows - 1) as f64).min(1.0);
    let overlap = |setting: &str, channel: &Matrix, paper: f64| {
        let shares = shares(&exact, &other_neighbours(channel, &probes, 10));
        Finding::new("pq-only", setting, "nn_overlap_at_10", mean(&shares))
            .ci95(interval(&shares, RESAMPLES, SEED))
            .chance(chance)
            .paper(paper)
            .on(SEED, rows)
    };
    let setting_of = |system: &str| {
        format!("dataset={},encoder={},system={system}", corpus.name, corpus.encoder)
    };
    {
        let setting = setting_of("shard-prefix");
        let prefix_width = (width / 4).max(1);
        let prefix =
            PlainShard::fit(&corpus.vectors, prefix_width)?.coordinates.columns(0..prefix_width);
        section.findings.push(
            // The keys cancel: scores come from the whole vector.
            Finding::new("pq-only", &setting, "rerank_cosine", 1.0)
                .paper(1.0)
                .constructed()
                .on(SEED, rows),
        );
        section.findings.push(overlap(&setting, &prefix, 0.55));
    }
    let (_, _, rotated) = rotate(&corpus.vectors, width, SEED)?;
    let coded = Matrix::from_vectors(&rotated);
    for (subspaces, fidelity, paper) in [(24, 0.67, 0.27), (48, 0.83, 0.49)] {
        let Some(codes) = quantise(&rotated, subspaces, 8, &mut section, progress)? else {
            continue;
        };
        let setting = format!("{},subspaces={subspaces},bits=8", setting_of("pq-only"));
        let recovered = recover(&codes);
        let cosines = cosines(&recovered, &coded);
        section.findings.push(
            Finding::new("pq-only", &setting, "rerank_cosine", mean(&cosines))
                .chance(0.0)
                .paper(fidelity)
                .on(SEED, rows),
        );
        section.findings.push(overlap(&setting, &recovered, paper));
    }
    Ok(section)
}

/// The corpus of these tables, or a note that there is none.
fn usable<'c>(corpora: &'c [Corpus], section: &mut Section) -> Option<&'c Corpus> {
    let corpus = largest(corpora, "minilm").filter(|corpus| corpus.vectors.rows() >= FEWEST_ROWS);
    if corpus.is_none() {
        section.notes.push(format!("There is no corpus of at least {FEWEST_ROWS} documents."));
    }
    corpus
}

fn setting(corpus: &Corpus, subspaces: usize, bits: u32) -> String {
    format!("dataset={},encoder={},subspaces={subspaces},bits={bits}", corpus.name, corpus.encoder)
}

/// Codes of the rows, or a note that the width or the number of rows does not allow them.
fn quantise(
    rows: &VectorSet,
    subspaces: usize,
    bits: u32,
    section: &mut Section,
    progress: &dyn Fn(&str),
) -> Result<Option<Codes>> {
    progress(&format!("codes: {subspaces} parts of {bits} bits"));
    let mut rng = generator(SEED, CODEBOOKS);
    match ProductQuantizer::train(rows, subspaces, bits, &mut rng) {
        Ok(quantizer) => {
            let rows = quantizer.encode(rows)?;
            Ok(Some(Codes { quantizer, rows }))
        }
        Err(reason) => {
            section.notes.push(format!("{subspaces} parts of {bits} bits: {reason}."));
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::sample::{judged_corpus, mixture, subject};

    fn codes(vectors: &VectorSet) -> Codes {
        let mut rng = generator(1, 0);
        let quantizer = ProductQuantizer::train(vectors, 4, 6, &mut rng).unwrap();
        let rows = quantizer.encode(vectors).unwrap();
        Codes { quantizer, rows }
    }

    #[test]
    fn fine_codes_give_neighbours_away() {
        let vectors = mixture(300, 8, 1);
        let rows = Matrix::from_vectors(&vectors);
        let probes: Vec<usize> = (0..100).collect();
        let leak = judge(&recover(&codes(&vectors)), &rows, &rows, &probes);
        assert!(mean(&leak.cosines) > 0.95, "{}", mean(&leak.cosines));
        assert!(mean(&leak.overlap_at_10) > 0.5, "{}", mean(&leak.overlap_at_10));
        assert!(mean(&leak.inside_40) > 0.9, "{}", mean(&leak.inside_40));
    }

    #[test]
    fn codes_of_something_else_score_chance() {
        // Centred noise, so that a shared mean does not make every cosine high.
        let noise = |seed| {
            let mut rng = generator(seed, 0);
            let mut normals = shard_geometry::gaussian::Normals::new(&mut rng);
            VectorSet::new(8, (0..400 * 8).map(|_| normals.draw() as f32).collect()).unwrap()
        };
        let truth = Matrix::from_vectors(&noise(1));
        let probes: Vec<usize> = (0..400).collect();
        let leak = judge(&recover(&codes(&noise(2))), &truth, &truth, &probes);
        let chance = 10.0 / 399.0;
        assert!(mean(&leak.cosines).abs() < 0.07, "{}", mean(&leak.cosines));
        assert!((mean(&leak.overlap_at_10) - chance).abs() < 0.01);
        assert!((mean(&leak.inside_40) - 4.0 * chance).abs() < 0.025);
    }

    #[test]
    fn channel_says_what_global_would_publish_and_that_shard_does_not() {
        let section = channel(&subject(300, 16, 1), &|_| ()).unwrap();
        let headline = &section.findings[section.headline.unwrap()];
        assert_eq!((headline.setting.as_str(), headline.value), ("system=shard", 0.0));
        assert_eq!(section.verdict, Some(Verdict::Closed));
        let overlap = section.findings.iter().find(|f| f.metric == "nn_overlap_at_10").unwrap();
        assert!(overlap.value > 3.0 * overlap.chance.unwrap() && overlap.ci95.is_some());
        // Too few documents are a note, not an error.
        let small = channel(&subject(20, 16, 1), &|_| ()).unwrap();
        assert_eq!((small.findings.len(), small.notes.len()), (1, 3));
    }

    #[test]
    fn tables_have_the_papers_rows_and_notes_where_the_data_do_not_allow_one() {
        let corpora = [judged_corpus(300, 96, 2)];
        let section = reproduce_pq(&corpora, &|_| ()).unwrap();
        assert_eq!(section.findings.len(), 9);
        assert!(section.findings.iter().all(|finding| finding.rows == 300));
        let bytes: Vec<f64> = section.plots[0].series[1].points.iter().map(|p| p.0).collect();
        assert_eq!(bytes, [24.0, 36.0, 48.0]);
        let section = reproduce_pq_only(&corpora, &|_| ()).unwrap();
        assert_eq!(section.findings.len(), 2 + 2 * 2);
        let narrow = reproduce_pq(&[judged_corpus(300, 20, 2)], &|_| ()).unwrap();
        assert!(narrow.findings.is_empty() && narrow.notes.len() == 1 + 3);
        assert!(reproduce_pq(&[], &|_| ()).unwrap().findings.is_empty());
    }
}
