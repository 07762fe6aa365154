//! What a person or a program sees.

use std::fs;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::json;
use shard::Progress;

/// Whether standard output has a JSON value already.
static RESULT_WRITTEN: AtomicBool = AtomicBool::new(false);

/// Where results go: text to standard output unless JSON takes its place.
pub struct Output<'a> {
    json: Option<&'a Path>,
}

impl<'a> Output<'a> {
    /// JSON goes to this file, or with `-` to standard output; to neither if there is none.
    pub fn new(json: Option<&'a Path>) -> Self {
        Self { json }
    }

    /// Whether standard output is for a person.
    pub fn is_text(&self) -> bool {
        self.json.is_none_or(|path| path != Path::new("-"))
    }

    /// Prints lines for a person.
    pub fn line(&self, text: impl AsRef<str>) -> Result<()> {
        if self.is_text() {
            writeln!(io::stdout().lock(), "{}", printable_lines(text.as_ref()))?;
        }
        Ok(())
    }

    /// Writes the result for a program.
    pub fn result(&self, value: &impl Serialize) -> Result<()> {
        self.write(value, |path, text| fs::write(path, text))
    }

    /// Writes a result that holds a secret: a file is for nobody else to read.
    pub fn secret_result(&self, value: &impl Serialize) -> Result<()> {
        self.write(value, write_private)
    }

    fn write(
        &self,
        value: &impl Serialize,
        to_file: impl FnOnce(&Path, &[u8]) -> io::Result<()>,
    ) -> Result<()> {
        let Some(path) = self.json else { return Ok(()) };
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        if path == Path::new("-") {
            RESULT_WRITTEN.store(true, Ordering::Relaxed);
            io::stdout().lock().write_all(&text)?;
            return Ok(());
        }
        to_file(path, &text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Writes what only the owner may read, also to a file that was there and open to others.
fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    // Pipes and devices are as they are.
    #[cfg(unix)]
    if file.metadata()?.is_file() {
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    }
    file.write_all(text)
}

/// Whether an error is a closed standard output.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// Prints a line on standard error. That nobody can read it is no reason to fail.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", printable_lines(text));
}

/// What went wrong, for a person and a program.
pub struct Failure<'a> {
    /// What could not be done.
    pub message: &'a str,
    /// Why, outermost first.
    pub causes: &'a [String],
    /// What to do about it.
    pub hint: Option<&'a str>,
}

impl Failure<'_> {
    /// Says it in one line on standard error.
    pub fn say(&self) {
        let Self { message, causes, hint } = self;
        let mut line = format!("error: {message}");
        causes.iter().for_each(|cause| line += &format!(": {cause}"));
        line += &hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        note(&printable(&line));
    }

    /// Writes it as the one JSON value of standard output, where JSON goes there, unless a result is
    /// there already: then the exit code says that it is not all.
    pub fn write(&self, json: Option<&Path>) {
        let (Self { message, causes, hint }, output) = (self, Output::new(json));
        if !output.is_text() && !RESULT_WRITTEN.load(Ordering::Relaxed) {
            let error = json!({ "message": message, "causes": causes, "hint": hint });
            // A reader who is gone is not told; the exit code stays.
            let _ = output.result(&json!({ "error": error }));
        }
    }
}

/// Moves a bar along, until Ctrl-C.
pub fn follow(bar: &ProgressBar) -> impl Fn(Progress) -> ControlFlow<()> + Sync {
    let bar = bar.clone();
    move |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        if crate::interrupt::is_stopped() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// An error and its causes, outermost first. Some errors name their cause in their own message; it
/// is not said twice.
pub fn causes(error: &anyhow::Error) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if !said.iter().any(|before| before.contains(&cause)) {
            said.push(cause);
        }
    }
    said
}

/// One line of text with control and bidirectional characters escaped: names of files and
/// documents may hold any, and a terminal would obey them.
pub fn printable(text: &str) -> String {
    escaped(text, commands_terminal)
}

/// The same for several lines.
fn printable_lines(text: &str) -> String {
    escaped(text, |character| character != '\n' && commands_terminal(character))
}

