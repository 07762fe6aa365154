//! `shard-lab bench engine`: seconds of one core for each operation of the engine.
//!
//! Operations that cannot be called alone are measured by differences. With `p` a product, `w`
//! the writing of a full operand polynomial, `m` a merge and `r` the making of a response, all
//! with eight inner products per product:
//!
//! ```text
//! R responses of one product each      R (p + w + r)
//! R responses of eight products each   R (8 p + w + r)      the same rows, a query for each
//! g tiles                              R (g (p + w) + r)
//! L leaves merged into one response    L (p + w) + (L - 1) m + r
//! ```

use std::hint::black_box;

use anyhow::Result;
use serde_json::{Value, json};
use shard_rlwe::{
    Ciphertext, Entropy, Evaluator, Layout, MergeSpan, Objective, Parameters, PreparedQueries,
    RequestKey, ResponseKey, Ring, RingDegree, Seed, SessionKey, Workload, plan,
};

use super::arguments::EngineOperations;
use super::clock::{least, on_threads};
use super::exercise::Exercise;
use shard_cli::output::{Output, table};

/// Inner products per product.
const SLOTS: usize = 8;
/// Ciphertexts or leaves of one run: as many as a request has, so that caches serve them alike.
const MANY: usize = 32;
/// The fewer that slopes start from.
const FEW: usize = 8;
/// Responses of one run.
const RESPONSES: usize = MANY / SLOTS;

pub fn run(arguments: &EngineOperations, output: &Output<'_>) -> Result<()> {
    let (degrees, planning) = on_threads(1, || {
        let measure = |degree: &RingDegree| measure(*degree, arguments.repeats);
        let degrees = arguments.degrees.iter().map(measure).collect::<Result<Vec<_>>>()?;
        Ok((degrees, planning(arguments.repeats)?))
    })?;
    let mut header = vec!["microseconds of one core".to_owned()];
    header.extend(arguments.degrees.iter().map(|degree| format!("N = {degree}")));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let row = |at: usize| {
        let mut row = vec![degrees[0][at].0.replace('_', " ")];
        row.extend(degrees.iter().map(|figures| format!("{:.2}", figures[at].1 * 1e6)));
        row
    };
    let rows: Vec<_> = (0..degrees[0].len()).map(row).collect();
    output.line(table(&header, &rows))?;
    output.line(format!("  planning a request of 128 candidates: {:.1} us", planning * 1e6))?;
    let entries = arguments.degrees.iter().zip(&degrees).map(|(degree, figures)| {
        let seconds: serde_json::Map<String, Value> =
            figures.iter().map(|(name, seconds)| ((*name).to_owned(), json!(seconds))).collect();
        json!({ "ring_degree": degree.coefficients(), "seconds": seconds })
    });
    let entries: Vec<Value> = entries.collect();
    output.result(&json!({ "degrees": entries, "planning_seconds": planning }))
}

