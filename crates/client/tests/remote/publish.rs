//! Publishing: what is sent, in which order, and what a cut-off one leaves.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use shard_client::remote::{Head, Lineage, PublishOptions, Published, describe, publish};
use shard_client::{
    ClientError, Collection, SearchOptions, Searcher, Transport, UNWATCHED, Watch, published_rows,
};
use shard_protocol::{
    CellHandle, CollectionName, CommitName, Epoch, Leak, MessageKind, Refusal, RefusalCode,
    Revision, Row, RowBatch, RowHandle, RowMac, RowMacs, declassify, message_kind,
};

use crate::support::{CutOff, Listening, Served};
use crate::vaults::Owner;

fn all(
    owner: &Owner,
    transport: &impl Transport<Error: Into<ClientError>>,
) -> Result<Published, ClientError> {
    rows(&owner.collection(), &published_rows(&owner.vault)?, transport)
}

/// Publishes rows as those of a vault's present commit.
fn rows(
    collection: &Collection,
    rows: &RowBatch,
    transport: &impl Transport<Error: Into<ClientError>>,
) -> Result<Published, ClientError> {
    watched(collection, rows, transport, UNWATCHED)
}

fn watched(
    collection: &Collection,
    rows: &RowBatch,
    transport: &impl Transport<Error: Into<ClientError>>,
    watch: &Watch<'_>,
) -> Result<Published, ClientError> {
    let lineage = Lineage {
        head: collection.head().unwrap(),
        commit_at: &|revision| collection.commit_at(revision),
    };
    publish(collection, rows, lineage, PublishOptions::default(), transport, watch)
}

/// A copy of a vault: its commits, the revision of the first, and the rows of the present one.
struct Copy {
    owner: Owner,
    first: u64,
    commits: Vec<CommitName>,
}

impl Copy {
    fn publish(&self, served: &Served, replace: bool) -> Result<Published, ClientError> {
        let last = self.first + self.commits.len() as u64 - 1;
        let head = Head { name: *self.commits.last().unwrap(), revision: Revision(last) };
        let commit_at = |revision: Revision| {
            self.commits.get(usize::try_from(revision.0.checked_sub(self.first)?).ok()?).copied()
        };
        let lineage = Lineage { head, commit_at: &commit_at };
        let rows = published_rows(&self.owner.vault)?;
        let options = PublishOptions { replace };
        publish(&self.owner.collection(), &rows, lineage, options, served, UNWATCHED)
    }

    /// Adds a document in a commit of this name.
    fn change(&mut self, commit: u8) {
        self.owner.add(1);
        self.commits.push(CommitName([commit; 16]));
    }
}

/// Two copies of one vault: the same seed draws the same secrets and documents.
fn copies() -> [Copy; 2] {
    let copy = || Copy {
        owner: Owner::with_documents(40),
        first: 5,
        commits: vec![CommitName([0xa0; 16])],
    };
    [copy(), copy()]
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
    assert_eq!(remote.revision_seen(), Some(owner.collection().revision()));
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
    let done = rows(&collection, &kept, &*served).unwrap();
    assert_eq!((done.uploaded, done.deleted, done.unchanged), (1, 20, fewer.len() - 1));
    let sent = [
        MessageKind::BeginPublish,
        MessageKind::ListMacs,
        MessageKind::PublishRows,
        MessageKind::DeleteRows,
        MessageKind::ActivateEpoch,
    ];
    assert_eq!(served.take_seen()[3..], sent);
    let (name, epoch) = (CollectionName::default(), Epoch(1));
    let held = served.rows().macs(&name, epoch, None, 1000).unwrap();
    assert!(held.iter().map(|(handle, _)| *handle).eq(fewer.iter().map(|row| row.handle)));
    assert!(held.iter().all(|(handle, _)| !gone.contains(handle)));
}

