//! Sessions that the server has lost are healed; several may be open at once.

use std::ops::ControlFlow;
use std::sync::Arc;

use shard_client::{Answer, SearchOptions, Searcher, published_rows};
use shard_geometry::VectorSet;
use shard_protocol::MessageKind;
use shard_rlwe::Objective;

use crate::support::Served;
use crate::vaults::Owner;

fn merged() -> SearchOptions {
    SearchOptions { objective: Some(Objective::Bytes), ..SearchOptions::default() }
}

#[cfg(feature = "slots")]
fn slots() -> SearchOptions {
    use shard_client::LayoutChoice;
    use shard_rlwe::{RingDegree, slots::SlotsParameters};

    let degree = RingDegree::new(4096).unwrap();
    let parameters = SlotsParameters::with_scale(degree, &[40, 24, 40], 22).unwrap();
    let layout = LayoutChoice::Slots { parameters, cells: 4 };
    SearchOptions { layout, candidates: Some(4), top: 2, ..SearchOptions::default() }
}

fn served(owner: &Owner) -> Arc<Served> {
    let served = Served::new(None);
    served.hold(published_rows(&owner.vault).unwrap());
    served
}

fn heals(options: &SearchOptions, opening: MessageKind, request: MessageKind) {
    let mut owner = Owner::with_vectors(120, 384);
    let (query, collection) = (owner.queries(1), owner.collection());
    let served = served(&owner);
    let searcher = Searcher::new(&*served);
    let search = || searcher.search(&collection, query.row(0), options).unwrap();
    let first = search();
    assert!(first.cost.bytes_once > 0, "keys had to be sent");
    let keys: usize = served.seen.lock().unwrap()[0].1;
    assert_eq!(first.cost.bytes_once, keys);
    assert_eq!(search().cost.bytes_once, 0);
    assert_eq!(served.take_seen(), [opening, request, request]);

    served.restart();
    let healed = search();
    assert_eq!(healed.cost.bytes_once, keys, "the keys were sent again, and counted");
    assert_eq!(served.take_seen(), [request, opening, request]);
    let rows = |answer: &Answer| -> Vec<u32> { answer.hits.iter().map(|hit| hit.row).collect() };
    assert_eq!(rows(&healed), rows(&first));
    assert_eq!(search().cost.bytes_once, 0);
}

#[test]
fn a_lost_session_of_merge_keys_is_opened_again() {
    heals(&merged(), MessageKind::OpenSession, MessageKind::RerankRequest);
}

#[cfg(feature = "slots")]
#[test]
fn a_lost_session_in_slots_is_opened_again() {
    heals(&slots(), MessageKind::OpenSlotsSession, MessageKind::SlotsRequest);
}

/// One query over and over, so that all requests need the same keys.
#[test]
fn parallel_searches_open_a_few_sessions_and_no_more() {
    let mut owner = Owner::with_vectors(120, 384);
    let (query, collection) = (owner.queries(1), owner.collection());
    let queries = VectorSet::new(384, query.row(0).repeat(24)).unwrap();
    let served = served(&owner);
    let searcher = Searcher::new(&*served);
    let (mut rows, mut keys) = (Vec::new(), 0);
    let each = |_: usize, answer: Answer| {
        keys += usize::from(answer.cost.bytes_once > 0);
        rows.push(answer.hits[0].row);
        ControlFlow::Continue(())
    };
    searcher.search_many(&collection, &queries, &merged(), 8, each).unwrap();
    let seen = served.take_seen();
    let opened = seen.iter().filter(|kind| **kind == MessageKind::OpenSession).count();
    assert!((1..=4).contains(&opened), "{opened}");
    assert_eq!((keys, seen.len()), (opened, opened + 24));
    assert!(rows.iter().all(|row| *row == rows[0]));
}
