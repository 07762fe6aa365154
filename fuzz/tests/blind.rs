//! What a client of a blind collection takes from a server it does not trust and from its own directory: sealed
//! checks, hints, answers, and the files that hints are kept in.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use bolero::check;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use shard_client::vault::{KdfCost, MIN_KEY_FILE_BYTES, Unlock};
use shard_client::{
    BlindCollection, BlindSearcher, Choice, ClientError, Documents, FetchWay, Filling, Hints,
    Record, SearchOptions, Settings, Transport, UNWATCHED, create_vault, fill_server, ingest,
    set_records,
};
use shard_fuzz::{SCRIPT_BYTES, damage};
use shard_geometry::VectorSet;
use shard_protocol::{CollectionName, Limits};
use shard_server::Server;
use shard_store::MemoryRows;
use zeroize::Zeroizing;

const ITERATIONS: usize = 500;

/// The same where a record is fetched, which takes longer.
const FETCH_ITERATIONS: usize = 150;

const WIDTH: usize = 8;
const DOCUMENTS: usize = 20;

/// A published collection and its server.
struct World {
    server: Server,
    collection: BlindCollection,
    query: Vec<f32>,
}

/// A server in this process.
struct Honest<'a>(&'a Server);

impl Transport for Honest<'_> {
    type Error = ClientError;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        Ok(self.0.handle(&CollectionName::default(), &message))
    }
}

/// One whose answer number `lie` is damaged.
struct Liar<'a> {
    server: &'a Server,
    lie: usize,
    script: &'a [u8],
    asked: AtomicUsize,
}

impl Transport for Liar<'_> {
    type Error = ClientError;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        let answer = self.server.handle(&CollectionName::default(), &message);
        let is_lie = self.asked.fetch_add(1, Ordering::SeqCst) == self.lie;
        Ok(if is_lie { damage(&answer, self.script) } else { answer })
    }
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let parent = tempfile::tempdir().expect("a temporary directory");
    let mut random = StdRng::seed_from_u64(1);
    let cost = KdfCost::new(8, 1, 1).expect("the lowest cost");
    let unlock = Unlock::KeyFile(Zeroizing::new(vec![5; MIN_KEY_FILE_BYTES]));
    let settings = Settings { tile: Choice::Fixed(256), ..Settings::blind() };
    let directory = parent.path().join("vault");
    let mut vault =
        create_vault(&directory, &unlock, cost, &settings, &mut random).expect("a new vault");
    let ids: Vec<String> = (0..DOCUMENTS).map(|id| id.to_string()).collect();
    let unit = || random.next_u32() as f32 / u32::MAX as f32 - 0.5;
    let values = std::iter::repeat_with(unit).take(DOCUMENTS * WIDTH).collect();
    let vectors = VectorSet::new(WIDTH, values).expect("twenty vectors");
    let documents = Documents { ids: &ids, vectors: &vectors, sample_queries: None };
    ingest(&mut vault, &documents, UNWATCHED, &mut random).expect("a commit");
    let record = Record { id: "7".to_owned(), bytes: b"seven".to_vec() };
    set_records(&mut vault, vec![record], &mut random).expect("a commit");
    let server = Server::new(Arc::new(MemoryRows::new()), Limits::default());
    let filling = Filling::RowsAndRecords;
    let collection =
        fill_server(&vault, filling, &Honest(&server), UNWATCHED).expect("it is taken");
    World { server, collection, query: vectors.row(3).to_vec() }
});

impl World {
    fn liar<'a>(&'a self, lie: usize, script: &'a [u8]) -> Liar<'a> {
        Liar { server: &self.server, lie, script, asked: AtomicUsize::new(0) }
    }

    /// The ids that a search finds, best first.
    fn search<T: Transport<Error = ClientError>>(
        &self,
        searcher: &BlindSearcher<T>,
    ) -> Result<Vec<String>, ClientError> {
        let options = SearchOptions { top: DOCUMENTS, ..SearchOptions::default() };
        let answer = searcher.search(&self.collection, &self.query, &options)?;
        Ok(answer.hits.into_iter().map(|hit| hit.id).collect())
    }

