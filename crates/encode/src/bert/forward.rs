//! The forward pass over a batch of texts that lie one behind the other.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use super::kernels;
use super::layers::{Layer, Linear, Model};

/// Memory that batches use one after the other.
#[derive(Default)]
pub(super) struct Scratch {
    /// A row per token.
    hidden: Vec<f32>,
    /// Queries, keys and values of each token, side by side.
    projected: Vec<f32>,
    /// What attention gathered.
    gathered: Vec<f32>,
    /// What comes out of a linear map, to be added to `hidden`.
    change: Vec<f32>,
    /// Between the two halves of a layer.
    between: Vec<f32>,
    /// Of one head of one text: for each query its weights over the keys.
    scores: Vec<f32>,
    /// The sum of each query's weights.
    sums: Vec<f32>,
}

impl Model {
    /// The last layer's vector of each token, text after text.
    pub(super) fn forward<'s>(&self, texts: &[&[u32]], scratch: &'s mut Scratch) -> &'s [f32] {
        let tokens: usize = texts.iter().map(|text| text.len()).sum();
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        scratch.fit(self, tokens, longest);
        self.embed(texts, &mut scratch.hidden[..tokens * self.width]);
        for layer in &self.layers {
            self.layer(layer, texts, tokens, scratch);
        }
        &scratch.hidden[..tokens * self.width]
    }

    fn embed(&self, texts: &[&[u32]], hidden: &mut [f32]) {
        let width = self.width;
        let mut rows = hidden.chunks_exact_mut(width);
        for text in texts {
            for (&token, position) in text.iter().zip(self.positions.chunks_exact(width)) {
                let row = rows.next().expect("there is a row per token");
                let word = &self.words[token as usize * width..][..width];
                row.copy_from_slice(position);
                kernels::add_and_normalize(row, word, &[], &self.norm);
            }
        }
    }

    fn layer(&self, layer: &Layer, texts: &[&[u32]], tokens: usize, scratch: &mut Scratch) {
        let width = self.width;
        let hidden = &mut scratch.hidden[..tokens * width];
        let projected = &mut scratch.projected[..tokens * 3 * width];
        let gathered = &mut scratch.gathered[..tokens * width];
        let change = &mut scratch.change[..tokens * width];
        let between = &mut scratch.between[..tokens * self.between];

        apply(&layer.projections, hidden, projected);
        kernels::add_to_rows(projected, &layer.projections.bias);
        let mut begin = 0;
        for text in texts {
            let end = begin + text.len();
            self.attend(
                &projected[begin * 3 * width..end * 3 * width],
                &mut gathered[begin * width..end * width],
                &mut scratch.scores,
                &mut scratch.sums,
            );
            begin = end;
        }
        apply(&layer.attention, gathered, change);
        kernels::add_and_normalize(hidden, change, &layer.attention.bias, &layer.attention_norm);

        apply(&layer.up, hidden, between);
        kernels::activate(self.activation, between, &layer.up.bias);
        apply(&layer.down, between, change);
        kernels::add_and_normalize(hidden, change, &layer.down.bias, &layer.norm);
    }

    /// Attention within one text: for each head, `softmax(Q K^T) V`.
    fn attend(
        &self,
        projected: &[f32],
        gathered: &mut [f32],
        scores: &mut [f32],
        sums: &mut [f32],
    ) {
        let width = self.width;
        let head = width / self.heads;
        let length = gathered.len() / width;
        if length == 0 {
            return;
        }
        let scores = &mut scores[..length * length];
        let sums = &mut sums[..length];
        // A column per token.
        let projected = MatRef::from_column_major_slice(projected, 3 * width, length);
        let mut gathered = MatMut::from_column_major_slice_mut(gathered, width, length);
        for first in (0..width).step_by(head) {
            let queries = projected.subrows(first, head);
            let keys = projected.subrows(width + first, head);
            let values = projected.subrows(2 * width + first, head);
            let weights = MatMut::from_column_major_slice_mut(scores, length, length);
            matmul(weights, Accum::Replace, keys.transpose(), queries, 1.0, Par::Seq);
            kernels::exponentials(scores, sums);
            let weights = MatRef::from_column_major_slice(scores, length, length);
            let mut out = gathered.as_mut().subrows_mut(first, head);
            matmul(out.as_mut(), Accum::Replace, values, weights, 1.0, Par::Seq);
            for (column, sum) in out.col_iter_mut().zip(&*sums) {
                let values = column.try_as_col_major_mut().expect("a column lies in one piece");
                let scale = sum.recip();
                values.as_slice_mut().iter_mut().for_each(|value| *value *= scale);
            }
        }
    }
}

impl Scratch {
    /// Room for so many tokens and a text of this length. Only grows.
    fn fit(&mut self, model: &Model, tokens: usize, longest: usize) {
        let grow = |buffer: &mut Vec<f32>, length: usize| {
            if buffer.len() < length {
                buffer.resize(length, 0.0);
            }
        };
        grow(&mut self.hidden, tokens * model.width);
        grow(&mut self.projected, tokens * 3 * model.width);
        grow(&mut self.gathered, tokens * model.width);
        grow(&mut self.change, tokens * model.width);
        grow(&mut self.between, tokens * model.between);
        grow(&mut self.scores, longest * longest);
        grow(&mut self.sums, longest);
    }
}

/// `W x` for each row `x` of the input, without the bias, which is added where the output is next read.
fn apply(linear: &Linear, input: &[f32], output: &mut [f32]) {
    let outputs = linear.bias.len();
    let tokens = output.len() / outputs;
    let inputs = linear.weight.len() / outputs;
    matmul(
        MatMut::from_column_major_slice_mut(output, outputs, tokens),
        Accum::Replace,
        MatRef::from_row_major_slice(&linear.weight, outputs, inputs),
        MatRef::from_column_major_slice(input, inputs, tokens),
        1.0,
        Par::Seq,
    );
}
