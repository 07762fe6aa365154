//! Three PostgreSQL servers under Patroni, which keeps its state in three etcd: what a platform team runs.
//!
//! Commits wait for a second server (`synchronous_mode_strict`): what a leader acknowledged, its successor has.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use shard_store::conformance::{as_postgres, free_port, programs};

use super::super::served::finished;

const NODES: usize = 3;

/// How long until there is a leader that others follow; a lost one's lease alone takes twenty seconds.
const PATIENCE: Duration = Duration::from_secs(180);

const GLANCE: Duration = Duration::from_millis(100);

pub(super) struct Patroni {
    /// These end with the directory they are in.
    _etcd: Vec<Child>,
    nodes: Vec<Node>,
}

/// A PostgreSQL and the Patroni beside it.
struct Node {
    data: PathBuf,
    configuration: PathBuf,
    port: u16,
    /// Of Patroni's own interface.
    rest: u16,
    patroni: Option<Child>,
}

/// What Patroni says of the three.
#[derive(Deserialize)]
struct Said {
    members: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    role: String,
    state: String,
}

impl Patroni {
    /// Starts them in a directory, whose owner may be another than PostgreSQL's.
    pub(super) fn start(directory: &Path) -> Result<Self> {
        let programs =
            programs().context("there is no PostgreSQL on this machine (.ci/postgres)")?;
        // PostgreSQL runs as somebody else where this is root.
        fs::set_permissions(directory, Permissions::from_mode(0o755))?;
        let (etcd, endpoints) = start_etcd(directory)?;
        let mut patroni = Self { _etcd: etcd, nodes: Vec::new() };
        for number in 0..NODES {
            let place = directory.join(format!("postgres{number}"));
            fs::create_dir(&place)?;
            fs::set_permissions(&place, Permissions::from_mode(0o777))?;
            let node = Node {
                data: place.join("data"),
                configuration: place.join("patroni.yml"),
                port: free_port(),
                rest: free_port(),
                patroni: None,
            };
            fs::write(&node.configuration, node.settings(number, &programs, &endpoints)?)?;
            patroni.nodes.push(node);
            patroni.nodes[number].run()?;
        }
        patroni.until_whole()?;
        let leader = patroni.leader()?;
        let mut create = Command::new(programs.join("psql"));
        create.args(["-X", "-q", "-h", "127.0.0.1", "-U", "postgres", "-d", "postgres", "-p"]);
        create.arg(patroni.nodes[leader].port.to_string()).args(["-c", "CREATE DATABASE shard"]);
        finished(&mut create).context("cannot make the database")?;
        Ok(patroni)
    }

    /// All three in one URL: a server finds the writable one.
    pub(super) fn url(&self) -> String {
        let hosts: Vec<String> =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("postgres://postgres@{}/shard", hosts.join(","))
    }

    /// Kills the leader's PostgreSQL and its Patroni at once, as a lost machine does. Returns which it was.
    pub(super) fn kill_leader(&mut self) -> Result<usize> {
        let leader = self.leader()?;
        let node = &mut self.nodes[leader];
        let file = node.data.join("postmaster.pid");
        let number = fs::read_to_string(&file).with_context(|| format!("no {}", file.display()))?;
        let number = number.lines().next().context("a server's number")?.to_owned();
        kill_all(&node.configuration)?;
        finished(Command::new("kill").args(["-9", &number]))?;
        if let Some(mut patroni) = node.patroni.take() {
            patroni.wait()?;
        }
        Ok(leader)
    }

    /// Starts a killed one again and waits until it follows.
    pub(super) fn mend(&mut self, number: usize) -> Result<()> {
        self.nodes[number].run()?;
        self.until_whole()
    }

    fn leader(&self) -> Result<usize> {
        let start = Instant::now();
        loop {
            let leads =
                |node: &Node| get(node.rest, "/leader").is_some_and(|(status, _)| status == 200);
            if let Some(leader) = self.nodes.iter().position(leads) {
                return Ok(leader);
            }
            self.patience(start, "there is no leader")?;
        }
    }

    /// Waits until there is a leader, one that it waits for, and nobody else missing.
    fn until_whole(&self) -> Result<()> {
        let start = Instant::now();
        while !self.nodes.iter().any(|node| node.sees_all()) {
            self.patience(start, "PostgreSQL's three servers do not follow each other")?;
        }
        Ok(())
    }

