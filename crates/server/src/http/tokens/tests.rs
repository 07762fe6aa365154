use std::sync::{Arc, Mutex};

use axum::http::HeaderMap;
use data_encoding::HEXLOWER;
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;
use shard_store::{SharedToken, SharedTokens, StoreError};

use super::*;

fn reader() -> NewToken {
    NewToken {
        scopes: vec![Scope::Write, Scope::Read, Scope::Read],
        collections: vec!["one".parse().unwrap()],
        limits: TokenLimits { concurrent: Some(3), ..TokenLimits::default() },
        expires: Some(7),
    }
}

#[test]
fn the_file_holds_hashes_and_no_token() {
    let directory = tempfile::tempdir().unwrap();
    let file = TokenFile::of(directory.path());
    let (record, token) = file.create(&reader(), &mut UnwrapErr(SysRng)).unwrap();
    assert_eq!(token.expose().len(), TOKEN_PREFIX.len() + 43);
    assert_eq!(record.scopes, [Scope::Read, Scope::Write]);
    let text = std::fs::read_to_string(file.path()).unwrap();
    assert!(!text.contains(&token.expose()[TOKEN_PREFIX.len()..]));
    assert!(text.contains(&HEXLOWER.encode(&digest(token.expose()))));
    assert_eq!(file.load().unwrap(), [record]);
    assert!(!format!("{token:?}").contains(token.expose()));
}

#[cfg(unix)]
#[test]
fn the_file_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let file = TokenFile::of(directory.path());
    file.create(&reader(), &mut UnwrapErr(SysRng)).unwrap();
    let mode = std::fs::metadata(file.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
}

#[test]
fn commands_at_once_do_not_undo_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let file = TokenFile::of(directory.path());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| file.create(&reader(), &mut UnwrapErr(SysRng)).unwrap());
        }
    });
    let tokens = file.load().unwrap();
    assert_eq!(tokens.len(), 8);
    file.revoke(&tokens[3].id).unwrap();
    assert_eq!(file.load().unwrap().len(), 7);
    assert!(matches!(file.revoke(&tokens[3].id), Err(TokenError::Unknown(_))));
}

#[test]
fn a_file_that_says_something_else_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = TokenFile::of(directory.path());
    assert!(file.load().unwrap().is_empty(), "no file, no tokens");
    let sound = "[[token]]\nid = \"a\"\nsha256 = \"HASH\"\nscopes = [\"read\"]\ncreated = 1\n";
    for text in [
        "token = 3".to_owned(),
        sound.replace("HASH", "abc"),
        sound.replace("HASH", &"g".repeat(64)),
        sound.replace("HASH", &"0".repeat(64)).replace("read", "everything"),
        sound.replace("HASH", &"0".repeat(64)) + "colections = [\"x\"]\n",
        sound.replace("HASH", &"0".repeat(64)) + "collections = [\"No Name\"]\n",
    ] {
        std::fs::write(file.path(), &text).unwrap();
        assert!(matches!(file.load(), Err(TokenError::Content { .. })), "{text}");
    }
    std::fs::write(file.path(), sound.replace("HASH", &"0".repeat(64))).unwrap();
    assert_eq!(file.load().unwrap().len(), 1);
}

#[test]
fn a_token_that_allows_nothing_is_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let nothing = NewToken { scopes: Vec::new(), ..reader() };
    let made = TokenFile::of(directory.path()).create(&nothing, &mut UnwrapErr(SysRng));
    assert!(matches!(made, Err(TokenError::NoScope)));
}

/// A table in memory, which may fail.
#[derive(Default)]
struct Table(Mutex<Option<Vec<SharedToken>>>);

impl Table {
    fn with<T>(&self, work: impl FnOnce(&mut Vec<SharedToken>) -> T) -> Result<T, StoreError> {
        let gone = || StoreError::Unavailable { doing: "read", reason: "a test".to_owned() };
        self.0.lock().unwrap().as_mut().map(work).ok_or_else(gone)
    }
}

impl SharedTokens for Table {
    fn tokens(&self) -> Result<Vec<SharedToken>, StoreError> {
        self.with(|all| all.clone())
    }

    fn add_token(&self, token: &SharedToken) -> Result<(), StoreError> {
        self.with(|all| all.push(token.clone()))
    }

    fn remove_token(&self, id: &str) -> Result<bool, StoreError> {
        self.with(|all| {
            let before = all.len();
            all.retain(|token| token.id != id);
            all.len() < before
        })
    }
}

#[test]
fn a_table_is_followed_and_what_it_held_before_stays_in_force_while_it_cannot_be_read() {
    let kept = Arc::new(Table::default());
    *kept.0.lock().unwrap() = Some(Vec::new());
    let table = TokenTable::of(kept.clone());
    let (record, token) = table.create(&reader(), &mut UnwrapErr(SysRng)).unwrap();
    assert_eq!(table.load().unwrap(), std::slice::from_ref(&record));
    let new = NewToken { scopes: vec![Scope::Read], ..NewToken::default() };
    let (other, second) = table.create(&new, &mut UnwrapErr(SysRng)).unwrap();
    let tokens = Tokens::shared(table.clone()).unwrap();
    let is_let_in = |token: &Token, scope| {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", format!("Bearer {}", token.expose()).parse().unwrap());
        tokens.admit(&headers, scope, None).is_ok()
    };
    assert!(is_let_in(&second, Scope::Read) && !is_let_in(&second, Scope::Write));
    assert!(!is_let_in(&token, Scope::Read), "it has expired");
    // Of a scope of a later program, nothing; of a limit beyond ours, ours.
    kept.with(|all| {
        all[1].scopes = vec!["later".to_owned()];
        all[1].concurrent = Some(u64::MAX);
    })
    .unwrap();
    tokens.reload().unwrap();
    assert!(!is_let_in(&second, Scope::Read));
    assert_eq!(table.load().unwrap()[1].limits.concurrent, Some(u32::MAX));
    kept.with(|all| all[1].scopes = vec!["read".to_owned()]).unwrap();
    tokens.reload().unwrap();
    let held = kept.0.lock().unwrap().take();
    assert!(tokens.reload().is_err());
    assert!(is_let_in(&second, Scope::Read));
    *kept.0.lock().unwrap() = held;
    table.revoke(&other.id).unwrap();
    table.revoke(&record.id).unwrap();
    assert!(matches!(table.revoke(&record.id), Err(TokenError::Unknown(_))));
    tokens.reload().unwrap();
    assert!(!is_let_in(&second, Scope::Read) && tokens.are_required(), "without tokens nobody");
    // Nor after a restart.
    let tokens = Tokens::shared(table).unwrap();
    assert!(tokens.are_required() && tokens.admit(&HeaderMap::new(), Scope::Read, None).is_err());
}
