//! Two copies of a vault that publish at once, and a reader, in every order there is: both engines do
//! what a small model does, and what was activated is what one publisher sent, whole.

use std::collections::{BTreeMap, BTreeSet};

use shard_protocol::{
    Advance, Candidates, CellHandle, CollectionName, CommitName, Epoch, Leak, Revision, Row,
    RowBatch, RowHandle, RowMac, declassify,
};
use shard_store::{MemoryRows, RowStore, StoreError};

use crate::support::open;

const EPOCH: Epoch = Epoch(1);
const HANDLES: u64 = 8;
const CELL: CellHandle = CellHandle(1);

/// Values by handle: what a commit has, and what a server holds.
type Content = BTreeMap<u64, u8>;

/// One request.
#[derive(Clone, Debug)]
enum Request {
    Begin,
    Put(u64, u8),
    Delete(u64),
    Activate,
    Reset,
}

/// Why a request is refused; `None` when it is not.
type Answer = Option<&'static str>;

/// The rules, once more and as short as they can be said.
#[derive(Clone, Default, Debug, PartialEq)]
struct Model {
    revision: u64,
    commit: Option<CommitName>,
    unfinished: Option<CommitName>,
    turn: u64,
    searched: bool,
    rows: Option<Content>,
}

impl Model {
    fn answer(&mut self, advance: &Advance, request: &Request) -> Answer {
        if let Request::Reset = request {
            let empty = Self { turn: self.turn, ..Self::default() };
            if *self != empty && self.commit != advance.from {
                return Some("forked");
            }
            *self = Self { turn: self.turn + u64::from(*self != empty), ..empty };
            return None;
        }
        let reached = (self.revision, self.commit, self.unfinished);
        if let Request::Activate = request
            && self.searched
            && reached == (advance.revision.0, Some(advance.to), None)
        {
            return None;
        }
        if advance.revision.0 < self.revision {
            return Some("stale");
        }
        if self.commit != advance.from {
            return Some("forked");
        }
        let same = advance.turn == self.turn && self.unfinished == Some(advance.to);
        let may = match request {
            Request::Begin => same || advance.turn == self.turn + 1,
            _ => same || advance.turn == self.turn && self.unfinished.is_none(),
        };
        if !may {
            return Some("overtaken");
        }
        match request {
            Request::Put(handle, value) => {
                self.rows.get_or_insert_default().insert(*handle, *value);
            }
            Request::Delete(handle) => match &mut self.rows {
                Some(rows) => drop(rows.remove(handle)),
                None => return Some("unknown epoch"),
            },
            Request::Activate if self.rows.is_none() => return Some("unknown epoch"),
            Request::Activate => {
                let (to, revision) = (Some(advance.to), advance.revision.0);
                (self.revision, self.commit, self.searched) = (revision, to, true);
            }
            Request::Begin | Request::Reset => {}
        }
        let ended = matches!(request, Request::Activate);
        (self.unfinished, self.turn) = ((!ended).then_some(advance.to), advance.turn);
        None
    }
}

/// The same request to an engine.
fn ask(rows: &dyn RowStore, advance: &Advance, request: &Request) -> Answer {
    let main = CollectionName::default();
    let outcome = match *request {
        Request::Begin => rows.begin(&main, advance),
        Request::Put(handle, value) => {
            let row = Row {
                handle: RowHandle(handle),
                cell: declassify(CELL, Leak::CellMembership),
                coordinates: vec![value.into()],
            };
            let batch = RowBatch::new(
                declassify(EPOCH, Leak::CollectionShape),
                declassify(1, Leak::CollectionShape),
                declassify(vec![row], Leak::StoredRows),
            );
            rows.upsert(&main, advance, batch, &[RowMac([value; 16])])
        }
        Request::Delete(handle) => {
            rows.delete(&main, advance, EPOCH, &[RowHandle(handle)]).map(drop)
        }
        Request::Activate => rows.activate(&main, advance, EPOCH),
        Request::Reset => rows.reset(&main, advance.from),
    };
    match outcome {
        Ok(()) => None,
        Err(StoreError::Stale { .. }) => Some("stale"),
        Err(StoreError::Forked { .. }) => Some("forked"),
        Err(StoreError::Overtaken) => Some("overtaken"),
        Err(StoreError::UnknownEpoch(_)) => Some("unknown epoch"),
        Err(other) => panic!("{other}"),
    }
}

