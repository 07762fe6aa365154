//! Why a search was refused: what the server holds, compared with the vault.

use shard_protocol::{Refusal, RefusalCode, Transport};

use super::claim::{Owner, owner};
use super::error::RemoteError;
use super::lineage::{Lineage, Standing, standing};
use super::publish::describe;
use crate::collection::Collection;
use crate::error::ClientError;

/// Asks a server that has refused a search what it holds, and says how that stands to the vault. An
/// error that says nothing of rows comes back as it is, and so does every error when the server
/// cannot be asked.
pub fn diagnose(
    collection: &Collection,
    transport: &impl Transport<Error: Into<ClientError>>,
    error: ClientError,
) -> ClientError {
    let Some(reason) = refused_rows(&error) else { return error };
    let Ok(state) = describe(transport) else { return error };
    if let Some(what) = state.damage {
        return ClientError::DamagedRows { what };
    }
    let (Some(head), Some(id)) = (collection.head(), collection.vault_id()) else {
        let (held, ours) = (state.revision, collection.revision());
        let reason = format!("{reason} (the server is at revision {held}, this vault at {ours})");
        return ClientError::Revoked { reason };
    };
    match owner(id, transport) {
        Ok(Owner::Another) => return ClientError::NotThisVault,
        // Who may only read is not told.
        Ok(_) | Err(ClientError::Remote(RemoteError::Forbidden { .. })) => {}
        Err(_) => return error,
    }
    let lineage = Lineage { head, commit_at: &|revision| collection.commit_at(revision) };
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
