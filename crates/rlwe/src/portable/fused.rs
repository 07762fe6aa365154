//! Arithmetic on doubles with fused multiply-add, eight values at a time.
//!
//! Residues are integers in `f64`, signed and lazily reduced: any of magnitude below
//! `8q < 2^53` is exact. A product `a w` with `|a| <= B q` and `|w| <= q / 2` splits exactly into
//! `high + low` by one fused operation, and
//!
//! ```text
//! r = high - round(high / q) q + low
//! ```
//!
//! is congruent to it. Three roundings, each relative `2^-53`, move the quotient by at most
//! `3 B / 16`, so `|r| <= (1/2 + 3 B / 16) q`; the difference and the sum are integers below
//! `2^53` and therefore exact. With that bound:
//!
//! * forward, a stage takes `B` to `19 B / 16 + 1/2`, or to `1 + 3 B / 16` if it reduces the
//!   addend first. Reducing in every fourth stage keeps `B` below 6.
//! * back, a stage takes `B` to `2 B`; a second one that reduces the sum takes that to
//!   `1/2 + 3 B / 4`, which from `B = 1` stays below 2. Reducing in every second stage
//!   therefore keeps every sum below `8q`.
//!
//! Between the stages the doubles are kept as bits in the caller's buffer, so there is no second
//! copy of a secret to wipe.

use super::Roots;

/// A prime below `2^50`.
#[derive(Clone, Copy)]
pub(super) struct Prime {
    q: f64,
    reciprocal: f64,
}

impl Prime {
    fn new(prime: u64) -> Self {
        Self { q: prime as f64, reciprocal: 1.0 / prime as f64 }
    }
}

/// Values in one step of a loop: a register of AVX-512, two of AVX2, four of NEON.
const LANES: usize = 8;
/// The last stages take squares of values.
pub(super) const LEAST_POINTS: usize = LANES * LANES;
type Lanes = [u64; LANES];
/// Eight rows of eight values, which the last stages transpose.
type Square = [Lanes; LANES];

/// `2^52`: adding it puts an integer below `2^52` into the low bits of a double.
const UNIT: f64 = (1_u64 << 52) as f64;

/// An integer below `2^52` as a double, in bits.
#[inline(always)]
fn load(value: u64) -> u64 {
    (f64::from_bits(value | UNIT.to_bits()) - UNIT).to_bits()
}

/// The residue in `[0, q)` of a double below `8q` in magnitude.
#[inline(always)]
fn store(value: f64, prime: Prime) -> u64 {
    let centred = reduce(value, prime);
    let residue = if centred < 0.0 { centred + prime.q } else { centred };
    (residue + UNIT).to_bits() ^ UNIT.to_bits()
}

/// `a - round(a / q) q`, at most `q / 2` in magnitude.
#[inline(always)]
fn reduce(a: f64, prime: Prime) -> f64 {
    (a * prime.reciprocal).round_ties_even().mul_add(-prime.q, a)
}

/// A number congruent to `a w`, as above.
#[inline(always)]
fn multiply(a: f64, w: f64, prime: Prime) -> f64 {
    let high = a * w;
    let low = a.mul_add(w, -high);
    let quotient = (high * prime.reciprocal).round_ties_even();
    quotient.mul_add(-prime.q, high) + low
}

/// `(x, y) -> (x + w y, x - w y)`, with `x` reduced first or not.
#[inline(always)]
fn forward_butterfly<const REDUCE: bool>(x: u64, y: u64, w: f64, prime: Prime) -> (u64, u64) {
    let a = f64::from_bits(x);
    let a = if REDUCE { reduce(a, prime) } else { a };
    let b = multiply(f64::from_bits(y), w, prime);
    ((a + b).to_bits(), (a - b).to_bits())
}

/// `(x, y) -> (x + y, w (x - y))`, with the sum reduced or not.
#[inline(always)]
fn inverse_butterfly<const REDUCE: bool>(x: u64, y: u64, w: f64, prime: Prime) -> (u64, u64) {
    let (a, b) = (f64::from_bits(x), f64::from_bits(y));
    let sum = if REDUCE { reduce(a + b, prime) } else { a + b };
    (sum.to_bits(), multiply(a - b, w, prime).to_bits())
}

