//! One sound message of every kind, and a server that they belong to.
//!
//! Keys and seeds are fresh in every process. What a decoder decides does not depend on them:
//! any bytes are a ciphertext of something.

use std::sync::Arc;

use shard_protocol::{
    ActivateEpoch, Advance, BeginPublish, BlindQuery, BlobName, BlockList, Candidates, CellHandle,
    CollectionName, CommitName, DeleteBlob, DeleteRows, Disclosed, Epoch, FetchBlob, FetchBlobs,
    FetchShared, FetchSharedMany, Leak, Limits, ListBlobs, ListMacs, MessageKind, OpenSession,
    OpenSlotsSession, PublishRows, PutBlob, PutBlobs, RecordList, RerankRequest, ResetCollection,
    Revision, Row, RowBatch, RowHandle, RowMac, SessionId, SlotsRequest, Table, declassify,
};
use shard_rlwe::blind::{PAGE_SLOTS, QueryRank, Shape};
use shard_rlwe::slots::{SlotsClient, SlotsLayout, SlotsParameters};
use shard_rlwe::{
    Entropy, Layout, MergeSpan, Parameters, RequestKey, ResponseKey, RingDegree, SessionKey,
};
use shard_server::Server;
use shard_store::MemoryRows;

/// Coordinates of the rows.
pub const WIDTH: usize = 6;

const EPOCH: Epoch = Epoch(3);
const SESSION: SessionId = SessionId([9; 16]);

/// Low enough that no mutation can make the server work for long.
pub fn limits() -> Limits {
    Limits { bytes: 4 << 20, cells: 16, candidates: 256, width: 4096, ..Limits::default() }
}

fn epoch() -> Disclosed<Epoch> {
    declassify(EPOCH, Leak::CollectionShape)
}

/// Five rows in two cells.
pub fn rows() -> RowBatch {
    let row = |handle: u64| Row {
        cell: declassify(CellHandle(10 + handle % 2), Leak::CellMembership),
        handle: RowHandle(handle),
        coordinates: (0..WIDTH as i32).map(|j| (j - 2) * (handle as i32 + 1) * 1000).collect(),
    };
    RowBatch::new(
        epoch(),
        declassify(WIDTH, Leak::CollectionShape),
        declassify((1..=5).map(row).collect(), Leak::StoredRows),
    )
}

/// A server that holds [`rows`].
pub fn server() -> Server {
    let server = Server::new(Arc::new(MemoryRows::new()), limits());
    server.hold(&CollectionName::default(), rows()).expect("an empty engine takes any batch");
    server
}

/// The same rows with MACs, as they are published.
pub fn publish() -> PublishRows {
    let macs = (1..=5).map(|byte| RowMac([byte; 16])).collect();
    PublishRows::new(advance(0, 0), rows(), declassify(macs, Leak::StoredRows))
}

/// From what [`server`] holds, or from itself once it is activated.
fn advance(from: u8, turn: u64) -> Disclosed<Advance> {
    let (from, to) = (Some(CommitName([from; 16])), CommitName([1; 16]));
    declassify(Advance { from, to, revision: Revision(4), turn }, Leak::CollectionShape)
}

fn blob() -> Disclosed<BlobName> {
    declassify("claim".parse().expect("a plain name"), Leak::SealedBlobs)
}

/// Every request that keeps a collection, in an order in which a server grants them all.
pub fn keeping() -> Vec<Vec<u8>> {
    let sealed = declassify(vec![0x5a; 40], Leak::SealedBlobs);
    let names = || declassify(vec![blob().into_inner(); 2], Leak::SealedBlobs);
    let other: BlobName = "backup.0".parse().expect("a plain name");
    let blobs = vec![(other, vec![0x5b; 30]), (blob().into_inner(), vec![])];
    let gone = declassify(vec![RowHandle(5), RowHandle(77)], Leak::StoredRows);
    let after = declassify(RowHandle(2), Leak::StoredRows);
    vec![
        publish().encode(),
        BeginPublish::new(advance(0, 1)).encode(),
        ActivateEpoch::new(advance(0, 1), epoch()).encode(),
        ListMacs::new(epoch(), None).encode(),
        ListMacs::new(epoch(), Some(after)).encode(),
        DeleteRows::new(advance(1, 1), epoch(), gone).encode(),
        MessageKind::Describe.bare(),
        PutBlob::new(blob(), sealed).encode(),
        PutBlobs::new(declassify(blobs, Leak::SealedBlobs)).encode(),
        FetchBlobs::new(names()).encode(),
        FetchSharedMany::new(names()).encode(),
        FetchBlob::new(blob()).encode(),
        FetchShared::new(blob()).encode(),
        ListBlobs::new(None, 10).encode(),
        ListBlobs::new(Some(blob()), 10).encode(),
        DeleteBlob::new(blob()).encode(),
        ResetCollection::new(declassify(Some(CommitName([1; 16])), Leak::CollectionShape)).encode(),
    ]
}

