//! Three embedded engines under the load of a vault of 100,000 documents: SQLite in WAL mode, LMDB
//! and redb. Prints JSON.
//!
//! A vault stores rows in chunks of 128, each as two values (72 KB for routing, 98 KB of vectors),
//! and a root of 22 KB that is rewritten by every commit. Measured are, as medians of `ROUNDS`:
//!
//! * `write_ms`: all values in one durable commit,
//! * `open_ms`: open the file and read the root,
//! * `bulk_read_ms`: open the file and read every routing value,
//! * `change_ms` and `change_bytes`: one durable commit of a chunk and the root, and what it wrote,
//! * `read_while_writing_ms`: open and read the root while another process has begun to write;
//!   `null` if that is refused.
//!
//! Usage: `cargo run --release --manifest-path benches/engines/Cargo.toml [DIRECTORY]`

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

const CHUNKS: u64 = 782;
const ROUTING_BYTES: usize = 72 << 10;
const VECTORS_BYTES: usize = 96 << 10;
const ROOT_BYTES: usize = 22 << 10;
const ROUNDS: usize = 5;

/// The key of the root; values of chunk `c` have the keys `2 c` and `2 c + 1`.
const ROOT: u64 = u64::MAX >> 1;

trait Engine {
    fn open(directory: &Path) -> Result<Self, String>
    where
        Self: Sized;
    fn write(&self, values: &[(u64, Vec<u8>)]) -> Result<(), String>;
    fn read(&self, keys: &mut dyn Iterator<Item = u64>) -> Result<usize, String>;
    /// Begins to write and waits for a line on standard input.
    fn hold(&self) -> Result<(), String>;
}

struct Sqlite(rusqlite::Connection);

impl Engine for Sqlite {
    fn open(directory: &Path) -> Result<Self, String> {
        let open = || {
            let db = rusqlite::Connection::open(directory.join("sqlite"))?;
            db.pragma_update(None, "page_size", 32 << 10)?;
            db.pragma_update(None, "journal_mode", "wal")?;
            db.pragma_update(None, "synchronous", "full")?;
            db.execute_batch("CREATE TABLE IF NOT EXISTS vals (id INTEGER PRIMARY KEY, value BLOB)")?;
            Ok(Self(db))
        };
        open().map_err(|error: rusqlite::Error| error.to_string())
    }

    fn write(&self, values: &[(u64, Vec<u8>)]) -> Result<(), String> {
        let write = || {
            self.0.execute_batch("BEGIN IMMEDIATE")?;
            let mut statement = self.0.prepare("INSERT OR REPLACE INTO vals VALUES (?1, ?2)")?;
            for (key, value) in values {
                statement.execute((*key as i64, value))?;
            }
            self.0.execute_batch("COMMIT")?;
            self.0.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        };
        write().map_err(|error| error.to_string())
    }

    fn read(&self, keys: &mut dyn Iterator<Item = u64>) -> Result<usize, String> {
        let read = || {
            let mut statement = self.0.prepare("SELECT value FROM vals WHERE id = ?1")?;
            let mut bytes = 0;
            for key in keys {
                let value: Vec<u8> = statement.query_row([key as i64], |row| row.get(0))?;
                bytes += black_box(value).len();
            }
            Ok(bytes)
        };
        read().map_err(|error: rusqlite::Error| error.to_string())
    }

    fn hold(&self) -> Result<(), String> {
        self.0.execute_batch("BEGIN IMMEDIATE").map_err(|error| error.to_string())?;
        wait();
        Ok(())
    }
}

struct Lmdb {
    env: heed::Env,
    db: heed::Database<heed::types::U64<heed::byteorder::BigEndian>, heed::types::Bytes>,
}

impl Engine for Lmdb {
    fn open(directory: &Path) -> Result<Self, String> {
        let open = || {
            let directory = directory.join("lmdb");
            fs::create_dir_all(&directory)?;
            // SAFETY: nothing else writes to the file while the benchmark runs.
            let env = unsafe { heed::EnvOpenOptions::new().map_size(4 << 30).open(&directory)? };
            // A file that is there is opened without writing, which would wait for a writer.
            let reading = env.read_txn()?;
            let known = env.open_database(&reading, None)?;
            drop(reading);
            let db = match known {
                Some(db) => db,
                None => {
                    let mut transaction = env.write_txn()?;
                    let db = env.create_database(&mut transaction, None)?;
                    transaction.commit()?;
                    db
                }
            };
            Ok(Self { env, db })
        };
        open().map_err(|error: heed::Error| error.to_string())
    }

    fn write(&self, values: &[(u64, Vec<u8>)]) -> Result<(), String> {
        let write = || {
            let mut transaction = self.env.write_txn()?;
            for (key, value) in values {
                self.db.put(&mut transaction, key, value)?;
            }
            transaction.commit()
        };
        write().map_err(|error: heed::Error| error.to_string())
    }

    fn read(&self, keys: &mut dyn Iterator<Item = u64>) -> Result<usize, String> {
        let read = || {
            let transaction = self.env.read_txn()?;
            let mut bytes = 0;
            for key in keys {
                bytes += self.db.get(&transaction, &key)?.map_or(0, copied);
            }
            Ok(bytes)
        };
        read().map_err(|error: heed::Error| error.to_string())
    }

    fn hold(&self) -> Result<(), String> {
        let transaction = self.env.write_txn().map_err(|error| error.to_string())?;
        wait();
        drop(transaction);
        Ok(())
    }
}

struct Redb(redb::Database);

const TABLE: redb::TableDefinition<'_, u64, &[u8]> = redb::TableDefinition::new("vals");