/// The roots of a degree, centred, in the order of [`Roots`].
pub(super) struct Tables {
    prime: Prime,
    forward: Vec<f64>,
    forward_ends: Vec<End>,
    inverse: Vec<f64>,
    inverse_ends: Vec<End>,
    normalisation: f64,
    last_inverse: f64,
}

impl Tables {
    pub(super) fn new(roots: &Roots) -> Self {
        let centred = |residue| centred(residue, roots.modulus);
        let table = |roots: &[u64]| roots.iter().copied().map(centred).collect::<Vec<_>>();
        let (forward, inverse) = (table(&roots.forward), table(&roots.inverse));
        Self {
            prime: Prime::new(roots.modulus),
            forward_ends: End::all(&forward),
            inverse_ends: End::all(&inverse),
            forward,
            inverse,
            normalisation: centred(roots.normalisation),
            last_inverse: centred(roots.last_inverse()),
        }
    }
}

/// The representative of a residue between `-q / 2` and `q / 2`.
fn centred(residue: u64, prime: u64) -> f64 {
    let (residue, prime) = (residue as i64, prime as i64);
    let representative = if residue > prime / 2 { residue - prime } else { residue };
    representative as f64
}

/// The roots of the three stages with blocks of 8, 4 and 2 values, for eight neighbouring blocks
/// of eight: lane `l` of each array belongs to block `l`.
struct End {
    eights: [f64; LANES],
    fours: [[f64; LANES]; 2],
    twos: [[f64; LANES]; 4],
}

impl End {
    fn all(table: &[f64]) -> Vec<Self> {
        let blocks = table.len() / LANES;
        let roots = |per_block: usize, first: usize, offset: usize| {
            std::array::from_fn(|l| table[per_block * (blocks + first + l) + offset])
        };
        (0..blocks)
            .step_by(LANES)
            .map(|first| Self {
                eights: roots(1, first, 0),
                fours: std::array::from_fn(|offset| roots(2, first, offset)),
                twos: std::array::from_fn(|offset| roots(4, first, offset)),
            })
            .collect()
    }
}

/// One butterfly per lane. The operands come and go by value: the compiler need not prove that
/// the two halves of a block do not overlap.
#[inline(always)]
fn lanes(
    x: Lanes,
    y: Lanes,
    w: &[f64; LANES],
    prime: Prime,
    butterfly: &impl Fn(u64, u64, f64, Prime) -> (u64, u64),
) -> (Lanes, Lanes) {
    let (mut top, mut bottom) = ([0; LANES], [0; LANES]);
    for l in 0..LANES {
        (top[l], bottom[l]) = butterfly(x[l], y[l], w[l], prime);
    }
    (top, bottom)
}

/// A stage whose blocks have `size >= 16` values and one root each.
#[inline(always)]
fn stage(
    values: &mut [u64],
    table: &[f64],
    size: usize,
    prime: Prime,
    butterfly: impl Fn(u64, u64, f64, Prime) -> (u64, u64),
) {
    let roots = &table[values.len() / size..];
    for (block, &w) in values.chunks_exact_mut(size).zip(roots) {
        let (low, high) = block.split_at_mut(size / 2);
        let (low, high) = (low.as_chunks_mut().0, high.as_chunks_mut().0);
        for (x, y) in low.iter_mut().zip(high) {
            (*x, *y) = lanes(*x, *y, &[w; LANES], prime, &butterfly);
        }
    }
}

/// Four butterflies between rows `x` and `x + distance` of a square.
#[inline(always)]
fn rows(
    square: &mut Square,
    pairs: [(usize, &[f64; LANES]); 4],
    distance: usize,
    prime: Prime,
    butterfly: impl Fn(u64, u64, f64, Prime) -> (u64, u64),
) {
    for (x, w) in pairs {
        let y = x + distance;
        (square[x], square[y]) = lanes(square[x], square[y], w, prime, &butterfly);
    }
}

