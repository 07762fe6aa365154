//! What a model's own files say of how texts become vectors.
//!
//! The files are those of sentence-transformers. Where they are missing: the mean of the tokens, unit length, as many
//! tokens as the model has positions, and for e5 the words that it was trained with.

use std::collections::HashMap;

use serde::Deserialize;

use super::Folder;
use crate::{EncodeError, Purpose};

/// How the vectors of the tokens become the vector of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pooling {
    /// Their mean.
    Mean,
    /// The vector of the first token.
    First,
    /// Their largest value, in each dimension.
    Max,
}

/// What is done with a text before and after the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    pub(crate) pooling: Pooling,
    pub(crate) normalize: bool,
    pub(crate) lowercase: bool,
    /// The longest text in tokens, if the files say one.
    pub(crate) length: Option<usize>,
    query_prefix: String,
    passage_prefix: String,
}

#[derive(Deserialize)]
struct Module {
    #[serde(rename = "type")]
    kind: String,
    path: String,
}

/// `1_Pooling/config.json`.
#[derive(Deserialize)]
#[serde(default)]
struct PoolingFile {
    pooling_mode_cls_token: bool,
    pooling_mode_mean_tokens: bool,
    pooling_mode_max_tokens: bool,
    pooling_mode_mean_sqrt_len_tokens: bool,
    pooling_mode_weightedmean_tokens: bool,
    pooling_mode_lasttoken: bool,
    include_prompt: bool,
}

impl Default for PoolingFile {
    fn default() -> Self {
        Self {
            pooling_mode_cls_token: false,
            pooling_mode_mean_tokens: false,
            pooling_mode_max_tokens: false,
            pooling_mode_mean_sqrt_len_tokens: false,
            pooling_mode_weightedmean_tokens: false,
            pooling_mode_lasttoken: false,
            include_prompt: true,
        }
    }
}

/// `sentence_bert_config.json`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct LengthFile {
    max_seq_length: Option<usize>,
    do_lower_case: Option<bool>,
}

/// `tokenizer_config.json`, where a length may be a number as large as 1e30.
#[derive(Deserialize, Default)]
#[serde(default)]
struct TokenizerFile {
    model_max_length: Option<f64>,
}

/// `config_sentence_transformers.json`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct PromptFile {
    prompts: HashMap<String, Option<String>>,
    default_prompt_name: Option<String>,
}

/// The folders of a model: of all of it, and of its transformer.
pub(crate) struct Parts {
    pub(crate) transformer: Folder,
    pooling: Option<Folder>,
    /// Whether vectors have unit length, which is also so where no file says it.
    pub(crate) normalize: bool,
}

impl Parts {
    /// The parts that `modules.json` lists, in a folder that may have none.
    pub(crate) fn of(folder: &Folder) -> Result<Self, EncodeError> {
        let Some(modules) = folder.configuration::<Vec<Module>>("modules.json")? else {
            let pooling = folder.part("1_Pooling")?;
            let pooling = pooling.path().is_dir().then_some(pooling);
            return Ok(Self { transformer: folder.part("")?, pooling, normalize: true });
        };
        let mut parts = Self { transformer: folder.part("")?, pooling: None, normalize: false };
        for (place, module) in modules.iter().enumerate() {
            match (place, module.kind.rsplit('.').next().unwrap_or_default()) {
                (0, "Transformer" | "StaticEmbedding") => {
                    parts.transformer = folder.part(&module.path)?
                }
                (1, "Pooling") => parts.pooling = Some(folder.part(&module.path)?),
                (_, "Normalize") if place + 1 == modules.len() => parts.normalize = true,
                _ => {
                    return Err(EncodeError::Architecture {
                        folder: folder.path().to_owned(),
                        architecture: module.kind.clone(),
                        reason: "a model is a transformer, then pooling, then perhaps unit length"
                            .into(),
                    });
                }
            }
        }
        Ok(parts)
    }

