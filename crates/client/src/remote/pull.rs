//! Brings a copy of a vault to the state that is published.
//!
//! Who publishes leaves the sealed values of the commit on the server. A copy that is merely behind
//! fetches those it lacks and is then at the very same commit. A copy that has changed as well takes
//! the published state and repeats its own changes on top, in one commit: documents that it put are
//! put again, documents that it deleted are deleted. A vector and a record are changed apart: one
//! copy's vector and the other's record of a document both stay. Where both changed the same, this copy's
//! change stands, since it is the later one to arrive; what it changed of a document that the other
//! deleted brings the document back, whole. What another copy has repeated already is not
//! repeated: that copy knew of it, and what it did later stands. An epoch that only this copy began
//! is given up.
//!
//! A query vault fetches what it may open: it is brought forward within its epoch.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use rand_core::CryptoRng;
use shard_geometry::VectorSet;
use shard_protocol::{CollectionState, CommitName, Transport};

use super::blobs;
use super::claim::{Owner, kept_root, owner};
use super::publish::describe;
use crate::blind::{GivenRecord, records_of};
use crate::collection::{Change, Changes, Documents, Fate, documents_where};
use crate::encoder_note::EncoderNote;
use crate::error::ClientError;
use crate::progress::{Progress, Watch};
use crate::transport::Channel;
use crate::vault::{Entry, RootHeader, Slot, Transaction, Vault, VaultAccess};

/// What a pull did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pulled {
    /// The generation before.
    pub from: u64,
    /// The generation now.
    pub to: u64,
    /// Bytes fetched.
    pub bytes: u64,
    /// Documents of this copy that were put on top of the published state.
    pub put_again: usize,
    /// Documents that this copy had deleted and that were deleted again.
    pub deleted_again: usize,
    /// Documents that both had changed; this copy's change stands. Changes of the other copy that
    /// are not on record any more are not counted.
    pub contested: usize,
    /// Whether an epoch that only this copy had begun was given up.
    pub epoch_dropped: bool,
}

/// Brings a vault to the published state of its collection, and repeats what only this copy has.
///
/// # Errors
/// When the collection is another vault's, nothing is published, this copy's own changes go back
/// too far to be repeated or would leave no document, a query vault's epoch has ended, the server
/// refuses or gives something else than was published, or `watch` ended it. Nothing has changed then.
pub fn pull(
    vault: &mut Vault,
    transport: &impl Transport<Error: Into<ClientError>>,
    watch: &Watch<'_>,
    rng: &mut impl CryptoRng,
) -> Result<Pulled, ClientError> {
    let transaction = vault.transaction(rng)?;
    let ours = transaction.before().root().header;
    let state = describe(transport)?;
    if owner(ours.vault, transport)? == Owner::Another {
        return Err(ClientError::NotThisVault);
    }
    let Some(published) = state.commit else {
        return Err(ClientError::NothingPublished);
    };
    let here = Pulled { from: ours.generation, to: ours.generation, ..Pulled::default() };
    if transaction.before().commit_at(state.revision.0)? == Some(published) {
        return Ok(here);
    }
    let name = blobs::state_name(published);
    let kept = blobs::fetch(transport, &name)?.ok_or(ClientError::NoPublishedState)?;
    let root = kept_root(&kept, ours.vault, transport).ok_or(ClientError::NoPublishedState)?;
    check_header(&root, &state, &ours, transaction.vault().access())?;
    let mut fetching = Fetching::new(transport, watch);
    match transaction.vault().access() {
        VaultAccess::Query => {
            let to = transaction.bring_to(&root, |slot, entry| fetching.value(slot, entry))?;
            Ok(Pulled { to: to.generation, bytes: fetching.progress.done, ..here })
        }
        VaultAccess::Owner => merge(transaction, &root, &mut fetching, here, rng),
    }
}

/// What the root says of itself must be what the server says of it, and later than ours.
fn check_header(
    root: &[u8],
    state: &CollectionState,
    ours: &RootHeader,
    access: VaultAccess,
) -> Result<(), ClientError> {
    let header = RootHeader::decode(root).map_err(|_| ClientError::NoPublishedState)?;
    let told = (state.commit, state.revision.0);
    if (Some(header.commit), header.generation) != told {
        return Err(ClientError::NoPublishedState);
    }
    if access == VaultAccess::Query {
        if ours.epoch != header.epoch {
            return Err(ClientError::Revoked {
                reason: "the owner has begun another epoch".to_owned(),
            });
        }
        if header.generation < ours.generation {
            return Err(ClientError::ServerBehind {
                server: state.revision,
                ours: shard_protocol::Revision(ours.generation),
            });
        }
    }
    Ok(())
}

