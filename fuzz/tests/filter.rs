//! Filters as somebody else wrote them: reading ends without a panic, and what was read can be asked for its fields.

use bolero::check;
use shard_client::Filter;

/// Parts of filters: bytes pick from them, because noise makes no filter.
const WORDS: [&str; 20] = [
    "a", " ", "and ", "or ", "not ", "in ", "exists ", "(", ")", ",", "=", "!=", "<", ">=",
    "\"x y\"", "'", "\\", "2.5e3", "\u{e9}", "null ",
];

/// The same in JSON.
const JSON: [&str; 16] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"a\"",
    "\"$and\"",
    "\"$or\"",
    "\"$not\"",
    "\"$in\"",
    "\"$gte\"",
    "\"$exists\"",
    "true",
    "1",
    "null",
];

fn picked(bytes: &[u8], words: &[&str]) -> String {
    bytes.iter().map(|byte| words[usize::from(*byte) % words.len()]).collect()
}

#[test]
fn words_of_any_kind_are_a_filter_or_refused() {
    check!().for_each(|bytes: &[u8]| {
        for text in [picked(bytes, &WORDS), String::from_utf8_lossy(bytes).into_owned()] {
            if let Ok(filter) = text.parse::<Filter>() {
                let _ = filter.fields();
            }
        }
    });
}

#[test]
fn json_of_any_kind_is_a_filter_or_refused() {
    check!().for_each(|bytes: &[u8]| {
        let Ok(json) = serde_json::from_str(&picked(bytes, &JSON)) else { return };
        if let Ok(filter) = Filter::from_json(&json) {
            let _ = filter.fields();
        }
    });
}
