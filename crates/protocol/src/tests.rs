//! Encodings: what goes in comes out, and nothing else comes out.

mod blind;
mod collections;
mod shown;

use proptest::prelude::*;
use shard_rlwe::blind::QueryRank;
#[cfg(feature = "slots")]
use shard_rlwe::slots::{SlotsClient, SlotsLayout, SlotsParameters};
use shard_rlwe::{
    Ciphertext, Entropy, Layout, MergeSpan, Parameters, RequestKey, Response, RingDegree,
    SessionKey,
};

use super::*;

fn batch() -> RowBatch {
    let row = |handle, cell| Row {
        handle: RowHandle(handle),
        cell: declassify(CellHandle(cell), Leak::CellMembership),
        coordinates: vec![i32::MIN, -1, 0, i32::MAX],
    };
    RowBatch::new(
        declassify(Epoch(7), Leak::CollectionShape),
        declassify(4, Leak::CollectionShape),
        declassify(vec![row(9, 1), row(2, 5), row(u64::MAX, 1)], Leak::StoredRows),
    )
}

fn candidates(cells: &[(u64, &[u64])]) -> Result<Candidates, CandidateError> {
    let named = cells.iter().map(|(cell, _)| CellHandle(*cell)).collect();
    let rows = cells.iter().map(|(_, rows)| rows.iter().map(|r| RowHandle(*r)).collect()).collect();
    Candidates::new(declassify(named, Leak::ActiveCells), declassify(rows, Leak::CandidateHandles))
}

fn request() -> RerankRequest {
    let parameters = Parameters::default();
    let layout = Layout::new(parameters.degree(), 4, 2).unwrap();
    let candidates = candidates(&[(8, &[3, 1]), (2, &[5])]).unwrap();
    let query = layout.encode_queries(&[0.5; 8], 1e6);
    let key = RequestKey::fresh(&parameters, Entropy::from_os().unwrap());
    let (_, seed, ciphertexts) = key.encrypt(&query);
    let epoch = declassify(Epoch(7), Leak::CollectionShape);
    let shape = declassify((parameters, layout), Leak::RequestShape);
    RerankRequest::new(epoch, shape, None, candidates, seed, ciphertexts)
}

fn response() -> (RerankResponse, Vec<u8>) {
    let parameters = Parameters::default();
    let layout = Layout::new(parameters.degree(), 4, 2).unwrap();
    let body = vec![0; Response::byte_len(&parameters, 3)];
    let one = Response::from_bytes(&parameters, &layout, 3, &body).unwrap();
    let message = RerankResponse::new(vec![one]);
    let bytes = message.encode();
    (message, bytes)
}

fn decode_response(bytes: &[u8]) -> Result<RerankResponse, DecodeError> {
    let parameters = Parameters::default();
    let layout = Layout::new(parameters.degree(), 4, 2).unwrap();
    RerankResponse::decode(bytes, &parameters, &layout, 3, &Limits::default())
}

/// Decodes as every kind of message; only panics are failures.
fn decode_as_everything(bytes: &[u8]) {
    let limits = Limits::default();
    let _ = message_kind(bytes);
    collections::decode(bytes);
    let _ = blind::decode_answer(bytes);
    let _ = RowBatch::decode(bytes, &limits);
    if let Ok(request) = RerankRequest::decode(bytes, &limits) {
        assert_eq!(request.encode(), bytes, "one message has one encoding");
    }
    let _ = decode_response(bytes);
    let _ = Refusal::decode(bytes, &limits);
    if let Ok(session) = OpenSession::decode(bytes, &limits) {
        assert_eq!(session.encode(), bytes, "one message has one encoding");
    }
    #[cfg(feature = "slots")]
    {
        let _ = OpenSlotsSession::decode(bytes, &limits);
        let _ = SlotsResponse::decode(bytes, 3, &limits);
        if let Ok(request) = SlotsRequest::decode(bytes, &limits) {
            assert_eq!(request.encode(), bytes, "one message has one encoding");
        }
    }
}

#[test]
fn row_batches_round_trip_in_handle_order() {
    let back = RowBatch::decode(&batch().encode(), &Limits::default()).unwrap();
    assert_eq!(back, batch());
    assert!(back.rows().is_sorted_by_key(|row| row.handle));
}

