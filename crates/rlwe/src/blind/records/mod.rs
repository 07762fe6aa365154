//! Records fetched without saying which: the same products, with an encrypted unit vector.
//!
//! A record is sealed before it comes here, so the server may hold its bytes as they are: there is no
//! pad. Every record lies in a *slot* of a fixed number of bytes, cut into words of 16 bits, `p = 2^16`.
//! Slots are columns: word `k` of the slot in column `c` is the coefficient of `X^-(c mod N)` in
//! polynomial `t = c / N` of row `k`, `DB[k,t]`. A *segment* has up to [`MOST_TILES`] polynomials in
//! every row; a query serves all segments, and is answered for every word of every one of them.
//!
//! | | formula | where |
//! |---|---|---|
//! | query for column `c` | `b2[t] = Delta X^(c mod N) [t = c / N] + e2 - a2[t] s2`, `Delta = round(q / p)` | [`RecordKeys::encrypt`] |
//! | server | coefficient 0 of `sum_t DB[k,t] b2[t]`, switched to 24 bits | [`RecordServer`] |
//! | hint of a segment, once | `H[k] = sum_t DB[k,t] a2[t]`, switched to 28 bits | [`RecordKeys::hint`] |
//! | opening | `round((answer + coefficient 0 of s2 H[k]) / Delta)` | [`FetchOpening::open`] |
//!
//! Coefficient 0 is the mean of all evaluations: the fold of the kernel to a single place.
//!
//! Words are taken as signed, so with `sigma^2 = 10.5` the variance of an error, `C` the columns of a
//! segment and `k` the secrets of a query, the deviation of an opened word before it is rounded is
//! ([`RecordShape::word_error`])
//!
//! ```text
//! err^2 = (p^2 sqrt(C) sigma / (sqrt(12) q))^2   errors of the query, times words
//!       + (p / 2^24)^2 / 12                      answers of 24 bits
//!       + k (2 N / 3) (p / 2^28)^2 / 12          hints of 28 bits, times ternary secrets
//! ```
//!
//! which is 0.0038 at most with one secret and 0.0046 with two, where an error of 0.5 would be a wrong word:
//! 130 and 108 deviations.
//!
//! **Change of any slot.** Whoever computes on another slot than the hint was made of adds
//! `(DB' - DB) b2[t]` to an answer, and `b2` is uniform to them: the word comes out as noise, whichever
//! column was asked for. So what fails does not say what was wanted.

mod keys;
mod server;
mod shape;
#[cfg(test)]
mod tests;

pub use keys::{FetchOpening, RecordKeys};
pub use server::{PreparedFetch, RecordServer, Segment};
pub use shape::{MOST_PAGES, PAGE_SLOTS, RecordShape, RecordShapeError};

/// Polynomials of a row of a segment at most: the most whose products the kernel can add up.
const MOST_TILES: usize = 16;

/// Bits of a word, `log2 p`.
const WORD_BITS: u32 = 16;
