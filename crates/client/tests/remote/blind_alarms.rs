//! What an alarm leaves: sets of checks that are not used again, and fresh ones that the owner publishes.

use shard_client::remote::{PublishOptions, describe, publish};
use shard_client::{BlindSearcher, ClientError, Hints, UNWATCHED};
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
    let kept = BlindSearcher::new(&liar, Hints::kept_in(&path));
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
        for searcher in [&kept, &BlindSearcher::new(&liar, Hints::kept_in(&path))] {
            let error = search_with(searcher, &mut owner).unwrap_err();
            assert!(matches!(error, ClientError::ChecksRetired), "{error}");
        }
        assert!(!served.take_seen().contains(&MessageKind::BlindQuery), "nothing is asked");
        liar.lies(false);
        let done = owner.publish(&*served).unwrap();
        assert_eq!((done.uploaded, done.activated), (0, true));
        search_with(&kept, &mut owner).unwrap();
        search_with(&BlindSearcher::new(&liar, Hints::kept_in(&path)), &mut owner).unwrap();
        search(&mut owner, &served).unwrap();
    }
    assert!(!owner.publish(&*served).unwrap().activated, "its checks are not retired");
}

/// Somebody whose checks are those before the owner's fresh ones.
#[test]
fn fresh_checks_of_the_same_commit_are_taken_up_without_an_alarm() {
    let (served, mut owner) = published();
    let reader = searcher(&*served);
    search_with(&reader, &mut owner).unwrap();
    let liar = Liar::new(&served, MessageKind::BlindAnswer, one_score);
    let kept = BlindSearcher::new(&liar, Hints::kept_in(&owner.path()));
    assert!(matches!(search_with(&kept, &mut owner), Err(ClientError::Forged)));
    let done = owner.publish(&*served).unwrap();
    assert!(done.activated, "one alarm is enough for fresh checks");
    search_with(&reader, &mut owner).unwrap();

    // A lie at that very moment uses up a set of before and one of the fresh ones, and no more.
    let behind = Liar::new(&served, MessageKind::BlindAnswer, one_score);
    behind.lies(false);
    let late = searcher(&behind);
    search_with(&late, &mut owner).unwrap();
    assert!(matches!(search_with(&kept, &mut owner), Err(ClientError::Forged)));
    let done = owner.publish(&*served).unwrap();
    assert!(done.activated, "the set that raised it is one of those published");
    behind.lies(true);
    for _ in 0..2 {
        assert!(matches!(search_with(&late, &mut owner), Err(ClientError::Forged)));
    }
    behind.lies(false);
    assert!(matches!(search_with(&late, &mut owner), Err(ClientError::ChecksRetired)));
}

/// Fresh checks of the commit that is published, sent by a publish that was cut off.
#[test]
fn fresh_checks_that_were_cut_off_anywhere_are_taken_up_by_the_next_publish() {
    let (_, owner) = published();
    for late in [false, true] {
        for cut in 0.. {
            let mut owner = owner.copy(12);
            let served = Served::new(None);
            owner.publish(&*served).unwrap();
            let liar = Liar::new(&served, MessageKind::BlindAnswer, one_score);
            let kept = BlindSearcher::new(&liar, Hints::kept_in(&owner.path()));
            assert!(matches!(search_with(&kept, &mut owner), Err(ClientError::Forged)));
            let broken = CutOff { late, ..CutOff::anywhere(cut, &served) };
            if owner.publish(&broken).is_ok() {
                assert!(cut > 5, "checks had to be sent");
                break;
            }
            owner.publish(&*served).unwrap();
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
    let options = PublishOptions { fresh_checks: true, ..PublishOptions::default() };
    let done = publish(&owner.vault, options, &*served, UNWATCHED).unwrap();
    assert_eq!((done.uploaded, done.activated), (0, true));
    search_with(&reader, &mut owner).unwrap();
}
