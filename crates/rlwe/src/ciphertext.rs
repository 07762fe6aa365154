//! Keys that live for one request, and the ciphertexts they make.

use std::sync::Arc;

use rayon::prelude::*;

use crate::layout::{Message, Query};
use crate::pack::{PackError, pack, packed_len, unpack};
use crate::parameters::{MODULUS, Parameters};
use crate::response::Response;
use crate::ring::{Coefficients, Evaluations, Poly, Ring, add, negate, reduce_signed};
use crate::sample::{Entropy, add_error, uniform};
use crate::secret::SecretKey;

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

    /// Takes bytes from the wire; any bytes of the right length are a ciphertext of something.
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
    ) -> Result<(Poly<Evaluations>, Poly<Evaluations>), PackError> {
        let mut b = Poly::<Coefficients>::zero(parameters.degree());
        let values = b.values_mut();
        let dropped = parameters.dropped_bits();
        unpack(&self.packed, parameters.upload_bits(), values.len(), |i, v| {
            // Rounding up may leave a value between q and 2^50; one subtraction reduces it.
            values[i] = add(v << dropped, 0);
        })?;
        Ok((ring.forward(b), uniform(parameters.degree(), &seed.0, index)))
    }
}

impl std::fmt::Debug for Ciphertext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ciphertext({} bytes)", self.packed.len())
    }
}

/// A fresh secret and a fresh seed. Encryption consumes it: a seed can never serve two
/// requests, and nothing accumulates over queries.
pub struct RequestKey {
    parameters: Parameters,
    ring: Arc<Ring>,
    entropy: Entropy,
    secret: SecretKey,
}

impl RequestKey {
    /// A key from randomness that nothing else may use.
    pub fn fresh(parameters: &Parameters, entropy: Entropy) -> Self {
        let ring = Ring::shared(parameters.degree());
        let secret = SecretKey::expand(&ring, &entropy.secret);
        Self { parameters: parameters.clone(), ring, entropy, secret }
    }

    /// Encrypts every tile of every query, in order, on all cores. What is left of the key can
    /// only open responses.
    pub fn encrypt(self, query: &Query) -> (ResponseKey, Seed, Vec<Ciphertext>) {
        let ciphertexts = query
            .messages
            .par_iter()
            .enumerate()
            .map(|(index, message)| self.encrypt_one(message, index as u32))
            .collect();
        let seed = Seed(self.entropy.public);
        (ResponseKey { parameters: self.parameters, secret: self.secret }, seed, ciphertexts)
    }

    fn encrypt_one(&self, message: &Message, index: u32) -> Ciphertext {
        let degree = self.parameters.degree();
        let a = uniform(degree, &self.entropy.public, index);
        let mut product = Poly::<Evaluations>::zero(degree);
        self.ring.multiply_accumulate(product.values_mut(), &a, self.secret.evaluations());
        let mut b = self.ring.inverse(product);
        b.values_mut().iter_mut().for_each(|v| *v = negate(*v));
        add_error(b.values_mut(), &self.entropy.secret, index);
        for (value, &m) in b.values_mut().iter_mut().zip(message.iter()) {
            *value = add(*value, reduce_signed(m));
        }
        let dropped = self.parameters.dropped_bits();
        let half = (1_u64 << dropped) >> 1;
        let mut packed = Vec::with_capacity(Ciphertext::byte_len(&self.parameters));
        // q is more than 2^20 below 2^50, so rounding up never overflows the field.
        let rounded = b.values().iter().map(|v| (v + half) >> dropped);
        pack(rounded, self.parameters.upload_bits(), &mut packed);
        Ciphertext { packed }
    }
}

/// Opens responses. The scores it yields must stay with whoever asked: telling the server even
/// rounded scores would hand it decryptions under this key.
pub struct ResponseKey {
    parameters: Parameters,
    secret: SecretKey,
}

impl ResponseKey {
    /// The used coefficients of `c0 + c1 s`, centred, in units of `q / 2^response_bits`.
    pub fn open(&self, response: &Response) -> Vec<i64> {
        let bits = self.parameters.response_bits();
        let c1 = response.c1(&self.parameters);
        response
            .c0(&self.parameters)
            .iter()
            .zip(response.used_coefficients())
            .map(|(&c0, k)| {
                let value = c0.wrapping_add(self.secret.product_coefficient(&c1, k));
                // Sign-extend the low `bits` bits.
                i64::from((value << (32 - bits)) as i32 >> (32 - bits))
            })
            .collect()
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
redacted!(RequestKey, ResponseKey);

const _: () = assert!(MODULUS + (1 << 20) < 1 << 50);
