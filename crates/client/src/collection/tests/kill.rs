//! Documents changed by a process that is really killed.

use std::collections::BTreeMap;
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

/// What a generation does to the documents.
enum Step {
    Put(Vec<usize>),
    Delete(usize),
    Rekey,
}

/// Every generation does what its number says, so a vault's documents follow from its generation.
fn step(generation: u64) -> Step {
    let number = generation as usize;
    match generation % 4 {
        0 => Step::Put((0..3).map(|at| 100 + number * 3 + at).collect()),
        1 => Step::Put(vec![number % FIRST, (number + 7) % FIRST]),
        // One of those that came in the generation before last.
        2 => Step::Delete(100 + (number - 2) * 3),
        _ => Step::Rekey,
    }
}

fn vector(id: usize, generation: u64) -> Vec<f32> {
    let mut rng = ChaCha20Rng::seed_from_u64(generation << 32 | id as u64);
    vectors(&mut rng, 1, WIDTH).values().to_vec()
}

/// The documents of a generation.
fn expected(generation: u64) -> BTreeMap<String, Vec<f32>> {
    let name = |id: usize| format!("doc-{id}");
    let mut documents: BTreeMap<String, Vec<f32>> =
        (0..FIRST).map(|id| (name(id), vector(id, 2))).collect();
    for generation in 3..=generation {
        match step(generation) {
            Step::Put(ids) => {
                documents.extend(ids.into_iter().map(|id| (name(id), vector(id, generation))));
            }
            Step::Delete(id) => drop(documents.remove(&name(id))),
            Step::Rekey => {}
        }
    }
    documents
}

fn put(vault: &mut Vault, ids: &[usize], generation: u64, rng: &mut ChaCha20Rng) {
    let values = ids.iter().flat_map(|&id| vector(id, generation)).collect();
    let names: Vec<String> = ids.iter().map(|id| format!("doc-{id}")).collect();
    let vectors = VectorSet::new(WIDTH, values).unwrap();
    let documents = Documents { ids: &names, vectors: &vectors, sample_queries: None };
    ingest(vault, &documents, UNWATCHED, rng).unwrap();
}

#[test]
#[ignore = "the child of the tests below, which start and kill it"]
fn child_that_changes_documents_until_killed() {
    let place: PathBuf = env::var_os(PLACE).expect("set by the parent").into();
    let mut vault = Vault::open(&place, &unlock()).unwrap();
    loop {
        let generation = vault.head().unwrap().generation + 1;
        // What a killed child drew for a change that never came about is not drawn again.
        let seed = generation << 32 | u64::from(std::process::id());
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        match step(generation) {
            Step::Put(ids) => put(&mut vault, &ids, generation, &mut rng),
            Step::Delete(id) => {
                let ids = [format!("doc-{id}")];
                delete_documents(&mut vault, &ids, MissingIds::Refuse, &mut rng).unwrap();
            }
            Step::Rekey => drop(rekey(&mut vault, UNWATCHED, &mut rng).unwrap()),
        }
        println!("committed {generation}");
        std::io::stdout().flush().unwrap();
    }
}

/// Kills a writer so many times; after each, the vault is whole and its documents are those of a
/// commit, the last that was announced or one later.
fn killed(kills: u64) {
    let mut world = World::empty(CellCount::Cells(2));
    put(&mut world.vault, &(0..FIRST).collect::<Vec<_>>(), 2, &mut world.rng);
    let (_, module) = module_path!().split_once("::").unwrap();
    let mut last = world.generation();
    for round in 0..kills {
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
        let verified = verify_vault(&vault, UNWATCHED).unwrap();
        assert!(verified.generation >= announced, "round {round}: a commit was lost");
        let (collection, vectors) =
            (Collection::open(&vault).unwrap(), stored_vectors(&vault).unwrap());
        let held: BTreeMap<String, Vec<f32>> = (0..)
            .zip(collection.index().ids())
            .map(|(row, id)| (id.to_owned(), vectors.row(row).to_vec()))
            .collect();
        assert!(held == expected(verified.generation), "round {round}: other documents");
        last = verified.generation;
    }
    println!("{last} commits, {kills} kills");
    assert!(last > 2 + kills);
}

#[test]
fn a_killed_writer_leaves_the_documents_before_its_change_or_after_it() {
    killed(20);
}

#[test]
#[ignore = "two hundred kills, for the slow suite"]
fn slow_a_killed_writer_leaves_the_documents_before_its_change_or_after_it() {
    killed(200);
}
