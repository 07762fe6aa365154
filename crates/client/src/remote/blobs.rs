//! Blobs of a collection: what a server keeps for the owner and cannot read.
//!
//! | name | content |
//! |---|---|
//! | `claim` | whose collection it is |
//! | `value.DIGEST.N` | piece `N` of a sealed value of a vault, by the value's digest |
//! | `state.COMMIT` | the sealed root of the commit that is published, with the claim in place of the vault's id |
//! | `backup.TIME.COMMIT` | a backup: keyrings and the sealed root of a commit |
//!
//! A value never changes under its name, which is a digest of its bytes: others are noticed. So a value that is there is not sent again, whatever it is there for.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::HEXLOWER;
use shard_protocol::{
    Blob, BlobList, BlobName, CommitName, DecodeError, DeleteBlob, FetchBlob, FetchShared, Leak,
    Limits, ListBlobs, PutBlob, Refusal, RefusalCode, declassify,
};

use crate::error::ClientError;
use crate::progress::{Progress, Watch};
use crate::transport::{Asking, Channel, accepted, exchange, fetch_blobs};
use crate::vault::{Entry, Root, Slot, Snapshot};

/// Bytes of every piece of a value but the last.
const PIECE_BYTES: usize = 8 << 20;

/// How the names of values begin.
const VALUE: &str = "value.";

/// How the names of published states begin.
pub(super) const STATE: &str = "state.";

/// Names and lengths of blobs.
pub(super) type Kept = BTreeMap<BlobName, u64>;

/// The blob of a published state.
pub(super) fn state_name(commit: CommitName) -> BlobName {
    named(format!("{STATE}{commit}"))
}

/// A name that is made here.
pub(super) fn named(text: String) -> BlobName {
    text.parse().expect("letters, digits and dots")
}

/// The pieces of a value, with the length of each.
fn pieces(entry: &Entry) -> impl Iterator<Item = (BlobName, usize)> {
    let (length, digest) = (entry.length as usize, HEXLOWER.encode(&entry.digest));
    (0..length.div_ceil(PIECE_BYTES)).map(move |number| {
        let bytes = PIECE_BYTES.min(length - number * PIECE_BYTES);
        (named(format!("{VALUE}{digest}.{number}")), bytes)
    })
}

/// A blob, if there is one.
pub(super) fn fetch(
    transport: &dyn Channel,
    name: &BlobName,
) -> Result<Option<Vec<u8>>, ClientError> {
    let limits = Limits::default();
    let disclosed = declassify(name.clone(), Leak::SealedBlobs);
    let message = if name.is_shared() {
        FetchShared::new(disclosed).encode()
    } else {
        FetchBlob::new(disclosed).encode()
    };
    let answer = exchange(transport, message, &limits);
    let blob = unless_absent(answer)?.map(|bytes| Blob::decode(&bytes, &limits)).transpose()?;
    Ok(blob.map(|blob| blob.sealed))
}

/// Puts a blob in place of one of the same name.
pub(super) fn put(
    transport: &dyn Channel,
    name: &BlobName,
    bytes: Vec<u8>,
) -> Result<(), ClientError> {
    let message = PutBlob::new(
        declassify(name.clone(), Leak::SealedBlobs),
        declassify(bytes, Leak::SealedBlobs),
    );
    accepted(transport, message.encode(), &Limits::default())
}

/// Deletes a blob.
pub(super) fn delete(transport: &dyn Channel, name: &BlobName) -> Result<(), ClientError> {
    let message = DeleteBlob::new(declassify(name.clone(), Leak::SealedBlobs)).encode();
    accepted(transport, message, &Limits::default())
}

/// Names and lengths of what the server keeps.
pub(super) fn list(transport: &dyn Channel) -> Result<Kept, ClientError> {
    let limits = Limits::default();
    let mut kept = Kept::new();
    loop {
        let last = kept.last_key_value().map(|(name, _)| name);
        let after = last.map(|name| declassify(name.clone(), Leak::SealedBlobs));
        let message = ListBlobs::new(after, BlobList::PAGE).encode();
        let Some(bytes) = unless_absent(exchange(transport, message, &limits))? else {
            return Ok(kept);
        };
        let page = BlobList::decode(&bytes, &limits)?.blobs;
        // A page that goes back, or one too many, would never end.
        if page.first().is_some_and(|(first, _)| last.is_some_and(|last| first <= last)) {
            return Err(DecodeError::Order("pages of blobs").into());
        }
        let full = page.len() == BlobList::PAGE;
        kept.extend(page);
        if kept.len() > BlobList::MOST {
            return Err(DecodeError::Invalid("more blobs than a collection keeps").into());
        }
        if !full {
            return Ok(kept);
        }
    }
}

