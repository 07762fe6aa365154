//! Keys that live for one request or one session, and the ciphertexts they make.

use rayon::prelude::*;

use crate::layout::{Message, Query};
use crate::merge::{MergeKeys, MergeSpan, Pair};
use crate::pack::{PackError, pack, packed_len, unpack};
use crate::parameters::{MODULUS, Parameters, RingDegree};
use crate::response::Response;
use crate::ring::{Ring, add, negate, reduce_signed};
use crate::sample::{Entropy, Stream, add_error, fill_uniform};
use crate::secret::SecretKey;
use crate::simd::dispatch;

/// The public seed that the uniform halves of one request's ciphertexts are expanded from:
/// ciphertext `i` uses stream `i`, so 32 bytes stand for half of the upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub [u8; 32]);

/// The transmitted half `b = -a s + e + m` of a ciphertext, each coefficient rounded to
/// `upload_bits` bits and packed. The other half, `a`, is expanded from the [`Seed`].
#[derive(Clone, PartialEq, Eq)]
pub struct Ciphertext {
    packed: Vec<u8>,
}

impl Ciphertext {
    /// Bytes of every ciphertext of a parameter set.
    pub fn byte_len(parameters: &Parameters) -> usize {
        packed_len(parameters.degree().coefficients(), parameters.upload_bits())
    }

    /// Takes bytes from the wire; any bytes of the right length are accepted.
    pub fn from_bytes(parameters: &Parameters, bytes: &[u8]) -> Result<Self, PackError> {
        let expected = Self::byte_len(parameters);
        if bytes.len() != expected {
            return Err(PackError::Length { expected, actual: bytes.len() });
        }
        Ok(Self { packed: bytes.to_vec() })
    }

    /// The wire form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.packed
    }

    /// `b` and `a` as evaluations, ready to be multiplied.
    pub(crate) fn expand(
        &self,
        parameters: &Parameters,
        ring: &Ring,
        seed: &Seed,
        index: u32,
    ) -> Result<Pair, PackError> {
        let (mut b, mut a) = (ring.buffer(), ring.buffer());
        let dropped = parameters.dropped_bits();
        unpack(&self.packed, parameters.upload_bits(), b.len(), |i, v| {
            // Rounding up may leave a value between q and 2^50; one subtraction reduces it.
            b[i] = add(v << dropped, 0);
        })?;
        ring.forward_in_place(&mut b);
        fill_uniform(&mut a, &seed.0, Stream::Uniform(index), MODULUS);
        Ok(Pair { c0: b, c1: a })
    }
}

impl std::fmt::Debug for Ciphertext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ciphertext({} bytes)", self.packed.len())
    }
}

/// Encrypts every message in order, on all cores.
fn encrypt_all(
    parameters: &Parameters,
    secret: &SecretKey,
    entropy: &Entropy,
    query: &Query,
) -> Vec<Ciphertext> {
    let ring = Ring::shared(parameters.degree());
    query
        .messages
        .par_iter()
        .enumerate()
        .map(|(index, message)| encrypt(parameters, &ring, secret, entropy, message, index as u32))
        .collect()
}

/// `b = -a s + e + m`, rounded to the upload's bits.
fn encrypt(
    parameters: &Parameters,
    ring: &Ring,
    secret: &SecretKey,
    entropy: &Entropy,
    message: &Message,
    index: u32,
) -> Ciphertext {
    // The server gets `a` and `b`. The intermediate values of `b`, `a s` and `-a s + e`, would
    // reveal the secret; they are overwritten in place.
    let (mut a, mut b) = (ring.buffer(), ring.zeroed_buffer());
    fill_uniform(&mut a, &entropy.public, Stream::Uniform(index), MODULUS);
    ring.multiply_accumulate(&mut b, &a, secret.evaluations());
    ring.inverse_in_place(&mut b);
    dispatch(
        #[inline(always)]
        || b.iter_mut().for_each(|v| *v = negate(*v)),
    );
    add_error(&mut b, &entropy.secret, Stream::Error(index));
    for (value, &m) in b.iter_mut().zip(message.iter()) {
        *value = add(*value, reduce_signed(m));
    }
    let dropped = parameters.dropped_bits();
    let half = (1_u64 << dropped) >> 1;
    let mut packed = Vec::with_capacity(Ciphertext::byte_len(parameters));
    // q is more than 2^20 below 2^50, so rounding up never overflows the field.
    let rounded = b.iter().map(|v| (v + half) >> dropped);
    pack(rounded, parameters.upload_bits(), &mut packed);
    Ciphertext { packed }
}

