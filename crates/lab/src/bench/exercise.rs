//! Bare requests of the engine: random vectors, no documents, no network.

use std::sync::Arc;

use anyhow::Result;
use rand::SeedableRng;
use rand::rngs::StdRng;
use shard_geometry::gaussian::Normals;
use shard_rlwe::{
    Ciphertext, Entropy, Evaluator, Layout, MergeSpan, OperandBound, OperandScale, Parameters,
    RequestKey, Response, ScoreScale, Seed, SessionKey,
};

use super::clock::{Spent, timed};

/// Norm of the operands: about that of residuals of unit embeddings.
pub const NORM: f64 = 0.8;

/// Vectors to score: `groups[i]` of them against query `i`.
pub struct Exercise {
    pub width: usize,
    pub groups: Vec<usize>,
    pub operands: OperandScale,
    pub bound: OperandBound,
    queries: Vec<f64>,
    rows: Vec<Vec<i32>>,
}

/// What one request took.
pub struct Taken {
    pub client_out: Spent,
    pub server: Spent,
    pub client_in: Spent,
    /// Ciphertexts up.
    pub bytes_up: usize,
    /// Responses.
    pub bytes_down: usize,
    /// Largest distance of a score from the exact one, for a query of norm one.
    pub max_abs_error: f64,
}

impl Exercise {
    /// `candidates` operands, spread evenly over `cells` queries.
    pub fn new(width: usize, candidates: usize, cells: usize) -> Result<Self> {
        let (each, more) = (candidates / cells, candidates % cells);
        let groups = (0..cells).map(|cell| each + usize::from(cell < more)).collect();
        let mut rng = StdRng::seed_from_u64((width * 31 + candidates) as u64 * 31 + cells as u64);
        let mut vector = |norm: f64| {
            let mut vector = vec![0.0; width];
            Normals::new(&mut rng).fill(&mut vector);
            let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
            vector.iter_mut().for_each(|x| *x *= norm / length);
            vector
        };
        let operands = OperandScale::for_norm(NORM);
        let queries = (0..cells).flat_map(|_| vector(1.0)).collect();
        let rows = (0..candidates)
            .map(|_| operands.quantise(&vector(NORM)))
            .collect::<Result<Vec<_>, _>>()?;
        let bounds = rows.iter().map(|row| OperandBound::of(row));
        let bound = bounds.fold(OperandBound::new(0.0), OperandBound::max);
        Ok(Self { width, groups, operands, bound, queries, rows })
    }

    /// Both sides of a request of one shape, with keys in place.
    pub fn prepare(&self, parameters: &Parameters, layout: &Layout) -> Result<Prepared<'_>> {
        let span = MergeSpan::of(layout, self.rows.len());
        let mut evaluator = Evaluator::new(parameters.clone(), layout.clone());
        let mut session = None;
        if let Some(span) = span {
            let entropy = Entropy::from_os()?;
            let (key, keys) = SessionKey::fresh(layout.degree(), span, u32::MAX, entropy);
            evaluator = evaluator.with_merge_keys(Arc::new(keys.prepare()));
            session = Some(key);
        }
        let (bound, count) = (self.bound, self.rows.len());
        let scale = ScoreScale::new(parameters, layout, 1.0, self.operands, bound, count);
        Ok(Prepared { exercise: self, evaluator, layout: layout.clone(), scale, session })
    }

    /// The first query and all rows as real numbers.
    pub fn real(&self) -> (Vec<f64>, Vec<Vec<f64>>) {
        let unit = 2_f64.powi(-self.operands.exponent());
        let real = |row: &Vec<i32>| row.iter().map(|&z| f64::from(z) * unit).collect();
        (self.queries[..self.width].to_vec(), self.rows.iter().map(real).collect())
    }

    /// Rows of every query.
    fn members(&self) -> Vec<Vec<&[i32]>> {
        let mut rows = self.rows.iter().map(Vec::as_slice);
        self.groups.iter().map(|&size| rows.by_ref().take(size).collect()).collect()
    }

    /// Exact scores, in the order of the responses.
    fn exact(&self) -> Vec<f64> {
        let unit = 2_f64.powi(-self.operands.exponent());
        let queries = self.queries.chunks_exact(self.width).zip(self.members());
        let score = |query: &[f64], row: &[i32]| -> f64 {
            query.iter().zip(row).map(|(t, &z)| t * f64::from(z)).sum::<f64>() * unit
        };
        queries
            .flat_map(|(query, rows)| rows.into_iter().map(move |row| score(query, row)))
            .collect()
    }
}

