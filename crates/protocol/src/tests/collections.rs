//! Messages that keep a collection: their bytes to the last bit, and what is refused of them.

use super::super::*;

pub(super) const LIMITS: Limits =
    Limits { bytes: 1 << 20, cells: 16, candidates: 256, rows: 1 << 16, width: 4096, degree: 8192 };

fn advance(from: Option<u8>) -> Disclosed<Advance> {
    let commit = |byte| CommitName([byte; 16]);
    let advance =
        Advance { from: from.map(commit), to: commit(0xbb), revision: Revision(5), turn: 3 };
    declassify(advance, Leak::CollectionShape)
}

fn reset(from: Option<u8>) -> ResetCollection {
    let from = from.map(|byte| CommitName([byte; 16]));
    ResetCollection::new(declassify(from, Leak::CollectionShape))
}

fn list_blobs(after: Option<&str>) -> ListBlobs {
    let after = after.map(|name| declassify(name.parse().unwrap(), Leak::SealedBlobs));
    ListBlobs::new(after, 500)
}

pub(super) fn epoch() -> Disclosed<Epoch> {
    declassify(Epoch(7), Leak::CollectionShape)
}

fn publish() -> PublishRows {
    let row = |handle, cell, coordinates| Row {
        handle: RowHandle(handle),
        cell: declassify(CellHandle(cell), Leak::CellMembership),
        coordinates,
    };
    let rows = vec![row(9, 1, vec![-1, 2]), row(10, 4, vec![0, i32::MIN])];
    let batch = RowBatch::new(
        epoch(),
        declassify(2, Leak::CollectionShape),
        declassify(rows, Leak::StoredRows),
    );
    let macs = vec![RowMac([0x33; 16]), RowMac([0x44; 16])];
    PublishRows::new(advance(Some(0xaa)), batch, declassify(macs, Leak::StoredRows))
}

fn list(after: Option<u64>) -> ListMacs {
    ListMacs::new(epoch(), after.map(|handle| declassify(RowHandle(handle), Leak::StoredRows)))
}

fn macs() -> RowMacs {
    let mac = |handle, byte| (RowHandle(handle), RowMac([byte; 16]));
    RowMacs { macs: vec![mac(1, 0x11), mac(u64::MAX, 0x22)] }
}

fn delete() -> DeleteRows {
    let handles = vec![RowHandle(3), RowHandle(2), RowHandle(3)];
    DeleteRows::new(advance(None), epoch(), declassify(handles, Leak::StoredRows))
}

fn state() -> CollectionState {
    let held = |epoch, width, rows, blocks| EpochState { epoch: Epoch(epoch), width, rows, blocks };
    CollectionState {
        revision: Revision(5),
        turn: 4,
        commit: Some(CommitName([0xaa; 16])),
        unfinished: Some(CommitName([0xbb; 16])),
        current: Some(Epoch(7)),
        epochs: vec![held(7, 288, 1000, 0), held(8, 384, 0, 3)],
        damage: Some("row 9".to_owned()),
    }
}

fn name() -> Disclosed<BlobName> {
    declassify("vault.head".parse().unwrap(), Leak::SealedBlobs)
}

fn put() -> PutBlob {
    PutBlob::new(name(), declassify(vec![0xab, 0xcd], Leak::SealedBlobs))
}

fn listed() -> BlobList {
    BlobList { blobs: vec![("a".parse().unwrap(), 1), ("a.b".parse().unwrap(), u64::MAX)] }
}

fn refusal() -> Refusal {
    Refusal { code: RefusalCode::Stale, text: "old".into() }
}

/// Decodes and encodes again.
pub(super) type Again = fn(&[u8]) -> Result<Vec<u8>, DecodeError>;

/// A message: its kind and its bytes after the header in hexadecimal, and how it is read.
pub(super) type Golden = (&'static str, Vec<u8>, &'static str, Again);

