//! What an alarm leaves: sets of checks that are not used again, and fresh ones that the owner publishes.

use shard_client::remote::describe;
use shard_client::{BlindSearcher, ClientError, Hints, SearchOptions};
use shard_protocol::MessageKind;

use crate::blind::{collection, search, search_with, searcher};
use crate::blind_lies::{Liar, add, published, with_numbers};
use crate::support::{CutOff, Served};

/// An answer with one score moved.
fn one_score(message: Vec<u8>) -> Vec<u8> {
    with_numbers(&message, |answer| add(answer, 7, 1 << 18))
}

#[test]
fn two_alarms_use_up_the_checks_until_the_owner_publishes() {
    let (served, mut owner) = published();
    let liar = Liar::new(&served, MessageKind::BlindAnswer, one_score);
    let path = owner.path();
    let kept = BlindSearcher::new(&liar, Hints::kept_in(&path).unwrap());
    for _ in 0..2 {
        for _ in 0..2 {
            liar.lies(false);
            search_with(&kept, &mut owner).unwrap();
            liar.lies(true);
            let error = search_with(&kept, &mut owner).unwrap_err();
            assert!(matches!(error, ClientError::Forged), "{error}");
        }
        served.take_seen();
        // Nor does another program that searches with this vault.
        for searcher in [&kept, &BlindSearcher::new(&liar, Hints::kept_in(&path).unwrap())] {
            let error = search_with(searcher, &mut owner).unwrap_err();
            assert!(matches!(error, ClientError::ChecksRetired), "{error}");
        }
        assert!(!served.take_seen().contains(&MessageKind::BlindQuery), "nothing is asked");
        liar.lies(false);
        let done = owner.publish_with_fresh_checks(&*served, false).unwrap();
        assert_eq!((done.uploaded, done.activated), (0, true));
        search_with(&kept, &mut owner).unwrap();
        search_with(&BlindSearcher::new(&liar, Hints::kept_in(&path).unwrap()), &mut owner)
            .unwrap();
        search(&mut owner, &served).unwrap();
    }
    assert!(!owner.publish(&*served).unwrap().activated, "its checks are not retired");
}

#[test]
fn fresh_checks_are_of_another_commit_and_who_is_behind_raises_no_alarm() {
    let (served, mut owner) = published();
    let before = collection(&owner);
    let liar = Liar::new(&served, MessageKind::BlindAnswer, one_score);
    let kept = BlindSearcher::new(&liar, Hints::kept_in(&owner.path()).unwrap());
    assert!(matches!(search_with(&kept, &mut owner), Err(ClientError::Forged)));
    assert!(matches!(owner.publish(&*served), Err(ClientError::StaleChecks)));
    let done = owner.publish_with_fresh_checks(&*served, false).unwrap();
    assert_eq!((done.uploaded, done.activated), (0, true), "one alarm is enough");
    let after = collection(&owner);
    assert_ne!(after.commit(), before.commit());
    assert_eq!(after.rows(), before.rows());
    let query = vec![0.5; before.shape().dimension()];
    let error = searcher(&*served).search(&before, &query, &SearchOptions::default()).unwrap_err();
    assert!(matches!(error, ClientError::Outdated { .. }), "{error}");
    search(&mut owner, &served).unwrap();
}

/// Fresh checks, sent by a publish that was cut off.
#[test]
fn fresh_checks_that_were_cut_off_anywhere_are_taken_up_by_the_next_publish() {
    let (_, owner) = published();
    for late in [false, true] {
        for cut in 0.. {
            let mut owner = owner.copy(12);
            let served = Served::new(None);
            owner.publish(&*served).unwrap();
            let liar = Liar::new(&served, MessageKind::BlindAnswer, one_score);
            let kept = BlindSearcher::new(&liar, Hints::kept_in(&owner.path()).unwrap());
            assert!(matches!(search_with(&kept, &mut owner), Err(ClientError::Forged)));
            let broken = CutOff { late, ..CutOff::anywhere(cut, &served) };
            if owner.publish_with_fresh_checks(&broken, false).is_ok() {
                assert!(cut > 5, "checks had to be sent");
                break;
            }
            owner.publish_with_fresh_checks(&*served, false).unwrap();
            let commit = collection(&owner).commit();
            assert_eq!(describe(&*served).unwrap().commit, Some(commit));
            search(&mut owner, &served).unwrap_or_else(|error| panic!("{late} {cut}: {error}"));
            served.restart();
            search(&mut owner, &served).unwrap_or_else(|error| panic!("{late} {cut}: {error}"));
        }
    }
}

/// Alarms of somebody else, of which the owner's vault does not know.
#[test]
fn an_owner_who_is_told_of_an_alarm_brings_fresh_checks() {
    let (served, mut owner) = published();
    let liar = Liar::new(&served, MessageKind::BlindAnswer, one_score);
    let reader = searcher(&liar);
    for _ in 0..2 {
        assert!(matches!(search_with(&reader, &mut owner), Err(ClientError::Forged)));
    }
    liar.lies(false);
    assert!(!owner.publish(&*served).unwrap().activated);
    assert!(matches!(search_with(&reader, &mut owner), Err(ClientError::ChecksRetired)));
    let done = owner.publish_with_fresh_checks(&*served, true).unwrap();
    assert_eq!((done.uploaded, done.activated), (0, true));
    search_with(&reader, &mut owner).unwrap();
}
