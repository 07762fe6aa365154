//! A real process, really killed.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::*;

const DIRECTORY: &str = "SHARD_TEST_VAULT_TO_WRITE";

/// A payload that tells its generation, long enough for a kill to fall within it.
fn payload(generation: u64) -> Vec<u8> {
    generation.to_le_bytes().repeat(200_000)
}

#[test]
#[ignore = "the child of the test below, which starts and kills it"]
fn child_that_commits_until_killed() {
    let directory = env::var(DIRECTORY).expect("set by the parent");
    let mut vault = Vault::open(Path::new(&directory), &key_file(1)).unwrap();
    loop {
        let payload = payload(vault.generation() + 1);
        commit(&mut vault, &[(FileKind::Model, &payload), (FileKind::PublishedRows, &payload)]);
        println!("committed {}", vault.generation());
        io::stdout().flush().unwrap();
    }
}

#[test]
fn a_killed_process_leaves_its_last_commit_or_a_later_one() {
    let (_parent, vault) = new_vault();
    let (_, module) = module_path!().split_once("::").unwrap();
    for commits in [1, 2, 3] {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--nocapture"])
            .arg(format!("{module}::child_that_commits_until_killed"))
            .env(DIRECTORY, vault.directory())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let announced = output
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| Some(line.split_once("committed ")?.1.parse::<u64>().unwrap()))
            .nth(commits - 1);
        child.kill().unwrap();
        child.wait().unwrap();

        let mut vault = reopen(&vault).unwrap();
        let generation = vault.generation();
        assert!(generation >= announced.expect("the child commits until it is killed"));
        for kind in [FileKind::Model, FileKind::PublishedRows] {
            assert!(*vault.read(kind).unwrap() == payload(generation));
        }
        drop(vault.transaction().expect("the lock died with its holder"));
        assert!(leftovers(&vault).is_empty());
    }
}
