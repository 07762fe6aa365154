//! Messages of blind collections and of many blobs: their bytes, and what is refused of them.

use shard_rlwe::blind::{QueryRank, Shape, ShapeError};

use super::super::*;
use super::collections::{Golden, LIMITS, epoch, hex};

pub(super) fn commit() -> Disclosed<CommitName> {
    declassify(CommitName([0xcc; 16]), Leak::CollectionShape)
}

pub(super) fn query() -> BlindQuery {
    query_of(Table::Rows)
}

pub(super) fn query_of(table: Table) -> BlindQuery {
    BlindQuery::new(table, epoch(), commit(), vec![vec![1, 2, 3], vec![4, 5, 6]])
}

fn records_of(slot_bytes: usize, names: Vec<[u8; 16]>) -> Result<RecordList, RecordListError> {
    RecordList::new(
        epoch(),
        declassify(slot_bytes, Leak::CollectionShape),
        declassify(QueryRank::Two, Leak::CollectionShape),
        declassify(names, Leak::BlockChanges),
    )
}

pub(super) fn records(pages: u8) -> RecordList {
    records_of(64, (0..pages).map(|page| [0xe0 - page; 16]).collect()).unwrap()
}

pub(super) fn answer() -> BlindAnswer {
    BlindAnswer::new(vec![vec![7, 8], vec![9, 10]])
}

pub(super) fn decode_answer(bytes: &[u8]) -> Result<BlindAnswer, DecodeError> {
    let decoded = BlindAnswer::decode(bytes, 2, 2, &LIMITS);
    if let Ok(answer) = &decoded {
        assert_eq!(answer.encode(), bytes, "one message has one encoding");
    }
    decoded
}

fn list_of(names: Vec<[u8; 16]>, checks: usize) -> Result<BlockList, BlockListError> {
    let shape = Shape::new(384, 32, QueryRank::Two).unwrap();
    BlockList::new(
        epoch(),
        declassify(shape, Leak::CollectionShape),
        declassify(checks, Leak::CollectionShape),
        declassify(names, Leak::BlockChanges),
    )
}

pub(super) fn list(blocks: u8, checks: usize) -> BlockList {
    list_of((0..blocks).map(|block| [0xf0 - block; 16]).collect(), checks).unwrap()
}

fn names() -> Disclosed<Vec<BlobName>> {
    let names = ["b", "a.b"].map(|name| name.parse().unwrap());
    declassify(names.to_vec(), Leak::SealedBlobs)
}

pub(super) fn put() -> PutBlobs {
    let blobs = [("b", vec![0xab]), ("a.b", vec![])];
    let blobs = blobs.map(|(name, sealed)| (name.parse().unwrap(), sealed));
    PutBlobs::new(declassify(blobs.to_vec(), Leak::SealedBlobs))
}

pub(super) fn found() -> Blobs {
    Blobs { blobs: vec![Some(vec![1, 2]), None, Some(vec![])] }
}

pub(super) fn golden() -> Vec<Golden> {
    macro_rules! message {
        ($kind:literal, $sound:expr, $type:ident, $hex:literal) => {
            ($kind, $sound.encode(), $hex, |bytes: &[u8]| {
                $type::decode(bytes, &LIMITS).map(|message| message.encode())
            })
        };
    }
    vec![
        message!(
            "1a00",
            query(),
            BlindQuery,
            "0700000000000000 cccccccccccccccccccccccccccccccc 02000000 03000000 010203 040506"
        ),
        ("1b00", answer().encode(), "02000000 02000000 0708 090a", |bytes| {
            decode_answer(bytes).map(|answer| answer.encode())
        }),
        message!(
            "1c00",
            list(2, 1),
            BlockList,
            "0700000000000000 80010000 20000000 02 01000000 02000000
             f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0 efefefefefefefefefefefefefefefef"
        ),
        message!("1d00", put(), PutBlobs, "02000000 03 612e62 00000000 01 62 01000000 ab"),
        message!("1e00", FetchBlobs::new(names()), FetchBlobs, "02000000 01 62 03 612e62"),
        message!(
            "1f00",
            FetchSharedMany::new(names()),
            FetchSharedMany,
            "02000000 01 62 03 612e62"
        ),
        message!("2000", found(), Blobs, "03000000 01 02000000 0102 00 01 00000000"),
        message!(
            "2100",
            query_of(Table::Records),
            BlindQuery,
            "0700000000000000 cccccccccccccccccccccccccccccccc 02000000 03000000 010203 040506"
        ),
        message!(
            "2200",
            records(2),
            RecordList,
            "0700000000000000 40000000 02 02000000
             e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0 dfdfdfdfdfdfdfdfdfdfdfdfdfdfdfdf"
        ),
    ]
}

