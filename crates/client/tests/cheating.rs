//! A server that answers with chosen ciphertexts and watches which documents are fetched next.
//!
//! With `c1 = (q/4) X^j` the opened value of a candidate at coefficient `t` is `q/4` times
//! coefficient `t - j` of the secret, plus a `c0` of the server's choice. Sixteen candidates are
//! lifted by `q/8`: those whose coefficient is `+1` come out above everyone else and are
//! fetched, the others drown among the third of all candidates that stand at `q/4`. With the
//! sign of `c1` turned, `-1` shows in the same way. Every score stays in range. A secret of 2048
//! coefficients that lives long enough is lost after 256 searches.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use shard_client::vault::{KdfCost, Unlock};
use shard_client::{
    CellCount, Choice, ClientError, Collection, Documents, SearchOptions, Searcher, Settings,
    Transport, UNWATCHED, create_vault, ingest, published_rows,
};
use shard_geometry::VectorSet;
use shard_protocol::{
    CollectionName, Limits, MessageKind, RerankRequest, RerankResponse, RowHandle, message_kind,
};
use shard_rlwe::{Objective, Response};
use shard_server::Server;
use shard_store::MemoryRows;
use zeroize::Zeroizing;

const N: usize = 2048;

/// What the next answer is made of: terms of `c1` in quarters of `q`, and lifted candidates.
#[derive(Clone, Default)]
struct Forgery {
    /// `(exponent, quarters)`.
    terms: Vec<(usize, f64)>,
    /// Candidates, by number, that get `q/8` on top.
    lifted: HashSet<usize>,
}

/// Where a candidate of the last request stood: its name and its coefficient.
type Stand = (RowHandle, usize);

struct Cheater {
    server: Server,
    forgery: Mutex<Forgery>,
    seen: Mutex<Vec<Stand>>,
    sessions: Mutex<usize>,
}

impl Transport for Cheater {
    type Error = ClientError;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        match message_kind(&message)? {
            MessageKind::RerankRequest => Ok(self.forge(&message)),
            MessageKind::OpenSession => {
                *self.sessions.lock().unwrap() += 1;
                Ok(self.server.handle(&CollectionName::default(), &message))
            }
            _ => Ok(self.server.handle(&CollectionName::default(), &message)),
        }
    }
}

impl Cheater {
    fn forge(&self, message: &[u8]) -> Vec<u8> {
        let request = RerankRequest::decode(message, &Limits::default()).unwrap();
        let (parameters, layout) = (request.parameters(), request.layout());
        assert_eq!(parameters.degree().coefficients(), N);
        let bits = parameters.response_bits();
        let quarter = f64::from(1_u32 << (bits - 2));
        let unit = |quarters: f64| (quarters * quarter) as i64 as u64 & ((1 << bits) - 1);
        let forgery = self.forgery.lock().unwrap().clone();
        let handles: Vec<RowHandle> =
            request.candidates().iter().flat_map(|(_, rows)| rows.to_vec()).collect();
        let mut seen = Vec::new();
        let mut responses = Vec::new();
        for index in 0..layout.responses(handles.len()) {
            let targets = layout.targets(layout.used_slots(index, handles.len()));
            let mut c1 = vec![0_u64; N];
            forgery.terms.iter().for_each(|&(j, quarters)| c1[j] = unit(quarters));
            let first = seen.len();
            let lift = |i: usize| if forgery.lifted.contains(&(first + i)) { 0.5 } else { 0.0 };
            let c0: Vec<u64> = (0..targets.len()).map(|i| unit(lift(i))).collect();
            let bytes = [pack(&c1, bits), pack(&c0, bits)].concat();
            let response = Response::from_bytes(parameters, layout, targets.len(), &bytes);
            responses.push(response.unwrap());
            seen.extend(targets.iter().enumerate().map(|(i, &t)| (handles[first + i], t)));
        }
        *self.seen.lock().unwrap() = seen;
        RerankResponse::new(responses).encode()
    }
}

/// The wire's bit packing, written again as an outsider would.
fn pack(values: &[u64], bits: u32) -> Vec<u8> {
    let mut bytes = vec![0_u8; (values.len() * bits as usize).div_ceil(8)];
    for (index, value) in values.iter().enumerate() {
        for bit in (0..bits as usize).filter(|bit| value >> bit & 1 == 1) {
            let at = index * bits as usize + bit;
            bytes[at / 8] |= 1 << (at % 8);
        }
    }
    bytes
}

struct World {
    _directory: tempfile::TempDir,
    collection: Collection,
    searcher: Searcher<Cheater>,
    query: Vec<f32>,
}

/// Documents whose prefix hardly counts, so that the attacker need not know it.
fn world() -> World {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut unit = |width: usize| {
        let row: Vec<f32> =
            (0..width).map(|_| rng.next_u32() as f32 / u32::MAX as f32 - 0.5).collect();
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        row.iter().map(|x| x / norm).collect::<Vec<f32>>()
    };
    let documents = VectorSet::new(64, (0..128).flat_map(|_| unit(64)).collect()).unwrap();
    let query = unit(64);
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings {
        d_pub: Choice::Fixed(2),
        candidates: Choice::Fixed(128),
        ..Settings::new(CellCount::Cells(1))
    };
    let unlock = Unlock::KeyFile(Zeroizing::new(vec![3; 32]));
    let path = directory.path().join("vault");
    let mut vault = create_vault(&path, &unlock, KdfCost::default(), &settings, &mut rng).unwrap();
    let ids: Vec<String> = (0..128).map(|row| row.to_string()).collect();
    let given = Documents { ids: &ids, vectors: &documents, sample_queries: None };
    ingest(&mut vault, &given, UNWATCHED, &mut rng).unwrap();
    let server = Server::new(Arc::new(MemoryRows::new()), Limits::default());
    server.hold(&CollectionName::default(), published_rows(&vault).unwrap()).unwrap();
    let cheater = Cheater {
        server,
        forgery: Mutex::default(),
        seen: Mutex::default(),
        sessions: Mutex::default(),
    };
    let collection = Collection::open(&vault).unwrap();
    World { _directory: directory, collection, searcher: Searcher::new(cheater), query }
}