    fn patience(&self, start: Instant, what: &str) -> Result<()> {
        if start.elapsed() > PATIENCE {
            let said = self.nodes.iter().find_map(|node| get(node.rest, "/cluster"));
            let log = |node: &Node| {
                let log = fs::read_to_string(node.configuration.with_extension("log"));
                let log = log.unwrap_or_default();
                let lines: Vec<&str> = log.lines().rev().take(3).collect();
                lines.join("; ")
            };
            let logs: Vec<String> = self.nodes.iter().map(log).collect();
            bail!("{what} within {} s: {said:?}; {logs:?}", PATIENCE.as_secs());
        }
        thread::sleep(GLANCE);
        Ok(())
    }
}

impl Node {
    fn run(&mut self) -> Result<()> {
        let log = self.configuration.with_extension("log");
        let log = fs::OpenOptions::new().create(true).append(true).open(log)?;
        let mut patroni = as_postgres("patroni");
        patroni.arg(&self.configuration).stdin(Stdio::null());
        patroni.stdout(log.try_clone()?).stderr(log);
        self.patroni = Some(patroni.spawn().context("there is no Patroni here (Debian: patroni)")?);
        Ok(())
    }

    fn sees_all(&self) -> bool {
        let said =
            get(self.rest, "/cluster").and_then(|(_, body)| serde_json::from_str(&body).ok());
        let Some(Said { members }) = said else { return false };
        let are = |role: &str| members.iter().filter(|member| member.role == role).count();
        let runs = |member: &Member| matches!(member.state.as_str(), "running" | "streaming");
        members.len() == NODES
            && are("leader") == 1
            && are("sync_standby") >= 1
            && members.iter().all(runs)
    }

    fn settings(&self, number: usize, programs: &Path, etcd: &str) -> Result<String> {
        let rest = format!("127.0.0.1:{}", self.rest);
        let sockets = self.data.parent().context("a directory with a parent")?;
        // JSON is YAML.
        let settings = serde_json::json!({
            "scope": "shard",
            "name": format!("postgres{number}"),
            "restapi": { "listen": rest, "connect_address": rest },
            "etcd3": { "hosts": etcd },
            "bootstrap": {
                "dcs": {
                    "ttl": 20, "loop_wait": 2, "retry_timeout": 5,
                    "synchronous_mode": true, "synchronous_mode_strict": true,
                    "postgresql": {
                        "use_pg_rewind": true,
                        "parameters": { "max_connections": 200, "wal_log_hints": "on", "fsync": "on" },
                    },
                },
                "initdb": [{ "encoding": "UTF8" }, { "locale": "C" }, "data-checksums"],
            },
            "postgresql": {
                "listen": format!("127.0.0.1:{}", self.port),
                "connect_address": format!("127.0.0.1:{}", self.port),
                "data_dir": self.data,
                "bin_dir": programs,
                "pgpass": sockets.join("pgpass"),
                "authentication": {
                    "superuser": { "username": "postgres" },
                    "replication": { "username": "replicator" },
                },
                "parameters": { "unix_socket_directories": sockets },
                "pg_hba": ["local all all trust", "host all all 127.0.0.1/32 trust",
                           "host replication all 127.0.0.1/32 trust"],
            },
        });
        Ok(serde_json::to_string_pretty(&settings)?)
    }
}

/// Three etcd, and where clients find them.
fn start_etcd(directory: &Path) -> Result<(Vec<Child>, String)> {
    let ports: Vec<(u16, u16)> = (0..NODES).map(|_| (free_port(), free_port())).collect();
    let all: Vec<String> = (0..NODES)
        .map(|number| format!("etcd{number}=http://127.0.0.1:{}", ports[number].1))
        .collect();
    let mut running = Vec::new();
    for (number, (client, peer)) in ports.iter().enumerate() {
        let (client, peer) =
            (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let name = format!("etcd{number}");
        let mut etcd = Command::new("etcd");
        etcd.args(["--name", &name]).arg("--data-dir").arg(directory.join(&name));
        etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        etcd.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        etcd.args(["--initial-cluster", &all.join(",")]);
        etcd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        running.push(etcd.spawn().context("there is no etcd here (Debian: etcd-server)")?);
    }
    let endpoints: Vec<String> =
        ports.iter().map(|(client, _)| format!("127.0.0.1:{client}")).collect();
    Ok((running, endpoints.join(",")))
}

/// Kills every process whose arguments name a file, at once.
fn kill_all(file: &Path) -> Result<()> {
    let name = file.to_string_lossy();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Ok(arguments) = fs::read(entry.path().join("cmdline")) else { continue };
        let number = entry.file_name();
        if arguments.split(|&byte| byte == 0).any(|argument| argument == name.as_bytes()) {
            let _ = Command::new("kill").arg("-9").arg(number).stderr(Stdio::null()).status();
        }
    }
    Ok(())
}

/// The status and the text of a page on this machine, if somebody answers.
fn get(port: u16, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}