fn candidates() -> Candidates {
    let named = vec![vec![RowHandle(2), RowHandle(4)], vec![RowHandle(1), RowHandle(3)]];
    Candidates::new(
        declassify(vec![CellHandle(10), CellHandle(11)], Leak::ActiveCells),
        declassify(named, Leak::CandidateHandles),
    )
    .expect("two cells with two rows each")
}

fn entropy() -> Entropy {
    Entropy::from_os().expect("the operating system has randomness")
}

/// A request for four rows, two tiles a query, and the key that opens its answer.
pub fn request() -> (RerankRequest, ResponseKey) {
    let parameters = Parameters::default();
    let layout = Layout::new(parameters.degree(), WIDTH, 2).expect("six coordinates in two tiles");
    let query = layout.encode_queries(&[0.25; 2 * WIDTH], 1e6);
    let (key, seed, ciphertexts) = RequestKey::fresh(&parameters, entropy()).encrypt(&query);
    let shape = declassify((parameters, layout), Leak::RequestShape);
    let request = RerankRequest::new(epoch(), shape, None, candidates(), seed, ciphertexts);
    (request, key)
}

/// Merge keys, and a request of their session.
pub fn session() -> (OpenSession, RerankRequest) {
    let parameters = Parameters::default();
    // Blocks as wide as the ring: one row a product, so that four rows take two merges.
    let blocks = parameters.degree().coefficients() / WIDTH;
    let layout = Layout::packed(parameters.degree(), WIDTH, 1, blocks, true)
        .expect("blocks that fill the ring");
    let span = MergeSpan::of(&layout, 4).expect("four rows that do not share a product");
    let (mut key, keys) = SessionKey::fresh(parameters.degree(), span, 1, entropy());
    let query = layout.encode_queries(&[0.25; 2 * WIDTH], 1e6);
    let (seed, ciphertexts) =
        key.encrypt(&parameters, &query, entropy()).expect("the first request of a session");
    let id = || declassify(SESSION, Leak::SessionLinkage);
    let shape = declassify((parameters, layout), Leak::RequestShape);
    let request = RerankRequest::new(epoch(), shape, Some(id()), candidates(), seed, ciphertexts);
    (OpenSession::new(id(), keys), request)
}

/// A session in slots, a request of it, and the client that opens its answer. The ring is the
/// smallest that has room for a product and a key switch.
pub fn slots_session() -> (OpenSlotsSession, SlotsRequest, SlotsClient) {
    let degree = RingDegree::new(4096).expect("a power of two");
    let parameters =
        SlotsParameters::with_scale(degree, &[40, 24, 40], 22).expect("104 bits of 109");
    let layout = SlotsLayout::new(parameters, WIDTH, 2).expect("two vectors of six");
    let (client, context) =
        SlotsClient::generate(layout.clone(), entropy()).expect("keys of the layout");
    let queries = vec![vec![0.25; WIDTH]; 2];
    let ciphertexts = client.encrypt_queries(&queries, entropy()).expect("two queries");
    let id = || declassify(SESSION, Leak::SessionLinkage);
    let shape = declassify(layout, Leak::RequestShape);
    let scores = declassify(vec![0.5, -0.25, 0.0, 1.0], Leak::PrefixScores);
    let request = SlotsRequest::new(epoch(), id(), candidates(), scores, ciphertexts);
    (OpenSlotsSession::new(id(), shape, context.to_bytes()), request, client)
}

/// Blocks of the blind collection, checks included.
const BLOCKS: u8 = 3;

/// The cell of each, where they are in cells.
const CELLS: [u32; BLOCKS as usize] = [0, 4, 4];

/// Bytes of a slot of its records, of which there is one page.
const SLOT_BYTES: usize = 24;

