//! Large blobs in an object store, under keys that follow from their bytes.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, RetryConfig};
use sha2::{Digest, Sha256};
use shard_protocol::{BlobName, CollectionName};
use tokio::time::timeout;
use url::Url;

use super::blobs::{Content, ObjectKey, Put, elsewhere};
use super::errors::{innermost, late};
use super::{PATIENCE, PostgresRows};
use crate::StoreError;

/// Longer blobs are objects, and so are blocks, pages of records and hints of either, however short.
pub(super) const INLINE_BYTES: usize = 64 << 10;

/// Objects that one put writes at a time.
const AT_ONCE: usize = 8;

/// How long a store that fails is asked again before the caller is told.
const RETRIES: Duration = Duration::from_secs(15);

const OPENING: &str = "use the object store";
const WRITING: &str = "write an object";
const READING: &str = "read an object";
const DELETING: &str = "delete an object";

/// What S3 calls credentials that are wrong, or that do not open the bucket.
const REFUSALS: [&str; 3] = ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"];

/// An object store: immutable objects, each under SHA-256 of its bytes.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// The address, which holds no credentials.
    shown: String,
}

impl Objects {
    /// Opens `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix` or `file:///directory`.
    /// Credentials and endpoints come from the environment (`AWS_...`, `GOOGLE_...`, `AZURE_...`).
    ///
    /// # Errors
    /// When it is none of these, or the directory is not there. That a bucket is there is found out when an
    /// engine is opened with it.
    pub fn open(address: &str) -> Result<Self, StoreError> {
        let wrong = |reason: String| StoreError::Engine { doing: OPENING, reason };
        let url = Url::parse(address).map_err(|error| wrong(format!("its address: {error}")))?;
        if url.password().is_some() || !url.username().is_empty() {
            return Err(wrong("credentials come from the environment, not the address".to_owned()));
        }
        // A query may hold a signature, so it is not repeated.
        if url.query().is_some() || url.fragment().is_some() {
            let reason = "its address has a query or a fragment, which has no place in it";
            return Err(wrong(reason.to_owned()));
        }
        let shown = url.to_string();
        let failed = |error: Error| wrong(format!("{shown}: {}", innermost(&error)));
        // The client of these stores takes the process's choice of cryptography; another one may stay.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let retry =
            RetryConfig { max_retries: 4, retry_timeout: RETRIES, ..RetryConfig::default() };
        let store: Arc<dyn ObjectStore> = match url.scheme() {
            "s3" => {
                let builder = AmazonS3Builder::from_env().with_url(address).with_retry(retry);
                Arc::new(builder.build().map_err(failed)?)
            }
            "gs" => {
                let builder =
                    GoogleCloudStorageBuilder::from_env().with_url(address).with_retry(retry);
                Arc::new(builder.build().map_err(failed)?)
            }
            "az" => {
                let builder = MicrosoftAzureBuilder::from_env().with_url(address).with_retry(retry);
                Arc::new(builder.build().map_err(failed)?)
            }
            "file" => {
                let directory = url.to_file_path();
                let directory = directory.map_err(|()| wrong("file:///directory".to_owned()))?;
                if !directory.is_dir() {
                    return Err(wrong(format!("there is no directory {}", directory.display())));
                }
                let store = LocalFileSystem::new_with_prefix(directory).map_err(failed)?;
                return Ok(Self::over(Arc::new(store.with_fsync(true)), Path::default(), shown));
            }
            other => return Err(wrong(format!("{other:?} is none of s3, gs, az and file"))),
        };
        let prefix = Path::from_url_path(url.path()).map_err(|error| wrong(error.to_string()))?;
        Ok(Self::over(store, prefix, shown))
    }

    /// A store that was opened by other means, under a prefix and as it is to be shown.
    pub fn over(store: Arc<dyn ObjectStore>, prefix: Path, shown: impl Into<String>) -> Self {
        Self { store, prefix, shown: shown.into() }
    }

