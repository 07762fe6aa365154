//! Several backups side by side: which are kept, which can be restored, and which are refused.

use std::collections::BTreeSet;

use shard_client::remote::{BackupError, kept_backups, restore};
use shard_client::{ClientError, UNWATCHED};
use shard_protocol::{BlobName, CollectionName, CommitName};

use crate::copies::{blobs, held};
use crate::support::Served;
use crate::vaults::{Contents, Owner, contents, unlock};

fn head(owner: &Owner) -> CommitName {
    owner.vault.head().unwrap().name
}

/// The commits of the backups, the newest first.
fn commits(served: &Served) -> Vec<CommitName> {
    kept_backups(served).unwrap().iter().map(|backup| backup.commit).collect()
}

fn values(served: &Served) -> BTreeSet<BlobName> {
    let names = blobs(served).into_iter().map(|(name, _)| name);
    names.filter(|name| name.as_str().starts_with("value.")).collect()
}

fn at(served: &Served, at: &str) -> Result<Contents, ClientError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vault");
    restore(served, &path, &unlock(), Some(at), UNWATCHED)?;
    Ok(contents(&path))
}

#[test]
fn the_last_backups_are_kept_and_older_ones_go_with_their_values() {
    let mut owner = Owner::with_documents(40);
    let served = Served::new(None);
    let mut made: Vec<(CommitName, Contents)> = Vec::new();
    for number in 0..6 {
        owner.put("3");
        let done = owner.back_up(&*served).unwrap();
        made.push((head(&owner), contents(&owner.path())));
        assert_eq!(done.kept, made.len().min(3));
        assert_eq!(done.removed > 0, number >= 3, "backup {number}");
        let last: Vec<CommitName> = made.iter().rev().take(3).map(|(name, _)| *name).collect();
        assert_eq!(commits(&served), last);
        for (name, whole) in made.iter().rev().take(3) {
            assert_eq!(at(&served, &name.to_string()).unwrap(), *whole);
        }
    }
    let times: Vec<_> = kept_backups(&*served).unwrap().iter().map(|kept| kept.made).collect();
    assert!(times.is_sorted_by(|newer, older| newer > older));
    let gone = at(&served, &made[0].0.to_string()).unwrap_err();
    assert!(
        matches!(&gone, ClientError::Backup(BackupError::NoSuchBackup { kept: 3, .. })),
        "{gone}"
    );

    // As few as one, and never none; nothing but its own values is left.
    for keep in [1, 0] {
        let done = owner.back_up_keeping(keep, &*served).unwrap();
        assert_eq!((done.kept, commits(&served)), (1, vec![head(&owner)]));
        assert_eq!(values(&served).len(), contents(&owner.path()).2.len());
    }
    // More than before.
    owner.put("3");
    owner.back_up_keeping(2, &*served).unwrap();
    assert_eq!(commits(&served).len(), 2);
}

#[test]
fn values_of_what_is_published_outlive_the_backups_that_shared_them() {
    let mut owner = Owner::with_documents(40);
    let served = Served::new(None);
    let mut behind = owner.copy(11);
    owner.put("3");
    owner.publish(&*served).unwrap();
    owner.back_up(&*served).unwrap();
    let published = head(&owner);
    for _ in 0..3 {
        owner.put("3");
        owner.back_up_keeping(1, &*served).unwrap();
    }
    behind.pull(&*served).unwrap();
    assert_eq!(head(&behind), published);
    // And the other way round: publishing leaves the values of backups.
    let whole = contents(&owner.path());
    for _ in 0..3 {
        owner.put("3");
        owner.publish(&*served).unwrap();
    }
    assert_eq!(at(&served, &commits(&served)[0].to_string()).unwrap(), whole);
}

#[test]
fn a_backup_is_chosen_by_the_beginning_of_its_commit() {
    let mut owner = Owner::with_documents(40);
    let served = Served::new(None);
    owner.back_up(&*served).unwrap();
    let (name, whole) = (head(&owner).to_string(), contents(&owner.path()));
    owner.put("3");
    owner.back_up(&*served).unwrap();
    let newest = contents(&owner.path());
    assert_ne!(name[..6], head(&owner).to_string()[..6], "a name of this seed tells them apart");
    for beginning in [&name[..6], &name[..], &name[..6].to_uppercase()] {
        assert_eq!(at(&served, beginning).unwrap(), whole);
    }
    assert_eq!(at(&served, "").unwrap(), newest);
    for nothing in ["zz", &format!("{name}0")] {
        let error = at(&served, nothing).unwrap_err();
        let expected =
            ClientError::Backup(BackupError::NoSuchBackup { kept: 2, at: nothing.to_owned() });
        assert_eq!(error.to_string(), expected.to_string());
    }
    let error = at(&Served::new(None), &name).unwrap_err();
    assert!(matches!(error, ClientError::Backup(BackupError::Absent)), "{error}");
}

