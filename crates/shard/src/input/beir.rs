//! Texts and judgements in the form of the BEIR data sets.

use std::io::BufRead;
use std::path::Path;

#[cfg(feature = "audit")]
use shard_audit::quality::Qrels;

use super::collect::{check_distinct, check_not_empty};
use super::error::{InputError, Record};
use super::jsonl::{self, Id};
use super::lines::Lines;

/// A document or query as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Its id.
    pub id: String,
    /// Its title; empty where the file has none, as for queries.
    pub title: String,
    /// Its body.
    pub text: String,
}

impl Text {
    /// The title and the body as one, as encoders are given them.
    pub fn with_title(&self) -> String {
        format!("{} {}", self.title, self.text).trim().to_owned()
    }
}

#[derive(serde::Deserialize)]
struct Line {
    #[serde(rename = "_id", alias = "id")]
    id: Id,
    #[serde(default)]
    title: String,
    text: String,
}

/// Reads `corpus.jsonl` or `queries.jsonl`: `_id`, `text` and perhaps `title`.
pub fn texts_from(reader: impl BufRead) -> Result<Vec<Text>, InputError> {
    let mut lines = Lines::new(reader);
    let mut texts = Vec::new();
    let mut records = Vec::new();
    while let Some((number, line)) = lines.next_line()? {
        if line.trim().is_empty() {
            continue;
        }
        let Line { id: Id(id), title, text } = jsonl::parse(number, line)?;
        check_not_empty(&id, Record::Line(number))?;
        texts.push(Text { id, title, text });
        records.push(Record::Line(number));
    }
    let ids: Vec<String> = texts.iter().map(|text: &Text| text.id.clone()).collect();
    check_distinct(&ids, |row| records[row])?;
    Ok(texts)
}

/// Reads texts, decompressing a file whose name ends in `.gz`.
pub fn read_texts(path: &Path) -> Result<Vec<Text>, InputError> {
    super::open_text(path).and_then(texts_from).map_err(|error| error.in_file(path))
}

/// Reads judgements, BEIR's three columns or TREC's four.
#[cfg(feature = "audit")]
pub fn read_qrels(path: &Path) -> Result<Qrels, InputError> {
    let read = || qrels_from(&std::fs::read(path)?);
    read().map_err(|error| error.in_file(path))
}

/// Reads judgements, BEIR's three columns or TREC's four.
#[cfg(feature = "audit")]
pub fn qrels_from(bytes: &[u8]) -> Result<Qrels, InputError> {
    use super::error::InputProblem;
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
        Record::Line(line).with(InputProblem::NotUtf8(None))
    })?;
    Ok(Qrels::parse(text).map_err(InputProblem::from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &[u8]) -> String {
        texts_from(text).expect_err("the text is wrong on purpose").to_string()
    }

    #[test]
    fn texts_are_read_with_and_without_titles() {
        let found = texts_from(&b"{\"_id\": \"a\", \"title\": \"T\", \"text\": \"body\"}\r\n\n{\"_id\": 7, \"text\": \"q\", \"metadata\": {}}"[..]).unwrap();
        assert_eq!(found[0], Text { id: "a".into(), title: "T".into(), text: "body".into() });
        assert_eq!(found[1], Text { id: "7".into(), title: String::new(), text: "q".into() });
    }

    #[test]
    fn a_wrong_text_names_its_line() {
        assert_eq!(problem(b"\n{\"_id\": \"a\"}"), "line 2, column 12: missing field `text`");
        assert_eq!(problem(b"{\"_id\": \"\", \"text\": \"\"}"), "line 1: the id is empty");
        assert_eq!(
            problem(b"{\"_id\": \"a\", \"text\": \"\"}\n{\"_id\": \"a\", \"text\": \"\"}"),
            "line 2: duplicate id \"a\", first on line 1"
        );
    }

    #[cfg(feature = "audit")]
    #[test]
    fn wrong_judgements_name_their_line() {
        assert_eq!(qrels_from(b"q d 1\nq \xff 1").unwrap_err().to_string(), "line 2: not UTF-8");
        assert_eq!(
            qrels_from(b"q d x").unwrap_err().to_string(),
            "line 1: expected an integer relevance, found \"x\""
        );
    }
}
