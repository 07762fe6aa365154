//! A table, asked of its server in one read-only transaction.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Map;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, IsolationLevel, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::value::Class;
use super::{Columns, Places};
use crate::collect::Collector;
use crate::{ImportError, Imported, MAX_DIMENSION, Reason, tls};

/// Rows that are brought at a time.
const ROWS_AT_ONCE: i32 = 1_000;

/// The longest time until a connection is there.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads a table or a view, `name` or `schema.name`, exactly as it is written in the catalogue.
///
/// The connection string is `postgres://user@host/database`. Of the modes of TLS, `disable` uses none,
/// `prefer` (the default) and `require` check the server's certificate where TLS is used, as `verify-full`
/// does; `sslrootcert` names a file of authorities in place of the platform's. `password`, if there is one,
/// stands in for one that the connection string does not have.
///
/// # Errors
/// When the server cannot be reached or refuses, or there is no such table or column.
pub fn query(
    connection: &str,
    password: Option<&str>,
    table: &str,
    columns: Columns<'_>,
) -> Result<Imported, ImportError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ImportError::Option(format!("no threads: {error}")))?;
    let (config, authorities) = configuration(connection, password)?;
    let server = shown(&config);
    let refused = |error: tokio_postgres::Error| ImportError::Server {
        server: server.clone(),
        what: said(&error),
    };
    runtime.block_on(async {
        let tls = MakeRustlsConnect::new(tls::configuration(authorities.as_deref())?);
        let (mut client, link) = config.connect(tls).await.map_err(refused)?;
        let link = tokio::spawn(link);
        let imported = read(&mut client, table, columns, &refused).await;
        drop(client);
        let _ = link.await; // it ends with the client, and what it met was told by the requests
        imported
    })
}

/// The connection string without what the client library does not know.
fn configuration(
    connection: &str,
    password: Option<&str>,
) -> Result<(Config, Option<PathBuf>), ImportError> {
    let (address, parameters) = connection.split_once('?').unwrap_or((connection, ""));
    let (mut kept, mut authorities, mut mode) = (Vec::new(), None, None);
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=') {
            Some(("sslmode", "disable")) => mode = Some(SslMode::Disable),
            Some(("sslmode", "allow" | "prefer")) => mode = Some(SslMode::Prefer),
            Some(("sslmode", "require" | "verify-ca" | "verify-full")) => {
                mode = Some(SslMode::Require);
            }
            Some(("sslmode", _)) => return Err(ImportError::Option("an unknown sslmode".into())),
            Some(("sslrootcert", file)) => {
                let mut pairs = url::form_urlencoded::parse(file.as_bytes());
                authorities = pairs.next().map(|(file, _)| PathBuf::from(file.into_owned()));
            }
            _ => kept.push(parameter),
        }
    }
    let whole = zeroize::Zeroizing::new(format!("{address}?{}", kept.join("&")));
    // The library's message may repeat the string, and a password with it.
    let wrong = |_| {
        ImportError::Option("the connection string is not postgres://user@host/database".into())
    };
    let mut config: Config = whole.parse().map_err(wrong)?;
    if let (None, Some(password)) = (config.get_password(), password) {
        config.password(password);
    }
    // Whoever is on the way to another machine could take TLS away and ask for the password.
    let default = if is_local(&config) { SslMode::Prefer } else { SslMode::Require };
    config.ssl_mode(mode.unwrap_or(default)).application_name("shard import");
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(PATIENCE);
    }
    Ok((config, authorities))
}

/// Whether every server of a connection string is on this machine.
fn is_local(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        tokio_postgres::config::Host::Tcp(name) => {
            let address = name.parse::<std::net::IpAddr>();
            name == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        tokio_postgres::config::Host::Unix(_) => true,
    })
}

/// The server, without a password.
fn shown(config: &Config) -> String {
    let host = config.get_hosts().first().map(|host| match host {
        tokio_postgres::config::Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
    });
    format!(
        "{}/{}",
        host.as_deref().unwrap_or("PostgreSQL"),
        config.get_dbname().unwrap_or_default()
    )
}

/// What a server or the way to it says, in one line.
fn said(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => {
            let mut innermost: &dyn std::error::Error = error;
            while let Some(source) = innermost.source() {
                innermost = source;
            }
            innermost.to_string()
        }
    }
}

