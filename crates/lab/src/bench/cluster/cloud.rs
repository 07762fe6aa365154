//! What the bench runs on: a database, objects, servers over them, and a balancer before them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use shard_client::remote::{Remote, RemoteOptions};
use shard_store::conformance::Cluster as Postgres;

use super::super::arguments::{Cluster, Victim};
use super::super::served::{Served, Site, finished, shard};
use super::balancer::Balancer;
use super::garage::Garage;
use super::patroni::Patroni;

const COLLECTION: &str = "blind";

/// How long a server has to be ready, or to end when it is told to.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) struct Cloud {
    database: Database,
    /// Where servers find it.
    store: String,
    objects: Objects,
    first: Site,
    servers: Vec<Option<Served>>,
    balancer: Balancer,
    /// Before the port of each server on which others ask it.
    links: Vec<Balancer>,
    replicas: usize,
    /// What was killed and does not run again yet.
    killed: Option<usize>,
    /// What servers took to be ready, in milliseconds.
    pub(super) loads: Vec<f64>,
    /// The last to go.
    scratch: Scratch,
}

enum Database {
    One(Box<Postgres>),
    Three(Patroni),
}

enum Objects {
    Directory(String),
    Three(Garage),
}

impl Cloud {
    pub(super) fn start(arguments: &Cluster) -> Result<Self> {
        let scratch = Scratch::new()?;
        let (database, store, objects) = if arguments.small {
            let server = Postgres::start();
            let server = server.context("there is no PostgreSQL on this machine (.ci/postgres)")?;
            let directory = scratch.path.join("objects");
            fs::create_dir(&directory)?;
            let store = server.database();
            let objects = Objects::Directory(format!("file://{}", directory.display()));
            (Database::One(Box::new(server)), store, objects)
        } else {
            let objects = Objects::Three(Garage::start(&scratch.path)?);
            let patroni = Patroni::start(&scratch.path)?;
            let store = patroni.url();
            (Database::Three(patroni), store, objects)
        };
        let first = Site::over(&scratch.path.join("0"), &store)?;
        let mut cloud = Self {
            database,
            store,
            objects,
            first,
            servers: Vec::new(),
            balancer: Balancer::start()?,
            links: Vec::new(),
            replicas: arguments.replicas,
            killed: None,
            loads: Vec::new(),
            scratch,
        };
        for number in 0..arguments.workers {
            cloud.servers.push(None);
            cloud.links.push(Balancer::link()?);
            cloud.start_server(number)?;
        }
        Ok(cloud)
    }

    fn place(&self, number: usize) -> PathBuf {
        self.scratch.path.join(number.to_string())
    }

    fn start_server(&mut self, number: usize) -> Result<()> {
        let mut launch = shard()?;
        let objects = match &self.objects {
            Objects::Directory(url) => url.clone(),
            Objects::Three(garage) => {
                launch.envs(garage.environment());
                garage.url()
            }
        };
        let port = shard_store::conformance::free_port();
        let (listen, advertise) =
            (format!("127.0.0.1:{port}"), self.links[number].address().to_string());
        let replicas = self.replicas.to_string();
        let more = ["--store", &self.store, "--objects", &objects, "--replicas", &replicas];
        let peers = ["--peers-listen", &listen, "--peers-advertise", &advertise];
        if number > 0 && !self.place(number).exists() {
            copy(&self.place(0), &self.place(number))?;
        }
        self.links[number].set(0, Some(listen.parse()?));
        let start = Instant::now();
        let site = self.first.at(&self.place(number));
        let server = site.start(launch, "127.0.0.1:0", &[&more[..], &peers].concat())?;
        let address = server.address()?;
        self.servers[number] = Some(server);
        // Whoever is counted on has loaded its share.
        self.until_divided()?;
        self.loads.push(start.elapsed().as_secs_f64() * 1e3);
        self.balancer.set(number, Some(address));
        Ok(())
    }

    /// Waits until every server that runs counts on all others.
    pub(super) fn until_divided(&self) -> Result<()> {
        let servers = self.running().count();
        self.running().try_for_each(|server| server.until_it_sees(servers, PATIENCE))
    }

