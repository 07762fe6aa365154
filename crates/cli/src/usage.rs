//! Command lines that are none.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::output::{Failure, printable};

/// What wrong usage ends with, as programs have it.
const EXIT_CODE: u8 = 2;

/// Commands that went to another program.
const MOVED: [&str; 2] = ["bench", "reproduce"];

/// Says what is wrong with the command line, on standard error, and where `--json -` is part of it
/// as JSON on standard output. Help and versions, which are no errors, go to standard output.
pub fn wrong_usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A reader who leaves early has had enough.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let json = wants_json(&arguments).then_some(Path::new("-"));
    if let Some(command) = moved(error, &arguments) {
        let message = format!("this is a command of shard-lab now: {command}");
        let hint = Some("`cargo run --release -p shard-lab -- ...` builds and runs it");
        let failure = Failure { message: &message, causes: &[], hint };
        failure.say();
        failure.write(json);
        return ExitCode::from(EXIT_CODE);
    }
    // For a person, clap's own words in all their lines.
    let _ = error.print();
    let text = error.render().to_string();
    let (message, rest) = text.split_once("\n\n").unwrap_or((&text, ""));
    let message = on_one_line(message.trim_start_matches("error: "));
    let hint = Some(on_one_line(rest)).filter(|rest| !rest.is_empty());
    Failure { message: &message, causes: &[], hint: hint.as_deref() }.write(json);
    ExitCode::from(EXIT_CODE)
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether the arguments ask for JSON on standard output. They could not be parsed, so a value that
/// only looks like it counts as well.
fn wants_json(arguments: &[OsString]) -> bool {
    let spelt = |pair: &[OsString]| pair[0] == "--json" && pair[1] == "-";
    arguments.windows(2).any(spelt) || arguments.iter().any(|argument| argument == "--json=-")
}

/// The same command line for the program that has the command now.
fn moved(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    if error.kind() != ErrorKind::InvalidSubcommand || !MOVED.contains(&name.as_str()) {
        return None;
    }
    let from = arguments.iter().position(|argument| argument == name.as_str())?;
    let words = arguments[from..].iter().map(|word| printable(&word.to_string_lossy()));
    Some(format!("shard-lab {}", words.collect::<Vec<_>>().join(" ")))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::Arguments;

    fn refused(line: &str) -> (clap::Error, Vec<OsString>) {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let refused = Arguments::try_parse_from(&words).err().expect("it is wrong on purpose");
        (refused, words[1..].to_vec())
    }

    #[test]
    fn moved_commands_are_told_with_their_arguments() {
        for (line, now) in [
            ("shard bench rerank --layout slots", "shard-lab bench rerank --layout slots"),
            ("shard --json - bench engine", "shard-lab bench engine"),
            ("shard reproduce all --data d", "shard-lab reproduce all --data d"),
            ("shard help bench", "shard-lab bench"),
        ] {
            let (error, arguments) = refused(line);
            assert_eq!(moved(&error, &arguments).as_deref(), Some(now), "{line}");
        }
        for line in ["shard benches", "shard search bench", "shard --bench", "shard search"] {
            let (error, arguments) = refused(line);
            assert_eq!(moved(&error, &arguments), None, "{line}");
        }
    }

    #[test]
    fn json_is_asked_for_in_both_spellings() {
        for (line, wanted) in [
            ("shard --json - x", true),
            ("shard x --json=-", true),
            ("shard x --json", false),
            ("shard x --json out.json -", false),
        ] {
            assert_eq!(wants_json(&refused(line).1), wanted, "{line}");
        }
    }
}
