//! SciFact, shipped inside the program so that the demo needs neither files nor network.
//!
//! 5,183 abstracts, 300 claims with judgements, and their embeddings; sources and licences are in
//! `assets/scifact/ATTRIBUTION.md`.

use std::collections::HashMap;
use std::io::{BufReader, Cursor};

use anyhow::{Context, Result, anyhow};
use flate2::bufread::MultiGzDecoder;
use shard::evaluation::Qrels;

use shard::Documents;
use shard::input::{TextDocument, npy_from, qrels_from, texts_from};

static DOCUMENT_VECTORS: &[u8] = include_bytes!("../assets/scifact/docs.npy");
static DOCUMENT_IDS: &[u8] = include_bytes!("../assets/scifact/ids.txt");
static DOCUMENT_TEXTS: &[u8] = include_bytes!("../assets/scifact/corpus.jsonl.gz");
static QUERY_VECTORS: &[u8] = include_bytes!("../assets/scifact/queries.npy");
static QUERY_IDS: &[u8] = include_bytes!("../assets/scifact/query_ids.txt");
static QUERY_TEXTS: &[u8] = include_bytes!("../assets/scifact/queries.jsonl");
static JUDGEMENTS: &[u8] = include_bytes!("../assets/scifact/qrels.tsv");

/// The whole data set.
#[derive(Debug, Clone)]
pub struct SciFact {
    /// The abstracts as vectors.
    pub documents: Documents,
    /// The claims as vectors.
    pub queries: Documents,
    /// Which abstracts bear on which claim.
    pub qrels: Qrels,
    /// The abstracts as text, in the order of `documents`.
    pub document_texts: Vec<TextDocument>,
    /// The claims as text, in the order of `queries`.
    pub query_texts: Vec<TextDocument>,
}

/// Unpacks the data set.
///
/// # Errors
/// Only if the program was built with damaged assets.
pub fn load() -> Result<SciFact> {
    let documents =
        npy_from(Cursor::new(DOCUMENT_VECTORS), DOCUMENT_IDS).context("shipped documents")?;
    let queries = npy_from(Cursor::new(QUERY_VECTORS), QUERY_IDS).context("shipped queries")?;
    let corpus = BufReader::new(MultiGzDecoder::new(DOCUMENT_TEXTS));
    Ok(SciFact {
        document_texts: in_row_order(
            documents.ids(),
            texts_from(corpus).context("shipped corpus")?,
        )?,
        query_texts: in_row_order(
            queries.ids(),
            texts_from(QUERY_TEXTS).context("shipped claims")?,
        )?,
        qrels: qrels_from(JUDGEMENTS).context("shipped judgements")?,
        documents,
        queries,
    })
}

fn in_row_order(ids: &[String], texts: Vec<TextDocument>) -> Result<Vec<TextDocument>> {
    let mut by_id: HashMap<String, TextDocument> =
        texts.into_iter().map(|text| (text.id.clone(), text)).collect();
    ids.iter().map(|id| by_id.remove(id).ok_or_else(|| anyhow!("no text for id {id:?}"))).collect()
}

#[cfg(test)]
mod tests {
    use shard::evaluation::judge;
    use shard::{FitOptions, SearchOptions, Settings, Unlock, Vault, exact_scores};

    use super::*;

    #[test]
    fn the_shipped_set_is_whole_and_of_unit_length() {
        let set = load().unwrap();
        assert_eq!((set.documents.ids().len(), set.documents.vectors().width()), (5183, 384));
        assert_eq!((set.queries.ids().len(), set.queries.vectors().width()), (300, 384));
        assert_eq!(set.qrels.len(), 300);
        assert!(
            set.document_texts.iter().zip(set.documents.ids()).all(|(text, id)| text.id == *id)
        );
        assert!(
            set.query_texts
                .iter()
                .zip(set.queries.ids())
                .all(|(text, id)| text.id == *id && !text.text.is_empty())
        );
        for row in set
            .documents
            .vectors()
            .values()
            .chunks(384)
            .chain(set.queries.vectors().values().chunks(384))
        {
            let norm: f64 = row.iter().map(|&value| f64::from(value).powi(2)).sum();
            assert!((norm - 1.0).abs() < 2e-3, "{norm}");
        }
    }

    /// All rows by falling dot product, ties by row order; the best hundred.
    fn exact_search<'a>(documents: &'a Documents, query: &[f32]) -> Vec<&'a str> {
        let scores = exact_scores(documents.vectors(), query).unwrap();
        let mut rows: Vec<usize> = (0..scores.len()).collect();
        rows.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        rows.iter().take(100).map(|&row| documents.ids()[row].as_str()).collect()
    }

    #[test]
    fn encrypted_search_finds_the_true_top_ten_of_claims_of_any_length() {
        let set = load().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (key, settings) = (Unlock::passphrase("correct horse"), Settings::rotated());
        let mut vault = Vault::create(folder.path().join("vault"), &key, &settings).unwrap();
        vault.ingest(&set.documents, FitOptions::default()).unwrap();
        let searcher = vault.embedded().unwrap();
        let claims: Vec<&[f32]> = set.queries.vectors().values().chunks(384).step_by(15).collect();
        for scale in [1e-20, 0.1, 1.0, 1e20] {
            let held = claims.iter().map(|claim| {
                let claim: Vec<f32> = claim.iter().map(|x| x * scale).collect();
                let answer = searcher.search(&claim, &SearchOptions::default()).unwrap();
                let best = exact_search(&set.documents, &claim);
                answer.hits.iter().filter(|hit| best[..10].contains(&hit.id.as_str())).count()
            });
            let held = held.sum::<usize>() as f64 / (10 * claims.len()) as f64;
            assert!(held >= 0.99, "{held} at {scale:e}");
        }
    }

    #[test]
    fn exact_search_on_the_shipped_set_has_the_quality_trec_eval_gives_it() {
        let set = load().unwrap();
        let queries = set.queries.ids().iter().zip(set.queries.vectors().values().chunks(384));
        let run: Vec<(&str, Vec<&str>)> =
            queries.map(|(id, query)| (id.as_str(), exact_search(&set.documents, query))).collect();
        let found = judge(&set.qrels, &run).unwrap();
        assert_eq!((found.queries.len(), found.left_out, found.unanswered), (300, 0, 0));
        let mean = found.mean();
        assert!((mean.ndcg10 - 0.645_082).abs() < 1e-6, "{mean:?}");
        assert!((mean.recall100 - 0.925).abs() < 1e-6, "{mean:?}");
        assert!((mean.mrr10 - 0.604_725).abs() < 1e-6, "{mean:?}");
    }
}
