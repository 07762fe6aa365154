//! Publishing: what is sent, in which order, and what a cut-off one leaves.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use shard_client::remote::{PublishOptions, Published, describe, publish, vault_revision};
use shard_client::{
    ClientError, Collection, SearchOptions, Searcher, Transport, UNWATCHED, published_rows,
};
use shard_protocol::{
    CellHandle, CollectionName, Epoch, Leak, MessageKind, Refusal, RefusalCode, Row, RowBatch,
    RowHandle, RowMac, RowMacs, declassify, message_kind,
};

use crate::support::{CutOff, Listening, Served};
use crate::vaults::Owner;

fn all(
    owner: &Owner,
    transport: &impl Transport<Error: Into<ClientError>>,
) -> Result<Published, ClientError> {
    publish(
        &owner.collection(),
        &published_rows(&owner.vault)?,
        PublishOptions::default(),
        transport,
        &|_| ControlFlow::Continue(()),
    )
}

fn batch(epoch: u64, rows: Vec<Row>) -> RowBatch {
    RowBatch::new(
        declassify(Epoch(epoch), Leak::CollectionShape),
        declassify(rows[0].coordinates.len(), Leak::CollectionShape),
        declassify(rows, Leak::StoredRows),
    )
}

/// Rows so wide that 127 of them fill a batch.
fn wide_rows(count: u64) -> Vec<Row> {
    let row = |n: u64| Row {
        cell: declassify(CellHandle(n % 5), Leak::CellMembership),
        handle: RowHandle(n * 0x1234_5678_9abc),
        coordinates: vec![n as i32; 8192],
    };
    (1..=count).map(row).collect()
}

fn rows_held(served: &Served, epoch: u64) -> usize {
    served.rows().statistics(&CollectionName::default(), Epoch(epoch)).map_or(0, |held| held.rows)
}

#[test]
fn the_first_publish_sends_everything_and_the_second_nothing() {
    let mut owner = Owner::with_documents(90);
    let query = owner.queries(1);
    let listening = Listening::tls(Served::new(None));
    let remote = shard_client::remote::Remote::connect(listening.options()).unwrap();
    let rows = published_rows(&owner.vault).unwrap().rows().len();
    let done = all(&owner, &remote).unwrap();
    assert_eq!((done.uploaded, done.deleted, done.unchanged), (rows, 0, 0));
    assert!(done.activated && done.bytes > rows as u64 * 32);
    let searcher = Searcher::new(&remote);
    let options = SearchOptions::default();
    searcher.search(&owner.collection(), query.row(0), &options).unwrap();

    listening.served.take_seen();
    let done = all(&owner, &remote).unwrap();
    assert_eq!((done.uploaded, done.deleted, done.unchanged), (0, 0, rows));
    assert_eq!((done.bytes, done.activated), (0, false));
    let asked = [MessageKind::Describe, MessageKind::FetchBlob, MessageKind::ListMacs];
    assert_eq!(listening.served.take_seen(), asked);
    assert_eq!(remote.revision_seen(), Some(vault_revision(&owner.collection())));
}

#[test]
fn later_publishes_send_what_changed_and_delete_what_is_gone() {
    let mut owner = Owner::with_documents(90);
    let served = Served::new(None);
    all(&owner, &*served).unwrap();
    let before = published_rows(&owner.vault).unwrap().rows().len();
    owner.add(10);
    owner.ingest(&["3".to_owned(), "70".to_owned()]);
    let done = all(&owner, &*served).unwrap();
    assert_eq!((done.uploaded, done.deleted, done.unchanged), (12, 2, before - 2));

    let collection = owner.collection();
    let mut fewer = published_rows(&owner.vault).unwrap().into_rows();
    let gone: Vec<RowHandle> = fewer.drain(20..40).map(|row| row.handle).collect();
    fewer[0].coordinates[0] ^= 1;
    served.take_seen();
    let kept = batch(1, fewer.clone());
    let done = publish(&collection, &kept, PublishOptions::default(), &*served, UNWATCHED).unwrap();
    assert_eq!((done.uploaded, done.deleted, done.unchanged), (1, 20, fewer.len() - 1));
    assert_eq!(served.take_seen()[3..], [MessageKind::PublishRows, MessageKind::DeleteRows]);
    let (name, epoch) = (CollectionName::default(), Epoch(1));
    let held = served.rows().macs(&name, epoch, None, 1000).unwrap();
    assert!(held.iter().map(|(handle, _)| *handle).eq(fewer.iter().map(|row| row.handle)));
    assert!(held.iter().all(|(handle, _)| !gone.contains(handle)));
}

#[test]
fn a_publish_that_is_cut_off_anywhere_is_finished_by_the_next() {
    let collection = Owner::with_documents(20).collection();
    let (rows, per_batch) = (wide_rows(5 * 127), 127);
    let whole = batch(1, rows.clone());
    for (cut, late) in (0..5).flat_map(|cut| [(cut, false), (cut, true)]) {
        let served = Served::new(None);
        let broken = CutOff { late, ..CutOff::after(cut, &[MessageKind::PublishRows], &served) };
        let first = publish(&collection, &whole, PublishOptions::default(), &broken, UNWATCHED);
        assert!(matches!(first, Err(ClientError::Remote(_))));
        let state = describe(&*served).unwrap();
        assert_eq!(state.current, None, "nothing is searched before all of it is there");
        let there = rows_held(&served, 1);
        assert!(there >= cut * per_batch, "{there} after {cut}");
        let done =
            publish(&collection, &whole, PublishOptions::default(), &*served, UNWATCHED).unwrap();
        assert_eq!((done.uploaded, done.unchanged), (rows.len() - there, there));
        assert_eq!(rows_held(&served, 1), rows.len());
        assert_eq!(describe(&*served).unwrap().current, Some(Epoch(1)));
    }
}