#[test]
fn what_goes_in_comes_out() {
    assert_eq!(BlindQuery::decode(&query().encode(), &LIMITS), Ok(query()));
    let fetch = query_of(Table::Records);
    assert_eq!(BlindQuery::decode(&fetch.encode(), &LIMITS), Ok(fetch));
    assert_eq!(RecordList::decode(&records(5).encode(), &LIMITS), Ok(records(5)));
    let stored = PutBlob::record_list(commit(), &records(5));
    assert_eq!(stored.name(), &BlobName::records(*commit()));
    let asked = FetchSharedMany::pages(declassify(vec![[0xab; 16]], Leak::FetchedRecords));
    assert_eq!(asked.names(), [BlobName::page([0xab; 16])]);
    assert_eq!(decode_answer(&answer().encode()), Ok(answer()));
    assert_eq!(BlockList::decode(&list(9, 6).encode(), &LIMITS), Ok(list(9, 6)));
    assert_eq!(PutBlobs::decode(&put().encode(), &LIMITS), Ok(put()));
    assert_eq!(Blobs::decode(&found().encode(), &LIMITS), Ok(found()));
    let stored = PutBlob::block_list(commit(), &list(3, 1));
    assert_eq!(BlockList::decode(stored.sealed(), &LIMITS), Ok(list(3, 1)));
    assert_eq!(stored.name(), &BlobName::blocks(*commit()));
}

#[test]
fn an_answer_must_fit_the_search() {
    let bytes = answer().encode();
    for (queries, length) in [(1, 2), (3, 2), (2, 1), (2, 3), (0, 2)] {
        let decoded = BlindAnswer::decode(&bytes, queries, length, &LIMITS);
        assert!(matches!(decoded, Err(DecodeError::Invalid(_))), "{queries} {length}");
    }
}

#[test]
fn lists_that_cannot_be_are_refused() {
    let distinct =
        |count: usize| -> Vec<[u8; 16]> { (0..count as u128).map(u128::to_le_bytes).collect() };
    assert_eq!(list_of(Vec::new(), 0), Err(BlockListError::Blocks(0)));
    let most = BlockList::MOST;
    assert!(list_of(distinct(most), 0).is_ok());
    assert_eq!(list_of(distinct(most + 1), 0), Err(BlockListError::Blocks(most + 1)));
    assert_eq!(list_of(distinct(2), 3), Err(BlockListError::Checks { checks: 3, blocks: 2 }));
    let twice = list_of(vec![[1; 16], [2; 16], [1; 16]], 0).unwrap_err();
    assert_eq!(twice.to_string(), "block 01010101010101010101010101010101 is listed twice");
    let damaged = |at: usize, value: u8| {
        let mut bytes = list(2, 1).encode();
        bytes[at] = value;
        BlockList::decode(&bytes, &LIMITS).unwrap_err()
    };
    assert_eq!(damaged(20, 24), DecodeError::BlockShape(ShapeError::Tile(24)));
    assert!(matches!(damaged(17, 0xff), DecodeError::Limit { .. }));
    assert!(matches!(damaged(24, 3), DecodeError::Invalid(_)));
    assert_eq!(damaged(25, 3), DecodeError::Invalid("more checks than blocks"));
    assert!(matches!(damaged(32, 0xff), DecodeError::Limit { what: "blocks", .. }));
    let mut twice = list(2, 1).encode();
    twice.copy_within(33..49, 49);
    let twice = BlockList::decode(&twice, &LIMITS);
    assert_eq!(twice, Err(DecodeError::Invalid("a block that is listed twice")));
}