#[test]
fn requests_round_trip_with_cells_and_rows_sorted() {
    let request = request();
    let back = RerankRequest::decode(&request.encode(), &Limits::default()).unwrap();
    assert_eq!(back.encode(), request.encode());
    let listed: Vec<_> = back.candidates().iter().map(|(t, r)| (t, r.to_vec())).collect();
    assert_eq!(
        listed,
        vec![
            (CellHandle(2), vec![RowHandle(5)]),
            (CellHandle(8), vec![RowHandle(1), RowHandle(3)])
        ]
    );
    assert_eq!((back.epoch(), back.ciphertexts().len()), (Epoch(7), 4));
}

#[test]
fn responses_round_trip_and_must_fit_the_request() {
    let (message, bytes) = response();
    assert_eq!(decode_response(&bytes), Ok(message));
    let parameters = Parameters::default();
    let layout = Layout::new(parameters.degree(), 4, 2).unwrap();
    // A request for 1,025 candidates needs two responses of 1,024 slots.
    let other = RerankResponse::decode(&bytes, &parameters, &layout, 1025, &Limits::default());
    assert!(matches!(other, Err(DecodeError::Invalid(_))));
}

#[test]
fn refusals_round_trip_without_control_characters() {
    let refusal = Refusal { code: RefusalCode::UnknownRow, text: "no\u{1b}[31m such\nrow".into() };
    let back = Refusal::decode(&refusal.encode(), &Limits::default()).unwrap();
    assert_eq!(back.code, RefusalCode::UnknownRow);
    assert_eq!(back.text, "no[31m suchrow");
}

#[test]
fn every_truncation_and_every_extension_is_refused() {
    let limits = Limits::default();
    let bytes = batch().encode();
    for length in 0..bytes.len() {
        assert!(RowBatch::decode(&bytes[..length], &limits).is_err(), "{length}");
    }
    let bytes = request().encode();
    for length in (0..200).chain([bytes.len() / 2, bytes.len() - 1]) {
        assert!(RerankRequest::decode(&bytes[..length], &limits).is_err(), "{length}");
    }
    let (_, mut bytes) = response();
    assert!(decode_response(&bytes[..bytes.len() - 1]).is_err());
    bytes.push(0);
    assert_eq!(decode_response(&bytes), Err(DecodeError::Trailing(1)));
}

#[test]
fn a_version_from_the_future_is_named() {
    let mut bytes = batch().encode();
    bytes[4] = 9;
    let error = RowBatch::decode(&bytes, &Limits::default()).unwrap_err();
    assert_eq!(error.to_string(), "message version 9; this side speaks version 1");
    assert_eq!(message_kind(b"GET / HTTP/1.1"), Err(DecodeError::Magic));
}

#[test]
fn hostile_counts_are_refused_before_anything_is_reserved() {
    // 2^32 - 1 rows of 16,384 coordinates announced in a message of 24 bytes.
    let mut bytes = batch().encode()[..16].to_vec();
    bytes.extend_from_slice(&16_384_u32.to_le_bytes());
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(RowBatch::decode(&bytes, &Limits::default()), Err(DecodeError::Limit { .. })));
    let wide = Limits { rows: usize::MAX, ..Limits::default() };
    assert!(matches!(RowBatch::decode(&bytes, &wide), Err(DecodeError::Truncated { .. })));
}

#[test]
fn an_insecure_ring_is_refused_on_the_wire() {
    let mut bytes = request().encode();
    assert_eq!(bytes[20], 11); // log2 of the degree
    bytes[20] = 10;
    let error = RerankRequest::decode(&bytes, &Limits::default()).unwrap_err();
    assert!(matches!(error, DecodeError::Parameters(_)), "{error}");
}

