//! Brings a server's rows to the state of the vault, sending what differs.
//!
//! Every row has a MAC under a key of its epoch. The server's MACs are listed and compared with
//! the vault's; rows whose MAC is missing or differs are sent, rows the vault no longer has are
//! deleted, and the epoch is made the one that is searched. Every step can be repeated: a publish
//! that was cut off is run again and sends the rest.
//!
//! The order is that in which it disturbs others least. Rows that are new come first, since no
//! older copy of the vault names them; then rows that changed; then deletions. Rows of another
//! epoch are out of sight until the last step, which swaps epochs at once.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use shard_protocol::{
    ActivateEpoch, CollectionState, DecodeError, DeleteRows, Disclosed, Epoch, Leak, Limits,
    ListMacs, MessageKind, PublishRows, Revision, RowBatch, RowHandle, RowMac, RowMacs, Transport,
    declassify,
};
use subtle::ConstantTimeEq;

use super::claim::claim;
use crate::collection::Collection;
use crate::error::ClientError;
use crate::progress::{Progress, Watch};
use crate::transport::{Channel, accepted, exchange};

/// Bytes of rows in one message: few enough to be done in a moment, enough to fill a link.
const BATCH_BYTES: usize = 4 << 20;

/// Batches on their way at once.
const IN_FLIGHT: usize = 3;

/// Rows of one message at most, however short they are: a quarter of what servers take.
const ROWS_AT_ONCE: usize = 1 << 14;

/// How to publish.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PublishOptions {
    /// Whether to put this vault in place of another one.
    pub replace: bool,
}

/// What a publish did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Published {
    /// Rows sent.
    pub uploaded: usize,
    /// Rows removed from the server.
    pub deleted: usize,
    /// Rows that were there already.
    pub unchanged: usize,
    /// Bytes of the messages that carried changes.
    pub bytes: u64,
    /// The epoch.
    pub epoch: Epoch,
    /// Whether the server was told to search this epoch and revision; it was not if it did so
    /// already.
    pub activated: bool,
}

/// How far a vault has come.
pub fn vault_revision(collection: &Collection) -> Revision {
    Revision(collection.revision())
}

/// What a server holds of its collection.
pub fn describe(
    transport: &impl Transport<Error: Into<ClientError>>,
) -> Result<CollectionState, ClientError> {
    let limits = Limits::default();
    let answer = exchange(transport, MessageKind::Describe.bare(), &limits)?;
    Ok(CollectionState::decode(&answer, &limits)?)
}

/// Brings the server's rows to the state of the vault.
///
/// # Errors
/// When the collection is another vault's, this is a query vault, the server has seen a later
/// state of the vault, refuses, or cannot be reached, and when `watch` ended it. What was sent by
/// then stays sent, and the next publish goes on from there. Rows of another vault that has come
/// further than this one are not replaced whatever the options say: to the server they are a later
/// state.
pub fn publish(
    collection: &Collection,
    published: &RowBatch,
    options: PublishOptions,
    transport: &impl Transport<Error: Into<ClientError>>,
    watch: &Watch<'_>,
) -> Result<Published, ClientError> {
    let id = collection.vault_id().ok_or(ClientError::SearchOnly)?;
    let (epoch, revision) = (published.epoch(), vault_revision(collection));
    let state = describe(transport)?;
    // Whose the collection is comes first: a later revision of another vault is no later state.
    let current = refuse_if_outdated(&state, epoch, revision);
    if options.replace {
        current?;
        claim(id, true, transport)?;
    } else {
        claim(id, false, transport)?;
        current?;
    }
    let macs: Vec<RowMac> =
        published.rows().par_iter().map(|row| RowMac(collection.keys().row_mac(row))).collect();
    let changes = Changes::find(published, &macs, transport)?;

    let transfer = Transfer {
        published,
        macs: &macs,
        revision,
        transport,
        watch,
        tally: Mutex::new(Tally {
            progress: Progress { done: 0, total: changes.count() as u64 },
            bytes: 0,
        }),
    };
    transfer.tell(0, 0)?;
    transfer.upload(&changes.new)?;
    transfer.upload(&changes.changed)?;
    transfer.delete(&changes.gone)?;
    let activated = (state.current, state.revision) != (Some(epoch), revision);
    if activated {
        let message = ActivateEpoch::new(transfer.revision(), transfer.epoch()).encode();
        accepted(transport, message, &Limits::default())?;
    }
    let uploaded = changes.new.len() + changes.changed.len();
    Ok(Published {
        uploaded,
        deleted: changes.gone.len(),
        unchanged: published.rows().len() - uploaded,
        bytes: transfer.into_bytes(),
        epoch,
        activated,
    })
}

/// The server would refuse as well, but only once something is sent, and in its own words.
fn refuse_if_outdated(
    state: &CollectionState,
    epoch: Epoch,
    revision: Revision,
) -> Result<(), ClientError> {
    let reason = match state.current {
        Some(current) if current > epoch => {
            format!("epoch {current} was published and this vault is at epoch {epoch}")
        }
        _ if state.revision > revision => format!(
            "revision {} was published and this vault is at revision {revision}",
            state.revision
        ),
        _ => return Ok(()),
    };
    Err(ClientError::Outdated { reason })
}