/// Takes the published state, and repeats on top what only this copy has.
fn merge(
    mut transaction: Transaction<'_>,
    root: &[u8],
    fetching: &mut Fetching<'_>,
    here: Pulled,
    rng: &mut impl CryptoRng,
) -> Result<Pulled, ClientError> {
    let common = common_generation(&transaction, root, fetching)?;
    if common == transaction.before().root().header.generation {
        let to = transaction.bring_to(root, |slot, entry| fetching.value(slot, entry))?;
        return Ok(Pulled { to: to.generation, bytes: fetching.progress.done, ..here });
    }
    let mut mine = Mine::gather(&transaction, common)?;
    let encoder = EncoderNote::read(transaction.before())?;
    transaction.rebase(root, |slot, entry| fetching.value(slot, entry))?;
    let is_noted = match (&encoder, EncoderNote::read(transaction.before())?) {
        (Some(ours), Some(theirs)) => ours.over(Some(&theirs)).map(|_| true)?,
        (_, theirs) => theirs.is_some(),
    };
    let ours = shard_protocol::Revision(here.from);
    let theirs = Changes::since(transaction.before(), common)?
        .ok_or(ClientError::TooFarApart { common, ours })?;
    // What another copy has repeated already.
    mine.changes.without(&theirs.commits);
    let mut pulled = Pulled {
        to: transaction.generation(),
        // The first ingest begins an epoch as well.
        epoch_dropped: mine.changes.epoch || mine.changes.first.is_some(),
        bytes: fetching.progress.done,
        ..here
    };
    let mut change = Change::begin(transaction)?;
    let deleted: Vec<&str> = mine.of(Fate::Deleted).collect();
    let touched: Vec<&str> =
        mine.ids.iter().map(String::as_str).chain(deleted.iter().copied()).collect();
    let places = change.rows_of(touched.iter().copied());
    let is_contested =
        |(id, place): &(&&str, &Option<u32>)| mine.is_contested(id, place.is_some(), &theirs);
    pulled.contested = touched.iter().zip(&places).filter(is_contested).count();
    let rows: Vec<u32> = change.rows_of(deleted.into_iter()).into_iter().flatten().collect();
    change.remove(&rows)?;
    pulled.deleted_again = rows.len();
    let Again { put, vectors, records } = mine.again(&places)?;
    if let Some(vectors) = &vectors {
        change.put(&Documents { ids: &put, vectors, sample_queries: None })?;
    }
    if let Change::Blind(change) = &mut change {
        change.set_records(records)?;
        // What is published is as new as this copy's.
        if let (Some(note), false) = (&encoder, is_noted) {
            change.set_encoder(note)?;
        }
    }
    if change.documents() == 0 {
        return Err(ClientError::NothingLeft(pulled.deleted_again));
    }
    pulled.put_again = change.commit_repeated(&mine.changes, rng)?;
    Ok(pulled)
}

/// What only this copy has.
struct Mine {
    changes: Changes,
    /// Documents whose vector or record it changed, their vectors, and the records they have.
    ids: Vec<String>,
    vectors: Option<VectorSet>,
    records: HashMap<String, GivenRecord>,
}

/// What is repeated.
struct Again {
    put: Vec<String>,
    vectors: Option<VectorSet>,
    records: Vec<(String, GivenRecord)>,
}

impl Mine {
    /// What this copy changed since a generation.
    fn gather(transaction: &Transaction<'_>, common: u64) -> Result<Self, ClientError> {
        let before = transaction.before();
        let ours = before.root().header;
        let changes = Changes::since(before, common)?.ok_or(ClientError::TooFarApart {
            common,
            ours: shard_protocol::Revision(ours.generation),
        })?;
        let is_mine = |id: &str| changes.has_put(id) || changes.has_recorded(id);
        let (ids, vectors) = documents_where(transaction.vault(), before, is_mine)?;
        let records = records_of(transaction.vault(), before, &ids)?.into_iter().collect();
        Ok(Self { changes, ids, vectors, records })
    }

