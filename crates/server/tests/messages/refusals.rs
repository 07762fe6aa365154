//! What a server says to requests it cannot or must not serve.

use std::sync::Arc;

use shard_protocol::{
    Advance, BeginPublish, CellHandle, CollectionName, Epoch, Leak, Limits, MessageKind, Refusal,
    RefusalCode, ResetCollection, Revision, Row, RowBatch, RowHandle, declassify, message_kind,
};
use shard_server::Server;
use shard_store::MemoryRows;

use crate::support::{
    EPOCH, HELD, PUBLISHED, activate, publish, publish_batch, request, request_for,
    request_of_width,
};

fn server() -> Server {
    crate::support::server(Arc::new(MemoryRows::new()), Limits::default())
}

fn refusal(server: &Server, message: &[u8]) -> RefusalCode {
    let answer = server.handle(&CollectionName::default(), message);
    assert_eq!(message_kind(&answer), Ok(MessageKind::Refusal));
    Refusal::decode(&answer, &Limits::default()).unwrap().code
}

#[test]
fn a_sound_request_is_answered() {
    let answer = server().handle(&CollectionName::default(), &request(EPOCH, 10, 1));
    assert_eq!(message_kind(&answer), Ok(MessageKind::RerankResponse));
}

#[test]
fn each_mismatch_has_its_own_class() {
    let server = server();
    assert_eq!(refusal(&server, &request(Epoch(2), 10, 1)), RefusalCode::UnknownEpoch);
    assert_eq!(refusal(&server, &request(EPOCH, 10, 9)), RefusalCode::UnknownRow);
    assert_eq!(refusal(&server, &request(EPOCH, 11, 1)), RefusalCode::UnknownRow);
    assert_eq!(refusal(&server, &request_of_width(4, EPOCH, 10, 1)), RefusalCode::WrongWidth);
    let narrow = RowBatch::new(
        declassify(EPOCH, Leak::CollectionShape),
        declassify(1, Leak::CollectionShape),
        declassify(
            vec![Row {
                handle: RowHandle(9),
                cell: declassify(CellHandle(1), Leak::CellMembership),
                coordinates: vec![1],
            }],
            Leak::StoredRows,
        ),
    );
    assert_eq!(refusal(&server, &publish_batch(HELD, 1, narrow)), RefusalCode::WrongWidth);
}

#[test]
fn bytes_that_are_no_request_are_malformed() {
    let server = server();
    let sound = request(EPOCH, 10, 1);
    let answer = server.handle(&CollectionName::default(), &sound);
    for message in [&[][..], b"GET / HTTP/1.1\r\n", &sound[..sound.len() - 1], &answer] {
        assert_eq!(refusal(&server, message), RefusalCode::Malformed);
    }
}

#[test]
fn limits_hold_before_anything_is_computed() {
    let tight = Limits { bytes: 1000, ..Limits::default() };
    let server = Server::new(Arc::new(MemoryRows::new()), tight);
    let answer = server.handle(&CollectionName::default(), &request(EPOCH, 10, 1));
    let refusal = Refusal::decode(&answer, &Limits::default()).unwrap();
    assert_eq!(refusal.code, RefusalCode::TooLarge);
    assert!(refusal.text.contains("above the limit of 1000"), "{}", refusal.text);
}

#[test]
fn a_request_that_would_compute_for_too_long_is_refused() {
    let server = server().with_request_milliseconds(0);
    let cheap = server.handle(&CollectionName::default(), &request(EPOCH, 10, 1));
    assert_eq!(message_kind(&cheap), Ok(MessageKind::RerankResponse), "less than a millisecond");
    // Every candidate takes a response of its own, and the server has none of them: the limit
    // comes before the rows.
    let handles = (0..1000).map(RowHandle).collect();
    let message = request_for(2048, EPOCH, vec![CellHandle(10)], vec![handles]);
    let answer = server.handle(&CollectionName::default(), &message);
    let refusal = Refusal::decode(&answer, &Limits::default()).unwrap();
    assert_eq!(refusal.code, RefusalCode::TooLarge);
    let words = "scoring this request would take ";
    assert!(refusal.text.starts_with(words), "{}", refusal.text);
    assert!(refusal.text.ends_with("at most 0 are allowed"), "{}", refusal.text);
}

/// Headers of the messages of the paper's layout: to open a session, to score.
#[cfg(not(feature = "slots"))]
#[test]
fn the_slot_layout_is_refused_by_name() {
    for kind in [7, 8] {
        let message = [b"SHRD\x01\0".as_slice(), &[kind, 0], &[0; 64]].concat();
        let answer = server().handle(&CollectionName::default(), &message);
        let refusal = Refusal::decode(&answer, &Limits::default()).unwrap();
        assert_eq!(refusal.code, RefusalCode::Malformed);
        let words = "this build does not know the paper's slot layout";
        assert!(refusal.text.contains(words), "{}", refusal.text);
    }
}

#[test]
fn rows_published_over_bytes_are_acknowledged_and_served() {
    let server = server();
    let main = CollectionName::default();
    assert_eq!(
        message_kind(&server.handle(&main, &publish(HELD, 1, 7))),
        Ok(MessageKind::Accepted)
    );
    let answer = server.handle(&main, &request(EPOCH, 12, 7));
    assert_eq!(message_kind(&answer), Ok(MessageKind::RerankResponse));
}

#[test]
fn the_latest_revision_is_known_without_asking_the_engine_again() {
    let server = server();
    let (main, none) = (CollectionName::default(), "none".parse().unwrap());
    assert_eq!(server.known_revision(&main), None);
    server.handle(&main, &publish(HELD, 4, 7));
    assert_eq!(server.known_revision(&main), None, "not before it is whole");
    server.handle(&main, &activate(HELD, 4));
    assert_eq!(server.known_revision(&main).map(|revision| revision.0), Some(4));
    assert_eq!(server.revision(&none).unwrap().0, 0);
    assert_eq!(server.known_revision(&none), None, "names from anybody are not remembered");
}

#[test]
fn a_copy_that_has_gone_another_way_is_told_so_and_a_reset_makes_room() {
    let server = server();
    let main = CollectionName::default();
    server.handle(&main, &publish(HELD, 4, 7));
    server.handle(&main, &activate(HELD, 4));
    assert_eq!(refusal(&server, &publish(HELD, 5, 8)), RefusalCode::Forked);
    assert_eq!(refusal(&server, &activate(None, 5)), RefusalCode::Forked);
    let reset = |from| ResetCollection::new(declassify(from, Leak::CollectionShape)).encode();
    assert_eq!(refusal(&server, &reset(HELD)), RefusalCode::Forked);
    let done = server.handle(&main, &reset(Some(PUBLISHED)));
    assert_eq!(message_kind(&done), Ok(MessageKind::Accepted));
    assert_eq!(server.known_revision(&main), None);
    assert_eq!(server.revision(&main).unwrap().0, 0);
    assert_eq!(refusal(&server, &request(EPOCH, 12, 7)), RefusalCode::UnknownEpoch);
    let late = publish(None, 1, 7);
    assert_eq!(refusal(&server, &late), RefusalCode::Forked, "of a publish before the reset");
    let next = Advance { from: None, to: PUBLISHED, revision: Revision(1), turn: 2 };
    let begin = BeginPublish::new(declassify(next, Leak::CollectionShape)).encode();
    assert_eq!(message_kind(&server.handle(&main, &begin)), Ok(MessageKind::Accepted));
}
