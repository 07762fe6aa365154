//! What a search says that the server refused.

use shard_client::remote::{Head, Lineage, PublishOptions, diagnose, publish};
use shard_client::{ClientError, Collection, SearchOptions, Searcher, UNWATCHED, published_rows};
use shard_protocol::CommitName;

use crate::support::Served;
use crate::vaults::Owner;

fn put(owner: &Owner, head: Head, served: &Served) {
    let collection = owner.collection();
    let lineage = Lineage { head, commit_at: &|revision| collection.commit_at(revision) };
    let rows = published_rows(&owner.vault).unwrap();
    let options = PublishOptions { replace: true };
    publish(&collection, &rows, lineage, options, served, UNWATCHED).unwrap();
}

/// The diagnosis of a search that the server must refuse.
fn said(owner: &mut Owner, collection: &Collection, served: &Served) -> ClientError {
    let query = owner.queries(1);
    let options = SearchOptions { candidates: Some(40), ..SearchOptions::default() };
    let refused = Searcher::new(served).search(collection, query.row(0), &options).unwrap_err();
    diagnose(collection, served, refused)
}

#[test]
fn a_refused_search_says_how_vault_and_server_stand() {
    let mut owner = Owner::with_documents(40);
    let served = Served::new(None);
    let old = owner.collection();
    let error = said(&mut owner, &old, &served);
    assert!(matches!(&error, ClientError::Unpublished { reason } if reason.contains("nothing")));

    put(&owner, old.head().unwrap(), &served);
    // All documents replaced: the old copy asks for rows that are gone.
    let ids: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    owner.ingest(&ids);
    let new = owner.collection();
    let error = said(&mut owner, &new, &served);
    let words = format!("the server is at revision {}", old.revision());
    assert!(matches!(&error, ClientError::Unpublished { reason } if reason.contains(&words)));

    put(&owner, new.head().unwrap(), &served);
    let error = said(&mut owner, &old, &served);
    assert!(matches!(error, ClientError::Behind { .. }), "{error}");

    // A commit of another name where the old copy has its own.
    let head = Head { name: CommitName([3; 16]), revision: old.revision() };
    put(&owner, head, &served);
    let error = said(&mut owner, &old, &served);
    assert!(matches!(error, ClientError::Forked { .. }), "{error}");

    // The very commit, and not its rows.
    put(&owner, old.head().unwrap(), &served);
    let error = said(&mut owner, &old, &served);
    assert!(matches!(error, ClientError::Incomplete { .. }), "{error}");

    let other = Owner::seeded(9, 40, 24);
    put(&other, other.collection().head().unwrap(), &served);
    let error = said(&mut owner, &old, &served);
    assert!(matches!(error, ClientError::NotThisVault), "{error}");
}

#[test]
fn what_says_nothing_of_rows_stays_as_it_is() {
    let owner = Owner::with_documents(20);
    let served = Served::new(None);
    let collection = owner.collection();
    let error = diagnose(&collection, &*served, ClientError::Cancelled);
    assert!(matches!(error, ClientError::Cancelled));
    assert!(served.take_seen().is_empty(), "nobody was asked");
}
