//! Why texts could not be encoded, one sentence each.

use std::path::PathBuf;
use std::time::Duration;

/// Why an encoder could not be opened, or texts not be encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// There is no such folder.
    #[error("{} is not a folder", .folder.display())]
    NoFolder {
        /// What was given.
        folder: PathBuf,
    },
    /// A folder without a model.
    #[error("{} has no model: an encoder needs model.safetensors, tokenizer.json and config.json", .folder.display())]
    NoModel {
        /// The folder.
        folder: PathBuf,
    },
    /// A file of the model that is missing.
    #[error("{} is missing: {purpose}", .file.display())]
    Missing {
        /// The file.
        file: PathBuf,
        /// What it is needed for.
        purpose: &'static str,
    },
    /// A file that cannot be read.
    #[error("{} cannot be read: {reason}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// A file larger than any that is read.
    #[error("{} has {bytes} bytes, more than the {limit} that are read", .file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// Its size.
        bytes: u64,
        /// The largest size that is read.
        limit: u64,
    },
    /// A file that is not what its name says, or is cut off.
    #[error("{} is damaged: {reason}", .file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A model that this crate does not compute.
    #[error("{} is of the architecture {architecture}, which is not supported: {reason}", .folder.display())]
    Architecture {
        /// The folder.
        folder: PathBuf,
        /// What its configuration says.
        architecture: String,
        /// What is supported, or what of it is not.
        reason: String,
    },
    /// A tensor that is missing, or of another shape than the configuration says.
    #[error("{}: the tensor {tensor} {reason}", .file.display())]
    Tensor {
        /// The file with the weights.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A tokenizer with more tokens than the model has embeddings.
    #[error(
        "the tokenizer in {} does not fit the weights: it has tokens up to {largest}, the model embeddings for {rows}",
        .folder.display()
    )]
    TokenizerMismatch {
        /// The folder.
        folder: PathBuf,
        /// The largest token of the tokenizer.
        largest: u32,
        /// How many tokens the model knows.
        rows: usize,
    },
    /// A text that the tokenizer refuses.
    #[error("text {index} cannot be tokenized: {reason}")]
    Tokenize {
        /// Which of the texts, from zero.
        index: usize,
        /// What the tokenizer said.
        reason: String,
    },
    /// Pieces that would never advance, or hold nothing.
    #[error(
        "pieces of {size} tokens cannot overlap by {overlap}: the size must be larger, and the overlap smaller"
    )]
    Pieces {
        /// Tokens of a piece.
        size: usize,
        /// Tokens that two pieces share.
        overlap: usize,
    },
    /// Numbers that are not finite.
    #[error("the vector of text {index} has values that are not numbers")]
    NotFinite {
        /// Which of the texts, from zero.
        index: usize,
    },
    /// The caller ended it.
    #[error("encoding was ended before it was done")]
    Ended,
    /// An endpoint, in a build without the feature.
    #[error("this build knows no endpoints: it was built without the feature `endpoint`")]
    NoEndpoints,
    /// Nobody listens there, or nothing leads there.
    #[error("cannot connect to {url}: {reason}; check the address and that the endpoint runs")]
    Connect {
        /// The endpoint.
        url: String,
        /// What the network said.
        reason: String,
    },
    /// The endpoint refuses the key, or wants one.
    #[error("{url} refused the key ({status}): set SHARD_EMBEDDINGS_KEY to one that it accepts")]
    Key {
        /// The endpoint.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The endpoint answered with an error.
    #[error("{url} answered with status {status}{}", shown(.message))]
    Status {
        /// The endpoint.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What it said, shortened.
        message: String,
    },
    /// The endpoint was busy for longer than we wait.
    #[error("{url} was busy at each of {tries} tries (status {status}); it asked to wait {} seconds", .wait.as_secs())]
    Busy {
        /// The endpoint.
        url: String,
        /// How often it was asked.
        tries: usize,
        /// The last HTTP status.
        status: u16,
        /// How long it asked to wait, last.
        wait: Duration,
    },
    /// An answer that is none.
    #[error("{url} did not answer as an embeddings endpoint does: {reason}")]
    Answer {
        /// The endpoint.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another model than the one asked for.
    #[error("{url} answered with the model {answered}, not {asked}")]
    OtherModel {
        /// The endpoint.
        url: String,
        /// The model asked for.
        asked: String,
        /// The model that answered.
        answered: String,
    },
    /// Vectors of another dimension than before.
    #[error(
        "{url} answered with {answered} dimensions, {expected} before: has the model behind it changed?"
    )]
    Dimension {
        /// The endpoint.
        url: String,
        /// The dimension at first.
        expected: usize,
        /// The dimension now.
        answered: usize,
    },
}

fn shown(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}