/// Where the server differs from the vault; rows by their place in the published rows.
#[derive(Default)]
struct Changes {
    new: Vec<usize>,
    changed: Vec<usize>,
    gone: Vec<RowHandle>,
}

impl Changes {
    fn count(&self) -> usize {
        self.new.len() + self.changed.len() + self.gone.len()
    }

    /// Goes through the server's MACs and the vault's side by side: both are in handle order.
    fn find(
        published: &RowBatch,
        macs: &[RowMac],
        transport: &dyn Channel,
    ) -> Result<Self, ClientError> {
        let limits = Limits::default();
        let mut changes = Self::default();
        let mut rows = published.rows().iter().zip(macs).enumerate().peekable();
        let mut after: Option<RowHandle> = None;
        loop {
            let page = ListMacs::new(
                declassify(published.epoch(), Leak::CollectionShape),
                after.map(|handle| declassify(handle, Leak::StoredRows)),
            );
            let answer = exchange(transport, page.encode(), &limits)?;
            let page = RowMacs::decode(&answer, &limits)?;
            // Within a page the decoder has seen to it; a page that goes back would never end.
            if page.macs.first().is_some_and(|(first, _)| after.is_some_and(|last| *first <= last))
            {
                return Err(DecodeError::Order("pages of MACs").into());
            }
            for (handle, held) in &page.macs {
                while let Some((at, _)) = rows.next_if(|(_, (row, _))| row.handle < *handle) {
                    changes.new.push(at);
                }
                match rows.next_if(|(_, (row, _))| row.handle == *handle) {
                    None => changes.gone.push(*handle),
                    Some((at, (_, mac))) if bool::from(!mac.0.ct_eq(&held.0)) => {
                        changes.changed.push(at);
                    }
                    Some(_) => {}
                }
            }
            if changes.gone.len() > limits.rows {
                return Err(
                    DecodeError::Invalid("a server with more rows than there can be").into()
                );
            }
            after = page.macs.last().map(|(handle, _)| *handle);
            if !page.is_full() {
                break;
            }
        }
        changes.new.extend(rows.map(|(at, _)| at));
        Ok(changes)
    }
}

/// What all messages of a publish share.
struct Transfer<'a> {
    published: &'a RowBatch,
    macs: &'a [RowMac],
    revision: Revision,
    transport: &'a dyn Channel,
    watch: &'a Watch<'a>,
    tally: Mutex<Tally>,
}

struct Tally {
    progress: Progress,
    bytes: u64,
}

impl Transfer<'_> {
    fn revision(&self) -> Disclosed<Revision> {
        declassify(self.revision, Leak::CollectionShape)
    }

    fn epoch(&self) -> Disclosed<Epoch> {
        declassify(self.published.epoch(), Leak::CollectionShape)
    }

    fn into_bytes(self) -> u64 {
        self.tally.into_inner().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// Counts what is done; an error once somebody wants it to end.
    fn tell(&self, rows: usize, bytes: usize) -> Result<(), ClientError> {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.progress.done += rows as u64;
        tally.bytes += bytes as u64;
        if (self.watch)(tally.progress).is_break() { Err(ClientError::Cancelled) } else { Ok(()) }
    }

    /// Sends rows in batches, several at a time. After a failure nothing more is begun.
    fn upload(&self, rows: &[usize]) -> Result<(), ClientError> {
        let row_bytes = 4 * self.published.width() + 32;
        let batches: VecDeque<&[usize]> =
            rows.chunks((BATCH_BYTES / row_bytes).clamp(1, ROWS_AT_ONCE)).collect();
        let workers = IN_FLIGHT.min(batches.len());
        let waiting = Mutex::new(batches);
        let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let work = || {
            while let Some(batch) = next() {
                let sent = self.send_rows(batch);
                if sent.is_err() {
                    waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
                    return sent;
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let outcomes = workers.into_iter().map(|worker| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            // All are joined before the first failure is told.
            outcomes.fold(Ok(()), Result::and)
        })
    }

    fn send_rows(&self, rows: &[usize]) -> Result<(), ClientError> {
        let batch = RowBatch::new(
            self.epoch(),
            declassify(self.published.width(), Leak::CollectionShape),
            declassify(
                rows.iter().map(|&at| self.published.rows()[at].clone()).collect(),
                Leak::StoredRows,
            ),
        );
        let macs = rows.iter().map(|&at| self.macs[at]).collect();
        let macs = declassify(macs, Leak::StoredRows);
        let message = PublishRows::new(self.revision(), batch, macs).encode();
        self.send(message, rows.len())
    }

    fn delete(&self, gone: &[RowHandle]) -> Result<(), ClientError> {
        for handles in gone.chunks(ROWS_AT_ONCE) {
            let handles = declassify(handles.to_vec(), Leak::StoredRows);
            let message = DeleteRows::new(self.revision(), self.epoch(), handles.clone()).encode();
            self.send(message, handles.len())?;
        }
        Ok(())
    }

    fn send(&self, message: Vec<u8>, rows: usize) -> Result<(), ClientError> {
        let bytes = message.len();
        accepted(self.transport, message, &Limits::default())?;
        self.tell(rows, bytes)
    }
}