/// One message of every kind.
pub(super) fn golden() -> Vec<Golden> {
    macro_rules! message {
        ($kind:literal, $sound:expr, $type:ident, $hex:literal) => {
            ($kind, $sound.encode(), $hex, |bytes: &[u8]| {
                $type::decode(bytes, &LIMITS).map(|message| message.encode())
            })
        };
    }
    let mut all: Vec<Golden> = vec![
        message!(
            "0a00",
            publish(),
            PublishRows,
            "0500000000000000 0300000000000000 01 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
             0700000000000000 02000000 02000000
             0900000000000000 0100000000000000 ffffffff 02000000
             0a00000000000000 0400000000000000 00000000 00000080
             33333333333333333333333333333333 44444444444444444444444444444444"
        ),
        message!("0b00", list(None), ListMacs, "0700000000000000 00 0000000000000000"),
        message!("0b00", list(Some(9)), ListMacs, "0700000000000000 01 0900000000000000"),
        message!(
            "0c00",
            macs(),
            RowMacs,
            "02000000 0100000000000000 11111111111111111111111111111111
             ffffffffffffffff 22222222222222222222222222222222"
        ),
        message!(
            "0d00",
            delete(),
            DeleteRows,
            "0500000000000000 0300000000000000 00 00000000000000000000000000000000 bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
             0700000000000000 02000000 0200000000000000 0300000000000000"
        ),
        message!(
            "0e00",
            ActivateEpoch::new(advance(Some(0xaa)), epoch()),
            ActivateEpoch,
            "0500000000000000 0300000000000000 01 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
             0700000000000000"
        ),
        message!(
            "1700",
            BeginPublish::new(advance(None)),
            BeginPublish,
            "0500000000000000 0300000000000000 00 00000000000000000000000000000000 bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
        ),
        message!(
            "1800",
            reset(Some(0xaa)),
            ResetCollection,
            "01 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        ),
        message!(
            "1800",
            reset(None),
            ResetCollection,
            "00 00000000000000000000000000000000"
        ),
        message!(
            "1000",
            state(),
            CollectionState,
            "0500000000000000 0400000000000000
             01 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 01 bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
             01 0700000000000000 02000000
             0700000000000000 2001000000000000 e803000000000000 0000000000000000
             0800000000000000 8001000000000000 0000000000000000 0300000000000000
             05000000 726f772039"
        ),
        message!(
            "1000",
            CollectionState::default(),
            CollectionState,
            "0000000000000000 0000000000000000
             00 00000000000000000000000000000000 00 00000000000000000000000000000000
             00 0000000000000000 00000000 00000000"
        ),
        message!("1100", put(), PutBlob, "0a 7661756c742e68656164 02000000 abcd"),
        message!("1200", FetchBlob::new(name()), FetchBlob, "0a 7661756c742e68656164"),
        message!("1900", FetchShared::new(name()), FetchShared, "0a 7661756c742e68656164"),
        message!("1300", Blob { sealed: vec![1, 2, 3] }, Blob, "03000000 010203"),
        message!("1400", DeleteBlob::new(name()), DeleteBlob, "0a 7661756c742e68656164"),
        message!("1500", list_blobs(None), ListBlobs, "00 f4010000"),
        message!("1500", list_blobs(Some("a.b")), ListBlobs, "03 612e62 f4010000"),
        message!(
            "1600",
            listed(),
            BlobList,
            "02000000 01 61 0100000000000000 03 612e62 ffffffffffffffff"
        ),
        message!("0400", refusal(), Refusal, "09 03000000 6f6c64"),
    ];
    all.extend(super::blind::golden());
    all
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Tries the bytes as every message that keeps a collection; what decodes has one encoding.
pub(super) fn decode(bytes: &[u8]) {
    for (kind, _, _, again) in golden() {
        if let Ok(encoded) = again(bytes)
            && kind != "0400"
        {
            assert_eq!(encoded, bytes, "one message has one encoding");
        }
    }
}

#[test]
fn golden_bytes_do_not_change() {
    for (kind, bytes, body, again) in golden() {
        let body: String = body.split_whitespace().collect();
        assert_eq!(hex(&bytes), format!("534852440100{kind}{body}"));
        assert_eq!(again(&bytes), Ok(bytes));
    }
    let bare = MessageKind::Describe.bare();
    assert_eq!(hex(&bare), "5348524401000f00");
    assert_eq!(message_kind(&bare), Ok(MessageKind::Describe));
}

#[test]
fn what_goes_in_comes_out() {
    let limits = &LIMITS;
    assert_eq!(PublishRows::decode(&publish().encode(), limits), Ok(publish()));
    assert_eq!(ListMacs::decode(&list(Some(0)).encode(), limits), Ok(list(Some(0))));
    assert_eq!(RowMacs::decode(&macs().encode(), limits), Ok(macs()));
    let deleted = DeleteRows::decode(&delete().encode(), limits).unwrap();
    assert_eq!(deleted.handles(), [RowHandle(2), RowHandle(3)], "sorted, each once");
    assert_eq!((deleted.advance(), deleted.epoch()), (&*advance(None), Epoch(7)));
    let (begin, activate) =
        (BeginPublish::new(advance(None)), ActivateEpoch::new(advance(Some(1)), epoch()));
    assert_eq!(BeginPublish::decode(&begin.encode(), limits), Ok(begin));
    assert_eq!(ActivateEpoch::decode(&activate.encode(), limits), Ok(activate));
    assert_eq!(ResetCollection::decode(&reset(Some(0)).encode(), limits), Ok(reset(Some(0))));
    assert_eq!(ListBlobs::decode(&list_blobs(None).encode(), limits), Ok(list_blobs(None)));
    assert_eq!(CollectionState::decode(&state().encode(), limits), Ok(state()));
    assert_eq!(PutBlob::decode(&put().encode(), limits), Ok(put()));
    assert_eq!(BlobList::decode(&listed().encode(), limits), Ok(listed()));
}

#[test]
fn every_truncation_every_extension_and_every_other_kind_is_refused() {
    for (kind, bytes, _, again) in golden() {
        for length in 0..bytes.len() {
            assert!(again(&bytes[..length]).is_err(), "{kind} cut to {length}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(again(&longer), Err(DecodeError::Trailing(1)), "{kind}");
        let mut other = bytes.clone();
        other[6] ^= 0x40;
        assert!(matches!(again(&other), Err(DecodeError::Kind { .. })), "{kind}");
        let mut newer = bytes;
        newer[4] = 2;
        assert_eq!(again(&newer), Err(DecodeError::Version { actual: 2 }), "{kind}");
    }
}

#[test]
fn counts_are_refused_before_anything_is_reserved() {
    let endless = u32::MAX.to_le_bytes();
    let refused = |mut bytes: Vec<u8>, at: usize, again: Again| {
        bytes[at..at + 4].copy_from_slice(&endless);
        assert!(matches!(again(&bytes), Err(DecodeError::Limit { .. })), "{}", hex(&bytes));
    };
    let offsets = [
        ("0a00", 65), // width
        ("0a00", 69), // rows
        ("0c00", 8),
        ("0d00", 65),
        ("1000", 67),
        ("1100", 19),
        ("1300", 8),
        ("1600", 8),
        ("0400", 9),
    ];
    for (kind, at) in offsets {
        let messages = golden().into_iter().filter(|(known, ..)| *known == kind);
        messages.for_each(|(_, bytes, _, again)| refused(bytes, at, again));
    }
    // As many as are allowed, in a message that has none of them.
    let mut page = RowMacs { macs: Vec::new() }.encode();
    page[8..].copy_from_slice(&(RowMacs::PAGE as u32).to_le_bytes());
    assert!(matches!(RowMacs::decode(&page, &LIMITS), Err(DecodeError::Truncated { .. })));
    let long = vec![0; LIMITS.bytes];
    let error = PutBlob::decode(
        &PutBlob::new(name(), declassify(long, Leak::SealedBlobs)).encode(),
        &LIMITS,
    );
    assert!(matches!(error, Err(DecodeError::Limit { what: "message bytes", .. })));
}

#[test]
fn what_is_out_of_order_or_means_nothing_is_refused() {
    let swapped = |mut bytes: Vec<u8>, a: usize, b: usize, length: usize, again: Again| {
        for at in 0..length {
            bytes.swap(a + at, b + at);
        }
        assert!(matches!(again(&bytes), Err(DecodeError::Order(_))), "{}", hex(&bytes));
    };
    for (kind, bytes, _, again) in golden() {
        match kind {
            "0a00" => swapped(bytes, 73, 97, 8, again), // handles of two rows
            "0c00" => swapped(bytes, 12, 36, 8, again),
            "0d00" => swapped(bytes, 69, 77, 8, again),
            "1000" if bytes.len() > 75 => swapped(bytes, 71, 103, 8, again),
            _ => {}
        }
    }
    let twice = BlobList { blobs: vec![("a".parse().unwrap(), 1), ("a".parse().unwrap(), 2)] };
    let twice = BlobList::decode(&twice.encode(), &LIMITS);
    assert_eq!(twice, Err(DecodeError::Order("blob names")));
    // A first page that names a handle, a flag that is neither, a current epoch that is none.
    let mut first = list(Some(9)).encode();
    for flag in [0, 2] {
        first[16] = flag;
        assert!(matches!(ListMacs::decode(&first, &LIMITS), Err(DecodeError::Invalid(_))));
    }
    // The flags of commit, unfinished publish and current epoch; a line break about damage.
    for (at, byte) in [(24, 0), (24, 2), (41, 0), (58, 0), (58, 2), (139, b'\n'), (139, 0xff)] {
        let mut none = state().encode();
        none[at] = byte;
        let decoded = CollectionState::decode(&none, &LIMITS);
        assert!(matches!(decoded, Err(DecodeError::Invalid(_))), "{at} {byte}");
    }
    let mut none = list_blobs(None).encode();
    none[9..].fill(0);
    assert!(matches!(ListBlobs::decode(&none, &LIMITS), Err(DecodeError::Invalid(_))));
    none[9..].fill(0xff);
    assert!(matches!(ListBlobs::decode(&none, &LIMITS), Err(DecodeError::Limit { .. })));
    let mut wide = state().encode();
    wide[86] = 1;
    assert!(matches!(CollectionState::decode(&wide, &LIMITS), Err(DecodeError::Limit { .. })));
    let mut unnamed = put().encode();
    for (at, byte) in [(8, 0), (9, b'.'), (9, b'V'), (10, b'/'), (10, 0xff), (10, 0)] {
        let sound = std::mem::replace(&mut unnamed[at], byte);
        assert!(PutBlob::decode(&unnamed, &LIMITS).is_err(), "{at} {byte}");
        unnamed[at] = sound;
    }
}

#[test]
fn the_codes_of_refusals_are_pinned() {
    let codes = [
        RefusalCode::Malformed,
        RefusalCode::UnknownEpoch,
        RefusalCode::UnknownRow,
        RefusalCode::WrongWidth,
        RefusalCode::Internal,
        RefusalCode::UnknownSession,
        RefusalCode::Version,
        RefusalCode::UnknownCollection,
        RefusalCode::UnknownBlob,
        RefusalCode::Stale,
        RefusalCode::Unauthorised,
        RefusalCode::Forbidden,
        RefusalCode::Busy,
        RefusalCode::TooLarge,
        RefusalCode::Storage,
        RefusalCode::Forked,
        RefusalCode::Damaged,
    ];
    for (number, code) in codes.into_iter().enumerate() {
        let refusal = Refusal { code, text: String::new() };
        assert_eq!(refusal.encode()[8], number as u8);
        assert_eq!(Refusal::decode(&refusal.encode(), &LIMITS), Ok(refusal));
    }
    let mut unknown = refusal().encode();
    unknown[8] = codes.len() as u8;
    assert!(matches!(Refusal::decode(&unknown, &LIMITS), Err(DecodeError::Invalid(_))));
}

#[test]
fn names_are_plain() {
    for good in ["a", "0", "main", "a-b_c.d", &"x".repeat(CollectionName::MAX_BYTES)] {
        let name: CollectionName = good.parse().unwrap();
        assert_eq!((name.as_str(), name.to_string().as_str()), (good, good));
    }
    assert_eq!(CollectionName::default().as_str(), "main");
    let long = "x".repeat(CollectionName::MAX_BYTES + 1);
    for bad in ["", ".", "..", ".a", "-a", "_a", "A", "a b", "a/b", "a\\b", "\u{e9}", "a\n", &long]
    {
        let error = bad.parse::<CollectionName>().unwrap_err().to_string();
        assert!(!error.contains(char::is_control) && error.len() < 400, "{error}");
    }
    assert!(long.parse::<BlobName>().is_ok());
    assert!("x".repeat(BlobName::MAX_BYTES + 1).parse::<BlobName>().is_err());
}

#[test]
fn commits_read_as_hexadecimal() {
    let name = CommitName(std::array::from_fn(|at| at as u8 * 17));
    assert_eq!(name.to_string(), "00112233445566778899aabbccddeeff");
    assert_eq!(format!("{name:?}"), name.to_string());
}
