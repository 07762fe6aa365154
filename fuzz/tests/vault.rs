//! The files of a vault, damaged on disk.

use std::fs;
use std::path::{Path, PathBuf};

use bolero::check;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sha2::{Digest, Sha256};
use shard_client::vault::{KdfCost, MIN_KEY_FILE_BYTES, Unlock, Vault};
use shard_client::{
    BlindCollection, CellCount, Choice, ClientError, Collection, Documents, Record, Settings,
    UNWATCHED, create_vault, ingest, set_records, stored_documents, stored_records, stored_vectors,
    verify_vault,
};
use shard_fuzz::{SCRIPT_BYTES, damage};
use shard_geometry::VectorSet;
use tempfile::TempDir;
use zeroize::Zeroizing;

const ITERATIONS: usize = 500;

/// The header of a keyring, and the checksum at its end, as docs/FORMAT.md has them.
const HEADER_BYTES: usize = 28;
const CHECKSUM_BYTES: usize = 32;

const WIDTH: usize = 8;
const DATABASE: &str = "vault.sqlite";
const FILES: [&str; 2] = ["KEYRING", DATABASE];
const BESIDE: [&str; 3] = ["vault.sqlite-wal", "vault.sqlite-shm", "vault.sqlite-journal"];

fn unlock() -> Unlock {
    Unlock::KeyFile(Zeroizing::new(vec![5; MIN_KEY_FILE_BYTES]))
}

/// Ids, vectors and records.
type Contents = (Vec<String>, Vec<f32>, Vec<Vec<u8>>);

/// A vault with a few documents, after two commits.
fn vault(settings: &Settings) -> (TempDir, PathBuf) {
    let parent = tempfile::tempdir().expect("a temporary directory");
    let directory = parent.path().join("vault");
    let mut random = StdRng::seed_from_u64(1);
    let cost = KdfCost::new(8, 1, 1).expect("the lowest cost");
    let mut vault =
        create_vault(&directory, &unlock(), cost, settings, &mut random).expect("a new vault");
    for first in [0, 10] {
        let ids: Vec<String> = (first..first + 10).map(|id| id.to_string()).collect();
        let unit = || random.next_u32() as f32 / u32::MAX as f32;
        let values = std::iter::repeat_with(unit).take(10 * WIDTH).collect();
        let vectors = VectorSet::new(WIDTH, values).expect("ten vectors");
        let documents = Documents { ids: &ids, vectors: &vectors, sample_queries: None };
        ingest(&mut vault, &documents, UNWATCHED, &mut random).expect("a commit");
    }
    (parent, directory)
}

/// Reads all of a rotated vault.
fn read_rotated(vault: &Vault) -> Result<Contents, ClientError> {
    let ids = Collection::open(vault)?.index().ids().map(str::to_owned).collect();
    Ok((ids, stored_vectors(vault)?.values().to_vec(), Vec::new()))
}

/// Reads all of a blind vault.
fn read_blind(vault: &Vault) -> Result<Contents, ClientError> {
    let collection = BlindCollection::open(vault)?;
    collection.matching(&"year > 1980".parse().expect("a filter"))?;
    let (ids, vectors) = stored_documents(vault)?;
    let records = stored_records(vault)?.into_iter().map(|record| record.bytes).collect();
    Ok((ids, vectors.values().to_vec(), records))
}

/// Makes length and checksum true again, so that damage reaches what lies behind them.
fn repair(bytes: &mut [u8]) {
    let Some(length) = bytes.len().checked_sub(HEADER_BYTES + CHECKSUM_BYTES) else { return };
    bytes[HEADER_BYTES - 8..HEADER_BYTES].copy_from_slice(&(length as u64).to_le_bytes());
    let (framed, checksum) = bytes.split_at_mut(HEADER_BYTES + length);
    let (header, payload) = framed.split_at(HEADER_BYTES);
    let digest = Sha256::new().chain_update(payload).chain_update(header).finalize();
    checksum.copy_from_slice(&digest);
}

#[test]
fn damaged_files() {
    let settings = Settings {
        d_pub: Choice::Fixed(2),
        candidates: Choice::Fixed(4),
        ..Settings::new(CellCount::Cells(1))
    };
    let (_parent, directory) = vault(&settings);
    open_damaged_files(&directory, read_rotated);
}

#[test]
fn damaged_files_of_a_blind_vault() {
    let settings =
        Settings { cells: CellCount::Cells(2), tile: Choice::Fixed(256), ..Settings::blind() };
    let (_parent, directory) = vault(&settings);
    let mut opened = Vault::open(&directory, &unlock()).expect("a vault");
    let record = |id: u32| Record {
        id: id.to_string(),
        bytes: format!("{{\"year\": {}}}", 1979 + id).into_bytes(),
    };
    let records = (0..5).map(record).collect();
    set_records(&mut opened, records, &mut StdRng::seed_from_u64(2)).expect("a commit");
    drop(opened);
    open_damaged_files(&directory, read_blind);
}

/// Opens a vault of which one file was damaged: what it held, or an error.
fn open_damaged_files(directory: &Path, read: fn(&Vault) -> Result<Contents, ClientError>) {
    let read_everything = || {
        let vault = Vault::open(directory, &unlock())?;
        verify_vault(&vault, UNWATCHED)?;
        read(&vault)
    };
    let files = FILES.map(|name| directory.join(name));
    let sound = files.each_ref().map(|file| fs::read(file).expect("a file"));
    let contents = read_everything().expect("a sound vault");
    check!().with_iterations(ITERATIONS).with_max_len(4 + SCRIPT_BYTES).for_each(
        |input: &[u8]| {
            let Some((&[which, mend, low, high], script)) = input.split_first_chunk() else {
                return;
            };
            let which = usize::from(which) % files.len();
            // A script reaches the first 64 KB: begin it anywhere.
            let start = (usize::from(u16::from_le_bytes([low, high])) * sound[which].len()) >> 16;
            let (before, rest) = sound[which].split_at(start);
            let mut bytes = [before, &damage(rest, script)].concat();
            if which == 0 && mend % 2 == 1 {
                repair(&mut bytes);
            }
            fs::write(&files[which], &bytes).expect("a file to write");
            let outcome = read_everything();
            fs::write(&files[which], &sound[which]).expect("a file to restore");
            for beside in BESIDE {
                // What SQLite made of a damaged database.
                let _ = fs::remove_file(directory.join(beside));
            }
            match outcome {
                // Of a database, SQLite leaves much of a page unused.
                Ok(found) => {
                    assert!(found == contents, "other documents");
                    assert!(which == 1 || bytes == sound[which], "a keyring that was altered");
                }
                Err(_) => assert!(bytes != sound[which], "a sound vault"),
            }
        },
    );
}
