//! Publishing: what is sent, in which order, and what a cut-off one leaves.

use std::collections::HashSet;
use std::ops::ControlFlow;

use shard_client::remote::{PublishOptions, describe, publish};
use shard_client::{ClientError, SearchOptions, Searcher, published_rows};
use shard_protocol::{CollectionName, Epoch, MessageKind, RowHandle};

use crate::support::{CutOff, Listening, Served};
use crate::vaults::Owner;

/// A vault whose rows fill two messages.
fn wide() -> Owner {
    let mut owner = Owner::with_vectors(60, 256);
    owner.add(6000);
    owner
}

fn rows_of(owner: &Owner) -> usize {
    published_rows(&owner.vault).unwrap().rows().len()
}

fn names_of(owner: &Owner) -> HashSet<RowHandle> {
    published_rows(&owner.vault).unwrap().rows().iter().map(|row| row.handle).collect()
}

/// Rows that come, go and stay between two states.
fn difference(before: &HashSet<RowHandle>, after: &HashSet<RowHandle>) -> (usize, usize, usize) {
    let (came, went) = (after.difference(before), before.difference(after));
    (came.count(), went.count(), before.intersection(after).count())
}

fn rows_held(served: &Served, epoch: u64) -> usize {
    served.rows().statistics(&CollectionName::default(), Epoch(epoch)).map_or(0, |held| held.rows)
}

/// Asserts that the server holds the rows of a vault, and no others.
pub fn assert_holds(served: &Served, owner: &Owner) {
    let batch = published_rows(&owner.vault).unwrap();
    let name = CollectionName::default();
    let held = served.rows().macs(&name, batch.epoch(), None, 10_000).unwrap();
    let collection = owner.collection();
    let mac = |row| collection.keys().row_mac(row);
    let ours: Vec<_> = batch.rows().iter().map(|row| (row.handle, mac(row))).collect();
    assert_eq!(held.into_iter().map(|(handle, mac)| (handle, mac.0)).collect::<Vec<_>>(), ours);
    let state = describe(served).unwrap();
    assert_eq!((state.current, state.epochs.len()), (Some(batch.epoch()), 1));
    assert_eq!(state.commit, Some(owner.vault.head().unwrap().name));
}

/// The kinds of messages that are not about blobs.
fn about_rows(seen: Vec<MessageKind>) -> Vec<MessageKind> {
    let blobs = [
        MessageKind::PutBlob,
        MessageKind::FetchBlob,
        MessageKind::FetchShared,
        MessageKind::DeleteBlob,
        MessageKind::ListBlobs,
    ];
    seen.into_iter().filter(|kind| !blobs.contains(kind)).collect()
}

#[test]
fn the_first_publish_sends_everything_and_the_second_nothing() {
    let mut owner = Owner::with_documents(90);
    let query = owner.queries(1);
    let listening = Listening::tls(Served::new(None));
    let remote = shard_client::remote::Remote::connect(listening.options()).unwrap();
    let rows = rows_of(&owner);
    let done = owner.publish(&remote).unwrap();
    assert_eq!((done.uploaded, done.deleted, done.unchanged), (rows, 0, 0));
    assert!(done.activated && done.bytes > rows as u64 * 32 && done.state_bytes > 0);
    let searcher = Searcher::new(&remote);
    let options = SearchOptions::default();
    searcher.search(&owner.collection(), query.row(0), &options).unwrap();

    listening.served.take_seen();
    let done = owner.publish(&remote).unwrap();
    assert_eq!((done.uploaded, done.deleted, done.unchanged), (0, 0, rows));
    assert_eq!((done.bytes, done.state_bytes, done.activated), (0, 0, false));
    let seen = listening.served.take_seen();
    assert!(!seen.contains(&MessageKind::PutBlob) && !seen.contains(&MessageKind::DeleteBlob));
    // Asked once more before anything is swept away.
    let asked = [MessageKind::Describe, MessageKind::ListMacs, MessageKind::Describe];
    assert_eq!(about_rows(seen), asked);
    assert_eq!(remote.revision_seen(), Some(owner.collection().position().revision()));
}

