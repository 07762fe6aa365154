//! What a server says to requests it cannot or must not serve.

use std::sync::Arc;

use shard_protocol::{
    Candidates, CellTag, CollectionName, ContentTag, Epoch, Leak, Limits, MessageKind, PublishRows,
    Refusal, RefusalCode, RerankRequest, Revision, Row, RowBatch, RowHandle, declassify,
    message_kind,
};
use shard_rlwe::{Entropy, Layout, Parameters, RequestKey};
use shard_server::Server;
use shard_store::MemoryRows;

const EPOCH: Epoch = Epoch(1);

fn row(handle: u64, cell: u64, coordinates: &[i32]) -> Row {
    Row { handle: RowHandle(handle), cell: CellTag(cell), coordinates: coordinates.to_vec() }
}

fn batch(width: usize, rows: Vec<Row>) -> RowBatch {
    RowBatch::new(
        declassify(EPOCH, Leak::CollectionShape),
        declassify(width, Leak::CollectionShape),
        declassify(rows, Leak::StoredRows),
    )
}

fn server() -> Server {
    let server = Server::new(Arc::new(MemoryRows::new()), Limits::default());
    let rows = vec![row(1, 10, &[1, 2, 3]), row(2, 10, &[4, 5, 6]), row(3, 11, &[7, 8, 9])];
    server.hold(&CollectionName::default(), batch(3, rows)).unwrap();
    server
}

fn request(epoch: Epoch, width: usize, cell: u64, row: u64) -> Vec<u8> {
    let parameters = Parameters::default();
    let layout = Layout::new(parameters.degree(), width, 1).unwrap();
    let candidates = Candidates::new(
        declassify(vec![CellTag(cell)], Leak::ActiveCells),
        declassify(vec![vec![RowHandle(row)]], Leak::CandidateHandles),
    )
    .unwrap();
    let key = RequestKey::fresh(&parameters, Entropy::from_os().unwrap());
    let (_, seed, ciphertexts) = key.encrypt(&layout.encode_query(&vec![0.5; width], 1e6));
    let epoch = declassify(epoch, Leak::CollectionShape);
    let shape = declassify((parameters, layout), Leak::RequestShape);
    RerankRequest::new(epoch, shape, None, candidates, seed, ciphertexts).encode()
}

fn refusal(server: &Server, message: &[u8]) -> RefusalCode {
    let answer = server.handle(&CollectionName::default(), message);
    assert_eq!(message_kind(&answer), Ok(MessageKind::Refusal));
    Refusal::decode(&answer, &Limits::default()).unwrap().code
}

#[test]
fn a_sound_request_is_answered() {
    let answer = server().handle(&CollectionName::default(), &request(EPOCH, 3, 10, 1));
    assert_eq!(message_kind(&answer), Ok(MessageKind::RerankResponse));
}

#[test]
fn each_mismatch_has_its_own_class() {
    let server = server();
    assert_eq!(refusal(&server, &request(Epoch(2), 3, 10, 1)), RefusalCode::UnknownEpoch);
    assert_eq!(refusal(&server, &request(EPOCH, 3, 10, 9)), RefusalCode::UnknownRow);
    assert_eq!(refusal(&server, &request(EPOCH, 3, 11, 1)), RefusalCode::UnknownRow);
    assert_eq!(refusal(&server, &request(EPOCH, 4, 10, 1)), RefusalCode::WrongWidth);
    let narrow = batch(1, vec![row(9, 1, &[1])]).encode();
    assert_eq!(refusal(&server, &narrow), RefusalCode::WrongWidth);
}

#[test]
fn bytes_that_are_no_request_are_malformed() {
    let server = server();
    let sound = request(EPOCH, 3, 10, 1);
    let answer = server.handle(&CollectionName::default(), &sound);
    for message in [&[][..], b"GET / HTTP/1.1\r\n", &sound[..sound.len() - 1], &answer] {
        assert_eq!(refusal(&server, message), RefusalCode::Malformed);
    }
}

#[test]
fn limits_hold_before_anything_is_computed() {
    let tight = Limits { bytes: 1000, ..Limits::default() };
    let server = Server::new(Arc::new(MemoryRows::new()), tight);
    let answer = server.handle(&CollectionName::default(), &request(EPOCH, 3, 10, 1));
    let refusal = Refusal::decode(&answer, &Limits::default()).unwrap();
    assert_eq!(refusal.code, RefusalCode::TooLarge);
    assert!(refusal.text.contains("above the limit of 1000"), "{}", refusal.text);
}

#[test]
fn rows_published_over_bytes_are_acknowledged_and_served() {
    let server = server();
    let batch = batch(3, vec![row(7, 12, &[4, 5, 6])]);
    let main = CollectionName::default();
    let revision = declassify(Revision(1), Leak::CollectionShape);
    let tags = declassify(vec![ContentTag([1; 16])], Leak::StoredRows);
    let publish = PublishRows::new(revision, batch, tags).encode();
    assert_eq!(message_kind(&server.handle(&main, &publish)), Ok(MessageKind::Accepted));
    let answer = server.handle(&main, &request(EPOCH, 3, 12, 7));
    assert_eq!(message_kind(&answer), Ok(MessageKind::RerankResponse));
}
