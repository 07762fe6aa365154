//! Somebody who writes to the database with any SQLite program is found out.

use super::*;

/// Alters the database of a vault with [`VALUES`], and checks what opening all of it says.
fn altered(sql: &str, expected: impl Fn(&VaultError) -> bool) {
    let (_parent, vault) = vault_with_values();
    raw(&vault).execute_batch(sql).unwrap();
    let error = read_everything(&vault).expect_err(sql);
    assert!(expected(&error), "{sql}: {error}");
    assert!(error.to_string().contains(vault.database().to_str().unwrap()), "{error}");
    assert!(!error.to_string().contains('\n'), "{error}");
}

fn read_everything(vault: &Vault) -> Result<(), VaultError> {
    reopen(vault)?.snapshot()?.verify().map(drop)
}

fn is_broken(error: &VaultError, named: Slot) -> bool {
    matches!(error, VaultError::SealBroken { value, .. } if *value == named.to_string())
}

#[test]
fn a_value_in_the_slot_of_another_is_refused() {
    let (_parent, vault) = vault_with_values();
    let (snapshot, db) = (vault.snapshot().unwrap(), raw(&vault));
    let put = |sealed: &[u8], slot: Slot| {
        db.execute("UPDATE vals SET value = ?1 WHERE id = ?2", (sealed, slot.id())).unwrap();
    };
    for (from, _) in VALUES {
        for (to, _) in VALUES.into_iter().filter(|(to, _)| *to != from) {
            let sound = snapshot.sealed(to).unwrap();
            put(&snapshot.sealed(from).unwrap(), to);
            let error = read_everything(&vault).unwrap_err();
            assert!(is_broken(&error, to), "{from} in place of {to}: {error}");
            put(&sound, to);
        }
    }
    read_everything(&vault).unwrap();
}

#[test]
fn an_earlier_value_of_the_same_slot_is_refused() {
    let (_parent, mut vault) = vault_with_values();
    for (slot, _) in VALUES {
        let before = vault.snapshot().unwrap().sealed(slot).unwrap();
        commit(&mut vault, &[(slot, b"newer")]);
        let now = vault.snapshot().unwrap().sealed(slot).unwrap();
        let update = "UPDATE vals SET value = ?1 WHERE id = ?2";
        raw(&vault).execute(update, (&before, slot.id())).unwrap();
        let error = read_everything(&vault).unwrap_err();
        assert!(is_broken(&error, slot), "{error}");
        // Reading it alone notices, too.
        let snapshot = vault.snapshot().unwrap();
        assert!(is_broken(&snapshot.read(slot).unwrap_err(), slot));
        raw(&vault).execute(update, (&now, slot.id())).unwrap();
        read_everything(&vault).unwrap();
    }
}

#[test]
fn an_earlier_root_brings_no_earlier_value_back() {
    let (_parent, mut vault) = vault_with_values();
    let root = vault.snapshot().unwrap().sealed_root().unwrap();
    commit(&mut vault, &[(Slot::Model, b"second")]);
    raw(&vault).execute("UPDATE root SET value = ?1", [root]).unwrap();
    let error = reopen(&vault).unwrap().snapshot().unwrap().read(Slot::Model).unwrap_err();
    assert!(is_broken(&error, Slot::Model), "{error}");
    assert!(read_everything(&vault).is_err());
}

#[test]
fn a_value_of_an_abandoned_change_is_refused() {
    let (_parent, mut vault) = vault_with_values();
    let mut rng = StdRng::seed_from_u64(77);
    let mut transaction = vault.transaction(&mut rng).unwrap();
    transaction.put(Slot::Model, b"other", &mut rng).unwrap();
    let id = Slot::Model.id();
    let db = &transaction.before().db;
    let abandoned = database::value(db, id, Path::new("")).unwrap().unwrap();
    drop(transaction);
    raw(&vault).execute("UPDATE vals SET value = ?1 WHERE id = ?2", (abandoned, id)).unwrap();
    assert!(is_broken(&read_everything(&vault).unwrap_err(), Slot::Model));
}

#[test]
fn a_deleted_value_is_missing_by_name() {
    for (slot, _) in VALUES {
        altered(
            &format!("DELETE FROM vals WHERE id = {}", slot.id()),
            |error| matches!(error, VaultError::Missing { value, .. } if *value == slot.to_string()),
        );
    }
}

