//! The recovery code: a second way into a vault, written down once and kept elsewhere.
//!
//! 32 random bytes and a checksum of three, together 280 bits, are 56 characters of Crockford's
//! base32, shown in 14 groups of four; the last group is all checksum. The alphabet has no `I`,
//! `L`, `O` and `U`; the first three are read as the digits they look like, and case, spaces and
//! hyphens do not matter. A code that was mistyped is told apart from a code of another vault.

use std::fmt;

use data_encoding::{Encoding, Specification};
use rand_core::CryptoRng;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::secret::SECRET_BYTES;

const SYMBOLS: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const CHECKSUM_BYTES: usize = 3;
const GROUP: usize = 4;
const CHARACTERS: usize = (SECRET_BYTES + CHECKSUM_BYTES) * 8 / 5;

/// Separates the checksum from any other hash of the same bytes.
const LABEL: &[u8] = b"shard recovery code";

/// A code that opens a vault.
///
/// It is wiped when dropped and prints only where [`RecoveryCode::expose`] is called.
pub struct RecoveryCode(Box<Zeroizing<[u8; SECRET_BYTES]>>);

/// A text that is no recovery code. No variant repeats the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryCodeError {
    /// A character that no code has.
    #[error(
        "group {group} of the recovery code has a character that codes do not use; codes are digits and letters without U"
    )]
    Character {
        /// The group of four it is in, counted from 1.
        group: usize,
    },
    /// Too short or too long.
    #[error("the recovery code has {actual} characters where {CHARACTERS} belong: {} groups of {GROUP}", CHARACTERS / GROUP)]
    Length {
        /// Characters given, without spaces and hyphens.
        actual: usize,
    },
    /// Typed wrong.
    #[error(
        "the recovery code is mistyped: its last group does not fit the others; compare it with what was written down"
    )]
    Checksum,
}

impl RecoveryCode {
    /// A fresh code.
    pub(super) fn generate(rng: &mut impl CryptoRng) -> Self {
        let mut bytes = Box::new(Zeroizing::new([0; SECRET_BYTES]));
        rng.fill_bytes(bytes.as_mut_slice());
        Self(bytes)
    }

    pub(super) fn from_bytes(bytes: &[u8; SECRET_BYTES]) -> Self {
        Self(Box::new(Zeroizing::new(*bytes)))
    }

    /// Reads a code as a person types it.
    ///
    /// # Errors
    /// Any [`RecoveryCodeError`].
    pub fn parse(text: &str) -> Result<Self, RecoveryCodeError> {
        let mut symbols = Zeroizing::new(String::with_capacity(text.len()));
        symbols.extend(text.chars().filter(|c| !c.is_whitespace() && *c != '-'));
        let foreign = |symbol: char| {
            let symbol = symbol.to_ascii_uppercase();
            !SYMBOLS.contains(symbol) && !"OIL".contains(symbol)
        };
        if let Some(at) = symbols.chars().position(foreign) {
            return Err(RecoveryCodeError::Character { group: at / GROUP + 1 });
        }
        if symbols.len() != CHARACTERS {
            return Err(RecoveryCodeError::Length { actual: symbols.len() });
        }
        let bytes = alphabet().decode(symbols.as_bytes()).map(Zeroizing::new);
        let bytes = bytes.map_err(|_| RecoveryCodeError::Checksum)?;
        let (secret, checksum) =
            bytes.split_first_chunk::<SECRET_BYTES>().expect("56 characters are 35 bytes");
        if checksum != checksum_of(secret) {
            return Err(RecoveryCodeError::Checksum);
        }
        Ok(Self::from_bytes(secret))
    }

