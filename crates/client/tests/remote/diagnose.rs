//! What a search says that the server refused.

use shard_client::remote::{describe, diagnose};
use shard_client::{ClientError, Collection, SearchOptions, Searcher};
use shard_protocol::{Advance, CollectionName};

use crate::support::Served;
use crate::vaults::Owner;

/// The diagnosis of a search that the server must refuse.
fn said(owner: &mut Owner, collection: &Collection, served: &Served) -> ClientError {
    let query = owner.queries(1);
    let options = SearchOptions { candidates: Some(40), ..SearchOptions::default() };
    let refused = Searcher::new(served).search(collection, query.row(0), &options).unwrap_err();
    diagnose(collection.position(), served, refused)
}

#[test]
fn a_refused_search_says_how_vault_and_server_stand() {
    let ids: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let mut owner = Owner::with_documents(40);
    let mut fork = owner.copy(11);
    owner.add(1);
    let served = Served::new(None);
    let (old, old_copy) = (owner.collection(), owner.copy(12));
    let error = said(&mut owner, &old, &served);
    assert!(matches!(&error, ClientError::Unpublished { reason } if reason.contains("nothing")));

    owner.publish(&*served).unwrap();
    // All documents replaced: the old copy asks for rows that are gone.
    owner.ingest(&ids);
    let new = owner.collection();
    let error = said(&mut owner, &new, &served);
    let words = format!("the server is at revision {}", old.position().revision());
    assert!(matches!(&error, ClientError::Unpublished { reason } if reason.contains(&words)));

    owner.publish(&*served).unwrap();
    let error = said(&mut owner, &old, &served);
    assert!(matches!(error, ClientError::Behind { .. }), "{error}");

    // A commit of another name where the old copy has its own.
    fork.ingest(&ids);
    assert_eq!(fork.collection().position().revision(), old.position().revision());
    fork.replace(&*served).unwrap();
    let error = said(&mut owner, &old, &served);
    assert!(matches!(error, ClientError::Forked { .. }), "{error}");

    // The very commit, and not its rows.
    old_copy.replace(&*served).unwrap();
    let (name, state) = (CollectionName::default(), describe(&*served).unwrap());
    let (commit, revision) = (old.position().commit(), old.position().revision());
    let advance = Advance { from: Some(commit), to: commit, revision, turn: state.turn };
    let handles: Vec<_> = (0..40).map(|row| old.index().handle(row)).collect();
    served.rows().delete(&name, &advance, old.epoch(), &handles).unwrap();
    let error = said(&mut owner, &old, &served);
    assert!(matches!(error, ClientError::Incomplete { .. }), "{error}");

    Owner::seeded(9, 40, 24).replace(&*served).unwrap();
    let error = said(&mut owner, &old, &served);
    assert!(matches!(error, ClientError::NotThisVault), "{error}");
}

#[test]
fn what_says_nothing_of_rows_stays_as_it_is() {
    let owner = Owner::with_documents(20);
    let served = Served::new(None);
    let collection = owner.collection();
    let error = diagnose(collection.position(), &*served, ClientError::Cancelled);
    assert!(matches!(error, ClientError::Cancelled));
    assert!(served.take_seen().is_empty(), "nobody was asked");
}
