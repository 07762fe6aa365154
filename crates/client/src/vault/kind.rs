//! What a vault file holds, and what it is called on disk.

use std::fmt;

/// The payloads a vault can hold, each in a file of its own.
///
/// The vault does not look inside them: they are bytes in, bytes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// How the owner configured the vault.
    Settings,
    /// The fitted model: mean, basis, cells.
    Model,
    /// The routing index: prefixes, cells and ids of all rows.
    Index,
    /// The original vectors.
    Vectors,
    /// What a server would hold. Not secret, so stored in the clear, but still covered by the
    /// manifest's authentication.
    PublishedRows,
    /// How the documents have moved away from the model since it was fitted.
    ModelDrift,
    /// Of which state of its owner's vault a query vault is a copy.
    Origin,
}

impl FileKind {
    /// Every kind, in the order of their codes.
    pub const ALL: [Self; 7] = [
        Self::Settings,
        Self::Model,
        Self::Index,
        Self::Vectors,
        Self::PublishedRows,
        Self::ModelDrift,
        Self::Origin,
    ];

    /// The first part of the file's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Model => "model",
            Self::Index => "index",
            Self::Vectors => "vectors",
            Self::PublishedRows => "release",
            Self::ModelDrift => "upkeep",
            Self::Origin => "origin",
        }
    }

    /// Whether the payload is encrypted on disk. A kind that is not is checksummed only.
    pub const fn is_sealed(self) -> bool {
        !matches!(self, Self::PublishedRows)
    }

    /// The name of this kind's file written by generation `generation`.
    ///
    /// Names are computed, never read from disk, so that no file can point outside the vault.
    pub(super) fn file_name(self, generation: u64) -> String {
        format!("{}-{generation:016x}.shard", self.name())
    }

    /// The inverse of [`FileKind::file_name`]: `None` for every name the vault did not give.
    pub(super) fn parse_file_name(name: &str) -> Option<(Self, u64)> {
        let (kind, generation) = name.strip_suffix(".shard")?.split_once('-')?;
        let kind = Self::ALL.into_iter().find(|each| each.name() == kind)?;
        let generation = u64::from_str_radix(generation, 16).ok()?;
        // Hexadecimal has more than one spelling; only ours is ours.
        (kind.file_name(generation) == name).then_some((kind, generation))
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// What the header of any file of a vault says it contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Holds the master secret: the vault is its owner's.
    Keyring,
    Manifest,
    Payload(FileKind),
    /// Holds the secret of one epoch: the vault can be searched and no more.
    QueryKeyring,
    /// What [`Content::Keyring`] holds, for whoever has the recovery code.
    RecoveryKeyring,
}

impl Content {
    /// The code in the file header. Codes are part of the format and are never reused.
    pub(super) const fn code(self) -> u16 {
        match self {
            Self::Keyring => 1,
            Self::Manifest => 2,
            Self::Payload(FileKind::Settings) => 3,
            Self::Payload(FileKind::Model) => 4,
            Self::Payload(FileKind::Index) => 5,
            Self::Payload(FileKind::Vectors) => 6,
            Self::Payload(FileKind::PublishedRows) => 7,
            Self::Payload(FileKind::ModelDrift) => 8,
            Self::Payload(FileKind::Origin) => 9,
            Self::QueryKeyring => 10,
            Self::RecoveryKeyring => 11,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_parse_back_to_kind_and_generation() {
        for kind in FileKind::ALL {
            for generation in [0, 1, 0xabc, u64::MAX] {
                let name = kind.file_name(generation);
                assert_eq!(FileKind::parse_file_name(&name), Some((kind, generation)));
            }
        }
    }

    #[test]
    fn names_the_vault_did_not_give_are_not_parsed() {
        for name in [
            "",
            "model",
            "model-1.shard",
            "model-000000000000000A.shard",
            "model-+00000000000000a.shard",
            "model-000000000000000a.shard.bak",
            "notes-000000000000000a.shard",
            "MANIFEST",
        ] {
            assert_eq!(FileKind::parse_file_name(name), None, "{name}");
        }
    }

    #[test]
    fn codes_are_pinned_and_distinct() {
        let codes: Vec<u16> = [Content::Keyring, Content::Manifest]
            .into_iter()
            .chain(FileKind::ALL.map(Content::Payload))
            .chain([Content::QueryKeyring, Content::RecoveryKeyring])
            .map(Content::code)
            .collect();
        assert_eq!(codes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    }
}
