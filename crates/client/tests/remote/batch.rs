//! Many queries at once.

use std::ops::ControlFlow;

use shard_client::{ClientError, SearchOptions, Searcher, published_rows};
use shard_protocol::MessageKind;

use crate::support::{CutOff, Served};
use crate::vaults::Owner;

#[test]
fn answers_come_in_the_order_of_the_queries() {
    let mut owner = Owner::with_documents(100);
    let (queries, collection) = (owner.queries(17), owner.collection());
    let served = Served::new(None);
    served.hold(published_rows(&owner.vault).unwrap());
    let searcher = Searcher::new(&*served);
    let options = SearchOptions::default();
    for parallel in [0, 1, 5, 100] {
        let mut seen = Vec::new();
        let each = |row: usize, answer: shard_client::Answer| {
            seen.push((row, answer.hits[0].row));
            ControlFlow::Continue(())
        };
        searcher.search_many(&collection, &queries, &options, parallel, each).unwrap();
        let alone = (0..queries.rows()).map(|row| {
            (row, searcher.search(&collection, queries.row(row), &options).unwrap().hits[0].row)
        });
        assert!(seen.into_iter().eq(alone));
    }
}

#[test]
fn a_batch_can_be_stopped_and_a_failure_ends_it_after_what_came_before() {
    let mut owner = Owner::with_documents(60);
    let (queries, collection) = (owner.queries(40), owner.collection());
    let served = Served::new(None);
    served.hold(published_rows(&owner.vault).unwrap());
    let options = SearchOptions::default();
    let mut seen = 0;
    let each = |_, _| {
        seen += 1;
        if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    Searcher::new(&*served).search_many(&collection, &queries, &options, 2, each).unwrap();
    assert_eq!(seen, 3);
    assert!(served.take_seen().len() < 40, "the rest was not asked");

    let broken = CutOff::after(10, &[MessageKind::RerankRequest], &served);
    let mut seen = Vec::new();
    let each = |row, _| {
        seen.push(row);
        ControlFlow::Continue(())
    };
    let outcome = Searcher::new(&broken).search_many(&collection, &queries, &options, 3, each);
    assert!(matches!(outcome, Err(ClientError::Remote(_))));
    assert!(seen.len() <= 10 && seen.iter().copied().eq(0..seen.len()), "{seen:?}");
}
