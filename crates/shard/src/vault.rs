//! The vault: everything that an owner does with documents, and what opens a collection for search.

mod lengths;

use std::collections::HashSet;
use std::path::Path;

use getrandom::SysRng;
use rand_core::UnwrapErr;
use shard_client::vault::{BackupAge, Commit, KdfCost, PreparedRecovery, Unlock, VaultAccess};
use shard_client::{
    BlindCollection, CellCount, ClientError, Collection, Compacted, Deleted, DerivedRows,
    EncoderNote, Filling, Hints, Ingested, Intake, MissingIds, ModelDrift, NewEpoch, Others,
    Protection, Record, Settings, UNWATCHED, Verified, Watch,
};
use shard_geometry::VectorSet;
use shard_protocol::{RowBatch, RowHandle, Transport};
use shard_server::{Embedded, RowSource};

use crate::{Documents, Error, LocalSearcher, Opened, Searcher};

pub use lengths::UnevenLengths;

/// How to take documents or fit a model to them.
#[derive(Clone, Copy)]
pub struct FitOptions<'a> {
    /// Queries to make the automatic choices for; without them, documents with noise stand in.
    pub sample_queries: Option<&'a VectorSet>,
    /// Follows the work, and may end it: then nothing has changed.
    pub watch: &'a Watch<'a>,
}

impl Default for FitOptions<'_> {
    fn default() -> Self {
        Self { sample_queries: None, watch: UNWATCHED }
    }
}

/// A directory with the owner's model, index, vectors and keys, sealed; or a **query vault**, which
/// can be searched and nothing else.
///
/// Every change is all or nothing: an error or a kill leaves the vault as it was. One writer at a
/// time. All randomness comes from the operating system; methods that need some panic in the
/// unheard-of case that it has none.
#[derive(Debug)]
pub struct Vault(shard_client::vault::Vault);

fn rng() -> UnwrapErr<SysRng> {
    UnwrapErr(SysRng)
}

impl Vault {
    /// Makes a vault in a directory that is empty or does not exist.
    ///
    /// # Errors
    /// When there is something in the directory, what is to open the vault is empty or too short, a
    /// setting cannot be, or the disk refuses.
    pub fn create(
        directory: impl AsRef<Path>,
        unlock: &Unlock,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let (directory, cost) = (directory.as_ref(), KdfCost::default());
        Ok(Self(shard_client::create_vault(directory, unlock, cost, settings, &mut rng())?))
    }

    /// Opens a vault.
    ///
    /// # Errors
    /// When there is none, it does not open with this, or its files are damaged.
    pub fn open(directory: impl AsRef<Path>, unlock: &Unlock) -> Result<Self, Error> {
        Ok(Self(shard_client::vault::Vault::open(directory.as_ref(), unlock)?))
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        self.0.directory()
    }

    /// The latest commit: its name, its parent's, and how many changes led to it.
    ///
    /// # Errors
    /// When the vault is damaged or the disk refuses.
    pub fn head(&self) -> Result<Commit, Error> {
        Ok(self.0.head()?)
    }

    /// What may be done with it.
    pub fn access(&self) -> VaultAccess {
        self.0.access()
    }

    /// Refuses a query vault what only its owner's can do; `purpose` says what, as a verb.
    ///
    /// # Errors
    /// When this is a query vault.
    pub fn require_owner(&self, purpose: &'static str) -> Result<(), Error> {
        Ok(self.0.require_owner(purpose)?)
    }

