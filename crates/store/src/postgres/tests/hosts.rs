//! Several hosts, and TLS.

use super::*;
use crate::StoreError;

fn open(text: &str) -> Result<PostgresRows, StoreError> {
    PostgresRows::open(&address(text), PostgresOptions::default())
}

/// A cluster whose role `guest` may do everything, over TCP too.
fn cluster_of_guests() -> Option<Cluster> {
    let cluster = Cluster::start()?;
    cluster.sql("postgres", "ALTER ROLE guest SUPERUSER");
    Some(cluster)
}

#[test]
fn of_several_hosts_the_one_that_takes_writes_is_used_and_found_again_after_a_failover() {
    let (Some(mut one), Some(two)) = (cluster_of_guests(), cluster_of_guests()) else { return };
    let read_only = "ALTER SYSTEM SET default_transaction_read_only = on";
    let writable = "ALTER SYSTEM RESET default_transaction_read_only";
    one.sql("postgres", read_only);
    one.kill();
    one.restart();
    let (first, second) = (one.port(), two.port());
    let text =
        format!("postgres://guest:right@127.0.0.1:1,127.0.0.1:{first},127.0.0.1:{second}/postgres");
    let rows = open(&text).unwrap();
    let main = main_collection();
    rows.put_blob(&main, &name("a"), b"sealed").unwrap();
    let held = "SELECT count(*) FROM shard.blobs";
    assert_eq!(two.sql("postgres", held), "1");
    assert_eq!(one.sql("postgres", "SELECT to_regclass('shard.blobs') IS NULL"), "t");
    // The second becomes a replica and the first the leader: connections that are open find out by being
    // refused, and those that are made next go to the first.
    one.sql("postgres", writable);
    one.kill();
    one.restart();
    drop(open(&format!("postgres://guest:right@127.0.0.1:{first}/postgres")).unwrap());
    two.sql("postgres", read_only);
    two.sql("postgres", "SELECT pg_reload_conf()");
    let put = || rows.put_blob(&main, &name("b"), b"sealed");
    let mut outcomes = std::iter::repeat_with(put).take(1000);
    let refused = outcomes.find(Result::is_err).expect("the second one refuses in the end");
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    rows.put_blob(&main, &name("b"), b"sealed").unwrap();
    assert_eq!(one.sql("postgres", held), "1");
}

#[test]
fn tls_is_used_where_it_is_asked_for_and_a_certificate_of_nobody_is_refused() {
    let Some(mut cluster) = cluster_of_guests() else { return };
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let certificate = cluster.write("certificate.pem", &made.cert.pem());
    let key = cluster.write("key.pem", &made.signing_key.serialize_pem());
    for (setting, value) in [
        ("ssl_cert_file", certificate.to_string_lossy()),
        ("ssl_key_file", key.to_string_lossy()),
        ("ssl", "on".into()),
    ] {
        cluster.sql("postgres", &format!("ALTER SYSTEM SET {setting} = '{value}'"));
    }
    cluster.kill();
    cluster.restart();
    let port = cluster.port();
    let text = |rest: &str| format!("postgres://guest:right@127.0.0.1:{port}/postgres?{rest}");
    let directory = tempfile::tempdir().unwrap();
    let authority = directory.path().join("authority.pem");
    std::fs::write(&authority, made.cert.pem()).unwrap();
    let trusted = format!("sslmode=verify-full&sslrootcert={}", authority.display());
    let rows = open(&text(&trusted)).unwrap();
    let used = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let used = rows.wait(|| rows.ask("ask", used, &[])).unwrap();
    assert!(used[0].get::<_, bool>(0));
    let refused = open(&text("sslmode=require")).err().expect("nobody vouches for it").to_string();
    assert!(refused.contains("certificate"), "{refused}");
}