#[test]
fn a_request_whose_answer_would_be_too_long_is_refused() {
    let bytes = request().encode();
    let tight = Limits { bytes: bytes.len(), ..Limits::default() };
    assert!(RerankRequest::decode(&bytes, &tight).is_ok());
    // Every candidate in a response of its own: 1,100 bytes of names, 7 MB of answer.
    let parameters = Parameters::default();
    let layout = Layout::packed(parameters.degree(), 2048, 1, 1, false).unwrap();
    let handles: Vec<u64> = (0..1100).collect();
    let candidates = candidates(&[(1, &handles)]).unwrap();
    let key = RequestKey::fresh(&parameters, Entropy::from_os().unwrap());
    let (_, seed, ciphertexts) = key.encrypt(&layout.encode_query(&[0.5; 2048], 1e6));
    let epoch = declassify(Epoch(7), Leak::CollectionShape);
    let shape = declassify((parameters, layout), Leak::RequestShape);
    let bytes = RerankRequest::new(epoch, shape, None, candidates, seed, ciphertexts).encode();
    let error = RerankRequest::decode(&bytes, &Limits { bytes: 1 << 20, ..Limits::default() });
    assert!(matches!(error, Err(DecodeError::Limit { what: "bytes of the response", .. })));
}

#[test]
fn sessions_round_trip_and_refuse_strides_the_ring_does_not_have() {
    let span = MergeSpan { top: 11, levels: 1 };
    let entropy = Entropy::from_os().unwrap();
    let (_, keys) = SessionKey::fresh(RingDegree::N2048, span, 1, entropy);
    let id = declassify(SessionId([5; 16]), Leak::SessionLinkage);
    let session = OpenSession::new(id, keys);
    let bytes = session.encode();
    assert_eq!(OpenSession::decode(&bytes, &Limits::default()), Ok(session));
    for (at, value) in [(24, 10), (24, 14), (25, 12), (26, 0), (26, 12)] {
        let mut bad = bytes.clone();
        bad[at] = value;
        assert!(OpenSession::decode(&bad, &Limits::default()).is_err(), "{at} {value}");
    }
    assert!(OpenSession::decode(&bytes[..bytes.len() - 1], &Limits::default()).is_err());
}

/// Headers of the messages that clients of the slot layout send.
#[cfg(not(feature = "slots"))]
#[test]
fn messages_in_slots_are_refused_by_name() {
    for code in [7, 8] {
        let bytes = [b"SHRD\x01\0".as_slice(), &[code, 0], &[0; 100]].concat();
        assert_eq!(message_kind(&bytes), Err(DecodeError::NoSlots));
    }
    let answer = [b"SHRD\x01\0".as_slice(), &[9, 0]].concat();
    assert!(matches!(message_kind(&answer), Err(DecodeError::Invalid(_))));
}

