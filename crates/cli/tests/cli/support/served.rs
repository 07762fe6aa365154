//! `shard serve` in a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use super::Desk;

/// A server in a process of its own, killed if the test does not end it.
pub struct Served {
    pub process: Child,
    pub url: String,
    pub fingerprint: Option<String>,
}

impl Served {
    /// Starts it on a free port and reads what it prints.
    pub fn start(desk: &Desk, arguments: &[&str]) -> Self {
        let mut process = command(desk, arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("shard starts");
        let mut lines = BufReader::new(process.stdout.as_mut().expect("it is piped")).lines();
        let mut line = || lines.next().map(|line| line.expect("text"));
        let first = line().unwrap_or_else(|| panic!("nothing on standard output"));
        let url = first.strip_prefix("listening on ").expect("the address comes first").to_owned();
        let fingerprint = url.starts_with("https").then(|| {
            let second = line().expect("a second line");
            second.strip_prefix("fingerprint ").expect("the fingerprint is next").to_owned()
        });
        Self { process, url, fingerprint }
    }

    /// Sends a signal by its flag for `kill`.
    pub fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// Asks it to end, and gives its exit code and log.
    pub fn end(mut self) -> (Option<i32>, String) {
        self.signal("-TERM");
        let mut log = String::new();
        self.process.stderr.as_mut().unwrap().read_to_string(&mut log).expect("the log is text");
        (self.process.wait().expect("it ends").code(), log)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `shard serve data` on a free port.
pub fn command(desk: &Desk, arguments: &[&str]) -> Command {
    let mut command = Command::new(super::program());
    command.current_dir(desk.path("")).args(["serve", "data", "--listen", "127.0.0.1:0"]);
    command.args(arguments);
    command
}
