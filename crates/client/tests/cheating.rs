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
    Transport, UNWATCHED, create_vault, export_query_vault, ingest, published_rows,
};
use shard_geometry::VectorSet;
use shard_protocol::{
    CollectionName, Limits, MessageKind, OpenSession, RerankRequest, RerankResponse, RowBatch,
    RowHandle, SessionId, message_kind,
};
use shard_rlwe::{Evaluator, MODULUS, Objective, PreparedMergeKeys, Response};
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
    rows: RowBatch,
    forgery: Mutex<Forgery>,
    /// Leaves to be forged before they are merged, in place of whole responses.
    leaves: Mutex<Option<ForgedLeaves>>,
    seen: Mutex<Vec<Stand>>,
    sessions: Mutex<usize>,
    keys: Mutex<HashMap<SessionId, Arc<PreparedMergeKeys>>>,
    asked: Mutex<Option<Asked>>,
    /// Slots and stride of the last request.
    shape: Mutex<Option<(usize, usize)>>,
}

/// Forged leaves of the next answer. A leaf that is asked has `c1 = (q/4) X^-k`, so its row at slot `j`
/// opens to `q/4` times coefficient `j S + k` of the secret, `S` the stride, and `q/8` on top. The others
/// stand at `q/4`, or are left as they are.
#[derive(Clone, Default)]
struct ForgedLeaves {
    /// `k` by leaf.
    asked: HashMap<usize, usize>,
    sign: i64,
    others_honest: bool,
}

/// What the server knows of the last request whose leaves it forged.
#[derive(Clone)]
struct Asked {
    session: SessionId,
    /// Names of the rows of asked leaves, the coefficient of the secret that each shows, and its sign.
    rows: Vec<(RowHandle, usize, i64)>,
}

impl Transport for Cheater {
    type Error = ClientError;

    fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, ClientError> {
        match message_kind(&message)? {
            MessageKind::RerankRequest => Ok(match self.leaves.lock().unwrap().clone() {
                None => self.forge(&message),
                Some(leaves) => self.forge_leaves(&message, &leaves),
            }),
            MessageKind::OpenSession => {
                *self.sessions.lock().unwrap() += 1;
                let opened = OpenSession::decode(&message, &Limits::default())?;
                let keys = Arc::new(opened.keys().prepare());
                self.keys.lock().unwrap().insert(opened.id(), keys);
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

impl Cheater {
    /// The honest answer but for some leaves. A request without a session is answered honestly: its secret
    /// serves nothing else.
    fn forge_leaves(&self, message: &[u8], leaves: &ForgedLeaves) -> Vec<u8> {
        let request = RerankRequest::decode(message, &Limits::default()).unwrap();
        let Some(session) = request.session() else {
            *self.asked.lock().unwrap() = None;
            return self.server.handle(&CollectionName::default(), message);
        };
        let (parameters, layout) = (request.parameters(), request.layout());
        assert_eq!(parameters.degree().coefficients(), N);
        let (slots, stride) = (layout.slots(), layout.stride());
        let keys = self.keys.lock().unwrap()[&session].clone();
        let evaluator = Evaluator::new(parameters.clone(), layout.clone()).with_merge_keys(keys);
        let row = |handle: &RowHandle| {
            let at = self.rows.rows().binary_search_by_key(handle, |row| row.handle).unwrap();
            &self.rows.rows()[at].coordinates[..]
        };
        let groups: Vec<Vec<&[i32]>> =
            request.candidates().iter().map(|(_, rows)| rows.iter().map(row).collect()).collect();
        let queries =
            evaluator.prepare(request.seed(), request.ciphertexts(), groups.len()).unwrap();
        let modulo = |value: i64| value.rem_euclid(MODULUS as i64) as u64;
        let quarter = (MODULUS / 4) as i64;
        let forge = |leaf: usize| {
            let asked = leaves.asked.get(&leaf);
            let (mut c0, mut c1) = (vec![0; N], vec![0; N]);
            match asked {
                None if leaves.others_honest => return None,
                None => (0..slots).for_each(|slot| c0[slot * stride] = modulo(quarter)),
                Some(&k) => {
                    (0..slots).for_each(|slot| c0[slot * stride] = modulo(quarter / 2));
                    // X^-k is -X^(N - k).
                    let (at, sign) = if k == 0 { (0, 1) } else { (N - k, -1) };
                    c1[at] = modulo(sign * leaves.sign * quarter);
                }
            }
            Some([c0, c1])
        };
        let responses = evaluator.respond_forged(&queries, &groups, &forge).unwrap();
        let handles = request.candidates().iter().flat_map(|(_, rows)| rows.to_vec());
        let shows = |(number, handle): (usize, RowHandle)| {
            let at = number % slots * stride + leaves.asked.get(&(number / slots))?;
            let (at, wrap) = if at < N { (at, 1) } else { (at - N, -1) };
            Some((handle, at, wrap * leaves.sign))
        };
        let rows = handles.enumerate().filter_map(shows).collect();
        *self.asked.lock().unwrap() = Some(Asked { session, rows });
        *self.shape.lock().unwrap() = Some((slots, stride));
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

/// Who searches.
#[derive(Clone, Copy, PartialEq)]
enum Who {
    Owner,
    Reader,
}

/// Documents whose prefix hardly counts, so that the attacker need not know it.
fn world(who: Who) -> World {
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
    let rows = published_rows(&vault).unwrap();
    server.hold(&CollectionName::default(), rows.clone()).unwrap();
    let cheater = Cheater {
        server,
        rows,
        forgery: Mutex::default(),
        leaves: Mutex::default(),
        seen: Mutex::default(),
        sessions: Mutex::default(),
        keys: Mutex::default(),
        asked: Mutex::default(),
        shape: Mutex::default(),
    };
    if who == Who::Reader {
        let (path, cost) = (directory.path().join("reader"), KdfCost::default());
        vault = export_query_vault(&vault, &path, &unlock, cost, &mut rng).unwrap();
    }
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

/// A merged plan with the defences that are given, for whoever cannot recompute scores.
fn merged(canaries: bool, session_requests: u32) -> SearchOptions {
    SearchOptions {
        objective: Some(Objective::Bytes),
        canaries,
        session_requests,
        session_share: f64::INFINITY,
        ..SearchOptions::default()
    }
}

#[test]
fn without_defences_a_long_lived_secret_is_lost() {
    let world = world(Who::Reader);
    let careless = merged(false, u32::MAX);
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
    let world = world(Who::Reader);
    let careful = merged(true, 64);
    for attempt in 1..=3 {
        let forgery = Forgery { terms: vec![(0, 1.0)], lifted: (0..16).collect() };
        let error = world.search(forgery, &careful).unwrap_err();
        let ClientError::FalseAnswer { wrong, checked } = error else { panic!("{error}") };
        // Every document is a candidate.
        let canaries = world.collection.index().canaries();
        assert!(wrong > 0 && checked == canaries, "{wrong} of {checked}, {canaries} canaries");
        assert!(canaries < world.collection.index().rows() / 2, "{canaries} canaries");
        assert!(error.to_string().starts_with("ALARM"), "{error}");
        // The next search starts a session of its own.
        assert_eq!(*world.searcher.transport().sessions.lock().unwrap(), attempt);
    }
}

#[test]
fn a_session_that_ends_early_leaves_the_attacker_with_nothing_to_use() {
    let world = world(Who::Reader);
    let short = merged(false, 64);
    let secret = world.attack(&short).unwrap();
    let foresight = world.foresight(&secret, &short).unwrap();
    assert!(foresight < 0.4, "{foresight}");
}

#[test]
fn a_fresh_secret_for_every_request_leaves_nothing_to_accumulate() {
    let world = world(Who::Reader);
    let fresh = SearchOptions { canaries: false, ..SearchOptions::default() };
    let secret = world.attack(&fresh).unwrap();
    let foresight = world.foresight(&secret, &fresh).unwrap();
    assert!(foresight < 0.4, "{foresight}");
    assert_eq!(*world.searcher.transport().sessions.lock().unwrap(), 0);
}

/// What a server has learned of the secret of each session, by coefficient: for every sign that was
/// asked, whether the coefficient has it.
type Learned = HashMap<SessionId, HashMap<usize, HashMap<i64, bool>>>;

impl World {
    /// One search with forged leaves: what was asked, and the names of the documents that are opened.
    fn search_leaves(
        &self,
        leaves: ForgedLeaves,
        options: &SearchOptions,
    ) -> Result<Option<(Asked, HashSet<RowHandle>)>, ClientError> {
        let cheater = self.searcher.transport();
        *cheater.leaves.lock().unwrap() = Some(leaves);
        let answer = self.searcher.search(&self.collection, &self.query, options)?;
        let opened = answer.hits.iter().map(|hit| self.collection.index().handle(hit.row));
        Ok(cheater.asked.lock().unwrap().clone().map(|asked| (asked, opened.collect())))
    }

    /// Asks so many times for as many coefficients as the documents that are opened can show.
    fn attack_leaves(&self, requests: usize, options: &SearchOptions) -> Learned {
        let mut learned = Learned::new();
        let honest = ForgedLeaves { others_honest: true, ..ForgedLeaves::default() };
        self.search_leaves(honest, options).unwrap();
        let shape = *self.searcher.transport().shape.lock().unwrap();
        let Some((slots, stride)) = shape else { return learned };
        // A third of the rows is to come out on top, and no more than are opened.
        let at_once = (options.top * 2 / slots).max(1);
        for request in 0..requests {
            let first = request / 2 * at_once;
            let asked = (0..at_once).map(|leaf| (leaf, (first + leaf) % stride)).collect();
            let sign = if request % 2 == 0 { 1 } else { -1 };
            let leaves = ForgedLeaves { asked, sign, others_honest: false };
            let Some((asked, opened)) = self.search_leaves(leaves, options).unwrap() else {
                continue;
            };
            let secret = learned.entry(asked.session).or_default();
            // What is not opened says nothing if there was no room for more.
            let shown = asked.rows.iter().filter(|(handle, ..)| opened.contains(handle)).count();
            for (handle, at, sign) in asked.rows {
                let has = opened.contains(&handle);
                if has || shown < options.top {
                    secret.entry(at).or_default().insert(sign, has);
                }
            }
        }
        learned
    }
}

#[test]
fn forged_leaves_read_the_secret_of_a_long_session_that_shows_forty_documents() {
    let world = world(Who::Reader);
    let careless = SearchOptions { top: 40, ..merged(false, 64) };
    let learned = world.attack_leaves(60, &careless);
    assert_eq!(learned.len(), 1, "one session");
    let secret = learned.values().next().unwrap();
    let is_known = |signs: &&HashMap<i64, bool>| signs.len() == 2;
    let known = secret.values().filter(is_known).count();
    assert!(known > N * 9 / 10, "{known} of {N} coefficients");
    // They are the secret's: no coefficient has both signs, and a third has each.
    let twice = secret.values().filter(|signs| signs.values().all(|&has| has)).count();
    let has = |sign| secret.values().filter(|signs| signs.get(&sign) == Some(&true)).count();
    assert!(twice < known / 50, "{twice} coefficients with both signs");
    let third = |count: usize| (count as f64 / known as f64 - 1.0 / 3.0).abs() < 0.06;
    assert!(third(has(1)) && third(has(-1)), "{} and {} of {known}", has(1), has(-1));
}

#[test]
fn a_readers_session_ends_before_forged_leaves_have_shown_an_eighth_of_its_secret() {
    let mut opened = Vec::new();
    for top in [1, 3, 10, 40] {
        let world = world(Who::Reader);
        let bounded = SearchOptions {
            top,
            session_share: SearchOptions::default().session_share,
            ..merged(false, 64)
        };
        let learned = world.attack_leaves(130, &bounded);
        let most = learned.values().map(HashMap::len).max().unwrap_or(0);
        assert!(most <= N / 8, "{most} coefficients at {top} documents");
        let sessions = *world.searcher.transport().sessions.lock().unwrap();
        assert_eq!(sessions, learned.len(), "at {top} documents");
        opened.push(sessions);
    }
    assert!(opened.iter().any(|&sessions| sessions > 1), "{opened:?} sessions");
}

#[test]
fn an_owner_finds_every_forged_leaf_and_a_reader_those_of_canaries() {
    let found = |who| {
        let world = world(who);
        let options = SearchOptions { session_share: f64::INFINITY, ..merged(true, 64) };
        let honest = ForgedLeaves { others_honest: true, ..ForgedLeaves::default() };
        world.search_leaves(honest, &options).unwrap();
        let slots = world.searcher.transport().shape.lock().unwrap().unwrap().0;
        let leaves = world.searcher.transport().rows.rows().len().div_ceil(slots);
        let attempts = (0..leaves).map(|leaf| {
            let asked = HashMap::from([(leaf, 5)]);
            let leaves = ForgedLeaves { asked, sign: 1, others_honest: true };
            match world.search_leaves(leaves, &options) {
                Err(ClientError::FalseAnswer { wrong, .. }) => usize::from(wrong > 0),
                other => usize::from(other.is_err()) * 1000,
            }
        });
        (attempts.sum::<usize>(), leaves)
    };
    let (by_owner, leaves) = found(Who::Owner);
    assert_eq!(by_owner, leaves);
    let (by_reader, leaves) = found(Who::Reader);
    assert!((1..=leaves).contains(&by_reader), "{by_reader} of {leaves}");
}
