//! A writer stopped at any step leaves one whole generation.

use super::*;
use crate::vault::faults::{Failure, Operation};

/// Replaces the model and adds vectors, of more than one chunk.
fn change(vault: &mut Vault) -> Result<(), VaultError> {
    let mut rng = StdRng::seed_from_u64(3);
    let mut transaction = vault.transaction()?;
    transaction.write(FileKind::Model, b"new model", &mut rng)?;
    let mut writer = transaction.writer(FileKind::Vectors, &mut rng)?;
    let vectors = vec![7; (1 << 20) + 1];
    writer.write_all(&vectors).map_err(VaultError::io("write", Path::new("vectors")))?;
    writer.finish()?;
    transaction.commit(&mut rng)
}

/// A new vault on this disk.
fn create_on(disk: Disk) -> Result<Vault, VaultError> {
    let mut rng = random();
    let keyring = Keyring::generate(&mut rng);
    Vault::create_on(disk, keyring, &key_file(1), lowest_cost(), &mut rng)
}

/// Model, index and published rows, in generation 1.
fn old_vault() -> (TempDir, Vault) {
    let (parent, mut vault) = new_vault();
    commit(
        &mut vault,
        &[
            (FileKind::Model, b"old model"),
            (FileKind::Index, b"index"),
            (FileKind::PublishedRows, b"rows"),
        ],
    );
    (parent, vault)
}

/// Runs [`change`] with `failure` at every step in turn, and `check` after each: it is given the
/// vault that failed, whether the change claimed success, and whether the new state is on disk.
fn at_every_step(failure: Failure, mut check: impl FnMut(Vault, bool, bool)) -> usize {
    let (_parent, mut pristine) = old_vault();
    let old = contents(&pristine);
    change(&mut pristine).unwrap();
    let new = contents(&pristine);
    for step in 0.. {
        let (_parent, mut vault) = old_vault();
        vault.disk.faults.arm(failure, step);
        let outcome = change(&mut vault);
        if !vault.disk.faults.struck() {
            assert!(outcome.is_ok());
            return step;
        }
        vault.disk.faults.disarm();
        let now = contents(&reopen(&vault).unwrap());
        assert!(now == old || now == new, "a mixture after step {step}");
        check(vault, outcome.is_ok(), now == new);
    }
    unreachable!("the loop ends when no step is left to fail")
}

#[test]
fn a_kill_at_any_step_leaves_the_old_or_the_new_generation() {
    let mut states = Vec::new();
    let steps = at_every_step(Failure::Killed, |vault, succeeded, is_new| {
        states.push(is_new);
        assert!(!succeeded || is_new, "success without effect");
        // The next writer clears up and works.
        let mut vault = reopen(&vault).unwrap();
        change(&mut vault).unwrap();
        assert!(leftovers(&vault).is_empty());
        assert_eq!(&vault.read(FileKind::Model).unwrap()[..], b"new model");
    });
    assert!(steps >= 15, "only {steps} steps were tried");
    assert!(states.is_sorted(), "the change takes effect once, for good");
    assert!(states.contains(&true) && states.contains(&false));
}

#[test]
fn a_full_disk_leaves_the_old_generation_and_no_litter() {
    at_every_step(Failure::DiskFull, |mut vault, succeeded, is_new| {
        assert!(!succeeded && !is_new);
        assert!(leftovers(&vault).is_empty(), "{:?}", leftovers(&vault));
        // The value is still good as well: space was made, try again.
        change(&mut vault).unwrap();
        assert_eq!(&vault.read(FileKind::Model).unwrap()[..], b"new model");
    });
}

#[test]
fn one_failing_operation_never_makes_success_a_lie() {
    at_every_step(Failure::Once, |vault, succeeded, is_new| {
        assert!(!succeeded || is_new, "success without effect");
        let mut vault = reopen(&vault).unwrap();
        change(&mut vault).unwrap();
        assert!(leftovers(&vault).is_empty());
    });
}

#[test]
fn everything_is_on_disk_before_the_manifest_is_replaced() {
    let (_parent, mut vault) = old_vault();
    vault.disk.faults.disarm();
    change(&mut vault).unwrap();
    let log = vault.disk.faults.log();
    let position = |wanted: Operation, name: &str| {
        log.iter()
            .position(|(operation, named)| *operation == wanted && named == name)
            .unwrap_or_else(|| panic!("no {wanted:?} of {name}"))
    };
    let last_write = |name: &str| {
        log.iter()
            .rposition(|(operation, named)| *operation == Operation::Write && named == name)
            .unwrap()
    };
    let rename = position(Operation::Rename, MANIFEST);
    let directory_syncs: Vec<usize> =
        (0..log.len()).filter(|&index| log[index].0 == Operation::SyncDirectory).collect();
    for kind in [FileKind::Model, FileKind::Vectors] {
        let name = kind.file_name(2);
        let sync = position(Operation::SyncFile, &name);
        assert!(last_write(&name) < sync);
        assert!(directory_syncs.iter().any(|&at| sync < at && at < rename));
    }
    let sync = position(Operation::SyncFile, NEXT_MANIFEST);
    assert!(last_write(NEXT_MANIFEST) < sync && sync < rename);
    let removal = position(Operation::Remove, &FileKind::Model.file_name(1));
    assert!(directory_syncs.iter().any(|&at| rename < at && at < removal));
}

