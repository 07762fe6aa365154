//! The slot layout: RNS-CKKS with the canonical embedding, as the paper runs it.
//!
//! Reproduces the paper's reranker, for comparison with the coefficient layout. A real
//! vector fills slots of a ciphertext, the server multiplies it by a plain vector, rescales,
//! sums by rotations, adds the prefix score and answers with one ciphertext per
//! candidate.
//!
//! # The scheme
//!
//! Over `R = Z[X] / (X^N + 1)` with primes `q_0 .. q_(L-1)` and a special prime `P`, all equal to
//! 1 modulo `2N`, a ternary secret `s`, and centred binomial errors:
//!
//! ```text
//! encode     m = round(D sigma^-1(z)),   slot j of m is m(zeta^(5^j)) / D,  zeta = exp(i pi / N)
//! encrypt    (round((b u + e0) / P) + m,  round((a u + e1) / P)),   b = -a s + e,  u ternary
//! multiply   (c0 p, c1 p),               scale D^2
//! rescale    round(c / q_(L-1)),         scale D^2 / q_(L-1)
//! rotate     sigma_g(c0 + round(<[c1]_(q_i), b_i> / P),  round(<[c1]_(q_i), a_i> / P)),  g = 5^r
//! decrypt    c0 + c1 s,                  then the slot, over its scale
//! ```
//!
//! # As in SEAL
//!
//! The chain in bits with the special prime last; encryption under all primes followed by
//! division by the special one; key switching by RNS digit with one special prime; scale `2^40`
//! on both factors and the exact quotient afterwards; error distribution; ciphertexts kept and
//! sent as evaluations; the 128-bit classical ceiling on `log2 Q`.
//!
//! # Different from SEAL
//!
//! * Digits of a key switch are lifted as centred integers: half the deviation of its noise.
//! * Galois keys exist only for the rotations used, at the level where they are used, one prime
//!   below a fresh ciphertext: 0.69 MB per key at the paper's set, 6.6 MB of context for a span of
//!   512 where the paper's library sends 34 MB. Both halves are sent in full.
//! * The automorphism is applied after the key switch, to keys made for `sigma^-1(s)`: one
//!   permutation of evaluations per row, none per digit.
//! * Rotate-and-sum keeps `c0` multiplied by `P` until the end.
//! * A residue takes whole bytes and no more; no general-purpose compressor runs.
//! * Bytes have no headers and follow roots of unity found by another rule, so they do not
//!   interoperate with SEAL's.
//!
//! # A request, top to bottom
//!
//! ```
//! use shard_rlwe::Entropy;
//! use shard_rlwe::slots::{Candidate, SlotsClient, SlotsLayout, SlotsParameters, SlotsServer};
//!
//! let layout = SlotsLayout::new(SlotsParameters::paper(), 3, 2).unwrap();
//! let (client, context) = SlotsClient::generate(layout.clone(), Entropy::from_os().unwrap()).unwrap();
//! let server = SlotsServer::from_bytes(layout, &context.to_bytes()).unwrap();
//!
//! let queries = [vec![0.5, 0.25, -1.0], vec![1.0, 0.0, 0.0]]; // one per active cell
//! let sent = client.encrypt_queries(&queries, Entropy::from_os().unwrap()).unwrap();
//! assert_eq!(sent.len(), 1);
//!
//! let candidate = Candidate { cell: 1, row: &[0.25, 0.5, 0.0], prefix_score: 2.0 };
//! let responses = server.score(&sent, &[candidate]).unwrap();
//! assert!((client.open(&responses[0], 1).unwrap() - 2.25).abs() < 2e-6);
//! ```
//!
//! # Security
//!
//! Galois keys encrypt `s` under a permutation of itself, which rests on circular security, as
//! every CKKS library does. Keys live as long as the client keeps them, so the attack of a
//! cheating server on a long-lived secret applies; the coefficient layout with its fresh secrets
//! is the default for that reason. Decrypted scores must never go back to the server. Slots
//! other than the one read hold partial sums of the same row and query, which tell the client
//! nothing that it could not ask for.
//!
//! # Map
//!
//! `parameters`, `primes` (what may be built) → `modulus`, `rns`, `galois`, `embedding`, `sample`
//! (arithmetic) → `keys`, `encrypt` (the two contexts) → `evaluate`, `rotate` (the server's
//! operations) → `rerank` (blocks and candidates). `wire` is the bytes of everything, `noise` the
//! error by formula.

mod embedding;
mod encrypt;
mod evaluate;
mod galois;
mod keys;
mod modulus;
mod noise;
mod parameters;
mod primes;
mod rerank;
mod rns;
mod rotate;
mod sample;
#[cfg(test)]
mod tests;
mod wire;

pub use evaluate::{SlotsCiphertext, SlotsError};
pub use keys::{ClientContext, ServerContext};
pub use noise::{NOISE_DEVIATIONS, SlotsNoise};
pub use parameters::{DEFAULT_SCALE_BITS, SlotsParameterError, SlotsParameters, classical_ceiling};
pub use rerank::{Candidate, SlotsClient, SlotsLayout, SlotsServer};
pub use wire::SlotsWireError;
