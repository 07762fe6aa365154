//! Brings a server's rows to the state of the vault, sending what differs.
//!
//! First the server is asked which commit it holds. Only a vault that this commit led to goes on; one
//! that is behind or has gone another way is told so, and nothing is sent ([`super::lineage`]).
//!
//! Every row has a MAC under a key of its epoch. The server's MACs are listed and compared with
//! the vault's; rows whose MAC is missing or differs are sent, rows the vault no longer has are
//! deleted, and the epoch is made the one that is searched. Every step can be repeated: a publish
//! that was cut off is run again and sends the rest. Rows of an earlier publish that are still on
//! their way are refused from the moment at which a later one begins.

use rayon::prelude::*;
use shard_protocol::{
    ActivateEpoch, Advance, BeginPublish, CollectionState, Epoch, Leak, Limits, MessageKind,
    ResetCollection, RowMac, Transport, declassify,
};

use super::blobs;
use super::claim::{Owner, owner, root_to_keep, take};
use super::lineage::{Head, Lineage, Standing, standing};
use super::publish_blocks::publish_blocks;
use super::sweep::sweep;
use super::transfer::{Changes, Transfer};
use crate::collection::{Collection, all_rows};
use crate::error::ClientError;
use crate::keys::VaultId;
use crate::progress::{UNWATCHED, Watch};
use crate::transport::{accepted, exchange};
use crate::vault::{Slot, Snapshot, Vault, VaultAccess};

/// How to publish.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PublishOptions {
    /// Whether to put this vault in place of another one, or of a state of this one that is later or
    /// that it did not come from.
    pub replace: bool,
    /// Whether to bring fresh checks of a blind collection: after somebody else's alarm, of which this
    /// vault does not know.
    pub fresh_checks: bool,
}

/// What a publish did: counts are of rows, or in a blind collection of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Published {
    /// Whether the collection is blind.
    pub blind: bool,
    /// Sent.
    pub uploaded: usize,
    /// Removed from the server.
    pub deleted: usize,
    /// There already.
    pub unchanged: usize,
    /// Bytes of the messages that carried changes.
    pub bytes: u64,
    /// Bytes of sealed values that were sent for other copies of the vault.
    pub state_bytes: u64,
    /// The epoch.
    pub epoch: Epoch,
    /// Whether the server was told to search this epoch and revision; it was not if it did so
    /// already.
    pub activated: bool,
}

/// What a server holds of its collection.
pub fn describe(
    transport: &impl Transport<Error: Into<ClientError>>,
) -> Result<CollectionState, ClientError> {
    let limits = Limits::default();
    let answer = exchange(transport, MessageKind::Describe.bare(), &limits)?;
    Ok(CollectionState::decode(&answer, &limits)?)
}

/// Brings the server's rows to the state of the vault.
///
/// # Errors
/// When the collection is another vault's, the server is at a later state or at one that this vault
/// did not come from, this is a query vault, the server refuses or cannot be reached, and when
/// `watch` ended it. What was sent by then stays sent, and the next publish goes on from there.
pub fn publish(
    vault: &Vault,
    options: PublishOptions,
    transport: &impl Transport<Error: Into<ClientError>>,
    watch: &Watch<'_>,
) -> Result<Published, ClientError> {
    if vault.access() == VaultAccess::Query {
        return Err(ClientError::SearchOnly);
    }
    let once = || publish_once(vault, options, transport, watch);
    match once() {
        // The server has noticed only now, and says so from now on: everything is sent anew.
        Err(ClientError::DamagedRows { .. }) => once(),
        outcome => outcome,
    }
}

fn publish_once(
    vault: &Vault,
    options: PublishOptions,
    transport: &impl Transport<Error: Into<ClientError>>,
    watch: &Watch<'_>,
) -> Result<Published, ClientError> {
    let snapshot = vault.snapshot()?;
    if snapshot.contains(Slot::Blind) {
        return publish_blocks(vault, &snapshot, options, transport, watch);
    }
    let collection = &Collection::read(vault, &snapshot)?;
    let position = collection.position();
    let commit_at = |revision| position.commit_at(revision);
    let lineage = Lineage { head: position.head(), commit_at: &commit_at };
    let ready = || Ok(());
    let (state, start) = arrive(position.vault(), lineage, options, ready, transport)?;
    let published = &all_rows(&snapshot, collection, UNWATCHED)?;
    let macs: Vec<RowMac> =
        published.rows().par_iter().map(|row| RowMac(collection.keys().row_mac(row))).collect();
    let advance = advance_to(&state, lineage.head);
    let mut transfer = Transfer::new(published, &macs, advance, transport, watch);
    let searched = state.current == Some(published.epoch());
    let mut changes = Changes::default();
    // Where nothing may be left to do, that is found out before anything is begun.
    let mut activated = start != Start::Again || !searched;
    if !activated {
        changes = Changes::find(published, &macs, transport)?;
        activated = changes.count() > 0;
    }
    if activated {
        let message = BeginPublish::new(transfer.advance()).encode();
        accepted(transport, message, &Limits::default())?;
        // From now on nobody else changes rows, so what is found stays true.
        changes = Changes::find(published, &macs, transport)?;
    }
    transfer.send_all(&changes)?;
    // What other copies are brought forward by is there before it is what is published.
    let sent = leave_state(&snapshot, lineage.head, transport, watch)?;
    if activated {
        let message = ActivateEpoch::new(transfer.advance(), transfer.epoch()).encode();
        accepted(transport, message, &Limits::default())?;
    }
    // What a sweep leaves, the next removes; the publish has been done.
    let _ = sweep(vault, &snapshot, transport);
    let uploaded = changes.uploads();
    Ok(Published {
        blind: false,
        uploaded,
        deleted: changes.deletions(),
        unchanged: published.rows().len() - uploaded,
        bytes: transfer.into_bytes(),
        state_bytes: sent,
        epoch: published.epoch(),
        activated,
    })
}