/// What an engine lists of the epoch.
fn listed(rows: &dyn RowStore) -> Content {
    let macs = rows.macs(&CollectionName::default(), EPOCH, None, 100).unwrap();
    macs.into_iter().map(|(handle, mac)| (handle.0, mac.0[0])).collect()
}

/// What a reader finds who asks for every handle.
fn searched(rows: &dyn RowStore) -> Option<Content> {
    let mut found = Content::new();
    for handle in 0..HANDLES {
        let asked = Candidates::new(
            declassify(vec![CELL], Leak::ActiveCells),
            declassify(vec![vec![RowHandle(handle)]], Leak::CandidateHandles),
        );
        match rows.fetch(&CollectionName::default(), EPOCH, &asked.unwrap()) {
            Ok(row) => drop(found.insert(handle, row.rows[0][0][0] as u8)),
            Err(StoreError::UnknownRow { .. } | StoreError::Deleted { .. }) => {}
            Err(_) => return None,
        }
    }
    Some(found)
}

/// A commit of some copy: what it has, and those that led to it, with itself.
#[derive(Clone)]
struct Commit {
    content: Content,
    ancestors: BTreeSet<CommitName>,
    revision: u64,
}

/// A publish on its way.
struct Run {
    advance: Advance,
    content: Content,
    /// What is to be sent, once the server's rows were listed.
    plan: Option<Vec<Request>>,
}

struct World {
    random: u64,
    engines: Vec<Box<dyn RowStore>>,
    model: Model,
    commits: BTreeMap<CommitName, Commit>,
    heads: [CommitName; 2],
    runs: [Option<Run>; 2],
    /// Every request that was ever sent: a network may bring one again.
    sent: Vec<(Advance, Request)>,
    activated: usize,
    refused: usize,
}