impl World {
    /// One search answered with a forgery; returns what is fetched next, and where everyone
    /// stood.
    fn search(
        &self,
        forgery: Forgery,
        options: &SearchOptions,
    ) -> Result<(HashSet<RowHandle>, Vec<Stand>), ClientError> {
        let cheater = self.searcher.transport();
        *cheater.forgery.lock().unwrap() = forgery;
        let answer = self.searcher.search(&self.collection, &self.query, options)?;
        let fetched = answer.hits.iter().map(|hit| self.collection.index().handle(hit.row));
        Ok((fetched.collect(), cheater.seen.lock().unwrap().clone()))
    }

    /// Recovers coefficients of the secret, as far as the answers show them.
    fn attack(&self, options: &SearchOptions) -> Result<HashMap<usize, i32>, ClientError> {
        let mut secret = HashMap::new();
        for j in 0..16 {
            for group in 0..8 {
                let lifted: HashSet<usize> = (group * 16..(group + 1) * 16).collect();
                for sign in [1, -1] {
                    let terms = vec![(j, f64::from(sign))];
                    let forgery = Forgery { terms, lifted: lifted.clone() };
                    let (fetched, seen) = self.search(forgery, options)?;
                    for &number in &lifted {
                        let (handle, t) = seen[number];
                        // (X^j s)_t is s_(t-j), negated when it wraps.
                        let (k, wrap) = if t >= j { (t - j, 1) } else { (N + t - j, -1) };
                        if fetched.contains(&handle) {
                            secret.insert(k, sign * wrap);
                        } else {
                            secret.entry(k).or_insert(0);
                        }
                    }
                }
            }
        }
        Ok(secret)
    }

    /// How often the attacker foresees which documents a new forgery sends to the top: those
    /// for which both of two coefficients are `+1`. A ninth of all are, so a guess is right once
    /// in nine.
    fn foresight(
        &self,
        secret: &HashMap<usize, i32>,
        options: &SearchOptions,
    ) -> Result<f64, ClientError> {
        let (mut right, mut all) = (0, 0);
        for (j1, j2) in [(3, 1000), (5, 700), (11, 1333), (2, 64), (9, 2000), (14, 400)] {
            let forgery = Forgery { terms: vec![(j1, 0.5), (j2, 0.5)], ..Forgery::default() };
            let (fetched, seen) = self.search(forgery, options)?;
            for (_, t) in seen.iter().filter(|(handle, _)| fetched.contains(handle)) {
                let known = |j: usize| {
                    let (k, wrap) = if *t >= j { (t - j, 1) } else { (N + t - j, -1) };
                    wrap * secret.get(&k).copied().unwrap_or(0)
                };
                right += usize::from(known(j1) + known(j2) == 2);
                all += 1;
            }
        }
        Ok(right as f64 / all as f64)
    }
}

/// A merged plan with the defences that are given.
fn merged(canaries: usize, session_requests: u32) -> SearchOptions {
    SearchOptions {
        objective: Some(Objective::Bytes),
        canaries,
        session_requests,
        ..SearchOptions::default()
    }
}

#[test]
fn without_defences_a_long_lived_secret_is_lost() {
    let world = world();
    let careless = merged(0, u32::MAX);
    let secret = world.attack(&careless).unwrap();
    assert_eq!(secret.len(), N);
    let share = |value| secret.values().filter(|&&v| v == value).count() as f64 / N as f64;
    assert!((share(1) - 1.0 / 3.0).abs() < 0.06 && (share(-1) - 1.0 / 3.0).abs() < 0.06);
    let foresight = world.foresight(&secret, &careless).unwrap();
    // Guessing is right once in nine times. Of some sixty guesses a few may be wrong where two scores lie
    // close.
    assert!(foresight > 0.75, "{foresight}");
    assert_eq!(*world.searcher.transport().sessions.lock().unwrap(), 1);
}

#[test]
fn canaries_raise_the_alarm_at_the_first_false_answer_and_retire_the_secret() {
    let world = world();
    let careful = merged(8, 64);
    for attempt in 1..=3 {
        let forgery = Forgery { terms: vec![(0, 1.0)], lifted: (0..16).collect() };
        let error = world.search(forgery, &careful).unwrap_err();
        let ClientError::FalseAnswer { wrong, checked: 8 } = error else { panic!("{error}") };
        assert!(wrong > 0);
        assert!(error.to_string().starts_with("ALARM"), "{error}");
        // The next search starts a session of its own.
        assert_eq!(*world.searcher.transport().sessions.lock().unwrap(), attempt);
    }
}

#[test]
fn a_session_that_ends_early_leaves_the_attacker_with_nothing_to_use() {
    let world = world();
    let short = merged(0, 64);
    let secret = world.attack(&short).unwrap();
    let foresight = world.foresight(&secret, &short).unwrap();
    assert!(foresight < 0.4, "{foresight}");
}

#[test]
fn a_fresh_secret_for_every_request_leaves_nothing_to_accumulate() {
    let world = world();
    let fresh = SearchOptions { canaries: 0, ..SearchOptions::default() };
    let secret = world.attack(&fresh).unwrap();
    let foresight = world.foresight(&secret, &fresh).unwrap();
    assert!(foresight < 0.4, "{foresight}");
    assert_eq!(*world.searcher.transport().sessions.lock().unwrap(), 0);
}
