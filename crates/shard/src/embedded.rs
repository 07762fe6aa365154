//! The server in this process, reached over the same bytes as one on a network.

use std::sync::Arc;

use shard_client::{ClientError, Transport, published_rows, vault::Vault};
use shard_protocol::{CollectionName, Epoch, Limits, RowBatch};
use shard_server::Server;
use shard_store::{EpochStatistics, MemoryRows};

/// A server that holds the published rows of one vault in memory.
pub struct Embedded {
    server: Server,
    epoch: Epoch,
}

impl Embedded {
    /// Publishes the published rows of the vault to a fresh server.
    pub fn open(vault: &Vault) -> Result<Self, ClientError> {
        Ok(Self::serving(published_rows(vault)?))
    }

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
    fn exchange(
        &self,
        message: Vec<u8>,
    ) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.server.handle(&CollectionName::default(), &message))
    }
}
