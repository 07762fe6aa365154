//! Why a search was refused: what the server holds, compared with the vault.

use std::cmp::Ordering;

use shard_protocol::{CollectionState, Refusal, RefusalCode, Transport};

use super::claim::{Owner, owner};
use super::error::RemoteError;
use super::lineage::{Lineage, Standing, standing};
use super::publish::describe;
use crate::collection::Position;
use crate::error::ClientError;
use crate::vault::VaultAccess;

/// Asks a server that has refused a search what it holds, and says how that stands to the vault. An
/// error that says nothing of rows comes back as it is, and so does every error when the server
/// cannot be asked.
pub fn diagnose(
    position: &Position,
    transport: &impl Transport<Error: Into<ClientError>>,
    error: ClientError,
) -> ClientError {
    let Some(reason) = refused_rows(&error) else { return error };
    let Ok(state) = describe(transport) else { return error };
    if let Some(what) = state.damage {
        return ClientError::DamagedRows { what };
    }
    let head = position.head();
    match owner(position.vault(), transport) {
        Ok(Owner::Another) => return ClientError::NotThisVault,
        // Who may only read is not told.
        Ok(_) | Err(ClientError::Remote(RemoteError::Forbidden { .. })) => {}
        Err(_) => return error,
    }
    if position.access() == VaultAccess::Query {
        return diagnose_query_vault(position, &state, reason);
    }
    let lineage = Lineage { head, commit_at: &|revision| position.commit_at(revision) };
    match standing(&state, lineage) {
        Standing::Unpublished => {
            ClientError::Unpublished { reason: "nothing was published there".to_owned() }
        }
        Standing::Same => ClientError::Incomplete { reason },
        Standing::Ahead => ClientError::Unpublished {
            reason: format!(
                "the server is at revision {} and this vault at revision {}",
                state.revision, head.revision
            ),
        },
        Standing::Behind => ClientError::behind(&state, head),
        Standing::Forked => ClientError::forked(&state, lineage),
    }
}

/// A query vault is of one epoch, and has no history to compare.
fn diagnose_query_vault(
    position: &Position,
    state: &CollectionState,
    reason: String,
) -> ClientError {
    let (server, ours) = (state.revision, position.revision());
    if state.current.is_some() && state.current != position.epoch() {
        let reason = format!("{reason} (the server is at revision {server}, this vault at {ours})");
        return ClientError::Revoked { reason };
    }
    match server.cmp(&ours) {
        Ordering::Greater => ClientError::Behind { server, ours },
        Ordering::Less => ClientError::ServerBehind { server, ours },
        Ordering::Equal => ClientError::Incomplete { reason },
    }
}

/// What a refusal says that comes of rows, epochs or a collection that are not those of the vault.
fn refused_rows(error: &ClientError) -> Option<String> {
    match error {
        ClientError::Outdated { reason }
        | ClientError::Unpublished { reason }
        | ClientError::Revoked { reason } => Some(reason.clone()),
        ClientError::Refused(Refusal {
            code: RefusalCode::UnknownRow | RefusalCode::WrongWidth,
            text,
        }) => Some(text.clone()),
        _ => None,
    }
}
