//! Brings a copy of a vault to the state that is published.
//!
//! Who publishes leaves the sealed values of the commit on the server. A copy that is merely behind
//! fetches those it lacks and is then at the very same commit. A copy that has changed as well takes
//! the published state and repeats its own changes on top, in one commit: documents that it put are
//! put again, documents that it deleted are deleted. Where both changed a document, this copy's
//! change stands, since it is the later one to arrive. What another copy has repeated already is not
//! repeated: that copy knew of it, and what it did later stands. An epoch that only this copy began
//! is given up.
//!
//! A query vault fetches what it may open: it is brought forward within its epoch.

#[cfg(test)]
mod tests;

use rand_core::CryptoRng;
use shard_geometry::VectorSet;
use shard_protocol::{CollectionState, CommitName, Transport};

use super::blobs;
use super::claim::{Owner, owner};
use super::publish::describe;
use crate::blind::{GivenRecord, records_of};
use crate::collection::{Change, Changes, Documents, Fate, documents_where};
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
    let root = blobs::fetch(transport, &name)?.ok_or(ClientError::NoPublishedState)?;
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
    if (Some(header.commit), header.generation) != told || header.vault != ours.vault {
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
    transaction.rebase(root, |slot, entry| fetching.value(slot, entry))?;
    let ours = shard_protocol::Revision(here.from);
    let theirs = Changes::since(transaction.before(), common)?
        .ok_or(ClientError::TooFarApart { common, ours })?;
    mine.leave_out(&theirs)?;
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
        mine.put.iter().map(String::as_str).chain(deleted.iter().copied()).collect();
    let places = change.rows_of(touched.iter().copied());
    let is_theirs = |from: &CommitName| !mine.changes.commits.contains(from);
    let contested = |&(id, place): &(&&str, Option<u32>)| match theirs.origins.get(*id) {
        Some(from) => is_theirs(from),
        None => place.is_some() && theirs.first.as_ref().is_some_and(is_theirs),
    };
    pulled.contested = touched.iter().zip(places).filter(contested).count();
    let rows: Vec<u32> = change.rows_of(deleted.into_iter()).into_iter().flatten().collect();
    change.remove(&rows)?;
    pulled.deleted_again = rows.len();
    if let Some(vectors) = &mine.vectors {
        let documents = Documents { ids: &mine.put, vectors, sample_queries: None };
        let (added, replaced) = change.put(&documents)?;
        pulled.put_again = added + replaced;
    }
    if let Change::Blind(change) = &mut change {
        // Those whose record alone is another count as well.
        pulled.put_again = pulled.put_again.max(change.set_records(mine.records)?);
    }
    if change.documents() == 0 {
        return Err(ClientError::NothingLeft(pulled.deleted_again));
    }
    change.commit_repeated(&mine.changes, rng)?;
    Ok(pulled)
}

/// What only this copy has.
struct Mine {
    changes: Changes,
    /// Documents that it put, and their vectors.
    put: Vec<String>,
    vectors: Option<VectorSet>,
    /// The records they have, or that they have none.
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
        let is_put = |id: &str| changes.everything || changes.documents.get(id) == Some(&Fate::Put);
        let (put, vectors) = documents_where(transaction.vault(), before, is_put)?;
        let records = records_of(transaction.vault(), before, &put)?;
        Ok(Self { changes, put, vectors, records })
    }

    /// Leaves out what another copy has repeated already.
    fn leave_out(&mut self, theirs: &Changes) -> Result<(), ClientError> {
        self.changes.without(&theirs.commits);
        let changes = &self.changes;
        let stays = |id: &String| match changes.documents.get(id) {
            Some(fate) => *fate == Fate::Put,
            None => changes.everything,
        };
        if self.put.iter().all(stays) {
            return Ok(());
        }
        let Some(vectors) = self.vectors.take() else { return Ok(()) };
        let rows: Vec<usize> = (0..self.put.len()).filter(|&at| stays(&self.put[at])).collect();
        let values: Vec<f32> = rows.iter().flat_map(|&at| vectors.row(at)).copied().collect();
        self.put = rows.iter().map(|&at| self.put[at].clone()).collect();
        let stays: std::collections::HashSet<&String> = self.put.iter().collect();
        self.records.retain(|(id, _)| stays.contains(id));
        if !rows.is_empty() {
            self.vectors = Some(VectorSet::new(vectors.width(), values)?);
        }
        Ok(())
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