#[test]
fn a_new_epoch_is_out_of_sight_until_it_is_whole() {
    let owner = Owner::with_documents(30);
    let served = Served::new(None);
    all(&owner, &*served).unwrap();
    let next = batch(2, published_rows(&owner.vault).unwrap().into_rows());
    let collection = owner.collection();
    let broken = CutOff::after(0, &[MessageKind::ActivateEpoch], &served);
    assert!(publish(&collection, &next, PublishOptions::default(), &broken, UNWATCHED).is_err());
    let state = describe(&*served).unwrap();
    assert_eq!((state.current, state.epochs.len()), (Some(Epoch(1)), 2));
    let done = publish(&collection, &next, PublishOptions::default(), &*served, UNWATCHED).unwrap();
    assert_eq!((done.uploaded, done.activated, done.epoch), (0, true, Epoch(2)));
    let state = describe(&*served).unwrap();
    assert_eq!((state.current, state.epochs.len()), (Some(Epoch(2)), 1), "the old one is erased");

    let error = all(&owner, &*served).unwrap_err();
    assert!(matches!(error, ClientError::Outdated { .. }), "{error}");
    assert!(error.to_string().contains("epoch 2 was published and this vault is at epoch 1"));
}

#[test]
fn an_outdated_copy_of_the_vault_is_refused_in_words_and_changes_nothing() {
    let mut owner = Owner::with_documents(40);
    let served = Served::new(None);
    let (old, old_rows): (Collection, RowBatch) =
        (owner.collection(), published_rows(&owner.vault).unwrap());
    owner.add(5);
    all(&owner, &*served).unwrap();
    let held = rows_held(&served, 1);
    let error =
        publish(&old, &old_rows, PublishOptions::default(), &*served, UNWATCHED).unwrap_err();
    let words = format!(
        "revision {} was published and this vault is at revision {}",
        vault_revision(&owner.collection()),
        vault_revision(&old)
    );
    assert!(error.to_string().contains(&words), "{error}");
    assert!(error.to_string().contains("restore the one"), "{error}");
    assert_eq!(rows_held(&served, 1), held);
}

#[test]
fn a_publish_can_be_stopped_between_batches_and_goes_on_later() {
    let collection = Owner::with_documents(20).collection();
    let rows = wide_rows(600);
    let whole = batch(1, rows.clone());
    let served = Served::new(None);
    let told = AtomicUsize::new(0);
    let stop = |progress: shard_client::Progress| {
        assert_eq!(progress.total, 600);
        told.fetch_add(1, Ordering::SeqCst);
        if progress.done > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let error =
        publish(&collection, &whole, PublishOptions::default(), &*served, &stop).unwrap_err();
    assert!(matches!(error, ClientError::Cancelled), "{error}");
    let there = rows_held(&served, 1);
    assert!(0 < there && there < rows.len(), "{there}");
    let done =
        publish(&collection, &whole, PublishOptions::default(), &*served, UNWATCHED).unwrap();
    assert_eq!(done.uploaded, rows.len() - there);
}

#[test]
fn a_collection_is_one_vaults_until_another_is_told_to_replace_it() {
    let (first, second) = (Owner::with_documents(40), Owner::seeded(9, 40, 24));
    let served = Served::new(None);
    all(&first, &*served).unwrap();
    let held = rows_held(&served, 1);
    let error = all(&second, &*served).unwrap_err();
    assert!(matches!(error, ClientError::AnotherVault), "{error}");
    assert_eq!(all(&first, &*served).unwrap().unchanged, held, "nothing was touched");
    let (collection, rows) = (second.collection(), published_rows(&second.vault).unwrap());
    let options = PublishOptions { replace: true };
    let go_on = |_| ControlFlow::Continue(());
    let done = publish(&collection, &rows, options, &*served, &go_on).unwrap();
    assert_eq!((done.uploaded, done.deleted), (rows.rows().len(), held));
    assert!(matches!(all(&first, &*served), Err(ClientError::AnotherVault)));
    all(&second, &*served).unwrap();
}

#[test]
fn a_server_whose_pages_never_end_is_found_out() {
    struct Circle;
    impl Transport for Circle {
        type Error = ClientError;

        fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
            if message == MessageKind::Describe.bare() {
                return Ok(shard_protocol::CollectionState::default().encode());
            }
            if message_kind(&message)? == MessageKind::FetchBlob {
                let code = RefusalCode::UnknownBlob;
                return Ok(Refusal { code, text: "none".into() }.encode());
            }
            let mac = |n| (RowHandle(n), RowMac([0; 16]));
            Ok(RowMacs { macs: (0..RowMacs::PAGE as u64).map(mac).collect() }.encode())
        }
    }
    let error = all(&Owner::with_documents(20), &Circle).unwrap_err();
    assert!(matches!(error, ClientError::Answer(_)), "{error}");
}