#[test]
fn a_value_that_no_commit_knows_is_noticed() {
    for id in [Slot::Vectors(77).id(), Slot::Canaries.id(), 0, -1, 99 << 32] {
        altered(
            &format!("INSERT INTO vals (id, value) VALUES ({id}, zeroblob(100))"),
            |error| matches!(error, VaultError::Surplus { id: found, .. } if *found == id),
        );
    }
}

#[test]
fn only_slots_of_vectors_may_be_empty_and_say_where_their_values_are() {
    let (_parent, vault) = vault_with_values();
    let id = Slot::Vectors(9).id();
    raw(&vault).execute_batch(&format!("UPDATE vals SET value = x'' WHERE id = {id}")).unwrap();
    let snapshot = vault.snapshot().unwrap();
    assert_eq!(snapshot.verify().unwrap().elsewhere, 1);
    let error = snapshot.read(Slot::Vectors(9)).unwrap_err();
    assert!(matches!(error, VaultError::Elsewhere { .. }), "{error}");
    assert!(snapshot.read(Slot::Vectors(0)).is_ok());
}

#[test]
fn values_and_roots_that_are_cut_emptied_or_of_another_type_are_refused() {
    let id = Slot::Model.id();
    for value in ["x''", "zeroblob(100)", "substr(value, 2)", "substr(value, 1, 60)"] {
        altered(&format!("UPDATE vals SET value = {value} WHERE id = {id}"), |error| {
            is_broken(error, Slot::Model)
        });
    }
    altered(&format!("UPDATE vals SET value = 'text' WHERE id = {id}"), |error| {
        matches!(error, VaultError::Damaged { .. })
    });
    for root in ["x''", "zeroblob(500)", "substr(value, 1, 100)", "'text'", "7"] {
        altered(&format!("UPDATE root SET value = {root}"), |error| {
            matches!(error, VaultError::Damaged { .. })
        });
    }
    altered(
        "UPDATE root SET value = substr(value, 1, length(value) - 1)",
        |error| matches!(error, VaultError::SealBroken { value, .. } if value == "root"),
    );
    altered("DELETE FROM root", |error| matches!(error, VaultError::Damaged { .. }));
}

#[test]
fn every_byte_of_the_root_counts() {
    let (_parent, vault) = vault_with_values();
    let root = vault.snapshot().unwrap().sealed_root().unwrap();
    let db = raw(&vault);
    for at in 0..root.len() {
        let mut bytes = root.clone();
        bytes[at] ^= 1 << (at % 8);
        db.execute("UPDATE root SET value = ?1", [bytes]).unwrap();
        let error = reopen(&vault).unwrap_err();
        let expected = match at {
            0..8 => matches!(error, VaultError::Damaged { .. }),
            8..10 => matches!(error, VaultError::UnsupportedVersion { .. }),
            _ => matches!(&error, VaultError::SealBroken { value, .. } if value == "root"),
        };
        assert!(expected, "byte {at}: {error}");
    }
    db.execute("UPDATE root SET value = ?1", [root]).unwrap();
    read_everything(&vault).unwrap();
}

#[test]
fn a_schema_that_is_not_ours_word_for_word_is_refused() {
    for sql in [
        "CREATE TABLE notes (text)",
        "CREATE VIEW seen AS SELECT id FROM vals",
        "CREATE INDEX quick ON vals (value)",
        "CREATE TRIGGER watch AFTER INSERT ON vals BEGIN DELETE FROM root; END",
        "ALTER TABLE vals ADD COLUMN note",
        "DROP TABLE vals",
        "DROP TABLE root; CREATE VIEW root AS SELECT 1 AS id, x'00' AS value",
        "DROP TABLE vals; CREATE TABLE vals (id INTEGER PRIMARY KEY, value BLOB)",
    ] {
        altered(sql, |error| matches!(error, VaultError::Damaged { .. }));
    }
}

#[test]
fn a_database_of_another_program_is_named_as_such() {
    for id in [0, 1, i32::MAX] {
        altered(&format!("PRAGMA application_id = {id}"), |error| {
            matches!(error, VaultError::NotShardFile { .. })
        });
    }
}

#[test]
fn a_format_from_the_future_is_refused_by_number() {
    for version in [0, 1, 3, 700, -1] {
        altered(&format!("PRAGMA user_version = {version}"), |error| {
            let (found, supported) = (i64::from(version), i64::from(FORMAT));
            let named = format!("format version {version} is not supported");
            error.to_string().contains(&named)
                && matches!(error, VaultError::UnsupportedVersion { found: f, supported: s, .. }
                    if *f == found && *s == supported)
        });
    }
}