    /// What was chosen when it was made.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn settings(&self) -> Result<Settings, Error> {
        Ok(shard_client::vault_settings(&self.0)?)
    }

    /// Its collection, as it is now; `None` before the first documents came.
    ///
    /// # Errors
    /// When a file is damaged.
    pub fn collection(&self) -> Result<Option<Opened>, Error> {
        let opened = match self.settings()?.protection {
            Protection::Rotated => {
                Collection::open(&self.0).map(|rotated| Opened::Rotated(rotated.into()))
            }
            Protection::Blind => {
                BlindCollection::open(&self.0).map(|blind| Opened::Blind(blind.into()))
            }
        };
        match opened {
            Ok(collection) => Ok(Some(collection)),
            Err(ClientError::Empty) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// How far its documents have moved away from its model, and whether a refit is due.
    ///
    /// # Errors
    /// When it is empty, or a query vault.
    pub fn drift(&self) -> Result<ModelDrift, Error> {
        Ok(shard_client::model_drift(&self.0)?)
    }

    /// Its documents, in the order of ingestion.
    ///
    /// # Errors
    /// When it is empty, or a query vault.
    pub fn documents(&self) -> Result<Documents, Error> {
        let (ids, vectors) = shard_client::stored_documents(&self.0)?;
        Ok(Documents::from_vectors(ids, vectors)?)
    }

    /// What the server gets of the documents.
    ///
    /// # Errors
    /// When it is empty, or a query vault.
    pub fn published_rows(&self) -> Result<RowBatch, Error> {
        Ok(shard_client::published_rows(&self.0)?)
    }

    /// Adds documents, or replaces those whose id is known. The first documents fit the model. A blind
    /// vault takes their records as well, in the same change; a rotated one keeps none.
    ///
    /// # Errors
    /// When the vectors are not as wide as those before, an id is too long, another writer is at
    /// work, or this is a query vault.
    pub fn ingest(
        &mut self,
        documents: &Documents,
        options: FitOptions<'_>,
    ) -> Result<Ingested, Error> {
        self.ingest_with(documents, Vec::new(), Others::Keep, options)
    }

    /// As [`Vault::ingest`], and removes all other documents.
    ///
    /// # Errors
    /// As for [`Vault::ingest`].
    pub fn synchronise(
        &mut self,
        documents: &Documents,
        options: FitOptions<'_>,
    ) -> Result<Ingested, Error> {
        self.ingest_with(documents, Vec::new(), Others::Delete, options)
    }

    /// As [`Vault::ingest`] or [`Vault::synchronise`], as `others` says, with more records: of these
    /// documents, in place of their own, or of others that are in the vault. All of it is one change.
    ///
    /// # Errors
    /// As for [`Vault::ingest`] and [`Vault::set_records`].
    pub fn ingest_with(
        &mut self,
        documents: &Documents,
        records: Vec<Record>,
        others: Others,
        options: FitOptions<'_>,
    ) -> Result<Ingested, Error> {
        let mut all = records;
        if self.settings()?.protection == Protection::Blind {
            let given: HashSet<String> = all.iter().map(|record| record.id.clone()).collect();
            let own = documents.records().iter().filter(|record| !given.contains(&record.id));
            all.extend(own.cloned());
        }
        let intake = Intake { records: all, others, ..Intake::of(to_ingest(documents, options)) };
        self.take_in(intake, options.watch)
    }

    /// Takes all that an ingest brings, in one change.
    pub(crate) fn take_in(
        &mut self,
        intake: Intake<'_>,
        watch: &Watch<'_>,
    ) -> Result<Ingested, Error> {
        Ok(shard_client::take_in(&mut self.0, intake, watch, &mut rng())?)
    }

    /// What the texts of its documents went through, and queries have to; `None` if no text was ever
    /// ingested.
    ///
    /// # Errors
    /// When the vault is damaged or the disk refuses.
    pub fn encoder(&self) -> Result<Option<EncoderNote>, Error> {
        Ok(shard_client::encoder_note(&self.0)?)
    }

    /// Sets the records of documents: what they bring back when they are fetched. Returns how many are
    /// other than before.
    ///
    /// # Errors
    /// When an id is nobody's or there twice, a record is empty or longer than 16 MiB, the vault is empty,
    /// rotated or a query vault, or another writer is at work.
    pub fn set_records(&mut self, records: Vec<Record>) -> Result<usize, Error> {
        Ok(shard_client::set_records(&mut self.0, records, &mut rng())?)
    }

    /// The records of its documents.
    ///
    /// # Errors
    /// When the vault is empty, rotated or a query vault.
    pub fn records(&self) -> Result<Vec<Record>, Error> {
        Ok(shard_client::stored_records(&self.0)?)
    }

    /// The records of some of its documents, in the order of the ids; `None` where a document has none.
    ///
    /// # Errors
    /// When an id is nobody's, or the vault is empty, rotated or a query vault.
    pub fn records_of(&self, ids: &[&str]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        Ok(shard_client::stored_records_of(&self.0, ids)?)
    }

    /// Removes documents; one that was ingested in chunks with all of them.
    ///
    /// # Errors
    /// When an id is not there and `missing` does not allow it, nothing would be left, another
    /// writer is at work, or this is a query vault.
    pub fn delete(&mut self, ids: &[String], missing: MissingIds) -> Result<Deleted, Error> {
        Ok(shard_client::delete_documents(&mut self.0, ids, missing, &mut rng())?)
    }

    /// Fits a new model to the documents and begins a new epoch with it. `cells`, if it is given,
    /// is the number of keys from now on.
    ///
    /// # Errors
    /// When the vault is empty, there are fewer documents than cells, another writer is at work, or
    /// this is a query vault.
    pub fn refit(
        &mut self,
        cells: Option<CellCount>,
        options: FitOptions<'_>,
    ) -> Result<NewEpoch, Error> {
        let FitOptions { sample_queries, watch } = options;
        Ok(shard_client::refit(&mut self.0, cells, sample_queries, watch, &mut rng())?)
    }

    /// Gives the documents fresh keys and names in a new epoch, which revokes every query vault
    /// once it is published.
    ///
    /// # Errors
    /// As for [`Vault::refit`].
    pub fn rekey(&mut self, watch: &Watch<'_>) -> Result<NewEpoch, Error> {
        Ok(shard_client::rekey(&mut self.0, watch, &mut rng())?)
    }

    /// Makes a query vault: a vault for somebody who may search the present epoch and nothing else.
    ///
    /// # Errors
    /// As for [`Vault::create`]; and when this vault is empty or a query vault.
    pub fn export(&self, directory: impl AsRef<Path>, unlock: &Unlock) -> Result<Self, Error> {
        let (directory, cost) = (directory.as_ref(), KdfCost::default());
        let made = shard_client::export_query_vault(&self.0, directory, unlock, cost, &mut rng())?;
        Ok(Self(made))
    }

    /// From now on `unlock` opens the vault, and what opened it before does not. A recovery code
    /// stays good.
    ///
    /// # Errors
    /// When `unlock` is empty, too short or a recovery code, another writer is at work, or the disk
    /// refuses.
    pub fn change_unlock(&mut self, unlock: &Unlock) -> Result<(), Error> {
        Ok(self.0.change_unlock(unlock, KdfCost::default(), &mut rng())?)
    }

    /// The last backup that this copy made, and what has changed since.
    ///
    /// # Errors
    /// When the vault is damaged or the disk refuses.
    pub fn backup_age(&self) -> Result<BackupAge, Error> {
        Ok(self.0.backup_age()?)
    }

    /// Whether there is a recovery code.
    pub fn has_recovery(&self) -> bool {
        self.0.has_recovery()
    }

    /// Makes a code that will open the vault as well, once it is given to
    /// [`Vault::replace_recovery`]; so it can be shown before the one it replaces is gone.
    ///
    /// # Errors
    /// When another writer is at work, or this is a query vault.
    pub fn prepare_recovery(&mut self) -> Result<PreparedRecovery, Error> {
        let prepared = self.0.prepare_recovery(&mut rng())?;
        self.0.check_writable()?; // else the next step would fail
        Ok(prepared)
    }

    /// From now on the code opens the vault, and one made before opens nothing any more.
    ///
    /// # Errors
    /// When another writer is at work, or the disk refuses.
    pub fn replace_recovery(&mut self, prepared: &PreparedRecovery) -> Result<(), Error> {
        Ok(self.0.replace_recovery(prepared)?)
    }

    /// Searches through a server: one on the network, or anything else that carries messages.
    ///
    /// # Errors
    /// When the vault is empty or a file is damaged.
    pub fn searcher<T: Transport<Error: Into<ClientError>>>(
        &self,
        server: T,
    ) -> Result<Searcher<T>, Error> {
        Ok(match self.opened()? {
            Opened::Rotated(collection) => Searcher::rotated(collection, server),
            Opened::Blind(collection) => {
                Searcher::blind(collection, server, Hints::kept_in(self.directory())?)
            }
        })
    }

    fn opened(&self) -> Result<Opened, Error> {
        Ok(self.collection()?.ok_or(ClientError::Empty)?)
    }

    /// Searches through a server in this process. Of a rotated collection it derives published rows
    /// when a search first names them; the blocks of a blind one are all encrypted first. Requests and
    /// answers cross as the same bytes as on a network.
    ///
    /// # Errors
    /// When the vault is empty, a query vault, or damaged.
    pub fn embedded(&self) -> Result<Searcher<Embedded>, Error> {
        self.in_process(Filling::Rows, UNWATCHED, |server| server)
    }

    /// As [`Vault::embedded`], for a blind collection whose encryption is followed.
    ///
    /// # Errors
    /// As for [`Vault::embedded`]; and when the collection is rotated.
    pub fn embedded_blind(&self, watch: &Watch<'_>) -> Result<Searcher<Embedded>, Error> {
        self.filled(Filling::Rows, watch, |server| server)
    }

    /// As [`Vault::embedded_blind`], with the records of documents, to fetch them.
    ///
    /// # Errors
    /// As for [`Vault::embedded_blind`].
    pub fn embedded_with_records(&self, watch: &Watch<'_>) -> Result<Searcher<Embedded>, Error> {
        self.filled(Filling::RowsAndRecords, watch, |server| server)
    }

    /// Searches through a server in this process, as `server` makes it.
    pub(crate) fn in_process<T: Transport<Error: Into<ClientError>>>(
        &self,
        filling: Filling,
        watch: &Watch<'_>,
        server: impl FnOnce(Embedded) -> T,
    ) -> Result<Searcher<T>, Error> {
        if self.settings()?.protection == Protection::Blind {
            return self.filled(filling, watch, server);
        }
        let rows = DerivedRows::open(&self.0)?;
        let collection = rows.collection().clone();
        let embedded = Embedded::on_demand(collection.epoch(), Derived(rows));
        Ok(Searcher::rotated(collection, server(embedded)))
    }

    fn filled<T: Transport<Error: Into<ClientError>>>(
        &self,
        filling: Filling,
        watch: &Watch<'_>,
        server: impl FnOnce(Embedded) -> T,
    ) -> Result<Searcher<T>, Error> {
        self.require_owner("be searched without its server")?;
        let server = server(Embedded::empty(self.opened()?.epoch()));
        let collection = self.fill(filling, &server, watch)?;
        Ok(Searcher::blind(collection.into(), server, Hints::in_memory()))
    }

    /// Encrypts the rows of a blind collection into a server that holds nothing yet.
    pub(crate) fn fill<T: Transport<Error: Into<ClientError>>>(
        &self,
        filling: Filling,
        server: &T,
        watch: &Watch<'_>,
    ) -> Result<BlindCollection, Error> {
        Ok(shard_client::fill_server(&self.0, filling, server, watch)?)
    }

    /// Searches the vectors that the vault holds, without any server.
    ///
    /// # Errors
    /// When the vault is empty or a query vault, which holds none.
    pub fn local(&self) -> Result<LocalSearcher, Error> {
        Ok(LocalSearcher::new(self.documents()?, self.opened()?))
    }

    /// Puts the rows of a blind collection into no more blocks than they need.
    ///
    /// # Errors
    /// When the vault is empty, rotated or a query vault, or another writer is at work.
    pub fn compact(&mut self, watch: &Watch<'_>) -> Result<Compacted, Error> {
        Ok(shard_client::compact(&mut self.0, watch, &mut rng())?)
    }

    /// Opens every value and holds them against each other: ids and names without a double, a vector
    /// for every row, rows where the model places their vectors.
    ///
    /// # Errors
    /// When anything is missing, altered or contradicts the rest: the error names it.
    pub fn verify(&self, watch: &Watch<'_>) -> Result<Verified, Error> {
        Ok(shard_client::verify_vault(&self.0, watch)?)
    }
}

#[cfg(feature = "remote")]
mod transfers {
    use std::path::Path;
    use std::sync::Arc;

    use shard_client::remote::{
        self, BackedUp, BackupOptions, PublishOptions, Published, Pulled, Remote, Restored,
    };
    use shard_client::vault::Unlock;
    use shard_client::{ClientError, Watch};

    use super::Vault;
    use crate::Error;

    impl Vault {
        /// Brings a server's rows to the state of the vault, sending what changed. `watch` may end
        /// it; the next publish goes on from there.
        ///
        /// # Errors
        /// When the collection is another vault's, the server holds a later state of this one or one
        /// that it did not come from, refuses or cannot be reached, or this vault is empty or a query
        /// vault.
        pub fn publish(
            &mut self,
            server: &Remote,
            options: PublishOptions,
            watch: &Watch<'_>,
        ) -> Result<Published, Error> {
            self.require_owner("be published")?;
            match remote::publish(&self.0, options, server, watch) {
                Err(ClientError::StaleChecks) => {
                    remote::renew_checks(&mut self.0, &mut super::rng())?;
                    Ok(remote::publish(&self.0, options, server, watch)?)
                }
                outcome => Ok(outcome?),
            }
        }

        /// Removes the vectors of a vault that does not keep them, once the server that it was published
        /// to has given each of them back. Returns how many bytes went.
        ///
        /// # Errors
        /// When the server cannot be reached or gives back something else, the vault is being written
        /// to, or `watch` ended it. The vectors are still here then.
        pub fn leave_vectors(&mut self, server: &Remote, watch: &Watch<'_>) -> Result<u64, Error> {
            Ok(remote::leave_vectors(&mut self.0, server, watch)?)
        }

        /// Lets the vault fetch vectors that it has left with a server, where it does not keep them.
        pub fn fetch_vectors_from(&mut self, server: impl Into<Arc<Remote>>) {
            remote::fetch_vectors_from(&mut self.0, server.into());
        }

        /// Brings this copy of the vault to the state that is published, and repeats its own changes
        /// on top. A query vault is brought forward within its epoch.
        ///
        /// # Errors
        /// When nothing is published, the collection is another vault's, the two copies parted too
        /// long ago, the epoch of a query vault has ended, or the server cannot be reached. Nothing
        /// has changed then.
        pub fn pull(&mut self, server: &Remote, watch: &Watch<'_>) -> Result<Pulled, Error> {
            Ok(remote::pull(&mut self.0, server, watch, &mut super::rng())?)
        }

        /// Verifies the vault and keeps it on a server beside earlier backups, sending what changed.
        ///
        /// # Errors
        /// When the vault is damaged or a query vault, the server keeps another vault or a state that
        /// this copy did not come from, what was sent does not come back, or the server refuses or
        /// cannot be reached.
        pub fn backup(
            &self,
            server: &Remote,
            options: BackupOptions,
            watch: &Watch<'_>,
        ) -> Result<BackedUp, Error> {
            let done = remote::backup(&self.0, options, server, watch)?;
            self.0.note_backup(&server.address().to_string(), done.commit, done.made)?;
            Ok(done)
        }

        /// Fetches a vault that a server keeps into a directory that is empty or does not exist: the
        /// newest backup, or with `at` the newest of the commit whose name begins like that.
        ///
        /// # Errors
        /// When there is no backup, it is damaged, `unlock` does not open it, or the disk refuses.
        pub fn restore(
            directory: impl AsRef<Path>,
            unlock: &Unlock,
            server: &Remote,
            at: Option<&str>,
            watch: &Watch<'_>,
        ) -> Result<Restored, Error> {
            Ok(remote::restore(server, directory.as_ref(), unlock, at, watch)?)
        }
    }
}

/// Rows of a vault, for an embedded server.
struct Derived(DerivedRows);

impl RowSource for Derived {
    fn rows(&self, handles: &[RowHandle]) -> Result<RowBatch, String> {
        self.0.rows(handles).map_err(|error| error.to_string())
    }
}

fn to_ingest<'a>(documents: &'a Documents, options: FitOptions<'a>) -> shard_client::Documents<'a> {
    shard_client::Documents {
        ids: documents.ids(),
        vectors: documents.vectors(),
        sample_queries: options.sample_queries,
    }
}