/// An exercise under one shape.
pub struct Prepared<'a> {
    exercise: &'a Exercise,
    evaluator: Evaluator,
    layout: Layout,
    scale: ScoreScale,
    session: Option<SessionKey>,
}

impl Prepared<'_> {
    /// Six deviations of the error, by the noise model.
    pub fn error_bound(&self) -> f64 {
        self.scale.error_bound()
    }

    /// One request.
    pub fn request(&mut self, parameters: &Parameters) -> Result<Taken> {
        type Opener<'o> = Box<dyn Fn(&Response) -> Vec<i64> + 'o>;
        type Asked<'o> = (Seed, Vec<Ciphertext>, Opener<'o>);
        let (layout, scale) = (&self.layout, &self.scale);
        let queries = &self.exercise.queries;
        let session = &mut self.session;
        let (asked, client_out) = timed(|| -> Result<Asked<'_>> {
            let query = layout.encode_queries(queries, scale.query());
            let entropy = Entropy::from_os()?;
            Ok(match session {
                Some(key) => {
                    let (seed, ciphertexts) = key.encrypt(parameters, &query, entropy)?;
                    (seed, ciphertexts, Box::new(|response| key.open(parameters, response)))
                }
                None => {
                    let key = RequestKey::fresh(parameters, entropy);
                    let (key, seed, ciphertexts) = key.encrypt(&query);
                    (seed, ciphertexts, Box::new(move |response| key.open(response)))
                }
            })
        });
        let (seed, ciphertexts, open) = asked?;
        let members = self.exercise.members();
        let (responses, server) = timed(|| -> Result<Vec<Response>> {
            let prepared = self.evaluator.prepare(&seed, &ciphertexts, members.len())?;
            Ok(self.evaluator.respond(&prepared, &members)?)
        });
        let responses = responses?;
        let (scores, client_in) = timed(|| -> Vec<f64> {
            responses.iter().flat_map(&open).map(|c| scale.to_score(c)).collect()
        });
        let errors = scores.iter().zip(self.exercise.exact()).map(|(s, e)| (s - e).abs());
        let down =
            |response| Response::byte_len(parameters, layout.used_slots(response, scores.len()));
        Ok(Taken {
            client_out,
            server,
            client_in,
            bytes_up: ciphertexts.iter().map(|ciphertext| ciphertext.as_bytes().len()).sum(),
            bytes_down: (0..responses.len()).map(down).sum(),
            max_abs_error: errors.fold(0.0, f64::max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shard_rlwe::RingDegree;

    #[test]
    fn requests_of_every_shape_score_what_they_should() {
        let exercise = Exercise::new(96, 40, 7).unwrap();
        assert_eq!(exercise.groups.iter().sum::<usize>(), 40);
        let parameters = Parameters::new(RingDegree::N2048, 45, 28).unwrap();
        for (tiles, blocks, merged) in [(1, 1, false), (3, 2, false), (1, 4, true)] {
            let layout = Layout::packed(RingDegree::N2048, 96, tiles, blocks, merged).unwrap();
            let mut prepared = exercise.prepare(&parameters, &layout).unwrap();
            let taken = prepared.request(&parameters).unwrap();
            assert!(taken.max_abs_error <= prepared.error_bound() * 8.0 / 6.0);
            assert!(taken.max_abs_error > 0.0);
        }
    }
}
