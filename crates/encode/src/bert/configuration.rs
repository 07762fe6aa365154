//! `config.json` of a model of the BERT family.

use serde::Deserialize;

use crate::EncodeError;
use crate::folder::Folder;

/// What the shape of the model depends on.
#[derive(Deserialize)]
pub(crate) struct Configuration {
    #[serde(default)]
    pub(crate) model_type: String,
    #[serde(default, rename = "_name_or_path")]
    name: String,
    #[serde(default)]
    pub(super) vocab_size: usize,
    #[serde(default)]
    pub(super) hidden_size: usize,
    #[serde(default)]
    pub(super) intermediate_size: usize,
    #[serde(default)]
    pub(super) num_hidden_layers: usize,
    #[serde(default)]
    pub(super) num_attention_heads: usize,
    #[serde(default)]
    pub(super) max_position_embeddings: usize,
    #[serde(default = "one")]
    pub(super) type_vocab_size: usize,
    #[serde(default = "epsilon")]
    pub(super) layer_norm_eps: f64,
    #[serde(default)]
    hidden_act: String,
    #[serde(default)]
    position_embedding_type: Option<String>,
    #[serde(default)]
    pad_token_id: Option<usize>,
}

fn one() -> usize {
    1
}

fn epsilon() -> f64 {
    1e-12
}

/// The function between the two halves of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Activation {
    /// `x Phi(x)`, by the error function.
    Gelu,
    /// Its approximation by a hyperbolic tangent.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
}

impl Configuration {
    /// The name under which the model was saved.
    pub(super) fn name(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| !name.is_empty())
    }

    /// Refuses what the forward pass does not compute.
    pub(super) fn supported(&self, folder: &Folder) -> Result<(), EncodeError> {
        let refuse = |reason: String| {
            Err(EncodeError::Architecture {
                folder: folder.path().to_owned(),
                architecture: if self.model_type.is_empty() {
                    "unknown".into()
                } else {
                    self.model_type.clone()
                },
                reason,
            })
        };
        if !matches!(self.model_type.as_str(), "bert" | "roberta" | "xlm-roberta") {
            return refuse(
                "bert, roberta, xlm-roberta and tables of embeddings (model2vec, WordLlama) are; others \
                 run behind an endpoint"
                    .into(),
            );
        }
        if self.activation().is_none() {
            return refuse(format!("its activation is {:?}, not gelu or relu", self.hidden_act));
        }
        if let Some(kind) = self.position_embedding_type.as_ref().filter(|kind| *kind != "absolute")
        {
            return refuse(format!("its positions are {kind}, not absolute"));
        }
        let sizes = [
            (self.vocab_size, 1 << 22),
            (self.hidden_size, 1 << 14),
            (self.intermediate_size, 1 << 16),
            (self.num_hidden_layers, 1 << 8),
            (self.num_attention_heads, 1 << 10),
            (self.max_position_embeddings, 1 << 17),
            (self.type_vocab_size, 1 << 8),
        ];
        let odd = sizes.iter().any(|&(size, limit)| size == 0 || size > limit);
        if odd || !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return refuse("the sizes in its config.json are missing or cannot be".into());
        }
        if self.max_position_embeddings < self.first_position() + 8 {
            return refuse("it has fewer than eight positions".into());
        }
        Ok(())
    }

    pub(super) fn activation(&self) -> Option<Activation> {
        match self.hidden_act.as_str() {
            "gelu" | "gelu_python" => Some(Activation::Gelu),
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Some(Activation::GeluTanh),
            "relu" => Some(Activation::Relu),
            _ => None,
        }
    }

    /// The position of the first token: RoBERTa leaves those up to the padding token's number unused.
    pub(super) fn first_position(&self) -> usize {
        if self.model_type == "bert" { 0 } else { self.pad_token_id.unwrap_or(1).saturating_add(1) }
    }

    /// How many tokens have a position.
    pub(super) fn positions(&self) -> usize {
        self.max_position_embeddings - self.first_position()
    }

    /// What the vectors depend on beside the weights, for the identity of the encoder.
    pub(super) fn describe(&self) -> String {
        format!(
            "{} heads={} eps={:e} activation={:?} first={}",
            self.model_type,
            self.num_attention_heads,
            self.layer_norm_eps,
            self.activation(),
            self.first_position(),
        )
    }
}
