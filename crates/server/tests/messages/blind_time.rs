//! The time of a search of a blind collection says nothing of what is searched for.

use std::sync::Arc;

use cpu_time::ThreadTime;
use shard_protocol::{CollectionName, Limits, MessageKind, message_kind};
use shard_server::Server;
use shard_store::MemoryRows;

use crate::commits::{Commit, DIMENSION, row};

/// Searches of each kind.
const EACH: usize = 200;

/// Deviations between kinds that count as a difference: chance alone goes as far once in a million times.
const LIMIT: f64 = 5.0;

/// Seconds of one core for the searches of each kind, which take turns in an order drawn anew for every turn:
/// whatever else the machine does meets all kinds alike.
fn times(server: &Server, kinds: &[Vec<u8>]) -> Vec<Vec<f64>> {
    let mut state = 7_u64;
    let mut times = vec![Vec::with_capacity(EACH); kinds.len()];
    // All from one place: where a message lies in memory makes a difference too.
    let mut message = Vec::new();
    for _ in 0..EACH {
        let mut order: Vec<usize> = (0..kinds.len()).collect();
        for last in (1..order.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            order.swap(last, (state >> 33) as usize % (last + 1));
        }
        for kind in order {
            message.clone_from(&kinds[kind]);
            let start = ThreadTime::now();
            let answer = server.handle(&CollectionName::default(), &message);
            times[kind].push(start.elapsed().as_secs_f64());
            assert_eq!(message_kind(&answer), Ok(MessageKind::BlindAnswer));
        }
    }
    times
}

/// The rank test of Mann and Whitney: how often a time of one kind is above one of the other, in deviations
/// `(U - n m / 2) / sqrt(n m (n + m + 1) / 12)` from what chance makes of it.
fn deviations(one: &[f64], other: &[f64]) -> f64 {
    let above = |a: &f64| -> f64 {
        other.iter().map(|b| if a > b { 1.0 } else { f64::from(u8::from(a == b)) / 2.0 }).sum()
    };
    let (n, m) = (one.len() as f64, other.len() as f64);
    let u: f64 = one.iter().map(above).sum();
    (u - n * m / 2.0) / (n * m * (n + m + 1.0) / 12.0).sqrt()
}

#[test]
fn the_time_of_a_search_does_not_depend_on_the_query() {
    // On one thread, so that its clock sees all of the work.
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(compare_kinds);
}

fn compare_kinds() {
    let commit = Commit::new(1, 0..4000);
    let server = Server::new(Arc::new(MemoryRows::new()), Limits::default());
    for message in commit.publish(None) {
        assert_eq!(
            server.handle(&CollectionName::default(), &message),
            MessageKind::Accepted.bare()
        );
    }
    let long: Vec<f32> = row(3).iter().map(|x| x * 1e6).collect();
    let zeros = vec![0; commit.encrypt(&row(1)).0.len()];
    let kinds = [
        commit.search(&[0.0; DIMENSION]),
        commit.search(&row(1_000_000)),
        commit.search(&row(17)),
        commit.search(&long),
        // No encryption gives this: the bytes themselves do not matter either.
        commit.query(vec![zeros]).encode(),
    ];
    let before = server.blocks();
    let measured = times(&server, &kinds);
    let after = server.blocks();
    let searches = (EACH * kinds.len()) as u64;
    assert_eq!(
        (after.passes - before.passes, after.queries - before.queries),
        (searches, searches)
    );
    for (number, other) in measured.iter().enumerate().skip(1) {
        let deviations = deviations(&measured[0], other);
        assert!(deviations.abs() < LIMIT, "kind {number}: {deviations} deviations");
    }
    // The test sees a difference where there is one: a query more in a message.
    let (one, two) = ([1, 2]).map(|count| vec![commit.encrypt(&row(1)).0; count]).into();
    let measured = times(&server, &[commit.query(one).encode(), commit.query(two).encode()]);
    let deviations = deviations(&measured[1], &measured[0]);
    assert!(deviations > LIMIT, "{deviations} deviations");
}