impl Engine for Redb {
    fn open(directory: &Path) -> Result<Self, String> {
        let db = redb::Database::create(directory.join("redb"));
        db.map(Self).map_err(|error| error.to_string())
    }

    fn write(&self, values: &[(u64, Vec<u8>)]) -> Result<(), String> {
        let write = || -> Result<(), redb::Error> {
            let transaction = self.0.begin_write()?;
            {
                let mut table = transaction.open_table(TABLE)?;
                for (key, value) in values {
                    table.insert(key, value.as_slice())?;
                }
            }
            Ok(transaction.commit()?)
        };
        write().map_err(|error| error.to_string())
    }

    fn read(&self, keys: &mut dyn Iterator<Item = u64>) -> Result<usize, String> {
        use redb::ReadableDatabase;
        let mut read = || -> Result<usize, redb::Error> {
            let table = self.0.begin_read()?.open_table(TABLE)?;
            let mut bytes = 0;
            for key in &mut *keys {
                bytes += table.get(key)?.map_or(0, |value| copied(value.value()));
            }
            Ok(bytes)
        };
        read().map_err(|error| error.to_string())
    }

    fn hold(&self) -> Result<(), String> {
        let transaction = self.0.begin_write().map_err(|error| error.to_string())?;
        wait();
        drop(transaction);
        Ok(())
    }
}

/// Copies a value out of the engine, as whoever opens its seal does.
fn copied(value: &[u8]) -> usize {
    black_box(value.to_vec()).len()
}

fn wait() {
    println!("holding");
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Bytes that are not compressible and differ by key and round.
fn bytes(key: u64, round: u64, length: usize) -> Vec<u8> {
    let mut state = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (round << 56) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let words = (0..length / 8).flat_map(|_| next().to_le_bytes());
    words.collect()
}

fn chunk(number: u64, round: u64) -> [(u64, Vec<u8>); 2] {
    [
        (2 * number, bytes(2 * number, round, ROUTING_BYTES)),
        (2 * number + 1, bytes(2 * number + 1, round, VECTORS_BYTES)),
    ]
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn timed<T>(action: impl FnOnce() -> Result<T, String>) -> Result<f64, String> {
    let start = Instant::now();
    action()?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// Bytes that this process has handed to the disk.
fn written() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

fn measure<E: Engine>(name: &str, directory: &Path) -> Result<Value, String> {
    let all: Vec<(u64, Vec<u8>)> = (0..CHUNKS)
        .flat_map(|number| chunk(number, 0))
        .chain([(ROOT, bytes(ROOT, 0, ROOT_BYTES))])
        .collect();
    let mut figures = [const { Vec::new() }; 4];
    let mut change_bytes = Vec::new();
    let mut last = PathBuf::new();
    for round in 0..ROUNDS as u64 {
        last = directory.join(format!("{name}-{round}"));
        fs::create_dir_all(&last).map_err(|error| error.to_string())?;
        let engine = E::open(&last)?;
        figures[0].push(timed(|| engine.write(&all))?);
        drop(engine);
        figures[1].push(timed(|| E::open(&last)?.read(&mut [ROOT].into_iter()))?);
        figures[2].push(timed(|| E::open(&last)?.read(&mut (0..CHUNKS).map(|c| 2 * c)))?);
        let engine = E::open(&last)?;
        let mut values = chunk(CHUNKS / 2, round + 1).to_vec();
        values.push((ROOT, bytes(ROOT, round + 1, ROOT_BYTES)));
        let before = written();
        figures[3].push(timed(|| engine.write(&values))?);
        change_bytes.push((written() - before) as f64);
    }
    let [write, open, bulk, change] = figures.map(median);
    Ok(json!({
        "engine": name,
        "write_ms": write,
        "open_ms": open,
        "bulk_read_ms": bulk,
        "change_ms": change,
        "change_bytes": median(change_bytes),
        "read_while_writing_ms": read_while_writing::<E>(name, &last).ok(),
        "file_bytes": size(&last),
    }))
}

fn size(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let length = |entry: fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => size(&entry.path()),
        Ok(data) => data.len(),
        Err(_) => 0,
    };
    entries.map(length).sum()
}

fn read_while_writing<E: Engine>(name: &str, directory: &Path) -> Result<f64, String> {
    use std::io::{BufRead, BufReader, Write};
    let failed = |error: std::io::Error| error.to_string();
    let mut holder = Command::new(std::env::current_exe().map_err(failed)?)
        .args(["hold", name])
        .arg(directory)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    let output = holder.stdout.take().ok_or("no output")?;
    BufReader::new(output).read_line(&mut line).map_err(failed)?;
    let outcome = if line.trim() == "holding" {
        timed(|| E::open(directory)?.read(&mut [ROOT].into_iter()))
    } else {
        Err("the holder could not begin".into())
    };
    let _ = holder.stdin.take().ok_or("no input")?.write_all(b"\n");
    let _ = holder.wait();
    outcome
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, name, directory] = &arguments[..]
        && command == "hold"
    {
        let directory = Path::new(directory);
        return match name.as_str() {
            "sqlite" => Sqlite::open(directory)?.hold(),
            "lmdb" => Lmdb::open(directory)?.hold(),
            _ => Redb::open(directory)?.hold(),
        };
    }
    let parent = arguments.first().map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = tempfile::tempdir_in(parent).map_err(|error| error.to_string())?;
    let report = json!([
        measure::<Sqlite>("sqlite", directory.path())?,
        measure::<Lmdb>("lmdb", directory.path())?,
        measure::<Redb>("redb", directory.path())?,
    ]);
    println!("{report:#}");
    Ok(())
}
