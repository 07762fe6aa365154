use shard_client::{MissingIds, Protection, Settings, UNWATCHED};

use super::*;
use crate::{Documents, Exchange, FitOptions, Unlock};

fn embed(at: f32) -> Vec<f32> {
    (0..32).map(|i| (at * i as f32).sin()).collect()
}

fn documents(range: std::ops::Range<u32>) -> Documents {
    Documents::new(range.map(|at| (format!("text {at}"), embed(at as f32)))).unwrap()
}

fn vault(folder: &std::path::Path, protection: Protection) -> Vault {
    let settings = match protection {
        Protection::Blind => Settings::blind(),
        Protection::Rotated => Settings::rotated(),
    };
    Vault::create(folder.join("vault"), &Unlock::passphrase("correct horse"), &settings).unwrap()
}

fn best(retriever: &Retriever, at: f32) -> Option<String> {
    let answer = retriever.search(&embed(at), &SearchOptions::default(), UNWATCHED).unwrap()?;
    Some(answer.hits[0].id.clone())
}

#[test]
fn a_search_sees_every_change() {
    let folder = tempfile::tempdir().unwrap();
    let retriever = Retriever::embedded(vault(folder.path(), Protection::Blind));
    assert_eq!(best(&retriever, 1.0), None);
    assert!(retriever.collection().unwrap().is_none());
    let ingest = |range| {
        retriever.change(|vault| vault.ingest(&documents(range), FitOptions::default())).unwrap()
    };
    ingest(0..50);
    assert_eq!(best(&retriever, 7.0).as_deref(), Some("text 7"));
    ingest(50..60);
    assert_eq!(best(&retriever, 55.0).as_deref(), Some("text 55"));
    assert_eq!(retriever.collection().unwrap().unwrap().documents(), 60);
    let gone = ["text 7".to_owned()];
    retriever.change(|vault| vault.delete(&gone, MissingIds::Refuse)).unwrap();
    assert_ne!(best(&retriever, 7.0).as_deref(), Some("text 7"));
}

#[test]
fn whoever_listens_hears_what_the_server_does() {
    for protection in [Protection::Blind, Protection::Rotated] {
        let folder = tempfile::tempdir().unwrap();
        let mut vault = vault(folder.path(), protection);
        vault.ingest(&documents(0..60), FitOptions::default()).unwrap();
        let heard: Arc<Mutex<Vec<Exchange>>> = Arc::default();
        let note = heard.clone();
        let retriever = Retriever::embedded(vault)
            .listening(Arc::new(move |exchange| note.lock().unwrap().push(exchange)));
        retriever.opened(UNWATCHED).unwrap();
        heard.lock().unwrap().clear();
        let answer = retriever.search(&embed(7.0), &SearchOptions::default(), UNWATCHED);
        let cost = answer.unwrap().unwrap().cost;
        let heard = heard.lock().unwrap();
        let search = heard.last().unwrap();
        assert_eq!((search.bytes_up, search.bytes_down), (cost.bytes_up, cost.bytes_down));
        match protection {
            Protection::Blind => assert!(search.rows.is_empty()),
            Protection::Rotated => assert_eq!(search.rows.len(), cost.candidates),
        }
    }
}

#[cfg(all(feature = "remote", feature = "server"))]
#[test]
fn a_reader_that_is_behind_pulls_and_asks_again() {
    use crate::remote::{PublishOptions, RemoteOptions, SecretToken};
    use crate::server::{NewToken, Scope, ServerOptions, TokenPlace};

    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("server");
    let scopes = vec![Scope::Read, Scope::Write];
    let (_, token) = TokenPlace::Directory(directory.clone())
        .create(&NewToken { scopes, ..NewToken::default() })
        .unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let options = ServerOptions { listen, ..ServerOptions::new(directory) };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let running = runtime.block_on(async { options.start() }).unwrap();
    let connect = || {
        let address = format!("https://{}/texts", running.address()).parse().unwrap();
        Remote::connect(RemoteOptions {
            token: Some(SecretToken::new(token.expose()).unwrap()),
            pin: running.fingerprint().map(|fingerprint| fingerprint.parse().unwrap()),
            ..RemoteOptions::new(address)
        })
        .unwrap()
    };
    let mut owner = vault(folder.path(), Protection::Blind);
    owner.ingest(&documents(0..50), FitOptions::default()).unwrap();
    let unlock = Unlock::passphrase("reader's own");
    let exported = owner.export(folder.path().join("reader"), &unlock).unwrap();
    let server = connect();
    owner.publish(&server, PublishOptions::default(), UNWATCHED).unwrap();
    let reader = Retriever::remote(exported, connect());
    assert_eq!(best(&reader, 7.0).as_deref(), Some("text 7"));
    owner.ingest(&documents(50..60), FitOptions::default()).unwrap();
    owner.publish(&server, PublishOptions::default(), UNWATCHED).unwrap();
    assert_eq!(best(&reader, 55.0).as_deref(), Some("text 55"));
    drop((reader, server));
    runtime.block_on(running.shut_down()).unwrap();
}