/// How rows lie in the blocks of a blind collection.
pub fn blind_shape() -> Shape {
    Shape::new(WIDTH, 8, QueryRank::One).expect("rows of six coordinates in one tile")
}

/// Residues below the modulus: a block or a query of something.
fn residues(seed: u8) -> Vec<u8> {
    let noise: Vec<u8> = (0..97).map(|at: u8| (at ^ seed).wrapping_mul(61) & 0x7f).collect();
    crate::stretch(&noise, blind_shape().block_bytes())
}

/// The list of the blocks of a blind collection at commit 1.
pub fn block_list() -> BlockList {
    let names = (0..BLOCKS).map(|block| [block; 16]).collect();
    BlockList::new(
        epoch(),
        declassify(blind_shape(), Leak::CollectionShape),
        declassify(1, Leak::CollectionShape),
        declassify(names, Leak::BlockChanges),
    )
    .expect("three blocks, one of them a check")
}

/// The same in cells.
pub fn block_list_of_cells() -> BlockList {
    let cells = declassify(CELLS.to_vec(), Leak::CellMembership);
    block_list().with_cells(cells).expect("a cell for every block")
}

/// The list of the pages of its records.
pub fn record_list() -> RecordList {
    RecordList::new(
        epoch(),
        declassify(SLOT_BYTES, Leak::CollectionShape),
        declassify(QueryRank::One, Leak::CollectionShape),
        declassify(vec![[40; 16]], Leak::BlockChanges),
    )
    .expect("one page of small slots")
}

/// The publish of a blind collection in a server that holds nothing; `blocks` and `records` are the blobs with
/// the lists of its blocks and of the pages of its records.
pub fn blind_publish(blocks: Vec<u8>, records: Vec<u8>) -> Vec<Vec<u8>> {
    let (to, revision) = (CommitName([1; 16]), Revision(1));
    let advance =
        || declassify(Advance { from: None, to, revision, turn: 1 }, Leak::CollectionShape);
    let block = |block: u8| (BlobName::block([block; 16]), residues(block));
    let page = (BlobName::page([40; 16]), residues(40)[..PAGE_SLOTS * SLOT_BYTES].to_vec());
    let stored = declassify((0..BLOCKS).map(block).chain([page]).collect(), Leak::SealedBlobs);
    let put = |name: BlobName, list: Vec<u8>| {
        let name = declassify(name, Leak::SealedBlobs);
        PutBlob::new(name, declassify(list, Leak::SealedBlobs)).encode()
    };
    vec![
        BeginPublish::new(advance()).encode(),
        PutBlobs::new(stored).encode(),
        put(BlobName::records(to), records),
        put(BlobName::blocks(to), blocks),
        ActivateEpoch::new(advance(), epoch()).encode(),
    ]
}

/// Two queries of a table of that collection.
fn two_queries(table: Table) -> BlindQuery {
    let commit = declassify(CommitName([1; 16]), Leak::CollectionShape);
    BlindQuery::new(table, epoch(), commit, vec![residues(50), residues(51)])
}

/// A search of that collection, of two queries.
pub fn blind_query() -> BlindQuery {
    two_queries(Table::Rows)
}

/// A search of one of its cells.
pub fn query_of_cells() -> BlindQuery {
    blind_query().of_cells(declassify(vec![4], Leak::ActiveCells))
}

/// A fetch of two of its records.
pub fn record_query() -> BlindQuery {
    two_queries(Table::Records)
}

/// Bytes of the answer to one query.
pub fn answer_bytes(query: &BlindQuery) -> usize {
    match (query.table(), query.cells()) {
        (Table::Records, _) => record_list().shape().answer_bytes(),
        (Table::Rows, None) => block_list().answer_bytes(),
        (Table::Rows, Some(asked)) => {
            let blocks = CELLS.iter().filter(|cell| asked.contains(cell)).count();
            blind_shape().answer_bytes(blocks)
        }
    }
}

/// A server that holds nothing.
pub fn empty_server() -> Server {
    Server::new(Arc::new(MemoryRows::new()), limits()).with_block_bytes(1 << 20)
}

/// A server that holds the blind collection, with its blocks in cells.
pub fn blind_server() -> Server {
    let server = empty_server();
    for message in blind_publish(block_list_of_cells().encode(), record_list().encode()) {
        server.handle(&CollectionName::default(), &message);
    }
    server
}
