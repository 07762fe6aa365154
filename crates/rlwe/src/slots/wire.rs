//! Bytes of keys and ciphertexts.
//!
//! A residue modulo `q` takes `ceil(log2 q / 8)` bytes, little-endian; rows, polynomials and
//! keys follow each other without headers, because both sides know the parameter set and the
//! span. There is one valid length for every object, and one encoding of every value.
//!
//! Values are evaluations, as in SEAL: no transform is spent on either side, and both must use
//! the transform's roots and order, which are functions of the prime alone.

use super::evaluate::SlotsCiphertext;
use super::parameters::SlotsParameters;
use super::rns::RnsPoly;

/// Why bytes were refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone, Copy)]
pub enum SlotsWireError {
    /// Too short or too long.
    #[error("{actual} bytes where {expected} were expected")]
    Length {
        /// Bytes the object takes.
        expected: usize,
        /// Bytes given.
        actual: usize,
    },
    /// A residue is not reduced.
    #[error("a residue of {value} where it must be below {prime}")]
    Residue {
        /// The prime of the row.
        prime: u64,
        /// The value read.
        value: u64,
    },
}

/// Bytes of one residue.
fn residue_bytes(prime: u64) -> usize {
    (64 - prime.leading_zeros()).div_ceil(8) as usize
}

/// Sizes of everything that is sent, in bytes.
impl SlotsParameters {
    /// One polynomial over the given primes.
    fn polynomial_bytes(&self, primes: impl Iterator<Item = u64>) -> usize {
        self.degree().coefficients() * primes.map(residue_bytes).sum::<usize>()
    }

    /// The primes that keys of the response's level live over: `q_0 .. q_(L-2)` and `P`.
    pub(super) fn extended_primes(&self) -> impl Iterator<Item = u64> + Clone {
        let data = self.primes()[..self.response_primes()].iter().copied();
        data.chain(std::iter::once(self.special_prime()))
    }

    /// A query ciphertext.
    pub fn query_bytes(&self) -> usize {
        2 * self.polynomial_bytes(self.primes()[..self.data_primes()].iter().copied())
    }

    /// A response ciphertext.
    pub fn response_bytes(&self) -> usize {
        2 * self.polynomial_bytes(self.primes()[..self.response_primes()].iter().copied())
    }

    /// The public key.
    pub fn public_key_bytes(&self) -> usize {
        2 * self.polynomial_bytes(self.primes().iter().copied())
    }

    /// One Galois key, both halves in full.
    pub fn galois_key_bytes(&self) -> usize {
        2 * self.response_primes() * self.polynomial_bytes(self.extended_primes())
    }

    /// The server's context for rotate-and-sum over `span` slots.
    pub fn server_context_bytes(&self, span: usize) -> usize {
        self.public_key_bytes() + span.max(1).ilog2() as usize * self.galois_key_bytes()
    }
}

impl SlotsCiphertext {
    /// The wire form: `c0`, then `c1`.
    pub fn to_bytes(&self, parameters: &SlotsParameters) -> Vec<u8> {
        let primes = parameters.primes()[..self.level()].iter().copied();
        let mut bytes = Vec::with_capacity(2 * parameters.polynomial_bytes(primes.clone()));
        write_polynomial(&self.c0, primes.clone(), &mut bytes);
        write_polynomial(&self.c1, primes, &mut bytes);
        bytes
    }

    /// Reads a query ciphertext, as the server does.
    pub fn query_from_bytes(
        parameters: &SlotsParameters,
        bytes: &[u8],
    ) -> Result<Self, SlotsWireError> {
        Self::read(parameters, parameters.data_primes(), parameters.scale(), bytes)
    }

    /// Reads a response, as the client does.
    pub fn response_from_bytes(
        parameters: &SlotsParameters,
        bytes: &[u8],
    ) -> Result<Self, SlotsWireError> {
        let level = parameters.response_primes();
        Self::read(parameters, level, parameters.response_scale(), bytes)
    }

    fn read(
        parameters: &SlotsParameters,
        level: usize,
        scale: f64,
        bytes: &[u8],
    ) -> Result<Self, SlotsWireError> {
        let primes = parameters.primes()[..level].iter().copied();
        check_length(bytes, 2 * parameters.polynomial_bytes(primes.clone()))?;
        let mut reader = Reader::new(parameters.degree().coefficients(), bytes);
        let c0 = reader.polynomial(primes.clone())?;
        let c1 = reader.polynomial(primes)?;
        Ok(Self { c0, c1, scale })
    }
}

/// Refuses any length but the expected one.
pub(super) fn check_length(bytes: &[u8], expected: usize) -> Result<(), SlotsWireError> {
    match bytes.len() {
        actual if actual == expected => Ok(()),
        actual => Err(SlotsWireError::Length { expected, actual }),
    }
}

/// Appends the rows of a polynomial.
pub(super) fn write_polynomial(
    poly: &RnsPoly,
    primes: impl Iterator<Item = u64>,
    out: &mut Vec<u8>,
) {
    for (row, prime) in poly.rows().zip(primes) {
        match residue_bytes(prime) {
            3 => write_row::<3>(row, out),
            4 => write_row::<4>(row, out),
            5 => write_row::<5>(row, out),
            6 => write_row::<6>(row, out),
            7 => write_row::<7>(row, out),
            _ => write_row::<8>(row, out),
        }
    }
}

fn write_row<const WIDTH: usize>(row: &[u64], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + row.len() * WIDTH, 0);
    for (chunk, value) in out[start..].chunks_exact_mut(WIDTH).zip(row) {
        chunk.copy_from_slice(&value.to_le_bytes()[..WIDTH]);
    }
}

/// Reads polynomials one after the other from bytes whose length has been checked.
pub(super) struct Reader<'a> {
    n: usize,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(n: usize, bytes: &'a [u8]) -> Self {
        Self { n, rest: bytes }
    }

    /// The next polynomial, every residue below its prime.
    pub(super) fn polynomial(
        &mut self,
        primes: impl Iterator<Item = u64>,
    ) -> Result<RnsPoly, SlotsWireError> {
        let mut values = Vec::with_capacity(primes.size_hint().0 * self.n);
        for prime in primes {
            let expected = self.n * residue_bytes(prime);
            let Some((row, rest)) = self.rest.split_at_checked(expected) else {
                return Err(SlotsWireError::Length { expected, actual: self.rest.len() });
            };
            self.rest = rest;
            match residue_bytes(prime) {
                3 => read_row::<3>(row, prime, &mut values),
                4 => read_row::<4>(row, prime, &mut values),
                5 => read_row::<5>(row, prime, &mut values),
                6 => read_row::<6>(row, prime, &mut values),
                7 => read_row::<7>(row, prime, &mut values),
                _ => read_row::<8>(row, prime, &mut values),
            }?;
        }
        Ok(RnsPoly::from_values(self.n, values))
    }
}

fn read_row<const WIDTH: usize>(
    bytes: &[u8],
    prime: u64,
    out: &mut Vec<u64>,
) -> Result<(), SlotsWireError> {
    let start = out.len();
    out.extend(bytes.chunks_exact(WIDTH).map(|chunk| {
        let mut word = [0_u8; 8];
        word[..WIDTH].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    }));
    match out[start..].iter().find(|&&value| value >= prime) {
        Some(&value) => Err(SlotsWireError::Residue { prime, value }),
        None => Ok(()),
    }
}
