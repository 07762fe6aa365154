//! Blind collections: rows and queries encrypted, every row scored, answers checked.
//!
//! The server holds ciphertexts of rows, receives ciphertexts of queries, multiplies the two and
//! returns one number per row. There are no evaluation keys: the cross terms of a product are a hint
//! that the owner made once for every block, and a pad that whoever holds the epoch's secret makes
//! again.
//!
//! | | formula | where |
//! |---|---|---|
//! | stored block `i` | `b[i,t] = M[i,t] + e - a[t] s[i] - a'[t] s'[i]` | [`Keys::encrypt_block`] |
//! | query | `b2[t] = M2[t] + e2 - a2[t] s2` | [`Keys::encrypt_query`] |
//! | server | `R[i] = sum_t b[i,t] b2[t]` at the places `0, w, 2w, ..`, switched to 24 bits | [`Server`] |
//! | hint of block `i`, once | `H[i] = sum_t b[i,t] a2[t]`, switched to 28 bits | [`Keys::hint`] |
//! | opening | `R[i] + s2 H[i] + s[i] k + s'[i] k'`, `k = sum_t a[t] v[t]`, `v = b2 + a2 s2` | [`Opening`] |
//! | check | `sum_i y_i R[i] = sum_t D[t] b2[t]`, `D[t] = sum_i y_i b[i,t]`, `y_i = ±X^(w rho_i)` | [`CheckSums`] |
//!
//! `a`, `a'` and `a2` are uniform, the same for all blocks of an epoch, and derived from its secret:
//! they are never sent and never taken from a server. `s`, `s'` and `e` come from the block's [`Tag`],
//! a PRF of the epoch's secret over the integers of the block and everything that describes them:
//! two contents never share a pad. `s2` and `e2` come from fresh randomness and the query.
//!
//! # Map
//!
//! `modulus` (arithmetic), `words` (residues in six bytes), `kernel` (the products), `shape`, `scale`
//! (where rows lie, what error is left) → `keys`, `block`, `query`, `check` (encryption and opening) →
//! `evaluate` (the server's side), `choose` (the width of tiles), `security` (bits by cost model).
//! `records`: sealed records in columns, fetched with an encrypted unit vector.

mod block;
mod check;
mod choose;
mod evaluate;
mod kernel;
mod keys;
mod modulus;
mod query;
mod records;
mod scale;
mod security;
mod shape;
#[cfg(test)]
mod tests;
mod words;

pub use block::{BlockName, BlockSecrets, HintError, Tag};
pub use check::{CheckSums, CheckTag, Checker};
pub use choose::{Choice, Link, choose_tile};
pub use evaluate::{Answer, Forged, PreparedQuery, QueryError, Server};
pub use keys::{BLOCK_RANK, EpochKey, Keys};
pub use modulus::{DEGREE, MODULUS, MODULUS_BITS};
pub use query::{EncryptedQuery, Opening, QueryEntropy};
pub use records::{
    FetchOpening, MOST_PAGES, PAGE_SLOTS, PreparedFetch, RecordKeys, RecordServer, RecordShape,
    RecordShapeError, Segment,
};
pub use scale::{Grid, Precision, RANGE, tolerance};
pub use security::{CostModel, Security};
pub use shape::{MAX_DIMENSION, QueryRank, SCORE_BITS, Shape, ShapeError, TILES};
pub use words::{Block, Factor, Words};
