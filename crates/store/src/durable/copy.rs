//! Copies of everything that is live, from a view into a new row file.

use std::ops::Bound;

use super::database::{RowDatabase, View, failed, guarded};
use super::draft::{Touched, remove_prefix};
use super::key::{STATE_KEY, Table};
use super::record::State;
use crate::StoreError;

const COPYING: &str = "copy the rows";

/// What a copy has written and then had to take back.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Leftovers {
    rows: u64,
    bytes: u64,
    erased: bool,
}

impl Leftovers {
    fn count(&mut self, table: Table, bytes: u64) {
        self.rows += u64::from(table == Table::Rows);
        self.bytes += bytes;
    }

    /// The state of a file with what is left in it.
    pub(super) fn state(self, view: &View) -> State {
        State {
            erasable_rows: self.rows,
            erasable_bytes: self.bytes,
            erased: self.erased,
            ..view.state
        }
    }
}

/// Copies every record, each checked, in one transaction. Refuses to copy a file in which rows
/// are damaged or missing: a copy would hide that.
pub(super) fn copy_all(view: &View, target: &RowDatabase, state: State) -> Result<u64, StoreError> {
    guarded(view.database().condition(), COPYING, || {
        let transaction = target.begin_write(COPYING)?;
        let mut counts = [0; Table::ALL.len()];
        for table in Table::ALL.into_iter().filter(|table| *table != Table::State) {
            let mut copy = transaction.open_table(table.definition()).map_err(failed(COPYING))?;
            // Fills pages one after another; refuses keys that are out of order.
            let end = copy.upper_bound_mut(Bound::<&[u8]>::Unbounded);
            let mut end = end.map_err(failed(COPYING))?;
            view.scan(table, &[], Bound::Unbounded, |key, record| {
                table.unseal(key, record)?;
                end.insert_before(key, record).map_err(failed(COPYING))?;
                counts[table as usize] += 1;
                Ok(true)
            })?;
            end.close().map_err(failed(COPYING))?;
        }
        let (expected, rows) = (view.catalogue.rows(), counts[Table::Rows as usize]);
        if rows != expected || counts[Table::Names as usize] != expected {
            return Err(StoreError::Engine {
                doing: COPYING,
                reason: format!(
                    "the row file has {rows} of {expected} rows; a verification says more, a \
                     snapshot restores them"
                ),
            });
        }
        write_state(&transaction, state)?;
        target.commit(transaction, COPYING)?;
        Ok(rows)
    })
}

/// Brings a copy to where `view` is, given everything that changed since it was made.
pub(super) fn catch_up(
    view: &View,
    target: &RowDatabase,
    touched: &Touched,
    left: &mut Leftovers,
) -> Result<State, StoreError> {
    guarded(view.database().condition(), COPYING, || {
        let transaction = target.begin_write(COPYING)?;
        for (table, prefix) in &touched.prefixes {
            let mut copy = transaction.open_table(table.definition()).map_err(failed(COPYING))?;
            let bytes = remove_prefix(&mut copy, prefix, COPYING)?;
            left.bytes += bytes;
            left.erased |= bytes > 0;
        }
        // Tables are opened one at a time; keys are in their order.
        for table in Table::ALL.into_iter().filter(|table| *table != Table::State) {
            let mut copy = transaction.open_table(table.definition()).map_err(failed(COPYING))?;
            for (_, key) in touched.keys.iter().filter(|(touched, _)| *touched == table) {
                let old = match view.raw(table, key)? {
                    Some(record) => copy.insert(key.as_slice(), record.as_slice()),
                    None => copy.remove(key.as_slice()),
                };
                if let Some(old) = old.map_err(failed(COPYING))? {
                    left.count(table, old.value().len() as u64);
                }
            }
        }
        let state = left.state(view);
        write_state(&transaction, state)?;
        target.commit(transaction, COPYING)?;
        Ok(state)
    })
}

pub(super) fn write_state(
    transaction: &redb::WriteTransaction,
    state: State,
) -> Result<(), StoreError> {
    let table = transaction.open_table(Table::State.definition());
    let record = Table::State.seal(STATE_KEY, state.encode());
    let mut table = table.map_err(failed(COPYING))?;
    table.insert(STATE_KEY, record.as_slice()).map_err(failed(COPYING))?;
    Ok(())
}
