//! The SQLite file: how it is opened, what is in it, and what its errors mean here.
//!
//! ```text
//! root(id = 1, value)          the sealed root of the last commit
//! vals(id, value)              sealed values; id = slot
//! ```
//!
//! SQLite keeps a write-ahead log beside the file: readers see the commit before theirs began, wait
//! for nobody, and nobody waits for them. Everything a commit writes is in the log and on disk
//! before the commit is reported, and is then moved into the file itself.
//!
//! Nothing in the file is trusted: the schema must be this one, word for word, and whatever is read
//! is opened with a key.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};

use super::error::VaultError;
use super::value::{FORMAT, MAX_VALUE_BYTES};

/// The database.
pub(super) const DATABASE: &str = "vault.sqlite";
/// What SQLite keeps beside it: the log, its index, and the journal of the moment when the file is
/// made.
pub(super) const BESIDE: [&str; 3] =
    ["vault.sqlite-wal", "vault.sqlite-shm", "vault.sqlite-journal"];

/// "Shrd": says that an SQLite file is a vault.
const APPLICATION_ID: i32 = 0x5368_7264;

/// Large, because values are: a value of 100 KB is a handful of pages.
const PAGE_BYTES: u32 = 32 << 10;

/// How long to wait for the moments in which SQLite does exclude others: while the log is made,
/// recovered or removed.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a writer waits for another before it gives up.
const WRITER_PATIENCE: Duration = Duration::from_millis(250);

const SCHEMA: [(&str, &str); 2] = [
    ("root", "CREATE TABLE root (id INTEGER PRIMARY KEY CHECK (id = 1), value BLOB NOT NULL)"),
    ("vals", "CREATE TABLE vals (id INTEGER PRIMARY KEY, value BLOB NOT NULL)"),
];

/// Makes the file, which must not be there yet, for its owner only.
pub(super) fn create(file: &Path) -> Result<Connection, VaultError> {
    let failed = |error| VaultError::database("make", file, error);
    let db = Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .map_err(failed)?;
    db.pragma_update(None, "page_size", PAGE_BYTES).map_err(failed)?;
    db.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
    db.pragma_update(None, "user_version", FORMAT).map_err(failed)?;
    for (_, sql) in SCHEMA {
        db.execute_batch(sql).map_err(failed)?;
    }
    db.pragma_update(None, "journal_mode", "wal").map_err(failed)?;
    configure(&db).map_err(failed)?;
    Ok(db)
}

/// Opens the file.
pub(super) fn open(file: &Path) -> Result<Connection, VaultError> {
    let failed = |error| VaultError::database("open", file, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = match Connection::open_with_flags(file, flags).and_then(usable) {
        Ok(db) => db,
        // On a disk that is read only there can be no log beside the file; without one, the file
        // is all there is and nobody can change it.
        Err(error) if cannot_write(&error) && !has_log(file) => {
            let uri = format!("file:{}?immutable=1", escaped(file));
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
                | OpenFlags::SQLITE_OPEN_NO_MUTEX
                | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(uri, flags).and_then(usable).map_err(failed)?
        }
        Err(error) => return Err(failed(error)),
    };
    check_schema(&db, file)?;
    Ok(db)
}

/// A connection that has been configured and has read from the file.
fn usable(db: Connection) -> rusqlite::Result<Connection> {
    configure(&db)?;
    db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))?;
    Ok(db)
}

fn configure(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(PATIENCE)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    db.pragma_update(None, "synchronous", "full")?;
    db.pragma_update(None, "cell_size_check", true)?;
    // Moved into the file when a commit is done, not in its middle.
    db.pragma_update(None, "wal_autocheckpoint", 0)
}

fn check_schema(db: &Connection, file: &Path) -> Result<(), VaultError> {
    let failed = |error| VaultError::database("read", file, error);
    let number = |name| db.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    if number("application_id").map_err(failed)? != APPLICATION_ID {
        return Err(VaultError::NotShardFile { file: file.to_owned() });
    }
    let found = number("user_version").map_err(failed)?;
    if found != i32::from(FORMAT) {
        return Err(VaultError::UnsupportedVersion {
            file: file.to_owned(),
            found: found.into(),
            supported: FORMAT.into(),
        });
    }
    let mut statement =
        db.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").map_err(failed)?;
    let text = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
    let tables = statement.query_map([], text).map_err(failed)?;
    let tables = tables.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let expected = SCHEMA.map(|(name, sql)| (name.to_owned(), sql.to_owned()));
    if tables == expected { Ok(()) } else { Err(VaultError::Damaged { file: file.to_owned() }) }
}

/// Begins to read: what is read from now on is of one commit.
pub(super) fn begin_reading(db: &Connection, file: &Path) -> Result<(), VaultError> {
    db.execute_batch("BEGIN").map_err(|error| VaultError::database("read", file, error))
}