#[inline(always)]
fn transpose(square: &Square) -> Square {
    let mut transposed = [[0; LANES]; LANES];
    for (row, values) in square.iter().enumerate() {
        for (column, &value) in values.iter().enumerate() {
            transposed[column][row] = value;
        }
    }
    transposed
}

/// The pairs of rows of the stages with blocks of 8, 4 and 2 values, with their roots.
#[inline(always)]
fn pairs(end: &End) -> [[(usize, &[f64; LANES]); 4]; 3] {
    let End { eights, fours: [a, b], twos: [c, d, e, f] } = end;
    [
        [(0, eights), (1, eights), (2, eights), (3, eights)],
        [(0, a), (1, a), (4, b), (5, b)],
        [(0, c), (2, d), (4, e), (6, f)],
    ]
}

/// Coefficients to evaluations.
#[inline(always)]
pub(super) fn forward(values: &mut [u64], tables: &Tables) {
    let prime = tables.prime;
    values.iter_mut().for_each(|v| *v = load(*v));
    let mut size = values.len();
    let mut stages = 0;
    while size > LANES {
        if stages % 4 == 3 {
            stage(values, &tables.forward, size, prime, forward_butterfly::<true>);
        } else {
            stage(values, &tables.forward, size, prime, forward_butterfly::<false>);
        }
        size /= 2;
        stages += 1;
    }
    let squares = values.as_chunks_mut().0.as_chunks_mut().0;
    for (square, end) in squares.iter_mut().zip(&tables.forward_ends) {
        let mut transposed = transpose(square);
        let [eights, fours, twos] = pairs(end);
        rows(&mut transposed, eights, 4, prime, forward_butterfly::<true>);
        rows(&mut transposed, fours, 2, prime, forward_butterfly::<false>);
        rows(
            &mut transposed,
            twos,
            1,
            prime,
            #[inline(always)]
            |x, y, w, prime| {
                let (x, y) = forward_butterfly::<false>(x, y, w, prime);
                (store(f64::from_bits(x), prime), store(f64::from_bits(y), prime))
            },
        );
        *square = transpose(&transposed);
    }
}

/// Evaluations to coefficients.
#[inline(always)]
pub(super) fn inverse(values: &mut [u64], tables: &Tables) {
    let prime = tables.prime;
    let squares = values.as_chunks_mut().0.as_chunks_mut().0;
    for (square, end) in squares.iter_mut().zip(&tables.inverse_ends) {
        let mut transposed = transpose(square);
        let [eights, fours, twos] = pairs(end);
        rows(
            &mut transposed,
            twos,
            1,
            prime,
            #[inline(always)]
            |x, y, w, prime| inverse_butterfly::<false>(load(x), load(y), w, prime),
        );
        rows(&mut transposed, fours, 2, prime, inverse_butterfly::<true>);
        rows(&mut transposed, eights, 4, prime, inverse_butterfly::<false>);
        *square = transpose(&transposed);
    }
    let mut size = 2 * LANES;
    let mut stages = 3;
    while size < values.len() {
        if stages % 2 == 1 {
            stage(values, &tables.inverse, size, prime, inverse_butterfly::<true>);
        } else {
            stage(values, &tables.inverse, size, prime, inverse_butterfly::<false>);
        }
        size *= 2;
        stages += 1;
    }
    let (low, high) = values.split_at_mut(size / 2);
    for (x, y) in low.iter_mut().zip(high) {
        let (a, b) = (f64::from_bits(*x), f64::from_bits(*y));
        *x = store(multiply(a + b, tables.normalisation, prime), prime);
        *y = store(multiply(a - b, tables.last_inverse, prime), prime);
    }
}

/// `accumulator += left * right`. Both factors are in `[0, q)`, so `|r| < 7 q / 8` by the bound
/// above, and the sum is below `2q`.
#[inline(always)]
pub(super) fn multiply_accumulate(
    accumulator: &mut [u64],
    left: &[u64],
    right: &[u64],
    tables: &Tables,
) {
    let prime = tables.prime;
    let double = |value: u64| f64::from_bits(load(value));
    for ((sum, &a), &b) in accumulator.iter_mut().zip(left).zip(right) {
        *sum = store(multiply(double(a), double(b), prime) + double(*sum), prime);
    }
}
