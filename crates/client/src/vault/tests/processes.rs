//! Several at once: readers wait for nobody, and there is one writer.

use std::time::{Duration, Instant};

use super::*;

#[test]
fn readers_before_during_and_after_a_change_see_one_whole_commit() {
    let (_parent, mut writer) = vault_with_values();
    let old = contents(&writer);
    let reader = reopen(&writer).unwrap();
    let before = reader.snapshot().unwrap();
    let mut rng = random_after(&writer);
    let mut transaction = writer.transaction(&mut rng).unwrap();
    for (slot, _) in VALUES {
        transaction.put(slot, &vec![7; 200_000], &mut rng).unwrap();
    }
    // The writer is held up in its middle by nobody else than this thread: who waits for it here
    // waits forever.
    let begun = Instant::now();
    let during = reader.snapshot().unwrap();
    assert_eq!(values_of(&before), old);
    assert_eq!(values_of(&during), old);
    during.verify().unwrap();
    assert_eq!(contents(&reopen(&reader).unwrap()), old);
    assert!(begun.elapsed() < Duration::from_secs(4), "a reader waited");
    transaction.commit(&mut rng).unwrap();
    let new: BTreeMap<Slot, Vec<u8>> = VALUES.map(|(slot, _)| (slot, vec![7; 200_000])).into();
    let after = reader.snapshot().unwrap();
    assert!(values_of(&after) == new);
    // Who began before the commit goes on reading what there was, value by value.
    assert_eq!(values_of(&before), old);
    assert_eq!(values_of(&during), old);
    before.verify().unwrap();
    drop((before, during, after));
    commit(&mut writer, &[(Slot::Model, b"third")]);
    assert_eq!(&reader.snapshot().unwrap().read(Slot::Model).unwrap()[..], b"third");
    assert!(leftovers(&writer).is_empty(), "{:?}", leftovers(&writer));
}

#[test]
fn readers_on_other_threads_never_fail_and_never_see_a_mixture() {
    let (_parent, mut writer) = new_vault();
    let slots: Vec<Slot> = (0..20).map(Slot::Routing).collect();
    let write = |vault: &mut Vault| {
        let number = generation(vault) + 1;
        let value = number.to_le_bytes().repeat(2_000);
        let values: Vec<(Slot, &[u8])> = slots.iter().map(|slot| (*slot, &value[..])).collect();
        commit(vault, &values);
    };
    write(&mut writer);
    let done = std::sync::atomic::AtomicBool::new(false);
    let directory = writer.directory().to_owned();
    let read = || {
        let (mut reads, mut last) = (0, 0);
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            let vault = Vault::open(&directory, &key_file(1)).unwrap();
            let snapshot = vault.snapshot().unwrap();
            let generation = snapshot.root().header.generation;
            assert!(generation >= last, "a later reader sees no earlier commit");
            for value in values_of(&snapshot).values() {
                assert!(*value == generation.to_le_bytes().repeat(2_000), "a mixture");
            }
            (reads, last) = (reads + 1, generation);
        }
        reads
    };
    std::thread::scope(|scope| {
        let readers = [(); 3].map(|()| scope.spawn(read));
        for _ in 0..60 {
            write(&mut writer);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        let reads = readers.map(|reader| reader.join().unwrap());
        assert!(reads.iter().all(|reads| *reads > 0), "{reads:?}");
    });
    writer.snapshot().unwrap().verify().unwrap();
}

#[test]
fn a_second_writer_is_refused_until_the_first_has_finished() {
    let (_parent, mut first) = vault_with_values();
    let mut second = reopen(&first).unwrap();
    let mut rng = random_after(&first);
    let mut transaction = first.transaction(&mut rng).unwrap();
    transaction.put(Slot::Model, b"first", &mut rng).unwrap();
    let error = second.transaction(&mut rng).unwrap_err();
    assert!(matches!(error, VaultError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("another process is writing"));
    transaction.commit(&mut rng).unwrap();
    // It goes on from what the first has left.
    commit(&mut second, &[(Slot::Drift, b"second")]);
    let snapshot = first.snapshot().unwrap();
    assert_eq!(&snapshot.read(Slot::Model).unwrap()[..], b"first");
    assert_eq!(&snapshot.read(Slot::Drift).unwrap()[..], b"second");
    drop(first.transaction(&mut rng).unwrap());
    drop(second.transaction(&mut rng).unwrap());
}

#[test]
fn a_dropped_transaction_changes_nothing() {
    let (_parent, mut vault) = vault_with_values();
    let (before, head) = (contents(&vault), vault.head().unwrap());
    let bytes = fs::read(vault.database()).unwrap();
    let mut rng = random();
    let mut transaction = vault.transaction(&mut rng).unwrap();
    transaction.put(Slot::Model, &vec![1; 1 << 20], &mut rng).unwrap();
    transaction.remove(Slot::Drift).unwrap();
    drop(transaction);
    assert_eq!((contents(&vault), vault.head().unwrap()), (before, head));
    assert!(fs::read(vault.database()).unwrap() == bytes);
    assert!(leftovers(&vault).is_empty(), "{:?}", leftovers(&vault));
}

/// Whether this user may write where nobody may: root.
#[cfg(unix)]
fn permissions_mean_nothing(directory: &Path) -> bool {
    fs::write(directory.join("probe"), b"").is_ok()
}

#[cfg(unix)]
#[test]
fn a_vault_in_a_directory_that_is_read_only_can_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let (_parent, mut vault) = vault_with_values();
    let (before, database) = (contents(&vault), vault.database());
    mode(vault.directory(), 0o500);
    if permissions_mean_nothing(vault.directory()) {
        mode(vault.directory(), 0o700);
        eprintln!("skipped: this user may write to a directory that is read only");
        return;
    }
    for file_mode in [0o600, 0o400] {
        mode(&database, file_mode);
        let reader = reopen(&vault).unwrap();
        let (one, two) = (reader.snapshot().unwrap(), reader.snapshot().unwrap());
        one.verify().unwrap();
        assert_eq!(values_of(&two), before);
        let error = vault.transaction(&mut random()).unwrap_err();
        assert!(matches!(error, VaultError::Io { .. }), "{error}");
    }
    // A file that is read only in a directory that is not.
    mode(vault.directory(), 0o700);
    assert_eq!(contents(&reopen(&vault).unwrap()), before);
    assert!(vault.transaction(&mut random()).is_err());
    // All of it writable again: SQLite gave the log the mode of the database.
    for name in vault.disk.names().unwrap() {
        mode(&vault.directory().join(name), 0o600);
    }
    commit(&mut vault, &[(Slot::Model, b"again")]);
    assert!(leftovers(&vault).is_empty(), "{:?}", leftovers(&vault));
}
