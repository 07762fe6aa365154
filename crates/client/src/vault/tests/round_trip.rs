//! What goes in comes out.

use proptest::prelude::*;

use super::*;

#[test]
fn every_value_comes_back_after_reopening() {
    let (_parent, vault) = vault_with_values();
    let reopened = reopen(&vault).unwrap();
    assert_eq!(generation(&reopened), 2);
    assert_eq!(reopened.master().unwrap().expose(), vault.master().unwrap().expose());
    let snapshot = reopened.snapshot().unwrap();
    for (slot, value) in VALUES {
        assert_eq!(&snapshot.read(slot).unwrap()[..], value, "{slot}");
    }
    assert_eq!(snapshot.root().numbered(Slot::Vectors).collect::<Vec<_>>(), [0, 9]);
    snapshot.verify().unwrap();
}

#[test]
fn values_around_the_length_of_a_page_survive_one_by_one_and_many_at_once() {
    let (_parent, mut vault) = new_vault();
    let pattern = |length: usize| -> Vec<u8> {
        (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 20)) as u8).collect()
    };
    let lengths = [0, 1, 32_000, 32_768, 32_769, 100_000, (3 << 20) + 77];
    let values: Vec<(Slot, Vec<u8>)> = (0..).map(Slot::Vectors).zip(lengths.map(pattern)).collect();
    for (slot, value) in &values {
        commit(&mut vault, &[(*slot, value)]);
    }
    let expected: BTreeMap<Slot, Vec<u8>> = values.iter().cloned().collect();
    assert!(contents(&reopen(&vault).unwrap()) == expected);

    let mut rng = random_after(&vault);
    let mut transaction = vault.transaction(&mut rng).unwrap();
    transaction.put_many(&values, |(slot, value)| (*slot, value.clone()), &mut rng).unwrap();
    transaction.commit(&mut rng).unwrap();
    let snapshot = vault.snapshot().unwrap();
    assert!(values_of(&snapshot) == expected);
    let numbers: Vec<u32> = snapshot.root().numbered(Slot::Vectors).collect();
    let copied = |_, bytes: &[u8]| Ok::<_, VaultError>(bytes.to_vec());
    let mut read = Vec::new();
    let keep = |number, value| {
        read.push((Slot::Vectors(number), value));
        Ok(())
    };
    snapshot.each(Slot::Vectors, &numbers, copied, keep).unwrap();
    assert!(read.into_iter().collect::<BTreeMap<_, _>>() == expected);
}

#[test]
fn more_values_than_are_read_at_once_come_in_order() {
    let (_parent, mut vault) = new_vault();
    let numbers: Vec<u32> = (0..700).collect();
    let mut rng = random_after(&vault);
    let mut transaction = vault.transaction(&mut rng).unwrap();
    let value = |number: &u32| (Slot::Routing(*number), number.to_le_bytes());
    transaction.put_many(&numbers, value, &mut rng).unwrap();
    transaction.commit(&mut rng).unwrap();
    let snapshot = vault.snapshot().unwrap();
    let word = |_, bytes: &[u8]| Ok::<_, VaultError>(u32::from_le_bytes(bytes.try_into().unwrap()));
    let mut taken = Vec::new();
    let keep = |number, value| {
        assert_eq!(number, value);
        taken.push(value);
        Ok(())
    };
    snapshot.each(Slot::Routing, &numbers, word, keep).unwrap();
    assert_eq!(taken, numbers);
    // One that does not decode ends it, after those before it.
    let damaged = || VaultError::Damaged { file: PathBuf::from("decoded") };
    let refuse = |number, bytes: &[u8]| {
        if number == 400 { Err(damaged()) } else { word(number, bytes) }
    };
    let mut before = 0;
    let count = |_, _| {
        before += 1;
        Ok(())
    };
    let outcome = snapshot.each(Slot::Routing, &numbers, refuse, count);
    assert!(matches!(outcome, Err(VaultError::Damaged { .. })));
    assert_eq!(before, 400);
    // So does one that is not taken.
    let take = |number, _| if number == 500 { Err(damaged()) } else { Ok(()) };
    let outcome = snapshot.each(Slot::Routing, &numbers, word, take);
    assert!(matches!(outcome, Err(VaultError::Damaged { .. })));
}