#[test]
fn lists_of_records_that_cannot_be_are_refused() {
    let pages = |pages| RecordListError::Shape(shard_rlwe::blind::RecordShapeError::Pages(pages));
    assert_eq!(records_of(64, Vec::new()), Err(pages(0)));
    assert!(matches!(records_of(63, vec![[1; 16]]), Err(RecordListError::Shape(_))));
    let twice = records_of(64, vec![[1; 16], [2; 16], [1; 16]]).unwrap_err();
    assert_eq!(twice.to_string(), "page 01010101010101010101010101010101 is listed twice");
    let damaged = |at: usize, value: u8| {
        let mut bytes = records(2).encode();
        bytes[at] = value;
        RecordList::decode(&bytes, &LIMITS).unwrap_err()
    };
    assert!(matches!(damaged(16, 63), DecodeError::RecordShape(_)));
    assert!(matches!(damaged(20, 3), DecodeError::Invalid(_)));
    assert!(matches!(damaged(24, 0xff), DecodeError::Limit { what: "pages", .. }));
    let mut twice = records(2).encode();
    twice.copy_within(25..41, 41);
    let twice = RecordList::decode(&twice, &LIMITS);
    assert_eq!(twice, Err(DecodeError::Invalid("a page that is listed twice")));
}

#[test]
fn counts_and_lengths_are_refused_before_anything_is_reserved() {
    // In a search: queries, the bytes of each; in the others, how many there are.
    for (kind, at) in
        [("1a00", 32), ("1a00", 36), ("1b00", 8), ("1b00", 12), ("1c00", 25), ("1c00", 29)]
            .into_iter()
            .chain(["1d00", "1e00", "1f00", "2000"].map(|kind| (kind, 8)))
            .chain([("2100", 32), ("2100", 36), ("2200", 21)])
    {
        let (_, mut bytes, _, again) = golden().into_iter().find(|one| one.0 == kind).unwrap();
        for count in [u32::MAX, 5000] {
            bytes[at..at + 4].copy_from_slice(&count.to_le_bytes());
            assert!(again(&bytes).is_err(), "{}", hex(&bytes));
        }
        bytes[at..at + 4].fill(0xff);
        assert!(matches!(again(&bytes), Err(DecodeError::Limit { .. })), "{}", hex(&bytes));
        bytes[at..at + 4].fill(0);
        let nothing = again(&bytes);
        assert!(nothing.is_err() || kind == "1c00", "{}: {nothing:?}", hex(&bytes));
    }
    let nine = [&query().encode()[..32], &9_u32.to_le_bytes(), &[1, 0, 0, 0], &[0; 9]].concat();
    assert!(matches!(BlindQuery::decode(&nine, &LIMITS), Err(DecodeError::Limit { .. })));
}

#[test]
fn many_blobs_are_in_the_order_of_their_names() {
    let mut bytes = put().encode();
    assert_eq!(put().blobs()[0].0.as_str(), "a.b", "sorted");
    // The second name becomes the first one's prefix, then the first one itself.
    bytes[21] = b'a';
    assert_eq!(PutBlobs::decode(&bytes, &LIMITS), Err(DecodeError::Order("blob names")));
    let mut flag = found().encode();
    flag[12] = 2;
    assert!(matches!(Blobs::decode(&flag, &LIMITS), Err(DecodeError::Invalid(_))));
}

#[test]
fn names_of_blocks_say_who_may_have_them() {
    let (block, hint) = (BlobName::block([0xab; 16]), BlobName::hint([0xab; 16]));
    assert_eq!(block.as_str(), "block.abababababababababababababababab");
    assert_eq!(hint.as_str(), "hint.abababababababababababababababab");
    let (blocks, checks) = (BlobName::blocks(*commit()), BlobName::checks(*commit()));
    assert_eq!(blocks.as_str(), "blocks.cccccccccccccccccccccccccccccccc");
    assert_eq!(checks.as_str(), "checks.cccccccccccccccccccccccccccccccc");
    for (name, shared, list) in [
        (&block, false, false),
        (&hint, true, false),
        (&blocks, false, true),
        (&checks, true, false),
    ] {
        assert_eq!(name.as_str().parse().as_ref(), Ok(name));
        assert_eq!((name.is_shared(), name.is_block_list()), (shared, list), "{name}");
    }
    let before = BlobName::before_block_lists();
    assert!(block < before && before < blocks && BlobName::block([0xff; 16]) < before);
}

