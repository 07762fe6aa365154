//! The two large payloads of a vault: the rows for a server and the documents' own vectors.

use shard_geometry::VectorSet;
use shard_protocol::{Limits, RowBatch};

use super::unusable;
use crate::error::ClientError;
use crate::payload::{PayloadError, Reader, Writer};
use crate::vault::{FileKind, Vault, VaultAccess};

const VECTORS_VERSION: u16 = 1;

/// What the server would hold: every row of the current epoch.
///
/// # Errors
/// When the vault is empty, or a query vault, which has no rows.
pub fn published_rows(vault: &Vault) -> Result<RowBatch, ClientError> {
    if vault.access() == VaultAccess::Query {
        return Err(ClientError::RowsOnServer);
    }
    if !vault.contains(FileKind::PublishedRows) {
        return Err(ClientError::Empty);
    }
    let unlimited = Limits { bytes: usize::MAX, rows: u32::MAX as usize, ..Limits::default() };
    RowBatch::decode(&vault.read(FileKind::PublishedRows)?, &unlimited)
        .map_err(|error| unusable("published rows")(PayloadError::Invalid(error.to_string())))
}

/// The documents' own vectors, as they were ingested, by row.
///
/// # Errors
/// When the vault is empty, or a query vault, which has no vectors.
pub fn stored_vectors(vault: &Vault) -> Result<VectorSet, ClientError> {
    vault.require_owner("show the documents' vectors")?;
    if !vault.contains(FileKind::Vectors) {
        return Err(ClientError::Empty);
    }
    let bytes = vault.read(FileKind::Vectors)?;
    let read = || {
        let mut reader = Reader::new(&bytes, VECTORS_VERSION)?;
        let width = reader.size()?;
        let values = reader.f32s()?;
        reader.finish()?;
        VectorSet::new(width, values).map_err(|error| PayloadError::Invalid(error.to_string()))
    };
    read().map_err(unusable("vectors"))
}

/// The payload that [`stored_vectors`] reads.
pub(super) fn encode_vectors(vectors: &VectorSet) -> Vec<u8> {
    let mut writer = Writer::new(VECTORS_VERSION);
    writer.u64(vectors.width() as u64);
    writer.f32s(vectors.values());
    writer.bytes
}