    fn honest_search(&self) -> Vec<String> {
        let searcher = BlindSearcher::new(Honest(&self.server), Hints::in_memory());
        self.search(&searcher).expect("an honest server")
    }
}

/// A search asks for the checks, the hints and the answer. One of them is damaged: the search fails, or finds what
/// it finds without.
#[test]
fn answers_of_a_server_that_lies() {
    let expected = WORLD.honest_search();
    assert_eq!(expected.len(), DOCUMENTS);
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES + 1).for_each(
        |input: &[u8]| {
            let (which, script) = input.split_first().unwrap_or((&0, &[]));
            let liar = WORLD.liar(usize::from(*which) % 3, script);
            let searcher = BlindSearcher::new(liar, Hints::in_memory());
            match WORLD.search(&searcher) {
                Ok(found) => assert_eq!(found, expected),
                Err(error) => assert!(!script.is_empty() && !error.to_string().is_empty()),
            }
            // It asks again, and is honest by now.
            let again = (0..2).find_map(|_| WORLD.search(&searcher).ok());
            assert_eq!(again, Some(expected.clone()));
        },
    );
}

/// The same of the fetch of a record, whose hints were fetched before.
#[test]
fn answers_to_a_fetch_of_a_server_that_lies() {
    let fetch = |lie: usize, script: &[u8], way: FetchWay, hints: Hints| {
        let searcher = BlindSearcher::new(WORLD.liar(lie, script), hints);
        searcher.fetch(&WORLD.collection, &["7", "8"], way).map(|fetched| fetched.records)
    };
    let expected = vec![Some(b"seven".to_vec()), None];
    let kept = tempfile::tempdir().expect("a temporary directory");
    let hints = || Hints::kept_in(kept.path()).expect("a directory");
    let honest = fetch(usize::MAX, &[], FetchWay::Private, hints()).expect("an honest server");
    assert_eq!(honest, expected);
    check!().with_iterations(FETCH_ITERATIONS).with_max_len(SCRIPT_BYTES + 1).for_each(
        |input: &[u8]| {
            let (which, script) = input.split_first().unwrap_or((&0, &[]));
            let way = if which % 2 == 0 { FetchWay::Private } else { FetchWay::Direct };
            match fetch(0, script, way, hints()) {
                Ok(records) => assert_eq!(records, expected),
                Err(error) => assert!(!script.is_empty() && !error.to_string().is_empty()),
            }
        },
    );
}

/// The files in which hints of blocks are kept, and which sets of checks were retired. A search with a damaged file of
/// hints finds what it finds without; one with a damaged list of sets does, or fails because the list does not read.
#[test]
fn files_of_hints() {
    let expected = WORLD.honest_search();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let names = ["hints", "retired-checks"].map(|name| directory.path().join(name));
    let search = || {
        let hints = Hints::kept_in(directory.path())?;
        WORLD.search(&BlindSearcher::new(Honest(&WORLD.server), hints))
    };
    assert_eq!(search().expect("an honest server"), expected);
    let sound = [fs::read(&names[0]).expect("hints"), b"17\n18446744073709551615\n".to_vec()];
    check!().with_iterations(ITERATIONS).with_max_len(SCRIPT_BYTES + 1).for_each(
        |input: &[u8]| {
            let (which, script) = input.split_first().unwrap_or((&0, &[]));
            let mut may_fail = false;
            for (at, (name, sound)) in names.iter().zip(&sound).enumerate() {
                let is_damaged = at == usize::from(*which) % 2;
                let bytes = if is_damaged { damage(sound, script) } else { sound.clone() };
                may_fail |= at == 1 && bytes != *sound;
                fs::write(name, bytes).expect("a file to write");
            }
            // A hint that does not open is dropped, an alarm, and fetched by the next search.
            let found = (0..4).find_map(|_| search().ok());
            assert!(found.as_ref() == Some(&expected) || (may_fail && found.is_none()));
        },
    );
}
