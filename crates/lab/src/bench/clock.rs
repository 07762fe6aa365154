//! Time of the process's cores and on the wall, taken together.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cpu_time::ProcessTime;
use serde_json::{Value, json};

use shard_cli::output::percentile;

/// A moment on both clocks.
#[derive(Clone, Copy)]
pub struct Moment {
    cpu: ProcessTime,
    wall: Instant,
}

impl Moment {
    pub fn now() -> Self {
        Self { cpu: ProcessTime::now(), wall: Instant::now() }
    }

    /// What passed since an earlier moment.
    pub fn since(self, earlier: Self) -> Spent {
        Spent {
            cpu: self.cpu.duration_since(earlier.cpu),
            wall: self.wall.duration_since(earlier.wall),
        }
    }
}

/// Time spent.
#[derive(Clone, Copy, Default, Debug)]
pub struct Spent {
    /// By all cores.
    pub cpu: Duration,
    /// On the wall.
    pub wall: Duration,
}

impl Spent {
    /// The part of it that took this long on the wall. Interruptions are taken to be spread
    /// evenly, which is the best that one clock can say about the other.
    pub fn part(self, wall: Duration) -> Self {
        let fraction = wall.as_secs_f64() / self.wall.as_secs_f64().max(1e-9);
        Self { cpu: self.cpu.mul_f64(fraction.min(1.0)), wall: wall.min(self.wall) }
    }
}

impl std::ops::Add for Spent {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { cpu: self.cpu + other.cpu, wall: self.wall + other.wall }
    }
}

impl std::ops::Sub for Spent {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { cpu: self.cpu.saturating_sub(other.cpu), wall: self.wall.saturating_sub(other.wall) }
    }
}

/// Runs a piece of work and times it.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Spent) {
    let start = Moment::now();
    let made = work();
    (made, Moment::now().since(start))
}

/// The least CPU seconds of several runs: what the work takes when nothing disturbs it.
pub fn least<T>(repeats: usize, mut work: impl FnMut() -> T) -> f64 {
    black_box(work());
    // What was made is dropped after the clock has been read.
    let run = |_| timed(|| black_box(work())).1.cpu.as_secs_f64();
    (0..repeats).map(run).fold(f64::INFINITY, f64::min)
}

/// Time of one request by phase.
#[derive(Clone, Copy, Default, Debug)]
pub struct Phases {
    /// Finding candidates. Not part of the total: it costs the same whatever scores them.
    pub route: Spent,
    /// Transforming, planning, encrypting, serialising.
    pub client_out: Spent,
    /// Everything the server does, from bytes to bytes.
    pub server: Spent,
    /// Decoding, opening, checking, ranking.
    pub client_in: Spent,
}

impl Phases {
    pub fn total(&self) -> Spent {
        self.client_out + self.server + self.client_in
    }
}

/// A phase by name.
pub type Phase = (&'static str, fn(&Phases) -> Spent);

/// All phases and their sum, in the order in which they are printed.
pub const PHASES: [Phase; 5] = [
    ("client_out", |p| p.client_out),
    ("server", |p| p.server),
    ("client_in", |p| p.client_in),
    ("total", Phases::total),
    ("route", |p| p.route),
];

/// Milliseconds of every phase at the median and at 95 %, by one of the clocks.
pub fn milliseconds(trials: &[Phases], clock: impl Fn(Spent) -> Duration) -> Value {
    let phase = |(name, of): &Phase| {
        let samples: Vec<f64> = trials.iter().map(|t| clock(of(t)).as_secs_f64() * 1e3).collect();
        let figures =
            json!({ "p50": percentile(&samples, 0.5), "p95": percentile(&samples, 0.95) });
        ((*name).to_owned(), figures)
    };
    Value::Object(PHASES.iter().map(phase).collect())
}

/// The most memory the process ever held, where the system says it.
pub fn peak_memory_bytes() -> Option<u64> {
    of_status("VmHWM:")
}

/// The memory the process holds, where the system says it.
pub fn memory_bytes() -> Option<u64> {
    of_status("VmRSS:")
}

fn of_status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Runs work on this many threads of its own.
pub fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.context("cannot start threads")?.install(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_add_up_without_the_route() {
        let second = |seconds| Spent {
            cpu: Duration::from_secs(seconds),
            wall: Duration::from_secs(2 * seconds),
        };
        let phases = Phases {
            route: second(100),
            client_out: second(1),
            server: second(2),
            client_in: second(3),
        };
        assert_eq!(phases.total().cpu, Duration::from_secs(6));
        let report = milliseconds(&[phases], |spent| spent.wall);
        assert_eq!(report["total"]["p50"], 12_000.0);
        assert_eq!(report["route"]["p95"], 200_000.0);
    }

    #[test]
    fn part_of_a_time_keeps_the_share_of_the_cores() {
        let spent = Spent { cpu: Duration::from_millis(50), wall: Duration::from_millis(100) };
        let part = spent.part(Duration::from_millis(20));
        assert!((part.cpu.as_secs_f64() - 0.01).abs() < 1e-9);
        assert_eq!(spent.part(Duration::from_secs(9)).cpu, spent.cpu);
        assert_eq!(Spent::default().part(Duration::from_secs(1)).cpu, Duration::ZERO);
    }
}
