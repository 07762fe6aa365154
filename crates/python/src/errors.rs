//! Errors of the library as exceptions of the package, in the library's words.

use std::ffi::CString;

use pyo3::exceptions::{PyKeyboardInterrupt, PyUserWarning};
use pyo3::prelude::*;
use shard::{ClientError, Error};

/// The classes that `shard._errors` defines.
mod classes {
    pyo3::import_exception!(shard._errors, EncoderError);
    pyo3::import_exception!(shard._errors, FalseAnswerError);
    pyo3::import_exception!(shard._errors, InputError);
    pyo3::import_exception!(shard._errors, ServerError);
    pyo3::import_exception!(shard._errors, ShardError);
    pyo3::import_exception!(shard._errors, VaultError);
}

/// The exception for an error.
pub fn raised(error: Error) -> PyErr {
    let mut words = words(&error);
    if let Some(hint) = hint(&error) {
        words = format!("{words} ({hint})");
    }
    match &error {
        Error::Client(client) => of_client(client, words),
        Error::Input(_) | Error::NoneJudged { .. } | Error::Judgement(_) => input(words),
        Error::NoEncoder => input(words),
        Error::Encode(_)
        | Error::Location(_)
        | Error::EncoderUnknown { .. }
        | Error::NotedEndpoint { .. }
        | Error::EncoderWidth { .. } => classes::EncoderError::new_err(words),
        _ => classes::ShardError::new_err(words),
    }
}

fn of_client(error: &ClientError, words: String) -> PyErr {
    use ClientError::*;
    match error {
        Cancelled => PyKeyboardInterrupt::new_err(()),
        Vault(_) | Payload { .. } => classes::VaultError::new_err(words),
        OtherEncoder { .. } => classes::EncoderError::new_err(words),
        FalseAnswer { .. } | Forged | ChecksRetired => classes::FalseAnswerError::new_err(words),
        Remote(_)
        | NoAnswer { .. }
        | Outdated { .. }
        | Behind { .. }
        | Forked { .. }
        | Overtaken { .. }
        | DamagedRows { .. }
        | UnknownState { .. }
        | Incomplete { .. }
        | NothingPublished
        | NoPublishedState
        | ServerBehind { .. }
        | TooFarApart { .. }
        | NotThisVault
        | Unpublished { .. }
        | Revoked { .. }
        | AnotherVault
        | Refused(_) => classes::ServerError::new_err(words),
        Shape(_)
        | Vectors(_)
        | IdCount { .. }
        | DuplicateId(_)
        | IdLength(_)
        | UnknownIds(_)
        | NoSuchDocuments(_)
        | RecordLength { .. }
        | Filter(_)
        | Setting(_)
        | TooLong { .. }
        | Empty
        | NothingLeft(_) => input(words),
        _ => classes::ShardError::new_err(words),
    }
}

/// What a user of the package can do about an error, in the package's own words.
fn hint(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::NoEncoder => {
            "give encoder= to Vault.create or Vault.open, or pass vectors= to add and a vector to search"
        }
        Error::EncoderUnknown { .. } | Error::NotedEndpoint { .. } => {
            "open the vault with encoder=, a folder or the address of an endpoint and a model"
        }
        Error::Client(ClientError::OtherEncoder { .. }) => "open the vault with the right encoder=",
        _ => return None,
    })
}

/// Something that was given cannot be used.
pub fn input(words: impl Into<String>) -> PyErr {
    classes::InputError::new_err(words.into())
}

/// An encoder does not give vectors.
pub fn encoder(error: &(dyn std::error::Error + 'static)) -> PyErr {
    classes::EncoderError::new_err(words(error))
}

/// Something to know of work that goes on or is done. The warning is of whoever called the package.
pub fn warned(py: Python<'_>, words: &str) -> PyResult<()> {
    let words = CString::new(words.replace('\0', " ")).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &words, 2)
}

/// An error and its causes in one line, as the command prints them.
pub fn words(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // A transparent error says what its cause says.
        if !words.ends_with(&more) {
            words = format!("{words}: {more}");
        }
        cause = error.source();
    }
    words
}
