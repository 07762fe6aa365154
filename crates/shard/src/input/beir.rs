//! Texts and judgements in the form of the BEIR data sets.

use std::fs;
use std::io::BufRead;
use std::path::Path;
use std::str;

use anyhow::{Result, anyhow};
use shard_audit::quality::Qrels;

use super::collect::{Place, check_distinct, check_not_empty};
use super::in_file;
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
struct Record {
    #[serde(rename = "_id", alias = "id")]
    id: Id,
    #[serde(default)]
    title: String,
    text: String,
}

/// Reads `corpus.jsonl` or `queries.jsonl`: `_id`, `text` and perhaps `title`.
pub fn parse_texts(reader: impl BufRead) -> Result<Vec<Text>> {
    let mut lines = Lines::new(reader);
    let mut texts = Vec::new();
    let mut places = Vec::new();
    while let Some((number, line)) = lines.next_line()? {
        if line.trim().is_empty() {
            continue;
        }
        let Record { id: Id(id), title, text } = jsonl::parse(number, line)?;
        check_not_empty(&id, Place::Line(number))?;
        texts.push(Text { id, title, text });
        places.push(Place::Line(number));
    }
    let ids: Vec<String> = texts.iter().map(|text: &Text| text.id.clone()).collect();
    check_distinct(&ids, |row| places[row])?;
    Ok(texts)
}

/// Reads texts, decompressing a file whose name ends in `.gz`.
pub fn read_texts(path: &Path) -> Result<Vec<Text>> {
    parse_texts(super::open_text(path)?).map_err(in_file(path))
}

/// Reads judgements, BEIR's three columns or TREC's four.
pub fn read_qrels(path: &Path) -> Result<Qrels> {
    let bytes = fs::read(path).map_err(in_file(path))?;
    parse_qrels(&bytes).map_err(in_file(path))
}

/// Reads judgements, BEIR's three columns or TREC's four.
pub fn parse_qrels(bytes: &[u8]) -> Result<Qrels> {
    let text = str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
        anyhow!("line {line}: not UTF-8")
    })?;
    Ok(Qrels::parse(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &[u8]) -> String {
        parse_texts(text).expect_err("the text is wrong on purpose").to_string()
    }

    #[test]
    fn texts_are_read_with_and_without_titles() {
        let found = parse_texts(&b"{\"_id\": \"a\", \"title\": \"T\", \"text\": \"body\"}\r\n\n{\"_id\": 7, \"text\": \"q\", \"metadata\": {}}"[..]).unwrap();
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

    #[test]
    fn wrong_judgements_name_their_line() {
        assert_eq!(parse_qrels(b"q d 1\nq \xff 1").unwrap_err().to_string(), "line 2: not UTF-8");
        assert_eq!(
            parse_qrels(b"q d x").unwrap_err().to_string(),
            "line 1: expected an integer relevance, found \"x\""
        );
    }
}
