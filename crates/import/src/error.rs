//! What can be wrong with a source.

use std::io;
use std::path::{Path, PathBuf};

/// Why a collection cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A file or directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file ends too early, or says of itself what cannot be.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What was found, and what was expected.
        what: String,
    },
    /// The source is sound and of a kind that is not read.
    #[error("{source_name}: {why}")]
    Unsupported {
        /// Which source.
        source_name: String,
        /// Why not.
        why: String,
    },
    /// Something was named that the source does not have: a collection, a table, a column.
    #[error("there is no {what} {name:?}; there {}", are(present))]
    Missing {
        /// What kind of thing.
        what: &'static str,
        /// The name that was asked for.
        name: String,
        /// What there is instead.
        present: Vec<String>,
    },
    /// The source has several things, and none was named.
    #[error("there are several {what}, name one: {}", present.join(", "))]
    Ambiguous {
        /// What kind of things.
        what: &'static str,
        /// Their names.
        present: Vec<String>,
    },
    /// What was asked for cannot be.
    #[error("{0}")]
    Option(String),
    /// A server cannot be reached, or refuses.
    #[error("{server}: {what}")]
    Server {
        /// Which, without any secret.
        server: String,
        /// What happened.
        what: String,
    },
    /// The source holds another number of documents than it says.
    #[error(
        "the source says that it has {claimed} documents, and {found} were found: it changed while it was read, or it is damaged"
    )]
    Count {
        /// What it says.
        claimed: usize,
        /// What was there.
        found: usize,
    },
    /// There is nothing in the source.
    #[error("{0} holds no documents")]
    Empty(String),
}

fn are(present: &[String]) -> String {
    match present {
        [] => "are none".to_owned(),
        [one] => format!("is {one:?}"),
        several => format!("are {}", several.join(", ")),
    }
}

impl ImportError {
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |source| Self::Read { path, source }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }

    pub(crate) fn unsupported(source: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Unsupported { source_name: source.into(), why: why.into() }
    }
}