/// Finds out where a publish begins, forgets what it takes the place of once the vault is `ready` for it,
/// and takes the collection for this vault. Returns what the server holds then.
pub(super) fn arrive(
    id: VaultId,
    lineage: Lineage<'_>,
    options: PublishOptions,
    ready: impl FnOnce() -> Result<(), ClientError>,
    transport: &impl Transport<Error: Into<ClientError>>,
) -> Result<(CollectionState, Start), ClientError> {
    let mut state = describe(transport)?;
    let owner = match owner(id, transport) {
        // It is not known any more, and what was published neither.
        Err(ClientError::DamagedRows { .. }) if state.damage.is_some() => Owner::Nobody,
        known => known?,
    };
    let start = Start::decide(&state, owner, lineage, options)?;
    if start == Start::Anew {
        ready()?;
        let from = declassify(state.commit, Leak::CollectionShape);
        let message = ResetCollection::new(from).encode();
        accepted(transport, message, &Limits::default())?;
        state = describe(transport)?;
    }
    if owner != Owner::ThisVault {
        take(id, transport)?;
    }
    Ok((state, start))
}

/// The next step of a collection to a commit.
pub(super) fn advance_to(state: &CollectionState, head: Head) -> Advance {
    Advance {
        from: state.commit,
        to: head.name,
        revision: head.revision,
        turn: state.turn.wrapping_add(1),
    }
}

/// Leaves the sealed values of a commit with the server, for other copies to be brought forward by.
/// Returns how many bytes that took.
pub(super) fn leave_state(
    snapshot: &Snapshot,
    head: Head,
    transport: &impl Transport<Error: Into<ClientError>>,
    watch: &Watch<'_>,
) -> Result<u64, ClientError> {
    let kept = blobs::list(transport)?;
    let sent = blobs::send_values(snapshot, &kept, transport, watch)?;
    let name = blobs::state_name(head.name);
    if !kept.contains_key(&name) {
        blobs::put(transport, &name, root_to_keep(snapshot, transport)?)?;
    }
    // Another copy that looked before may have taken values that were there for left over.
    Ok(sent + blobs::complete_values(snapshot, transport, watch)?)
}

/// Where a publish begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start {
    /// At the vault's own present commit: what is missing of it is sent.
    Again,
    /// At an earlier commit of the vault, or at none.
    Onward,
    /// At nothing, once what is there was forgotten.
    Anew,
}

impl Start {
    /// Decides from what the server holds; nothing was sent yet.
    fn decide(
        state: &CollectionState,
        owner: Owner,
        lineage: Lineage<'_>,
        options: PublishOptions,
    ) -> Result<Self, ClientError> {
        let standing = standing(state, lineage);
        // Whose the collection is comes first: a later revision of another vault is no later state.
        Ok(match (owner, standing) {
            (Owner::Another, _) if !options.replace => return Err(ClientError::AnotherVault),
            (Owner::Another, _) => Self::Anew,
            (_, Standing::Behind | Standing::Forked) if options.replace => Self::Anew,
            (_, Standing::Behind) => return Err(ClientError::behind(state, lineage.head)),
            (_, Standing::Forked) => return Err(ClientError::forked(state, lineage)),
            (_, standing) => match (&state.damage, standing) {
                (None, Standing::Same) => Self::Again,
                (None, _) => Self::Onward,
                // Perhaps the commit went with what is damaged, and it was a later one.
                (Some(what), Standing::Unpublished) if !options.replace => {
                    return Err(ClientError::UnknownState { what: what.clone() });
                }
                // The vault has everything that was there, or can fetch it.
                (Some(_), _) => Self::Anew,
            },
        })
    }
}
