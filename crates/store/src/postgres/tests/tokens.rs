//! The table of tokens.

use super::migrating::migrated;
use super::*;
use crate::postgres::migrations::MIGRATIONS;
use crate::{SharedToken, SharedTokens, StoreError};

/// A token that may read, of an id and a hash of one byte.
pub(super) fn reader(id: &str, byte: u8) -> SharedToken {
    SharedToken {
        id: id.to_owned(),
        sha256: [byte; 32],
        scopes: vec!["read".to_owned()],
        collections: Vec::new(),
        created: 0,
        expires: None,
        requests_per_second: None,
        bytes_per_second: None,
        concurrent: None,
    }
}

#[test]
fn tokens_come_back_as_they_were_added_and_are_removed_once() {
    let Some(cluster) = cluster() else { return };
    let fresh = Fresh::new(cluster);
    let scopes = vec!["read".to_owned(), "admin".to_owned()];
    let plain = SharedToken { scopes, ..reader("a", 1) };
    let most = SharedToken {
        id: "b".to_owned(),
        sha256: [0xff; 32],
        scopes: vec!["write".to_owned()],
        collections: vec!["papers".to_owned(), "notes".to_owned()],
        created: u64::MAX,
        expires: Some(u64::MAX),
        requests_per_second: Some(u64::MAX),
        bytes_per_second: Some(1 << 63),
        concurrent: Some(0),
    };
    for token in [&most, &plain] {
        fresh.rows.add_token(token).unwrap();
    }
    assert_eq!(fresh.rows.tokens().unwrap(), [plain.clone(), most.clone()]);
    // One id, one hash, and no scope that is none.
    let hash = SharedToken { id: "c".to_owned(), ..plain.clone() };
    let scope = SharedToken { sha256: [2; 32], scopes: vec!["all".to_owned()], ..hash.clone() };
    for refused in [&plain, &hash, &scope] {
        fresh.rows.add_token(refused).unwrap_err();
    }
    assert!(fresh.rows.remove_token("b").unwrap() && !fresh.rows.remove_token("b").unwrap());
    assert_eq!(fresh.rows.tokens().unwrap(), [plain]);
}

/// A table from before there were checks may hold what is not a list of names.
#[test]
fn a_token_that_cannot_be_read_is_left_out_and_keeps_no_other_from_being_removed() {
    let Some(cluster) = cluster() else { return };
    let text = cluster.database();
    migrated(&text, &MIGRATIONS[..1]).unwrap();
    let strange = "INSERT INTO shard.tokens (id, sha256, scopes, collections, created) VALUES \
                   ('nested', sha256('1'), '{{read},{write}}', '{}', 0), \
                   ('nobody', sha256('2'), '{read}', ARRAY[NULL::text], 0)";
    cluster.sql(database_of(&text), strange);
    let rows = PostgresRows::open(&address(&text), PostgresOptions::default()).unwrap();
    let (stays, goes) = (reader("stays", 1), reader("goes", 2));
    for token in [&stays, &goes] {
        rows.add_token(token).unwrap();
    }
    assert_eq!(rows.tokens().unwrap(), [goes, stays.clone()]);
    assert_eq!(*rows.unreadable_tokens.lock().unwrap(), ["nested", "nobody"]);
    assert!(rows.remove_token("goes").unwrap());
    assert_eq!(rows.tokens().unwrap(), std::slice::from_ref(&stays));
    for id in ["nested", "nobody"] {
        assert!(rows.remove_token(id).unwrap(), "by the id that the log has");
    }
    assert_eq!(rows.tokens().unwrap(), [stays]);
    assert!(rows.unreadable_tokens.lock().unwrap().is_empty());
    let again = rows.wait(|| async { rows.ask("try", strange, &[]).await });
    assert!(matches!(again, Err(StoreError::Engine { .. })), "{again:?}");
}
