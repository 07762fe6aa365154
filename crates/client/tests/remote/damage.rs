//! A server whose row file is damaged on disk: what is said, and that a publish brings it back.

use std::path::PathBuf;
use std::sync::Arc;

use shard_client::remote::{PublishOptions, Published, describe, publish};
use shard_client::{ClientError, SearchOptions, Searcher, Transport, UNWATCHED, published_rows};
use shard_protocol::{CollectionName, Limits};
use shard_server::Server;
use shard_store::{RedbRows, StoreOptions};
use tempfile::TempDir;

use crate::vaults::Owner;

/// A server over rows on disk.
struct Disk {
    directory: TempDir,
    server: Option<Server>,
}

impl Disk {
    fn new() -> Self {
        let mut disk = Self { directory: tempfile::tempdir().unwrap(), server: None };
        disk.start();
        disk
    }

    fn start(&mut self) {
        let rows = RedbRows::open(self.directory.path(), StoreOptions::default()).unwrap();
        self.server = Some(Server::new(Arc::new(rows), Limits::default()));
    }

    fn files(&self, prefix: &str) -> Vec<PathBuf> {
        let list = std::fs::read_dir(self.directory.path()).unwrap();
        let mut files: Vec<PathBuf> = list.map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix));
        files
    }

    /// Flips a bit wherever these bytes are in the row file, while the server is stopped.
    fn damage(&mut self, pattern: &[u8]) {
        self.server = None;
        let path = self.files("rows-").remove(0);
        let mut bytes = std::fs::read(&path).unwrap();
        let places: Vec<usize> = (0..bytes.len() - pattern.len())
            .filter(|&at| bytes[at..at + pattern.len()] == *pattern)
            .collect();
        assert!(!places.is_empty(), "nothing to damage");
        places.iter().for_each(|&at| bytes[at + 3] ^= 0x10);
        std::fs::write(path, bytes).unwrap();
        self.start();
    }
}

impl Transport for Disk {
    type Error = ClientError;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        Ok(self.server.as_ref().unwrap().handle(&CollectionName::default(), &message))
    }
}

fn put(owner: &Owner, disk: &Disk, replace: bool) -> Result<Published, ClientError> {
    publish(&owner.vault, PublishOptions { replace, ..PublishOptions::default() }, disk, UNWATCHED)
}

/// Searches so that every document is scored.
fn search(owner: &mut Owner, disk: &Disk) -> Result<(), ClientError> {
    let query = owner.queries(1);
    let options = SearchOptions { candidates: Some(40), ..SearchOptions::default() };
    Searcher::new(disk).search(&owner.collection(), query.row(0), &options).map(drop)
}

#[test]
fn a_damaged_row_is_found_by_a_search_and_brought_back_by_a_publish() {
    let mut owner = Owner::with_documents(40);
    let mut disk = Disk::new();
    put(&owner, &disk, false).unwrap();
    search(&mut owner, &disk).unwrap();
    let rows = published_rows(&owner.vault).unwrap();
    let handle = owner.collection().index().handle(7);
    let row = rows.rows().iter().find(|row| row.handle == handle).unwrap();
    disk.damage(&row.coordinates.iter().flat_map(|z| z.to_le_bytes()).collect::<Vec<u8>>());
    let error = search(&mut owner, &disk).unwrap_err();
    assert!(
        matches!(&error, ClientError::DamagedRows { what } if what.contains("row ")),
        "{error}"
    );
    let damage = describe(&disk).unwrap().damage.unwrap();
    assert!(damage.contains(&row.handle.to_string()), "{damage}");
    let done = put(&owner, &disk, false).unwrap();
    assert_eq!((done.uploaded, done.unchanged), (rows.rows().len(), 0));
    assert_eq!(describe(&disk).unwrap().damage, None);
    search(&mut owner, &disk).unwrap();
    assert_eq!(disk.files("damaged-rows-").len(), 1);
    assert_eq!(put(&owner, &disk, false).unwrap().uploaded, 0);
}

#[test]
fn damage_that_a_publish_meets_is_repaired_by_that_publish() {
    let mut owner = Owner::with_documents(40);
    let mut disk = Disk::new();
    put(&owner, &disk, false).unwrap();
    let collection = owner.collection();
    let rows = published_rows(&owner.vault).unwrap();
    disk.damage(&collection.keys().row_mac(&rows.rows()[5]));
    let done = put(&owner, &disk, false).unwrap();
    assert_eq!((done.uploaded, done.activated), (rows.rows().len(), true));
    search(&mut owner, &disk).unwrap();
    assert_eq!(disk.files("damaged-rows-").len(), 1);
}

#[test]
fn a_collection_whose_commit_is_lost_is_replaced_deliberately_only() {
    let mut owner = Owner::with_documents(40);
    let mut disk = Disk::new();
    put(&owner, &disk, false).unwrap();
    disk.damage(&owner.collection().position().commit().0);
    let error = put(&owner, &disk, false).unwrap_err();
    assert!(matches!(error, ClientError::UnknownState { .. }), "{error}");
    assert!(disk.files("damaged-rows-").is_empty(), "nothing was touched");
    put(&owner, &disk, true).unwrap();
    search(&mut owner, &disk).unwrap();
    assert_eq!(put(&owner, &disk, false).unwrap().uploaded, 0);
    assert_eq!(disk.files("damaged-rows-").len(), 1);
}
