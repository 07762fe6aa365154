//! Messages between client and server.

use std::sync::LazyLock;

use bolero::check;
use shard_fuzz::opened::{Fetch, Searches};
use shard_fuzz::{SCRIPT_BYTES, damage, messages};
use shard_protocol::{
    ActivateEpoch, BeginPublish, BlindAnswer, BlindQuery, Blob, BlobList, Blobs, BlockList,
    CollectionName, CollectionState, DeleteBlob, DeleteRows, FetchBlob, FetchBlobs, FetchShared,
    FetchSharedMany, ListBlobs, ListMacs, MessageKind, OpenSession, OpenSlotsSession, PublishRows,
    PutBlob, PutBlobs, RecordList, Refusal, RefusalCode, RerankRequest, RerankResponse,
    ResetCollection, RowBatch, RowMacs, SlotsRequest, SlotsResponse, Table, message_kind,
};
use shard_rlwe::slots::SlotsClient;
use shard_server::Server;

/// Inputs of the smoke run, for each target.
const ITERATIONS: usize = 2000;

/// The same for messages in slots, which take a hundred times as long to serve.
const SLOTS_ITERATIONS: usize = 100;

/// Serves a message. Whatever it is, the answer is one that clients know; a response fits the
/// request and decodes.
fn serve(server: &Server, message: &[u8]) {
    let answer = server.handle(&CollectionName::default(), message);
    let limits = messages::limits();
    match message_kind(&answer).expect("servers answer with messages") {
        MessageKind::Accepted => assert_eq!(answer, MessageKind::Accepted.bare()),
        MessageKind::Refusal => {
            let refusal = Refusal::decode(&answer, &limits).expect("a refusal that decodes");
            assert_ne!(refusal.code, RefusalCode::Internal, "{}", refusal.text);
        }
        MessageKind::RerankResponse => {
            let request =
                RerankRequest::decode(message, &limits).expect("only requests are scored");
            let rows = request.candidates().rows();
            let (parameters, layout) = (request.parameters(), request.layout());
            RerankResponse::decode(&answer, parameters, layout, rows, &limits)
                .expect("a response of the request's shape");
        }
        MessageKind::SlotsResponse => {
            let request = SlotsRequest::decode(message, &limits).expect("only requests are scored");
            SlotsResponse::decode(&answer, request.candidates().rows(), &limits)
                .expect("a response for every row");
        }
        MessageKind::BlindAnswer => {
            let query = BlindQuery::decode(message, &limits).expect("only searches are answered");
            let (queries, length) = (query.queries().len(), messages::answer_bytes(&query));
            BlindAnswer::decode(&answer, queries, length, &limits)
                .expect("an answer of the collection's length to every query");
        }
        MessageKind::RowMacs
        | MessageKind::Blobs
        | MessageKind::CollectionState
        | MessageKind::Blob
        | MessageKind::BlobList => decode_as_everything(&answer),
        other => panic!("a server answered with {other:?}"),
    }
}

/// What decodes is of its kind and has one encoding.
macro_rules! check_encodings {
    ($bytes:expr, $kind:expr, $($message:ident),*) => {
        $(if let Ok(message) = $message::decode($bytes, &messages::limits()) {
            assert_eq!($kind, Ok(MessageKind::$message));
            assert_eq!(message.encode(), $bytes);
        })*
    };
}

