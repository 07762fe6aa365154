//! Questions that are answered with yes or no, at a terminal.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use anyhow::{Context, Result};

/// Longest answer that is read.
const LONGEST: u64 = 1 << 10;

/// Whether somebody is there to ask.
pub fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks on standard error. Whoever says neither `y` nor `yes`, or nothing, says no.
pub fn confirm(question: &str) -> Result<bool> {
    let mut screen = io::stderr().lock();
    write!(screen, "{question} [y/N] ").and_then(|()| screen.flush()).context("cannot ask")?;
    let mut answer = String::new();
    io::stdin().lock().take(LONGEST).read_line(&mut answer).context("cannot read the answer")?;
    Ok(is_yes(&answer))
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        assert!(["y\n", "Y\r\n", " yes \n", "YES"].into_iter().all(is_yes));
        assert!(!["", "\n", "n\n", "no\n", "yep\n", "y n\n"].into_iter().any(is_yes));
    }
}
