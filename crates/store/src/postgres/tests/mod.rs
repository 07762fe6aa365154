//! The engine on a real PostgreSQL: under the rules of every engine, and under failures of its own.

mod cache;
#[cfg(feature = "objects")]
mod failing;
#[cfg(feature = "objects")]
mod full;
mod hosts;
mod members;
mod migrating;
mod opening;
#[cfg(feature = "objects")]
mod restoring;
#[cfg(feature = "objects")]
mod s3;
#[cfg(feature = "objects")]
mod sweeping;
mod tokens;

use std::ops::Deref;
use std::sync::OnceLock;

use shard_protocol::{BlobName, CollectionName};

use super::{DatabaseAddress, PostgresOptions, PostgresRows};
use crate::RowStore;
use crate::conformance::Cluster;

/// The cluster of this process.
fn cluster() -> Option<&'static Cluster> {
    static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
    CLUSTER.get_or_init(Cluster::start).as_ref()
}

fn address(text: &str) -> DatabaseAddress {
    DatabaseAddress::parse(text, None).unwrap()
}

/// The name of the database in a connection string.
fn database_of(text: &str) -> &str {
    text.rsplit_once('/').unwrap().1
}

fn main_collection() -> CollectionName {
    CollectionName::default()
}

fn name(text: &str) -> BlobName {
    text.parse().unwrap()
}

/// An engine over a database of its own.
struct Fresh {
    rows: PostgresRows,
    #[cfg(feature = "objects")]
    directory: Option<tempfile::TempDir>,
}

impl Fresh {
    /// Everything in the database.
    fn new(cluster: &Cluster) -> Self {
        let options = PostgresOptions { connections: 4, ..PostgresOptions::default() };
        let rows = PostgresRows::open(&address(&cluster.database()), options).unwrap();
        Self {
            rows,
            #[cfg(feature = "objects")]
            directory: None,
        }
    }

    /// Objects in a directory.
    #[cfg(feature = "objects")]
    fn with_objects(cluster: &Cluster) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let objects = super::Objects::open(&format!("file://{}", directory.path().display()));
        let options = PostgresOptions {
            connections: 4,
            objects: Some(objects.unwrap()),
            ..PostgresOptions::default()
        };
        let rows = PostgresRows::open(&address(&cluster.database()), options).unwrap();
        Self { rows, directory: Some(directory) }
    }

    /// The file of the only object.
    #[cfg(feature = "objects")]
    fn only_object(&self) -> std::path::PathBuf {
        let first = |folder: &std::path::Path| {
            std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
        };
        first(&first(self.directory.as_ref().unwrap().path()))
    }

    /// Objects that are there.
    #[cfg(feature = "objects")]
    fn objects(&self) -> usize {
        let directory = self.directory.as_ref().unwrap().path();
        let folders = std::fs::read_dir(directory).unwrap().flatten();
        folders.map(|folder| std::fs::read_dir(folder.path()).unwrap().count()).sum()
    }
}

impl Deref for Fresh {
    type Target = dyn RowStore;

    fn deref(&self) -> &Self::Target {
        &self.rows
    }
}

mod in_the_database {
    #[test]
    fn every_rule_is_kept() {
        let Some(cluster) = super::cluster() else { return };
        crate::conformance::run(|| super::Fresh::new(cluster));
    }
}

#[cfg(feature = "objects")]
mod with_objects {
    #[test]
    fn every_rule_is_kept() {
        let Some(cluster) = super::cluster() else { return };
        crate::conformance::run(|| super::Fresh::with_objects(cluster));
    }
}
