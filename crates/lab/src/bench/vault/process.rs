//! What Linux says of processes: time, memory, bytes written.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How often the memory of a process is looked at. The system keeps the most there ever was, so
/// only what is new within the last glance is missed.
const GLANCE: Duration = Duration::from_millis(5);

/// Clock ticks per second in `/proc`: Linux shows 100 to programs, whatever it uses itself.
const TICKS: f64 = 100.0;

/// A process that has ended well.
pub struct Watched {
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub peak_bytes: u64,
}

/// Runs a command and watches it.
pub fn watched(mut command: Command) -> Result<Watched> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let before = children_cpu_seconds()?;
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
    let mut peak_bytes = 0;
    while child.try_wait()?.is_none() {
        // Fails in the moment in which the process ends.
        peak_bytes = resident_peak(&child).unwrap_or(0).max(peak_bytes);
        thread::sleep(GLANCE);
    }
    let seconds = start.elapsed().as_secs_f64();
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(Watched { seconds, cpu_seconds: children_cpu_seconds()? - before, peak_bytes })
}

/// The most memory that a process ever held.
fn resident_peak(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    field(&status, "VmHWM:").map(|kilobytes| kilobytes * 1024)
}

/// Processor time of all processes that this one has waited for.
pub fn children_cpu_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    // The name in parentheses may hold anything; the fields after it are plain.
    let fields = stat.rsplit_once(')').context("/proc/self/stat without a name")?.1;
    let ticks = |at: usize| fields.split_whitespace().nth(at)?.parse::<f64>().ok();
    let spent = ticks(13).zip(ticks(14)).context("/proc/self/stat without times of children")?;
    Ok((spent.0 + spent.1) / TICKS)
}

/// Bytes that this process has handed to disks, without those that were taken back before they
/// were written: of files that were cut or removed at once.
pub fn written_bytes() -> Result<u64> {
    let io = fs::read_to_string("/proc/self/io").context("cannot read /proc/self/io")?;
    let written = field(&io, "write_bytes:").zip(field(&io, "cancelled_write_bytes:"));
    let (written, cancelled) = written.context("/proc/self/io without bytes written")?;
    Ok(written.saturating_sub(cancelled))
}

/// The number of a line that begins like this.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let io = "write_bytes: 12\ncancelled_write_bytes: 4\n";
        assert_eq!(field(io, "write_bytes:"), Some(12));
        assert_eq!(field(io, "cancelled_write_bytes:"), Some(4));
        assert_eq!(field("VmHWM:\t  99 kB\n", "VmHWM:"), Some(99));
        assert_eq!(field(io, "read_bytes:"), None);
    }

    #[test]
    fn a_process_is_watched_and_its_failure_told() {
        let mut busy = Command::new("sh");
        busy.args(["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 0.1"]);
        let ended = watched(busy).unwrap();
        assert!(ended.seconds >= 0.1 && ended.peak_bytes > 100_000, "{}", ended.peak_bytes);
        let mut failing = Command::new("sh");
        failing.args(["-c", "echo broken >&2; exit 3"]);
        assert_eq!(watched(failing).err().unwrap().to_string(), "broken");
    }

    #[test]
    fn bytes_that_are_synced_are_counted() {
        // Beside the test: a temporary directory may be in memory, where nothing is written.
        let test = std::env::current_exe().unwrap();
        let directory = tempfile::tempdir_in(test.parent().unwrap()).unwrap();
        let before = written_bytes().unwrap();
        let mut file = fs::File::create(directory.path().join("file")).unwrap();
        file.write_all(&[7; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        assert!(written_bytes().unwrap() - before >= 1 << 20);
    }
}
