//! Records for a server: the pages that it does not have, the hints of segments with another page, and the
//! list that makes them those of the commit.

use std::collections::BTreeMap;

use shard_protocol::{BlobName, Leak, Limits, PutBlob, PutBlobs, RecordList, declassify};
use shard_rlwe::blind::RecordShape;

use super::slot::SLOT_BYTES;
use crate::blind::BlindCollection;
use crate::blind::seal::{SEAL_BYTES, Subject};
use crate::error::ClientError;
use crate::progress::{Progress, Watch};
use crate::transport::{Channel, accepted};
use crate::vault::{Slot, Snapshot, VaultError};

/// Pages that one message carries: 16 MB.
const PAGES_AT_ONCE: usize = 480;

/// Sends the records of a commit, except what the server has. Returns how many bytes went.
pub(crate) fn send_records(
    snapshot: &Snapshot,
    collection: &BlindCollection,
    kept: &BTreeMap<BlobName, u64>,
    transport: &dyn Channel,
    watch: &Watch<'_>,
) -> Result<u64, ClientError> {
    let Some(records) = &collection.records else { return Ok(0) };
    let (keys, mut bytes) = (collection.record_keys()?, 0);
    let shape = keys.shape();
    let names: Vec<[u8; 16]> =
        (0..records.page_count() as u32).map(|page| collection.page_name(records, page)).collect();
    let missing: Vec<u32> = (0..)
        .zip(&names)
        .filter(|(_, name)| kept.get(&BlobName::page(**name)) != Some(&page_bytes(shape)))
        .map(|(page, _)| page)
        .collect();
    let hints: Vec<usize> = (0..shape.segments())
        .filter(|&segment| {
            let name = collection.record_hint_name(records, shape, segment);
            kept.get(&BlobName::record_hint(name)) != Some(&hint_bytes(shape))
        })
        .collect();
    // A hint costs what its pages cost to send, or so.
    let of_hints: usize = hints.iter().map(|&segment| shape.pages_of(segment).len()).sum();
    let total = (missing.len() + of_hints) as u64;
    let mut progress = Progress { done: 0, total };
    let mut tell = |pages: usize| {
        progress.done += pages as u64;
        if watch(progress).is_break() { Err(ClientError::Cancelled) } else { Ok(()) }
    };
    let mut put = |blobs: Vec<(BlobName, Vec<u8>)>| {
        let message = PutBlobs::new(declassify(blobs, Leak::SealedBlobs)).encode();
        bytes += message.len() as u64;
        accepted(transport, message, &Limits::default())
    };
    for some in missing.chunks(PAGES_AT_ONCE) {
        let sealed = sealed_pages(snapshot, some)?;
        let named = some.iter().map(|&page| BlobName::page(names[page as usize]));
        put(named.zip(sealed).collect())?;
        tell(some.len())?;
    }
    for segment in hints {
        let pages: Vec<u32> = shape.pages_of(segment).map(|page| page as u32).collect();
        let hint = keys.hint(&sealed_pages(snapshot, &pages)?.concat());
        let name = collection.record_hint_name(records, shape, segment);
        let sealed = collection.sealer().seal(Subject::RecordHint(name), &hint)?;
        put(vec![(BlobName::record_hint(name), sealed)])?;
        tell(pages.len())?;
    }
    let list = RecordList::new(
        declassify(collection.epoch(), Leak::CollectionShape),
        declassify(SLOT_BYTES, Leak::CollectionShape),
        declassify(shape.query_rank(), Leak::CollectionShape),
        declassify(names, Leak::BlockChanges),
    );
    let list = list.map_err(|error| ClientError::Setting(error.to_string()))?;
    let commit = declassify(collection.commit(), Leak::CollectionShape);
    let message = PutBlob::record_list(commit, &list).encode();
    bytes += message.len() as u64;
    accepted(transport, message, &Limits::default())?;
    Ok(bytes)
}

/// Bytes of a page on a server. A blob of the right name and another length was cut off, and is sent again.
fn page_bytes(shape: &RecordShape) -> u64 {
    shape.page_bytes() as u64
}

/// Bytes of a hint on a server.
fn hint_bytes(shape: &RecordShape) -> u64 {
    (shape.hint_bytes() + SEAL_BYTES) as u64
}

/// Pages as they are stored, sealed slot by slot.
fn sealed_pages(snapshot: &Snapshot, pages: &[u32]) -> Result<Vec<Vec<u8>>, ClientError> {
    let mut sealed = Vec::with_capacity(pages.len());
    let copy = |_, page: &[u8]| Ok::<_, VaultError>(page.to_vec());
    snapshot.each(Slot::RecordPage, pages, copy, |_, page| {
        sealed.push(page);
        Ok(())
    })?;
    Ok(sealed)
}

/// The names of everything that a server is to have of a commit's records.
#[cfg(feature = "remote")]
pub(crate) fn record_blobs(collection: &BlindCollection) -> Result<Vec<BlobName>, ClientError> {
    let Some(records) = &collection.records else { return Ok(Vec::new()) };
    let shape = collection.record_keys()?.shape();
    let pages = (0..records.page_count() as u32)
        .map(|page| BlobName::page(collection.page_name(records, page)));
    let hints = (0..shape.segments())
        .map(|segment| BlobName::record_hint(collection.record_hint_name(records, shape, segment)));
    Ok(pages.chain(hints).chain([BlobName::records(collection.commit())]).collect())
}

/// Whether the server has everything of a commit's records.
#[cfg(feature = "remote")]
pub(crate) fn records_are_whole(
    collection: &BlindCollection,
    kept: &BTreeMap<BlobName, u64>,
) -> Result<bool, ClientError> {
    let Some(records) = &collection.records else { return Ok(true) };
    let shape = collection.record_keys()?.shape();
    let is_page = |page| {
        let name = BlobName::page(collection.page_name(records, page));
        kept.get(&name) == Some(&page_bytes(shape))
    };
    let is_hint = |segment| {
        let name = BlobName::record_hint(collection.record_hint_name(records, shape, segment));
        kept.get(&name) == Some(&hint_bytes(shape))
    };
    Ok((0..records.page_count() as u32).all(is_page)
        && (0..shape.segments()).all(is_hint)
        && kept.contains_key(&BlobName::records(collection.commit())))
}
