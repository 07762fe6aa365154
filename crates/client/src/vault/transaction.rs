//! From one commit to the next: all of a change, or nothing.

use rand_core::CryptoRng;
use rayon::prelude::*;
use shard_protocol::CommitName;

use super::database::{self, Place};
use super::error::VaultError;
use super::root::{Entry, Root, RootHeader};
use super::snapshot::{HISTORY_COMMITS, Snapshot};
use super::value::{MAX_VALUE_BYTES, Slot, draw_nonce};
use super::{Vault, open_value};
use crate::keys::SaltedEpoch;

/// A change on its way. Dropped before [`Transaction::commit`], it has changed nothing.
///
/// What it reads is the vault before the change; a slot is read before it is written.
pub(crate) struct Transaction<'a> {
    vault: &'a Vault,
    before: Snapshot,
    /// The root to come.
    next: Root,
    changed: bool,
}

impl Vault {
    /// Begins a change. There is one writer at a time; another is refused here, before it has done
    /// any work.
    ///
    /// # Errors
    /// When another writer is at work, or the disk is read only.
    pub(crate) fn transaction(
        &mut self,
        rng: &mut impl CryptoRng,
    ) -> Result<Transaction<'_>, VaultError> {
        let file = self.database();
        let db = database::open(&file)?;
        database::begin_writing(&db, &file)?;
        let before = self.reading(db, file)?;
        let mut commit = CommitName([0; 16]);
        rng.fill_bytes(&mut commit.0);
        let header = before.root.header.next(commit);
        let next = Root { header, entries: before.root.entries.clone() };
        Ok(Transaction { vault: self, before, next, changed: false })
    }
}