#[test]
fn a_dropped_transaction_changes_nothing() {
    let (_parent, mut vault) = old_vault();
    let before = contents(&vault);
    let mut rng = random();
    let mut transaction = vault.transaction().unwrap();
    transaction.write(FileKind::Model, b"unwanted", &mut rng).unwrap();
    let mut writer = transaction.writer(FileKind::Vectors, &mut rng).unwrap();
    writer.write_all(b"half a").unwrap();
    drop(writer);
    drop(transaction);
    assert_eq!(contents(&vault), before);
    assert!(leftovers(&vault).is_empty());
}

#[test]
fn a_writer_that_was_not_finished_prevents_the_commit() {
    let (_parent, mut vault) = old_vault();
    let before = contents(&vault);
    let mut rng = random();
    let mut transaction = vault.transaction().unwrap();
    transaction.write(FileKind::Index, b"new index", &mut rng).unwrap();
    drop(transaction.writer(FileKind::Model, &mut rng).unwrap());
    let error = transaction.commit(&mut rng).unwrap_err();
    assert!(matches!(error, VaultError::Unfinished { kind: FileKind::Model }));
    assert_eq!(contents(&reopen(&vault).unwrap()), before);
    assert!(leftovers(&vault).is_empty());
}

#[test]
fn a_writer_that_failed_cannot_be_finished() {
    let (_parent, mut vault) = old_vault();
    let mut rng = random();
    let faults = vault.disk.faults.clone();
    let mut transaction = vault.transaction().unwrap();
    let mut writer = transaction.writer(FileKind::Model, &mut rng).unwrap();
    faults.arm(Failure::Once, 0);
    assert!(writer.write_all(&vec![1; 3 << 20]).is_err());
    assert!(matches!(writer.finish(), Err(VaultError::Unfinished { .. })));
}

#[test]
fn partial_files_of_a_killed_writer_are_ignored_and_then_removed() {
    let (_parent, vault) = old_vault();
    for name in [&FileKind::Model.file_name(2), NEXT_MANIFEST] {
        fs::write(vault.directory().join(name), b"\x89SHA").unwrap();
    }
    fs::write(vault.directory().join("notes.txt"), b"the owner's").unwrap();
    let mut reopened = reopen(&vault).unwrap();
    assert_eq!(contents(&reopened), contents(&vault));
    change(&mut reopened).unwrap();
    assert_eq!(leftovers(&reopened), ["notes.txt"], "not ours to remove");
}

#[test]
fn creation_stopped_at_any_step_leaves_a_whole_vault_or_none() {
    for failure in [Failure::Killed, Failure::DiskFull, Failure::Once] {
        for step in 0.. {
            let parent = tempfile::tempdir().unwrap();
            let directory = parent.path().join("vault");
            let disk = Disk::new(&directory);
            let faults = disk.faults.clone();
            faults.arm(failure, step);
            let created = create_on(disk);
            if !faults.struck() {
                assert!(created.is_ok() && step >= 6);
                break;
            }
            assert!(created.is_err());
            if failure == Failure::Killed {
                match Vault::open(&directory, &key_file(1)) {
                    Ok(vault) => assert_eq!(vault.generation(), 0),
                    Err(
                        VaultError::NotAVault { .. }
                        | VaultError::Incomplete { .. }
                        | VaultError::Truncated { .. },
                    ) => {}
                    Err(other) => panic!("{other}"),
                }
            } else {
                assert!(!directory.exists(), "left behind after step {step}");
            }
        }
    }
}

#[test]
fn every_directory_made_for_a_vault_is_synced_into_its_parent() {
    let parent = tempfile::tempdir().unwrap();
    let disk = Disk::new(&parent.path().join("one/two/vault"));
    let faults = disk.faults.clone();
    create_on(disk).unwrap();
    for made_in in ["", "one", "one/two"] {
        let path = parent.path().join(made_in);
        // Joining nothing adds a separator.
        let name = path.to_str().unwrap().trim_end_matches('/');
        let synced = (Operation::SyncDirectory, name.to_owned());
        assert!(faults.log().contains(&synced), "{name} was not synced");
    }
}

#[cfg(unix)]
#[test]
fn creation_that_fails_leaves_every_directory_as_it_was() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for failure in [Failure::DiskFull, Failure::Once] {
        for below in ["", "one/two/vault"] {
            for step in 0.. {
                let parent = tempfile::tempdir().unwrap();
                fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o755)).unwrap();
                let disk = Disk::new(&parent.path().join(below));
                let faults = disk.faults.clone();
                faults.arm(failure, step);
                let created = create_on(disk);
                if !faults.struck() {
                    assert!(created.is_ok() && step >= 6);
                    break;
                }
                assert!(created.is_err());
                assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0, "{below} step {step}");
                assert_eq!(mode(parent.path()), 0o755, "{below} step {step}");
            }
        }
    }
}

#[test]
fn a_file_in_the_way_of_a_directory_leaves_nothing_behind() {
    let parent = tempfile::tempdir().unwrap();
    fs::write(parent.path().join("file"), b"mine").unwrap();
    // The second way begins with a directory that can be made.
    for way in ["file/vault", "made/../file/vault"] {
        let directory = parent.path().join(way);
        assert!(Vault::create(&directory, &key_file(1), lowest_cost(), &mut random()).is_err());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }
}

#[cfg(unix)]
#[test]
fn a_creator_who_lost_the_race_does_not_open_the_winners_directory() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let loser = Disk::new(parent.path());
    let made = loser.make_directory().unwrap();
    Vault::create(parent.path(), &key_file(1), lowest_cost(), &mut random()).unwrap();
    loser.unmake_directory(&made);
    let mode = fs::metadata(parent.path()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
}