#[test]
fn a_publish_that_is_cut_off_anywhere_is_finished_by_the_next() {
    let collection = Owner::with_documents(20).collection();
    let (wide, per_batch) = (wide_rows(5 * 127), 127);
    let whole = batch(1, wide.clone());
    for (cut, late) in (0..5).flat_map(|cut| [(cut, false), (cut, true)]) {
        let served = Served::new(None);
        let broken = CutOff { late, ..CutOff::after(cut, &[MessageKind::PublishRows], &served) };
        let first = rows(&collection, &whole, &broken);
        assert!(matches!(first, Err(ClientError::Remote(_))));
        let state = describe(&*served).unwrap();
        assert_eq!(state.current, None, "nothing is searched before all of it is there");
        let there = rows_held(&served, 1);
        assert!(there >= cut * per_batch, "{there} after {cut}");
        let done = rows(&collection, &whole, &*served).unwrap();
        assert_eq!((done.uploaded, done.unchanged), (wide.len() - there, there));
        assert_eq!(rows_held(&served, 1), wide.len());
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
    assert!(rows(&collection, &next, &broken).is_err());
    let state = describe(&*served).unwrap();
    assert_eq!((state.current, state.epochs.len()), (Some(Epoch(1)), 2));
    let done = rows(&collection, &next, &*served).unwrap();
    assert_eq!((done.uploaded, done.activated, done.epoch), (0, true, Epoch(2)));
    let state = describe(&*served).unwrap();
    assert_eq!((state.current, state.epochs.len()), (Some(Epoch(2)), 1), "the old one is erased");

    let error = all(&owner, &*served).unwrap_err();
    assert!(matches!(error, ClientError::Outdated { .. }), "{error}");
    assert!(error.to_string().contains("epoch 1 was replaced by epoch 2"), "{error}");
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
    served.take_seen();
    let error = rows(&old, &old_rows, &*served).unwrap_err();
    let words = format!(
        "the server is at revision {} and this copy of the vault at revision {}",
        owner.collection().revision(),
        old.revision()
    );
    assert!(matches!(error, ClientError::Behind { .. }), "{error}");
    assert!(error.to_string().contains(&words), "{error}");
    assert_eq!(served.take_seen(), [MessageKind::Describe, MessageKind::FetchBlob]);
    assert_eq!(rows_held(&served, 1), held);
}

#[test]
fn a_publish_can_be_stopped_between_batches_and_goes_on_later() {
    let collection = Owner::with_documents(20).collection();
    let wide = wide_rows(600);
    let whole = batch(1, wide.clone());
    let served = Served::new(None);
    let told = AtomicUsize::new(0);
    let stop = |progress: shard_client::Progress| {
        assert_eq!(progress.total, 600);
        told.fetch_add(1, Ordering::SeqCst);
        if progress.done > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let error = watched(&collection, &whole, &*served, &stop).unwrap_err();
    assert!(matches!(error, ClientError::Cancelled), "{error}");
    let there = rows_held(&served, 1);
    assert!(0 < there && there < wide.len(), "{there}");
    let done = rows(&collection, &whole, &*served).unwrap();
    assert_eq!(done.uploaded, wide.len() - there);
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
    let count = published_rows(&second.vault).unwrap().rows().len();
    let second = Copy { owner: second, first: 1, commits: vec![CommitName([7; 16])] };
    // Of an earlier revision than the first, which is no matter.
    assert!(describe(&*served).unwrap().revision > Revision(1));
    let done = second.publish(&served, true).unwrap();
    assert_eq!((done.uploaded, done.deleted), (count, 0), "what was there is forgotten at once");
    assert_eq!(describe(&*served).unwrap().commit, Some(CommitName([7; 16])));
    assert_eq!(rows_held(&served, 1), count);
    assert!(matches!(all(&first, &*served), Err(ClientError::AnotherVault)));
    second.publish(&served, false).unwrap();
}

#[test]
fn a_copy_that_went_another_way_is_told_so_and_overwrites_nothing() {
    let [mut one, mut two] = copies();
    let served = Served::new(None);
    one.publish(&served, false).unwrap();
    two.publish(&served, false).unwrap();
    one.change(0xb1);
    two.change(0xb2);
    one.publish(&served, false).unwrap();
    let macs = || served.rows().macs(&CollectionName::default(), Epoch(1), None, 1000).unwrap();
    let held = (describe(&*served).unwrap(), macs());
    // Parted at the same revision, further on, and when only the other has gone on.
    for changes in 0..2 {
        (0..changes).for_each(|at| two.change(0xc0 + at));
        served.take_seen();
        let error = two.publish(&served, false).unwrap_err();
        assert!(matches!(error, ClientError::Forked { .. }), "{error}");
        let ours = CommitName([0xb2; 16]).to_string();
        let theirs = CommitName([0xb1; 16]).to_string();
        let words = error.to_string();
        assert!(words.contains(&ours) && words.contains(&theirs), "{words}");
        assert_eq!(served.take_seen(), [MessageKind::Describe, MessageKind::FetchBlob]);
    }
    one.change(0xd1);
    one.change(0xd2);
    assert_eq!((describe(&*served).unwrap(), macs()), held, "nothing changed");
    one.publish(&served, false).unwrap();
    let error = two.publish(&served, false).unwrap_err();
    assert!(matches!(error, ClientError::Behind { .. }), "{error}");
    // The way out that loses what the other has published.
    two.publish(&served, true).unwrap();
    assert_eq!(describe(&*served).unwrap().commit, two.commits.last().copied());
    assert!(one.publish(&served, false).is_err());
    let query = two.owner.queries(1);
    let collection = two.owner.collection();
    Searcher::new(&*served).search(&collection, query.row(0), &SearchOptions::default()).unwrap();
}

#[test]
fn two_copies_that_publish_at_once_do_not_mix_their_rows() {
    /// Lets another copy publish before the first rows of this one arrive.
    struct Meanwhile<'a> {
        served: &'a Served,
        other: &'a Copy,
        done: AtomicUsize,
    }
    impl Transport for Meanwhile<'_> {
        type Error = ClientError;

        fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
            let sends = message_kind(&message)? == MessageKind::PublishRows;
            if sends && self.done.fetch_add(1, Ordering::SeqCst) == 0 {
                self.other.publish(self.served, false)?;
            }
            self.served.exchange(message)
        }
    }
    let [mut one, mut two] = copies();
    let served = Served::new(None);
    one.publish(&served, false).unwrap();
    one.change(0xb1);
    two.change(0xb2);
    let between = Meanwhile { served: &served, other: &two, done: AtomicUsize::new(0) };
    let head = Head { name: one.commits[1], revision: Revision(6) };
    let commits = one.commits.clone();
    let lineage = Lineage { head, commit_at: &|at| (at == Revision(5)).then_some(commits[0]) };
    let (collection, batch) = (one.owner.collection(), published_rows(&one.owner.vault).unwrap());
    let options = PublishOptions::default();
    let error = publish(&collection, &batch, lineage, options, &between, UNWATCHED).unwrap_err();
    assert!(matches!(error, ClientError::Overtaken { .. }), "{error}");
    let held = served.rows().macs(&CollectionName::default(), Epoch(1), None, 1000).unwrap();
    let theirs = published_rows(&two.owner.vault).unwrap();
    assert!(held.iter().map(|(handle, _)| *handle).eq(theirs.rows().iter().map(|r| r.handle)));
    assert_eq!(describe(&*served).unwrap().commit, Some(two.commits[1]));
    let again = publish(&collection, &batch, lineage, options, &*served, UNWATCHED).unwrap_err();
    assert!(matches!(again, ClientError::Forked { .. }), "{again}");
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