/// Decodes as every message there is; what decodes has one encoding.
fn decode_as_everything(bytes: &[u8]) {
    let limits = messages::limits();
    let kind = message_kind(bytes);
    check_encodings!(
        bytes,
        kind,
        RowBatch,
        RerankRequest,
        OpenSession,
        OpenSlotsSession,
        SlotsRequest,
        PublishRows,
        ListMacs,
        RowMacs,
        DeleteRows,
        BeginPublish,
        ActivateEpoch,
        ResetCollection,
        ListBlobs,
        CollectionState,
        PutBlob,
        FetchBlob,
        FetchShared,
        Blob,
        DeleteBlob,
        BlobList,
        BlockList,
        RecordList,
        PutBlobs,
        FetchBlobs,
        FetchSharedMany,
        Blobs
    );
    if let Ok(query) = BlindQuery::decode(bytes, &limits) {
        let expected = match query.table() {
            Table::Rows => MessageKind::BlindQuery,
            Table::Records => MessageKind::RecordQuery,
        };
        assert_eq!(kind, Ok(expected));
        assert_eq!(query.encode(), bytes);
    }
    for (queries, length) in [(1, 1), (2, messages::block_list().answer_bytes())] {
        if let Ok(answer) = BlindAnswer::decode(bytes, queries, length, &limits) {
            assert_eq!(kind, Ok(MessageKind::BlindAnswer));
            assert_eq!(answer.encode(), bytes);
        }
    }
    if let Ok(refusal) = Refusal::decode(bytes, &limits) {
        assert_eq!(kind, Ok(MessageKind::Refusal));
        // Control characters are dropped, so the bytes may differ, but only once.
        assert!(!refusal.text.contains(char::is_control));
        assert_eq!(Refusal::decode(&refusal.encode(), &limits), Ok(refusal));
    }
}

/// Targets that start from a message which is refused anyway would find nothing.
#[test]
fn sound_messages_are_accepted_and_scored() {
    let kind_of = |server: &Server, message: &[u8]| {
        message_kind(&server.handle(&CollectionName::default(), message))
    };
    let server = messages::server();
    assert_eq!(kind_of(&server, &messages::publish().encode()), Ok(MessageKind::Accepted));
    let request = messages::request().0.encode();
    assert_eq!(kind_of(&server, &request), Ok(MessageKind::RerankResponse));
    let (session, request) = messages::session();
    assert_eq!(kind_of(&server, &request.encode()), Ok(MessageKind::Refusal), "no keys yet");
    assert_eq!(kind_of(&server, &session.encode()), Ok(MessageKind::Accepted));
    assert_eq!(kind_of(&server, &request.encode()), Ok(MessageKind::RerankResponse));
    for message in messages::keeping() {
        let kind = kind_of(&server, &message);
        assert!(
            kind.is_ok_and(|kind| kind != MessageKind::Refusal),
            "{:?}",
            message_kind(&message)
        );
    }
    let server = messages::blind_server();
    for query in [messages::blind_query(), messages::query_of_cells(), messages::record_query()] {
        let (kind, table) = (kind_of(&server, &query.encode()), query.table());
        assert_eq!(kind, Ok(MessageKind::BlindAnswer), "{table:?}, {:?}", query.cells());
    }
}

#[test]
fn noise() {
    let header = MessageKind::Accepted.bare();
    check!().with_iterations(ITERATIONS).with_max_len(256).for_each(|input: &[u8]| {
        decode_as_everything(input);
        // The same behind a sound magic and version.
        let framed = [&header[..6], input].concat();
        decode_as_everything(&framed);
        serve(&messages::server(), &framed);
    });
}

#[test]
fn published_rows() {
    static SOUND: LazyLock<Vec<u8>> = LazyLock::new(|| messages::publish().encode());
    static REQUEST: LazyLock<Vec<u8>> = LazyLock::new(|| messages::request().0.encode());
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES).for_each(|script: &[u8]| {
        let bytes = damage(&SOUND, script);
        decode_as_everything(&bytes);
        let server = messages::server();
        serve(&server, &bytes);
        serve(&server, &REQUEST);
    });
}

/// Row batches are files and travel inside other messages; servers do not take them.
#[test]
fn row_batches() {
    let sound = messages::rows().encode();
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES).for_each(|script: &[u8]| {
        decode_as_everything(&damage(&sound, script));
    });
}