#[test]
fn a_copy_that_parted_from_the_newest_backup_is_refused() {
    let mut one = Owner::with_documents(40);
    let served = Served::new(None);
    one.back_up(&*served).unwrap();
    let (mut two, behind) = (one.copy(11), one.copy(12));
    one.add(1);
    one.back_up(&*served).unwrap();
    two.add(1);
    two.add(1);
    let before = held(&served);
    for copy in [&two, &behind] {
        let error = copy.back_up(&*served).unwrap_err();
        let said = ClientError::Backup(BackupError::Parted {
            kept: head(&one),
            generation: one.vault.head().unwrap().generation,
        });
        assert_eq!(error.to_string(), said.to_string());
    }
    assert!(held(&served) == before, "nothing changed");
    two.replace_backup(&served).unwrap();
    assert_eq!(commits(&served)[0], head(&two));
    assert_eq!(commits(&served).len(), 3, "those of the other copy stay");
    two.back_up(&*served).unwrap();
    assert!(one.back_up(&*served).is_err());
}

#[test]
fn a_copy_that_parted_from_what_is_published_is_refused() {
    let mut one = Owner::with_documents(40);
    let served = Served::new(None);
    one.back_up(&*served).unwrap();
    let (mut two, behind) = (one.copy(11), one.copy(12));
    two.add(1);
    // At the revision of the other, before it, and after it.
    for (theirs, ours) in [(1, 0), (2, 0), (0, 5)] {
        (0..theirs).for_each(|_| one.add(1));
        (0..ours).for_each(|_| two.add(1));
        one.publish(&*served).unwrap();
        let before = held(&served);
        let error = two.back_up(&*served).unwrap_err();
        assert!(matches!(error, ClientError::Forked { .. }), "{error}");
        assert!(held(&served) == before, "nothing changed");
    }
    // A copy that is merely behind has nothing that the others do not have.
    behind.back_up(&*served).unwrap();
    one.back_up(&*served).unwrap();
    two.replace_backup(&served).unwrap();
    assert_eq!(commits(&served)[0], head(&two));
}

/// A pull puts the changes of a commit that was backed up into another commit. The backup is still
/// one that this copy came from.
#[test]
fn a_copy_that_pulled_goes_on_backing_up() {
    let mut one = Owner::with_documents(40);
    let served = Served::new(None);
    one.publish(&*served).unwrap();
    let mut two = one.copy(11);
    one.put("3");
    one.back_up(&*served).unwrap();
    two.put("4");
    two.publish(&*served).unwrap();
    let error = two.back_up(&*served).unwrap_err();
    assert!(matches!(error, ClientError::Backup(BackupError::Parted { .. })), "{error}");
    one.pull(&*served).unwrap();
    one.back_up(&*served).unwrap();
    // An epoch that was given up is no reason to refuse either.
    one.rekey();
    one.back_up(&*served).unwrap();
    two.put("4");
    two.publish(&*served).unwrap();
    assert!(one.pull(&*served).unwrap().epoch_dropped);
    one.back_up(&*served).unwrap();
    one.publish(&*served).unwrap();
    two.pull(&*served).unwrap();
    two.back_up(&*served).unwrap();
}

/// Machines have other clocks, and clocks are set back.
#[test]
fn the_last_backup_is_the_newest_whatever_the_clock_says() {
    let mut owner = Owner::with_documents(40);
    let served = Served::new(None);
    owner.back_up(&*served).unwrap();
    let (main, early) = (CollectionName::default(), head(&owner));
    let (name, _) = blobs(&served).into_iter().find(|(n, _)| n.as_str().starts_with("b")).unwrap();
    let bytes = served.rows().blob(&main, &name).unwrap();
    let ahead: BlobName = format!("backup.{:016x}.{early}", 1_u64 << 42).parse().unwrap();
    served.rows().put_blob(&main, &ahead, &bytes).unwrap();
    served.rows().delete_blob(&main, &name).unwrap();
    for _ in 0..2 {
        owner.put("3");
        owner.back_up(&*served).unwrap();
        assert_eq!(commits(&served)[0], head(&owner));
        assert_eq!(at(&served, "").unwrap(), contents(&owner.path()));
    }
    assert_eq!(commits(&served).len(), 3);
}

/// A backup that rotted on the server is in nobody's way, and nothing that it may list is removed.
#[test]
fn a_damaged_backup_stops_neither_publishing_nor_a_deliberate_backup() {
    let mut owner = Owner::with_documents(40);
    let served = Served::new(None);
    owner.back_up(&*served).unwrap();
    let main = CollectionName::default();
    let (name, _) = blobs(&served).into_iter().find(|(n, _)| n.as_str().starts_with("b")).unwrap();
    let sound = served.rows().blob(&main, &name).unwrap();
    let sound_values = values(&served);
    for at in [0, sound.len() - 1] {
        let mut changed = sound.clone();
        changed[at] ^= 1;
        served.rows().put_blob(&main, &name, &changed).unwrap();
        owner.put("3");
        owner.publish(&*served).unwrap();
        let error = owner.back_up(&*served).unwrap_err();
        assert!(matches!(error, ClientError::Backup(_)), "{error}");
        owner.replace_backup(&served).unwrap();
        owner.back_up(&*served).unwrap();
        assert!(values(&served).is_superset(&sound_values));
        let newer = kept_backups(&*served).unwrap().len() - 1;
        assert_eq!(newer, 2);
        // Without the newer ones the damaged one is the newest again.
        for (other, _) in blobs(&served) {
            if other.as_str().starts_with("backup.") && other != name {
                served.rows().delete_blob(&main, &other).unwrap();
            }
        }
    }
}
