//! Two hosts on one machine, and a path between them with a rate and a round-trip time.
//!
//! ```text
//!  namespace A            this process            namespace B
//!  vxlan 10.202.0.1                               vxlan 10.202.0.2     what programs see
//!    | tbf: the rate                                | tbf: the rate
//!  veth  10.201.1.2 ---- 10.201.1.1  10.201.2.1 ---- 10.201.2.2        what carries it
//!                             \  relay  /
//!                              the delay
//! ```
//!
//! Packets travel as VXLAN over UDP through [`Relay`], which holds each of them for half the round
//! trip. So TCP and TLS meet a path like any other, without `netem`, which not every kernel has.
//! Needs root, and `ip`, `tc`, `ethtool` and `ping` (Debian: iproute2, ethtool, iputils-ping).

use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::relay::{End, Relay};

/// Port of the tunnel, on both ends and in between.
const TUNNEL_PORT: u16 = 4799;

/// The far host, as programs see it.
pub const SERVER_ADDRESS: &str = "10.202.0.2";

/// Bytes that a sender may burst above the rate: one large frame and a bit.
const BURST_BYTES: usize = 32 * 1024;

/// The hosts; gone when dropped.
pub struct Lab {
    client: Host,
    server: Host,
    relay: Option<Relay>,
}

/// One of the two hosts.
struct Host {
    namespace: String,
    link: String,
    /// 1 or 2: the part of its addresses that is its own.
    number: u8,
}

impl Host {
    fn carrier(&self, last: u8) -> String {
        format!("10.201.{}.{last}", self.number)
    }

    fn build(&self) -> Result<()> {
        let (namespace, link) = (&self.namespace, &self.link);
        let inner = format!("{link}i");
        ip(&["netns", "add", namespace])?;
        ip(&["link", "add", link, "type", "veth", "peer", "name", &inner])?;
        ip(&["link", "set", &inner, "netns", namespace])?;
        ip(&["addr", "add", &format!("{}/24", self.carrier(1)), "dev", link])?;
        ip(&["link", "set", link, "up"])?;
        let within = |arguments: &[&str]| ip(&[&["-n", namespace], arguments].concat());
        within(&["addr", "add", &format!("{}/24", self.carrier(2)), "dev", &inner])?;
        within(&["link", "set", &inner, "up"])?;
        within(&["link", "set", "lo", "up"])?;
        let (remote, port) = (self.carrier(1), TUNNEL_PORT.to_string());
        within(&[
            "link", "add", "name", "path", "type", "vxlan", "id", "7", "remote", &remote,
            "dstport", &port, "dev", &inner,
        ])?;
        // Packets leave whole: of their own size, since the relay forwards datagrams and the rate
        // counts them, and with their checksums, which hardware that is not there would add.
        let offloads = ["ethtool", "-K", "path", "tx", "off", "gso", "off"];
        run(Command::new("ip").args(["netns", "exec", namespace]).args(offloads))?;
        within(&["addr", "add", &format!("10.202.0.{}/24", self.number), "dev", "path"])?;
        within(&["link", "set", "path", "up"])
    }

    /// Where the relay meets this host.
    fn end(&self) -> Result<End> {
        let socket = UdpSocket::bind((self.carrier(1), TUNNEL_PORT)).context("cannot relay")?;
        let peer: SocketAddr = format!("{}:{TUNNEL_PORT}", self.carrier(2)).parse()?;
        Ok(End { socket, peer })
    }

    fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(program);
        command
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Whatever of it was made goes; what was not made is not missed.
        let quietly = |arguments: &[&str]| {
            let ip = Command::new("ip").args(arguments).stderr(Stdio::null()).status();
            let _ = ip;
        };
        quietly(&["link", "del", &self.link]);
        quietly(&["netns", "del", &self.namespace]);
    }
}

impl Lab {
    /// Two hosts without a path.
    pub fn new() -> Result<Self> {
        let host = |number: u8| Host {
            namespace: format!("shard-bench-{number}"),
            link: format!("shard{number}"),
            number,
        };
        let lab = Self { client: host(1), server: host(2), relay: None };
        for host in [&lab.client, &lab.server] {
            host.build().context(
                "cannot make the network of the benchmark, which needs root and the programs `ip`, \
                 `tc` and `ethtool`",
            )?;
        }
        Ok(lab)
    }

    /// Sets round-trip time and rate, each way.
    pub fn set(&mut self, round_trip: Duration, megabits: f64) -> Result<()> {
        self.relay = None;
        let rate = format!("{megabits}mbit");
        let burst = BURST_BYTES.to_string();
        for host in [&self.client, &self.server] {
            let namespace = ["-n", host.namespace.as_str()];
            let tbf = [
                "qdisc", "replace", "dev", "path", "root", "tbf", "rate", &rate, "burst", &burst,
                "latency", "500ms",
            ];
            run(Command::new("tc").args(namespace).args(tbf))?;
        }
        self.relay = Some(Relay::start(self.client.end()?, self.server.end()?, round_trip / 2)?);
        Ok(())
    }

    /// A program on the near host.
    pub fn on_client(&self, program: &std::path::Path) -> Command {
        self.client.command(program)
    }

    /// A program on the far host.
    pub fn on_server(&self, program: &std::path::Path) -> Command {
        self.server.command(program)
    }

    /// The median round trip of a few pings, in milliseconds.
    pub fn measured_round_trip(&self) -> Result<f64> {
        let mut ping = self.on_client("ping".as_ref());
        ping.args(["-n", "-c", "7", "-i", "0.05", SERVER_ADDRESS]);
        let text = run(&mut ping)?;
        let mut times: Vec<f64> = text
            .lines()
            .filter_map(|line| line.split_once("time=")?.1.split_whitespace().next()?.parse().ok())
            .collect();
        if times.is_empty() {
            bail!("nothing came back over the path");
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    run(Command::new("ip").args(arguments)).map(drop)
}

/// Standard output of a command that must succeed.
fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
