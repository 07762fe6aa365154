//! Names the server knows things by.

use std::fmt;
use std::str::FromStr;

macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $format:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
    };
}

word!(
    /// A cell, by a keyed pseudorandom word: it says which rows share a key, not which cell of
    /// the owner's partition that is.
    CellHandle, "{:016x}"
);
word!(
    /// A row, by a keyed pseudorandom word: neither the owner's id nor the order of ingestion.
    RowHandle, "{:016x}"
);
word!(
    /// A generation of keys and handles. Nothing of one epoch names anything of another.
    Epoch, "{}"
);
word!(
    /// How far a vault has come: it grows with every change, and a server that has seen a later
    /// one refuses to go back.
    Revision, "{}"
);

/// One commit of a vault, by 16 random bytes that the vault drew when it was made. It is no secret
/// and says nothing of the content: two commits of the same documents have different names. Whoever
/// knows the name of a state can tell it from every other, also from one of the same revision.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CommitName(pub [u8; 16]);

impl fmt::Display for CommitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CommitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A row's content under a key of its epoch, which only the owner has: equal MACs mean equal rows
/// within an epoch, and nothing across epochs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RowMac(pub [u8; 16]);

/// Why a text is not a name.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
#[error(
    "{name:?} is not a name: 1 to {most} of a-z, 0-9, '-', '_' and '.', the first a letter or digit"
)]
pub struct NameError {
    name: String,
    most: usize,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $most:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(String);

        impl $name {
            /// The longest name, in bytes.
            pub const MAX_BYTES: usize = $most;

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                if is_name(text, $most) {
                    return Ok(Self(text.to_owned()));
                }
                // Neither an endless text nor control characters belong into an error.
                let shown = text.chars().take($most + 1).flat_map(char::escape_default);
                Err(NameError { name: shown.collect(), most: $most })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

fn is_name(text: &str, most: usize) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let allowed = |byte: u8| plain(byte) || matches!(byte, b'-' | b'_' | b'.');
    text.len() <= most && text.bytes().next().is_some_and(plain) && text.bytes().all(allowed)
}

name!(
    /// A collection: the rows and blobs of one vault.
    CollectionName, 64
);
name!(
    /// A sealed blob of a collection.
    BlobName, 128
);

impl BlobName {
    /// Whether whoever may search may have the blob: the vault's claim, the published state, sealed
    /// values, the hints and checks of blocks, and pages of records with their hints, which say nothing to
    /// who cannot open them. Keyrings are not among them: whoever has one can try passphrases. Nor are
    /// blocks, which no search needs.
    pub fn is_shared(&self) -> bool {
        let shared = ["state.", "value.", HINT, CHECKS, PAGE, RECORD_HINT];
        self.0 == "claim" || shared.iter().any(|prefix| self.0.starts_with(prefix))
    }

    /// A stored block, by the 16 bytes that a [`BlockList`](crate::BlockList) names it by.
    pub fn block(name: [u8; 16]) -> Self {
        Self(format!("{BLOCK}{}", CommitName(name)))
    }

    /// The sealed hint of a block.
    pub fn hint(name: [u8; 16]) -> Self {
        Self(format!("{HINT}{}", CommitName(name)))
    }

    /// The [`BlockList`](crate::BlockList) of a commit.
    pub fn blocks(commit: CommitName) -> Self {
        Self(format!("{BLOCKS}{commit}"))
    }

    /// What clients need of the checks of a commit, sealed.
    pub fn checks(commit: CommitName) -> Self {
        Self(format!("{CHECKS}{commit}"))
    }

    /// A page of sealed records, by the 16 bytes that a [`RecordList`](crate::RecordList) names it by.
    pub fn page(name: [u8; 16]) -> Self {
        Self(format!("{PAGE}{}", CommitName(name)))
    }

    /// The sealed hint of a segment of records.
    pub fn record_hint(name: [u8; 16]) -> Self {
        Self(format!("{RECORD_HINT}{}", CommitName(name)))
    }

    /// The [`RecordList`](crate::RecordList) of a commit.
    pub fn records(commit: CommitName) -> Self {
        Self(format!("{RECORDS}{commit}"))
    }

    /// Whether it is a part of some commit's records: a page, a hint or a list.
    pub fn is_of_records(&self) -> bool {
        [PAGE, RECORD_HINT, RECORDS].iter().any(|prefix| self.0.starts_with(prefix))
    }

    /// Whether it is a block, a page of records, or a hint of either: what an object store holds as an object,
    /// however short. What such a name stands for never changes, nor do the bytes of blocks and pages; a
    /// hint that is sealed again has a fresh nonce, and so other bytes under the same name.
    pub fn is_immutable(&self) -> bool {
        [BLOCK, HINT, PAGE, RECORD_HINT].iter().any(|prefix| self.0.starts_with(prefix))
    }

    /// Whether it is a page of records.
    pub(crate) fn is_page(&self) -> bool {
        self.0.starts_with(PAGE)
    }

    /// Whether it is the [`RecordList`](crate::RecordList) of some commit.
    pub(crate) fn is_record_list(&self) -> bool {
        self.0.starts_with(RECORDS)
    }

    /// Whether it is the [`BlockList`](crate::BlockList) of some commit.
    pub fn is_block_list(&self) -> bool {
        self.0.starts_with(BLOCKS)
    }

    /// A name that comes before those of all block lists and after those of all blocks.
    pub fn before_block_lists() -> Self {
        Self(BLOCKS.to_owned())
    }
}

/// How names begin that are made of 16 bytes in hexadecimal.
const BLOCK: &str = "block.";
const HINT: &str = "hint.";
const BLOCKS: &str = "blocks.";
const CHECKS: &str = "checks.";
const PAGE: &str = "page.";
const RECORD_HINT: &str = "record-hint.";
const RECORDS: &str = "records.";

impl Default for CollectionName {
    /// The collection of a server address that names none.
    fn default() -> Self {
        Self("main".to_owned())
    }
}
