//! Documents changed by a process that is really killed.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::*;

/// Where a child is to work.
const PLACE: &str = "SHARD_TEST_PLACE";

/// Documents at the first ingest, which is generation 2.
const FIRST: usize = 40;

/// What a generation does, as its number says: so a vault's documents follow from its generation.
fn step(world: &mut World, generation: u64) {
    let number = generation as usize;
    let new =
        |id: usize| (id, vector(generation << 32 | id as u64, 1.0 + generation as f32, false));
    match generation % 5 {
        0 => {
            let recorded = |id: &str| Some(record_of(id));
            world.put_with((0..12).map(|at| new(100 + number * 12 + at)), recorded);
        }
        1 => drop(world.put([number % FIRST, (number + 7) % FIRST].into_iter().map(new))),
        // Of those that came in the generation before last.
        2 => world.delete((0..8).map(|at| 100 + (number - 2) * 12 + at)),
        3 => drop(compact(&mut world.vault, UNWATCHED, &mut world.rng).unwrap()),
        _ => drop(rekey(&mut world.vault, UNWATCHED, &mut world.rng).unwrap()),
    }
}

/// The record of a document that comes with one.
fn record_of(id: &str) -> Vec<u8> {
    format!("{{\"of\": \"{id}\"}}").into_bytes()
}

/// Documents from 100 on came with their records, in one commit: they have them, and their fields.
fn check_records(vault: &Vault) {
    let collection = BlindCollection::open(vault).unwrap();
    let numbered = |id: &str| id.strip_prefix("doc-").unwrap().parse::<usize>().unwrap();
    let recorded: BTreeMap<String, Vec<u8>> = collection
        .ids()
        .filter(|(_, id)| numbered(id) >= 100)
        .map(|(_, id)| (id.to_owned(), record_of(id)))
        .collect();
    let stored = stored_records(vault).unwrap().into_iter();
    let stored: BTreeMap<String, Vec<u8>> =
        stored.map(|record| (record.id, record.bytes)).collect();
    assert!(
        stored == recorded,
        "documents without their records, or records without their documents"
    );
    let with_fields = collection.matching(&"of exists".parse().unwrap()).unwrap();
    assert_eq!(with_fields.iter().filter(|&&holds| holds).count(), recorded.len());
}

#[test]
#[ignore = "the child of the test below, which starts and kills it"]
fn child_that_changes_documents_until_killed() {
    let place: PathBuf = env::var_os(PLACE).expect("set by the parent").into();
    let directory = tempfile::tempdir().unwrap();
    let vault = Vault::open(&place, &unlock()).unwrap();
    let (ids, vectors) = stored_documents(&vault).unwrap();
    let rows = (0..vectors.rows()).map(|row| vectors.row(row).to_vec());
    let model = ids.into_iter().zip(rows).collect();
    let mut world = World { directory, vault, rng: ChaCha20Rng::seed_from_u64(0), model };
    loop {
        let generation = world.vault.head().unwrap().generation + 1;
        // What a killed child drew for a change that never came about is not drawn again.
        let seed = generation << 32 | u64::from(std::process::id());
        world.rng = ChaCha20Rng::seed_from_u64(seed);
        step(&mut world, generation);
        if world.vault.head().unwrap().generation != generation {
            // There was nothing to compact: that generation does something else.
            world.put([(99, vector(generation, 1.0, false))].into_iter());
        }
        println!("committed {generation}");
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn a_killed_writer_leaves_the_documents_before_its_change_or_after_it() {
    let mut world = World::with(FIRST);
    // What every generation must hold, from a vault that nobody kills.
    let mut expected = vec![BTreeMap::new(), BTreeMap::new(), bits(&world.model)];
    let mut witness = world.copy(7);
    let (_, module) = module_path!().split_once("::").unwrap();
    for round in 0..12 {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--nocapture"])
            .arg(format!("{module}::child_that_changes_documents_until_killed"))
            .env(PLACE, world.vault.directory())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let announced = output
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.split_once("committed ")?.1.parse::<u64>().ok())
            .expect("the child commits until it is killed");
        std::thread::sleep(Duration::from_micros(u64::from(world.rng.next_u32()) % 60_000));
        child.kill().unwrap();
        child.wait().unwrap();

        let vault = Vault::open(world.vault.directory(), &unlock()).unwrap();
        let generation = verify_vault(&vault, UNWATCHED).unwrap().generation;
        assert!(generation >= announced, "round {round}: a commit was lost");
        while expected.len() as u64 <= generation {
            let next = expected.len() as u64;
            step(&mut witness, next);
            if witness.vault.head().unwrap().generation != next {
                witness.put([(99, vector(next, 1.0, false))].into_iter());
            }
            expected.push(bits(&witness.model));
        }
        let held = contents(&vault);
        assert!(held == expected[generation as usize], "round {round}: other documents");
        check_records(&vault);
        world.vault = vault;
    }
    assert!(world.vault.head().unwrap().generation > 14);
}
