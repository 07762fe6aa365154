//! Arithmetic modulo a prime known to everybody: the search for it, its roots of unity.
//!
//! Slow and in variable time. It fills tables and validates parameters; nothing secret passes
//! through it.

/// `a b mod q`.
pub(crate) fn multiply(a: u64, b: u64, q: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(q)) as u64
}

/// `base^exponent mod q`.
pub(crate) fn power(base: u64, exponent: u64, q: u64) -> u64 {
    (0..u64::BITS - exponent.leading_zeros()).rev().fold(1, |product, bit| {
        let square = multiply(product, product, q);
        if (exponent >> bit) & 1 == 1 { multiply(square, base, q) } else { square }
    })
}

/// `a^-1 mod q`, by Fermat.
pub(crate) fn invert(a: u64, q: u64) -> u64 {
    power(a, q - 2, q)
}

/// The first twelve primes. Below `2^64` no composite passes the test of Miller and Rabin to all
/// of these bases (Sorenson and Webster, 2015).
#[cfg(any(test, feature = "slots"))]
const WITNESSES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];

/// Whether `n` is a prime.
#[cfg(any(test, feature = "slots"))]
pub(crate) fn is_prime(n: u64) -> bool {
    if n < 2 || WITNESSES.iter().any(|&w| n.is_multiple_of(w)) {
        return WITNESSES.contains(&n);
    }
    // n - 1 = odd 2^twos: a prime has no roots of 1 but 1 and -1 on the way from w^odd to 1.
    let twos = (n - 1).trailing_zeros();
    let odd = (n - 1) >> twos;
    WITNESSES.iter().all(|&w| {
        let first = power(w, odd, n);
        let mut squares = std::iter::successors(Some(first), |&x| Some(multiply(x, x, n)));
        first == 1 || squares.by_ref().take(twos as usize).any(|x| x == n - 1)
    })
}

/// The primitive root of unity of this order (a power of two, at least 2) that every transform
/// uses: square roots are taken of `-1`, then of what that gives, until the order is reached.
///
/// Evaluations travel, so which of the roots it is matters. [`square_root`] fixes the sign, and it
/// is the sign that `tfhe-ntt` takes. Every root is the square of the one of twice its order.
///
/// # Panics
/// When `q` is not 1 modulo the order; primes are chosen so that it is.
pub(crate) fn root_of_unity(order: u64, q: u64) -> u64 {
    assert!(order.is_power_of_two() && q % order == 1, "{q} has no root of order {order}");
    let non_residue = (2..q)
        .find(|&n| power(n, (q - 1) / 2, q) == q - 1)
        .expect("half of the residues modulo an odd prime are not squares");
    (1..order.trailing_zeros()).fold(q - 1, |root, _| square_root(root, non_residue, q))
}

/// The square root of the square `a` that Tonelli and Shanks find with a given non-residue.
///
/// With `q - 1 = odd 2^twos`, `root^2 = a t` holds throughout. `t` has an order of `2^i`, and the
/// root is corrected by an element whose square has the same order, which halves that of `t`.
fn square_root(a: u64, non_residue: u64, q: u64) -> u64 {
    let mut twos = (q - 1).trailing_zeros();
    let odd = (q - 1) >> twos;
    let mut generator = power(non_residue, odd, q); // of order 2^twos
    let mut t = power(a, odd, q);
    let mut root = power(a, odd.div_ceil(2), q);
    while t != 1 {
        let squares = std::iter::successors(Some(t), |&x| Some(multiply(x, x, q)));
        let i = squares.take_while(|&x| x != 1).count() as u32;
        assert!(i < twos, "{a} is not a square modulo {q}");
        let correction = power(generator, 1 << (twos - i - 1), q);
        generator = multiply(correction, correction, q);
        twos = i;
        t = multiply(t, generator, q);
        root = multiply(root, correction, q);
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::MODULUS;

    #[test]
    fn small_primes_are_those_of_trial_division() {
        let by_division =
            |n: u64| n > 1 && (2..n).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
        assert!((0..20_000).all(|n| is_prime(n) == by_division(n)));
    }

    #[test]
    fn composites_that_deceive_many_bases_are_found_out() {
        // The least strong pseudoprimes to the first 1, 2, .. 9 and to the first 11 primes.
        for (composite, bases) in [
            (2_047, 1),
            (1_373_653, 2),
            (25_326_001, 3),
            (3_215_031_751, 4),
            (2_152_302_898_747, 5),
            (3_474_749_660_383, 6),
            (341_550_071_728_321, 8),
            (3_825_123_056_546_413_051, 11),
        ] {
            assert!(!is_prime(composite), "{composite} passes {bases} bases");
        }
        // The largest prime of 64 bits, and a square of a prime.
        assert!(is_prime(u64::MAX - 58));
        assert!(!is_prime(4_294_967_291 * 4_294_967_291));
        assert!(is_prime(MODULUS));
    }

    #[test]
    fn a_root_has_its_order_and_is_the_square_of_the_next() {
        for q in [MODULUS, 1_152_921_504_606_830_593, 1_099_511_480_321, 12_289] {
            let mut previous = q - 1;
            for order in (2..=(q - 1).trailing_zeros().min(16)).map(|log| 1_u64 << log) {
                let root = root_of_unity(order, q);
                assert_eq!(power(root, order / 2, q), q - 1);
                assert_eq!(multiply(root, root, q), previous);
                previous = root;
            }
        }
    }
}
