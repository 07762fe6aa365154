//! Two owners with copies of one vault, a reader, and a server: random interleavings of everything
//! that they may do.
//!
//! # What may be lost
//! Each change of a document that was acknowledged is remembered, with the changes of the same
//! document that its author knew of: those it overrides, deliberately. A copy knows of its own
//! changes, of those in what it pulled, and of those in the backup that it was restored from. When
//! the second owner's copy is thrown away and restored anew, changes that no other copy, and not the
//! server, knew of are gone with it; nobody expects otherwise.
//!
//! Of the changes that are left in the end, those of a document that none of the others overrides
//! are its *last* ones. Where there is one, it must be what both copies and the server hold: a
//! document that was put and that nobody then replaced or deleted is there, with its vector, and one
//! that was deleted is not. Where there are several, two owners changed the document without knowing
//! of each other. Then one of these changes stands, whole, and the others are lost: a document has
//! one vector. No older change may come back in their place, and nothing may be there that nobody
//! put.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use shard_client::ClientError;
use shard_client::remote::BackupError;

use crate::publish::assert_holds;
use crate::reader::Reader;
use crate::support::Served;
use crate::vaults::Owner;

const SEEDS: u64 = 30;
const STEPS: usize = 40;
const DOCUMENTS: usize = 24;

/// A change of a document that was acknowledged.
struct Acknowledged {
    id: String,
    /// The vector that was put; `None` for a deletion.
    vector: Option<Vec<f32>>,
    /// Changes of the same document that its author knew of.
    overrides: BTreeSet<usize>,
}

/// Changes that somebody knows of, by number.
type Known = BTreeSet<usize>;

struct Play {
    seed: u64,
    dice: ChaCha20Rng,
    served: Arc<Served>,
    changes: Vec<Acknowledged>,
    owners: [Owner; 2],
    known: [Known; 2],
    published: Known,
    published_ids: Vec<String>,
    /// What the newest backup knows of; `None` before the first.
    backup: Option<Known>,
    reader: Reader,
    /// New documents so far.
    new: usize,
    /// Copies so far.
    copies: u64,
    happened: Vec<String>,
}

impl Play {
    fn begin(seed: u64) -> Self {
        let served = Served::new(None);
        let mut first = Owner::seeded(1000 + seed, DOCUMENTS, 12);
        first.publish(&*served).unwrap();
        first.back_up(&*served).unwrap();
        let second = first.restored(2000 + seed, &served);
        let documents = first.documents();
        let change =
            |(id, vector)| Acknowledged { id, vector: Some(vector), overrides: BTreeSet::new() };
        let published_ids = documents.keys().cloned().collect();
        let changes: Vec<_> = documents.into_iter().map(change).collect();
        let known: Known = (0..changes.len()).collect();
        Self {
            seed,
            dice: ChaCha20Rng::seed_from_u64(seed),
            served,
            changes,
            reader: Reader::of(&mut first),
            owners: [first, second],
            known: [known.clone(), known.clone()],
            published: known.clone(),
            published_ids,
            backup: Some(known),
            new: 0,
            copies: 0,
            happened: Vec::new(),
        }
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.dice.next_u32() as usize % sides
    }

    fn step(&mut self) {
        let (who, what) = (self.roll(2), self.roll(20));
        let said = match what {
            0..=3 => {
                self.new += 1;
                self.put(who, format!("new-{}", self.new))
            }
            4..=6 => {
                let id = self.some_id(who);
                self.put(who, id)
            }
            7..=9 => self.delete(who),
            10..=12 => self.publish(who),
            13..=14 => self.back_up(who),
            15..=16 => self.pull(who),
            17 => {
                self.owners[who].rekey();
                "rekeys".to_owned()
            }
            18 => self.restore(),
            _ => self.read(),
        };
        self.happened.push(format!("{} {said}", ["A", "B"][who]));
    }

    /// An id of a document, of few enough that both owners often take the same.
    fn some_id(&mut self, who: usize) -> String {
        let collection = self.owners[who].collection();
        let at = self.roll(collection.index().rows().min(8));
        collection.index().id(at as u32).to_owned()
    }

    fn acknowledge(&mut self, who: usize, id: String, vector: Option<Vec<f32>>) {
        let same = |change: &&usize| self.changes[**change].id == id;
        let overrides = self.known[who].iter().filter(same).copied().collect();
        self.known[who].insert(self.changes.len());
        self.changes.push(Acknowledged { id, vector, overrides });
    }