#[test]
fn a_change_of_one_value_leaves_the_others_as_they_were_sealed() {
    let (_parent, mut vault) = vault_with_values();
    let before = vault.snapshot().unwrap().root().clone();
    commit(&mut vault, &[(Slot::Model, b"second")]);
    let after = vault.snapshot().unwrap().root().clone();
    for (slot, entry) in &after.entries {
        let changed = matches!(slot, Slot::Model | Slot::History(0));
        assert_eq!(before.entries.get(slot) != Some(entry), changed, "{slot}");
    }
    assert_eq!(after.header.generation, 3);
    assert_eq!(after.header.parent(), Some(before.header.commit));
    assert_eq!(after.header.vault, before.header.vault);
}

#[test]
fn a_second_write_of_a_slot_replaces_the_first() {
    let (_parent, mut vault) = new_vault();
    commit(&mut vault, &[(Slot::Model, b"first"), (Slot::Model, b"second")]);
    assert_eq!(&vault.snapshot().unwrap().read(Slot::Model).unwrap()[..], b"second");
    vault.snapshot().unwrap().verify().unwrap();
}

#[test]
fn a_removed_value_is_absent_and_leaves_no_row() {
    let (_parent, mut vault) = vault_with_values();
    let mut rng = random_after(&vault);
    let mut transaction = vault.transaction(&mut rng).unwrap();
    transaction.remove(Slot::Drift).unwrap();
    transaction.remove(Slot::Canaries).unwrap();
    transaction.commit(&mut rng).unwrap();
    let snapshot = vault.snapshot().unwrap();
    assert!(matches!(snapshot.read(Slot::Drift), Err(VaultError::Absent { .. })));
    assert_eq!(values_of(&snapshot).len(), VALUES.len() - 1);
    snapshot.verify().unwrap();
}

#[test]
fn no_value_appears_on_disk_as_it_is() {
    let (_parent, mut vault) = new_vault();
    let needle = b"a phrase nobody else may read";
    commit(&mut vault, &VALUES.map(|(slot, _)| (slot, &needle[..])));
    for name in vault.disk.names().unwrap() {
        let bytes = fs::read(vault.directory().join(&name)).unwrap();
        let visible = bytes.windows(needle.len()).any(|window| window == needle);
        assert!(!visible, "{name:?}");
    }
}

/// One step against a vault and against a map in memory.
#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<(Slot, Option<Vec<u8>>)>),
    Abandon(Slot, Vec<u8>),
    Reopen,
}

fn steps() -> impl Strategy<Value = Step> {
    let slot = || prop::sample::select(VALUES.map(|(slot, _)| slot).to_vec());
    let value = || prop::collection::vec(any::<u8>(), 0..200);
    let written = || prop::option::weighted(0.8, value());
    prop_oneof![
        4 => prop::collection::vec((slot(), written()), 0..4).prop_map(Step::Commit),
        1 => (slot(), value()).prop_map(|(slot, value)| Step::Abandon(slot, value)),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn a_vault_behaves_like_a_map(steps in prop::collection::vec(steps(), 1..10)) {
        let (_parent, mut vault) = new_vault();
        let mut model = BTreeMap::new();
        for step in steps {
            let mut rng = random_after(&vault);
            match step {
                Step::Commit(values) => {
                    let mut transaction = vault.transaction(&mut rng).unwrap();
                    for (slot, value) in values {
                        match value {
                            Some(value) => {
                                transaction.put(slot, &value, &mut rng).unwrap();
                                model.insert(slot, value);
                            }
                            None => {
                                transaction.remove(slot).unwrap();
                                model.remove(&slot);
                            }
                        }
                    }
                    transaction.commit(&mut rng).unwrap();
                }
                Step::Abandon(slot, value) => {
                    let mut transaction = vault.transaction(&mut rng).unwrap();
                    transaction.put(slot, &value, &mut rng).unwrap();
                }
                Step::Reopen => vault = reopen(&vault).unwrap(),
            }
            let snapshot = vault.snapshot().unwrap();
            snapshot.verify().unwrap();
            prop_assert_eq!(&values_of(&snapshot), &model);
        }
        prop_assert_eq!(contents(&reopen(&vault).unwrap()), model);
        prop_assert_eq!(leftovers(&vault), Vec::<String>::new());
    }
}