    /// What the files of the folder say, of a model that was saved under this name.
    pub(crate) fn settings(
        &self,
        folder: &Folder,
        name: Option<&str>,
    ) -> Result<Settings, EncodeError> {
        let unsupported = |reason: String| EncodeError::Architecture {
            folder: folder.path().to_owned(),
            architecture: "sentence-transformers".into(),
            reason,
        };
        let file = match &self.pooling {
            Some(pooling) => pooling.configuration::<PoolingFile>("config.json")?,
            None => None,
        };
        let pooling = match &file {
            None => Pooling::Mean,
            Some(file) => pooling_of(file).ok_or_else(|| {
                unsupported("the pooling is none of mean, first token (cls) and max".into())
            })?,
        };
        let length: LengthFile =
            self.transformer.configuration("sentence_bert_config.json")?.unwrap_or_default();
        let tokenizer: TokenizerFile =
            self.transformer.configuration("tokenizer_config.json")?.unwrap_or_default();
        let prompts: Option<PromptFile> =
            folder.configuration("config_sentence_transformers.json")?;
        let prompts =
            prompts.filter(|file| file.prompts.values().flatten().any(|prompt| !prompt.is_empty()));
        let called = folder.path().file_name().unwrap_or_default().to_string_lossy();
        let (query_prefix, passage_prefix) = match prompts {
            Some(prompts) => {
                (prompts.of(&["query"]), prompts.of(&["passage", "document", "corpus"]))
            }
            None if [name.unwrap_or_default(), &called].into_iter().any(is_e5) => {
                (e5_prefix(Purpose::Query).into(), e5_prefix(Purpose::Passage).into())
            }
            None => Default::default(),
        };
        let prefixed = !query_prefix.is_empty() || !passage_prefix.is_empty();
        if prefixed && file.is_some_and(|file| !file.include_prompt) {
            return Err(unsupported("the pooling leaves the prompt out".into()));
        }
        Ok(Settings {
            pooling,
            normalize: self.normalize,
            lowercase: length.do_lower_case.unwrap_or(false),
            length: length.max_seq_length.filter(|&length| length > 0).or_else(|| {
                let length = tokenizer.model_max_length?;
                (1.0..1e6).contains(&length).then_some(length as usize)
            }),
            query_prefix,
            passage_prefix,
        })
    }
}

impl PromptFile {
    /// The prompt with the first of these names, else the one that the model uses always.
    fn of(&self, names: &[&str]) -> String {
        let named = names.iter().find_map(|&name| self.prompts.get(name));
        let always = || self.prompts.get(self.default_prompt_name.as_ref()?);
        named.or_else(always).cloned().flatten().unwrap_or_default()
    }
}

impl Settings {
    /// What stands before a text for this purpose.
    pub(crate) fn prefix(&self, purpose: Purpose) -> &str {
        match purpose {
            Purpose::Query => &self.query_prefix,
            Purpose::Passage => &self.passage_prefix,
        }
    }

    /// All of it, for the identity of the encoder.
    pub(crate) fn describe(&self) -> String {
        format!("{self:?}")
    }
}

fn pooling_of(file: &PoolingFile) -> Option<Pooling> {
    let others = file.pooling_mode_mean_sqrt_len_tokens
        || file.pooling_mode_weightedmean_tokens
        || file.pooling_mode_lasttoken;
    match (
        file.pooling_mode_mean_tokens,
        file.pooling_mode_cls_token,
        file.pooling_mode_max_tokens,
        others,
    ) {
        (true, false, false, false) => Some(Pooling::Mean),
        (false, true, false, false) => Some(Pooling::First),
        (false, false, true, false) => Some(Pooling::Max),
        _ => None,
    }
}

/// Whether a model is one of e5, by its name. Those with instructions want other words, which only their configuration
/// can say.
pub(crate) fn is_e5(name: &str) -> bool {
    let name = name.to_lowercase();
    let mut words = name.split(|character: char| !character.is_alphanumeric());
    words.any(|word| word == "e5") && !name.contains("instruct")
}

/// What e5 was trained with before a text.
pub(crate) fn e5_prefix(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Query => "query: ",
        Purpose::Passage => "passage: ",
    }
}
