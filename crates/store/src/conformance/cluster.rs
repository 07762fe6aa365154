//! A PostgreSQL of a test's own: from the machine's programs, in a directory that goes with the process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take until it answers, or has ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// Tells apart what one process makes.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A server of PostgreSQL with one role, `postgres`, that needs no password over its socket, and one, `guest`
/// of password `right`, over TCP. It ends, and its directory is removed, when this is dropped or the process ends.
pub struct Cluster {
    programs: PathBuf,
    directory: PathBuf,
    port: u16,
    server: Child,
    /// Of servers that were killed.
    pipes: Vec<ChildStdin>,
}

impl Cluster {
    /// Starts one; `None`, and a sentence on standard error, where the machine has no PostgreSQL.
    ///
    /// # Panics
    /// When it does not start, and without PostgreSQL when the variable `CI` is set.
    pub fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            assert!(std::env::var_os("CI").is_none(), "no PostgreSQL, and CI needs one");
            eprintln!("skipped: there is no PostgreSQL on this machine (.ci/postgres installs it)");
            return None;
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("shard-postgres-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        run(as_postgres("mkdir").args(["-m", "700"]).arg(&directory));
        run(command("initdb", &programs)
            .args(["--no-sync", "--auth-local=trust", "--auth-host=scram-sha-256"])
            .args(["--username=postgres", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(directory.join("data")));
        let port = free_port();
        let server = serve(&programs, &directory, port);
        let mut cluster = Self { programs, directory, port, server, pipes: Vec::new() };
        cluster.await_answer();
        cluster.sql("postgres", "CREATE ROLE guest LOGIN PASSWORD 'right'");
        Some(cluster)
    }

    /// Makes an empty database and returns its connection string, for the role that may do everything.
    pub fn database(&self) -> String {
        let name = format!("test{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.address(&name)
    }

    /// The connection string of a database, for the role that may do everything.
    pub fn address(&self, database: &str) -> String {
        let socket = self.directory.to_string_lossy().replace('/', "%2F");
        format!("postgres://postgres@{socket}:{}/{database}", self.port)
    }

    /// The port on 127.0.0.1, where roles need a password.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Dumps the schema `shard` of a database, restores it into a new one, and returns that one's connection
    /// string.
    ///
    /// # Panics
    /// When a program of PostgreSQL refuses.
    pub fn restored(&self, database: &str) -> String {
        let copy = self.database();
        let (dump, port) = (self.directory.join("dump.sql"), self.port.to_string());
        let program = |name: &str, database: &str| {
            let mut command = command(name, &self.programs);
            command.args(["-U", "postgres", "-p", &port, "-h"]).arg(&self.directory);
            command.args(["-d", database, "-f"]).arg(&dump);
            command
        };
        run(program("pg_dump", database).args(["-n", "shard"]));
        let name = copy.rsplit('/').next().expect("a connection string ends with its database");
        run(program("psql", name).args(["-X", "-q", "-v", "ON_ERROR_STOP=1"]));
        copy
    }

    /// Runs SQL as the role that may do everything, and returns what is printed.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let done = run(command("psql", &self.programs)
            .args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"])
            .arg(&self.directory)
            .args(["-p", &self.port.to_string(), "-d", database, "-c", sql]));
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }

    /// Writes a file for the server alone to read, beside its data, and returns its path.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.join(name);
        let script = "umask 077 && printf %s \"$1\" > \"$2\"";
        run(as_postgres("sh").args(["-c", script, "sh", text]).arg(&path));
        path
    }

    /// Starts a server again that was killed.
    ///
    /// # Panics
    /// When it does not come back.
    pub fn restart(&mut self) {
        self.server = serve(&self.programs, &self.directory, self.port);
        self.await_answer();
    }

    /// Kills the server, at once and without a word.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self) {
        let file = self.directory.join("data/postmaster.pid");
        let number = fs::read_to_string(&file).expect("a server that runs has such a file");
        let number = number.lines().next().expect("its number").to_owned();
        run(Command::new("kill").args(["-9", &number]));
        // Waiting for the shell would close the pipe, which is the sign to clean up.
        self.pipes.extend(self.server.stdin.take());
        let _ = self.server.wait();
    }

    fn await_answer(&mut self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let ready = command("pg_isready", &self.programs)
                .args(["-q", "-h"])
                .arg(&self.directory)
                .args(["-p", &self.port.to_string()])
                .status();
            if ready.is_ok_and(|status| status.success()) {
                return;
            }
            // The next one does not start before the children of a killed one have gone.
            if self.server.try_wait().is_ok_and(|ended| ended.is_some()) {
                self.server = serve(&self.programs, &self.directory, self.port);
            }
            assert!(Instant::now() < end, "PostgreSQL does not start; see {:?}", self.directory);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The shell ends the server when there is nothing left to read.
        drop(self.server.stdin.take());
        let _ = self.server.wait();
    }
}

/// A server under a shell that ends it, and removes its directory, when the pipe to it is closed: by whoever
/// holds the cluster, or by the end of the process, however it comes.
fn serve(programs: &Path, directory: &Path, port: u16) -> Child {
    const SCRIPT: &str = r#"
        "$1/postgres" -D "$2/data" -k "$2" -p "$3" -c listen_addresses=127.0.0.1 -c fsync=off \
            -c max_connections=200 >>"$2/log" 2>&1 </dev/null &
        server=$!
        (
            read -r _
            # Not if it was killed, and another one serves the directory.
            [ "$(head -n 1 "$2/data/postmaster.pid")" = "$server" ] || exit
            kill -INT $server
            while kill -0 $server 2>/dev/null; do sleep 0.05; done
            rm -rf "$2"
        ) <&3 >/dev/null 2>&1 &
        wait $server
    "#;
    let script = format!("exec 3<&0\n{SCRIPT}");
    let mut shell = as_postgres("sh");
    shell.args(["-c", &script, "sh"]).arg(programs).arg(directory).arg(port.to_string());
    let shell = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.spawn().expect("there is a shell")
}

/// The newest PostgreSQL of this machine: Debian's place first, then whatever the path has.
pub fn programs() -> Option<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect();
    found.sort();
    let places = found.into_iter().rev().map(|(_, path)| path.join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = places.chain(std::env::split_paths(&path)).collect();
    places.into_iter().find(|place| place.join("initdb").is_file())
}

/// A command of the user `postgres` if this is root, whom PostgreSQL refuses.
///
/// # Panics
/// On a machine without a command `id`.
pub fn as_postgres(program: &str) -> Command {
    let who = Command::new("id").arg("-u").output().expect("there is a command id");
    if who.stdout.trim_ascii() != b"0" {
        return Command::new(program);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--", program]).current_dir("/");
    command
}

fn command(program: &str, programs: &Path) -> Command {
    as_postgres(&programs.join(program).to_string_lossy())
}

fn run(command: &mut Command) -> Output {
    let done = command.stdin(Stdio::null()).output().expect("the command is there");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{command:?}: {said}");
    done
}

/// A port of 127.0.0.1 on which nobody listened just now.
///
/// # Panics
/// When there is none.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("it is bound").port()
}
