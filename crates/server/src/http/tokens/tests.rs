use data_encoding::HEXLOWER;
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;

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
