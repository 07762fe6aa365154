//! One change to the row file: a redb transaction, the catalogue it leads to, and what it makes
//! stale.

use std::collections::BTreeSet;
use std::sync::Arc;

use redb::{ReadableTable, WriteTransaction};
use shard_protocol::CollectionName;

use super::cache::Stale;
use super::catalogue::{Catalogue, CatalogueEntry};
use super::database::{View, failed};
use super::key::{CollectionId, STATE_KEY, Table, after_prefix, damaged};
use super::record::State;
use crate::StoreError;
use crate::rules::room_for_collection;

/// Records that changes have touched, by key or by prefix: what a compaction has to copy again.
#[derive(Default, Debug)]
pub(super) struct Touched {
    pub keys: BTreeSet<(Table, Vec<u8>)>,
    pub prefixes: BTreeSet<(Table, Vec<u8>)>,
}

impl Touched {
    pub(super) fn len(&self) -> usize {
        self.keys.len() + self.prefixes.len()
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.keys.append(&mut other.keys);
        self.prefixes.append(&mut other.prefixes);
    }
}

/// What a change leads to once it is committed.
pub(super) struct Effects {
    pub state: State,
    pub catalogue: Catalogue,
    pub stale: Vec<Stale>,
    /// What a compaction that is under way must hear of.
    pub touched: Option<Touched>,
}

/// A change that is being made.
pub(super) struct Draft<'t> {
    doing: &'static str,
    tables: Vec<redb::Table<'t, &'static [u8], &'static [u8]>>,
    changed: bool,
    effects: Effects,
}

impl<'t> Draft<'t> {
    /// Begins on what `view` shows; `recording` when a compaction must hear of the keys.
    pub(super) fn new(
        transaction: &'t WriteTransaction,
        view: &View,
        doing: &'static str,
        recording: bool,
    ) -> Result<Self, StoreError> {
        let open = |table: Table| transaction.open_table(table.definition());
        let tables: Result<_, redb::TableError> = Table::ALL.into_iter().map(open).collect();
        let effects = Effects {
            state: view.state,
            catalogue: view.catalogue.clone(),
            stale: Vec::new(),
            touched: recording.then(Touched::default),
        };
        Ok(Self { doing, tables: tables.map_err(failed(doing))?, changed: false, effects })
    }

    /// Ends the change; `None` when it changed nothing.
    pub(super) fn finish(mut self) -> Result<Option<Effects>, StoreError> {
        if !self.changed {
            return Ok(None);
        }
        self.effects.state.sequence += 1;
        let state = self.effects.state.encode();
        self.put(Table::State, STATE_KEY, state)?;
        Ok(Some(self.effects))
    }

    pub(super) fn catalogue(&self) -> &Catalogue {
        &self.effects.catalogue
    }

    /// A collection as it is, or as a new one would be if there is room for it.
    pub(super) fn collection(
        &mut self,
        name: &CollectionName,
    ) -> Result<CatalogueEntry, StoreError> {
        let collections = &self.effects.catalogue.0;
        if let Some(held) = collections.get(name) {
            held.sound()?;
            return Ok(CatalogueEntry::clone(held));
        }
        room_for_collection(collections.len())?;
        let id = CollectionId(self.effects.state.next_collection);
        self.effects.state.next_collection += 1;
        Ok(CatalogueEntry::new(id))
    }

    /// Writes a collection's record and keeps it in the catalogue.
    pub(super) fn put_collection(
        &mut self,
        name: &CollectionName,
        mut held: CatalogueEntry,
    ) -> Result<(), StoreError> {
        self.put(Table::Collections, name.as_str().as_bytes(), held.record.encode())?;
        held.changed = self.effects.state.sequence + 1;
        self.effects.catalogue.0.insert(name.clone(), Arc::new(held));
        Ok(())
    }

    /// Removes a collection's record.
    pub(super) fn remove_collection(&mut self, name: &CollectionName) -> Result<(), StoreError> {
        self.remove(Table::Collections, name.as_str().as_bytes())?;
        self.effects.catalogue.0.remove(name);
        Ok(())
    }

    /// Writes a record; returns the length of the one it replaces.
    pub(super) fn put(
        &mut self,
        table: Table,
        key: &[u8],
        body: Vec<u8>,
    ) -> Result<Option<u64>, StoreError> {
        self.touch(table, key);
        let record = table.seal(key, body);
        let old = self.tables[table as usize].insert(key, record.as_slice());
        Ok(old.map_err(failed(self.doing))?.map(|old| old.value().len() as u64))
    }

    /// Removes a record; returns the length it had.
    pub(super) fn remove(&mut self, table: Table, key: &[u8]) -> Result<Option<u64>, StoreError> {
        let old = self.tables[table as usize].remove(key).map_err(failed(self.doing))?;
        let length = old.map(|old| old.value().len() as u64);
        if length.is_some() {
            self.touch(table, key);
        }
        Ok(length)
    }

    /// What `decode` makes of the record under a key, if there is one.
    pub(super) fn read<T>(
        &self,
        table: Table,
        key: &[u8],
        decode: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        let Some(record) = self.tables[table as usize].get(key).map_err(failed(self.doing))? else {
            return Ok(None);
        };
        let body = table.unseal(key, record.value())?;
        decode(body).map(Some).ok_or_else(|| damaged(table))
    }

    /// Removes every record whose key begins with a prefix; returns how many bytes they had.
    pub(super) fn remove_prefix(&mut self, table: Table, prefix: &[u8]) -> Result<u64, StoreError> {
        self.changed = true;
        if let Some(touched) = &mut self.effects.touched {
            touched.prefixes.insert((table, prefix.to_vec()));
        }
        remove_prefix(&mut self.tables[table as usize], prefix, self.doing)
    }

    /// Counts a row that is gone but whose bytes the file may still hold.
    pub(super) fn leave_row(&mut self, bytes: u64) {
        self.effects.state.erasable_rows += 1;
        self.leave_bytes(bytes);
    }

    /// Counts bytes that are gone but that the file may still hold.
    pub(super) fn leave_bytes(&mut self, bytes: u64) {
        self.effects.state.erasable_bytes += bytes;
    }

    /// Notes that a whole epoch or collection went, with so many bytes.
    pub(super) fn leave_epoch(&mut self, bytes: u64) {
        self.effects.state.erased = true;
        self.leave_bytes(bytes);
    }

    /// Notes what the cache must forget.
    pub(super) fn stale(&mut self, stale: Stale) {
        self.effects.stale.push(stale);
    }

    fn touch(&mut self, table: Table, key: &[u8]) {
        self.changed = true;
        if let Some(touched) = &mut self.effects.touched {
            touched.keys.insert((table, key.to_vec()));
        }
    }
}

/// Removes every record whose key begins with a prefix; returns how many bytes they had.
pub(super) fn remove_prefix(
    table: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
    prefix: &[u8],
    doing: &'static str,
) -> Result<u64, StoreError> {
    let mut bytes = 0;
    let gone = |_: &[u8], record: &[u8]| {
        bytes += record.len() as u64;
        false
    };
    match after_prefix(prefix) {
        Some(end) => table.retain_in::<&[u8], _>(prefix..end.as_slice(), gone),
        None => table.retain_in::<&[u8], _>(prefix.., gone),
    }
    .map_err(failed(doing))?;
    Ok(bytes)
}
