//! The products, folded: the only thing that a server of a blind collection computes.
//!
//! Wanted are the coefficients `0, w, 2w, ..` of `sum_t b_t f_t`. The `w` points that share `X^w` lie
//! side by side in the order of the transform, and the sum of a polynomial's values over them is `w`
//! times the value, at `Y = X^w`, of the polynomial of the wanted coefficients. So a block costs
//! `P = N / w` inner products of length `g w` modulo `q` and a transform of `P` points. The factor `w`
//! is divided out of [`Factor`] when that is made.

use super::modulus::{DEGREE, MODULUS, MODULUS_BITS, reduce};
use super::words::{Block, Factor, LANES, Lanes, Words};
use crate::ntt::Ntt;
use crate::portable::PortableNtt;
use crate::simd::dispatch;

/// Blocks that share each load of a factor's words.
const BLOCKS: usize = 4;

/// Factors that share each load of a block's words.
const FACTORS: usize = 4;

/// Products that a lane can add up before they are reduced: the low 52 bits of so many fit a word.
const MOST_STEPS: usize = 1 << 12;

/// A way to take inner products. Each is exact before the one reduction, so all give the same results.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kernel {
    /// By 52-bit multiply-add.
    #[cfg(target_arch = "x86_64")]
    Ifma(ifma::Ifma),
    /// By 24-bit halves, compiled for the best instruction set of this machine.
    Halves,
    /// The same compiled for the instruction set that every machine has.
    #[cfg(test)]
    Baseline,
}

impl Kernel {
    /// The fastest of this machine.
    fn fastest() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = ifma::Ifma::of_this_machine() {
            return Self::Ifma(simd);
        }
        Self::Halves
    }

    /// Every one that this machine can run.
    #[cfg(test)]
    pub(super) fn all() -> Vec<Self> {
        let all = vec![Self::Baseline, Self::Halves];
        #[cfg(target_arch = "x86_64")]
        let all = all.into_iter().chain(ifma::Ifma::of_this_machine().map(Self::Ifma)).collect();
        all
    }
}

/// The fold to the coefficients that are multiples of a tile's width.
pub(super) struct Fold {
    kernel: Kernel,
    places: usize,
    /// None where a single coefficient is wanted: it is the sum itself.
    transform: Option<PortableNtt>,
}

impl Fold {
    pub(super) fn to(places: usize) -> Self {
        Self::by(Kernel::fastest(), places)
    }

    /// The same by a kernel that is named.
    pub(super) fn by(kernel: Kernel, places: usize) -> Self {
        let transform = (places > 1).then(|| PortableNtt::over(places, MODULUS));
        Self { kernel, places, transform }
    }

    /// Calls `sink(factor, block, coefficients)` with the `P` wanted coefficients of every block's
    /// product with every factor.
    ///
    /// # Panics
    /// Unless all of them have as many polynomials.
    pub(super) fn products(
        &self,
        blocks: &[&Block],
        factors: &[&Factor],
        mut sink: impl FnMut(usize, usize, &[u64]),
    ) {
        let many = factors.first().map_or(0, |factor| factor.polynomials());
        assert!(blocks.iter().all(|block| block.polynomials() == many), "blocks of this shape");
        assert!(factors.iter().all(|factor| factor.polynomials() == many), "factors of this shape");
        assert!(many * DEGREE / LANES / self.places <= MOST_STEPS, "sums that fit a word");
        let mut sums = vec![0; BLOCKS * FACTORS * self.places];
        for (first_factor, factors) in factors.chunks(FACTORS).enumerate() {
            // With several factors the words of a block are shared; with one, those of the factor.
            let together = if factors.len() == 1 { BLOCKS } else { 2 };
            for (first_block, blocks) in blocks.chunks(together).enumerate() {
                let sums = &mut sums[..blocks.len() * factors.len() * self.places];
                self.sums(blocks, factors, sums);
                for (at, sums) in sums.chunks_exact_mut(self.places).enumerate() {
                    if let Some(transform) = &self.transform {
                        transform.inverse(sums);
                    }
                    let (factor, block) = (at % factors.len(), at / factors.len());
                    sink(first_factor * FACTORS + factor, first_block * together + block, sums);
                }
            }
        }
    }

