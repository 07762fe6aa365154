//! What a publish sends: the rows that differ, and how they travel.
//!
//! The order is that in which it disturbs others least. Rows that are new come first, since no
//! older copy of the vault names them; then rows that changed; then deletions. Rows of another
//! epoch are out of sight until the last step of a publish, which swaps epochs at once.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use shard_protocol::{
    Advance, DecodeError, DeleteRows, Disclosed, Epoch, Leak, Limits, ListMacs, PublishRows,
    RowBatch, RowHandle, RowMac, RowMacs, declassify,
};
use subtle::ConstantTimeEq;

use crate::error::ClientError;
use crate::progress::{Progress, Watch};
use crate::transport::{Channel, accepted, exchange};

/// Bytes of rows in one message: few enough to be done in a moment, enough to fill a link.
const BATCH_BYTES: usize = 4 << 20;

/// Batches on their way at once.
const IN_FLIGHT: usize = 3;

/// Rows of one message at most, however short they are: a quarter of what servers take.
const ROWS_AT_ONCE: usize = 1 << 14;

/// Where the server differs from the vault; rows by their place in the published rows.
#[derive(Default)]
pub(super) struct Changes {
    new: Vec<usize>,
    changed: Vec<usize>,
    gone: Vec<RowHandle>,
}

impl Changes {
    pub(super) fn count(&self) -> usize {
        self.uploads() + self.deletions()
    }

    /// Rows to send.
    pub(super) fn uploads(&self) -> usize {
        self.new.len() + self.changed.len()
    }

    /// Rows to remove.
    pub(super) fn deletions(&self) -> usize {
        self.gone.len()
    }

    /// Goes through the server's MACs and the vault's side by side: both are in handle order.
    pub(super) fn find(
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
pub(super) struct Transfer<'a> {
    published: &'a RowBatch,
    macs: &'a [RowMac],
    advance: Advance,
    transport: &'a dyn Channel,
    watch: &'a Watch<'a>,
    tally: Mutex<Tally>,
}

struct Tally {
    progress: Progress,
    bytes: u64,
}

impl<'a> Transfer<'a> {
    pub(super) fn new(
        published: &'a RowBatch,
        macs: &'a [RowMac],
        advance: Advance,
        transport: &'a dyn Channel,
        watch: &'a Watch<'a>,
    ) -> Self {
        let tally = Tally { progress: Progress { done: 0, total: 0 }, bytes: 0 };
        Self { published, macs, advance, transport, watch, tally: Mutex::new(tally) }
    }

    pub(super) fn advance(&self) -> Disclosed<Advance> {
        declassify(self.advance, Leak::CollectionShape)
    }

    pub(super) fn epoch(&self) -> Disclosed<Epoch> {
        declassify(self.published.epoch(), Leak::CollectionShape)
    }

    /// Sends what differs, in the order that disturbs others least.
    pub(super) fn send_all(&mut self, changes: &Changes) -> Result<(), ClientError> {
        let tally = self.tally.get_mut().unwrap_or_else(PoisonError::into_inner);
        tally.progress.total = changes.count() as u64;
        self.tell(0, 0)?;
        self.upload(&changes.new)?;
        self.upload(&changes.changed)?;
        self.delete(&changes.gone)
    }

    pub(super) fn into_bytes(self) -> u64 {
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
        let message = PublishRows::new(self.advance(), batch, macs).encode();
        self.send(message, rows.len())
    }

    fn delete(&self, gone: &[RowHandle]) -> Result<(), ClientError> {
        for handles in gone.chunks(ROWS_AT_ONCE) {
            let handles = declassify(handles.to_vec(), Leak::StoredRows);
            let message = DeleteRows::new(self.advance(), self.epoch(), handles.clone()).encode();
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
