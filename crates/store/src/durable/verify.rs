//! The check of a directory: every page, every checksum, and whether the tables agree.
//!
//! Nothing is written: redb sees the file through an overlay. A damaged file is described, as
//! far as it can be read, rather than refused.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use shard_protocol::{CellHandle, CollectionName, Epoch, RowHandle};

use super::database::{RowDatabase, View, guarded};
use super::directory::{self, Directory};
use super::key::{CollectionId, Table, blob_name, words};
use super::record::{EpochRecord, NameRecord, decode_word, norm, split_row};
use crate::StoreError;

/// Problems that are described one by one; those beyond are counted.
const DESCRIBED: usize = 1000;
/// Bytes of memory for pages while a file is checked.
const CACHE: usize = 64 << 20;

/// What a check has found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verification {
    /// Collections.
    pub collections: u64,
    /// Epochs of all collections.
    pub epochs: u64,
    /// Rows of all epochs.
    pub rows: u64,
    /// Blobs of all collections.
    pub blobs: u64,
    /// What is wrong, in words.
    pub problems: Vec<String>,
}

impl Verification {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Checks the directory of a server that is not running, or a snapshot. An error means that it
/// could not be looked at; what is wrong with it is in the [`Verification`].
pub fn verify(directory: &Path) -> Result<Verification, StoreError> {
    let _lock = Directory::open_to_read(directory)?;
    let Some(generation) = directory::current(directory)? else {
        return Err(directory::without_rows(directory));
    };
    let path = directory::row_file(directory, generation);
    let mut check = Check::default();
    match RowDatabase::open_read_only(&path, CACHE)
        .and_then(|mut database| database.check_integrity())
    {
        Ok(true) => {}
        Ok(false) => check.problem("the pages of the row file are damaged"),
        Err(error) => check.problem(error),
    }
    // A second handle: the check may have repaired what it saw, which would hide what was wrong.
    match RowDatabase::open_read_only(&path, CACHE).and_then(|database| View::open(database.into()))
    {
        Ok(view) => check.walk(&view),
        Err(error) => check.problem(error),
    }
    Ok(check.finish())
}

#[derive(Default)]
struct Check {
    found: Verification,
    unnamed: usize,
    names: BTreeMap<CollectionId, CollectionName>,
    epochs: BTreeMap<(CollectionId, Epoch), (EpochRecord, u64)>,
    blobs: BTreeMap<CollectionId, (u64, u64)>,
}

impl Check {
    fn problem(&mut self, problem: impl ToString) {
        if self.found.problems.len() < DESCRIBED {
            self.found.problems.push(problem.to_string())
        } else {
            self.unnamed += 1
        }
    }

    fn finish(mut self) -> Verification {
        if self.unnamed > 0 {
            self.found.problems.push(format!("and {} more", self.unnamed));
        }
        self.found
    }

    fn walk(&mut self, view: &View) {
        for (name, held) in &view.catalogue.0 {
            self.found.collections += 1;
            if let Some(what) = &held.damage {
                self.problem(format!("damaged: collection {name}: {what}"));
                if !held.is_numbered() {
                    continue;
                }
            }
            self.names.insert(held.record.id, name.clone());
            self.blobs.insert(held.record.id, (held.record.blobs, 0));
            for (&number, &epoch) in &held.epochs {
                self.found.epochs += 1;
                self.epochs.insert((held.record.id, number), (epoch, 0));
            }
        }
        self.table(view, Table::Epochs, Self::epoch);
        self.table(view, Table::Rows, Self::row);
        self.table(view, Table::Names, Self::name);
        self.table(view, Table::Tombstones, Self::tombstone);
        self.table(view, Table::Blobs, Self::blob);
        self.table(view, Table::Lengths, Self::length);
        self.counts();
    }

    /// Looks at every record of a table; `look` says whether a whole record makes sense.
    fn table(
        &mut self,
        view: &View,
        table: Table,
        look: impl Fn(&mut Self, &View, &[u8], &[u8]) -> bool,
    ) {
        let doing = "read the row file";
        let outcome = guarded(view.database().condition(), doing, || {
            view.scan(table, &[], Bound::Unbounded, |key, record| {
                let sound = match table.unseal(key, record) {
                    Ok(body) => look(self, view, key, body),
                    Err(_) => false,
                };
                if !sound {
                    let which = self.describe(table, key);
                    self.problem(format!("damaged: {which}"));
                }
                Ok(true)
            })
        });
        if let Err(error) = outcome {
            self.problem(format!("the table {} cannot be read to its end: {error}", table.name()));
        }
    }

