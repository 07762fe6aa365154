//! A query vault, brought forward within its epoch.

use shard_client::remote::{Pulled, pull};
use shard_client::vault::{KdfCost, Vault};
use shard_client::{
    ClientError, Collection, SearchOptions, Searcher, UNWATCHED, export_query_vault, verify_vault,
};
use tempfile::TempDir;

use crate::support::{CutOff, Served};
use crate::vaults::{Owner, contents, unlock};

/// Somebody who may search.
pub struct Reader {
    directory: TempDir,
    pub vault: Vault,
}

impl Reader {
    pub fn of(owner: &mut Owner) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (path, cost) = (directory.path().join("vault"), KdfCost::default());
        let vault = export_query_vault(&owner.vault, &path, &unlock(), cost, &mut owner.rng);
        Self { directory, vault: vault.unwrap() }
    }

    pub fn pull(
        &mut self,
        transport: &impl shard_client::Transport<Error: Into<ClientError>>,
        owner: &mut Owner,
    ) -> Result<Pulled, ClientError> {
        pull(&mut self.vault, transport, UNWATCHED, &mut owner.rng)
    }

    /// The ids of all documents, once the vault is known to be whole.
    pub fn ids(&self) -> Vec<String> {
        verify_vault(&self.vault, UNWATCHED).unwrap();
        let collection = Collection::open(&self.vault).unwrap();
        let mut ids: Vec<String> = collection.index().ids().map(str::to_owned).collect();
        ids.sort();
        ids
    }

    pub fn search(&self, owner: &mut Owner, served: &Served) -> Result<(), ClientError> {
        let query = owner.queries(1);
        let collection = Collection::open(&self.vault)?;
        let options = SearchOptions { candidates: Some(40), ..SearchOptions::default() };
        Searcher::new(served).search(&collection, query.row(0), &options).map(drop)
    }
}

fn ids(owner: &Owner) -> Vec<String> {
    owner.documents().into_keys().collect()
}

#[test]
fn a_query_vault_is_brought_forward_within_its_epoch() {
    let served = Served::new(None);
    let mut owner = Owner::with_documents(40);
    owner.publish(&*served).unwrap();
    let mut reader = Reader::of(&mut owner);
    let nothing = reader.pull(&*served, &mut owner).unwrap();
    assert_eq!((nothing.from, nothing.bytes), (nothing.to, 0));
    owner.put("new");
    let all: Vec<String> = (0..40).map(|id| id.to_string()).collect();
    owner.ingest(&all);
    owner.delete("3");
    owner.publish(&*served).unwrap();
    assert!(reader.search(&mut owner, &served).is_err(), "its rows are gone");
    let pulled = reader.pull(&*served, &mut owner).unwrap();
    let head = owner.vault.head().unwrap();
    assert_eq!((pulled.to, reader.vault.head().unwrap()), (head.generation, head));
    assert_eq!(reader.ids(), ids(&owner));
    reader.search(&mut owner, &served).unwrap();
    // What only the owner may open it does not have.
    let (shared, all) = (contents(&reader.directory.path().join("vault")), contents(&owner.path()));
    assert_eq!(shared.1, all.1, "the root");
    assert!(shared.2.keys().all(|id| id >> 32 >= 16));
    assert!(shared.2.iter().all(|(id, value)| all.2[id] == *value));
    assert_eq!(shared.2.len(), all.2.keys().filter(|id| **id >> 32 >= 16).count());
}

#[test]
fn a_query_vault_of_another_epoch_is_refused() {
    let served = Served::new(None);
    let mut owner = Owner::with_documents(40);
    owner.publish(&*served).unwrap();
    let mut copy = owner.copy(11);
    let mut reader = Reader::of(&mut owner);
    owner.rekey();
    owner.publish(&*served).unwrap();
    // Also of an epoch that has the number of the published one and other keys.
    copy.rekey();
    let mut unpublished = Reader::of(&mut copy);
    for reader in [&mut reader, &mut unpublished] {
        let before = contents(&reader.directory.path().join("vault"));
        let error = reader.pull(&*served, &mut owner).unwrap_err();
        assert!(matches!(error, ClientError::Revoked { .. }), "{error}");
        assert_eq!(contents(&reader.directory.path().join("vault")), before);
    }
    let mut fresh = Reader::of(&mut owner);
    fresh.pull(&*served, &mut owner).unwrap();
    fresh.search(&mut owner, &served).unwrap();
}

#[test]
fn a_query_vault_is_not_brought_back() {
    let served = Served::new(None);
    let mut owner = Owner::with_documents(40);
    owner.publish(&*served).unwrap();
    owner.put("new");
    let mut reader = Reader::of(&mut owner);
    let error = reader.pull(&*served, &mut owner).unwrap_err();
    assert!(matches!(error, ClientError::ServerBehind { .. }), "{error}");
    owner.publish(&*served).unwrap();
    assert_eq!(reader.pull(&*served, &mut owner).unwrap().bytes, 0);
    let mut other = Owner::seeded(9, 40, 24);
    other.replace(&*served).unwrap();
    let error = reader.pull(&*served, &mut owner).unwrap_err();
    assert!(matches!(error, ClientError::NotThisVault), "{error}");
    let error = Reader::of(&mut other).pull(&*Served::new(None), &mut owner).unwrap_err();
    assert!(matches!(error, ClientError::NothingPublished), "{error}");
}

#[test]
fn a_query_vaults_pull_that_is_cut_off_anywhere_leaves_the_old_state() {
    let served = Served::new(None);
    let mut owner = Owner::with_documents(40);
    owner.publish(&*served).unwrap();
    let mut reader = Reader::of(&mut owner);
    let old = reader.ids();
    owner.put("new");
    owner.delete("3");
    owner.publish(&*served).unwrap();
    for cut in 0.. {
        if reader.pull(&CutOff::anywhere(cut, &served), &mut owner).is_ok() {
            assert!(cut > 3, "state, root and values had to be fetched");
            break;
        }
        assert_eq!(reader.ids(), old);
    }
    assert_eq!(reader.ids(), ids(&owner));
}
