//! Judgements in the form of the BEIR data sets.

use std::path::Path;

use shard_audit::quality::Qrels;

use super::error::{InputError, InputProblem, Record};

/// Reads judgements, BEIR's three columns or TREC's four.
pub fn read_qrels(path: &Path) -> Result<Qrels, InputError> {
    let read = || qrels_from(&std::fs::read(path)?);
    read().map_err(|error| error.in_file(path))
}

/// Reads judgements, BEIR's three columns or TREC's four.
pub fn qrels_from(bytes: &[u8]) -> Result<Qrels, InputError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
        Record::Line(line).with(InputProblem::NotUtf8(None))
    })?;
    Ok(Qrels::parse(text).map_err(InputProblem::from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_judgements_name_their_line() {
        assert_eq!(qrels_from(b"q d 1\nq \xff 1").unwrap_err().to_string(), "line 2: not UTF-8");
        assert_eq!(
            qrels_from(b"q d x").unwrap_err().to_string(),
            "line 1: expected an integer relevance, found \"x\""
        );
    }
}