#[test]
fn every_message_checks_that_the_leak_named_is_the_leak_meant() {
    use Leak::{ActiveCells, CandidateHandles, CellMembership, CollectionShape, StoredRows};
    let refuses = |what: &str, make: &(dyn Fn() + std::panic::RefUnwindSafe)| {
        assert!(std::panic::catch_unwind(make).is_err(), "{what}");
    };
    let epoch = |leak| declassify(Epoch(7), leak);
    let advance = |leak| {
        let (to, revision) = (CommitName([1; 16]), Revision(5));
        declassify(Advance { from: None, to, revision, turn: 1 }, leak)
    };
    let id = |leak| declassify(SessionId([5; 16]), leak);
    let name = |leak| declassify("a".parse::<BlobName>().unwrap(), leak);
    let rows = |shape, cell, stored| {
        let cell = declassify(CellHandle(1), cell);
        let row = Row { handle: RowHandle(9), cell, coordinates: vec![1] };
        RowBatch::new(epoch(shape), declassify(1, CollectionShape), declassify(vec![row], stored))
    };
    rows(CollectionShape, CellMembership, StoredRows);
    refuses("the epoch of rows", &|| drop(rows(StoredRows, CellMembership, StoredRows)));
    refuses("the cell of a row", &|| drop(rows(CollectionShape, StoredRows, StoredRows)));
    refuses("rows", &|| drop(rows(CollectionShape, CellMembership, CellMembership)));
    refuses("MACs", &|| {
        let rows = rows(CollectionShape, CellMembership, StoredRows);
        let macs = declassify(vec![RowMac([0; 16])], CollectionShape);
        drop(PublishRows::new(advance(CollectionShape), rows, macs));
    });
    refuses("a page", &|| {
        let after = declassify(RowHandle(1), CandidateHandles);
        let _ = ListMacs::new(epoch(CollectionShape), Some(after));
    });
    refuses("deleted rows", &|| {
        let handles = declassify(vec![RowHandle(1)], CandidateHandles);
        drop(DeleteRows::new(advance(CollectionShape), epoch(CollectionShape), handles));
    });
    refuses("a commit", &|| {
        let _ = BeginPublish::new(advance(StoredRows));
    });
    refuses("a commit to forget", &|| {
        let _ = ResetCollection::new(declassify(None, StoredRows));
    });
    refuses("a revision", &|| {
        let _ = ActivateEpoch::new(advance(Leak::RequestShape), epoch(CollectionShape));
    });
    refuses("a blob's name", &|| drop(FetchBlob::new(name(CollectionShape))));
    refuses("a blob", &|| {
        drop(PutBlob::new(name(Leak::SealedBlobs), declassify(vec![], StoredRows)));
    });
    let names = |leak| declassify(vec!["a".parse::<BlobName>().unwrap()], leak);
    refuses("names of blobs", &|| drop(FetchBlobs::new(names(CollectionShape))));
    refuses("names of shared blobs", &|| drop(FetchSharedMany::new(names(CollectionShape))));
    refuses("many blobs", &|| {
        let blobs = vec![("a".parse().unwrap(), vec![])];
        drop(PutBlobs::new(declassify(blobs, Leak::BlockChanges)));
    });
    let commit = |leak| declassify(CommitName([1; 16]), leak);
    let blind =
        |shape, named| BlindQuery::new(Table::Rows, epoch(shape), commit(named), vec![vec![1]]);
    blind(CollectionShape, CollectionShape);
    refuses("the epoch of a search", &|| drop(blind(Leak::RequestShape, CollectionShape)));
    refuses("the commit of a search", &|| drop(blind(CollectionShape, Leak::RequestShape)));
    refuses("the commit of a list", &|| {
        drop(PutBlob::block_list(commit(Leak::SealedBlobs), &blind::list(1, 0)));
    });
    refuses("the names of blocks", &|| {
        let list = blind::list(1, 0);
        let shape = declassify(*list.shape(), CollectionShape);
        let names = declassify(list.names().to_vec(), CollectionShape);
        let checks = declassify(0, CollectionShape);
        let _ = BlockList::new(epoch(CollectionShape), shape, checks, names);
    });
    refuses("the names of pages", &|| {
        let (bytes, rank) = (declassify(64, CollectionShape), QueryRank::One);
        let names = declassify(vec![[1; 16]], CollectionShape);
        let rank = declassify(rank, CollectionShape);
        let _ = RecordList::new(epoch(CollectionShape), bytes, rank, names);
    });
    refuses("the commit of a list of records", &|| {
        drop(PutBlob::record_list(commit(Leak::SealedBlobs), &blind::records(1)));
    });
    refuses("pages by name", &|| {
        drop(FetchSharedMany::pages(declassify(vec![[1; 16]], Leak::SealedBlobs)));
    });
    let candidates = |cells, rows| {
        let cells = declassify(vec![CellHandle(1)], cells);
        Candidates::new(cells, declassify(vec![vec![RowHandle(1)]], rows)).unwrap()
    };
    refuses("active cells", &|| drop(candidates(CellMembership, CandidateHandles)));
    refuses("candidates", &|| drop(candidates(ActiveCells, StoredRows)));
    refuses("a session", &|| {
        let span = MergeSpan { top: 11, levels: 1 };
        let entropy = Entropy::from_os().unwrap();
        let (_, keys) = SessionKey::fresh(RingDegree::N2048, span, 1, entropy);
        drop(OpenSession::new(id(Leak::RequestShape), keys));
    });
    refuses("the shape of a request", &|| {
        let sound = request();
        let shape = (sound.parameters().clone(), sound.layout().clone());
        drop(RerankRequest::new(
            epoch(CollectionShape),
            declassify(shape, CollectionShape),
            None,
            sound.candidates().clone(),
            *sound.seed(),
            sound.ciphertexts().to_vec(),
        ));
    });
}

