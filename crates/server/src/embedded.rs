//! The server in the client's own process, reached over the same bytes as one on a network.

use std::convert::Infallible;
use std::sync::Arc;

use shard_protocol::{CollectionName, Epoch, Limits, RowBatch, Transport};
use shard_store::{EpochStatistics, MemoryRows};

use crate::Server;

/// A server that holds the published rows of one epoch in memory.
pub struct Embedded {
    server: Server,
    epoch: Epoch,
}

impl Embedded {
    /// A fresh server that holds these rows.
    pub fn serving(rows: RowBatch) -> Self {
        let epoch = rows.epoch();
        let server = Server::new(Arc::new(MemoryRows::new()), Limits::default());
        server
            .hold(&CollectionName::default(), rows)
            .expect("an empty engine takes rows of any width");
        Self { server, epoch }
    }

    /// What it holds.
    pub fn statistics(&self) -> EpochStatistics {
        self.server
            .statistics(&CollectionName::default(), self.epoch)
            .expect("the epoch was published when it was opened")
    }
}

impl Transport for Embedded {
    type Error = Infallible;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, Infallible> {
        Ok(self.server.handle(&CollectionName::default(), &message))
    }
}