#[test]
fn later_publishes_send_what_changed_and_delete_what_is_gone() {
    let mut owner = Owner::with_documents(90);
    let served = Served::new(None);
    owner.publish(&*served).unwrap();
    let before = names_of(&owner);
    owner.add(10);
    owner.ingest(&["3".to_owned(), "70".to_owned()]);
    served.take_seen();
    let done = owner.publish(&*served).unwrap();
    // Ten new documents and two replaced ones.
    let then = names_of(&owner);
    assert_eq!((done.uploaded, done.deleted, done.unchanged), difference(&before, &then));
    assert_eq!((done.uploaded, done.deleted), (12, 2), "{done:?}");
    let seen = served.take_seen();
    let place = |kind| seen.iter().rposition(|seen| *seen == kind).unwrap();
    let activated = place(MessageKind::ActivateEpoch);
    assert!(place(MessageKind::PutBlob) < activated, "the state is there before it is published");
    let first = seen.iter().position(|kind| *kind == MessageKind::DeleteBlob).unwrap();
    assert!(activated < first, "the state before goes when it is no longer the published one");
    let sent = [
        MessageKind::BeginPublish,
        MessageKind::ListMacs,
        MessageKind::PublishRows,
        MessageKind::DeleteRows,
        MessageKind::ActivateEpoch,
        MessageKind::Describe,
    ];
    assert_eq!(about_rows(seen)[1..], sent);

    let gone: Vec<RowHandle> = (20..40).map(|row| owner.collection().index().handle(row)).collect();
    for row in 20..40 {
        owner.delete(&row.to_string());
    }
    let done = owner.publish(&*served).unwrap();
    let now = names_of(&owner);
    assert_eq!((done.uploaded, done.deleted, done.unchanged), difference(&then, &now));
    assert_eq!(done.deleted, 20, "{done:?}");
    assert_holds(&served, &owner);
    let held = served.rows().macs(&CollectionName::default(), Epoch(1), None, 1000).unwrap();
    assert!(held.iter().all(|(handle, _)| !gone.contains(handle)));
}

#[test]
fn a_publish_that_ends_between_batches_sends_the_rest_the_next_time() {
    let owner = wide();
    let rows = rows_of(&owner);
    let goes_on = |served: &Served| {
        let state = describe(served).unwrap();
        assert_eq!(state.current, None, "nothing is searched before all of it is there");
        let there = rows_held(served, 1);
        let done = owner.publish(served).unwrap();
        assert_eq!((done.uploaded, done.unchanged), (rows - there, there));
        assert_holds(served, &owner);
        there
    };
    for (cut, late) in [(1, false), (0, true)] {
        let served = Served::new(None);
        let broken = CutOff { late, ..CutOff::after(cut, &[MessageKind::PublishRows], &served) };
        assert!(matches!(owner.publish(&broken), Err(ClientError::Remote(_))));
        let there = goes_on(&served);
        assert!(0 < there && (late || there < rows), "{there}");
    }

    let served = Served::new(None);
    let stop = |progress: shard_client::Progress| {
        assert_eq!(progress.total, rows as u64);
        if progress.done > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let error = publish(&owner.vault, PublishOptions::default(), &*served, &stop).unwrap_err();
    assert!(matches!(error, ClientError::Cancelled), "{error}");
    assert!(goes_on(&served) > 0);
}

#[test]
fn a_publish_that_is_cut_off_anywhere_is_finished_by_the_next() {
    let mut owner = Owner::with_documents(40);
    let first = owner.copy(11);
    owner.add(3);
    owner.put("7");
    owner.delete("9");
    for late in [false, true] {
        for cut in 0.. {
            let served = Served::new(None);
            first.publish(&*served).unwrap();
            let broken = CutOff { late, ..CutOff::anywhere(cut, &served) };
            if owner.publish(&broken).is_ok() {
                assert!(cut > 10, "rows, values and the state had to be sent");
                break;
            }
            // Whatever is published there is whole: another copy can be brought to it.
            let commit = describe(&*served).unwrap().commit.unwrap();
            let mut other = first.copy(12);
            other.pull(&*served).unwrap();
            assert_eq!(other.vault.head().unwrap().name, commit);
            owner.publish(&*served).unwrap();
            assert_holds(&served, &owner);
            assert_eq!(other.pull(&*served).map(|pulled| pulled.contested).unwrap(), 0);
            assert_eq!(other.documents(), owner.documents());
        }
    }
}

#[test]
fn a_new_epoch_is_out_of_sight_until_it_is_whole() {
    let mut owner = Owner::with_documents(30);
    let served = Served::new(None);
    owner.publish(&*served).unwrap();
    let old = owner.copy(11);
    owner.rekey();
    let broken = CutOff::after(0, &[MessageKind::ActivateEpoch], &served);
    assert!(owner.publish(&broken).is_err());
    let state = describe(&*served).unwrap();
    assert_eq!((state.current, state.epochs.len()), (Some(Epoch(1)), 2));
    let done = owner.publish(&*served).unwrap();
    assert_eq!((done.uploaded, done.activated, done.epoch), (0, true, Epoch(2)));
    assert_holds(&served, &owner);
    let error = old.publish(&*served).unwrap_err();
    assert!(matches!(error, ClientError::Behind { .. }), "{error}");
}

#[test]
fn an_outdated_copy_of_the_vault_is_refused_in_words_and_changes_nothing() {
    let mut owner = Owner::with_documents(40);
    let served = Served::new(None);
    let old = owner.copy(11);
    owner.add(5);
    owner.publish(&*served).unwrap();
    served.take_seen();
    let error = old.publish(&*served).unwrap_err();
    let words = format!(
        "the server is at revision {} and this copy of the vault at revision {}",
        owner.collection().position().revision(),
        old.collection().position().revision()
    );
    assert!(matches!(error, ClientError::Behind { .. }), "{error}");
    assert!(error.to_string().contains(&words), "{error}");
    assert_eq!(served.take_seen(), [MessageKind::Describe, MessageKind::FetchShared]);
    assert_holds(&served, &owner);
}
