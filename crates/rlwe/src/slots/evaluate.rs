//! What the server computes: products with plain vectors, rescaling, sums.

use super::keys::ServerContext;
use super::rns::RnsPoly;
use super::rotate::Scratch;
use super::wire::SlotsWireError;

/// Why an operation was refused.
#[derive(Debug, thiserror::Error, PartialEq, Clone)]
#[non_exhaustive]
pub enum SlotsError {
    /// More values than slots.
    #[error("a vector that ends at slot {actual} does not fit {slots} slots")]
    Slots {
        /// Slots there are.
        slots: usize,
        /// Slots needed.
        actual: usize,
    },
    /// A vector too long for its scale, or not a number.
    #[error("a vector of norm {norm:.3e} where at most {limit:.3e} can be encoded")]
    Norm {
        /// Norm of the vector.
        norm: f64,
        /// Largest norm taken.
        limit: f64,
    },
    /// A plain score too large for the response, or not a number.
    #[error("a plain score of magnitude {score:.3e} where at most {limit:.3e} can be added")]
    Score {
        /// The score.
        score: f64,
        /// Largest magnitude taken.
        limit: f64,
    },
    /// A span that is not a power of two or not within the slots or the keys at hand.
    #[error("a span of {span} slots is not a power of two up to {slots}")]
    Span {
        /// Span asked for.
        span: usize,
        /// Largest span.
        slots: usize,
    },
    /// No key for this rotation.
    #[error("no Galois key for a rotation by {0}")]
    Rotation(usize),
    /// A ciphertext of another level than the operation works at.
    #[error("a ciphertext over {actual} primes where {expected} were expected")]
    Level {
        /// Primes the operation works with.
        expected: usize,
        /// Primes of the ciphertext.
        actual: usize,
    },
    /// A ciphertext of another ring than the context's.
    #[error("a ciphertext of degree {actual} where {expected} was expected")]
    Degree {
        /// Degree of the context.
        expected: usize,
        /// Degree of the ciphertext.
        actual: usize,
    },
    /// A context made for another parameter set than the layout's.
    #[error("the server context belongs to another parameter set than the layout")]
    ParameterSet,
    /// A vector of another width than the layout.
    #[error("a vector of width {actual} where {expected} was expected")]
    Width {
        /// The layout's width.
        expected: usize,
        /// The vector's width.
        actual: usize,
    },
    /// A candidate names a cell that no query ciphertext covers.
    #[error("cell {cell} where the query ciphertexts cover {cells}")]
    Cell {
        /// Cell named.
        cell: usize,
        /// Cells covered.
        cells: usize,
    },
    /// Bytes were refused.
    #[error(transparent)]
    Wire(#[from] SlotsWireError),
}

/// A ciphertext `(c0, c1)` with `c0 + c1 s = D m + noise`, over the first `level` primes.
#[derive(Clone)]
pub struct SlotsCiphertext {
    pub(super) c0: RnsPoly,
    pub(super) c1: RnsPoly,
    pub(super) scale: f64,
}

impl SlotsCiphertext {
    /// Room for a result.
    pub(super) fn empty(n: usize) -> Self {
        Self { c0: RnsPoly::zero(n, 0), c1: RnsPoly::zero(n, 0), scale: 0.0 }
    }

    /// Primes it lives over.
    pub fn level(&self) -> usize {
        self.c0.level()
    }

    /// The scale `D` of its message.
    pub fn scale(&self) -> f64 {
        self.scale
    }
}

impl std::fmt::Debug for SlotsCiphertext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SlotsCiphertext({} primes, scale {:.3e})", self.level(), self.scale)
    }
}

impl ServerContext {
    /// The product, slot by slot, with a plain vector laid from slot `first` on, zero
    /// elsewhere. Scales multiply.
    pub fn multiply_plain(
        &self,
        ciphertext: &SlotsCiphertext,
        values: &[f64],
        first: usize,
    ) -> Result<SlotsCiphertext, SlotsError> {
        let mut product = SlotsCiphertext::empty(self.tables.rns.n());
        let mut scratch = Scratch::new(&self.tables);
        self.multiply_plain_into(ciphertext, values, first, &mut product, &mut scratch)?;
        Ok(product)
    }

    /// [`multiply_plain`](Self::multiply_plain) into memory that is reused.
    pub(super) fn multiply_plain_into(
        &self,
        ciphertext: &SlotsCiphertext,
        values: &[f64],
        first: usize,
        product: &mut SlotsCiphertext,
        scratch: &mut Scratch,
    ) -> Result<(), SlotsError> {
        self.tables.check_ciphertext(ciphertext)?;
        let rns = &self.tables.rns;
        let level = ciphertext.level();
        let rings = || rns.rings()[..level].iter();
        self.tables.encode(values, first, &mut scratch.encoding)?;
        rns.embed_into(&scratch.encoding.coefficients, rings(), &mut scratch.operand);
        product.c0.reset(level);
        product.c1.reset(level);
        product.c0.multiply_accumulate(&ciphertext.c0, &scratch.operand, rings());
        product.c1.multiply_accumulate(&ciphertext.c1, &scratch.operand, rings());
        product.scale = ciphertext.scale * self.parameters().scale();
        Ok(())
    }

    /// Divides message, scale and noise by the last prime and drops it.
    pub fn rescale(&self, mut ciphertext: SlotsCiphertext) -> Result<SlotsCiphertext, SlotsError> {
        self.rescale_in_place(&mut ciphertext, &mut Scratch::new(&self.tables))?;
        Ok(ciphertext)
    }

    pub(super) fn rescale_in_place(
        &self,
        ciphertext: &mut SlotsCiphertext,
        scratch: &mut Scratch,
    ) -> Result<(), SlotsError> {
        self.tables.check_ciphertext(ciphertext)?;
        let rns = &self.tables.rns;
        let Some(last) = ciphertext.level().checked_sub(1).filter(|&last| last > 0) else {
            return Err(SlotsError::Level { expected: 2, actual: ciphertext.level() });
        };
        for poly in [&mut ciphertext.c0, &mut ciphertext.c1] {
            let (rows, remainder) = poly.split_last();
            rns.divide_and_round(rows, remainder, last, &mut scratch.lifted);
            poly.drop_last();
        }
        ciphertext.scale /= rns.ring(last).modulus().value() as f64;
        Ok(())
    }

    /// Adds a plain number to every slot, at the ciphertext's own scale.
    pub fn add_scalar(
        &self,
        ciphertext: &mut SlotsCiphertext,
        score: f64,
    ) -> Result<(), SlotsError> {
        self.tables.check_ciphertext(ciphertext)?;
        let limit = self.parameters().max_score() / 2.0;
        if score.is_nan() || score.abs() > limit {
            return Err(SlotsError::Score { score, limit });
        }
        // A constant polynomial has the same value at every root.
        let constant = (score * ciphertext.scale).round() as i128;
        for (row, ring) in ciphertext.c0.rows_mut().zip(self.tables.rns.rings()) {
            let q = ring.modulus();
            let residue = constant.rem_euclid(i128::from(q.value())) as u64;
            row.iter_mut().for_each(|value| *value = q.add(*value, residue));
        }
        Ok(())
    }
}
