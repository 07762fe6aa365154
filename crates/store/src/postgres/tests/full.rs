//! A full disk is told in words, and the same put goes through once there is room: by what the database and the
//! object store say, and on disks that are full.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use object_store::local::LocalFileSystem;

use super::sweeping::Failing;
use super::*;
use crate::{Objects, StoreError};

const OF_DATABASE: &str = "cannot store blobs: the disk of the database is full: ";
const OF_OBJECTS: &str = "cannot write an object: the disk of the object store is full: ";

/// Puts what does not fit, hears of it in one line that begins like this, makes room and puts it again.
fn is_told(rows: &PostgresRows, fill: impl FnOnce(), words: &str, make_room: impl FnOnce()) {
    let (main, a, large) = (main_collection(), name("a"), vec![7; 2 << 20]);
    rows.put_blob(&main, &name("b"), b"small").unwrap();
    fill();
    let full = rows.put_blob(&main, &a, &large).unwrap_err();
    assert!(matches!(full, StoreError::Engine { .. }), "{full:?}");
    let line = full.to_string();
    assert!(line.starts_with(words) && !line.contains('\n'), "{line}");
    assert_eq!(rows.blob(&main, &a), Err(StoreError::UnknownBlob(a.clone())));
    assert_eq!(rows.blob(&main, &name("b")).unwrap(), b"small");
    make_room();
    rows.put_blob(&main, &a, &large).unwrap();
    assert_eq!(rows.blob(&main, &a).unwrap(), large);
}

fn open(text: &str, objects: Option<Objects>) -> PostgresRows {
    let options = PostgresOptions { connections: 4, objects, ..PostgresOptions::default() };
    PostgresRows::open(&address(text), options).unwrap()
}

#[test]
fn a_database_that_says_that_its_disk_is_full_is_believed() {
    let Some(cluster) = cluster() else { return };
    let text = cluster.database();
    let sql = |sql: &str| drop(cluster.sql(database_of(&text), sql));
    let rows = open(&text, None);
    let fill = || {
        sql("CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$");
        sql("CREATE TRIGGER full_disk BEFORE INSERT ON shard.blobs EXECUTE FUNCTION full_disk()");
    };
    is_told(&rows, fill, OF_DATABASE, || sql("DROP TRIGGER full_disk ON shard.blobs"));
}

#[test]
fn an_object_store_that_says_that_its_disk_is_full_is_believed() {
    let Some(cluster) = cluster() else { return };
    let directory = tempfile::tempdir().unwrap();
    let store = LocalFileSystem::new_with_prefix(directory.path()).unwrap();
    let failing = Arc::new(Failing::over(store));
    let objects = Objects::over(failing.clone(), Default::default(), "a test");
    let rows = open(&cluster.database(), Some(objects));
    is_told(&rows, || failing.set_full(true), OF_OBJECTS, || failing.set_full(false));
}

#[test]
fn a_disk_that_fills_up_under_the_database_is_told() {
    let Some(disk) = SmallDisk::mount() else { return };
    let Some(cluster) = Cluster::start() else { return };
    assert!(succeeds(Command::new("chown").arg("postgres").arg(disk.path())));
    let text = cluster.database();
    let sql = |sql: &str| drop(cluster.sql(database_of(&text), sql));
    let rows = open(&text, None);
    let fill = || {
        sql(&format!("CREATE TABLESPACE small LOCATION '{}'", disk.path().display()));
        sql("ALTER TABLE shard.blobs SET TABLESPACE small");
    };
    is_told(&rows, fill, OF_DATABASE, || disk.grow());
}

#[test]
fn a_disk_that_fills_up_under_a_directory_of_objects_is_told() {
    let Some(disk) = SmallDisk::mount() else { return };
    let Some(cluster) = cluster() else { return };
    let objects = Objects::open(&format!("file://{}", disk.path().display())).unwrap();
    let rows = open(&cluster.database(), Some(objects));
    is_told(&rows, || (), OF_OBJECTS, || disk.grow());
}

/// A file system of one MiB, which goes when this is dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None`, and a sentence on standard error, where this process may not mount one.
    fn mount() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=1m", "tmpfs"];
        if !succeeds(Command::new("mount").args(mount).arg(directory.path())) {
            eprintln!("skipped: only root mounts a small disk, and not everywhere");
            return None;
        }
        Some(Self(directory))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn grow(&self) {
        assert!(succeeds(Command::new("mount").args(["-o", "remount,size=64m"]).arg(self.path())));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        succeeds(Command::new("umount").arg("--lazy").arg(self.path()));
    }
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|done| done.status.success())
}