    /// The inner products of a few blocks with a few factors, by block, factor and place.
    fn sums(&self, blocks: &[&Block], factors: &[&Factor], sums: &mut [u64]) {
        let words: Vec<&[Words]> = blocks.iter().map(|block| block.words()).collect();
        let lanes: Vec<&[Lanes]> = factors.iter().map(|factor| &factor.lanes[..]).collect();
        macro_rules! sizes {
            ($(($blocks:literal, $factors:literal)),*) => {
                match (words.len(), lanes.len()) {
                    $(($blocks, $factors) => self.kernel.inner_products::<$blocks, $factors>(
                        words.try_into().expect("matched"),
                        lanes.try_into().expect("matched"),
                        self.places,
                        sums,
                    ),)*
                    _ => unreachable!("chunks are of these sizes"),
                }
            };
        }
        sizes!((1, 1), (2, 1), (3, 1), (4, 1), (1, 2), (2, 2), (1, 3), (2, 3), (1, 4), (2, 4));
    }
}

impl Kernel {
    fn inner_products<const B: usize, const F: usize>(
        self,
        blocks: [&[Words]; B],
        factors: [&[Lanes]; F],
        places: usize,
        sums: &mut [u64],
    ) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Ifma(simd) => simd.inner_products(blocks, factors, places, sums),
            Self::Halves => dispatch(
                #[inline(always)]
                || halves(blocks, factors, places, sums),
            ),
            #[cfg(test)]
            Self::Baseline => halves(blocks, factors, places, sums),
        }
    }
}

/// The words of every place, block by block and factor by factor.
#[inline(always)]
fn each_place<const B: usize, const F: usize>(
    blocks: [&[Words]; B],
    factors: [&[Lanes]; F],
    places: usize,
    mut place: impl FnMut([&[Words]; B], [&[Lanes]; F], usize),
) {
    let steps = blocks[0].len() / places;
    for at in 0..places {
        let range = at * steps..(at + 1) * steps;
        place(blocks.map(|words| &words[range.clone()]), factors.map(|l| &l[range.clone()]), at);
    }
}

#[inline(always)]
fn halves<const B: usize, const F: usize>(
    blocks: [&[Words]; B],
    factors: [&[Lanes]; F],
    places: usize,
    sums: &mut [u64],
) {
    each_place(blocks, factors, places, |blocks, factors, at| {
        for (block, words) in blocks.into_iter().enumerate() {
            for (factor, lanes) in factors.into_iter().enumerate() {
                sums[(block * F + factor) * places + at] = by_halves(words, lanes);
            }
        }
    });
}

/// An inner product modulo `q`: with `a = a1 2^24 + a0`, products of halves are below `2^48`, and at
/// most [`MOST_STEPS`] of them come together in a lane (two in the middle).
#[inline(always)]
fn by_halves(words: &[Words], factor: &[Lanes]) -> u64 {
    const HALF: u32 = MODULUS_BITS / 2;
    const MASK: u64 = (1 << HALF) - 1;
    let (mut low, mut middle, mut high) = ([0_u64; LANES], [0_u64; LANES], [0_u64; LANES]);
    for (words, factor) in words.iter().zip(factor) {
        let words = words.unpack();
        for l in 0..LANES {
            let (a0, a1) = (words[l] & MASK, words[l] >> HALF);
            let (b0, b1) = (factor[l] & MASK, factor[l] >> HALF);
            low[l] += a0 * b0;
            middle[l] += a0 * b1 + a1 * b0;
            high[l] += a1 * b1;
        }
    }
    let total = |lanes: Lanes| lanes.into_iter().map(u128::from).sum::<u128>();
    reduce(total(low) + (total(middle) << HALF) + (total(high) << (2 * HALF)))
}

#[cfg(target_arch = "x86_64")]
mod ifma {
    use std::arch::x86_64::__m512i;

    use pulp::{NullaryFnOnce, cast, simd_type};

    use super::{LANES, Lanes, Words, each_place, reduce};

    simd_type!({
        /// Proof that the processor multiplies 52-bit integers eight at a time.
        pub(in crate::blind) struct Ifma {
            avx512f: f!("avx512f"),
            avx512ifma: f!("avx512ifma"),
        }
    });

    impl Ifma {
        pub(super) fn of_this_machine() -> Option<Self> {
            Self::try_new()
        }

        #[inline(always)]
        fn load(self, words: &Words) -> __m512i {
            let low = self.avx512f._mm512_cvtepu32_epi64(cast(words.low));
            let high = self.avx512f._mm512_cvtepu16_epi64(cast(words.high));
            self.avx512f._mm512_or_si512(low, self.avx512f._mm512_slli_epi64::<32>(high))
        }