#[cfg(feature = "slots")]
#[test]
fn messages_in_slots_round_trip_and_refuse_what_cannot_be() {
    let limits = Limits::default();
    let parameters = SlotsParameters::paper_baseline();
    let layout = SlotsLayout::new(parameters, 4, 1).unwrap();
    let (_, context) = SlotsClient::generate(layout.clone(), Entropy::from_os().unwrap()).unwrap();
    let id = SessionId([5; 16]);
    let open = OpenSlotsSession::new(
        declassify(id, Leak::SessionLinkage),
        declassify(layout, Leak::RequestShape),
        context.to_bytes(),
    );
    let bytes = open.encode();
    assert_eq!(OpenSlotsSession::decode(&bytes, &limits), Ok(open));
    assert!(OpenSlotsSession::decode(&bytes[..bytes.len() - 1], &limits).is_err());
    // A degree whose ceiling the chain exceeds, an empty chain, a prime the keys are not for.
    for (at, value) in [(24, 12), (26, 0), (31, 61)] {
        let mut bad = bytes.clone();
        bad[at] = value;
        assert!(OpenSlotsSession::decode(&bad, &limits).is_err(), "{at} {value}");
    }

    let request = |prefix: Vec<f64>| {
        SlotsRequest::new(
            declassify(Epoch(7), Leak::CollectionShape),
            declassify(id, Leak::SessionLinkage),
            candidates(&[(8, &[3, 1]), (2, &[5])]).unwrap(),
            declassify(prefix, Leak::PrefixScores),
            vec![vec![1; 40], vec![2; 40]],
        )
    };
    let sound = request(vec![0.5, -1.0, 0.0]);
    assert_eq!(SlotsRequest::decode(&sound.encode(), &limits), Ok(sound));
    let endless = request(vec![f64::NAN, 0.0, 0.0]).encode();
    assert!(SlotsRequest::decode(&endless, &limits).is_err());

    let response = SlotsResponse::new(vec![vec![3; 10]; 3]);
    let bytes = response.encode();
    assert_eq!(SlotsResponse::decode(&bytes, 3, &limits), Ok(response));
    assert!(SlotsResponse::decode(&bytes, 4, &limits).is_err());
    assert!(SlotsResponse::decode(&bytes[..bytes.len() - 1], 3, &limits).is_err());
}

#[test]
fn repeated_or_unsorted_names_are_refused() {
    assert_eq!(candidates(&[]), Err(CandidateError::Empty));
    assert_eq!(candidates(&[(1, &[])]), Err(CandidateError::EmptyCell(CellHandle(1))));
    assert_eq!(candidates(&[(1, &[4, 4])]), Err(CandidateError::Repeated));
    assert_eq!(candidates(&[(1, &[4]), (1, &[5])]), Err(CandidateError::Repeated));
    // Swap the two cell handles of a sound request.
    let mut bytes = request().encode();
    let start = bytes.len() - 4 * Ciphertext::byte_len(&Parameters::default()) - 3 * 8 - 2 * 12;
    let (first, second): ([u8; 8], [u8; 8]) = (
        bytes[start..start + 8].try_into().unwrap(),
        bytes[start + 12..start + 20].try_into().unwrap(),
    );
    bytes[start..start + 8].copy_from_slice(&second);
    bytes[start + 12..start + 20].copy_from_slice(&first);
    let error = RerankRequest::decode(&bytes, &Limits::default()).unwrap_err();
    assert_eq!(error, DecodeError::Order("cell handles"));
}

proptest! {
    #[test]
    fn decoding_never_panics_on_noise(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        decode_as_everything(&bytes);
    }

    #[test]
    fn decoding_never_panics_on_damaged_messages(
        which in 0_usize..10,
        flips in prop::collection::vec((0_usize..120, any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        keep_length in any::<bool>(),
    ) {
        let refusal = Refusal { code: RefusalCode::Internal, text: "x".into() };
        let mut bytes = match which {
            0 => batch().encode(),
            1 => request().encode(),
            2 => response().1,
            3 => blind::query().encode(),
            4 => blind::answer().encode(),
            5 => blind::list(3, 1).encode(),
            6 => blind::put().encode(),
            7 => blind::found().encode(),
            8 => blind::records(3).encode(),
            _ => refusal.encode(),
        };
        for (at, value) in flips {
            if let Some(byte) = bytes.get_mut(at) { *byte ^= value; }
        }
        if !keep_length { bytes.truncate(cut.index(bytes.len() + 1)); }
        decode_as_everything(&bytes);
    }
}
