//! What protection costs in quality, and how many cells a search touches.
//!
//! Raw exact search ranks by `q . x`. *Centred full* ranks by `(q - mu) . (x - mu)`, the error that
//! the paper corrects; *corrected half* by `q^T V_k V_k^T (x - mu)` with `k = d/2`; *Shard* takes 200
//! candidates by the distance of centred prefixes of `d/4` coordinates and ranks them by
//! `V^T q . V^T (x - mu)`, whose order is that of `q . x`.

use anyhow::Result;
use rayon::prelude::*;
use shard_geometry::Cells;

use super::measure::{DEPTH, PlainShard, SEED, SHARD_CANDIDATES, best_by_product, largest, named};
use crate::finding::{Finding, Plot, Section, Series};
use crate::quality::{Bootstrap, Evaluation, compare, evaluate};
use crate::subject::Corpus;
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{generator, interval, mean, quantile};

/// The paper's figures for e5-small: raw nDCG@10, then the differences of the three systems.
fn paper(corpus: &Corpus) -> Option<[f64; 4]> {
    match (corpus.encoder.as_str(), corpus.name.as_str()) {
        ("minilm", "scifact") => Some([0.598, -0.039, -0.049, -0.008]),
        ("minilm", "nfcorpus") => Some([0.302, -0.007, -0.012, -0.002]),
        _ => None,
    }
}

/// The paper's table of utility: raw, centred full, corrected half and Shard, for every corpus.
///
/// # Errors
/// When a corpus cannot be searched or measured.
pub fn reproduce_utility(corpora: &[Corpus], progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new("utility", "Retrieval quality against raw search");
    section.notes = vec![
        "The paper's encoder is e5-small; beside it stand our figures with all-MiniLM-L6-v2 \
         (384 coordinates). WordLlama, Cranfield and the wiki set are not in the paper; ArguAna, \
         e5-base and MIRACL cannot be had here."
            .into(),
        "Shard is computed without keys and encryption, which cancel in every score.".into(),
        "Differences are from raw search, with a paired bootstrap over queries (10,000 resamples, \
         seed 2026)."
            .into(),
    ];
    if corpora.iter().any(|corpus| corpus.name == "wiki100k") {
        section.notes.push(
            "The judgements of wiki100k are derived, not made by people: its lines tell how close \
             a system is to raw search, not how good either is."
                .into(),
        );
    }
    let mut lines: [(&str, Points); 3] = [
        ("query centred", Vec::new()),
        ("half of the coordinates", Vec::new()),
        ("Shard", Vec::new()),
    ];
    for corpus in corpora.iter().filter(|corpus| !corpus.qrels.is_empty()) {
        progress(&format!("utility: {} / {}", corpus.name, corpus.encoder));
        let systems = evaluate_systems(corpus)?;
        let paper = paper(corpus);
        let raw = &systems[0].1;
        for (at, (system, evaluation)) in systems.iter().enumerate() {
            let setting =
                format!("dataset={},encoder={},system={system}", corpus.name, corpus.encoder);
            let finding = |metric: &str, value: f64| {
                Finding::new("utility", &setting, metric, value).on(SEED, corpus.vectors.rows())
            };
            let measures = evaluation.mean();
            let ndcg = finding("ndcg_at_10", measures.ndcg10);
            section.findings.push(if at == 0 { ndcg.paper(paper.map(|p| p[0])) } else { ndcg });
            section.findings.push(finding("recall_at_100", measures.recall100));
            if at > 0 {
                let delta = compare(raw, evaluation, Bootstrap::default())?;
                let point = (raw.mean().ndcg10, delta.delta_ndcg10, Some(delta.ci95));
                lines[at - 1].1.push(point);
                section.findings.push(
                    finding("delta_ndcg_at_10", delta.delta_ndcg10)
                        .ci95(delta.ci95)
                        .paper(paper.map(|p| p[at])),
                );
            }
        }
    }
    if lines[0].1.is_empty() {
        return Ok(section);
    }
    let series = lines.into_iter().map(|(name, points)| Series::through(name, points));
    section.plots.push(Plot {
        name: "utility".into(),
        title: "Difference from raw search, a point for each collection and encoder".into(),
        x_label: "nDCG@10 of raw search".into(),
        y_label: "difference of nDCG@10".into(),
        logarithmic: false,
        series: series.collect(),
    });
    Ok(section)
}