    fn put(&mut self, who: usize, id: String) -> String {
        self.owners[who].put(&id);
        let vector = self.owners[who].documents()[&id].clone();
        self.acknowledge(who, id.clone(), Some(vector));
        format!("puts {id}")
    }

    fn delete(&mut self, who: usize) -> String {
        if self.owners[who].collection().index().rows() <= DOCUMENTS / 2 {
            return "has few documents left".to_owned();
        }
        let id = self.some_id(who);
        self.owners[who].delete(&id);
        self.acknowledge(who, id.clone(), None);
        format!("deletes {id}")
    }

    fn pull(&mut self, who: usize) -> String {
        let pulled = self.owners[who].pull(&*self.served).unwrap();
        self.known[who].extend(&self.published);
        self.owners[who].documents();
        format!("pulls {pulled:?}")
    }

    fn publish(&mut self, who: usize) -> String {
        let mut said = "publishes".to_owned();
        match self.owners[who].publish(&*self.served) {
            Ok(_) => {}
            Err(ClientError::Behind { .. } | ClientError::Forked { .. }) => {
                said = format!("{} and publishes", self.pull(who));
                self.owners[who].publish(&*self.served).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
        self.published.clone_from(&self.known[who]);
        self.published_ids = self.owners[who].documents().into_keys().collect();
        assert_holds(&self.served, &self.owners[who]);
        said
    }

    fn back_up(&mut self, who: usize) -> String {
        match self.owners[who].back_up(&*self.served) {
            Ok(_) => {
                self.backup = Some(self.known[who].clone());
                "backs up".to_owned()
            }
            // The other's backup, or the state that is published, is not where this copy is from.
            Err(
                error @ (ClientError::Forked { .. }
                | ClientError::Backup(BackupError::Parted { .. })),
            ) => format!("does not back up: {error}"),
            Err(error) => panic!("{error}"),
        }
    }

    fn restore(&mut self) -> String {
        let Some(backup) = &self.backup else { return "has no backup".to_owned() };
        self.copies += 1;
        let seed = 3000 + self.seed * 100 + self.copies;
        self.owners[1] = self.owners[0].restored(seed, &self.served);
        self.known[1].clone_from(backup);
        "restores B".to_owned()
    }

    fn read(&mut self) -> String {
        let owner = &mut self.owners[0];
        match self.reader.pull(&*self.served, owner) {
            Ok(_) => {
                self.reader.search(owner, &self.served).unwrap();
                assert_eq!(self.reader.ids(), self.published_ids);
                "sees the reader search".to_owned()
            }
            // Its epoch has ended, or was never published: whoever may search gets a new vault.
            Err(ClientError::Revoked { .. } | ClientError::ServerBehind { .. }) => {
                self.reader = Reader::of(owner);
                "sees the reader get a new vault".to_owned()
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Both pull and publish until they have nothing to say to each other.
    fn settle(&mut self) {
        for _ in 0..3 {
            for who in [0, 1] {
                self.publish(who);
            }
        }
        self.pull(0);
        let heads = [0, 1].map(|who| self.owners[who].vault.head().unwrap());
        assert_eq!(heads[0], heads[1]);
    }

    fn check(&self) {
        let held = self.owners[0].documents();
        assert_eq!(held, self.owners[1].documents());
        self.owners.iter().for_each(|owner| assert_holds(&self.served, owner));
        assert_eq!(self.known[0], self.known[1]);
        let left = &self.known[0];
        let overridden: Known =
            left.iter().flat_map(|change| &self.changes[*change].overrides).copied().collect();
        let mut last: BTreeMap<&str, Vec<Option<&Vec<f32>>>> = BTreeMap::new();
        for change in left.difference(&overridden).map(|change| &self.changes[*change]) {
            last.entry(&change.id).or_default().push(change.vector.as_ref());
        }
        for (id, fates) in &last {
            assert!(fates.contains(&held.get(*id)), "{id} is none of its {} fates", fates.len());
        }
        assert!(held.keys().all(|id| last.contains_key(id.as_str())), "nobody put that");
    }
}

#[test]
fn whatever_two_owners_do_no_acknowledged_change_is_lost() {
    for seed in 0..SEEDS {
        let mut play = Play::begin(seed);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..STEPS).for_each(|_| play.step());
            play.settle();
            play.check();
        }));
        if outcome.is_err() {
            panic!("seed {seed}:\n{}", play.happened.join("\n"));
        }
    }
}
