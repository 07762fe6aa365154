//! `shard` at a terminal, with somebody who answers its questions.

use std::process::Command;

use super::{Desk, parsed, program};

/// Runs a program under a terminal of its own. Each step waits for words on the screen and types a
/// line. Prints what was on the screen and the exit code; gives up after a minute.
const DRIVER: &str = r#"
import json, os, pty, select, signal, sys, time
steps, command = json.loads(sys.argv[1]), sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execv(command[0], command)
seen, read, end = b"", 0, time.monotonic() + 60
while True:
    if time.monotonic() > end:
        os.kill(child, signal.SIGKILL)
    if select.select([terminal], [], [], 0.1)[0]:
        try:
            data = os.read(terminal, 4096)
        except OSError:
            data = b""
        if not data:
            break
        seen += data
    if steps and (at := seen.find(steps[0][0].encode(), read)) >= 0:
        read = at + len(steps[0][0].encode())
        time.sleep(0.2)  # the question comes before the echo is turned off
        os.write(terminal, steps.pop(0)[1].encode() + b"\n")
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps({"screen": seen.decode(), "code": code, "left": len(steps)}))
"#;

/// What a command left behind.
pub struct Session {
    /// Everything on the screen.
    pub screen: String,
    /// The exit code.
    pub code: i64,
}

impl Desk {
    /// Runs `shard` at a terminal: for each question its words and the answer. `None` where there is
    /// no Python to make a terminal with.
    pub fn at_terminal(&self, arguments: &[&str], answers: &[(&str, &str)]) -> Option<Session> {
        let mut command = Command::new("python3");
        command.args(["-c", DRIVER, &serde_json::json!(answers).to_string(), program()]);
        command.args(arguments).current_dir(self.path(""));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SHARD_") {
                command.env_remove(name);
            }
        }
        let Ok(output) = command.output() else {
            assert!(std::env::var_os("CI").is_none(), "no python3, and CI needs one");
            eprintln!("skipped: no python3 on the path");
            return None;
        };
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the driver failed: {complaint}");
        let report = parsed(&String::from_utf8(output.stdout).expect("the report is text"));
        let screen = report["screen"].as_str().expect("text").replace("\r\n", "\n");
        assert_eq!(report["left"], 0, "not all was asked: {screen}");
        Some(Session { screen, code: report["code"].as_i64().expect("a number") })
    }
}
