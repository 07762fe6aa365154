//! A server in a process of its own: started, watched, killed.

use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use shard_client::remote::{Remote, RemoteOptions, SecretToken};
use zeroize::Zeroizing;

/// How long a server may take to be ready before something must be wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a process that is waited for is looked at.
const GLANCE: Duration = Duration::from_millis(5);

/// Clock ticks per second in `/proc`: Linux shows 100 to programs, whatever it uses itself.
const TICKS: f64 = 100.0;

/// A directory to serve, and a token for it.
pub struct Site {
    directory: PathBuf,
    token: Zeroizing<String>,
}

/// A running server.
pub struct Served {
    child: Child,
    url: String,
    pin: String,
    token: Zeroizing<String>,
    /// From its start until it was ready.
    pub starting: Duration,
}

/// What a server writes when it is ready.
#[derive(Deserialize)]
struct Ready {
    url: String,
    fingerprint: String,
}

#[derive(Deserialize)]
struct Created {
    token: String,
}

impl Site {
    /// A site in `directory` with a token that may do everything.
    pub fn new(directory: &Path) -> Result<Self> {
        Self::with_token(directory, directory.as_os_str(), &[])
    }

    /// A site in `directory` whose token is in a database.
    pub fn over(directory: &Path, store: &str) -> Result<Self> {
        Self::with_token(directory, OsStr::new("--store"), &[store])
    }

    fn with_token(directory: &Path, place: &OsStr, more: &[&str]) -> Result<Self> {
        let mut create = shard()?;
        create.args(["token", "create"]).arg(place).args(more);
        create.args(["--scope", "read,write,admin", "--yes", "--json", "-"]);
        let created: Created = serde_json::from_slice(&finished(&mut create)?)?;
        Ok(Self { directory: directory.to_owned(), token: created.token.into() })
    }

    /// The same with another directory, which has a copy of the tokens or shares the database.
    pub fn at(&self, directory: &Path) -> Self {
        Self { directory: directory.to_owned(), token: self.token.clone() }
    }

    /// Starts the server at an address (port 0: any). `launch` is the program with what goes
    /// before its arguments, such as the namespace it runs in.
    pub fn start(&self, mut launch: Command, listen: &str, more: &[&str]) -> Result<Served> {
        let note = self.directory.join("bench-ready.json");
        // What an earlier server said is not what this one will say.
        let _ = fs::remove_file(&note);
        launch.arg("serve").arg(&self.directory).args(["--listen", listen]).args(more);
        launch.arg("--ready-file").arg(&note);
        launch.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let start = Instant::now();
        let mut child = launch.spawn().with_context(|| format!("cannot run {launch:?}"))?;
        let ready: Ready = loop {
            if let Some(ready) = fs::read(&note).ok().and_then(|t| serde_json::from_slice(&t).ok())
            {
                break ready;
            }
            if let Some(status) = child.try_wait()? {
                bail!("the server ended with {status} before it was ready: {launch:?}");
            }
            if start.elapsed() > PATIENCE {
                let _ = child.kill();
                bail!("the server was not ready within {} s", PATIENCE.as_secs());
            }
            thread::sleep(GLANCE);
        };
        let starting = start.elapsed();
        let Ready { url, fingerprint: pin } = ready;
        Ok(Served { child, url, pin, token: self.token.clone(), starting })
    }
}

impl Served {
    /// Where it is, with a collection.
    pub fn url(&self, collection: &str) -> String {
        format!("{}/{collection}", self.url.trim_end_matches('/'))
    }

    /// The fingerprint of its certificate.
    pub fn pin(&self) -> &str {
        &self.pin
    }

    /// A token that may do everything.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A connection to a collection of it.
    pub fn connect(&self, collection: &str) -> Result<Remote> {
        Ok(Remote::connect(self.options(collection)?)?)
    }

    /// How to reach a collection of it.
    pub fn options(&self, collection: &str) -> Result<RemoteOptions> {
        let mut options = RemoteOptions::new(self.url(collection).parse()?);
        options.pin = Some(self.pin.parse()?);
        options.token = Some(SecretToken::new(&self.token)?);
        Ok(options)
    }

    /// The same for a client that takes the first failure as final.
    pub fn options_once(&self, collection: &str) -> Result<RemoteOptions> {
        let mut options = self.options(collection)?;
        options.retries.most = 0;
        Ok(options)
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr> {
        let host = self.url.split_once("://").map_or(&*self.url, |(_, host)| host);
        Ok(host.trim_end_matches('/').parse()?)
    }

    /// Waits until it counts on so many servers, itself included: those whose shares are loaded.
    pub fn until_it_sees(&self, servers: usize, patience: Duration) -> Result<()> {
        let remote = self.connect("any")?;
        let expected = format!("shard_cluster_servers {servers}\n");
        let start = Instant::now();
        while !remote.metrics()?.contains(&expected) {
            if start.elapsed() > patience {
                bail!("{} does not see {servers} servers within {patience:?}", self.url);
            }
            thread::sleep(10 * GLANCE);
        }
        Ok(())
    }

    /// Tells it to stop and waits until it has.
    pub fn terminate(&mut self, patience: Duration) -> Result<()> {
        let process = self.child.id().to_string();
        finished(Command::new("kill").args(["-TERM", &process]))?;
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > patience {
                bail!("the server did not stop within {} s", patience.as_secs());
            }
            thread::sleep(GLANCE);
        }
        Ok(())
    }

    /// Kills it without a warning and waits until it is gone. One that is gone already did not
    /// live as long as it should have.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the server ended by itself, with {status}");
        }
        self.child.kill().context("cannot kill the server")?;
        self.child.wait()?;
        Ok(())
    }

    /// Processor time that it has used, in seconds.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let stat = self.proc("stat")?;
        // The name in parentheses may hold anything; the fields after it are plain.
        let fields = stat.rsplit_once(')').context("/proc/PID/stat without a name")?.1;
        let ticks = |at: usize| fields.split_whitespace().nth(at)?.parse::<f64>().ok();
        let spent = ticks(11).zip(ticks(12)).context("/proc/PID/stat without times")?;
        Ok((spent.0 + spent.1) / TICKS)
    }

    /// Memory that it holds now, in bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        self.status_bytes("VmRSS:")
    }

    fn status_bytes(&self, field: &str) -> Result<u64> {
        let status = self.proc("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kib.with_context(|| format!("/proc/PID/status without {field}"))? * 1024)
    }

    fn proc(&self, file: &str) -> Result<String> {
        let path = format!("/proc/{}/{file}", self.child.id());
        fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Nothing is left of a measurement, whatever ended it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program.
pub fn shard() -> Result<Command> {
    Ok(Command::new(std::env::current_exe().context("cannot find this program")?))
}

/// Standard output of a run that must succeed.
pub fn finished(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}