        /// The low and the high 52 bits of every product are added up apart; a lane takes at most
        /// [`MOST_STEPS`](super::MOST_STEPS) of them, which leaves them below `2^64`.
        pub(super) fn inner_products<const B: usize, const F: usize>(
            self,
            blocks: [&[Words]; B],
            factors: [&[Lanes]; F],
            places: usize,
            sums: &mut [u64],
        ) {
            struct Work<'a, const B: usize, const F: usize> {
                simd: Ifma,
                blocks: [&'a [Words]; B],
                factors: [&'a [Lanes]; F],
                places: usize,
                sums: &'a mut [u64],
            }
            impl<const B: usize, const F: usize> NullaryFnOnce for Work<'_, B, F> {
                type Output = ();
                #[inline(always)]
                fn call(self) {
                    let Self { simd, blocks, factors, places, sums } = self;
                    each_place(
                        blocks,
                        factors,
                        places,
                        #[inline(always)]
                        |blocks, factors, at| simd.place(blocks, factors, places, at, sums),
                    );
                }
            }
            self.vectorize(Work { simd: self, blocks, factors, places, sums });
        }

        #[inline(always)]
        fn place<const B: usize, const F: usize>(
            self,
            blocks: [&[Words]; B],
            factors: [&[Lanes]; F],
            places: usize,
            at: usize,
            sums: &mut [u64],
        ) {
            let zero: __m512i = cast([0_u64; LANES]);
            let (mut low, mut high) = ([[zero; F]; B], [[zero; F]; B]);
            let steps = blocks[0].len();
            let blocks = blocks.map(|words| &words[..steps]);
            let factors = factors.map(|lanes| &lanes[..steps]);
            for step in 0..steps {
                let values: [__m512i; F] = factors.map(|lanes| cast(lanes[step]));
                for block in 0..B {
                    let words = self.load(&blocks[block][step]);
                    for factor in 0..F {
                        let (low, high) = (&mut low[block][factor], &mut high[block][factor]);
                        *low = self.avx512ifma._mm512_madd52lo_epu64(*low, words, values[factor]);
                        *high = self.avx512ifma._mm512_madd52hi_epu64(*high, words, values[factor]);
                    }
                }
            }
            for block in 0..B {
                for factor in 0..F {
                    let total = |lanes: __m512i| {
                        cast::<_, Lanes>(lanes).into_iter().map(u128::from).sum::<u128>()
                    };
                    let sum = total(low[block][factor]) + (total(high[block][factor]) << 52);
                    sums[(block * F + factor) * places + at] = reduce(sum);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blind::modulus::{add, inverse_of, multiply, transform};
    use crate::sample::{Stream, fill_uniform, fill_words};

    fn uniform(seed: u8, polynomials: usize) -> Vec<Vec<u64>> {
        let one = |at: usize| {
            let mut values = vec![0; DEGREE];
            fill_uniform(&mut values, &[seed; 32], Stream::Uniform(at as u32), MODULUS);
            values
        };
        (0..polynomials).map(one).collect()
    }

    fn block(polynomials: &[Vec<u64>]) -> Block {
        let mut block = Block::zero(polynomials.len());
        polynomials.iter().enumerate().for_each(|(at, values)| block.put(at, values));
        block
    }

    /// The whole product, transformed back, of which every `w`-th coefficient is kept.
    #[test]
    fn the_fold_gives_every_wth_coefficient_of_the_product() {
        for (tile, polynomials) in [(8, 3), (32, 1), (64, 12), (256, 2), (DEGREE, 16)] {
            let (left, right) = (uniform(1, polynomials), uniform(2, polynomials));
            let mut product = vec![0; DEGREE];
            for (left, right) in left.iter().zip(&right) {
                for ((sum, &a), &b) in product.iter_mut().zip(left).zip(right) {
                    *sum = add(*sum, multiply(a, b));
                }
            }
            transform().inverse(&mut product);
            let expected: Vec<u64> = product.into_iter().step_by(tile).collect();
            let mut factor = Factor::zero(polynomials);
            let unfold = inverse_of(tile);
            right.iter().enumerate().for_each(|(at, values)| factor.put(at, values, unfold));
            let block = block(&left);
            for kernel in Kernel::all() {
                let fold = Fold::by(kernel, DEGREE / tile);
                fold.products(&[&block], &[&factor], |_, _, found| {
                    assert_eq!(found, &expected[..], "{kernel:?}, tiles of {tile}");
                });
            }
        }
    }

    /// The inner product at a place, one product after the other in wide integers: it is over the `w`
    /// points that share `X^w`.
    fn exact(left: &[Vec<u64>], right: &[Vec<u64>], places: usize, place: usize) -> u64 {
        let points = DEGREE / places * place..DEGREE / places * (place + 1);
        let pairs = left
            .iter()
            .zip(right)
            .flat_map(|(left, right)| left[points.clone()].iter().zip(&right[points.clone()]));
        let wide = |sum, (&a, &b): (&u64, &u64)| {
            (sum + u128::from(a) * u128::from(b)) % u128::from(MODULUS)
        };
        pairs.fold(0, wide) as u64
    }

    /// Asserts that every kernel of this machine takes the inner products of all blocks with all factors, at
    /// some random places.
    fn assert_exact(blocks: &[Vec<Vec<u64>>], factors: &[Vec<Vec<u64>>], places: usize) {
        let polynomials = blocks[0].len();
        let prepare = |values: &Vec<Vec<u64>>| {
            let mut factor = Factor::zero(polynomials);
            values.iter().enumerate().for_each(|(at, values)| factor.put(at, values, 1));
            factor
        };
        let stored: Vec<Block> = blocks.iter().map(|values| block(values)).collect();
        let prepared: Vec<Factor> = factors.iter().map(prepare).collect();
        let (stored, prepared): (Vec<&Block>, Vec<&Factor>) =
            (stored.iter().collect(), prepared.iter().collect());
        let mut words = vec![0; 4 * blocks.len() * factors.len()];
        fill_words(&mut words, &[places as u8; 32], Stream::Turns(polynomials as u32));
        let pairs = blocks.iter().flat_map(|block| factors.iter().map(move |one| (block, one)));
        let expected: Vec<(usize, u64)> = pairs
            .enumerate()
            .flat_map(|(pair, (block, factor))| {
                words[4 * pair..4 * (pair + 1)].iter().map(move |&word| {
                    let place = word as usize % places;
                    (pair * places + place, exact(block, factor, places, place))
                })
            })
            .collect();
        for kernel in Kernel::all() {
            let mut sums = vec![0; blocks.len() * factors.len() * places];
            Fold::by(kernel, places).sums(&stored, &prepared, &mut sums);
            for &(at, sum) in &expected {
                let sizes = (blocks.len(), factors.len());
                assert_eq!(sums[at], sum, "{kernel:?}, {sizes:?}, {places} places, at {at}");
            }
        }
    }

    #[test]
    fn every_kernel_gives_the_sums_of_wide_integers() {
        for (tile, polynomials) in [(8, 5), (64, 3), (DEGREE, 2)] {
            let values: Vec<_> = (0..8).map(|seed| uniform(seed, polynomials)).collect();
            let (blocks, factors) = values.split_at(4);
            let alone = (1..=BLOCKS).map(|blocks| (blocks, 1));
            let shared = (2..=FACTORS).flat_map(|factors| [(1, factors), (2, factors)]);
            for (some, others) in alone.chain(shared) {
                assert_exact(&blocks[..some], &factors[..others], DEGREE / tile);
            }
        }
    }

    /// At the largest sums there are for the narrowest tile.
    #[test]
    fn every_kernel_gives_them_for_the_widest_rows_and_the_largest_words() {
        let largest = vec![vec![MODULUS - 1; DEGREE]; 544];
        for values in [uniform(3, 544), largest.clone()] {
            assert_exact(&[values], std::slice::from_ref(&largest), DEGREE / 8);
        }
    }

    /// A single coefficient of sixteen polynomials is the longest sum there is.
    #[test]
    fn the_longest_sum_of_the_largest_words_fits_every_kernel() {
        let largest = vec![vec![MODULUS - 1; DEGREE]; 16];
        assert_eq!(block(&largest).words().len(), MOST_STEPS);
        assert_exact(std::slice::from_ref(&largest), std::slice::from_ref(&largest), 1);
        // (q - 1)^2 = 1, so the sum counts the products.
        assert_eq!(exact(&largest, &largest, 1, 0), 16 * DEGREE as u64);
    }
}