type Figures = Vec<(&'static str, f64)>;

fn measure(degree: RingDegree, repeats: usize) -> Result<Figures> {
    let parameters = Parameters::new(degree, 45, 26)?;
    let width = degree.coefficients() / SLOTS;
    let bench = Bench { parameters, width, repeats };
    let single = Layout::new(degree, width, 1)?;
    let halves = Layout::new(degree, width * 2, 2)?; // two tiles, as many slots
    let merged = Layout::packed(degree, width, 1, 1, true)?;

    let (key, encrypt) = bench.encryption(&single)?;
    let request = bench.request(&single, MANY)?;
    let prepare = least(repeats, || request.prepared()) / MANY as f64;

    let alone = bench.respond(&single, 1, MANY)? / RESPONSES as f64; // p + w + r
    let spread = bench.respond(&single, MANY, MANY)? / RESPONSES as f64; // 8 p + w + r
    let tiled = bench.respond(&halves, 1, MANY)? / RESPONSES as f64; // 2 (p + w) + r
    let product = (spread - alone) / (SLOTS - 1) as f64;
    let full_product = tiled - alone;
    let respond = alone - full_product;
    let more = bench.respond(&merged, 1, SLOTS * MANY)?;
    let fewer = bench.respond(&merged, 1, SLOTS * FEW)?;
    let merge = (more - fewer) / (MANY - FEW) as f64 - full_product;
    let (open, score) = bench.opening(&single)?;
    let [forward, inverse, multiply] = transforms(degree, repeats);
    Ok(vec![
        ("forward_transform", forward),
        ("inverse_transform", inverse),
        ("multiply", multiply),
        ("key", key),
        ("encrypt", encrypt),
        ("prepare", prepare),
        ("product", product),
        ("full_product", full_product),
        ("respond", respond),
        ("merge", merge),
        ("open", open),
        ("score", score),
    ])
}

/// Seconds of the three operations that no way of computing can do without: a transform, its
/// inverse, and a multiply-accumulate of evaluations.
fn transforms(degree: RingDegree, repeats: usize) -> [f64; 3] {
    let ring = Ring::shared(degree);
    let ntt = ring.transform();
    let mut values: Vec<u64> = (0..degree.coefficients() as u64).map(|i| i * i).collect();
    let mut sum = values.clone();
    let right = values.clone();
    let each = |work: &mut dyn FnMut()| {
        let many = || (0..MANY).for_each(|_| work());
        least(repeats, many) / MANY as f64
    };
    [
        each(&mut || ntt.forward(black_box(&mut values))),
        each(&mut || ntt.inverse(black_box(&mut values))),
        each(&mut || ntt.multiply_accumulate(black_box(&mut sum), &right, &right)),
    ]
}

struct Bench {
    parameters: Parameters,
    width: usize,
    repeats: usize,
}

/// A request as the server gets it.
struct Request {
    evaluator: Evaluator,
    seed: Seed,
    ciphertexts: Vec<Ciphertext>,
    queries: usize,
    key: ResponseKey,
}

impl Request {
    fn prepared(&self) -> PreparedQueries {
        let prepared = self.evaluator.prepare(&self.seed, &self.ciphertexts, self.queries);
        prepared.expect("the request was made for this evaluator")
    }
}

impl Bench {
    fn request(&self, layout: &Layout, queries: usize) -> Result<Request> {
        let vectors = vec![1.0; layout.width() * queries];
        let key = RequestKey::fresh(&self.parameters, Entropy::from_os()?);
        let (key, seed, ciphertexts) = key.encrypt(&layout.encode_queries(&vectors, 1e6));
        let evaluator = Evaluator::new(self.parameters.clone(), layout.clone());
        Ok(Request { evaluator, seed, ciphertexts, queries, key })
    }

    /// Seconds of a fresh key, and of encrypting one ciphertext.
    fn encryption(&self, layout: &Layout) -> Result<(f64, f64)> {
        drop(Entropy::from_os()?); // there is randomness; below that is taken for granted
        let fresh = || {
            let entropy = Entropy::from_os().expect("randomness was to be had a moment ago");
            RequestKey::fresh(&self.parameters, entropy)
        };
        let key = least(self.repeats, fresh);
        let encrypt = |count: usize| {
            let query = layout.encode_queries(&vec![1.0; self.width * count], 1e6);
            least(self.repeats, || fresh().encrypt(&query))
        };
        Ok((key, (encrypt(MANY) - encrypt(FEW)) / (MANY - FEW) as f64))
    }

    /// Seconds to score `operands` rows against `queries` queries that are prepared.
    fn respond(&self, layout: &Layout, queries: usize, operands: usize) -> Result<f64> {
        let mut request = self.request(layout, queries)?;
        if let Some(span) = MergeSpan::of(layout, operands) {
            let (_, keys) = SessionKey::fresh(layout.degree(), span, 1, Entropy::from_os()?);
            request.evaluator = request.evaluator.with_merge_keys(keys.prepare().into());
        }
        let row = vec![12_345_i32; layout.width()];
        let groups: Vec<Vec<&[i32]>> = vec![vec![&row[..]; operands / queries]; queries];
        let prepared = request.prepared();
        request.evaluator.respond(&prepared, &groups)?;
        Ok(least(self.repeats, || request.evaluator.respond(&prepared, &groups)))
    }

    /// Seconds of unpacking a response, and of reading one score from it.
    fn opening(&self, layout: &Layout) -> Result<(f64, f64)> {
        let request = self.request(layout, 1)?;
        let row = vec![12_345_i32; layout.width()];
        let prepared = request.prepared();
        let seconds = |used: usize| -> Result<f64> {
            let responses = request.evaluator.respond(&prepared, &[vec![&row[..]; used]])?;
            let open = || {
                for _ in 0..MANY {
                    black_box(request.key.open(&responses[0]));
                }
            };
            Ok(least(self.repeats, open) / MANY as f64)
        };
        let (one, all) = (seconds(1)?, seconds(SLOTS)?);
        let score = (all - one) / (SLOTS - 1) as f64;
        Ok((one - score, score))
    }
}

/// Seconds to plan a request of 128 candidates in 32 cells.
fn planning(repeats: usize) -> Result<f64> {
    let exercise = Exercise::new(288, 128, 32)?;
    let workload = Workload {
        width: exercise.width,
        groups: &exercise.groups,
        operands: exercise.operands,
        bound: exercise.bound,
        precision: 2e-6,
        keys: None,
        merging: true,
        session_requests: 64,
    };
    Ok(least(repeats, || plan(&workload, Objective::Balanced)))
}
