//! Leases, and the channel that tells of collections that moved on.

use std::time::Duration;

use super::*;
use crate::{HEADS, Member, Members, WorkerId};

const LONG: Duration = Duration::from_secs(30);

#[test]
fn heads_are_heard_from_when_it_is_told_that_some_were_missed_and_again_after_a_loss() {
    let Some(cluster) = cluster() else { return };
    let (fresh, main) = (Fresh::new(cluster), main_collection());
    let moves = || {
        fresh.put_blob(&main, &name("a"), b"sealed").unwrap();
        fresh.drop_collection(&main).unwrap();
    };
    assert_eq!(fresh.rows.moved(LONG), None, "it listens from now on");
    moves();
    assert_eq!(fresh.rows.moved(LONG), Some(vec![main.clone()]));
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND query = 'LISTEN ' || $1::text";
    let end = || async { fresh.rows.ask("end a connection", end, &[&HEADS]).await };
    let ended = fresh.rows.wait(end).unwrap();
    assert_eq!(ended.len(), 1);
    assert_eq!(fresh.rows.moved(LONG), None, "the connection was lost");
    assert_eq!(fresh.rows.moved(LONG), None, "it listens again");
    moves();
    assert_eq!(fresh.rows.moved(LONG), Some(vec![main.clone()]));
}

#[test]
fn a_lease_that_ran_out_is_not_named_and_goes_a_minute_later() {
    let Some(cluster) = cluster() else { return };
    let fresh = Fresh::new(cluster);
    let member = |id| Member {
        id: WorkerId(id),
        address: format!("host:{id}"),
        fingerprint: [1; 32],
        ready: true,
    };
    let (one, two) = (member(1), member(2));
    fresh.rows.renew(&one, Duration::ZERO).unwrap();
    let held = || {
        let count = "SELECT count(*) FROM shard.workers";
        let rows = fresh.rows.wait(|| fresh.rows.ask("count", count, &[])).unwrap();
        rows[0].get::<_, i64>(0)
    };
    assert_eq!(fresh.rows.renew(&two, LONG).unwrap(), std::slice::from_ref(&two));
    assert_eq!(held(), 2);
    let later = "UPDATE shard.workers SET expires = expires - interval '2 minutes' WHERE id = 1";
    fresh.rows.wait(|| fresh.rows.ask("wait", later, &[])).unwrap();
    assert_eq!(fresh.rows.renew(&two, LONG).unwrap(), [two]);
    assert_eq!(held(), 1);
}