/// One of the requests is damaged and all are made; rows are still served in the end, or their
/// epoch is gone.
#[test]
fn requests_that_keep_a_collection() {
    static SOUND: LazyLock<Vec<Vec<u8>>> = LazyLock::new(messages::keeping);
    static REQUEST: LazyLock<Vec<u8>> = LazyLock::new(|| messages::request().0.encode());
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES + 1).for_each(
        |input: &[u8]| {
            let (which, script) = input.split_first().unwrap_or((&0, &[]));
            let server = messages::server();
            for (at, sound) in SOUND.iter().enumerate() {
                if at == usize::from(*which) % SOUND.len() {
                    let bytes = damage(sound, script);
                    decode_as_everything(&bytes);
                    serve(&server, &bytes);
                } else {
                    serve(&server, sound)
                }
            }
            serve(&server, &REQUEST);
        },
    );
}

/// What a server says of a collection, as a client reads it.
#[test]
fn answers_about_a_collection() {
    static SOUND: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
        let server = messages::server();
        let answers = messages::keeping();
        answers.iter().map(|sent| server.handle(&CollectionName::default(), sent)).collect()
    });
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES).for_each(|script: &[u8]| {
        SOUND.iter().for_each(|sound| decode_as_everything(&damage(sound, script)));
    });
}

#[test]
fn rerank_requests() {
    static SOUND: LazyLock<Vec<u8>> = LazyLock::new(|| messages::request().0.encode());
    static SERVER: LazyLock<Server> = LazyLock::new(messages::server);
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES).for_each(|script: &[u8]| {
        let bytes = damage(&SOUND, script);
        decode_as_everything(&bytes);
        serve(&SERVER, &bytes);
    });
}

/// Damages a query of the blind collection, and serves it.
fn serve_damaged_queries(sound: &BlindQuery) {
    static SERVER: LazyLock<Server> = LazyLock::new(messages::blind_server);
    let sound = sound.encode();
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES).for_each(|script: &[u8]| {
        let bytes = damage(&sound, script);
        decode_as_everything(&bytes);
        serve(&SERVER, &bytes);
    });
}

#[test]
fn blind_queries() {
    serve_damaged_queries(&messages::blind_query());
}

#[test]
fn queries_of_cells() {
    serve_damaged_queries(&messages::query_of_cells());
}

#[test]
fn record_queries() {
    serve_damaged_queries(&messages::record_query());
}

/// What decodes is opened. What is taken besides is that of the collection, up to twice the tolerance.
#[test]
fn blind_answers() {
    static SEARCHES: LazyLock<(Searches, Vec<u8>)> = LazyLock::new(|| {
        let searches = Searches::default();
        let answers = searches.answers().encode();
        (searches, answers)
    });
    let (searches, sound) = &*SEARCHES;
    let (length, limits) = (searches.answer_bytes(), messages::limits());
    let open =
        |bytes: &[u8]| Some(searches.open(&BlindAnswer::decode(bytes, 2, length, &limits).ok()?));
    let honest = open(sound).expect("a sound answer");
    assert!(honest.iter().all(|(_, taken)| *taken));
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES).for_each(|script: &[u8]| {
        let bytes = damage(sound, script);
        decode_as_everything(&bytes);
        let opened = open(&bytes).into_iter().flatten().zip(&honest).enumerate();
        for (query, ((scores, taken), (honest, _))) in opened {
            assert_eq!(scores.len(), honest.len());
            let moved = scores.iter().zip(honest).map(|(score, honest)| (score - honest).abs());
            let moved = moved.fold(0.0, f64::max);
            assert!(
                moved.is_finite() && (!taken || moved <= Searches::most_moved(query)),
                "{moved}"
            );
        }
    });
}

