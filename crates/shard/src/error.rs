//! The library's one error.

use std::io;
use std::path::{Path, PathBuf};

use shard_client::ClientError;
use shard_client::vault::VaultError;

use crate::input::{InputError, InputProblem};

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The vault, a search, or what travels to and from a server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Documents, queries or files that cannot be used.
    #[error(transparent)]
    Input(#[from] InputError),
    /// An encoder that cannot be opened, or texts that it cannot encode.
    #[cfg(feature = "encode")]
    #[error(transparent)]
    Encode(#[from] shard_encode::EncodeError),
    /// What is no location of an encoder.
    #[cfg(feature = "encode")]
    #[error(transparent)]
    Location(#[from] shard_encode::LocationError),
    /// No encoder was given, and the vault knows of none.
    #[error("no text was ever ingested into this vault, so it knows no encoder: name one")]
    NoEncoder,
    /// The encoder of a vault, of which nobody said where it is.
    #[error("the texts of this vault were encoded by {identity}: say where that is")]
    EncoderUnknown {
        /// Its identity.
        identity: String,
    },
    /// The encoder of a vault is an endpoint, which only whoever searches may choose to send texts to.
    #[error(
        "the texts of this vault were encoded at {location}: name it yourself, if your texts and your key \
         may go there"
    )]
    NotedEndpoint {
        /// Where, by the vault.
        location: String,
    },
    /// An encoder for documents of another width.
    #[error(
        "the encoder makes vectors of {encoder} coordinates, and the documents of this vault have \
         {documents}"
    )]
    EncoderWidth {
        /// Coordinates of its vectors.
        encoder: usize,
        /// Coordinates of the vault's documents.
        documents: usize,
    },
    /// A document too long for one record.
    #[error(
        "document {} takes {bytes} bytes with its fields, and a passage at most {}: ingest it in \
         chunks", crate::input::shown(.id), shard_client::MAX_RECORD_BYTES
    )]
    LongDocument {
        /// Its id.
        id: String,
        /// Bytes of its record.
        bytes: usize,
    },
    /// An id too long for a document in chunks.
    #[error("an id of {bytes} bytes: documents in chunks have ids of at most {most}")]
    LongId {
        /// Bytes of the id.
        bytes: usize,
        /// Bytes that are possible.
        most: usize,
    },
    /// A field that chunks have of their own.
    #[error(
        "document {} has a field {field:?}, which is what chunks are known by: rename it, or ingest \
         the document whole", crate::input::shown(.id)
    )]
    ChunkField {
        /// The document's id.
        id: String,
        /// The field.
        field: String,
    },
    /// A file or directory that could not be written.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The rows of a server on disk.
    #[cfg(feature = "server")]
    #[error(transparent)]
    Store(#[from] shard_store::StoreError),
    /// A server that could not be started.
    #[cfg(feature = "server")]
    #[error(transparent)]
    Start(#[from] shard_server::http::StartError),
    /// An address that could not be listened on.
    #[cfg(feature = "server")]
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// An address at which other servers cannot reach this one.
    #[cfg(feature = "server")]
    #[error(
        "other servers cannot reach {listen}: say where they reach this one (--peers-advertise host:port, \
         with --peers-listen for a port that stays)"
    )]
    Unreachable {
        /// Where it listens for them.
        listen: std::net::SocketAddr,
    },
    /// Tokens where a server over a database does not look for them.
    #[cfg(feature = "server")]
    #[error("{} holds tokens, and those of a server over a database are in the database", path.display())]
    TokensAside {
        /// The file.
        path: PathBuf,
    },
    /// The certificate of a server.
    #[cfg(feature = "server")]
    #[error(transparent)]
    Tls(#[from] shard_server::http::TlsError),
    /// The tokens of a server.
    #[cfg(feature = "server")]
    #[error(transparent)]
    Token(#[from] shard_server::http::TokenError),
    /// A policy that cannot be judged.
    #[cfg(feature = "audit")]
    #[error(transparent)]
    Policy(#[from] shard_audit::report::gate::GateError),
    /// Rankings that cannot be judged.
    #[cfg(feature = "audit")]
    #[error(transparent)]
    Judgement(#[from] shard_audit::quality::EvaluateError),
    /// Judgements of documents none of which is in the vault.
    #[cfg(feature = "audit")]
    #[error(
        "none of the {judged} documents that are judged relevant is among the {documents} of the \
         vault: check that both have the same ids (judged: {example}; in the vault: {held})"
    )]
    NoneJudged {
        /// Documents judged relevant for the queries.
        judged: usize,
        /// Documents of the vault.
        documents: usize,
        /// The id of one of the first, quoted.
        example: String,
        /// The id of one of the second, quoted.
        held: String,
    },
    /// An attack, a baseline or a judgement that could not be made.
    #[cfg(feature = "audit")]
    #[error("{0}")]
    Audit(String),
}

impl Error {
    pub(crate) fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: path.to_owned(), source }
    }

    /// Errors of the audit carry only a message: the whole of it, causes included.
    #[cfg(feature = "audit")]
    pub(crate) fn audit(error: impl std::fmt::Display) -> Self {
        Self::Audit(format!("{error:#}"))
    }
}

impl From<InputProblem> for Error {
    fn from(problem: InputProblem) -> Self {
        Self::Input(problem.into())
    }
}

impl From<VaultError> for Error {
    fn from(error: VaultError) -> Self {
        Self::Client(error.into())
    }
}

impl From<shard_geometry::VectorError> for Error {
    fn from(error: shard_geometry::VectorError) -> Self {
        Self::Client(error.into())
    }
}

#[cfg(feature = "remote")]
impl From<shard_client::remote::RemoteError> for Error {
    fn from(error: shard_client::remote::RemoteError) -> Self {
        Self::Client(error.into())
    }
}