/// Begins to write; of two writers the second is refused.
pub(super) fn begin_writing(db: &Connection, file: &Path) -> Result<(), VaultError> {
    let failed = |error| VaultError::database("write to", file, error);
    // SQLite would take it for reading, and refuse the first value that is written.
    if db.is_readonly("main").map_err(failed)? {
        let source = std::io::ErrorKind::ReadOnlyFilesystem.into();
        return Err(VaultError::io("write to", file)(source));
    }
    let begun = db
        .busy_timeout(WRITER_PATIENCE)
        .and_then(|()| db.execute_batch("BEGIN IMMEDIATE"))
        .and_then(|()| db.busy_timeout(PATIENCE));
    begun.map_err(failed)
}

/// Makes what was written since [`begin_writing`] durable.
pub(super) fn commit(db: &Connection, file: &Path) -> Result<(), VaultError> {
    db.execute_batch("COMMIT").map_err(|error| VaultError::database("write to", file, error))?;
    settle(db);
    Ok(())
}

/// Moves the log into the file. What readers in the middle of the log keep from being moved, the
/// next commit moves; the commit is durable either way.
fn settle(db: &Connection) {
    let _ = db.busy_timeout(Duration::ZERO);
    let _ = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    let _ = db.busy_timeout(PATIENCE);
}

/// The sealed root.
pub(super) fn root(db: &Connection, file: &Path) -> Result<Vec<u8>, VaultError> {
    let found = db.query_row("SELECT value FROM root WHERE id = 1", [], |row| row.get(0));
    found
        .optional()
        .map_err(|error| VaultError::database("read", file, error))?
        .ok_or_else(|| VaultError::Damaged { file: file.to_owned() })
}

/// A sealed value, if it is there.
pub(super) fn value(db: &Connection, id: i64, file: &Path) -> Result<Option<Vec<u8>>, VaultError> {
    let read = || {
        let mut statement = db.prepare_cached("SELECT value FROM vals WHERE id = ?1")?;
        statement.query_row([id], |row| row.get(0)).optional()
    };
    read().map_err(|error| VaultError::database("read", file, error))
}

/// The length of a value, if it is there.
pub(super) fn length(db: &Connection, id: i64, file: &Path) -> Result<Option<u64>, VaultError> {
    let read = || {
        let mut statement = db.prepare_cached("SELECT length(value) FROM vals WHERE id = ?1")?;
        statement.query_row([id], |row| row.get(0)).optional()
    };
    read().map_err(|error| VaultError::database("read", file, error))
}

/// Gives back the room of what was removed. Others may be reading: then the next time.
#[cfg(feature = "remote")]
pub(super) fn shrink(db: &Connection) {
    let _ = db.execute_batch("VACUUM");
    settle(db);
}

/// Writes the root, or a value.
pub(super) fn put(db: &Connection, at: Place, bytes: &[u8], file: &Path) -> Result<(), VaultError> {
    debug_assert!(bytes.len() <= MAX_VALUE_BYTES);
    let write = || {
        let (sql, id) = match at {
            Place::Root => ("INSERT OR REPLACE INTO root (id, value) VALUES (?1, ?2)", 1),
            Place::Value(id) => ("INSERT OR REPLACE INTO vals (id, value) VALUES (?1, ?2)", id),
        };
        db.prepare_cached(sql)?.execute((id, bytes))
    };
    write().map(drop).map_err(|error| VaultError::database("write to", file, error))
}

/// Where [`put`] writes.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Root,
    Value(i64),
}

/// Removes a value.
pub(super) fn remove(db: &Connection, id: i64, file: &Path) -> Result<(), VaultError> {
    let write = || db.prepare_cached("DELETE FROM vals WHERE id = ?1")?.execute([id]);
    write().map(drop).map_err(|error| VaultError::database("write to", file, error))
}

/// The ids of all values.
pub(super) fn ids(db: &Connection, file: &Path) -> Result<Vec<i64>, VaultError> {
    let read = || {
        let mut statement = db.prepare("SELECT id FROM vals ORDER BY id")?;
        let ids = statement.query_map([], |row| row.get(0))?;
        ids.collect::<Result<_, _>>()
    };
    read().map_err(|error| VaultError::database("read", file, error))
}

/// Lets SQLite look at every page of the file.
pub(super) fn check_pages(db: &Connection, file: &Path) -> Result<(), VaultError> {
    let failed = |error| VaultError::database("read", file, error);
    let verdict: String =
        db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if verdict == "ok" { Ok(()) } else { Err(VaultError::Damaged { file: file.to_owned() }) }
}

fn has_log(file: &Path) -> bool {
    let log = file.with_file_name(BESIDE[0]);
    std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
}

fn cannot_write(error: &rusqlite::Error) -> bool {
    let codes = [ErrorCode::CannotOpen, ErrorCode::ReadOnly, ErrorCode::PermissionDenied];
    error.sqlite_error_code().is_some_and(|code| codes.contains(&code))
}

/// A path inside a URI: everything but plain characters in hexadecimal.
fn escaped(file: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    let bytes = file.as_os_str().as_encoded_bytes().iter();
    bytes.map(|&b| if plain(b) { char::from(b).into() } else { format!("%{b:02X}") }).collect()
}
