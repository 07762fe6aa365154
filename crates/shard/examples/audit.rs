//! What a thief of the server's rows would learn: some channels of the audit, on a small vault.
//!
//! `cargo run --release -p shard --example audit`

use shard::audit::{AuditOptions, Audited, CHANNELS, Channel, figure, write_report};
use shard::{CellCount, Documents, Error, FitOptions, Settings, Unlock, Vault};

fn main() -> Result<(), Error> {
    let folder = tempfile::tempdir().expect("a directory for temporary files");
    let directory = folder.path();
    let embed = |topic: f32| (0..24).map(|i| (topic * i as f32).sin()).collect::<Vec<f32>>();
    let documents = Documents::new((0..200).map(|at| (format!("text {at}"), embed(at as f32))))?;
    let unlock = Unlock::passphrase("correct horse");
    let settings = Settings::new(CellCount::Cells(8));
    let mut vault = Vault::create(directory.join("vault"), &unlock, &settings)?;
    vault.ingest(&documents, FitOptions::default())?;

    let audited = Audited::from_vault(&vault, &AuditOptions::default())?;
    drop(vault); // attacks need no secret

    let quick = ["shape", "same-key-neighbours", "partial-alignment"];
    let channels: Vec<&Channel> = CHANNELS.iter().filter(|c| quick.contains(&c.name)).collect();
    let report = audited.attack(&channels, None)?;
    for section in &report.sections {
        println!("{:20} {}", section.name, figure::verdict(section.verdict));
    }
    write_report(&report, &directory.join("audit"))?;
    assert_eq!(report.sections.len(), quick.len());
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
