//! Passages on a terminal.

use serde_json::{Value, json};
use shard::Passage;

use crate::output::printable;

/// Lines of a passage that are shown unless all are asked for.
const LINES: usize = 6;

/// Columns of text, where no terminal says.
const COLUMNS: usize = 100;

/// Fewest columns of text.
const NARROWEST: usize = 20;

/// Passages by rank, each with its first lines or all of them, as wide as the terminal.
pub fn shown(passages: &[Passage], digits: usize, full: bool) -> String {
    let columns = textwrap::termwidth().clamp(NARROWEST, COLUMNS);
    let shown: Vec<String> = passages
        .iter()
        .enumerate()
        .map(|(at, passage)| one(at + 1, passage, digits, full, columns))
        .collect();
    shown.join("\n")
}

fn one(rank: usize, passage: &Passage, digits: usize, full: bool, columns: usize) -> String {
    let mut lines =
        vec![format!("{rank:>4}  {:.digits$}  {}", passage.score, printable(&passage.id))];
    if let Some(title) = &passage.title {
        lines.extend(wrapped(title, columns));
    }
    let text = match &passage.text {
        Some(text) => text.clone(),
        None => fields(passage),
    };
    let text: Vec<String> = text.lines().flat_map(|line| wrapped(line, columns)).collect();
    let some = if full { text.len() } else { text.len().min(LINES) };
    lines.extend_from_slice(&text[..some]);
    match text.len() - some {
        0 => {}
        1 => lines.push("      (one more line: --full)".to_owned()),
        more => lines.push(format!("      ({more} more lines: --full)")),
    }
    lines.join("\n")
}

/// What there is instead of a text.
fn fields(passage: &Passage) -> String {
    if passage.fields.is_empty() {
        return "(no record)".to_owned();
    }
    Value::Object(passage.fields.clone()).to_string()
}

/// A line in lines of so many columns.
fn wrapped(line: &str, columns: usize) -> Vec<String> {
    let line = printable(line.trim());
    if line.is_empty() {
        return Vec::new();
    }
    let options =
        textwrap::Options::new(columns).initial_indent("      ").subsequent_indent("      ");
    textwrap::wrap(&line, options).into_iter().map(|line| line.into_owned()).collect()
}

/// A passage, for a program.
pub fn report(passage: &Passage) -> Value {
    json!({
        "id": passage.id,
        "score": passage.score,
        "title": passage.title,
        "text": passage.text,
        "fields": passage.fields,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(text: &str) -> Passage {
        Passage {
            id: "a\u{1b}".into(),
            score: 0.5,
            title: Some("T\nitle".into()),
            text: Some(text.into()),
            fields: serde_json::Map::new(),
        }
    }

    #[test]
    fn passages_are_wrapped_and_cut_and_command_no_terminal() {
        let words = "word ".repeat(40);
        let shown = one(1, &passage(&format!("{words}\n\n\u{1b}[31mred")), 3, false, 30);
        assert!(
            shown.starts_with("   1  0.500  a\\u{1b}\n      T\\nitle\n      word word"),
            "{shown}"
        );
        assert!(shown.ends_with("more lines: --full)"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 30), "{shown}");
        let whole = one(1, &passage(&format!("{words}\n\n\u{1b}[31mred")), 3, true, 30);
        assert!(whole.ends_with("      \\u{1b}[31mred") && !whole.contains("--full"), "{whole}");
        let seven = (0..7).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
        assert!(one(1, &passage(&seven), 3, false, 30).ends_with("(one more line: --full)"));
        let none = Passage { title: None, text: None, ..passage("") };
        assert!(one(2, &none, 1, false, 30).ends_with("(no record)"));
    }
}
