//! Real processes, really killed. What is done to documents is killed in `collection/tests`.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rand::RngExt;

use super::*;

/// Where a child is to work.
const PLACE: &str = "SHARD_TEST_PLACE";

/// Starts one of the children below, in `place`, and waits until it is at work.
fn start(child: &str, place: &Path) -> Child {
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture"])
        .arg(format!("{module}::{child}"))
        .env(PLACE, place)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map_while(Result::ok).find(|line| line.contains("at work")).expect("it begins");
    child
}

/// Kills a child within so many microseconds.
fn kill_within(mut child: Child, most: u64, rng: &mut StdRng) {
    std::thread::sleep(Duration::from_micros(rng.random_range(0..most)));
    child.kill().unwrap();
    child.wait().unwrap();
}

fn place() -> PathBuf {
    println!("at work");
    env::var_os(PLACE).expect("set by the parent").into()
}

#[test]
#[ignore = "the child of a test below, which starts and kills it"]
fn child_that_makes_vaults_until_killed() {
    let place = place();
    for number in 0_u32.. {
        create(&place.join(number.to_string()), &key_file(1)).unwrap();
    }
}

fn vaults_that_are_killed_while_they_are_made(kills: usize) {
    let mut rng = random();
    let mut unfinished = 0;
    for round in 0..kills {
        let parent = tempfile::tempdir().unwrap();
        let child = start("child_that_makes_vaults_until_killed", parent.path());
        kill_within(child, 40_000, &mut rng);
        let made = fs::read_dir(parent.path()).unwrap().count();
        for number in 0..made {
            let directory = parent.path().join(number.to_string());
            let vault = match Vault::open(&directory, &key_file(1)) {
                Ok(vault) => vault,
                Err(error) => {
                    assert_eq!(number, made - 1, "round {round}: {error}");
                    let expected = matches!(
                        error,
                        VaultError::Unfinished { .. } | VaultError::NotAVault { .. }
                    );
                    assert!(expected, "round {round}: {error}");
                    unfinished += 1;
                    create(&directory, &key_file(1)).unwrap()
                }
            };
            vault.snapshot().unwrap().verify().unwrap();
            assert_eq!(generation(&vault), 1);
        }
    }
    println!("{unfinished} of {kills} kills fell within the making of a vault");
}

#[test]
fn a_vault_that_was_killed_while_it_was_made_is_whole_or_can_be_made_again() {
    vaults_that_are_killed_while_they_are_made(20);
}

#[test]
#[ignore = "two hundred kills, for the slow suite"]
fn slow_a_vault_that_was_killed_while_it_was_made_is_whole_or_can_be_made_again() {
    vaults_that_are_killed_while_they_are_made(200);
}

#[test]
#[ignore = "the child of a test below, which starts and kills it"]
fn child_that_changes_keys_until_killed() {
    let place = place();
    let open = |byte| Vault::open(&place, &key_file(byte));
    let mut vault = open(1).or_else(|_| open(2)).unwrap();
    let mut rng = random();
    for byte in [1, 2].into_iter().cycle() {
        vault.change_unlock(&key_file(byte), lowest_cost(), &mut rng).unwrap();
    }
}

#[test]
fn a_kill_while_the_keyring_is_replaced_leaves_one_key_that_opens() {
    let (_parent, vault) = vault_with_values();
    let before = contents(&vault);
    let mut rng = random();
    for round in 0..20 {
        kill_within(
            start("child_that_changes_keys_until_killed", vault.directory()),
            20_000,
            &mut rng,
        );
        let opened = [1, 2].map(|byte| Vault::open(vault.directory(), &key_file(byte)));
        let opened: Vec<Vault> = opened.into_iter().filter_map(Result::ok).collect();
        assert_eq!(opened.len(), 1, "both or neither key opens after round {round}");
        assert_eq!(contents(&opened[0]), before);
    }
    let mut vault = Vault::open(vault.directory(), &key_file(1))
        .or_else(|_| Vault::open(vault.directory(), &key_file(2)))
        .unwrap();
    vault.change_unlock(&key_file(1), lowest_cost(), &mut rng).unwrap();
    assert!(leftovers(&vault).is_empty(), "{:?}", leftovers(&vault));
}