impl World {
    fn below(&mut self, limit: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767);
        (self.random >> 33) % limit
    }

    /// Sends a request to every engine and to the model, which must agree.
    fn send(&mut self, advance: Advance, request: Request) -> Answer {
        let before = self.model.clone();
        let expected = self.model.answer(&advance, &request);
        for engine in &self.engines {
            assert_eq!(ask(&**engine, &advance, &request), expected, "{advance:?} {request:?}");
        }
        self.refused += usize::from(expected.is_some());
        if self.model != before {
            assert_eq!(
                before.commit, advance.from,
                "only what comes from the head changes anything"
            );
        }
        expected
    }

    fn check(&self) {
        for engine in &self.engines {
            let state = engine.describe(&CollectionName::default()).unwrap();
            assert_eq!(state.commit, self.model.commit);
            assert_eq!(state.unfinished, self.model.unfinished);
            assert_eq!((state.revision.0, state.turn), (self.model.revision, self.model.turn));
            assert_eq!(listed(&**engine), self.model.rows.clone().unwrap_or_default());
            if let Some(found) = searched(&**engine) {
                assert!(self.model.searched);
                assert_eq!(Some(found), self.model.rows);
            }
        }
    }

    /// A copy of the vault is changed: a commit of a name that nothing else has.
    fn change(&mut self, copy: usize) {
        let mut next = self.commits[&self.heads[copy]].clone();
        for _ in 0..=self.below(3) {
            let handle = self.below(HANDLES);
            if self.below(3) == 0 && next.content.len() > 1 {
                next.content.remove(&handle);
            } else {
                let value = self.below(200) as u8;
                next.content.insert(handle, value);
            }
        }
        let name = CommitName((self.commits.len() as u128 + 1).to_be_bytes());
        next.revision += 1;
        next.ancestors.insert(name);
        self.commits.insert(name, next);
        self.heads[copy] = name;
    }

    /// Begins a publish from what the server holds: also where that is no state of this copy, in
    /// which case it tries what it knows.
    fn begin(&mut self, copy: usize) {
        let head = self.heads[copy];
        let Commit { content, ancestors, revision } = self.commits[&head].clone();
        let held = self.model.commit;
        let from = match held {
            Some(held) if !ancestors.contains(&held) => Some(head),
            other => other,
        };
        let turn = self.model.turn + 1;
        let advance = Advance { from, to: head, revision: Revision(revision), turn };
        let outcome = self.post(advance, Request::Begin);
        self.runs[copy] = outcome.is_none().then_some(Run { advance, content, plan: None });
        if from != held {
            assert!(outcome.is_some(), "a copy that has gone another way does not begin");
        }
    }

    /// Sends a request and remembers it.
    fn post(&mut self, advance: Advance, request: Request) -> Answer {
        self.sent.push((advance, request.clone()));
        self.send(advance, request)
    }

    /// The next step of a publish.
    fn go_on(&mut self, copy: usize) {
        let Some(mut run) = self.runs[copy].take() else { return self.begin(copy) };
        let Some(plan) = &mut run.plan else {
            let held = listed(&*self.engines[0]);
            let gone = held.keys().filter(|handle| !run.content.contains_key(handle));
            let gone = gone.map(|&handle| Request::Delete(handle));
            let new = run.content.iter().filter(|(handle, value)| held.get(handle) != Some(value));
            let new = new.map(|(&handle, &value)| Request::Put(handle, value));
            run.plan = Some(gone.chain(new).collect());
            self.runs[copy] = Some(run);
            return;
        };
        if let Some(request) = plan.pop() {
            // Refused: somebody else has begun or ended. The publish is over.
            if self.post(run.advance, request).is_none() {
                self.runs[copy] = Some(run);
            }
        } else if self.post(run.advance, Request::Activate).is_none() {
            self.activated += 1;
            assert_eq!(self.model.rows, Some(run.content), "what is activated is what was sent");
            assert_eq!(self.model.commit, Some(run.advance.to));
        }
    }

    /// A copy takes over what the server holds.
    fn pull(&mut self, copy: usize) {
        if let Some(held) = self.model.commit {
            self.heads[copy] = held;
        }
    }

    fn step(&mut self) {
        let copy = self.below(2) as usize;
        match self.below(20) {
            0..=1 => self.change(copy),
            2 => self.pull(copy),
            3 => self.begin(copy),
            4 => {
                let from =
                    if self.below(2) == 0 { self.model.commit } else { Some(self.heads[copy]) };
                let (to, revision) = (self.heads[copy], Revision(0));
                self.post(Advance { from, to, revision, turn: 0 }, Request::Reset);
            }
            5..=6 if !self.sent.is_empty() => {
                // A late repetition.
                let at = self.below(self.sent.len() as u64) as usize;
                let (advance, request) = self.sent[at].clone();
                self.send(advance, request);
            }
            _ => self.go_on(copy),
        }
        self.check();
    }
}

fn world(seed: u64, engines: Vec<Box<dyn RowStore>>) -> World {
    let first = CommitName([0xff; 16]);
    let commit = Commit { content: [(0, 1)].into(), ancestors: [first].into(), revision: 1 };
    World {
        random: seed,
        engines,
        model: Model::default(),
        commits: [(first, commit)].into(),
        heads: [first; 2],
        runs: [None, None],
        sent: Vec::new(),
        activated: 0,
        refused: 0,
    }
}

#[test]
fn publishers_that_take_turns_at_random_never_mix_or_lose_rows_in_memory() {
    let (mut activated, mut refused) = (0, 0);
    for seed in 0..300 {
        let mut world = world(seed, vec![Box::new(MemoryRows::new())]);
        (0..200).for_each(|_| world.step());
        (activated, refused) = (activated + world.activated, refused + world.refused);
    }
    assert!(activated > 1000 && refused > 1000, "{activated} {refused}");
}

#[test]
fn publishers_that_take_turns_at_random_never_mix_or_lose_rows_on_disk() {
    let (mut activated, mut refused) = (0, 0);
    for seed in 1000..1012 {
        let directory = tempfile::tempdir().unwrap();
        let engines: Vec<Box<dyn RowStore>> =
            vec![Box::new(open(directory.path())), Box::new(MemoryRows::new())];
        let mut world = world(seed, engines);
        (0..120).for_each(|_| world.step());
        (activated, refused) = (activated + world.activated, refused + world.refused);
        drop(world);
        let found = shard_store::verify(directory.path()).unwrap();
        assert_eq!(found.problems, Vec::<String>::new(), "seed {seed}");
    }
    assert!(activated > 20 && refused > 20, "{activated} {refused}");
}
