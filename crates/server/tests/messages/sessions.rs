//! Keys of sessions over bytes: one budget for both layouts, whoever opens how many.

use std::sync::Arc;

use shard_protocol::{
    CollectionName, Leak, Limits, MessageKind, OpenSession, Refusal, RefusalCode, SessionId,
    declassify, message_kind,
};
use shard_rlwe::{Entropy, Layout, MergeSpan, Parameters, SessionKey};
use shard_server::Server;
use shard_store::MemoryRows;

fn entropy() -> Entropy {
    Entropy::from_os().expect("the operating system has randomness")
}

/// The message that leaves merge keys for a session.
fn merge_session() -> Vec<u8> {
    let degree = Parameters::default().degree();
    let layout = Layout::packed(degree, 4, 1, degree.coefficients() / 4, true).unwrap();
    let span = MergeSpan::of(&layout, 4).unwrap();
    let (_, keys) = SessionKey::fresh(degree, span, 1, entropy());
    OpenSession::new(declassify(SessionId([0; 16]), Leak::SessionLinkage), keys).encode()
}

/// The message that leaves Galois keys for a session; without the slot layout, merge keys.
#[cfg(feature = "slots")]
fn slots_session() -> Vec<u8> {
    use shard_protocol::OpenSlotsSession;
    use shard_rlwe::RingDegree;
    use shard_rlwe::slots::{SlotsClient, SlotsLayout, SlotsParameters};

    let degree = RingDegree::new(4096).unwrap();
    let parameters = SlotsParameters::with_scale(degree, &[40, 24, 40], 22).unwrap();
    let layout = SlotsLayout::new(parameters, 6, 2).unwrap();
    let (_, context) = SlotsClient::generate(layout.clone(), entropy()).unwrap();
    let id = declassify(SessionId([0; 16]), Leak::SessionLinkage);
    let shape = declassify(layout, Leak::RequestShape);
    OpenSlotsSession::new(id, shape, context.to_bytes()).encode()
}

#[cfg(not(feature = "slots"))]
use merge_session as slots_session;

/// The same message for another session: its name follows the header of eight bytes.
fn named(message: &[u8], number: u32) -> Vec<u8> {
    let mut message = message.to_vec();
    message[8..12].copy_from_slice(&number.to_le_bytes());
    message
}

#[test]
fn a_thousand_sessions_of_both_kinds_stay_within_one_budget() {
    let budget = 8 << 20;
    let server = Server::new(Arc::new(MemoryRows::new()), Limits::default());
    let server = server.with_session_bytes(budget);
    let (merge, slots) = (merge_session(), slots_session());
    for number in 0..1000 {
        let message = named(if number % 50 == 0 { &slots } else { &merge }, number);
        let answer = server.handle(&CollectionName::default(), &message);
        assert_eq!(message_kind(&answer), Ok(MessageKind::Accepted));
        assert!(server.sessions().bytes <= budget, "{:?}", server.sessions());
    }
    assert!(server.sessions().open > 10, "{:?}", server.sessions());
}

#[test]
fn keys_are_counted_as_the_memory_they_take_and_not_as_their_bytes_on_the_wire() {
    for message in [merge_session(), slots_session()] {
        let server = Server::new(Arc::new(MemoryRows::new()), Limits::default());
        server.handle(&CollectionName::default(), &message);
        let counts = server.sessions();
        assert_eq!(counts.open, 1);
        assert!(counts.bytes > message.len(), "{counts:?} for {} bytes", message.len());
    }
}

#[test]
fn keys_beyond_the_whole_budget_are_refused() {
    let server = Server::new(Arc::new(MemoryRows::new()), Limits::default());
    let server = server.with_session_bytes(1000);
    let answer = server.handle(&CollectionName::default(), &merge_session());
    let refusal = Refusal::decode(&answer, &Limits::default()).unwrap();
    assert_eq!(refusal.code, RefusalCode::TooLarge, "{refusal}");
    assert_eq!(server.sessions().open, 0);
}
