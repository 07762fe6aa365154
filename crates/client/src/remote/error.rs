//! Why a server could not be talked to, in words that say what to do.

use std::error::Error;
use std::time::Duration;

use super::tls::{Fingerprint, PinMismatch};

/// Why there was no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// A pin or an authority where there is no certificate.
    #[error(
        "with http:// there is no certificate to check: use https://, or give no pin and no authority"
    )]
    CertificateWithoutTls,
    /// A proxy where none leads.
    #[error(
        "http:// is for this machine's own addresses, and no proxy leads there: use https://, or \
         give no proxy"
    )]
    ProxyWithoutTls,
    /// An option that cannot be used.
    #[error("{reason}")]
    Option {
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody listens there, or nothing leads there.
    #[error("cannot connect to {server}: {reason}; check the address and that the server runs")]
    Connect {
        /// The server.
        server: String,
        /// What the network said.
        reason: String,
    },
    /// The server's certificate is not the pinned one.
    #[error(
        "the certificate of {server} does not match the pin: it is {seen} and {pinned} was \
         expected; if its owner changed it, pin the new one, otherwise somebody is in between"
    )]
    Pin {
        /// The server.
        server: String,
        /// The fingerprint expected.
        pinned: Fingerprint,
        /// The fingerprint seen.
        seen: Fingerprint,
    },
    /// The server's certificate is not trusted.
    #[error(
        "the certificate of {server} is not trusted: {reason}; pin its fingerprint or trust its \
         authority"
    )]
    Untrusted {
        /// The server.
        server: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No answer in time.
    #[error("no answer from {server} within {} s", seconds(.waited))]
    Timeout {
        /// The server.
        server: String,
        /// How long it was waited for, everything that was repeated included.
        waited: Duration,
    },
    /// The connection broke before the answer was whole.
    #[error("the connection to {server} broke: {reason}")]
    Broken {
        /// The server.
        server: String,
        /// What the network said.
        reason: String,
    },
    /// The server asks for a token, or does not know this one.
    #[error("{server} {}", if *.given { "does not accept this token: it is mistyped, expired or revoked; ask its owner for another" } else { "asks for a token" })]
    Unauthorised {
        /// The server.
        server: String,
        /// Whether a token was given.
        given: bool,
    },
    /// The token is known and does not allow this.
    #[error("the token does not allow this on {server}: {reason}")]
    Forbidden {
        /// The server.
        server: String,
        /// What the server said.
        reason: String,
    },
    /// The server had no time, however often it was asked.
    #[error("{server} is busy and was asked {attempts} times; try again later")]
    Busy {
        /// The server.
        server: String,
        /// How often it was asked.
        attempts: u32,
    },
    /// Something before the server has none behind it.
    #[error("{server} is not available (HTTP status {status}); try again later")]
    Unavailable {
        /// The server.
        server: String,
        /// The status.
        status: u16,
    },
    /// The two sides speak different versions.
    #[error(
        "the server speaks version {theirs} of the protocol and this program version {ours}; \
         update the older of the two"
    )]
    Version {
        /// Ours.
        ours: u16,
        /// The server's.
        theirs: u16,
    },
    /// An answer that no Shard server gives.
    #[error(
        "{server} does not answer like a Shard server (HTTP status {status}); check the address"
    )]
    NotShard {
        /// The server.
        server: String,
        /// The status.
        status: u16,
    },
    /// An answer longer than any that was asked for.
    #[error("the answer of {server} is longer than {limit} bytes and was not read to its end")]
    TooLong {
        /// The server.
        server: String,
        /// The limit.
        limit: usize,
    },
    /// A message that servers do not take.
    #[error("this is not a message for servers")]
    NotForServers,
}

/// Whole seconds, or tenths of what is short.
fn seconds(waited: &Duration) -> String {
    let seconds = waited.as_secs_f64();
    if seconds < 10.0 {
        format!("{:.1}", seconds).replace(".0", "")
    } else {
        format!("{seconds:.0}")
    }
}

/// The last cause of an error, which is the one that says something.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

/// An error and its causes, with those that input and output errors carry and do not name.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        let carried = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        match carried {
            Some(carried) => Some(carried as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

/// What a failed request was: with the certificate first, which hides deep inside. `timeouts` are
/// those that it was made under.
pub(super) fn of_request(
    error: &reqwest::Error,
    server: String,
    timeouts: &super::Timeouts,
) -> RemoteError {
    let tls = causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::Other(other)) => {
            if let Some(&PinMismatch { pinned, seen }) = other.0.downcast_ref::<PinMismatch>() {
                return RemoteError::Pin { server, pinned, seen };
            }
        }
        Some(reason @ rustls::Error::InvalidCertificate(_)) => {
            return RemoteError::Untrusted { server, reason: reason.to_string() };
        }
        _ => {}
    }
    let reason = innermost(error);
    match (error.is_timeout(), error.is_connect()) {
        (true, true) => RemoteError::Timeout { server, waited: timeouts.connect },
        (true, false) => RemoteError::Timeout { server, waited: timeouts.request },
        (false, true) => RemoteError::Connect { server, reason },
        (false, false) => RemoteError::Broken { server, reason },
    }
}
