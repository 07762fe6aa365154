//! Embeddings that are looked up and averaged: model2vec and WordLlama.

use rayon::prelude::*;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::EncodeError;
use crate::encoder::{Progress, unit};
use crate::folder::settings::Parts;
use crate::folder::{File, Folder, Tokens, Weights};

/// As many tokens as model2vec looks at.
const MODEL2VEC_LENGTH: usize = 512;
/// Texts between two looks at whether to go on.
const BATCH_TEXTS: usize = 128;

/// A model with one vector for each token.
pub(crate) struct Fixed {
    tokens: Tokens,
    rows: Vec<f32>,
    dimension: usize,
    /// Which row is a token's, where several tokens share one.
    mapping: Option<Vec<usize>>,
    /// What a token counts, if not one.
    weights: Option<Vec<f32>>,
    /// The token that is left out of the mean.
    unknown: Option<u32>,
    normalize: bool,
}

/// `config.json` of model2vec.
#[derive(Deserialize, Default)]
struct Configuration {
    normalize: Option<bool>,
}

/// The tensor with the vectors, if a file holds such a model.
pub(crate) fn table(weights: &Weights<'_>) -> Option<&'static str> {
    ["embeddings", "embedding.weight"].into_iter().find(|name| weights.has(name))
}

impl Fixed {
    /// The model of a folder, and what names it.
    pub(crate) fn open(
        folder: &Folder,
        parts: &Parts,
        file: &File,
        weights: &Weights<'_>,
    ) -> Result<(Self, Vec<u8>), EncodeError> {
        let table = table(weights).expect("the caller looked");
        let shape = weights.shape(table).expect("it is there");
        let &[count, dimension] = shape.as_slice() else {
            return Err(wrong(file, table, "is not a table"));
        };
        if count == 0 || dimension == 0 {
            return Err(wrong(file, table, "is empty"));
        }
        let configuration: Option<Configuration> =
            parts.transformer.configuration("config.json")?;
        let normalize = configuration.unwrap_or_default().normalize.unwrap_or(parts.normalize);
        let is_model2vec = table == "embeddings";
        let rows = weights.values(table, &shape)?;
        let mapping = weights.has("mapping").then(|| mapping(file, weights, count)).transpose()?;
        let known = mapping.as_ref().map_or(count, Vec::len);
        let token_weights =
            weights.has("weights").then(|| weights.values("weights", &[known])).transpose()?;
        let tokenizer = parts.transformer.tokenizer()?;
        // Sequences of any length for WordLlama, which cuts none.
        let mut tokens = Tokens::open(&tokenizer, is_model2vec.then_some(MODEL2VEC_LENGTH), false)?;
        tokens.fits(folder.path(), known)?;
        let unknown = if is_model2vec { tokens.unknown() } else { None };
        let mut digest = Sha256::new();
        digest.update(Sha256::digest(&file.bytes));
        digest.update(Sha256::digest(&tokenizer.bytes));
        digest.update(format!("normalize={normalize}"));
        let model =
            Self { tokens, rows, dimension, mapping, weights: token_weights, unknown, normalize };
        Ok((model, digest.finalize().to_vec()))
    }

    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The mean of each text's tokens. A text without any known token has a vector of zeros.
    pub(crate) fn encode(
        &self,
        texts: &[&str],
        progress: &Progress<'_>,
    ) -> Result<Vec<f32>, EncodeError> {
        let mut vectors = vec![0.0; texts.len() * self.dimension];
        let rows = vectors.par_chunks_mut(BATCH_TEXTS * self.dimension);
        rows.zip(texts.par_chunks(BATCH_TEXTS)).enumerate().try_for_each(
            |(batch, (rows, texts))| {
                for (place, (row, text)) in rows.chunks_mut(self.dimension).zip(texts).enumerate() {
                    self.mean(&self.tokens.of(batch * BATCH_TEXTS + place, text)?, row);
                }
                progress.advance(texts.len())
            },
        )?;
        Ok(vectors)
    }

    fn mean(&self, tokens: &[u32], vector: &mut [f32]) {
        let mut count = 0;
        for &token in tokens.iter().filter(|&&token| Some(token) != self.unknown) {
            let token = token as usize;
            let row = self.mapping.as_ref().map_or(token, |mapping| mapping[token]);
            let weight = self.weights.as_ref().map_or(1.0, |weights| weights[token]);
            let values = &self.rows[row * self.dimension..][..self.dimension];
            vector.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
            count += 1;
        }
        if count > 0 {
            vector.iter_mut().for_each(|value| *value /= count as f32);
        }
        if self.normalize {
            unit(vector);
        }
    }
}

fn wrong(file: &File, tensor: &str, reason: &str) -> EncodeError {
    EncodeError::Tensor { file: file.path.clone(), tensor: tensor.into(), reason: reason.into() }
}

/// Which row is a token's: each number must be one of a row.
fn mapping(file: &File, weights: &Weights<'_>, count: usize) -> Result<Vec<usize>, EncodeError> {
    let rows = weights.integers("mapping")?;
    let row = |row: i64| usize::try_from(row).ok().filter(|&row| row < count);
    let rows: Option<Vec<usize>> = rows.into_iter().map(row).collect();
    rows.ok_or_else(|| wrong(file, "mapping", "names rows that do not exist"))
}