/// Points of a line.
type Points = Vec<(f64, f64, Option<[f64; 2]>)>;

/// The four systems of the table, raw search first.
fn evaluate_systems(corpus: &Corpus) -> Result<[(&'static str, Evaluation); 4]> {
    let (vectors, queries) = (&corpus.vectors, &corpus.queries);
    let width = vectors.width();
    let shard = PlainShard::fit(vectors, (width / 4).max(1))?;
    let pca = &shard.pca;
    let documents = Matrix::from_vectors(vectors);
    let judged = |rankings: &[Vec<u32>]| evaluate(&corpus.qrels, &named(corpus, rankings));
    let run = |of_query: &(dyn Fn(&[f32]) -> Vec<f64> + Sync)| -> Result<Evaluation> {
        let rotated = (0..queries.rows()).into_par_iter();
        let rotated = rotated.flat_map_iter(|row| of_query(queries.row(row))).collect();
        Ok(judged(&best_by_product(&Matrix::new(width, rotated), &documents, DEPTH))?)
    };
    let raw = run(&|query| query.iter().copied().map(f64::from).collect())?;
    // (q - mu) . (x - mu) orders rows as (q - mu) . x does.
    let centred =
        run(&|query| query.iter().zip(pca.mean()).map(|(&q, mu)| f64::from(q) - mu).collect())?;
    // q^T V_k V_k^T (x - mu) orders rows as (V_k V_k^T q) . x does.
    let half = run(&|query| {
        let mut projected = vec![0.0; width];
        let kept = pca.uncentred(query).into_iter().take((width / 2).max(1));
        for (coordinate, direction) in kept.zip(pca.basis().chunks_exact(width)) {
            projected.iter_mut().zip(direction).for_each(|(p, v)| *p += coordinate * v);
        }
        projected
    })?;
    let shard = judged(&shard.search(queries, SHARD_CANDIDATES, DEPTH)?)?;
    Ok([("raw", raw), ("centred-full", centred), ("corrected-half", half), ("shard", shard)])
}

/// Megabytes of a query ciphertext in the paper's first model of the cost.
const CIPHERTEXT_MEGABYTES: f64 = 0.21;

/// `(K, C, mean, 95th percentile)` of active cells in the paper, for e5-small.
const ACTIVE_CELLS: [(usize, usize, f64, f64); 6] = [
    (40, 64, 7.2, 13.0),
    (40, 256, 11.6, 19.0),
    (100, 64, 11.3, 19.0),
    (100, 256, 20.0, 32.0),
    (200, 64, 15.7, 26.0),
    (200, 256, 30.1, 48.0),
];

/// The paper's table of active cells: over how many cells the shortlist of a query spreads.
///
/// # Errors
/// When the largest corpus cannot be divided into cells.
pub fn reproduce_active_cells(corpora: &[Corpus], progress: &dyn Fn(&str)) -> Result<Section> {
    let mut section = Section::new("active-cells", "Cells that a search touches");
    let Some(corpus) = largest(corpora, "minilm") else {
        section.notes.push("There is no corpus to measure on.".into());
        return Ok(section);
    };
    section.notes = vec![
        "The paper's figures are for e5-small; the prefix has d/4 coordinates in both.".into(),
        "upload_megabytes is the paper's first model, 0.21 MB for each active cell; what our \
         requests really take is a matter of `shard-lab bench rerank`."
            .into(),
    ];
    let rows = corpus.vectors.rows();
    let prefix_width = (corpus.vectors.width() / 4).max(1);
    progress(&format!("active cells: {} / {}", corpus.name, corpus.encoder));
    let shard = PlainShard::fit(&corpus.vectors, prefix_width)?;
    // One scan serves every K: a shorter shortlist is the head of a longer one.
    let shortlists = shard.shortlists(&corpus.queries, SHARD_CANDIDATES)?;
    for count in [64, 256] {
        if rows < count {
            section.notes.push(format!("{rows} documents are too few for {count} cells."));
            continue;
        }
        progress(&format!("active cells: {count} cells"));
        let mut rng = generator(SEED, count as u64);
        let (_, cells) = Cells::fit(shard.prefixes(), prefix_width, count, &mut rng)?;
        for &(candidates, _, paper_mean, paper_p95) in
            ACTIVE_CELLS.iter().filter(|entry| entry.1 == count)
        {
            let mut active: Vec<f64> = shortlists
                .iter()
                .map(|shortlist| active_cells(&cells, shortlist, candidates) as f64)
                .collect();
            let setting = format!(
                "dataset={},encoder={},cells={count},candidates={candidates}",
                corpus.name, corpus.encoder
            );
            let finding = |metric: &str, value: f64, paper: Option<f64>| {
                Finding::new("active-cells", &setting, metric, value).paper(paper).on(SEED, rows)
            };
            let average = mean(&active);
            section.findings.push(
                finding("active_cells_mean", average, Some(paper_mean))
                    .ci95(interval(&active, 2000, SEED)),
            );
            active.sort_unstable_by(f64::total_cmp);
            section.findings.push(finding(
                "active_cells_p95",
                quantile(&active, 0.95),
                Some(paper_p95),
            ));
            if count == 256 {
                section.findings.push(finding(
                    "upload_megabytes",
                    CIPHERTEXT_MEGABYTES * average,
                    Some((CIPHERTEXT_MEGABYTES * paper_mean * 10.0).round() / 10.0),
                ));
            }
        }
    }
    Ok(section)
}

/// Distinct cells among the first candidates.
fn active_cells(cells: &[u32], shortlist: &[u32], candidates: usize) -> usize {
    let mut active: Vec<u32> =
        shortlist.iter().take(candidates).map(|&row| cells[row as usize]).collect();
    active.sort_unstable();
    active.dedup();
    active.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::sample::judged_corpus;

    fn value(section: &Section, setting: &str, metric: &str) -> f64 {
        let found = section
            .findings
            .iter()
            .find(|finding| finding.setting.contains(setting) && finding.metric == metric);
        found.expect("a finding").value
    }

    #[test]
    fn shard_loses_nothing_where_centring_the_query_does() {
        let corpora = [judged_corpus(400, 16, 60)];
        let section = reproduce_utility(&corpora, &|_| ()).unwrap();
        assert_eq!(section.findings.len(), 2 + 3 * 3);
        let drawn = |at: usize| section.plots[0].series[at].points[0].1;
        assert!(drawn(0) < -0.01 && drawn(2) == 0.0);
        // Judgements are the five nearest by inner product: raw search is perfect by construction.
        assert_eq!(value(&section, "system=raw", "ndcg_at_10"), 1.0);
        assert_eq!(value(&section, "system=shard", "delta_ndcg_at_10"), 0.0);
        assert!(value(&section, "system=centred-full", "delta_ndcg_at_10") < -0.01);
        assert!(value(&section, "system=corrected-half", "delta_ndcg_at_10") < -0.01);
    }

    #[test]
    fn longer_shortlists_and_more_cells_touch_more_cells() {
        let corpora = [judged_corpus(600, 16, 40)];
        let section = reproduce_active_cells(&corpora, &|_| ()).unwrap();
        let cells = |cells, candidates| {
            let setting = format!("cells={cells},candidates={candidates}");
            value(&section, &setting, "active_cells_mean")
        };
        assert!(cells(64, 40) < cells(64, 200) && cells(64, 200) < cells(256, 200));
        assert!(cells(256, 40) <= 40.0 && cells(64, 40) >= 1.0);
        assert!(reproduce_active_cells(&[], &|_| ()).unwrap().findings.is_empty());
    }

    #[test]
    fn active_cells_are_distinct_cells_of_the_head() {
        assert_eq!(active_cells(&[5, 5, 2, 9], &[0, 1, 2, 3], 3), 2);
        assert_eq!(active_cells(&[5, 5, 2, 9], &[0, 1, 2, 3], 9), 3);
    }
}
