//! A vault published to a server over TLS, searched there, and restored from its backup.
//!
//! The server runs in this process, on a loopback address; everything else is as over a network.
//! `cargo run -p shard --example remote`

use std::error::Error;

use shard::remote::{
    BackupOptions, PublishOptions, Remote, RemoteOptions, SecretToken, ServerAddress,
};
use shard::server::{NewToken, Scope, ServerOptions, TokenPlace};
use shard::{Documents, FitOptions, SearchOptions, Settings, UNWATCHED, Unlock, Vault};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let directory = folder.path();
    // The operator makes a token and starts a server.
    let server = directory.join("server");
    let scopes = vec![Scope::Read, Scope::Write];
    let (_, token) = TokenPlace::Directory(server.clone())
        .create(&NewToken { scopes, ..NewToken::default() })?;
    let runtime = tokio::runtime::Runtime::new()?;
    let options = ServerOptions { listen: "127.0.0.1:0".parse()?, ..ServerOptions::new(server) };
    let running = runtime.block_on(async { options.start() })?;

    // The owner is given its address, the token and the fingerprint of its certificate.
    let address: ServerAddress = format!("https://{}/texts", running.address()).parse()?;
    let remote = Remote::connect(RemoteOptions {
        token: Some(SecretToken::new(token.expose())?),
        pin: running.fingerprint().map(|fingerprint| fingerprint.parse()).transpose()?,
        ..RemoteOptions::new(address)
    })?;

    let embed = |topic: f32| (0..32).map(|i| (topic * i as f32).sin()).collect::<Vec<f32>>();
    let documents = Documents::new((0..300).map(|at| (format!("text {at}"), embed(at as f32))))?;
    let unlock = Unlock::passphrase("correct horse");
    let settings = Settings::default();
    let mut vault = Vault::create(directory.join("vault"), &unlock, &settings)?;
    vault.ingest(&documents, FitOptions::default())?;

    let published = vault.publish(&remote, PublishOptions::default(), UNWATCHED)?;
    println!("{} blocks sent in {} bytes", published.uploaded, published.bytes);
    vault.backup(&remote, BackupOptions::default(), UNWATCHED)?;

    // On another machine, or after this one is lost:
    let restored = directory.join("restored");
    Vault::restore(&restored, &unlock, &remote, None, UNWATCHED)?;
    let searcher = Vault::open(&restored, &unlock)?.searcher(remote)?;
    let answer = searcher.search(&embed(7.0), &SearchOptions::default())?;
    println!("best: {} ({:.5})", answer.hits[0].id, answer.hits[0].score);
    assert_eq!(answer.hits[0].id, "text 7");

    drop(searcher);
    runtime.block_on(running.shut_down())?;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
