//! What numbers a server can be set to; the others are refused in words, under the setting's name.

use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Bytes of a KiB.
pub const KIB: usize = 1 << 10;
/// Bytes of a MiB.
pub const MIB: usize = 1 << 20;

/// The most memory that can be set: as much as can be counted with room to spare.
const MOST_BYTES: usize = usize::MAX >> 4;

/// The longest time: what is beyond it is a mistake, and far beyond it no clock can count.
const MOST_SECONDS: u64 = 365 * 24 * 60 * 60;

/// The most of anything that is counted: threads, connections.
const MOST: usize = 1 << 20;

/// What must be there for the server to do anything.
pub fn not_zero<T: Default + PartialEq>(name: &str, value: T) -> Result<T> {
    if value == T::default() { bail!("{name} must be at least 1") } else { Ok(value) }
}

/// A number of something.
pub fn count(name: &str, value: Option<usize>, default: usize) -> Result<usize> {
    let value = not_zero(name, value.unwrap_or(default))?;
    if value > MOST { bail!("{name} must be at most {MOST}, not {value}") } else { Ok(value) }
}

/// A size in units of so many bytes.
pub fn bytes(name: &str, value: Option<usize>, unit: usize, default: usize) -> Result<usize> {
    let Some(value) = value else { return Ok(default) };
    let bytes = not_zero(name, value)?.checked_mul(unit).filter(|&bytes| bytes <= MOST_BYTES);
    bytes.with_context(|| format!("{name} must be at most {}, not {value}", MOST_BYTES / unit))
}

/// A time that may be zero.
pub fn pause(name: &str, value: Option<u64>, default: Duration) -> Result<Duration> {
    match value {
        Some(value) if value > MOST_SECONDS => {
            bail!("{name} must be at most {MOST_SECONDS} seconds, not {value}")
        }
        value => Ok(value.map_or(default, Duration::from_secs)),
    }
}

/// A time within which something must be able to happen.
pub fn time(name: &str, value: Option<u64>, default: Duration) -> Result<Duration> {
    pause(name, value.map(|value| not_zero(name, value)).transpose()?, default)
}