#[test]
fn record_answers() {
    static FETCH: LazyLock<Fetch> = LazyLock::new(Fetch::default);
    let sound = FETCH.answer.encode();
    assert_eq!(FETCH.open(&FETCH.answer), FETCH.slot);
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES).for_each(|script: &[u8]| {
        let bytes = damage(&sound, script);
        decode_as_everything(&bytes);
        if let Ok(answer) =
            BlindAnswer::decode(&bytes, 1, FETCH.answer_bytes(), &messages::limits())
        {
            assert_eq!(FETCH.open(&answer).len(), FETCH.slot.len());
        }
    });
}

/// Activates a damaged list of blocks, or it is refused, and searches what is activated.
fn search_damaged_lists(sound: &BlockList) {
    let (sound, records) = (sound.encode(), messages::record_list().encode());
    let (query, fetch) = (messages::blind_query().encode(), messages::record_query().encode());
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES).for_each(|script: &[u8]| {
        let list = damage(&sound, script);
        decode_as_everything(&list);
        let server = messages::empty_server();
        for message in messages::blind_publish(list.clone(), records.clone()) {
            serve(&server, &message);
        }
        let answer = server.handle(&CollectionName::default(), &query);
        if message_kind(&answer) == Ok(MessageKind::BlindAnswer) {
            let limits = messages::limits();
            let list = BlockList::decode(&list, &limits).expect("only lists are activated");
            BlindAnswer::decode(&answer, 2, list.answer_bytes(), &limits)
                .expect("an answer of the list's length to every query");
        }
        serve(&server, &fetch);
    });
}

#[test]
fn lists_of_blocks() {
    search_damaged_lists(&messages::block_list());
}

#[test]
fn lists_of_blocks_in_cells() {
    search_damaged_lists(&messages::block_list_of_cells());
}

/// The same of the pages of its records.
#[test]
fn lists_of_records() {
    let (sound, blocks) = (messages::record_list().encode(), messages::block_list().encode());
    let (query, fetch) = (messages::blind_query().encode(), messages::record_query().encode());
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES).for_each(|script: &[u8]| {
        let list = damage(&sound, script);
        decode_as_everything(&list);
        let server = messages::empty_server();
        for message in messages::blind_publish(blocks.clone(), list.clone()) {
            serve(&server, &message);
        }
        let answer = server.handle(&CollectionName::default(), &fetch);
        if message_kind(&answer) == Ok(MessageKind::BlindAnswer) {
            let limits = messages::limits();
            let list = RecordList::decode(&list, &limits).expect("only lists are activated");
            BlindAnswer::decode(&answer, 2, list.shape().answer_bytes(), &limits)
                .expect("an answer of the list's length to every query");
        }
        serve(&server, &query);
    });
}

/// One of the messages of a publish is damaged and all are sent.
#[test]
fn publishes_of_blocks() {
    let (blocks, records) = (messages::block_list_of_cells(), messages::record_list());
    let sound = messages::blind_publish(blocks.encode(), records.encode());
    let queries = [messages::blind_query(), messages::query_of_cells(), messages::record_query()];
    let queries = queries.map(|query| query.encode());
    let messages = sound.len();
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES + 1).for_each(
        |input: &[u8]| {
            let (which, script) = input.split_first().unwrap_or((&0, &[]));
            let server = messages::empty_server();
            for (at, sound) in sound.iter().enumerate() {
                if at == usize::from(*which) % messages {
                    let bytes = damage(sound, script);
                    decode_as_everything(&bytes);
                    serve(&server, &bytes);
                } else {
                    serve(&server, sound);
                }
            }
            for query in &queries {
                server.handle(&CollectionName::default(), query);
            }
        },
    );
}

#[test]
fn merged_rerank_requests() {
    static SESSION: LazyLock<(Server, Vec<u8>)> = LazyLock::new(|| {
        let (session, request) = messages::session();
        let server = messages::server();
        server.handle(&CollectionName::default(), &session.encode());
        assert_eq!(server.sessions().open, 1, "keys within the budget");
        (server, request.encode())
    });
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES).for_each(|script: &[u8]| {
        let (server, sound) = &*SESSION;
        let bytes = damage(sound, script);
        decode_as_everything(&bytes);
        serve(server, &bytes);
    });
}