    pub(super) fn connect(&self) -> Result<Remote> {
        let server = self.running().next().context("a server that runs")?;
        let mut options: RemoteOptions = server.options(COLLECTION)?;
        options.address = format!("https://{}/{COLLECTION}", self.balancer.address()).parse()?;
        Ok(Remote::connect(options)?)
    }

    fn running(&self) -> impl Iterator<Item = &Served> {
        self.servers.iter().flatten()
    }

    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        self.running().map(Served::cpu_seconds).sum()
    }

    pub(super) fn resident_bytes(&self) -> Result<Vec<u64>> {
        self.running().map(Served::resident_bytes).collect()
    }

    /// Whether what was killed has nobody in its place.
    pub(super) fn is_down(&self) -> bool {
        self.killed.is_some() && matches!(self.database, Database::One(_))
    }

    /// Kills what is to be killed. Returns when it was gone, or was told to go.
    pub(super) fn kill(&mut self, victim: Victim, round: usize) -> Result<Instant> {
        let number = round % self.servers.len();
        match victim {
            Victim::None => {}
            Victim::Worker => {
                self.servers[number].as_mut().context("a server that runs")?.kill()?;
                self.servers[number] = None;
            }
            Victim::Restart => {
                // As an orchestrator does: no new connections, then the signal.
                self.balancer.set(number, None);
                let mut server = self.servers[number].take().context("a server that runs")?;
                let told = Instant::now();
                server.terminate(PATIENCE)?;
                return Ok(told);
            }
            Victim::Leader => match &mut self.database {
                Database::One(server) => {
                    server.kill();
                    self.killed = Some(0);
                }
                Database::Three(patroni) => self.killed = Some(patroni.kill_leader()?),
            },
            Victim::Object => match &mut self.objects {
                Objects::Directory(_) => bail!("a directory of objects has no node to kill"),
                Objects::Three(garage) => garage.kill(round % garage.nodes())?,
            },
            Victim::Link => self.links[number].hold(true),
        }
        Ok(Instant::now())
    }

    /// Starts again what was killed.
    pub(super) fn mend(&mut self, victim: Victim, round: usize) -> Result<()> {
        let number = round % self.servers.len();
        match victim {
            Victim::None => Ok(()),
            Victim::Worker | Victim::Restart => self.start_server(number),
            Victim::Leader => {
                let killed = self.killed.take().context("a leader that was killed")?;
                match &mut self.database {
                    Database::One(server) => server.restart(),
                    Database::Three(patroni) => patroni.mend(killed)?,
                }
                Ok(())
            }
            Victim::Object => match &mut self.objects {
                Objects::Directory(_) => Ok(()),
                Objects::Three(garage) => garage.mend(round % garage.nodes()),
            },
            Victim::Link => {
                self.links[number].hold(false);
                self.until_divided()
            }
        }
    }
}

/// Copies the certificate of one server for another.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut copy = Command::new("cp");
    copy.arg("-r").arg(from).arg(to);
    finished(&mut copy)?;
    Ok(())
}

/// A directory that goes, with every process whose arguments name a file in it, when this is dropped or the bench
/// ends, however it does.
struct Scratch {
    path: PathBuf,
    keeper: Child,
}

impl Scratch {
    fn new() -> Result<Self> {
        const SCRIPT: &str = r#"
            trap '' INT TERM HUP
            read -r _
            for process in /proc/[0-9]*; do
                if tr '\0' '\n' <"$process/cmdline" 2>/dev/null | grep -qF "$SCRATCH/"; then
                    kill -9 "${process#/proc/}"
                fi
            done
            for _ in 1 2 3; do rm -rf "$SCRATCH" && break; sleep 1; done
        "#;
        let path = tempfile::Builder::new().prefix("shard-cluster-").tempdir()?.keep();
        let mut keeper = Command::new("sh");
        keeper.args(["-c", SCRIPT]).env("SCRATCH", &path);
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let keeper = keeper.spawn().context("there is no shell")?;
        Ok(Self { path, keeper })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
