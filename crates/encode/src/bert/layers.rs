//! The weights of a model, in the order in which they are used.

use super::configuration::{Activation, Configuration};
use crate::EncodeError;
use crate::folder::Weights;

/// `x -> W x + b`.
pub(super) struct Linear {
    /// `W`, row after row: one row per output.
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

/// Mean zero and variance one, then scaled and shifted.
pub(super) struct Norm {
    pub(super) scale: Vec<f32>,
    pub(super) shift: Vec<f32>,
    pub(super) epsilon: f32,
}

/// One layer.
pub(super) struct Layer {
    /// Queries, keys and values, one below the other. Queries are divided by the root of a head's width here, not for
    /// every score.
    pub(super) projections: Linear,
    pub(super) attention: Linear,
    pub(super) attention_norm: Norm,
    pub(super) up: Linear,
    pub(super) down: Linear,
    pub(super) norm: Norm,
}

/// A transformer.
pub(super) struct Model {
    pub(super) width: usize,
    pub(super) heads: usize,
    pub(super) between: usize,
    pub(super) activation: Activation,
    /// A row per token.
    pub(super) words: Vec<f32>,
    /// A row per position from the first that is used, with the row of the first token type added.
    pub(super) positions: Vec<f32>,
    pub(super) norm: Norm,
    pub(super) layers: Vec<Layer>,
}

impl Model {
    pub(super) fn load(
        configuration: &Configuration,
        weights: &Weights<'_>,
    ) -> Result<Self, EncodeError> {
        let width = configuration.hidden_size;
        let words = weights
            .values("embeddings.word_embeddings.weight", &[configuration.vocab_size, width])?;
        let all = [configuration.max_position_embeddings, width];
        let mut positions = weights.values("embeddings.position_embeddings.weight", &all)?;
        positions.drain(..configuration.first_position() * width);
        let types = [configuration.type_vocab_size, width];
        let types = weights.values("embeddings.token_type_embeddings.weight", &types)?;
        for row in positions.chunks_exact_mut(width) {
            row.iter_mut().zip(&types).for_each(|(value, kind)| *value += kind);
        }
        let reader = Reader { weights, width, epsilon: configuration.layer_norm_eps as f32 };
        Ok(Self {
            width,
            heads: configuration.num_attention_heads,
            between: configuration.intermediate_size,
            activation: configuration.activation().expect("it was looked at"),
            words,
            positions,
            norm: reader.norm("embeddings.LayerNorm")?,
            layers: (0..configuration.num_hidden_layers)
                .map(|layer| reader.layer(layer, configuration))
                .collect::<Result<_, _>>()?,
        })
    }
}

struct Reader<'a> {
    weights: &'a Weights<'a>,
    width: usize,
    epsilon: f32,
}

impl Reader<'_> {
    fn layer(&self, number: usize, configuration: &Configuration) -> Result<Layer, EncodeError> {
        let name = |part: &str| format!("encoder.layer.{number}.{part}");
        let (width, between) = (self.width, configuration.intermediate_size);
        let mut projections = self.linear(&name("attention.self.query"), width, width)?;
        let scale = ((width / configuration.num_attention_heads) as f32).sqrt().recip();
        projections
            .weight
            .iter_mut()
            .chain(&mut projections.bias)
            .for_each(|value| *value *= scale);
        for part in ["attention.self.key", "attention.self.value"] {
            let below = self.linear(&name(part), width, width)?;
            projections.weight.extend(below.weight);
            projections.bias.extend(below.bias);
        }
        Ok(Layer {
            projections,
            attention: self.linear(&name("attention.output.dense"), width, width)?,
            attention_norm: self.norm(&name("attention.output.LayerNorm"))?,
            up: self.linear(&name("intermediate.dense"), between, width)?,
            down: self.linear(&name("output.dense"), width, between)?,
            norm: self.norm(&name("output.LayerNorm"))?,
        })
    }

    fn linear(&self, name: &str, outputs: usize, inputs: usize) -> Result<Linear, EncodeError> {
        Ok(Linear {
            weight: self.weights.values(&format!("{name}.weight"), &[outputs, inputs])?,
            bias: self.weights.values(&format!("{name}.bias"), &[outputs])?,
        })
    }

    /// Older files call the scale `gamma` and the shift `beta`.
    fn norm(&self, name: &str) -> Result<Norm, EncodeError> {
        let old = self.weights.has(&format!("{name}.gamma"));
        let (scale, shift) = if old { ("gamma", "beta") } else { ("weight", "bias") };
        Ok(Norm {
            scale: self.weights.values(&format!("{name}.{scale}"), &[self.width])?,
            shift: self.weights.values(&format!("{name}.{shift}"), &[self.width])?,
            epsilon: self.epsilon,
        })
    }
}