/// The used coefficients of `c0 + c1 s`, centred, in units of `q / 2^response_bits`.
fn open(parameters: &Parameters, secret: &SecretKey, response: &Response) -> Vec<i64> {
    let bits = parameters.response_bits();
    let c1 = response.c1(parameters);
    let c0 = response.c0(parameters);
    let used = c0.iter().zip(response.used_coefficients());
    used.map(|(&c0, k)| {
        let value = c0.wrapping_add(secret.product_coefficient(&c1, k));
        // Sign-extend the low `bits` bits.
        i64::from((value << (32 - bits)) as i32 >> (32 - bits))
    })
    .collect()
}

/// A fresh secret and a fresh seed. Encryption consumes it: a seed can never serve two
/// requests, and nothing accumulates over queries.
pub struct RequestKey {
    parameters: Parameters,
    entropy: Entropy,
    secret: SecretKey,
}

impl RequestKey {
    /// A key from randomness that nothing else may use.
    pub fn fresh(parameters: &Parameters, entropy: Entropy) -> Self {
        let secret = SecretKey::expand(&Ring::shared(parameters.degree()), &entropy.secret);
        Self { parameters: parameters.clone(), entropy, secret }
    }

    /// Encrypts every message of a query, in order, on all cores. What is left of the key can
    /// only open responses.
    pub fn encrypt(self, query: &Query) -> (ResponseKey, Seed, Vec<Ciphertext>) {
        let ciphertexts = encrypt_all(&self.parameters, &self.secret, &self.entropy, query);
        let seed = Seed(self.entropy.public);
        (ResponseKey { parameters: self.parameters, secret: self.secret }, seed, ciphertexts)
    }
}

/// Opens responses. The scores must stay with the client: even rounded scores would give the
/// server decryptions under this key.
pub struct ResponseKey {
    parameters: Parameters,
    secret: SecretKey,
}

impl ResponseKey {
    /// The used coefficients of `c0 + c1 s`, centred, in units of `q / 2^response_bits`.
    pub fn open(&self, response: &Response) -> Vec<i64> {
        open(&self.parameters, &self.secret, response)
    }
}

/// A secret that serves several requests, because merge keys have been given out under it.
///
/// A server that cheats learns about a secret from what the client does with false answers, a
/// little with each; so a session ends after a number of requests, and a client that finds an
/// answer false must drop it. Every request still has its own seed and errors.
pub struct SessionKey {
    degree: RingDegree,
    secret: SecretKey,
    remaining: u32,
}

/// A session that has served as many requests as it may.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone, Copy)]
#[error("the session's key has served all its requests")]
pub struct SessionSpent;

impl SessionKey {
    /// A secret for at most `requests` requests, and the merge keys under it.
    pub fn fresh(
        degree: RingDegree,
        span: MergeSpan,
        requests: u32,
        entropy: Entropy,
    ) -> (Self, MergeKeys) {
        let ring = Ring::shared(degree);
        let secret = SecretKey::expand(&ring, &entropy.secret);
        let keys = MergeKeys::generate(&ring, &secret, span, &entropy);
        (Self { degree, secret, remaining: requests }, keys)
    }

    /// Requests it may still serve.
    pub fn remaining(&self) -> u32 {
        self.remaining
    }

    /// Encrypts a query under the session's secret with the request's own randomness.
    ///
    /// # Panics
    /// When the parameters are of another degree than the session.
    pub fn encrypt(
        &mut self,
        parameters: &Parameters,
        query: &Query,
        entropy: Entropy,
    ) -> Result<(Seed, Vec<Ciphertext>), SessionSpent> {
        assert_eq!(parameters.degree(), self.degree, "parameters of the session's degree");
        self.remaining = self.remaining.checked_sub(1).ok_or(SessionSpent)?;
        let ciphertexts = encrypt_all(parameters, &self.secret, &entropy, query);
        Ok((Seed(entropy.public), ciphertexts))
    }

    /// As [`ResponseKey::open`].
    ///
    /// # Panics
    /// When the parameters are of another degree than the session.
    pub fn open(&self, parameters: &Parameters, response: &Response) -> Vec<i64> {
        assert_eq!(parameters.degree(), self.degree, "parameters of the session's degree");
        open(parameters, &self.secret, response)
    }
}

macro_rules! redacted {
    ($($name:ident),*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    )*};
}
redacted!(RequestKey, ResponseKey, SessionKey);

const _: () = assert!(MODULUS + (1 << 20) < 1 << 50);
