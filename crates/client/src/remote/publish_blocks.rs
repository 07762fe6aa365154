//! A publish of a blind collection: blocks that are new, checks over all of them, and one step that
//! makes them what is searched.

use std::collections::HashSet;

use rand_core::CryptoRng;
use shard_protocol::{
    ActivateEpoch, BeginPublish, BlobName, DecodeError, Leak, Limits, Transport, declassify,
};

use super::blobs::{self, Kept};
use super::lineage::Lineage;
use super::publish::{PublishOptions, Published, Start, advance_to, arrive, describe, leave_state};
use super::sweep::sweep;
use crate::blind::{
    BlindCollection, CheckSet, Checks, SentBlocks, check_names, missing_blocks, record_blobs,
    records_are_whole, retired_sets, send_blocks, send_records,
};
use crate::collection::Journal;
use crate::error::ClientError;
use crate::progress::Watch;
use crate::transport::accepted;
use crate::vault::{Snapshot, Vault};

/// Brings the server's blocks to the state of the vault.
pub(super) fn publish_blocks(
    vault: &Vault,
    snapshot: &Snapshot,
    options: PublishOptions,
    transport: &impl Transport<Error: Into<ClientError>>,
    watch: &Watch<'_>,
) -> Result<Published, ClientError> {
    let collection = &BlindCollection::read(vault, snapshot)?;
    let position = collection.position();
    let (head, commit_at) = (position.head(), |revision| position.commit_at(revision));
    let lineage = Lineage { head, commit_at: &commit_at };
    let ready = || Ok(snapshot.find_all()?);
    let (state, start) = arrive(position.vault(), lineage, options, ready, transport)?;
    let retired = retired_sets(vault.directory())?;
    let mut there = false;
    if start == Start::Again {
        let kept = blobs::list(transport)?;
        if options.fresh_checks || !checks_are_good(collection, &retired, &kept, transport)? {
            return Err(ClientError::StaleChecks);
        }
        there = state.unfinished.is_none()
            && state.current == Some(collection.epoch())
            && is_whole(collection, &kept)?;
    }
    let advance = advance_to(&state, head);
    let disclosed = || declassify(advance, Leak::CollectionShape);
    let mut sent = SentBlocks::default();
    if !there {
        let message = BeginPublish::new(disclosed()).encode();
        accepted(transport, message, &Limits::default())?;
        // Sums that go on from those before are under the same turns.
        let before = state.commit.filter(|_| !options.fresh_checks);
        let send = |kept: &Kept| {
            let records = send_records(snapshot, collection, kept, transport, watch)?;
            let sent = send_blocks(snapshot, collection, kept, before, &retired, transport, watch)?;
            Ok::<_, ClientError>(SentBlocks { bytes: sent.bytes + records, ..sent })
        };
        sent = send(&blobs::list(transport)?)?;
        // Another copy that looked before this began may have taken blocks for left over.
        let mut rounds = 0;
        loop {
            let kept = blobs::list(transport)?;
            if is_whole(collection, &kept)? {
                break;
            }
            if rounds == ROUNDS {
                return Err(DecodeError::Invalid("a list without what was just sent").into());
            }
            rounds += 1;
            sent.bytes += send(&kept)?.bytes;
        }
    }
    let state_bytes = leave_state(snapshot, head, transport, watch)?;
    if !there {
        let epoch = declassify(collection.epoch(), Leak::CollectionShape);
        let message = ActivateEpoch::new(disclosed(), epoch).encode();
        accepted(transport, message, &Limits::default())?;
    }
    // What a sweep leaves, the next removes; the publish has been done.
    let _ = sweep(vault, snapshot, transport);
    let deleted = sweep_blocks(collection, transport).unwrap_or_default();
    Ok(Published {
        blind: true,
        uploaded: sent.blocks,
        deleted,
        unchanged: collection.blocks().len() - sent.blocks,
        bytes: sent.bytes,
        state_bytes,
        epoch: collection.epoch(),
        activated: !there,
    })
}

/// How often blocks are sent that were there a moment before.
const ROUNDS: usize = 4;

/// A commit in which nothing changes but its name: checks are made once for a commit, so the next publish
/// makes others. To be called when [`publish`](super::publish) says [`ClientError::StaleChecks`].
///
/// # Errors
/// When the vault is empty, rotated, a query vault or being written to, or the disk refuses. Nothing
/// has changed then.
pub fn renew_checks(vault: &mut Vault, rng: &mut impl CryptoRng) -> Result<(), ClientError> {
    vault.require_owner("be published")?;
    let mut transaction = vault.transaction(rng)?;
    BlindCollection::read(transaction.vault(), transaction.before())?;
    Journal::nothing().record(&mut transaction, rng)?;
    Ok(transaction.commit(rng)?)
}

/// Whether the server has everything of a commit.
fn is_whole(collection: &BlindCollection, kept: &Kept) -> Result<bool, ClientError> {
    let commit = collection.commit();
    Ok(kept.contains_key(&BlobName::blocks(commit))
        && kept.contains_key(&BlobName::checks(commit))
        && missing_blocks(collection, kept).next().is_none()
        && records_are_whole(collection, kept)?)
}

/// Whether the checks of the published commit are there, all of them, and no alarm has retired a set.
fn checks_are_good(
    collection: &BlindCollection,
    retired: &[u64],
    kept: &Kept,
    transport: &impl Transport<Error: Into<ClientError>>,
) -> Result<bool, ClientError> {
    let commit = collection.commit();
    let sealed = blobs::fetch(transport, &BlobName::checks(commit))?.unwrap_or_default();
    let checks = Checks::open(collection.sealer(), commit, &sealed);
    let bytes = collection.shape().block_bytes() as u64;
    let is_good = |set: &CheckSet| {
        let mut names = check_names(set).map(BlobName::block);
        !retired.contains(&set.number) && names.all(|name| kept.get(&name) == Some(&bytes))
    };
    Ok(checks.is_some_and(|checks| checks.sets().all(is_good)))
}

/// Removes blocks, hints and checks that are not of this commit. Nothing while another copy publishes:
/// what it has sent is not listed yet. Returns how many blocks went.
fn sweep_blocks(
    collection: &BlindCollection,
    transport: &impl Transport<Error: Into<ClientError>>,
) -> Result<usize, ClientError> {
    let commit = collection.commit();
    let kept = blobs::list(transport)?;
    let state = describe(transport)?;
    if state.unfinished.is_some() || state.commit != Some(commit) {
        return Ok(0);
    }
    let Some(list) = blobs::fetch(transport, &BlobName::blocks(commit))? else { return Ok(0) };
    let list = shard_protocol::BlockList::decode(&list, &Limits::default())?;
    let listed =
        list.names().iter().flat_map(|&name| [BlobName::block(name), BlobName::hint(name)]);
    let stays: HashSet<BlobName> =
        listed.chain([BlobName::blocks(commit), BlobName::checks(commit)]).collect();
    let records: HashSet<BlobName> = record_blobs(collection)?.into_iter().collect();
    let mut blocks = 0;
    for name in kept.keys().filter(|name| !stays.contains(*name) && !records.contains(*name)) {
        let of_blocks = ["block.", "hint.", "blocks.", "checks."];
        if name.is_of_records() || of_blocks.iter().any(|prefix| name.as_str().starts_with(prefix))
        {
            blobs::delete(transport, name)?;
            blocks += usize::from(name.as_str().starts_with("block."));
        }
    }
    Ok(blocks)
}