/// A blob or a whole collection that is not there is no failure.
fn unless_absent(answer: Result<Vec<u8>, ClientError>) -> Result<Option<Vec<u8>>, ClientError> {
    match answer {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ClientError::Refused(Refusal { code: RefusalCode::UnknownBlob, .. }))
        | Err(ClientError::Unpublished { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends the sealed values of a commit that the server lacks. Returns how many bytes were sent.
pub(super) fn send_values(
    snapshot: &Snapshot,
    kept: &Kept,
    transport: &dyn Channel,
    watch: &Watch<'_>,
) -> Result<u64, ClientError> {
    let root = snapshot.root();
    let mut progress = Progress { done: 0, total: root.bytes() };
    let mut sent = 0;
    for (&slot, entry) in &root.entries {
        if !is_kept(entry, kept) {
            let sealed = snapshot.sealed(slot)?;
            for ((name, _), piece) in pieces(entry).zip(sealed.chunks(PIECE_BYTES)) {
                put(transport, &name, piece.to_vec())?;
            }
            sent += u64::from(entry.length);
        }
        progress.done += u64::from(entry.length);
        if watch(progress).is_break() {
            return Err(ClientError::Cancelled);
        }
    }
    Ok(sent)
}

/// A sealed value that a root lists; `None` when the server does not have it, or has another
/// length of it. Whether it is the right one, opening it says.
pub(super) fn fetch_value(
    entry: &Entry,
    transport: &dyn Channel,
) -> Result<Option<Vec<u8>>, ClientError> {
    Ok(fetch_values(&[*entry], transport)?.pop().flatten())
}

/// As [`fetch_value`], of many.
pub(super) fn fetch_values(
    entries: &[Entry],
    transport: &dyn Channel,
) -> Result<Vec<Option<Vec<u8>>>, ClientError> {
    let (names, lengths): (Vec<BlobName>, Vec<usize>) = entries.iter().flat_map(pieces).unzip();
    let mut came = Vec::with_capacity(names.len());
    while came.len() < names.len() {
        came.extend(fetch_blobs(transport, Asking::Anybody, &names[came.len()..])?);
    }
    let mut came = came.into_iter().zip(lengths);
    let whole = |entry: &Entry| {
        let all: Vec<_> = came.by_ref().take(pieces(entry).count()).collect();
        let whole = all.into_iter().map(|(piece, length)| piece.filter(|p| p.len() == length));
        Some(whole.collect::<Option<Vec<_>>>()?.concat())
    };
    Ok(entries.iter().map(whole).collect())
}

/// Deletes a value.
pub(super) fn delete_value(entry: &Entry, transport: &dyn Channel) -> Result<(), ClientError> {
    pieces(entry).try_for_each(|(name, _)| delete(transport, &name))
}

/// Deletes the values that none of these roots lists, and the states that do not stay. Returns how
/// many blobs went.
pub(super) fn collect(
    kept: &Kept,
    roots: &[&Root],
    stays: impl Fn(&BlobName) -> bool,
    transport: &dyn Channel,
) -> Result<usize, ClientError> {
    let entries = roots.iter().flat_map(|root| root.entries.values());
    let listed: BTreeSet<BlobName> =
        entries.flat_map(|entry| pieces(entry).map(|(name, _)| name)).collect();
    let surplus = kept.keys().filter(|name| {
        let text = name.as_str();
        (text.starts_with(VALUE) && !listed.contains(*name))
            || (text.starts_with(STATE) && !stays(name))
    });
    let mut removed = 0;
    for name in surplus {
        delete(transport, name)?;
        removed += 1;
    }
    Ok(removed)
}

/// Sends values of a commit until the server has all of them. Returns how many bytes were sent.
pub(super) fn complete_values(
    snapshot: &Snapshot,
    transport: &dyn Channel,
    watch: &Watch<'_>,
) -> Result<u64, ClientError> {
    let mut sent = 0;
    for _ in 0..ROUNDS {
        let kept = list(transport)?;
        if first_missing(snapshot.root(), &kept).is_none() {
            return Ok(sent);
        }
        sent += send_values(snapshot, &kept, transport, watch)?;
    }
    Err(DecodeError::Invalid("a list without what was just sent").into())
}

/// How often values are sent that were there a moment before.
const ROUNDS: usize = 4;

/// The first value of a root that the server does not have in full.
pub(super) fn first_missing(root: &Root, kept: &Kept) -> Option<Slot> {
    root.entries.iter().find(|(_, entry)| !is_kept(entry, kept)).map(|(slot, _)| *slot)
}

/// Whether the server has every piece of a value, by name and length.
fn is_kept(entry: &Entry, kept: &Kept) -> bool {
    pieces(entry).all(|(name, length)| kept.get(&name) == Some(&(length as u64)))
}
