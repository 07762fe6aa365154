//! The tokenizer of a model.

use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use rayon::prelude::*;
use tokenizers::{Tokenizer, TruncationParams};

use super::File;
use crate::EncodeError;

/// Bytes of a text that are tokenized at once.
const STRETCH: usize = 64 << 10;

/// A tokenizer that pads nothing and, if told so, cuts texts to the model's length.
pub(crate) struct Tokens {
    tokenizer: Tokenizer,
    /// The same without a limit, for who wants to know where all tokens are.
    whole: OnceLock<Tokenizer>,
    limit: usize,
    /// Whether tokens such as `[CLS]` are put around a text.
    special: bool,
    /// Tokens that the model has an embedding of, once that was checked.
    rows: usize,
}

impl Tokens {
    pub(crate) fn open(
        file: &File,
        limit: Option<usize>,
        special: bool,
    ) -> Result<Self, EncodeError> {
        let damaged = |reason: String| EncodeError::Damaged { file: file.path.clone(), reason };
        let mut tokenizer =
            Tokenizer::from_bytes(&file.bytes).map_err(|error| damaged(error.to_string()))?;
        // What the file says of both is left from training.
        tokenizer.with_padding(None);
        let truncation =
            limit.map(|max_length| TruncationParams { max_length, ..Default::default() });
        tokenizer.with_truncation(truncation).map_err(|error| damaged(error.to_string()))?;
        Ok(Self {
            tokenizer,
            whole: OnceLock::new(),
            limit: limit.unwrap_or(usize::MAX),
            special,
            rows: usize::MAX,
        })
    }

    /// The tokens of text number `index`.
    pub(crate) fn of(&self, index: usize, text: &str) -> Result<Vec<u32>, EncodeError> {
        let encoding = self
            .tokenizer
            .encode_fast(text, self.special)
            .map_err(|error| EncodeError::Tokenize { index, reason: error.to_string() })?;
        let ids = encoding.get_ids();
        let ids = &ids[..ids.len().min(self.limit)];
        // A post-processor may add tokens that are not in the vocabulary.
        match ids.iter().find(|&&id| id as usize >= self.rows) {
            Some(id) => {
                let reason = format!("token {id}, and the model has {} embeddings", self.rows);
                Err(EncodeError::Tokenize { index, reason })
            }
            None => Ok(ids.to_vec()),
        }
    }

    /// Where the tokens of a text are in it, by bytes; those put around it have no place. A long text is read in
    /// stretches: the tokenizer's own memory is some seventy times that of its text.
    pub(crate) fn places(&self, text: &str) -> Result<Vec<(usize, usize)>, EncodeError> {
        let whole = self.whole.get_or_init(|| {
            let mut whole = self.tokenizer.clone();
            whole.with_truncation(None).expect("no truncation cannot be too short");
            whole
        });
        let in_stretch = |stretch: Range<usize>| {
            let encoding = whole
                .encode(&text[stretch.clone()], false)
                .map_err(|error| EncodeError::Tokenize { index: 0, reason: error.to_string() })?;
            let moved =
                |&(begin, end): &(usize, usize)| (stretch.start + begin, stretch.start + end);
            Ok(encoding.get_offsets().iter().map(moved).collect())
        };
        let places: Vec<Vec<_>> =
            stretches(text).into_par_iter().map(in_stretch).collect::<Result<_, EncodeError>>()?;
        Ok(places.concat())
    }

    /// How many tokens a text may have at most behind another one, for all of them to be read.
    pub(crate) fn room_behind(&self, before: &str) -> Result<usize, EncodeError> {
        if self.limit == usize::MAX {
            return Ok(usize::MAX);
        }
        let around = if self.special { self.of(0, "")?.len() } else { 0 };
        Ok(self.limit.saturating_sub(around + self.places(before)?.len()))
    }

    /// The token that stands for what the tokenizer does not know, if it has one.
    pub(crate) fn unknown(&self) -> Option<u32> {
        let model = serde_json::to_value(self.tokenizer.get_model()).ok()?;
        if let Some(id) = model.get("unk_id").and_then(serde_json::Value::as_u64) {
            return u32::try_from(id).ok();
        }
        self.tokenizer.token_to_id(model.get("unk_token")?.as_str()?)
    }

    /// Refuses a tokenizer with tokens for which the model has no embedding.
    pub(crate) fn fits(&mut self, folder: &Path, rows: usize) -> Result<(), EncodeError> {
        self.rows = rows;
        match self.tokenizer.get_vocab(true).into_values().max() {
            Some(largest) if largest as usize >= rows => {
                Err(EncodeError::TokenizerMismatch { folder: folder.to_owned(), largest, rows })
            }
            _ => Ok(()),
        }
    }
}

/// A text in parts of some [`STRETCH`] bytes that end behind a line, or behind a word where there is no line's end.
/// What is longer than that and has no white space stays whole.
fn stretches(text: &str) -> Vec<Range<usize>> {
    let mut stretches = Vec::new();
    let mut start = 0;
    while text.len() - start > STRETCH {
        let from = text.ceil_char_boundary(start + STRETCH);
        let near = &text[from..text.ceil_char_boundary((from + STRETCH).min(text.len()))];
        let behind_line = near.find('\n').map(|at| from + at + 1);
        let before_space = || text[from..].find(char::is_whitespace).map(|at| from + at);
        let Some(end) = behind_line.or_else(before_space) else { break };
        stretches.push(start..end);
        start = end;
    }
    stretches.push(start..text.len());
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_the_text_and_cut_no_word() {
        let line = "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.";
        let words = format!("{line} ").repeat(3000);
        let texts = [
            String::new(),
            line.to_owned(),
            format!("{line}\n").repeat(3000),
            words.trim_end().to_owned(),
            "ß".repeat(STRETCH * 2),
            format!("{} {line}", "ß".repeat(STRETCH * 2)),
        ];
        for (text, parts) in texts.iter().zip([1, 1, 4, 4, 1, 2]) {
            let stretches = stretches(text);
            assert_eq!(stretches.len(), parts);
            let joined: String = stretches.iter().map(|part| &text[part.clone()]).collect();
            assert_eq!(&joined, text);
            for part in &stretches[1..] {
                let around =
                    [text[..part.start].chars().next_back(), text[part.clone()].chars().next()];
                assert!(around.into_iter().flatten().any(char::is_whitespace));
            }
        }
    }
}
