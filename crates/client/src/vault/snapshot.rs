//! One commit of a vault, for reading.

use std::path::PathBuf;

use rayon::prelude::*;
use rusqlite::Connection;
use shard_protocol::CommitName;
use zeroize::Zeroizing;

use super::elsewhere::Elsewhere;
use super::error::VaultError;
use super::root::{Entry, Root};
use super::value::{Slot, ValueKey, digest_of};
use super::{Vault, database};

/// Names of commits in one value.
pub(super) const HISTORY_COMMITS: u64 = 256;

/// Values read before they are opened: enough for every core, few enough that memory is used over
/// and over while it is in cache.
const BATCH: usize = 32;

/// The keys that a vault has for its values.
pub(crate) struct Keys {
    /// Of values for the owner; none in a query vault.
    pub(super) owner: Option<ValueKey>,
    /// Of values for everybody who may search; the owner's own before the first epoch.
    pub(super) shared: ValueKey,
}

/// The bytes in a slot, and what the root says of them.
type Stored = (Slot, Vec<u8>, Entry);

/// What was seen of a commit's values.
#[derive(Clone, Copy, Default)]
pub(crate) struct Looked {
    /// Values that open.
    pub(crate) values: usize,
    /// Bytes of them.
    pub(crate) bytes: u64,
    /// Values that are kept elsewhere, and were not looked at.
    pub(crate) elsewhere: usize,
}

/// A vault as it was when reading began, whatever others write meanwhile.
pub(crate) struct Snapshot {
    pub(super) db: Connection,
    pub(super) file: PathBuf,
    pub(super) root: Root,
    pub(super) keys: Keys,
    /// Where values are kept that are not here.
    pub(super) elsewhere: Option<Elsewhere>,
}

impl Vault {
    /// Begins to read the vault as it is now. Waits for no writer, and no writer waits.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, VaultError> {
        let file = self.database();
        let db = database::open(&file)?;
        database::begin_reading(&db, &file)?;
        self.reading(db, file)
    }

    /// What a connection sees, once it has begun to read or write.
    pub(super) fn reading(&self, db: Connection, file: PathBuf) -> Result<Snapshot, VaultError> {
        let bytes = database::root(&db, &file)?;
        let (root, keys) = self.open_root(&bytes)?;
        Ok(Snapshot { db, file, root, keys, elsewhere: self.elsewhere.clone() })
    }
}

impl Keys {
    pub(super) fn of(&self, slot: Slot) -> Option<&ValueKey> {
        if slot.is_shared() { Some(&self.shared) } else { self.owner.as_ref() }
    }
}

impl Snapshot {
    /// The commit, and what it consists of.
    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// Whether there is a value in a slot.
    pub(crate) fn contains(&self, slot: Slot) -> bool {
        self.root.entries.contains_key(&slot)
    }

