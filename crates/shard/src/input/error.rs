//! What can be wrong with a file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use shard_geometry::VectorError;

use super::collect::shown;

/// Why something could not be read: which file, where in it, and what was expected. One line.
#[derive(Debug)]
pub struct InputError {
    file: Option<PathBuf>,
    place: Option<Place>,
    problem: Box<InputProblem>,
}

impl InputError {
    /// The file, where it was read by its name.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Where in it.
    pub fn place(&self) -> Option<Place> {
        self.place
    }

    /// What is wrong.
    pub fn problem(&self) -> &InputProblem {
        &self.problem
    }

    pub(super) fn in_file(self, path: &Path) -> Self {
        Self { file: Some(path.to_owned()), ..self }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(formatter, "{}: ", file.display())?;
        }
        if let Some(place) = self.place {
            write!(formatter, "{place}: ")?;
        }
        write!(formatter, "{}", self.problem)
    }
}

impl std::error::Error for InputError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.problem.source()
    }
}

impl From<InputProblem> for InputError {
    fn from(problem: InputProblem) -> Self {
        Self { file: None, place: None, problem: Box::new(problem) }
    }
}

impl From<io::Error> for InputError {
    fn from(error: io::Error) -> Self {
        InputProblem::Io(error).into()
    }
}

/// Where a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// A line of text or a row of a table.
    pub record: Record,
    /// The column of a text, counted from 1, or the coordinate of a vector, counted from 0.
    pub column: Option<usize>,
}

/// A record of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// A row of a table, counted from 0.
    Row(usize),
    /// A line of text, counted from 1.
    Line(usize),
}

impl Record {
    /// The problem of this record.
    pub(super) fn with(self, problem: InputProblem) -> InputError {
        Place { record: self, column: None }.with(problem)
    }

    /// The problem of one column of this record.
    pub(super) fn at(self, column: usize, problem: InputProblem) -> InputError {
        Place { record: self, column: Some(column) }.with(problem)
    }
}

impl Place {
    fn with(self, problem: InputProblem) -> InputError {
        InputError { place: Some(self), ..problem.into() }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row(row) => write!(formatter, "row {row}"),
            Self::Line(line) => write!(formatter, "line {line}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.record)?;
        self.column.map_or(Ok(()), |column| write!(formatter, ", column {column}"))
    }
}

/// What is wrong with a file or a record. Values of vectors are never repeated: a query is not for
/// logs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputProblem {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// A directory where a file was expected.
    #[error("expected a file, found a directory")]
    Directory,
    /// The name's ending is that of no format.
    #[error(
        "expected a .npy, .jsonl, .jsonl.gz, .parquet, .csv, .md or .txt file, or a folder of .md and \
         .txt files"
    )]
    UnknownFormat,
    /// Texts where vectors were expected.
    #[error("there are no vectors in a file of this kind")]
    NoVectorsHere,
    /// Vectors where texts were expected.
    #[error("there are no texts in a .npy file")]
    NoTexts,
    /// No document in a file or folder of texts.
    #[error("there are no documents")]
    NoDocuments,
    /// A text without a word.
    #[error("there is no text in it")]
    EmptyText,
    /// Bytes that belong to no text.
    #[error("not a text: it has NUL bytes")]
    Binary,
    /// This build cannot read csv.
    #[error("this build cannot read .csv: build it with the feature `csv`, or save it as .jsonl")]
    NoCsv,
    /// This build cannot read parquet.
    #[error(
        "this build cannot read parquet: build it with the feature `parquet`, or save the vectors \
         as .npy or .jsonl"
    )]
    NoParquet,
    /// This build cannot decompress.
    #[error("this build cannot read .gz: build it with the feature `gzip`, or decompress the file")]
    NoGzip,
    /// Ids from a file, for vectors that carry their own.
    #[error("ids from a file ({}) go with .npy only; this format carries its own", .0.display())]
    IdsNotWanted(PathBuf),
    /// Not as many ids as vectors.
    #[error("expected {vectors} ids, one per row, found {ids}{}", rows_of(.of))]
    IdCount {
        /// Vectors there are.
        vectors: usize,
        /// Ids there are.
        ids: usize,
        /// The file that the vectors are in.
        of: Option<PathBuf>,
    },
    /// An id without a character that can be seen.
    #[error("the id is empty")]
    EmptyId,
    /// An id for the second time.
    #[error("duplicate id {}, first on {first}", shown(.id))]
    DuplicateId {
        /// The id.
        id: String,
        /// Where it was found first.
        first: Record,
    },
    /// An id that cannot stand on one line of a text file.
    #[error("the id {} has a line break, and ids stand one on a line", shown(.0))]
    LineBreak(String),
    /// A vector of width zero.
    #[error("the vector has no coordinates")]
    NoCoordinates,
    /// A vector of another width.
    #[error("expected {expected} coordinates as in the vectors before, found {found}")]
    Width {
        /// The width of the first vector.
        expected: usize,
        /// The width of this one.
        found: usize,
    },
    /// A coordinate that is not a number.
    #[error("NaN is not a coordinate")]
    NotANumber,
    /// A coordinate without bound.
    #[error("infinity is not a coordinate")]
    Infinite,
    /// A coordinate beyond single precision.
    #[error("the value does not fit a 32-bit float")]
    TooLarge,
    /// Nothing to read.
    #[error("there are no vectors")]
    NoVectors,
    /// Vectors that cannot be used as a set.
    #[error(transparent)]
    Vectors(#[from] VectorError),
    /// Bytes that are no text.
    #[error("not UTF-8{}", at_byte(.0))]
    NotUtf8(Option<usize>),
    /// The file does not have the form that is read; the words say which was expected.
    #[error("{0}")]
    Malformed(String),
    /// A document whose text is not among those given.
    #[error("no text for document {}", shown(.0))]
    NoText(String),
    /// A release of somebody else's vectors that does not fit the originals.
    #[error("expected {originals} rows in the release, one per original, found {found}")]
    ReleaseRows {
        /// Originals there are.
        originals: usize,
        /// Rows of the release.
        found: usize,
    },
    /// Labels that do not fit a release of somebody else's vectors.
    #[error("expected {rows} lines, one label for each row of the release, found {found}")]
    ReleaseLabels {
        /// Rows of the release.
        rows: usize,
        /// Labels given.
        found: usize,
    },
    /// Wrong judgements.
    #[cfg(feature = "audit")]
    #[error(transparent)]
    Judgements(#[from] shard_audit::quality::QrelsError),
}

fn rows_of(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or(String::new(), |path| format!(" (rows of {})", path.display()))
}

fn at_byte(byte: &Option<usize>) -> String {
    byte.map_or(String::new(), |byte| format!(" at byte {byte}"))
}
