//! A server with a few rows, and messages to send to one.

#![allow(dead_code, reason = "every test program uses its own part of this")]

use std::sync::Arc;

use shard_protocol::{
    ActivateEpoch, Advance, Candidates, CellHandle, CollectionName, CommitName, Disclosed, Epoch,
    Leak, Limits, OpenSession, PublishRows, RerankRequest, Revision, Row, RowBatch, RowHandle,
    RowMac, SessionId, declassify,
};
use shard_rlwe::{Entropy, Layout, MergeSpan, Parameters, RequestKey, SessionKey};
use shard_server::Server;
use shard_store::RowStore;

pub const EPOCH: Epoch = Epoch(1);
pub const WIDTH: usize = 3;

/// A server with three rows in the collection `main`, unless another one over the same engine put them there.
pub fn server(engine: Arc<dyn RowStore>, limits: Limits) -> Server {
    let is_filled = engine.is_remote() && !engine.collections().expect("it answers").is_empty();
    let server = Server::new(engine, limits);
    if is_filled {
        return server;
    }
    let rows = vec![row(1, 10, [1, 2, 3]), row(2, 10, [4, 5, 6]), row(3, 11, [7, 8, 9])];
    server.hold(&CollectionName::default(), batch(rows)).expect("an engine that takes rows");
    server
}

pub fn row(handle: u64, cell: u64, coordinates: [i32; WIDTH]) -> Row {
    Row {
        handle: RowHandle(handle),
        cell: declassify(CellHandle(cell), Leak::CellMembership),
        coordinates: coordinates.to_vec(),
    }
}

pub fn batch(rows: Vec<Row>) -> RowBatch {
    RowBatch::new(
        declassify(EPOCH, Leak::CollectionShape),
        declassify(WIDTH, Leak::CollectionShape),
        declassify(rows, Leak::StoredRows),
    )
}

/// An encrypted query for one row.
pub fn request(epoch: Epoch, cell: u64, row: u64) -> Vec<u8> {
    request_of_width(WIDTH, epoch, cell, row)
}

/// The same, for rows of another width.
pub fn request_of_width(width: usize, epoch: Epoch, cell: u64, row: u64) -> Vec<u8> {
    request_for(width, epoch, vec![CellHandle(cell)], vec![vec![RowHandle(row)]])
}

/// The same, for many rows of one cell.
pub fn request_for(
    width: usize,
    epoch: Epoch,
    cells: Vec<CellHandle>,
    rows: Vec<Vec<RowHandle>>,
) -> Vec<u8> {
    let parameters = Parameters::default();
    let layout = Layout::new(parameters.degree(), width, 1).unwrap();
    let candidates = Candidates::new(
        declassify(cells, Leak::ActiveCells),
        declassify(rows, Leak::CandidateHandles),
    )
    .unwrap();
    let key = RequestKey::fresh(&parameters, Entropy::from_os().unwrap());
    let (_, seed, ciphertexts) = key.encrypt(&layout.encode_query(&vec![0.5; width], 1e6));
    let epoch = declassify(epoch, Leak::CollectionShape);
    let shape = declassify((parameters, layout), Leak::RequestShape);
    RerankRequest::new(epoch, shape, None, candidates, seed, ciphertexts).encode()
}

/// A session of this number: the message that opens it, and one that asks for two rows under its key.
pub fn session(number: u8) -> (Vec<u8>, Vec<u8>) {
    let parameters = Parameters::default();
    let degree = parameters.degree();
    let layout = Layout::packed(degree, WIDTH, 1, degree.coefficients() / 4, true).unwrap();
    let span = MergeSpan::of(&layout, 2).unwrap();
    let (mut key, keys) = SessionKey::fresh(degree, span, 1, Entropy::from_os().unwrap());
    let id = declassify(SessionId([number; 16]), Leak::SessionLinkage);
    let candidates = Candidates::new(
        declassify(vec![CellHandle(10)], Leak::ActiveCells),
        declassify(vec![vec![RowHandle(1), RowHandle(2)]], Leak::CandidateHandles),
    );
    let query = layout.encode_query(&[0.5; WIDTH], 1e6);
    let (seed, ciphertexts) =
        key.encrypt(&parameters, &query, Entropy::from_os().unwrap()).unwrap();
    let epoch = declassify(EPOCH, Leak::CollectionShape);
    let shape = declassify((parameters, layout), Leak::RequestShape);
    let request =
        RerankRequest::new(epoch, shape, Some(id), candidates.unwrap(), seed, ciphertexts);
    (OpenSession::new(id, keys).encode(), request.encode())
}

/// What [`server`] holds in the collection `main`.
pub const HELD: Option<CommitName> = Some(CommitName([0; 16]));

/// The commit that is published here.
pub const PUBLISHED: CommitName = CommitName([1; 16]);

fn advance(from: Option<CommitName>, revision: u64) -> Disclosed<Advance> {
    let advance = Advance { from, to: PUBLISHED, revision: Revision(revision), turn: 0 };
    declassify(advance, Leak::CollectionShape)
}

/// One row to publish.
pub fn publish(from: Option<CommitName>, revision: u64, handle: u64) -> Vec<u8> {
    publish_batch(from, revision, batch(vec![row(handle, 12, [4, 5, 6])]))
}

/// Rows to publish.
pub fn publish_batch(from: Option<CommitName>, revision: u64, batch: RowBatch) -> Vec<u8> {
    let macs = declassify(vec![RowMac([1; 16]); batch.rows().len()], Leak::StoredRows);
    PublishRows::new(advance(from, revision), batch, macs).encode()
}

/// Ends a publish.
pub fn activate(from: Option<CommitName>, revision: u64) -> Vec<u8> {
    let epoch = declassify(EPOCH, Leak::CollectionShape);
    ActivateEpoch::new(advance(from, revision), epoch).encode()
}
