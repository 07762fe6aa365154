//! What owners of copies do with a server.

use std::path::Path;

use shard_client::remote::{
    BackedUp, BackupOptions, PublishOptions, Published, Pulled, Restored, backup, publish, pull,
    renew_checks, restore,
};
use shard_client::vault::Vault;
use shard_client::{ClientError, SearchOptions, Searcher, Transport, UNWATCHED};
use shard_protocol::{BlobName, CollectionName};

use crate::support::Served;
use crate::vaults::{Owner, unlock};

impl Owner {
    pub fn publish(
        &self,
        transport: &impl Transport<Error: Into<ClientError>>,
    ) -> Result<Published, ClientError> {
        publish(&self.vault, PublishOptions::default(), transport, UNWATCHED)
    }

    /// Publishes, by an empty commit where checks are to be others.
    pub fn publish_with_fresh_checks(
        &mut self,
        transport: &impl Transport<Error: Into<ClientError>>,
        fresh_checks: bool,
    ) -> Result<Published, ClientError> {
        let options = PublishOptions { fresh_checks, ..PublishOptions::default() };
        let once = |vault: &Vault| publish(vault, options, transport, UNWATCHED);
        match once(&self.vault) {
            Err(ClientError::StaleChecks) => {
                renew_checks(&mut self.vault, &mut self.rng)?;
                once(&self.vault)
            }
            outcome => outcome,
        }
    }

    pub fn replace(
        &self,
        transport: &impl Transport<Error: Into<ClientError>>,
    ) -> Result<Published, ClientError> {
        publish(
            &self.vault,
            PublishOptions { replace: true, ..PublishOptions::default() },
            transport,
            UNWATCHED,
        )
    }

    pub fn pull(
        &mut self,
        transport: &impl Transport<Error: Into<ClientError>>,
    ) -> Result<Pulled, ClientError> {
        pull(&mut self.vault, transport, UNWATCHED, &mut self.rng)
    }

    pub fn back_up(
        &self,
        transport: &impl Transport<Error: Into<ClientError>>,
    ) -> Result<BackedUp, ClientError> {
        backup(&self.vault, BackupOptions::default(), transport, UNWATCHED)
    }

    /// Backs up and keeps this many backups.
    pub fn back_up_keeping(
        &self,
        keep: usize,
        transport: &impl Transport<Error: Into<ClientError>>,
    ) -> Result<BackedUp, ClientError> {
        backup(&self.vault, BackupOptions { replace: false, keep }, transport, UNWATCHED)
    }

    /// Backs up whatever is there.
    pub fn replace_backup(&self, served: &Served) -> Result<BackedUp, ClientError> {
        let options = BackupOptions { replace: true, ..BackupOptions::default() };
        backup(&self.vault, options, served, UNWATCHED)
    }

    /// Another copy, from the newest backup.
    pub fn restored(&self, seed: u64, served: &Served) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fetch(served, &directory.path().join("vault")).unwrap();
        Self::at(directory, seed, self)
    }

    pub fn search(&mut self, served: &Served) -> Result<Vec<String>, ClientError> {
        let query = self.queries(1);
        let collection = self.collection();
        let options = SearchOptions { candidates: Some(20), ..SearchOptions::default() };
        let answer = Searcher::new(served).search(&collection, query.row(0), &options)?;
        let id = |row| collection.index().id(row).to_owned();
        Ok(answer.hits.iter().map(|hit| id(hit.row)).collect())
    }
}

/// Fetches the newest backup.
pub fn fetch(
    transport: &impl Transport<Error: Into<ClientError>>,
    into: &Path,
) -> Result<Restored, ClientError> {
    restore(transport, into, &unlock(), None, UNWATCHED)
}

/// Names and lengths of what a server keeps.
pub fn blobs(served: &Served) -> Vec<(BlobName, u64)> {
    served.rows().blobs(&CollectionName::default(), None, 10_000).unwrap_or_default()
}

/// Every blob with its bytes, and what is published.
pub fn held(served: &Served) -> (Vec<(BlobName, Vec<u8>)>, shard_protocol::CollectionState) {
    let main = CollectionName::default();
    let bytes = |name: BlobName| (name.clone(), served.rows().blob(&main, &name).unwrap());
    let kept = blobs(served).into_iter().map(|(name, _)| bytes(name)).collect();
    (kept, shard_client::remote::describe(served).unwrap())
}
