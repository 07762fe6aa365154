//! Scoring rows under one key with an encrypted query: the reranking of `global`.

use anyhow::Result;
use shard_geometry::VectorSet;
use shard_rlwe::{
    Entropy, Evaluator, Objective, OperandBound, OperandScale, RequestKey, ScoreScale, Workload,
    plan,
};

/// Error a score may have, for a query of norm one and relative to the longest row: what Shard's own
/// searches ask for.
const PRECISION: f64 = 2e-6;

/// Rows in fixed point, `z' = round(2^s z)`, as a server multiplies them.
#[derive(Clone, Debug)]
pub struct Operands {
    width: usize,
    scale: OperandScale,
    values: Vec<i32>,
}

impl Operands {
    /// The rows at the largest scale that the longest of them allows.
    ///
    /// # Errors
    /// When a row does not fit, which cannot happen at that scale.
    pub fn quantise(rows: &VectorSet) -> Result<Self> {
        let scale = OperandScale::for_norm(rows.max_norm());
        let mut values = Vec::with_capacity(rows.values().len());
        for row in 0..rows.rows() {
            let row: Vec<f64> = rows.row(row).iter().map(|&x| f64::from(x)).collect();
            values.extend(scale.quantise(&row)?);
        }
        Ok(Self { width: rows.width(), scale, values })
    }

    /// One row, in units of [`unit`](Self::unit).
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row(&self, row: u32) -> &[i32] {
        &self.values[row as usize * self.width..][..self.width]
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = &[i32]> {
        self.values.chunks_exact(self.width)
    }

    /// Coordinates of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The value of one step of the fixed point.
    pub fn unit(&self) -> f64 {
        2_f64.powi(-self.scale.exponent())
    }

    /// `<query, z>` of some rows, without encryption.
    pub fn scores(&self, query: &[f64], rows: &[u32]) -> Vec<f64> {
        let score = |&row: &u32| {
            let terms = query.iter().zip(self.row(row));
            terms.map(|(q, &z)| q * f64::from(z)).sum::<f64>() * self.unit()
        };
        rows.iter().map(score).collect()
    }

    /// The same through encryption under a fresh key, both sides played here: the client's plan, key
    /// and ciphertexts, the server's products, the client's opening.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn encrypted_scores(&self, query: &[f64], rows: &[u32]) -> Result<EncryptedScores> {
        let operands: Vec<&[i32]> = rows.iter().map(|&row| self.row(row)).collect();
        let bounds = operands.iter().map(|operand| OperandBound::of(operand));
        let bound = bounds.fold(OperandBound::new(0.0), OperandBound::max);
        let workload = Workload {
            width: self.width,
            groups: &[rows.len()],
            operands: self.scale,
            bound,
            precision: PRECISION * bound.norm() * self.unit(),
            keys: None,
            merging: false,
            session_requests: 1,
        };
        let plan = plan(&workload, Objective::Compute);
        let scale = ScoreScale::for_query(
            &plan.parameters,
            &plan.layout,
            query,
            self.scale,
            bound,
            rows.len(),
        );
        let encoded = plan.layout.encode_query(query, scale.query());
        let key = RequestKey::fresh(&plan.parameters, Entropy::from_os()?);
        let (key, seed, ciphertexts) = key.encrypt(&encoded);

        let server = Evaluator::new(plan.parameters.clone(), plan.layout.clone());
        let prepared = server.prepare(&seed, &ciphertexts, 1)?;
        let responses = server.respond(&prepared, &[operands])?;

        let opened = responses.iter().flat_map(|response| key.open(response));
        Ok(EncryptedScores {
            scores: opened.map(|coefficient| scale.to_score(coefficient)).collect(),
            error_bound: scale.error_bound(),
        })
    }
}

/// Scores that were computed under encryption.
#[derive(Clone, Debug)]
pub struct EncryptedScores {
    /// In the order of the rows.
    pub scores: Vec<f64>,
    /// Six deviations of their error, by the noise model.
    pub error_bound: f64,
}

impl EncryptedScores {
    /// The scores on the grid of the smallest power of two above their error, so that rows that tie
    /// in truth are not ordered by noise.
    pub fn rounded(self) -> Vec<f64> {
        if self.error_bound <= 0.0 {
            return self.scores;
        }
        let grid = 2_f64.powi(self.error_bound.log2().ceil() as i32);
        self.scores.iter().map(|score| (score / grid).round() * grid).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::statistics::generator;
    use shard_geometry::gaussian::Normals;

    #[test]
    fn encrypted_scores_are_the_plain_ones_within_the_stated_error() {
        let mut rng = generator(4, 0);
        let mut normals = Normals::new(&mut rng);
        for (rows, width) in [(1, 3), (40, 24), (130, 192)] {
            let values = (0..rows * width).map(|_| normals.draw() as f32 * 0.2).collect();
            let operands = Operands::quantise(&VectorSet::new(width, values).unwrap()).unwrap();
            let query: Vec<f64> = (0..width).map(|_| normals.draw()).collect();
            let chosen: Vec<u32> = (0..rows as u32).rev().collect();
            let plain = operands.scores(&query, &chosen);
            let encrypted = operands.encrypted_scores(&query, &chosen).unwrap();
            assert_eq!(encrypted.scores.len(), rows);
            assert!(encrypted.error_bound > 0.0 && encrypted.error_bound < 1e-3);
            let (bound, rounded) = (encrypted.error_bound, encrypted.clone().rounded());
            for ((plain, encrypted), rounded) in plain.iter().zip(encrypted.scores).zip(rounded) {
                assert!((plain - encrypted).abs() <= bound, "{plain} {encrypted}");
                assert!(
                    (rounded - encrypted).abs() <= bound,
                    "half of a grid below twice the bound"
                );
            }
        }
    }
}
