//! Encrypted inner products: many per polynomial product over one RLWE ring.
//!
//! The client encrypts integer vectors, the server multiplies them by integer vectors it holds
//! in the clear, and the client reads the inner products. That is all this crate does: it knows
//! nothing of documents, cells or networks.
//!
//! # Concepts
//!
//! * [`Parameters`]: ring degree `N`, how many bits go up and how many come down. Validated once,
//!   refused when `(N, log2 q)` is above the 128-bit quantum ceiling.
//! * [`RequestKey`]: a fresh ternary secret and a fresh public seed, consumed by the one
//!   encryption it may serve. What remains is a [`ResponseKey`], which can only open.
//! * [`SessionKey`], [`MergeKeys`]: a secret for a few requests, and the keys with which a server
//!   merges all responses of a request into one.
//! * [`plan`](fn@plan): which ring, tiling, packing and bits suit a request.
//! * [`Layout`]: where the coordinates of a vector sit in a polynomial so that
//!   `floor(N / width)` inner products land in known coefficients of one product.
//! * [`Evaluator`]: the server's side. Products of different query ciphertexts add up in one
//!   response when their operands take different positions.
//! * [`ScoreScale`]: the scale at which no inner product can wrap, and the error to expect.
//!
//! # A request, top to bottom
//!
//! ```
//! use shard_rlwe::{Entropy, Evaluator, Layout, OperandBound, OperandScale,
//!     Parameters, RequestKey, ScoreScale};
//!
//! let parameters = Parameters::default();
//! let layout = Layout::new(parameters.degree(), 3, 1).unwrap();
//! let operand = [3_i32, -1, 2]; // what the server holds
//! let query = [0.5, 0.25, -1.0]; // what the client asks
//!
//! let scale = ScoreScale::for_query(
//!     &parameters, &layout, &query, OperandScale::from_exponent(0),
//!     OperandBound::of(&operand), 1,
//! );
//! let key = RequestKey::fresh(&parameters, Entropy::from_os().unwrap());
//! let (key, seed, ciphertexts) = key.encrypt(&layout.encode_query(&query, scale.query()));
//!
//! let evaluator = Evaluator::new(parameters.clone(), layout.clone());
//! let queries = evaluator.prepare(&seed, &ciphertexts, 1).unwrap();
//! let responses = evaluator.respond(&queries, &[vec![&operand[..]]]).unwrap();
//!
//! let score = scale.to_score(key.open(&responses[0])[0]);
//! assert!((score - (0.5 * 3.0 - 0.25 - 2.0)).abs() < 1e-5);
//! ```
//!
//! # Map
//!
//! `parameters` (what may be built) → `ntt`, `portable`, `ring` (arithmetic) → `sample`, `secret`,
//! `ciphertext` (keys and encryption) → `layout`, `evaluate` (products) → `response` (modulus
//! switch, truncation) → `scale` (noise model) → `plan` (choosing). `galois` and `merge` fold
//! responses; `pack` is the bit packing of both directions; `buffers` reuses memory, `simd` compiles
//! loops for the machine, `prime` finds primes. `slots` (with the feature of that name) is the
//! paper's layout: RNS-CKKS with rotations, one response per candidate.
//!
//! # Non-goals
//!
//! No ciphertext-ciphertext products, no bootstrapping, no circuit privacy (a client that holds
//! the query key can solve for the operands it was scored against), no protection of the shape
//! of a request.

pub mod blind;
mod buffers;
mod ciphertext;
mod evaluate;
mod galois;
mod layout;
mod merge;
mod ntt;
mod pack;
mod parameters;
mod plan;
mod portable;
mod prime;
mod response;
mod ring;
mod sample;
mod scale;
mod secret;
mod simd;
#[cfg(feature = "slots")]
pub mod slots;
#[cfg(test)]
mod tests;

pub use ciphertext::{Ciphertext, RequestKey, ResponseKey, Seed, SessionKey, SessionSpent};
pub use evaluate::{EvaluateError, Evaluator, PreparedQueries};
pub use layout::{Layout, LayoutError, MAX_WIDTH, Query};
pub use merge::{MergeKeys, MergeSpan, PreparedMergeKeys};
#[cfg(feature = "tfhe")]
pub use ntt::TfheNtt;
pub use ntt::{BACKEND_VARIABLE, Backend, Ntt, UnknownBackend};
pub use pack::{PackError, packed_len};
pub use parameters::{MODULUS, ParameterError, Parameters, RingDegree};
pub use plan::{Estimate, Objective, Plan, Workload, candidates, plan, server_seconds};
pub use portable::PortableNtt;
pub use response::Response;
pub use ring::{Coefficients, Evaluations, Poly, Ring};
pub use sample::{ERROR_VARIANCE, Entropy, EntropyError, fill_from_os};
pub use scale::{OPERAND_BITS, OperandBound, OperandOverflow, OperandScale, ScoreScale};