#[test]
#[should_panic(expected = "of one length")]
fn queries_of_two_lengths_are_not_sent() {
    BlindQuery::new(Table::Rows, epoch(), commit(), vec![vec![1], vec![1, 2]]);
}

#[test]
#[should_panic(expected = "1 to 8 queries")]
fn nine_queries_are_not_sent() {
    BlindQuery::new(Table::Rows, epoch(), commit(), vec![vec![1]; 9]);
}

/// Bytes of little-endian words.
fn words(hex: &str) -> Vec<u8> {
    let words = hex.split_whitespace().map(|word| u32::from_str_radix(word, 16).unwrap());
    words.flat_map(u32::to_be_bytes).collect()
}

pub(super) fn celled_query() -> BlindQuery {
    query().of_cells(declassify(vec![0, 3, 300], Leak::ActiveCells))
}

pub(super) fn celled_list() -> BlockList {
    list(3, 1).with_cells(declassify(vec![1, 0, 1], Leak::CellMembership)).unwrap()
}

#[test]
fn cells_follow_what_there_is_without_them() {
    let (query, list) = (celled_query(), celled_list());
    let plain = super::blind::query().encode();
    assert_eq!(query.encode(), [plain, words("03000000 00000000 03000000 2c010000")].concat());
    let plain = super::blind::list(3, 1).encode();
    assert_eq!(list.encode(), [plain, words("01000000 00000000 01000000")].concat());
    assert_eq!(BlindQuery::decode(&query.encode(), &LIMITS), Ok(query.clone()));
    assert_eq!(BlockList::decode(&list.encode(), &LIMITS), Ok(list.clone()));
    assert_eq!(query.cells(), Some(&[0, 3, 300][..]));
    assert_eq!((list.cells(), super::blind::list(3, 1).cells()), (Some(&[1, 0, 1][..]), None));
    // Without its cells, each is the message that it was; cut anywhere else it is none.
    let bytes = query.encode();
    for length in 0..bytes.len() {
        let decoded = BlindQuery::decode(&bytes[..length], &LIMITS);
        assert_eq!(decoded.is_ok(), length == bytes.len() - 16, "{length}");
    }
    let bytes = list.encode();
    for length in 0..bytes.len() {
        let decoded = BlockList::decode(&bytes[..length], &LIMITS);
        assert_eq!(decoded.is_ok(), length == bytes.len() - 12, "{length}");
    }
}

#[test]
fn cells_that_cannot_be_are_refused() {
    let decoded = |cells: &str| {
        BlindQuery::decode(&[query().encode(), words(cells)].concat(), &LIMITS).map(drop)
    };
    assert_eq!(decoded("00000000"), Err(DecodeError::Invalid("a search of no cell")));
    let twice = decoded("02000000 05000000 05000000");
    assert_eq!(twice, Err(DecodeError::Order("cells of a search")));
    assert!(matches!(decoded("01100000"), Err(DecodeError::Limit { .. })));
    assert!(matches!(decoded("01000000 05000000 00000000"), Err(DecodeError::Trailing(4))));
    let fetch = [query_of(Table::Records).encode(), words("01000000 05000000")].concat();
    assert_eq!(BlindQuery::decode(&fetch, &LIMITS), Err(DecodeError::Trailing(8)));
    let in_cells = |cells: &[u32]| {
        list(2, 1).with_cells(declassify(cells.to_vec(), Leak::CellMembership)).map(drop)
    };
    assert_eq!(in_cells(&[1]), Err(BlockListError::Cells { cells: 1, blocks: 2 }));
    assert_eq!(in_cells(&[1, 4096]), Err(BlockListError::NoSuchCell(4096)));
    let far = [list(1, 0).encode(), words("00100000")].concat();
    assert!(matches!(BlockList::decode(&far, &LIMITS), Err(DecodeError::Invalid(_))));
}

#[test]
#[should_panic(expected = "another leak")]
fn cells_of_a_search_are_active_cells() {
    let _ = query().of_cells(declassify(vec![1], Leak::CellMembership));
}

#[test]
#[should_panic(expected = "another leak")]
fn cells_of_blocks_are_membership() {
    let _ = list(1, 0).with_cells(declassify(vec![1], Leak::ActiveCells));
}
