//! The server in the client's own process, reached over the same bytes as one on a network.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use shard_protocol::{
    Candidates, CollectionName, Epoch, Limits, MessageKind, Refusal, RefusalCode, RerankRequest,
    RowBatch, RowHandle, Transport, message_kind,
};
use shard_store::{EpochStatistics, MemoryRows};

use crate::Server;

/// Gives rows by name.
pub trait RowSource: Send + Sync {
    /// The rows of these names, in any order; names that are nobody's are left out. The error is a
    /// sentence for whoever searches.
    fn rows(&self, handles: &[RowHandle]) -> Result<RowBatch, String>;
}

/// A server that holds published rows of one epoch in memory.
pub struct Embedded {
    server: Server,
    epoch: Epoch,
    source: Option<OnDemand>,
}

/// Rows that are held once a search has named them.
struct OnDemand {
    source: Box<dyn RowSource>,
    held: Mutex<HashSet<RowHandle>>,
}

impl Embedded {
    /// A fresh server that holds these rows.
    pub fn serving(rows: RowBatch) -> Self {
        let epoch = rows.epoch();
        let server = Server::new(Arc::new(MemoryRows::new()), Limits::default());
        server
            .hold(&CollectionName::default(), rows)
            .expect("an empty engine takes rows of any width");
        Self { server, epoch, source: None }
    }

    /// A fresh server that gets rows from a source when a search first names them: for the few
    /// searches for which it does not pay to make them all.
    pub fn on_demand(epoch: Epoch, source: impl RowSource + 'static) -> Self {
        let server = Server::new(Arc::new(MemoryRows::new()), Limits::default());
        let held = Mutex::new(HashSet::new());
        Self { server, epoch, source: Some(OnDemand { source: Box::new(source), held }) }
    }

    /// A fresh server that holds nothing. Whoever makes it publishes to it, by messages.
    pub fn empty(epoch: Epoch) -> Self {
        let server = Server::new(Arc::new(MemoryRows::new()), Limits::default());
        Self { server, epoch, source: None }
    }

    /// What it holds.
    pub fn statistics(&self) -> EpochStatistics {
        let none = EpochStatistics { rows: 0, cells: 0, width: 0 };
        self.server.statistics(&CollectionName::default(), self.epoch).unwrap_or(none)
    }

    /// Gets the rows that a message names.
    fn supply(&self, on_demand: &OnDemand, message: &[u8]) -> Result<(), String> {
        let Some(candidates) = candidates(message) else { return Ok(()) };
        let named = candidates.iter().flat_map(|(_, handles)| handles.iter().copied());
        // Held until the rows are there: whoever names the same ones meanwhile waits.
        let mut held = on_demand.held.lock().unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<RowHandle> = named.filter(|handle| !held.contains(handle)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let rows = on_demand.source.rows(&missing)?;
        let collection = CollectionName::default();
        let taken = if held.is_empty() {
            self.server.hold(&collection, rows)
        } else {
            self.server.hold_more(&collection, rows)
        };
        taken.map_err(|error| error.to_string())?;
        held.extend(missing);
        Ok(())
    }
}

/// The rows that a message names. One that cannot be read names none, and is refused elsewhere.
fn candidates(message: &[u8]) -> Option<Candidates> {
    let limits = Limits::default();
    match message_kind(message).ok()? {
        MessageKind::RerankRequest => {
            Some(RerankRequest::decode(message, &limits).ok()?.candidates().clone())
        }
        #[cfg(feature = "slots")]
        MessageKind::SlotsRequest => {
            let request = shard_protocol::SlotsRequest::decode(message, &limits).ok()?;
            Some(request.candidates().clone())
        }
        _ => None,
    }
}

impl Transport for Embedded {
    type Error = Infallible;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, Infallible> {
        if let Some(on_demand) = &self.source
            && let Err(text) = self.supply(on_demand, &message)
        {
            return Ok(Refusal { code: RefusalCode::Storage, text }.encode());
        }
        Ok(self.server.handle(&CollectionName::default(), &message))
    }
}
