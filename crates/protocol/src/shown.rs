//! What a message to a server shows, by the names of the contract.

use std::collections::BTreeSet;

use crate::blind::BlindQuery;
use crate::blobs::{FetchShared, ListBlobs, PutBlob};
use crate::block_list::BlockList;
use crate::leak::Leak;
use crate::many_blobs::{FetchSharedMany, PutBlobs};
use crate::names::BlobName;
use crate::publish::ListMacs;
use crate::records::RecordList;
use crate::rerank::RerankRequest;
use crate::wire::{DecodeError, Limits, MessageKind, message_kind};

/// The leaks under which the fields of a message were declassified, and `request-shape`, which every
/// message has: its size and its time. Tests hold recorded messages against `docs/LEAKAGE.md` with it.
///
/// # Errors
/// When the bytes are not a message that a server takes.
pub fn leaks_of(message: &[u8], limits: &Limits) -> Result<BTreeSet<Leak>, DecodeError> {
    let mut leaks = BTreeSet::from([Leak::RequestShape]);
    match message_kind(message)? {
        MessageKind::RerankRequest => {
            let request = RerankRequest::decode(message, limits)?;
            leaks.extend([Leak::CollectionShape, Leak::ActiveCells, Leak::CandidateHandles]);
            leaks.extend(request.session().map(|_| Leak::SessionLinkage));
        }
        #[cfg(feature = "slots")]
        MessageKind::SlotsRequest => leaks.extend([
            Leak::CollectionShape,
            Leak::ActiveCells,
            Leak::CandidateHandles,
            Leak::SessionLinkage,
            Leak::PrefixScores,
        ]),
        MessageKind::OpenSession => leaks.extend([Leak::SessionLinkage]),
        #[cfg(feature = "slots")]
        MessageKind::OpenSlotsSession => leaks.extend([Leak::SessionLinkage]),
        MessageKind::BlindQuery => {
            leaks.extend([Leak::CollectionShape]);
            leaks.extend(BlindQuery::decode(message, limits)?.cells().map(|_| Leak::ActiveCells));
        }
        MessageKind::RecordQuery
        | MessageKind::BeginPublish
        | MessageKind::ActivateEpoch
        | MessageKind::ResetCollection => leaks.extend([Leak::CollectionShape]),
        MessageKind::PublishRows => {
            leaks.extend([Leak::CollectionShape, Leak::StoredRows, Leak::CellMembership]);
        }
        MessageKind::DeleteRows => leaks.extend([Leak::CollectionShape, Leak::StoredRows]),
        MessageKind::ListMacs => {
            leaks.extend([Leak::CollectionShape]);
            leaks.extend(ListMacs::decode(message, limits)?.after().map(|_| Leak::StoredRows));
        }
        MessageKind::Describe => {}
        MessageKind::PutBlob => {
            let put = PutBlob::decode(message, limits)?;
            show_blob(put.name(), put.sealed(), limits, &mut leaks)?;
        }
        MessageKind::PutBlobs => {
            for (name, sealed) in PutBlobs::decode(message, limits)?.blobs() {
                show_blob(name, sealed, limits, &mut leaks)?;
            }
        }
        MessageKind::FetchShared => {
            show_fetched(&[FetchShared::decode(message, limits)?.name().clone()], &mut leaks);
        }
        MessageKind::FetchSharedMany => {
            show_fetched(FetchSharedMany::decode(message, limits)?.names(), &mut leaks);
        }
        MessageKind::FetchBlob | MessageKind::FetchBlobs | MessageKind::DeleteBlob => {
            leaks.extend([Leak::SealedBlobs])
        }
        MessageKind::ListBlobs => {
            leaks.extend(ListBlobs::decode(message, limits)?.after().map(|_| Leak::SealedBlobs));
        }
        _ => return Err(DecodeError::Invalid("not a message to a server")),
    }
    Ok(leaks)
}

/// Of a blob its name and length, and of a list that the server reads what is in it.
fn show_blob(
    name: &BlobName,
    sealed: &[u8],
    limits: &Limits,
    leaks: &mut BTreeSet<Leak>,
) -> Result<(), DecodeError> {
    leaks.insert(Leak::SealedBlobs);
    if name.is_block_list() {
        leaks.extend(BlockList::decode(sealed, limits)?.cells().map(|_| Leak::CellMembership));
    } else if name.is_record_list() {
        RecordList::decode(sealed, limits)?;
    } else {
        return Ok(());
    }
    leaks.extend([Leak::CollectionShape, Leak::BlockChanges]);
    Ok(())
}

/// Names of pages are asked for where a record is wanted.
fn show_fetched(names: &[BlobName], leaks: &mut BTreeSet<Leak>) {
    leaks.insert(Leak::SealedBlobs);
    if names.iter().any(BlobName::is_page) {
        leaks.insert(Leak::FetchedRecords);
    }
}
