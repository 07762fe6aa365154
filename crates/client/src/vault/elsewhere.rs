//! Values that a commit lists and that the vault itself does not hold: vectors that are left with the
//! server alone. In their slots are no bytes, which no sealed value has. They are known by their digests,
//! so whoever keeps them cannot put others in their place.

use std::error::Error;
use std::sync::Arc;

use super::database::{self, Place};
use super::error::VaultError;
use super::root::Entry;
use super::value::{Slot, digest_of};
use super::{Snapshot, Vault};

/// Sealed values in the order in which they were asked for; `None` where one is not kept.
type Fetched = Result<Vec<Option<Vec<u8>>>, Box<dyn Error + Send + Sync>>;

type Fetch = dyn Fn(&[Entry]) -> Fetched + Send + Sync;

/// Fetches sealed values from where they are kept.
#[derive(Clone)]
pub(crate) struct Elsewhere(Arc<Fetch>);

impl Elsewhere {
    #[cfg(feature = "remote")]
    pub(crate) fn new(fetch: impl Fn(&[Entry]) -> Fetched + Send + Sync + 'static) -> Self {
        Self(Arc::new(fetch))
    }
}

impl std::fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Elsewhere(..)")
    }
}

#[cfg(feature = "remote")]
impl Vault {
    /// Says where values are kept that are not here.
    pub(crate) fn look_elsewhere(&mut self, elsewhere: Elsewhere) {
        self.elsewhere = Some(elsewhere);
    }

    /// Empties the slots of values that are kept elsewhere, as far as they are still those of the latest commit. The
    /// commit stays what it is.
    pub(crate) fn leave(&mut self, kept: &[(Slot, Entry)]) -> Result<(), VaultError> {
        let file = self.database();
        let db = database::open(&file)?;
        database::begin_writing(&db, &file)?;
        let now = self.reading(db, file)?;
        for (slot, entry) in kept {
            if now.root.entries.get(slot) == Some(entry) {
                database::put(&now.db, Place::Value(slot.id()), &[], &now.file)?;
            }
        }
        database::commit(&now.db, &now.file)?;
        database::shrink(&now.db);
        Ok(())
    }
}

impl Snapshot {
    /// The values that are here and may be elsewhere.
    #[cfg(feature = "remote")]
    pub(crate) fn leavable(&self) -> Result<Vec<(Slot, Entry)>, VaultError> {
        let mut here = Vec::new();
        for (&slot, entry) in &self.root.entries {
            if slot.may_be_elsewhere() && !self.is_elsewhere(slot)? {
                here.push((slot, *entry));
            }
        }
        Ok(here)
    }

    /// Whether a value is elsewhere and nobody has said where to find it.
    pub(crate) fn lacks(&self, slot: Slot) -> Result<bool, VaultError> {
        Ok(self.elsewhere.is_none() && self.is_elsewhere(slot)?)
    }

    /// Whether a value is not here but elsewhere.
    pub(crate) fn is_elsewhere(&self, slot: Slot) -> Result<bool, VaultError> {
        let length = || database::length(&self.db, slot.id(), &self.file);
        Ok(slot.may_be_elsewhere() && length()? == Some(0))
    }

    /// Fetches every value that is elsewhere, to see that it can be had.
    #[cfg(feature = "remote")]
    pub(crate) fn find_all(&self) -> Result<(), VaultError> {
        for &slot in self.root.entries.keys() {
            if self.is_elsewhere(slot)? {
                self.sealed(slot)?;
            }
        }
        Ok(())
    }

    /// Fetches values that are elsewhere.
    pub(super) fn fetch(&self, absent: &[(Slot, Entry)]) -> Result<Vec<Vec<u8>>, VaultError> {
        let Some((first, _)) = absent.first() else { return Ok(Vec::new()) };
        let away = || VaultError::Elsewhere { file: self.file.clone(), value: first.to_string() };
        let elsewhere = self.elsewhere.as_ref().ok_or_else(away)?;
        let entries: Vec<Entry> = absent.iter().map(|(_, entry)| *entry).collect();
        let fetched = (elsewhere.0)(&entries)
            .map_err(|source| VaultError::Fetch { value: first.to_string(), source })?;
        let each = absent.iter().zip(fetched).map(|((slot, entry), sealed)| {
            let sealed = sealed.ok_or_else(|| self.missing(*slot))?;
            if digest_of(&sealed) == entry.digest { Ok(sealed) } else { Err(self.broken(*slot)) }
        });
        let each: Vec<Vec<u8>> = each.collect::<Result<_, _>>()?;
        if each.len() == absent.len() { Ok(each) } else { Err(self.missing(*first)) }
    }
}