    /// Whether the other copy changed the same of a document: its vector, its record, or whether it is
    /// there. `is_there`: whether the other copy has it.
    fn is_contested(&self, id: &str, is_there: bool, theirs: &Changes) -> bool {
        let mine = &self.changes;
        let is_theirs = |from: &CommitName| !mine.commits.contains(from);
        let put = match theirs.origins.get(id) {
            Some(from) => is_theirs(from),
            None => is_there && theirs.first.as_ref().is_some_and(is_theirs),
        };
        let recorded = theirs.records.get(id).is_some_and(is_theirs);
        let has_put = mine.everything || mine.documents.contains_key(id);
        put && has_put || recorded && mine.records.contains_key(id)
    }

    /// What is to be repeated, given the places that the documents have in the other copy: what this copy
    /// changed of a document that is there, and all of one that is not.
    fn again(&mut self, places: &[Option<u32>]) -> Result<Again, ClientError> {
        let (mut rows, mut records) = (Vec::new(), Vec::new());
        for (at, (id, place)) in self.ids.iter().zip(places).enumerate() {
            let (put, recorded) = (self.changes.has_put(id), self.changes.has_recorded(id));
            let comes_back = (put || recorded) && place.is_none();
            if put || comes_back {
                rows.push(at);
            }
            if recorded || comes_back {
                records.extend(self.records.remove_entry(id));
            }
        }
        let put = rows.iter().map(|&at| self.ids[at].clone()).collect();
        let vectors = match self.vectors.take().filter(|_| !rows.is_empty()) {
            Some(vectors) => {
                let values = rows.iter().flat_map(|&at| vectors.row(at)).copied().collect();
                Some(VectorSet::new(vectors.width(), values)?)
            }
            None => None,
        };
        Ok(Again { put, vectors, records })
    }

    /// Documents of a fate.
    fn of(&self, fate: Fate) -> impl Iterator<Item = &str> {
        let documents = self.changes.documents.iter();
        documents.filter(move |(_, found)| **found == fate).map(|(id, _)| id.as_str())
    }
}

/// The last generation at which both copies had the same commit.
fn common_generation(
    transaction: &Transaction<'_>,
    root: &[u8],
    fetching: &mut Fetching<'_>,
) -> Result<u64, ClientError> {
    let before = transaction.before();
    let (theirs, _) = transaction.vault().open_root(root)?;
    let names =
        |number: u32, fetching: &mut Fetching<'_>| -> Result<Vec<CommitName>, ClientError> {
            let slot = Slot::History(number);
            let Some(entry) = theirs.entries.get(&slot) else { return Ok(Vec::new()) };
            let sealed = fetching.value(slot, entry)?;
            Ok(transaction.vault().open_history(&theirs, number, &sealed)?)
        };
    let numbers: Vec<u32> = theirs.numbered(Slot::History).collect();
    for &number in numbers.iter().rev() {
        let first = u64::from(number) * Vault::HISTORY_COMMITS;
        let names = names(number, fetching)?;
        for (at, name) in names.iter().enumerate().rev() {
            let generation = first + at as u64;
            if generation > 0 && before.commit_at(generation)? == Some(*name) {
                return Ok(generation);
            }
        }
    }
    Ok(0)
}

/// A pull on its way.
struct Fetching<'a> {
    transport: &'a dyn Channel,
    watch: &'a Watch<'a>,
    progress: Progress,
}

impl<'a> Fetching<'a> {
    fn new(transport: &'a dyn Channel, watch: &'a Watch<'a>) -> Self {
        Self { transport, watch, progress: Progress { done: 0, total: 0 } }
    }

    fn value(&mut self, slot: Slot, entry: &Entry) -> Result<Vec<u8>, ClientError> {
        let absent = || super::BackupError::Damaged { value: slot.to_string() };
        let sealed = blobs::fetch_value(entry, self.transport)?.ok_or_else(absent)?;
        self.progress.done += sealed.len() as u64;
        self.progress.total = self.progress.total.max(self.progress.done);
        if (self.watch)(self.progress).is_break() {
            return Err(ClientError::Cancelled);
        }
        Ok(sealed)
    }
}
