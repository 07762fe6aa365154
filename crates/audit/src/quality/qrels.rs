//! Relevance judgements and their two text forms.

use std::collections::BTreeMap;

/// The judged documents of one query: document id to relevance. Relevant means greater than zero.
pub type Judgements = BTreeMap<String, i32>;

/// Judgements of a set of queries, ordered by id so that whatever walks them is reproducible.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Qrels {
    queries: BTreeMap<String, Judgements>,
}

/// A line of a judgement file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct QrelsError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: QrelsProblem,
}

/// What can be wrong with a line of judgements.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QrelsProblem {
    /// Neither the BEIR nor the TREC number of columns.
    #[error(
        "expected 3 columns (query, document, score) or 4 (query, iteration, document, relevance), found {actual}"
    )]
    Columns {
        /// Columns on this line.
        actual: usize,
    },
    /// The file changes its form on the way.
    #[error("expected {expected} columns as on the lines before, found {actual}")]
    MixedForms {
        /// Columns on the lines before.
        expected: usize,
        /// Columns on this line.
        actual: usize,
    },
    /// A query or document id is empty.
    #[error("the {field} id is empty")]
    EmptyId {
        /// Which of the two.
        field: &'static str,
    },
    /// The relevance is not an integer.
    #[error("expected an integer relevance, found {actual:?}")]
    Relevance {
        /// The text in its place.
        actual: String,
    },
    /// The same pair is judged twice, differently.
    #[error("query {query:?} and document {document:?} were judged {before} before, {now} here")]
    Contradiction {
        /// The query's id.
        query: String,
        /// The document's id.
        document: String,
        /// The relevance given first.
        before: i32,
        /// The relevance given here.
        now: i32,
    },
}

impl Qrels {
    /// Reads judgements in BEIR form (`query document score`, with or without the header line) or in TREC form
    /// (`query iteration document relevance`).
    ///
    /// A line with a tab is split at tabs, any other at white space. Blank lines are skipped; a judgement given
    /// twice with the same relevance counts once.
    ///
    /// # Errors
    /// The first line that is in neither form, changes form, or contradicts an earlier one.
    pub fn parse(text: &str) -> Result<Self, QrelsError> {
        let mut qrels = Self::default();
        let mut form = None;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            let fields = columns(line);
            if fields.is_empty() || (form.is_none() && fields == ["query-id", "corpus-id", "score"])
            {
                continue;
            }
            qrels
                .add_line(&fields, *form.get_or_insert(fields.len()))
                .map_err(|problem| QrelsError { line: index + 1, problem })?;
        }
        Ok(qrels)
    }

    fn add_line(&mut self, fields: &[&str], expected: usize) -> Result<(), QrelsProblem> {
        let actual = fields.len();
        let (query, document, relevance) = match *fields {
            _ if actual != expected => return Err(QrelsProblem::MixedForms { expected, actual }),
            [query, document, relevance] | [query, _, document, relevance] => {
                (query, document, relevance)
            }
            _ => return Err(QrelsProblem::Columns { actual }),
        };
        for (field, id) in [("query", query), ("document", document)] {
            if id.is_empty() {
                return Err(QrelsProblem::EmptyId { field });
            }
        }
        let relevance = relevance
            .parse()
            .map_err(|_| QrelsProblem::Relevance { actual: relevance.to_owned() })?;
        self.judge(query, document, relevance)
    }

    /// Adds one judgement.
    ///
    /// # Errors
    /// [`QrelsProblem::Contradiction`] when the pair is already judged differently.
    pub fn judge(
        &mut self,
        query: &str,
        document: &str,
        relevance: i32,
    ) -> Result<(), QrelsProblem> {
        let judgements = self.queries.entry(query.to_owned()).or_default();
        match judgements.insert(document.to_owned(), relevance) {
            Some(before) if before != relevance => {
                judgements.insert(document.to_owned(), before);
                Err(QrelsProblem::Contradiction {
                    query: query.to_owned(),
                    document: document.to_owned(),
                    before,
                    now: relevance,
                })
            }
            _ => Ok(()),
        }
    }

    /// The judgements of one query, if it has any.
    pub fn judgements(&self, query: &str) -> Option<&Judgements> {
        self.queries.get(query)
    }

    /// Every judged query with its judgements, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Judgements)> {
        self.queries.iter().map(|(query, judgements)| (query.as_str(), judgements))
    }

    /// How many queries have judgements.
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Whether nothing is judged.
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }
}

fn columns(line: &str) -> Vec<&str> {
    if line.trim().is_empty() {
        Vec::new()
    } else if line.contains('\t') {
        line.split('\t').map(str::trim).collect()
    } else {
        line.split_whitespace().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> (usize, QrelsProblem) {
        let error = Qrels::parse(text).expect_err("the text is wrong on purpose");
        (error.line, error.problem)
    }

    #[test]
    fn beir_and_trec_forms_read_alike() {
        let beir =
            Qrels::parse("query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq2\td1\t-1\n").unwrap();
        let bare = Qrels::parse("q1 d1 2\r\n\r\nq1 d2 0\r\nq2 d1 -1").unwrap();
        let trec = Qrels::parse("\u{feff}q1 0 d1 2\nq1  0  d2  0\nq2 0 d1 -1\n").unwrap();
        assert_eq!(beir, bare);
        assert_eq!(beir, trec);
        assert_eq!(beir.len(), 2);
        assert_eq!(beir.judgements("q1").unwrap()["d1"], 2);
        assert_eq!(beir.judgements("q3"), None);
    }

    #[test]
    fn ids_keep_their_spaces_between_tabs() {
        let qrels = Qrels::parse("a query\ta document\t1").unwrap();
        assert_eq!(qrels.judgements("a query").unwrap()["a document"], 1);
    }

    #[test]
    fn a_wrong_number_of_columns_names_the_line() {
        assert_eq!(problem("q1 d1"), (1, QrelsProblem::Columns { actual: 2 }));
        assert_eq!(
            problem("q1 d1 1\n\nq1 0 d1 1"),
            (3, QrelsProblem::MixedForms { expected: 3, actual: 4 })
        );
        assert_eq!(
            Qrels::parse("a b c d e").unwrap_err().to_string(),
            "line 1: expected 3 columns (query, document, score) or 4 (query, iteration, document, relevance), found 5"
        );
    }

    #[test]
    fn a_relevance_that_is_no_integer_names_the_line() {
        assert_eq!(
            problem("q1 d1 1\nq1 d2 0.5"),
            (2, QrelsProblem::Relevance { actual: "0.5".into() })
        );
        assert_eq!(problem("q1 d1 99999999999").0, 1);
    }

    #[test]
    fn an_empty_id_names_the_line_and_the_field() {
        assert_eq!(problem("\td1\t1"), (1, QrelsProblem::EmptyId { field: "query" }));
        assert_eq!(problem("q1\t\t1"), (1, QrelsProblem::EmptyId { field: "document" }));
    }

    #[test]
    fn a_contradiction_is_refused_and_a_repetition_is_not() {
        assert_eq!(Qrels::parse("q1 d1 1\nq1 d1 1").unwrap().judgements("q1").unwrap().len(), 1);
        let (line, found) = problem("q1 d1 1\nq1 d1 2");
        assert_eq!(line, 2);
        assert!(matches!(found, QrelsProblem::Contradiction { before: 1, now: 2, .. }));
    }

    #[test]
    fn a_header_is_only_a_header_at_the_top() {
        assert_eq!(problem("q1\td1\t1\nquery-id\tcorpus-id\tscore").0, 2);
    }
}