impl Transaction<'_> {
    /// The vault before the change.
    pub(crate) fn before(&self) -> &Snapshot {
        &self.before
    }

    /// From now on [`Transaction::before`] shows the vault with what was written so far.
    pub(crate) fn refresh(&mut self) {
        self.before.root = self.next.clone();
    }

    /// The vault.
    pub(crate) fn vault(&self) -> &Vault {
        self.vault
    }

    /// The name of the commit to come.
    pub(crate) fn name(&self) -> CommitName {
        self.next.header.commit
    }

    /// The generation to come.
    pub(crate) fn generation(&self) -> u64 {
        self.next.header.generation
    }

    /// Goes over to the keys of another epoch. Values for those who may search are of one epoch, so
    /// the old ones are removed: all of them are to be written anew.
    pub(crate) fn begin_epoch(&mut self, epoch: SaltedEpoch) -> Result<(), VaultError> {
        self.next.header.epoch = Some(epoch);
        self.before.keys.shared = self.vault.shared_key(Some(&epoch))?;
        let shared = self.next.entries.keys().copied().filter(|slot| slot.is_shared());
        shared.collect::<Vec<_>>().into_iter().try_for_each(|slot| self.remove(slot))
    }

    /// Writes a value.
    pub(crate) fn put(
        &mut self,
        slot: Slot,
        plain: &[u8],
        rng: &mut impl CryptoRng,
    ) -> Result<(), VaultError> {
        self.put_many(&[()], |()| (slot, plain), rng)
    }

    /// Makes, seals and writes many values, on all cores.
    pub(crate) fn put_many<T: Sync, P: AsRef<[u8]> + Send>(
        &mut self,
        items: &[T],
        value: impl Fn(&T) -> (Slot, P) + Sync,
        rng: &mut impl CryptoRng,
    ) -> Result<(), VaultError> {
        let commit = self.next.header.commit;
        let nonces: Vec<_> = items.iter().map(|_| draw_nonce(rng)).collect();
        let keys = &self.before.keys;
        let refused = |directory| VaultError::QueryVault { directory, refused: "be written to" };
        let seal = |(item, nonce)| {
            let (slot, plain) = value(item);
            let key = keys.of(slot).ok_or_else(|| refused(self.vault.directory().to_owned()))?;
            let (sealed, digest) = key.seal(slot, commit, nonce, plain.as_ref());
            Ok((slot, sealed, digest))
        };
        let sealed: Result<Vec<_>, VaultError> = items.par_iter().zip(nonces).map(seal).collect();
        for (slot, sealed, digest) in sealed? {
            if sealed.len() > MAX_VALUE_BYTES {
                let file = self.before.file.clone();
                return Err(VaultError::TooLarge { file, value: slot.to_string() });
            }
            let entry = Entry { digest, length: sealed.len() as u32 };
            self.insert(slot, entry, &sealed)?;
        }
        Ok(())
    }

    fn insert(&mut self, slot: Slot, entry: Entry, sealed: &[u8]) -> Result<(), VaultError> {
        database::put(&self.before.db, Place::Value(slot.id()), sealed, &self.before.file)?;
        self.next.entries.insert(slot, entry);
        self.changed = true;
        Ok(())
    }

    /// Removes a value, if it is there.
    pub(crate) fn remove(&mut self, slot: Slot) -> Result<(), VaultError> {
        if self.next.entries.remove(&slot).is_some() {
            database::remove(&self.before.db, slot.id(), &self.before.file)?;
            self.changed = true;
        }
        Ok(())
    }

    /// Makes the change durable, under a name of its own. A change of nothing is none.
    pub(crate) fn commit(mut self, rng: &mut impl CryptoRng) -> Result<(), VaultError> {
        if !self.changed {
            return Ok(());
        }
        let header = &self.next.header;
        let number = header.generation / HISTORY_COMMITS;
        let mut names = self.before.history(number)?;
        names.resize((header.generation % HISTORY_COMMITS) as usize, CommitName::default());
        names.push(header.commit);
        let names: Vec<u8> = names.iter().flat_map(|name| name.0).collect();
        self.put(Slot::History(number as u32), &names, rng)?;
        let root = self.next.seal(&self.before.keys.shared, &self.vault.owner_key(), rng);
        self.finish(&root)
    }

    /// Writes the root and commits.
    fn finish(self, root: &[u8]) -> Result<(), VaultError> {
        let Snapshot { db, file, .. } = &self.before;
        database::put(db, Place::Root, root, file)?;
        database::commit(db, file)
    }

    /// Takes another commit of the same vault as the state that the change begins from. `fetch`
    /// gets every value of it that is not here already; each is held against the root, and opened,
    /// before it is written.
    pub(crate) fn rebase<E: From<VaultError>>(
        &mut self,
        root: &[u8],
        mut fetch: impl FnMut(Slot, &Entry) -> Result<Vec<u8>, E>,
    ) -> Result<(), E> {
        let (target, keys) = self.vault.open_root(root)?;
        let mine = |slot: Slot| keys.of(slot).is_some();
        let gone = self.next.entries.keys().filter(|slot| !target.entries.contains_key(*slot));
        for slot in gone.copied().filter(|slot| mine(*slot)).collect::<Vec<_>>() {
            self.remove(slot)?;
        }
        for (&slot, entry) in target.entries.iter().filter(|(slot, _)| mine(**slot)) {
            if self.next.entries.get(&slot) != Some(entry) {
                let sealed = fetch(slot, entry)?;
                open_value(&keys, slot, entry, &sealed, &self.before.file)?;
                self.insert(slot, *entry, &sealed)?;
            }
        }
        let header = target.header.next(self.next.header.commit);
        self.next = Root { header, entries: target.entries.clone() };
        self.before.root = target;
        self.before.keys = keys;
        Ok(())
    }

    /// Puts another commit of the same vault in place of this one.
    pub(crate) fn bring_to<E: From<VaultError>>(
        mut self,
        root: &[u8],
        fetch: impl FnMut(Slot, &Entry) -> Result<Vec<u8>, E>,
    ) -> Result<RootHeader, E> {
        self.rebase(root, fetch)?;
        let header = self.before.root.header;
        self.finish(root)?;
        Ok(header)
    }
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Transaction({:?})", self.next.header)
    }
}