    /// Asks for a list, to see that the bucket is there and opens to us.
    pub(super) async fn look(&self) -> Result<(), StoreError> {
        let first = async { self.store.list(Some(&self.prefix)).next().await.transpose() };
        let looked = timeout(PATIENCE, first).await.map_err(|_| late(OPENING))?;
        looked.map(drop).map_err(|error| {
            // What S3 answers to a list comes as text.
            let said = innermost(&error);
            let is_missing =
                matches!(error, Error::NotFound { .. }) || said.contains("NoSuchBucket");
            let is_refused =
                matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. })
                    || REFUSALS.iter().any(|code| said.contains(code));
            let what = if is_missing {
                "there is no such bucket"
            } else if is_refused {
                "it refuses the credentials of the environment"
            } else {
                &said
            };
            let reason = format!("{}: {what}", self.shown);
            StoreError::Engine { doing: OPENING, reason }
        })
    }

    /// Where an object is.
    fn path(&self, key: &ObjectKey) -> Path {
        let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.prefix.clone().join(&name[..2]).join(name)
    }

    /// The bytes of an object; `None` where there is none.
    async fn read(&self, key: &ObjectKey) -> Result<Option<Vec<u8>>, StoreError> {
        let read = async { self.store.get(&self.path(key)).await?.bytes().await };
        let bytes = match timeout(PATIENCE, read).await.map_err(|_| late(READING))? {
            Ok(bytes) => bytes,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failed(READING, &error)),
        };
        if hash(&bytes) != *key {
            let what = format!("the object {}, whose bytes are not its own", self.path(key));
            return Err(StoreError::Damaged { what });
        }
        Ok(Some(bytes.into()))
    }

    /// Whether there is an object of so many bytes.
    async fn has(&self, key: &ObjectKey, length: u64) -> Result<bool, StoreError> {
        let path = self.path(key);
        let head = self.store.head(&path);
        match timeout(PATIENCE, head).await.map_err(|_| late(READING))? {
            Ok(there) => Ok(there.size == length),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(failed(READING, &error)),
        }
    }

    async fn write(&self, key: &ObjectKey, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.path(key);
        let write = self.store.put(&path, bytes.to_vec().into());
        let written = timeout(PATIENCE, write).await.map_err(|_| late(WRITING))?;
        written.map(drop).map_err(|error| failed(WRITING, &error))
    }

    /// Deletes an object; one that is not there is not an error.
    pub(super) async fn delete(&self, key: &ObjectKey) -> Result<(), StoreError> {
        let path = self.path(key);
        let delete = self.store.delete(&path);
        match timeout(PATIENCE, delete).await.map_err(|_| late(DELETING))? {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed(DELETING, &error)),
        }
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Objects({})", self.shown)
    }
}

impl PostgresRows {
    /// The object of a blob; `None` where there is none.
    pub(super) async fn object(
        &self,
        name: &BlobName,
        key: ObjectKey,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.objects.as_ref().ok_or_else(|| elsewhere(name))?.read(&key).await
    }

    /// Whether there is an object of so many bytes.
    pub(super) async fn has_object(
        &self,
        key: &ObjectKey,
        length: u64,
    ) -> Result<bool, StoreError> {
        match &self.objects {
            Some(objects) => objects.has(key, length).await,
            None => Ok(false),
        }
    }

