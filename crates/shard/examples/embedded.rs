//! From an empty directory to an encrypted answer, with the server in this process.
//!
//! `cargo run -p shard --example embedded`

use shard::{Documents, Error, FitOptions, SearchOptions, Settings, Unlock, Vault};

fn main() -> Result<(), Error> {
    let folder = tempfile::tempdir().expect("a directory for temporary files");
    let directory = folder.path();
    // Vectors come from an encoder of your choice; these stand in for one.
    let embed = |topic: f32| (0..32).map(|i| (topic * i as f32).sin()).collect::<Vec<f32>>();
    let documents = Documents::new((0..500).map(|at| (format!("text {at}"), embed(at as f32))))?;

    let settings = Settings::default();
    let mut vault =
        Vault::create(directory.join("vault"), &Unlock::passphrase("correct horse"), &settings)?;
    vault.ingest(&documents, FitOptions::default())?;

    let searcher = vault.embedded()?;
    let answer = searcher.search(&embed(7.0), &SearchOptions { top: 3, ..Default::default() })?;
    for hit in &answer.hits {
        println!("{:.5}  {}", hit.score, hit.id);
    }
    println!("the server saw {} bytes of ciphertext", answer.cost.bytes_up);
    assert_eq!(answer.hits[0].id, "text 7");
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