async fn read(
    client: &mut Client,
    table: &str,
    columns: Columns<'_>,
    refused: &impl Fn(tokio_postgres::Error) -> ImportError,
) -> Result<Imported, ImportError> {
    // One state of the table, whatever others write meanwhile.
    let transaction = client.build_transaction().read_only(true);
    let transaction = transaction.isolation_level(IsolationLevel::RepeatableRead).start().await;
    let transaction = transaction.map_err(refused)?;
    let name: Vec<String> = table.split('.').map(quoted).collect();
    let name = name.join(".");
    let described = transaction
        .query(
            "SELECT a.attname, t.typname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid \
             WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            &[&name],
        )
        .await
        .map_err(refused)?;
    if described.is_empty() {
        let tables = transaction
            .query(
                "SELECT table_schema || '.' || table_name FROM information_schema.tables WHERE table_schema \
                 NOT IN ('pg_catalog', 'information_schema') ORDER BY 1 LIMIT 20",
                &[],
            )
            .await
            .map_err(refused)?;
        let present = tables.iter().map(|row| row.get(0)).collect();
        return Err(ImportError::Missing { what: "table", name: table.to_owned(), present });
    }
    let names: Vec<String> = described.iter().map(|row| row.get(0)).collect();
    let types: Vec<String> = described.iter().map(|row| row.get(1)).collect();
    let places = columns.find(&names)?;
    let kind = &types[places.vector];
    if !matches!(&kind[..], "vector" | "halfvec" | "_float4") {
        let why = format!(
            "the column {:?} is {kind:?}, and vectors are vector, halfvec or real[]",
            columns.vector
        );
        return Err(ImportError::unsupported(table, why));
    }
    let count = transaction.query_one(&format!("SELECT count(*) FROM {name}"), &[]).await;
    let claimed: i64 = count.map_err(refused)?.get(0);
    let claimed = usize::try_from(claimed).unwrap_or(usize::MAX);

    let mut wanted = vec![
        format!("{}::text", quoted(&names[places.id])),
        format!("{}::real[]", quoted(&names[places.vector])),
    ];
    wanted.extend(places.fields.iter().map(|(at, _)| format!("{}::text", quoted(&names[*at]))));
    let sql = format!("SELECT {} FROM {name}", wanted.join(", "));
    let portal = transaction.bind(&sql, &[]).await.map_err(refused)?;
    let classes: Vec<Class> = places.fields.iter().map(|(at, _)| Class::of(&types[*at])).collect();
    let mut collector = Collector::new(None);
    if kind == "halfvec" {
        collector.note("the vectors are halfvec: their values have eleven significant bits");
    }
    loop {
        let rows = transaction.query_portal(&portal, ROWS_AT_ONCE).await.map_err(refused)?;
        if rows.is_empty() {
            break;
        }
        for row in rows {
            take(&row, &places, &classes, &mut collector).map_err(refused)?;
        }
    }
    transaction.rollback().await.map_err(refused)?;
    collector.finish(&format!("the table {table}"), claimed)
}

fn take(
    row: &Row,
    places: &Places,
    classes: &[Class],
    collector: &mut Collector,
) -> Result<(), tokio_postgres::Error> {
    let Some(id) = row.try_get::<_, Option<String>>(0)?.filter(|id| !id.is_empty()) else {
        collector.refuse(format!("row {}", collector.seen() + 1), Reason::NoId);
        return Ok(());
    };
    let Some(values) = row.try_get::<_, Option<Vec<Option<f32>>>>(1)? else {
        collector.refuse(id, Reason::NoVector);
        return Ok(());
    };
    // An element of real[] may be NULL.
    let vector: Vec<f32> =
        values.into_iter().take(MAX_DIMENSION + 1).map(|v| v.unwrap_or(f32::NAN)).collect();
    let mut fields = Map::new();
    for ((at, (_, name)), class) in places.fields.iter().enumerate().zip(classes) {
        let text = row.try_get::<_, Option<String>>(at + 2)?;
        fields.insert(name.clone(), text.map(|text| class.value(text)).into());
    }
    collector.push(id, &vector, fields);
    Ok(())
}

/// An identifier as SQL takes it literally.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_quoted() {
        assert_eq!(quoted("Docs"), "\"Docs\"");
        assert_eq!(quoted("a\"; DROP TABLE b; --"), "\"a\"\"; DROP TABLE b; --\"");
    }

    #[test]
    fn modes_of_tls_are_respected_and_passwords_are_not_shown() {
        let parsed = |text: &str| configuration(text, Some("other"));
        let (config, authorities) = parsed("postgres://me:secret@host:5433/db").unwrap();
        assert_eq!(config.get_ssl_mode(), SslMode::Require);
        for local in ["postgres://me@localhost/db", "postgres://me@127.0.0.1/db"] {
            assert_eq!(parsed(local).unwrap().0.get_ssl_mode(), SslMode::Prefer);
        }
        assert_eq!(config.get_password(), Some(&b"secret"[..]));
        assert_eq!((shown(&config), authorities), ("host/db".to_owned(), None));
        let (config, authorities) =
            parsed("postgres://me@host/db?sslmode=verify-full&sslrootcert=%2Fa%20b").unwrap();
        assert_eq!(config.get_ssl_mode(), SslMode::Require);
        assert_eq!(config.get_password(), Some(&b"other"[..]));
        assert_eq!(authorities, Some("/a b".into()));
        let (config, _) =
            parsed("postgres://me@host/db?sslmode=disable&connect_timeout=5").unwrap();
        assert_eq!(config.get_ssl_mode(), SslMode::Disable);
        for wrong in
            ["postgres://me:secret@host/db?sslmode=maybe", "postgres://me:secret@host/db?secret=1"]
        {
            let error = parsed(wrong).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
