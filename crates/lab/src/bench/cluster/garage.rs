//! Three nodes of Garage, an S3 store, with a copy of every object on each.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use shard_store::conformance::free_port;

use super::super::served::finished;
use super::balancer::Balancer;

const NODES: usize = 3;

const BUCKET: &str = "shard";

/// Of a store that lives as long as the bench, on this machine alone.
const KEY: &str = "GK000000000000000000000001";
const SECRET: &str = "0000000000000000000000000000000000000000000000000000000000000001";

const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Garage {
    nodes: Vec<Node>,
    /// To the S3 of a node that answers.
    entry: Balancer,
}

struct Node {
    configuration: PathBuf,
    server: Option<Child>,
}

impl Garage {
    pub(super) fn start(directory: &Path) -> Result<Self> {
        let mut garage = Self { nodes: Vec::new(), entry: Balancer::start()? };
        for number in 0..NODES {
            let place = directory.join(format!("garage{number}"));
            fs::create_dir(&place)?;
            let s3 = SocketAddr::from(([127, 0, 0, 1], free_port()));
            let node = Node { configuration: place.join("garage.toml"), server: None };
            fs::write(&node.configuration, settings(&place, s3))?;
            garage.nodes.push(node);
            garage.nodes[number].run()?;
            garage.entry.set(number, Some(s3));
        }
        let ids: Vec<String> = garage.nodes.iter().map(Node::id).collect::<Result<_>>()?;
        let first = &garage.nodes[0];
        for id in &ids[1..] {
            first.eventually(&["node", "connect", id])?;
        }
        garage.until_whole()?;
        let first = &garage.nodes[0];
        for id in &ids {
            let id = id.split('@').next().unwrap_or(id);
            first.eventually(&["layout", "assign", "-z", "here", "-c", "10G", id])?;
        }
        first.eventually(&["layout", "apply", "--version", "1"])?;
        first.eventually(&["key", "import", "--yes", "-n", "shard", KEY, SECRET])?;
        first.eventually(&["bucket", "create", BUCKET])?;
        first.eventually(&["bucket", "allow", "--read", "--write", BUCKET, "--key", KEY])?;
        Ok(garage)
    }

    pub(super) fn url(&self) -> String {
        format!("s3://{BUCKET}/objects")
    }

    /// What a server needs in its environment.
    pub(super) fn environment(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT", format!("http://{}", self.entry.address())),
            ("AWS_REGION", "garage".to_owned()),
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
        ]
    }

    /// Kills a node, without a warning.
    pub(super) fn kill(&mut self, number: usize) -> Result<()> {
        let mut server = self.nodes[number].server.take().context("a node that runs")?;
        server.kill()?;
        server.wait()?;
        Ok(())
    }

    /// Starts it again and waits until the others see it.
    pub(super) fn mend(&mut self, number: usize) -> Result<()> {
        self.nodes[number].run()?;
        self.until_whole()
    }

    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn until_whole(&self) -> Result<()> {
        let start = Instant::now();
        loop {
            let sees_all = |node: &Node| {
                let said = node.said(&["status"]).unwrap_or_default();
                let shown = said.lines().filter(|line| line.contains("127.0.0.1:")).count();
                shown == NODES && !said.contains("FAILED")
            };
            if self.nodes.iter().all(sees_all) {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                bail!("the nodes of Garage do not see each other within {} s", PATIENCE.as_secs());
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Node {
    fn run(&mut self) -> Result<()> {
        let log = self.configuration.with_extension("log");
        let log = fs::OpenOptions::new().create(true).append(true).open(log)?;
        let mut server = Command::new("garage");
        server.arg("-c").arg(&self.configuration).arg("server").stdin(Stdio::null());
        server.stdout(log.try_clone()?).stderr(log);
        let server =
            server.spawn().context("there is no Garage here (cargo install garage --locked)")?;
        self.server = Some(server);
        Ok(())
    }

    fn said(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new("garage");
        command.arg("-c").arg(&self.configuration).args(arguments).stdin(Stdio::null());
        Ok(String::from_utf8_lossy(&finished(&mut command)?).into_owned())
    }

    fn id(&self) -> Result<String> {
        Ok(self.eventually(&["node", "id", "-q"])?.trim().to_owned())
    }

    /// A command that may come too early.
    fn eventually(&self, arguments: &[&str]) -> Result<String> {
        let start = Instant::now();
        loop {
            match self.said(arguments) {
                Ok(said) => return Ok(said),
                Err(error) if start.elapsed() > PATIENCE => {
                    return Err(error.context(format!("garage {}", arguments.join(" "))));
                }
                Err(_) => thread::sleep(Duration::from_millis(200)),
            }
        }
    }
}

fn settings(place: &Path, s3: SocketAddr) -> String {
    let (place, rpc) = (place.display(), free_port());
    format!(
        "metadata_dir = \"{place}/meta\"\n\
         data_dir = \"{place}/data\"\n\
         db_engine = \"sqlite\"\n\
         replication_factor = {NODES}\n\
         rpc_bind_addr = \"127.0.0.1:{rpc}\"\n\
         rpc_public_addr = \"127.0.0.1:{rpc}\"\n\
         rpc_secret = \"{SECRET}\"\n\
         [s3_api]\n\
         s3_region = \"garage\"\n\
         api_bind_addr = \"{s3}\"\n"
    )
}
