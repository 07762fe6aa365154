//! A disk without room: a limit on the length of files, which a shell sets for a child.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::*;

/// Where a child is to work.
const PLACE: &str = "SHARD_TEST_PLACE";

#[test]
#[ignore = "the child of the test below, which limits what it may write"]
fn child_that_ingests_until_the_disk_is_full() {
    let place: PathBuf = env::var_os(PLACE).expect("set by the parent").into();
    let mut vault = Vault::open(&place, &unlock()).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    for round in 1..200 {
        let head = vault.head().unwrap();
        let names = ids(round * 300..(round + 1) * 300);
        let more = vectors(&mut rng, 300, WIDTH);
        let documents = Documents { ids: &names, vectors: &more, sample_queries: None };
        if let Err(error) = ingest(&mut vault, &documents, UNWATCHED, &mut rng) {
            assert!(matches!(error, ClientError::Vault(VaultError::Io { .. })), "{error}");
            // The same process goes on with what there was.
            assert_eq!(vault.head().unwrap(), head);
            verify_vault(&vault, UNWATCHED).unwrap();
            println!("full after {round} at {}: {error}", head.generation);
            return;
        }
    }
    panic!("the disk was never full");
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_an_error_and_leaves_the_documents_as_they_were() {
    let mut world = World::with(CellCount::Cells(2), 300);
    let size = std::fs::metadata(world.vault.directory().join("vault.sqlite")).unwrap().len();
    let (_, module) = module_path!().split_once("::").unwrap();
    // In units of 512 or 1024 bytes, as the shell has it. A write beyond is an error, not a signal.
    let limit = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", 2 * size / 1024);
    let child = Command::new("sh")
        .args(["-c", &limit, "sh"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture"])
        .arg(format!("{module}::child_that_ingests_until_the_disk_is_full"))
        .env(PLACE, world.vault.directory())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success(), "{said}{}", String::from_utf8_lossy(&child.stderr));
    let full = said.lines().find_map(|line| line.split_once("full after ")).expect(&said).1;
    assert!(full.contains("vault.sqlite: cannot write to"), "{full}");
    let rounds: usize = full.split(' ').next().unwrap().parse().unwrap();

    let verified = verify_vault(&world.vault, UNWATCHED).unwrap();
    assert_eq!(verified.documents, rounds * 300);
    assert_eq!(verified.generation, 1 + rounds as u64);
    assert!(world.collection().index().ids().eq(&ids(0..rounds * 300)));
    // With room again, the next change goes through.
    let one = vectors(&mut world.rng, 1, WIDTH);
    world.ingest(&["after".to_owned()], &one);
    world.check();
}