fn escaped(text: &str, wanted: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if wanted(character) { out.extend(character.escape_debug()) } else { out.push(character) }
    }
    out
}

/// Control characters, separators of lines and paragraphs, and what changes the direction of text.
fn commands_terminal(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// A bar on standard error while a terminal is attached; nothing otherwise.
pub fn progress(what: &'static str, total: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:12} {bar:40} {human_pos}/{human_len} {eta}");
    let bar = ProgressBar::new(total as u64); // draws only to a terminal
    bar.set_style(style.expect("the template is well formed"));
    bar.set_message(what);
    bar
}

/// A bar for work that is counted in estimated time: how much of it is done, and how long the rest
/// takes.
pub fn progress_of_time(what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:12} {bar:40} {percent:>3} % {eta} left");
    let bar = ProgressBar::new(1); // draws only to a terminal
    bar.set_style(style.expect("the template is well formed"));
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// A plain table with two spaces of indentation; columns after the first are numbers.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table.add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((2, 1));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// 5183 as "5,183".
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes as "459 KB" (decimal).
pub fn bytes(count: f64) -> String {
    match count {
        b if b < 1e3 => format!("{b:.0} B"),
        b if b < 1e6 => format!("{:.0} KB", b / 1e3),
        b => format!("{:.1} MB", b / 1e6),
    }
}

/// Text cut to a width, with an ellipsis.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// The value below which a fraction of the samples lies (nearest rank).
pub fn percentile(samples: &[f64], fraction: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (fraction * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(5183), "5,183");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(
            (bytes(12.0), bytes(458_752.0), bytes(2.5e6)),
            ("12 B".into(), "459 KB".into(), "2.5 MB".into())
        );
        assert_eq!(cut("abcdef", 4), "abc…");
    }

    #[test]
    fn an_error_says_nothing_twice() {
        let error = anyhow::anyhow!("disk full").context("cannot write: disk full").context("a\nb");
        assert_eq!(causes(&error), ["a\nb", "cannot write: disk full"]);
        let error = anyhow::anyhow!("disk full").context("cannot write");
        assert_eq!(causes(&error), ["cannot write", "disk full"]);
    }

    #[test]
    fn control_and_bidirectional_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("é\u{1b}[31m\t\n"), "é\\u{1b}[31m\\t\\n");
        assert_eq!(printable_lines("a\u{9b}1m\nb"), "a\\u{9b}1m\nb");
        for direction in "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\
                          \u{2067}\u{2068}\u{2069}\u{2028}\u{2029}"
            .chars()
        {
            let shown = format!("a{}b", direction.escape_unicode());
            assert_eq!(printable(&format!("a{direction}b")), shown);
            assert_eq!(printable_lines(&format!("a{direction}b")), shown);
        }
        // Letters that are written from right to left, and what joins emoji, are as they are.
        for letters in ["\u{5e9}\u{5dc}", "\u{627}", "\u{1f469}\u{200d}\u{1f52c}", "e\u{301}"] {
            assert_eq!(printable(letters), letters);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_with_a_secret_is_nobody_else_s_to_read() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let (new, open) = (directory.path().join("new"), directory.path().join("open"));
        fs::write(&open, "longer than what takes its place").unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
        for path in [&new, &open] {
            Output::new(Some(path)).secret_result(&"secret").unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), "\"secret\"\n");
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let samples = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!((percentile(&samples, 0.5), percentile(&samples, 0.95)), (3.0, 5.0));
        assert_eq!(percentile(&[], 0.5), 0.0);
    }
}

/// A moment as people write it, in universal time: `2026-11-17 06:40 UTC`.
pub fn moment(time: std::time::SystemTime) -> String {
    let seconds = time
        .duration_since(std::time::SystemTime::UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs());
    let (days, rest) = ((seconds / 86_400) as i64, seconds % 86_400);
    // Days since 1 March of the year 0, counted in eras of 400 years; years begin in March.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", rest / 3_600, rest / 60 % 60)
}

#[cfg(test)]
mod moments {
    use std::time::{Duration, SystemTime};

    #[test]
    fn moments_are_dates_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(super::moment(time), text);
        }
    }
}