    /// The value in a slot.
    pub(crate) fn read(&self, slot: Slot) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        let sealed = self.sealed(slot)?;
        self.open(slot, &sealed)
    }

    /// The value in a slot as it is stored, known by its digest to be of this commit.
    pub(crate) fn sealed(&self, slot: Slot) -> Result<Vec<u8>, VaultError> {
        let mut found = self.stored(&[slot])?;
        let (_, sealed, entry) = found.pop().expect("one for every slot");
        if digest_of(&sealed) == entry.digest { Ok(sealed) } else { Err(self.broken(slot)) }
    }

    /// The bytes in slots, of the length they must have; their digests are for the caller to check.
    fn stored(&self, slots: &[Slot]) -> Result<Vec<Stored>, VaultError> {
        let (mut found, mut absent) = (Vec::with_capacity(slots.len()), Vec::new());
        for &slot in slots {
            let Some(&entry) = self.root.entries.get(&slot) else {
                return Err(VaultError::Absent {
                    file: self.file.clone(),
                    value: slot.to_string(),
                });
            };
            let sealed = database::value(&self.db, slot.id(), &self.file)?;
            let sealed = sealed.ok_or_else(|| self.missing(slot))?;
            if sealed.is_empty() && slot.may_be_elsewhere() {
                absent.push((slot, entry));
            }
            found.push((slot, sealed, entry));
        }
        let mut fetched = self.fetch(&absent)?.into_iter();
        let whole = |(slot, here, entry): Stored| {
            let elsewhere = here.is_empty() && slot.may_be_elsewhere();
            let sealed = if elsewhere { fetched.next().unwrap_or_default() } else { here };
            let whole = sealed.len() == entry.length as usize;
            if whole { Ok((slot, sealed, entry)) } else { Err(self.broken(slot)) }
        };
        found.into_iter().map(whole).collect()
    }

    fn open(&self, slot: Slot, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, VaultError> {
        let key = self.keys.of(slot).ok_or_else(|| VaultError::QueryVault {
            directory: self.file.clone(),
            refused: "open its owner's values",
        })?;
        key.open(slot, sealed).map_err(|_| self.broken(slot))
    }

    pub(super) fn missing(&self, slot: Slot) -> VaultError {
        VaultError::Missing { file: self.file.clone(), value: slot.to_string() }
    }

    pub(super) fn broken(&self, slot: Slot) -> VaultError {
        VaultError::SealBroken { file: self.file.clone(), value: slot.to_string() }
    }

    /// Reads the values of many slots of one table, decodes them on all cores, and hands them over
    /// in order, each with its number.
    pub(crate) fn each<T: Send, E: Send + From<VaultError>>(
        &self,
        table: fn(u32) -> Slot,
        numbers: &[u32],
        decode: impl Fn(u32, &[u8]) -> Result<T, E> + Sync,
        mut take: impl FnMut(u32, T) -> Result<(), E>,
    ) -> Result<(), E> {
        let keys = &self.keys;
        let Some(first) = numbers.first() else { return Ok(()) };
        let key = keys.of(table(*first)).ok_or_else(|| VaultError::QueryVault {
            directory: self.file.clone(),
            refused: "open its owner's values",
        })?;
        let file = &self.file;
        let open = |(number, (slot, sealed, entry)): (u32, Stored)| {
            let broken = || VaultError::SealBroken { file: file.clone(), value: slot.to_string() };
            if digest_of(&sealed) != entry.digest {
                return Err(broken().into());
            }
            let plain = key.open_in_place(slot, sealed).map_err(|_| broken())?;
            Ok((number, decode(number, &plain)?))
        };
        // While a batch is opened, the next is read and the one before handed over.
        let mut read: Vec<(u32, Stored)> = Vec::new();
        let mut opened: Vec<Result<(u32, T), E>> = Vec::new();
        for batch in numbers.chunks(BATCH).chain([&[][..], &[]]) {
            let (to_open, to_take) = (std::mem::take(&mut read), std::mem::take(&mut opened));
            rayon::in_place_scope(|scope| {
                scope.spawn(|_| opened = to_open.into_par_iter().map(open).collect());
                for value in to_take {
                    let (number, value) = value?;
                    take(number, value)?;
                }
                let slots: Vec<Slot> = batch.iter().map(|&number| table(number)).collect();
                read = batch.iter().copied().zip(self.stored(&slots)?).collect();
                Ok::<_, E>(())
            })?;
        }
        Ok(())
    }

    /// The name of the commit of a generation, if it is one that led here.
    pub(crate) fn commit_at(&self, generation: u64) -> Result<Option<CommitName>, VaultError> {
        let header = &self.root.header;
        if generation == header.generation {
            return Ok(Some(header.commit));
        }
        if generation == 0 || generation > header.generation || self.keys.owner.is_none() {
            return Ok(None);
        }
        let names = self.history(generation / HISTORY_COMMITS)?;
        Ok(names.get((generation % HISTORY_COMMITS) as usize).copied())
    }

    /// The names of all commits that led here, from generation 0 on, which has none. Empty in a query
    /// vault.
    pub(crate) fn whole_history(&self) -> Result<Vec<CommitName>, VaultError> {
        if self.keys.owner.is_none() {
            return Ok(Vec::new());
        }
        let mut names = Vec::new();
        for number in self.root.numbered(Slot::History) {
            names.resize(number as usize * HISTORY_COMMITS as usize, CommitName([0; 16]));
            names.extend(self.history(number.into())?);
        }
        Ok(names)
    }

    /// Names of commits, of which the first is that of generation `HISTORY_COMMITS * number`.
    pub(super) fn history(&self, number: u64) -> Result<Vec<CommitName>, VaultError> {
        let slot = Slot::History(number as u32);
        if self.contains(slot) { Ok(commit_names(&self.read(slot)?)) } else { Ok(Vec::new()) }
    }

    /// Opens every value, and looks for values that belong to no commit. Returns how many were opened,
    /// how many bytes that was, and how many are elsewhere. Owner's values of a query vault are none.
    pub(crate) fn verify(&self) -> Result<Looked, VaultError> {
        database::check_pages(&self.db, &self.file)?;
        let mut looked = Looked::default();
        for (slot, entry) in &self.root.entries {
            if self.keys.of(*slot).is_none() {
                continue;
            }
            if self.lacks(*slot)? {
                looked.elsewhere += 1;
                continue;
            }
            self.read(*slot)?;
            looked.values += 1;
            looked.bytes += u64::from(entry.length);
        }
        for id in database::ids(&self.db, &self.file)? {
            let listed = Slot::from_id(id).is_some_and(|slot| self.contains(slot));
            if !listed {
                return Err(VaultError::Surplus { file: self.file.clone(), id });
            }
        }
        Ok(looked)
    }
}

/// The names in a value of the history, one after the other.
pub(super) fn commit_names(value: &[u8]) -> Vec<CommitName> {
    let (names, _) = value.as_chunks();
    names.iter().copied().map(CommitName).collect()
}
