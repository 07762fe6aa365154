//! What a user of the command can do about an error of the libraries, in the command's own words.

use std::fmt;

use shard::remote::{BackupError, RemoteError};
use shard::server::{StartError, TokenError};
use shard::{CellsError, ClientError, Error, VaultError};

/// What an error says, with a hint that only the command that it ended can give.
#[derive(Debug)]
struct Hinted {
    words: String,
    hint: &'static str,
}

impl fmt::Display for Hinted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.words)
    }
}

/// An error of `shard plan`.
pub fn of_plan(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref() {
        Some(Error::Client(ClientError::Empty)) => {
            let hint = "give --rows and --dim to plan without one";
            let words = error.to_string();
            error.context(Hinted { words, hint })
        }
        _ => error,
    }
}

/// A hint to put behind the message of an error, if there is one to give.
pub fn hint(error: &anyhow::Error) -> Option<&'static str> {
    if let Some(hinted) = error.downcast_ref::<Hinted>() {
        return Some(hinted.hint);
    }
    error.chain().find_map(|cause| {
        let of_error = cause.downcast_ref().and_then(of_library);
        let of_error = of_error.or_else(|| cause.downcast_ref().and_then(of_client));
        let of_error = of_error.or_else(|| cause.downcast_ref().and_then(of_remote));
        of_error.or_else(|| cause.downcast_ref().and_then(of_token))
    })
}

fn of_library(error: &Error) -> Option<&'static str> {
    match error {
        Error::Client(error) => of_client(error),
        Error::Start(StartError::PublicWithoutTls(_)) => Some("leave out --plain"),
        Error::Start(StartError::PublicWithoutToken(_)) => Some("`shard token create` makes one"),
        Error::Token(error) => of_token(error),
        Error::TokensAside { .. } => {
            Some("make tokens with `shard token create --store URL`, and move that file away")
        }
        Error::NoEncoder | Error::EncoderUnknown { .. } => {
            Some("--encoder takes a folder with a model, or the address of an endpoint and a model")
        }
        Error::NotedEndpoint { .. } => Some("--encoder or SHARD_ENCODER names it"),
        Error::LongDocument { .. } => Some("--chunk 256 does so"),
        _ => None,
    }
}

fn of_client(error: &ClientError) -> Option<&'static str> {
    Some(match error {
        ClientError::Cells(CellsError::FewerRowsThanCells { .. }) => {
            "`--cells auto` follows the number of documents: `shard init` and `shard refit` take it"
        }
        ClientError::Split(_) => "`shard init` takes another --d-pub, or leaves it to the ingest",
        ClientError::Overflow(_) => "`shard refit` fits a new model",
        ClientError::Outdated { .. } | ClientError::Behind { .. } => {
            "`shard pull` brings this copy to what is published"
        }
        ClientError::Forked { .. } => {
            "`shard pull`, then `shard publish`; or `shard publish --replace`"
        }
        ClientError::OtherEncoder { .. } => {
            "--encoder or SHARD_ENCODER says where the right one is"
        }
        ClientError::NoPublishedState => "`shard publish` leaves it there",
        ClientError::UnknownState { .. } => "`shard publish --replace` does so",
        ClientError::Unpublished { .. }
        | ClientError::Incomplete { .. }
        | ClientError::DamagedRows { .. } => "run `shard publish`",
        ClientError::Revoked { .. } => "owners make them with `shard export`",
        ClientError::AnotherVault => "--replace puts this vault in its place",
        ClientError::RowsOnServer | ClientError::Vault(VaultError::Elsewhere { .. }) => {
            "name the server with --server"
        }
        ClientError::Backup(BackupError::Parted { .. }) => {
            "`shard pull` brings this copy forward; --replace goes on without"
        }
        ClientError::Backup(BackupError::NoSuchBackup { .. }) => "`shard backup --list` shows them",
        ClientError::Remote(error) => return of_remote(error),
        _ => return None,
    })
}

fn of_remote(error: &RemoteError) -> Option<&'static str> {
    Some(match error {
        RemoteError::CertificateWithoutTls => "leave out --pin (SHARD_PIN) and --ca",
        RemoteError::ProxyWithoutTls => "leave out --proxy",
        RemoteError::Untrusted { .. } => {
            "give its fingerprint with --pin or its authority with --ca"
        }
        RemoteError::Unauthorised { given: false, .. } => {
            "put one into a file and give --token-file, or set SHARD_TOKEN"
        }
        RemoteError::Timeout { .. } => "--deadline gives it more time",
        _ => return None,
    })
}

fn of_token(error: &TokenError) -> Option<&'static str> {
    matches!(error, TokenError::Unknown(_)).then_some("`shard token list` shows them")
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn hints_are_found_under_context() {
        let server = || "https://a.example/x".to_owned();
        let asks = || RemoteError::Unauthorised { server: server(), given: false };
        let refused = RemoteError::Unauthorised { server: server(), given: true };
        let bare = Err::<(), _>(asks()).context("connecting").unwrap_err();
        let wrapped = anyhow::Error::new(Error::from(asks()));
        assert_eq!(hint(&bare), hint(&wrapped));
        assert!(hint(&bare).is_some_and(|hint| hint.contains("SHARD_TOKEN")));
        assert_eq!(hint(&refused.into()), None);
        assert!(hint(&ClientError::AnotherVault.into()).is_some_and(|h| h.contains("--replace")));
        let noted = Error::NotedEndpoint { location: "https://a.example/v1#m".to_owned() };
        assert!(hint(&noted.into()).is_some_and(|hint| hint.contains("--encoder")));
    }
}
