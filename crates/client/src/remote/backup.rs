//! Keeps a vault's files on the server.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use shard_protocol::{
    Blob, BlobList, BlobName, DecodeError, DeleteBlob, FetchBlob, Leak, Limits, ListBlobs, PutBlob,
    Refusal, RefusalCode, Transport, declassify,
};

use super::claim::{IDENTITY, claim};
use super::digest::Sha256Digest;
use super::head::{
    BackupError, BackupFile, BackupHead, HEAD, PIECE_BYTES, PREFIX, is_vault_file, piece_name,
};
use crate::error::ClientError;
use crate::keys::vault_id;
use crate::progress::{Progress, Watch};
use crate::transport::{Channel, accepted, exchange};
use crate::vault::Vault;

/// How to back up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BackupOptions {
    /// Whether to put this vault in place of a later one, of another vault, or of a backup that
    /// cannot be read.
    pub replace: bool,
}

/// What a backup did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackedUp {
    /// The generation of the vault.
    pub generation: u64,
    /// Its files.
    pub files: usize,
    /// Bytes of its files.
    pub bytes: u64,
    /// Bytes that had to be sent.
    pub sent: u64,
    /// Blobs of earlier backups that were removed.
    pub removed: usize,
}

/// Puts the vault's files on the server, in place of an earlier backup of it. Holds the vault's
/// writer lock, so that the files belong together.
///
/// # Errors
/// When this is a query vault, it is being written to, a later one or another vault is kept there, the server refuses or cannot be
/// reached, and when `watch` ended it. The earlier backup is then still whole.
pub fn backup(
    vault: &mut Vault,
    options: BackupOptions,
    transport: &impl Transport<Error: Into<ClientError>>,
    watch: &Watch<'_>,
) -> Result<BackedUp, ClientError> {
    let (directory, generation) = (vault.directory().to_owned(), vault.generation());
    vault.require_owner("be backed up")?;
    let id = vault_id(vault.master()?);
    let _lock = vault.transaction()?;
    claim(id, options.replace, transport)?;
    match backup_head(transport) {
        Ok(Some(kept)) if kept.generation() > generation && !options.replace => {
            return Err(BackupError::Later { kept: kept.generation(), given: generation }.into());
        }
        Err(ClientError::Backup(BackupError::Head { .. })) if options.replace => {}
        other => drop(other?),
    }
    let names = file_names(&directory)?;
    let mut upload = Upload {
        kept: blobs(transport)?,
        transport,
        watch,
        progress: Progress { done: 0, total: total_length(&directory, &names)? },
        sent: 0,
    };
    let files = names
        .into_iter()
        .map(|name| upload.file(&directory.join(&name), name))
        .collect::<Result<Vec<_>, _>>()?;
    let head = BackupHead::new(generation, files);
    upload.put(&head_name(), head.encode())?;

    let sent = upload.sent;
    let listed = head.pieces();
    let mut removed = 0;
    for name in upload.kept.keys() {
        let ours = name.as_str().starts_with(PREFIX) && ![HEAD, IDENTITY].contains(&name.as_str());
        if ours && !listed.contains(name) {
            let message = DeleteBlob::new(declassify(name.clone(), Leak::SealedBlobs)).encode();
            accepted(transport, message, &Limits::default())?;
            removed += 1;
        }
    }
    Ok(BackedUp { generation, files: head.file_count(), bytes: head.bytes(), sent, removed })
}

/// What the server keeps of a vault, if anything.
///
/// # Errors
/// When the server refuses or cannot be reached, and when what it keeps makes no sense.
pub fn backup_head(
    transport: &impl Transport<Error: Into<ClientError>>,
) -> Result<Option<BackupHead>, ClientError> {
    match fetch(transport, &head_name())? {
        Some(bytes) => Ok(Some(BackupHead::decode(&bytes)?)),
        None => Ok(None),
    }
}

/// A blob, if there is one.
pub(super) fn fetch(
    transport: &dyn Channel,
    name: &BlobName,
) -> Result<Option<Vec<u8>>, ClientError> {
    let limits = Limits::default();
    let message = FetchBlob::new(declassify(name.clone(), Leak::SealedBlobs)).encode();
    let answer = exchange(transport, message, &limits);
    let blob = unless_absent(answer)?.map(|bytes| Blob::decode(&bytes, &limits)).transpose()?;
    Ok(blob.map(|blob| blob.sealed))
}

/// Names and lengths of what the server keeps.
fn blobs(transport: &dyn Channel) -> Result<BTreeMap<BlobName, u64>, ClientError> {
    let limits = Limits::default();
    let mut kept = BTreeMap::<BlobName, u64>::new();
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

fn head_name() -> BlobName {
    HEAD.parse().expect("letters and a dot")
}

/// The vault's own files, in order of their names.
fn file_names(directory: &Path) -> Result<Vec<String>, BackupError> {
    let unreadable = || BackupError::io("list", directory);
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable())? {
        let name = entry.map_err(unreadable())?.file_name().into_string();
        names.extend(name.ok().filter(|name| is_vault_file(name)));
    }
    names.sort_unstable();
    Ok(names)
}

fn total_length(directory: &Path, names: &[String]) -> Result<u64, BackupError> {
    let length = |name: &String| {
        let path = directory.join(name);
        Ok(fs::metadata(&path).map_err(BackupError::io("read", &path))?.len())
    };
    names.iter().map(length).sum()
}

/// A backup on its way.
struct Upload<'a> {
    kept: BTreeMap<BlobName, u64>,
    transport: &'a dyn Channel,
    watch: &'a Watch<'a>,
    progress: Progress,
    sent: u64,
}

impl Upload<'_> {
    /// Cuts a file into pieces and sends those that are not kept yet.
    fn file(&mut self, path: &Path, name: String) -> Result<BackupFile, ClientError> {
        let unreadable = || BackupError::io("read", path);
        let mut file = File::open(path).map_err(unreadable())?;
        let mut listed = BackupFile { name, length: 0, pieces: Vec::new() };
        loop {
            let mut piece = Vec::new();
            let limit = PIECE_BYTES as u64;
            file.by_ref().take(limit).read_to_end(&mut piece).map_err(unreadable())?;
            if piece.is_empty() {
                return Ok(listed);
            }
            let (length, digest) = (piece.len() as u64, Sha256Digest::of(&piece));
            let blob = piece_name(&digest);
            if self.kept.get(&blob) != Some(&length) {
                self.put(&blob, piece)?;
                self.kept.insert(blob, length);
            }
            listed.length += length;
            listed.pieces.push(digest);
            self.progress.done += length;
            if (self.watch)(self.progress).is_break() {
                return Err(ClientError::Cancelled);
            }
        }
    }

    fn put(&mut self, name: &BlobName, bytes: Vec<u8>) -> Result<(), ClientError> {
        let length = bytes.len() as u64;
        let message = PutBlob::new(
            declassify(name.clone(), Leak::SealedBlobs),
            declassify(bytes, Leak::SealedBlobs),
        );
        accepted(self.transport, message.encode(), &Limits::default())?;
        self.sent += length;
        Ok(())
    }
}
