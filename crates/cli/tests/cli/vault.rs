//! A vault from outside: what opens it, what does not, damage, and two writers.

use std::fs;

use crate::support::{Desk, KEY, VAULT, random_rows, refusal, succeeded};

const PASSPHRASE: &str = "correct horse battery staple";

/// Runs a command with a passphrase in its environment.
fn with_passphrase(desk: &Desk, phrase: &str, arguments: &[&str]) -> std::process::Output {
    let output = desk.shard(arguments).env("SHARD_PASSPHRASE", phrase).output().unwrap();
    let said = [output.stdout.as_slice(), &output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(phrase.is_empty() || !said.contains(phrase), "the passphrase is in {said:?}");
    output
}

#[test]
fn a_passphrase_opens_its_vault_and_no_other_does() {
    let desk = Desk::new();
    desk.npy("docs.npy", &random_rows(8, 12, 1));
    let run = |phrase: &str, arguments: &[&str]| with_passphrase(&desk, phrase, arguments);
    succeeded(&run(PASSPHRASE, &["init", VAULT, "--protection", "rotated", "--cells", "2"]));
    succeeded(&run(PASSPHRASE, &["ingest", VAULT, "docs.npy"]));
    let before = desk.snapshot(VAULT);
    for wrong in ["Correct horse battery staple", "correct horse battery staple\n"] {
        refusal(&run(wrong, &["ingest", VAULT, "docs.npy"]), &["KEYRING", "wrong passphrase"]);
        refusal(&run(wrong, &["status", VAULT]), &["KEYRING", "wrong passphrase"]);
    }
    refusal(&run("", &["status", VAULT]), &["passphrase is empty"]);
    desk.refused(&["status", VAULT, "--key-file", KEY], &["opens with a passphrase"]);
    desk.refused(&["status", VAULT], &["no passphrase", "SHARD_PASSPHRASE", "--key-file"]);
    assert!(desk.snapshot(VAULT) == before);
    let found = succeeded(&run(PASSPHRASE, &["search", VAULT, "--query", "docs.npy"]));
    assert!(found.contains("query 7"), "{found}");
}

#[test]
fn a_vault_is_not_made_without_a_passphrase() {
    let desk = Desk::new();
    desk.refused(&["init", VAULT], &["no passphrase", "SHARD_PASSPHRASE", "--key-file"]);
    let empty = with_passphrase(&desk, "", &["init", VAULT]);
    refusal(&empty, &["empty passphrase"]);
    assert!(!desk.path(VAULT).exists());
}

#[test]
fn only_its_own_key_file_opens_a_vault() {
    let desk = Desk::with_small_vault();
    desk.write("other", [8; 32]);
    desk.write("short", [7; 31]);
    fs::create_dir(desk.path("folder")).unwrap();
    let cases: [(&str, &[&str]); 4] = [
        ("other", &["KEYRING", "wrong key file"]),
        ("short", &["31 bytes", "at least 32"]),
        ("none", &["cannot read key file none", "No such file"]),
        ("folder", &["cannot read key file folder"]),
    ];
    for (file, reasons) in cases {
        for command in [&["ingest", VAULT, "docs.npy"][..], &["status", VAULT]] {
            let command = [command, &["--key-file", file]].concat();
            desk.refused_without_a_trace(&command, reasons);
        }
    }
    let phrase = with_passphrase(&desk, PASSPHRASE, &["status", VAULT]);
    refusal(&phrase, &["opens with a key file"]);
}

#[test]
fn a_short_key_file_makes_no_vault() {
    let desk = Desk::new();
    desk.write("short", [7; 31]);
    desk.refused(&["init", VAULT, "--key-file", "short"], &["31 bytes", "at least 32"]);
    assert!(!desk.path(VAULT).exists());
}

#[test]
fn a_new_key_file_is_made_private_and_announced() {
    let desk = Desk::new();
    let output = desk.shard(&["init", VAULT, "--key-file", "new"]).output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("wrote a new key file, new") && said.lines().count() == 1, "{said}");
    assert_eq!(fs::read(desk.path("new")).unwrap().len(), 32);
    desk.succeeds(&["status", VAULT, "--key-file", "new"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |name| fs::metadata(desk.path(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("new"), mode(VAULT)), (0o600, 0o700));
        assert_eq!((mode("vault/KEYRING"), mode("vault/vault.sqlite")), (0o600, 0o600));
    }
}

#[test]
fn a_vault_is_not_made_over_a_vault() {
    let desk = Desk::with_small_vault();
    desk.refused_without_a_trace(&["init", VAULT, "--key-file", KEY], &["already a vault"]);
    desk.refused_without_a_trace(&["init", VAULT, "--key-file", "new"], &["already a vault"]);
    assert!(!desk.path("new").exists(), "a key file that opens nothing was left");
}

#[test]
fn a_vault_is_not_made_among_other_files() {
    let desk = Desk::new();
    fs::create_dir(desk.path("folder")).unwrap();
    desk.write("folder/notes.txt", "mine");
    let before = desk.snapshot("folder");
    desk.refused(&["init", "folder", "--key-file", KEY], &["folder", "not empty"]);
    desk.refused(&["init", "folder", "--key-file", "folder/key"], &["folder", "not empty"]);
    assert!(desk.snapshot("folder") == before);
    desk.write("file", "mine");
    desk.refused(&["init", "file", "--key-file", KEY], &["file", "Not a directory"]);
    assert_eq!(fs::read(desk.path("file")).unwrap(), b"mine");
}

#[test]
fn settings_that_no_corpus_could_satisfy_are_refused() {
    let desk = Desk::new();
    let rotated = ["init", VAULT, "--key-file", KEY, "--protection", "rotated"];
    let init = |flags: &[&'static str]| [&rotated, flags].concat();
    desk.refused(&init(&["--cells", "4097"]), &["4097 cells", "4096"]);
    desk.refused(&init(&["--d-pub", "5000"]), &["width 5000", "at most 4096 dimensions"]);
    desk.refused(&init(&["--candidates", "70000"]), &["70000 candidates", "65536"]);
    desk.refused(&["init", VAULT, "--key-file", KEY, "--tile", "24"], &["tiles of width 24"]);
    for flags in [["--cells", "0"], ["--d-pub", "0"], ["--candidates", "0"], ["--cells", "few"]] {
        let output = desk.shard(&init(&flags)).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
    }
    assert!(!desk.path(VAULT).exists());
}

#[test]
fn commands_need_a_vault() {
    let desk = Desk::new();
    let rows = random_rows(8, 12, 1);
    desk.npy("docs.npy", &rows);
    fs::create_dir(desk.path("folder")).unwrap();
    for place in ["none", "folder"] {
        let commands: [&[&str]; 4] = [
            &["status", place],
            &["ingest", place, "docs.npy"],
            &["search", place, "--query", "docs.npy"],
            &["status", place, "--json", "status.json"],
        ];
        for command in commands {
            desk.refused(&[command, &["--key-file", KEY]].concat(), &[place, "no vault here"]);
        }
    }
    desk.refused(&["status", "docs.npy", "--key-file", KEY], &["docs.npy", "Not a directory"]);
    assert!(!desk.path("none").exists() && !desk.path("status.json").exists());
}

/// Commands that need the whole of a vault: whatever is damaged, one of them notices.
const COMMANDS: [&[&str]; 2] =
    [&["verify", VAULT], &["backup", VAULT, "--server", "http://127.0.0.1:1/x"]];

/// Damages a file of a vault in every given way (`None` removes it): commands must name the file and
/// change nothing, and the vault must work again once the file is back.
fn damaged(name: &str, ways: impl Fn(&[u8]) -> Vec<Option<Vec<u8>>>, reasons: &[&str]) {
    let desk = Desk::with_small_vault();
    let (good, found) = (desk.snapshot(VAULT), desk.found(&[]));
    let (file, bytes) = (format!("{VAULT}/{name}"), &good[name]);
    for damage in ways(bytes) {
        match &damage {
            Some(damage) => desk.write(&file, damage),
            None => fs::remove_file(desk.path(&file)).unwrap(),
        }
        for command in COMMANDS {
            let output = desk.shard(&[command, &["--key-file", KEY]].concat()).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(reasons.iter().all(|reason| said.contains(reason)), "{command:?}: {said}");
        }
        let kept = fs::read(desk.path(&file)).ok();
        assert!(kept == damage, "a damaged vault was changed");
        desk.write(&file, bytes);
    }
    assert_eq!(desk.found(&[]), found);
}

#[test]
fn a_truncated_file_is_named() {
    let cut = |bytes: &[u8]| {
        [10, bytes.len() / 2, bytes.len() - 1].map(|length| Some(bytes[..length].to_vec())).into()
    };
    damaged("KEYRING", cut, &["KEYRING", "truncated"]);
    damaged("vault.sqlite", cut, &["vault.sqlite"]);
}

#[test]
fn a_flipped_bit_is_noticed_and_named() {
    let flip = |places: &'static [usize]| {
        move |bytes: &[u8]| {
            let flipped = |&at: &usize| {
                let mut bytes = bytes.to_vec();
                bytes[at] ^= 0x10;
                Some(bytes)
            };
            places.iter().map(flipped).collect()
        }
    };
    damaged("KEYRING", flip(&[0, 9, 12, 40, 100, 208]), &["KEYRING"]);
    // Among the values and the root, which fill the pages from their ends.
    let ends = |bytes: &[u8]| {
        let pages = (2..bytes.len() / (32 << 10)).map(|page| (page + 1) * (32 << 10) - 100);
        let flipped = |at: usize| {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= 0x10;
            Some(bytes)
        };
        let used = pages.filter(|&at| bytes[at..at + 64].iter().any(|&byte| byte != 0));
        let all: Vec<_> = used.map(flipped).collect();
        assert!(!all.is_empty());
        all
    };
    damaged("vault.sqlite", ends, &["vault.sqlite"]);
}

#[test]
fn a_missing_file_is_named() {
    damaged("vault.sqlite", |_| vec![None], &["vault.sqlite", "gone"]);
    let desk = Desk::with_small_vault();
    fs::remove_file(desk.path("vault/KEYRING")).unwrap();
    desk.refused(&["status", VAULT, "--key-file", KEY], &["KEYRING", "gone"]);
    desk.refused(&["init", VAULT, "--key-file", KEY], &["not empty"]);
}

#[test]
fn a_second_writer_is_turned_away_and_readers_are_not() {
    let desk = Desk::with_small_vault();
    let found = desk.found(&[]);
    let writer = desk.another_writer();
    let ingest = ["ingest", VAULT, "docs.npy", "--key-file", KEY];
    desk.refused(&ingest, &[VAULT, "another process is writing"]);
    assert_eq!(desk.found(&[]), found, "readers wait for nobody");
    drop(writer);
    desk.ingest(&["docs.npy"]);
}