#[test]
fn sessions() {
    static SESSION: LazyLock<(Vec<u8>, Vec<u8>)> = LazyLock::new(|| {
        let (session, request) = messages::session();
        (session.encode(), request.encode())
    });
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES).for_each(|script: &[u8]| {
        let (sound, request) = &*SESSION;
        let bytes = damage(sound, script);
        decode_as_everything(&bytes);
        let server = messages::server();
        serve(&server, &bytes);
        serve(&server, request);
    });
}

#[test]
fn refusals() {
    let text = "row 7f is not h\u{e9}re\n".into();
    let sound = Refusal { code: RefusalCode::UnknownRow, text }.encode();
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES).for_each(|script: &[u8]| {
        decode_as_everything(&damage(&sound, script));
    });
}

#[test]
fn rerank_responses() {
    let (request, key) = messages::request();
    let sound = messages::server().handle(&CollectionName::default(), &request.encode());
    let limits = messages::limits();
    let (parameters, layout) = (request.parameters(), request.layout());
    let rows = request.candidates().rows();
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES).for_each(|script: &[u8]| {
        let bytes = damage(&sound, script);
        decode_as_everything(&bytes);
        if let Ok(answer) = RerankResponse::decode(&bytes, parameters, layout, rows, &limits) {
            assert_eq!(answer.encode(), bytes);
            let opened: usize = answer.responses().iter().map(|one| key.open(one).len()).sum();
            assert_eq!(opened, rows);
        }
    });
}

#[test]
fn slots_sessions_and_requests() {
    static SESSION: LazyLock<(Server, Vec<u8>, Vec<u8>)> = LazyLock::new(|| {
        let (session, request, _) = messages::slots_session();
        let (session, request) = (session.encode(), request.encode());
        let server = messages::server();
        assert_eq!(
            message_kind(&server.handle(&CollectionName::default(), &session)),
            Ok(MessageKind::Accepted)
        );
        assert_eq!(
            message_kind(&server.handle(&CollectionName::default(), &request)),
            Ok(MessageKind::SlotsResponse)
        );
        (server, session, request)
    });
    LazyLock::force(&SESSION);
    check!().with_iterations(SLOTS_ITERATIONS).with_max_len(SCRIPT_BYTES).for_each(
        |script: &[u8]| {
            let (server, session, request) = &*SESSION;
            for sound in [session, request] {
                let bytes = damage(sound, script);
                decode_as_everything(&bytes);
                serve(server, &bytes);
            }
            // Damaged keys score to nonsense; they must not stop the server.
            serve(server, request);
        },
    );
}

#[test]
fn slots_responses() {
    static ANSWER: LazyLock<(SlotsClient, usize, Vec<u8>)> = LazyLock::new(|| {
        let (session, request, client) = messages::slots_session();
        let server = messages::server();
        server.handle(&CollectionName::default(), &session.encode());
        (
            client,
            request.candidates().rows(),
            server.handle(&CollectionName::default(), &request.encode()),
        )
    });
    LazyLock::force(&ANSWER);
    check!().with_iterations(SLOTS_ITERATIONS).with_max_len(SCRIPT_BYTES).for_each(
        |script: &[u8]| {
            let (client, rows, sound) = &*ANSWER;
            let bytes = damage(sound, script);
            decode_as_everything(&bytes);
            if let Ok(answer) = SlotsResponse::decode(&bytes, *rows, &messages::limits()) {
                assert_eq!(answer.encode(), bytes);
                for (at, response) in answer.responses().iter().enumerate() {
                    if let Ok(score) = client.open(response, at % 2) {
                        assert!(score.is_finite());
                    }
                }
            }
        },
    );
}