    /// Writes what goes to the object store, and says of every blob where its bytes are, and when objects were
    /// noted before.
    pub(super) async fn written<'a>(
        &self,
        collection: &CollectionName,
        blobs: &[(&'a BlobName, &'a [u8])],
    ) -> Result<(Vec<Put<'a>>, Option<SystemTime>), StoreError> {
        let Some(objects) = &self.objects else {
            let in_database = |&(name, sealed): &(&'a BlobName, &'a [u8])| put(name, sealed, None);
            return Ok((blobs.iter().map(in_database).collect(), None));
        };
        let is_object =
            |name: &BlobName, sealed: &[u8]| sealed.len() > INLINE_BYTES || name.is_immutable();
        let mut puts: Vec<Put<'a>> = blobs
            .iter()
            .map(|&(name, sealed)| put(name, sealed, is_object(name, sealed).then(|| hash(sealed))))
            .collect();
        self.keep_those_that_are_there(objects, collection, &mut puts).await?;
        let new: Vec<(ObjectKey, &[u8])> = puts
            .iter()
            .zip(blobs)
            .filter_map(|(put, (_, sealed))| match put.content {
                Content::Written(key) => Some((key, *sealed)),
                _ => None,
            })
            .collect();
        if new.is_empty() {
            return Ok((puts, None));
        }
        let noted = self.note(&new).await?;
        // What is being written when one fails is waited for, or it would be there after a sweep of its note.
        let has_failed = Cell::new(false);
        let write = async |(key, sealed): &(ObjectKey, &[u8])| {
            if has_failed.get() {
                return Ok(());
            }
            let written = self.write_and_read_back(objects, key, sealed).await;
            has_failed.set(has_failed.get() || written.is_err());
            written
        };
        let all: Vec<Result<(), StoreError>> =
            stream::iter(&new).map(write).buffer_unordered(AT_ONCE).collect().await;
        all.into_iter().collect::<Result<(), StoreError>>()?;
        Ok((puts, noted))
    }

    async fn write_and_read_back(
        &self,
        objects: &Objects,
        key: &ObjectKey,
        sealed: &[u8],
    ) -> Result<(), StoreError> {
        self.steps.pass(WRITING)?;
        objects.write(key, sealed).await?;
        self.steps.pass(WRITING)?;
        if objects.read(key).await?.as_deref() != Some(sealed) {
            let reason = "what was written does not come back".to_owned();
            return Err(StoreError::Unavailable { doing: WRITING, reason });
        }
        self.steps.pass(WRITING)
    }

    /// Blobs that name the same object already need no other, if it is there; one that was lost is written
    /// again.
    async fn keep_those_that_are_there(
        &self,
        objects: &Objects,
        collection: &CollectionName,
        puts: &mut [Put<'_>],
    ) -> Result<(), StoreError> {
        let names: Vec<&str> = puts
            .iter()
            .filter(|put| matches!(put.content, Content::Written(_)))
            .map(|put| put.name.as_str())
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        let there = "SELECT name, object FROM shard.blobs WHERE object IS NOT NULL \
                     AND collection = (SELECT id FROM shard.collections WHERE name = $1) \
                     AND name = ANY($2)";
        let rows = self.ask("look for blobs", there, &[&collection.as_str(), &names]).await?;
        let there: std::collections::HashMap<&str, &[u8]> =
            rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let named = puts.iter_mut().filter_map(|put| match put.content {
            Content::Written(key) if there.get(put.name.as_str()) == Some(&&key[..]) => {
                Some(Ok((put, key)))
            }
            _ => None,
        });
        stream::iter(named)
            .try_for_each_concurrent(AT_ONCE, |(put, key)| async move {
                if objects.has(&key, put.length).await? {
                    put.content = Content::Kept(key);
                }
                Ok(())
            })
            .await
    }

    /// Notes objects as loose, as of now: nobody sweeps them until the time of grace is over. Returns when, by
    /// the clock of the database.
    async fn note(&self, objects: &[(ObjectKey, &[u8])]) -> Result<Option<SystemTime>, StoreError> {
        const DOING: &str = "note objects";
        let keys: Vec<&[u8]> = objects.iter().map(|(key, _)| &key[..]).collect();
        self.transact(DOING, async |transaction| {
            let note = "INSERT INTO shard.loose_objects (object, noted) \
                        SELECT object, max(clock_timestamp()) \
                        FROM unnest($1::bytea[]) AS o (object) GROUP BY object ORDER BY object \
                        ON CONFLICT (object) DO UPDATE SET noted = excluded.noted RETURNING noted";
            let noted = super::held::query(transaction, note, &[&keys]).await;
            let noted = noted.map_err(super::errors::failed(DOING))?;
            Ok(noted.iter().map(|row| row.get(0)).max())
        })
        .await
    }
}

fn put<'a>(name: &'a BlobName, sealed: &'a [u8], key: Option<ObjectKey>) -> Put<'a> {
    let content = key.map_or(Content::Bytes(sealed), Content::Written);
    Put { name, length: sealed.len() as u64, content }
}

fn hash(bytes: &[u8]) -> ObjectKey {
    Sha256::digest(bytes).into()
}

/// What an object store says: whatever may pass is told apart from what stays until somebody acts.
fn failed(doing: &'static str, error: &Error) -> StoreError {
    let reason = innermost(error);
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        let full = error.downcast_ref::<std::io::Error>().is_some_and(|error| {
            use std::io::ErrorKind::{QuotaExceeded, StorageFull};
            matches!(error.kind(), StorageFull | QuotaExceeded)
        });
        if full {
            let reason = format!("the disk of the object store is full: {reason}");
            return StoreError::Engine { doing, reason };
        }
        cause = error.source();
    }
    match error {
        Error::Generic { .. } | Error::JoinError { .. } | Error::Precondition { .. } => {
            StoreError::Unavailable { doing, reason }
        }
        _ => StoreError::Engine { doing, reason },
    }
}