    /// The code as it is to be written down: 14 groups of four characters.
    pub fn expose(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new([0; SECRET_BYTES + CHECKSUM_BYTES]);
        bytes[..SECRET_BYTES].copy_from_slice(self.0.as_slice());
        bytes[SECRET_BYTES..].copy_from_slice(&checksum_of(&self.0));
        let symbols = Zeroizing::new(alphabet().encode(bytes.as_slice()));
        let mut text = Zeroizing::new(String::with_capacity(CHARACTERS + CHARACTERS / GROUP));
        for (at, symbol) in symbols.chars().enumerate() {
            if at > 0 && at % GROUP == 0 {
                text.push('-');
            }
            text.push(symbol);
        }
        text
    }

    pub(super) fn bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }
}

/// Tells typing errors: one in 2^24 goes unnoticed here, and then opens nothing.
fn checksum_of(secret: &[u8; SECRET_BYTES]) -> [u8; CHECKSUM_BYTES] {
    let hash = Sha256::new().chain_update(LABEL).chain_update(secret).finalize();
    std::array::from_fn(|at| hash[at])
}

/// Crockford's base32.
fn alphabet() -> Encoding {
    let mut specification = Specification::new();
    specification.symbols.push_str(SYMBOLS);
    specification.translate.from.push_str("abcdefghjkmnpqrstvwxyzOoIiLl");
    specification.translate.to.push_str("ABCDEFGHJKMNPQRSTVWXYZ001111");
    specification.encoding().expect("32 symbols, each translation from one that is none of them")
}

impl fmt::Debug for RecoveryCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RecoveryCode(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    fn code() -> RecoveryCode {
        RecoveryCode::generate(&mut StdRng::seed_from_u64(1))
    }

    #[test]
    fn a_code_reads_back_however_it_is_typed() {
        let shown = code().expose();
        assert_eq!(shown.split('-').count(), 14);
        assert!(shown.split('-').all(|group| group.len() == 4), "{}", *shown);
        let typed = [
            shown.to_string(),
            shown.to_lowercase(),
            shown.replace('-', " "),
            shown.replace('-', ""),
            shown.replace('0', "o").replace('1', "L"),
            format!("  {}\n", *shown),
        ];
        for typed in typed {
            assert_eq!(RecoveryCode::parse(&typed).unwrap().bytes(), code().bytes(), "{typed}");
        }
    }

    #[test]
    fn a_code_of_known_bytes_does_not_change() {
        let code = RecoveryCode::from_bytes(&std::array::from_fn(|at| at as u8));
        assert_eq!(
            *code.expose(),
            "000G-40R4-0M30-E209-185G-R38E-1W81-24GK-2GAH-C5RR-34D1-P70X-3RFZ-FY5T"
        );
    }

    #[test]
    fn every_slip_of_one_character_is_named() {
        let shown = code().expose();
        for at in (0..shown.len()).filter(|at| at % 5 != 4) {
            for other in ["7", "Q"] {
                let mut slip = shown.to_string();
                slip.replace_range(at..=at, other);
                if slip != *shown {
                    let error = RecoveryCode::parse(&slip).unwrap_err();
                    assert_eq!(error, RecoveryCodeError::Checksum);
                }
            }
            let mut slip = shown.to_string();
            slip.replace_range(at..=at, "u");
            let group = at / 5 + 1;
            assert_eq!(
                RecoveryCode::parse(&slip).unwrap_err(),
                RecoveryCodeError::Character { group }
            );
        }
    }

    #[test]
    fn wrong_lengths_and_strange_characters_are_named() {
        let error = |text: &str| RecoveryCode::parse(text).unwrap_err();
        assert_eq!(error(""), RecoveryCodeError::Length { actual: 0 });
        let shown = code().expose();
        assert_eq!(error(&shown[..68]), RecoveryCodeError::Length { actual: 55 });
        assert_eq!(error(&format!("{}0", *shown)), RecoveryCodeError::Length { actual: 57 });
        assert_eq!(error("0123-45é7"), RecoveryCodeError::Character { group: 2 });
    }

    #[test]
    fn a_code_does_not_print_itself() {
        assert_eq!(format!("{:?}", code()), "RecoveryCode(redacted)");
    }
}