    fn epoch(&mut self, _: &View, key: &[u8], _: &[u8]) -> bool {
        words(key)
            .is_some_and(|[id, epoch]| self.epochs.contains_key(&(CollectionId(id), Epoch(epoch))))
    }

    fn row(&mut self, view: &View, key: &[u8], body: &[u8]) -> bool {
        self.found.rows += 1;
        let Some([id, epoch, cell, handle]) = words(key) else { return false };
        let (id, epoch) = (CollectionId(id), Epoch(epoch));
        let Some((record, rows)) = self.epochs.get_mut(&(id, epoch)) else { return false };
        *rows += 1;
        let sound = split_row(body).is_some_and(|(recorded, coordinates)| {
            coordinates.len() == record.width && norm(coordinates) == recorded
        });
        let name = id.named(epoch, RowHandle(handle));
        let named = view.read(Table::Names, &name, NameRecord::decode);
        if !matches!(named, Ok(Some(name)) if name.cell == CellHandle(cell)) {
            let which = self.describe(Table::Rows, key);
            self.problem(format!("without a name that points to it: {which}"));
        }
        sound
    }

    fn name(&mut self, view: &View, key: &[u8], body: &[u8]) -> bool {
        let (Some([id, epoch, handle]), Some(name)) = (words(key), NameRecord::decode(body)) else {
            return false;
        };
        let row = CollectionId(id).row(Epoch(epoch), name.cell, RowHandle(handle));
        if !matches!(view.raw(Table::Rows, &row), Ok(Some(_))) {
            let which = self.describe(Table::Names, key);
            self.problem(format!("without a row: {which}"));
        }
        true
    }

    fn tombstone(&mut self, view: &View, key: &[u8], body: &[u8]) -> bool {
        if matches!(view.raw(Table::Names, key), Ok(Some(_))) {
            let which = self.describe(Table::Tombstones, key);
            self.problem(format!("deleted and there all the same: {which}"));
        }
        let epoch = words(key).map(|[id, epoch, _]| (CollectionId(id), Epoch(epoch)));
        decode_word(body).is_some() && epoch.is_some_and(|epoch| self.epochs.contains_key(&epoch))
    }

    fn blob(&mut self, view: &View, key: &[u8], body: &[u8]) -> bool {
        self.found.blobs += 1;
        let Some((id, _)) = blob_name(key) else { return false };
        let Some((_, blobs)) = self.blobs.get_mut(&id) else { return false };
        *blobs += 1;
        let length = view.read(Table::Lengths, key, decode_word);
        matches!(length, Ok(Some(length)) if length == body.len() as u64)
    }

    fn length(&mut self, view: &View, key: &[u8], body: &[u8]) -> bool {
        decode_word(body).is_some() && matches!(view.raw(Table::Blobs, key), Ok(Some(_)))
    }

    fn counts(&mut self) {
        let epochs = std::mem::take(&mut self.epochs);
        for ((id, epoch), (record, rows)) in epochs.into_iter().filter(|(_, (e, n))| e.rows != *n) {
            let collection = self.collection(id);
            let expected = record.rows;
            self.problem(format!("{collection}, epoch {epoch}: {rows} rows, not {expected}"));
        }
        let blobs = std::mem::take(&mut self.blobs);
        for (id, (expected, blobs)) in blobs.into_iter().filter(|(_, (e, n))| e != n) {
            let collection = self.collection(id);
            self.problem(format!("{collection}: {blobs} blobs, not {expected}"));
        }
    }

    fn collection(&self, id: CollectionId) -> String {
        match self.names.get(&id) {
            Some(name) => format!("collection {name}"),
            None => format!("collection number {} without a name", id.0),
        }
    }

    /// A record in words: collection, epoch, handle.
    fn describe(&self, table: Table, key: &[u8]) -> String {
        let place = |id, epoch: u64| {
            format!("{}, epoch {}", self.collection(CollectionId(id)), Epoch(epoch))
        };
        let described = match table {
            Table::Rows => words(key).map(|[id, epoch, cell, handle]| {
                let (cell, handle) = (CellHandle(cell), RowHandle(handle));
                format!("{}, row {handle} in cell {cell}", place(id, epoch))
            }),
            Table::Names | Table::Tombstones => words(key).map(|[id, epoch, handle]| {
                let what = if table == Table::Names { "name" } else { "deletion" };
                format!("{}, {what} of row {}", place(id, epoch), RowHandle(handle))
            }),
            Table::Epochs => words(key).map(|[id, epoch]| place(id, epoch)),
            Table::Blobs | Table::Lengths => {
                blob_name(key).map(|(id, name)| format!("{}, blob {name}", self.collection(id)))
            }
            Table::State | Table::Collections => None,
        };
        described.unwrap_or_else(|| format!("a key of the table {}", table.name()))
    }
}
