//! The BERT family: MiniLM, e5, bge, gte, and RoBERTa's way to count positions.
//!
//! Texts are tokenized and sorted by length, the longest first, so that no core is left with one at the end. Batches of
//! about [`BATCH_TOKENS`] tokens go to the cores, each through the whole model on one of them. In a batch the texts lie
//! one behind the other, without padding: layers work on tokens, attention on each text by itself. So the vector of a
//! text does not depend on its company but by the rounding of matrix products.

mod configuration;
mod forward;
mod kernels;
mod layers;

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::encoder::{Progress, unit};
use crate::folder::settings::Parts;
use crate::folder::{File, Folder, Pooling, Settings, Tokens, Weights};
use crate::{EncodeError, Purpose};

pub(crate) use configuration::Configuration;
use forward::Scratch;
use layers::Model;

/// Tokens of a batch: enough for matrix products at full speed, few enough for a core's own cache.
const BATCH_TOKENS: usize = 512;
/// Texts that are tokenized at a time, which bounds memory and how late an end is noticed.
const WINDOW: usize = 4096;

/// The shortest limit of a text, in tokens, that is believed.
const SHORTEST: usize = 8;

/// A transformer with its tokenizer.
pub(crate) struct Bert {
    model: Model,
    tokens: Tokens,
    settings: Settings,
}

impl Bert {
    /// The model of a folder, and what names it.
    pub(crate) fn open(
        folder: &Folder,
        parts: &Parts,
        file: &File,
        weights: Weights<'_>,
        configuration: &Configuration,
    ) -> Result<(Self, Vec<u8>), EncodeError> {
        configuration.supported(folder)?;
        let mut settings = parts.settings(folder, configuration.name())?;
        let positions = configuration.positions();
        let length = settings.length.map_or(positions, |length| length.min(positions));
        // The model's own tokens alone take two to four.
        settings.length = Some(length.max(SHORTEST.min(positions)));
        let tokenizer = parts.transformer.tokenizer()?;
        let mut tokens = Tokens::open(&tokenizer, settings.length, true)?;
        tokens.fits(folder.path(), configuration.vocab_size)?;
        let weights =
            weights.under(&["", "bert.", "roberta."], "embeddings.word_embeddings.weight");
        let model = Model::load(configuration, &weights)?;
        let mut digest = Sha256::new();
        digest.update(Sha256::digest(&file.bytes));
        digest.update(Sha256::digest(&tokenizer.bytes));
        digest.update(format!("{} {}", configuration.describe(), settings.describe()));
        Ok((Self { model, tokens, settings }, digest.finalize().to_vec()))
    }

    pub(crate) fn dimension(&self) -> usize {
        self.model.width
    }

    /// What stands before a text for this purpose.
    pub(crate) fn prefix(&self, purpose: Purpose) -> &str {
        self.settings.prefix(purpose)
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    pub(crate) fn encode(
        &self,
        texts: &[&str],
        purpose: Purpose,
        progress: &Progress<'_>,
    ) -> Result<Vec<f32>, EncodeError> {
        let width = self.dimension();
        let mut vectors = vec![0.0; texts.len() * width];
        let windows = texts.chunks(WINDOW).zip(vectors.chunks_mut(WINDOW * width));
        for (number, (texts, vectors)) in windows.enumerate() {
            self.window(number * WINDOW, texts, purpose, progress, vectors)?;
        }
        Ok(vectors)
    }

    /// The vectors of a window of texts, of which the first is number `first`.
    fn window(
        &self,
        first: usize,
        texts: &[&str],
        purpose: Purpose,
        progress: &Progress<'_>,
        vectors: &mut [f32],
    ) -> Result<(), EncodeError> {
        let prepared = texts.par_iter().enumerate();
        let tokens: Vec<Vec<u32>> = prepared
            .map(|(index, text)| self.tokens.of(first + index, &self.prepare(text, purpose)))
            .collect::<Result<_, _>>()?;
        let mut places: Vec<(&[u32], &mut [f32])> =
            tokens.iter().map(Vec::as_slice).zip(vectors.chunks_mut(self.dimension())).collect();
        places.sort_by_key(|(tokens, _)| std::cmp::Reverse(tokens.len()));
        let mut batches = Vec::new();
        let mut rest = places.as_mut_slice();
        while !rest.is_empty() {
            let (batch, behind) = rest.split_at_mut(batch_length(rest));
            batches.push(batch);
            rest = behind;
        }
        batches.into_par_iter().try_for_each_init(Scratch::default, |scratch, batch| {
            let texts: Vec<&[u32]> = batch.iter().map(|(tokens, _)| *tokens).collect();
            let hidden = self.model.forward(&texts, scratch);
            let mut begin = 0;
            for (tokens, vector) in batch.iter_mut() {
                let values = tokens.len() * self.dimension();
                self.pool(&hidden[begin..begin + values], vector);
                begin += values;
            }
            progress.advance(batch.len())
        })
    }

    /// The text as the tokenizer gets it.
    fn prepare<'a>(&self, text: &'a str, purpose: Purpose) -> std::borrow::Cow<'a, str> {
        let prefix = self.settings.prefix(purpose);
        if prefix.is_empty() && !self.settings.lowercase {
            return text.into();
        }
        let text = format!("{prefix}{text}");
        if self.settings.lowercase { text.to_lowercase().into() } else { text.into() }
    }

    /// The vector of a text from those of its tokens.
    fn pool(&self, tokens: &[f32], vector: &mut [f32]) {
        let width = vector.len();
        let rows = tokens.chunks_exact(width);
        let count = rows.len().max(1) as f32;
        match self.settings.pooling {
            Pooling::First => {
                vector.copy_from_slice(tokens.get(..width).unwrap_or(&vec![0.0; width]))
            }
            Pooling::Mean => {
                rows.for_each(|row| {
                    vector.iter_mut().zip(row).for_each(|(sum, value)| *sum += value)
                });
                vector.iter_mut().for_each(|sum| *sum /= count);
            }
            Pooling::Max => {
                vector.copy_from_slice(tokens.get(..width).unwrap_or(&vec![0.0; width]));
                rows.for_each(|row| {
                    vector.iter_mut().zip(row).for_each(|(most, &value)| *most = most.max(value));
                });
            }
        }
        if self.settings.normalize {
            unit(vector);
        }
    }
}

/// How many of these texts make the next batch.
fn batch_length(texts: &[(&[u32], &mut [f32])]) -> usize {
    let mut total = 0;
    let fits = |(tokens, _): &&(&[u32], &mut [f32])| {
        total += tokens.len();
        total <= BATCH_TOKENS
    };
    texts.iter().take_while(fits).count().max(1)
}
