//! A throw-away vault and everything a search needs of it.

use std::collections::HashMap;

use anyhow::{Result, bail};
use rand::TryRng;
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;
use shard_client::vault::{KdfCost, MIN_KEY_FILE_BYTES, Unlock, Vault};
use shard_client::{
    Answer, BlindCollection, CellCount, Choice, Collection, Documents, Hit, SearchOptions,
    Settings, create_vault, ingest, published_rows, stored_documents,
};
use shard_geometry::{VectorSet, dot_f64, exact_top_k};
use shard_protocol::RowBatch;
use tempfile::TempDir;
use zeroize::Zeroizing;

use super::arguments::CorpusArguments;
use super::corpus::Corpus;
use shard_cli::output::{follow, progress_of_time};

/// The data owner of one run.
pub struct Owner {
    pub vault: Vault,
    pub collection: Collection,
    /// What the server is given.
    pub rows: RowBatch,
    pub queries: VectorSet,
    pub options: SearchOptions,
    /// Where the vault is, until the run ends.
    _directory: TempDir,
}

impl Owner {
    /// Protects a corpus as the flags say.
    pub fn of(arguments: &CorpusArguments, options: SearchOptions, corpus: Corpus) -> Result<Self> {
        let Corpus { documents, queries } = corpus;
        let width = documents.width();
        let mut settings = Settings::new(arguments.cells);
        settings.d_pub = Choice::Fixed(arguments.d_pub.unwrap_or((width / 4).max(1)));
        settings.candidates = Choice::Fixed(arguments.candidates);
        settings.seed = arguments.seed;
        let (held, asked) = (documents.rows(), arguments.candidates);
        if asked > held {
            bail!("{asked} candidates of {held} documents");
        }
        if let CellCount::Cells(count) = arguments.cells
            && count > held
        {
            bail!("{count} cells of {held} documents");
        }

        let (directory, vault) = vault_of(&settings, &documents)?;
        let collection = Collection::open(&vault)?;
        let rows = published_rows(&vault)?;
        Ok(Self { vault, collection, rows, queries, options, _directory: directory })
    }

    /// The query of a trial.
    pub fn query(&self, trial: usize) -> &[f32] {
        self.queries.row(trial % self.queries.rows())
    }

    /// Every candidate of a query, ranked without encryption.
    pub fn in_the_clear(&self, query: &[f32]) -> Result<Vec<Hit>> {
        Ok(self.collection.search_in_the_clear(&self.rows, query, &self.options)?)
    }
}

/// The data owner of a blind collection.
pub struct BlindOwner {
    pub vault: Vault,
    /// Where the vault is, until the run ends.
    _directory: TempDir,
}

impl BlindOwner {
    /// Protects documents, whose ids are their numbers.
    pub fn of(documents: &VectorSet) -> Result<Self> {
        let (directory, vault) = vault_of(&Settings::blind(), documents)?;
        Ok(Self { vault, _directory: directory })
    }
}

/// A blind collection at one commit, and what is true of it.
pub struct Truth {
    pub collection: BlindCollection,
    ids: HashMap<String, usize>,
    documents: VectorSet,
}

impl Truth {
    /// A vault as it is now.
    pub fn of(vault: &Vault) -> Result<Self> {
        let collection = BlindCollection::open(vault)?;
        let (ids, documents) = stored_documents(vault)?;
        let ids = ids.into_iter().enumerate().map(|(row, id)| (id, row)).collect();
        Ok(Self { collection, ids, documents })
    }

    /// The documents.
    pub fn documents(&self) -> &VectorSet {
        &self.documents
    }

    /// Whether an answer is that of exact search for so many documents: all of them, with the scores of the best,
    /// and documents that have these scores. Equal rows may stand for each other.
    pub fn is_answered_by(&self, query: &[f32], top: usize, answer: &Answer) -> Result<bool> {
        let bound = answer.error_bound + answer.precision;
        let best = exact_top_k(&self.documents, query, top.min(self.documents.rows()))?;
        let exact = answer.hits.iter().zip(&best).all(|(hit, best)| {
            let product = |&row: &usize| dot_f64(query, self.documents.row(row));
            let own = self.ids.get(&hit.id).map(product);
            (hit.score - best.score).abs() <= bound
                && own.is_some_and(|own| (hit.score - own).abs() <= bound)
        });
        Ok(exact && answer.hits.len() == best.len() && !best.is_empty())
    }
}

/// A vault of documents in a place of its own.
fn vault_of(settings: &Settings, documents: &VectorSet) -> Result<(TempDir, Vault)> {
    let directory = tempfile::Builder::new().prefix("shard-bench-").tempdir()?;
    let mut rng = UnwrapErr(SysRng);
    let mut key = Zeroizing::new(vec![0; MIN_KEY_FILE_BYTES]);
    SysRng.try_fill_bytes(&mut key)?;
    let path = directory.path().join("vault");
    let mut vault =
        create_vault(&path, &Unlock::KeyFile(key), KdfCost::default(), settings, &mut rng)?;
    let ids: Vec<String> = (0..documents.rows()).map(|row| row.to_string()).collect();
    let to_ingest = Documents { ids: &ids, vectors: documents, sample_queries: None };
    let bar = progress_of_time("protecting");
    let done = ingest(&mut vault, &to_ingest, &follow(&bar), &mut rng);
    bar.finish_and_clear();
    done?;
    Ok((directory, vault))
}

#[cfg(test)]
mod tests {
    use shard_client::remote::{PublishOptions, publish};
    use shard_client::{BlindSearcher, Hints, UNWATCHED};
    use shard_server::Embedded;

    use super::*;

    #[test]
    fn an_answer_that_is_too_short_or_of_another_query_is_not_that_of_exact_search() {
        for rows in [5, 40] {
            let corpus = Corpus::synthetic(rows, 16, 7).unwrap();
            let owner = BlindOwner::of(&corpus.documents).unwrap();
            let truth = Truth::of(&owner.vault).unwrap();
            let embedded = Embedded::empty(truth.collection.epoch());
            publish(&owner.vault, PublishOptions::default(), &embedded, UNWATCHED).unwrap();
            let searcher = BlindSearcher::new(embedded, Hints::in_memory());
            let (query, options) = (corpus.queries.row(0), SearchOptions::default());
            let mut answer = searcher.search(&truth.collection, query, &options).unwrap();
            assert_eq!(answer.hits.len(), options.top.min(rows));
            assert!(truth.is_answered_by(query, options.top, &answer).unwrap());
            let other: Vec<f32> = query.iter().map(|x| -x).collect();
            assert!(!truth.is_answered_by(&other, options.top, &answer).unwrap());
            while answer.hits.pop().is_some() {
                assert!(!truth.is_answered_by(query, options.top, &answer).unwrap());
            }
        }
    }
}
