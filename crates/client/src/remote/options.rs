//! Where a server is and how patient to be with it.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use reqwest::header::HeaderValue;
use shard_protocol::{CollectionName, Operation, http};
use url::{Host, Url};
use zeroize::Zeroizing;

use super::error::RemoteError;
use super::tls::Fingerprint;

/// How to reach a server.
#[derive(Debug)]
pub struct RemoteOptions {
    /// The server and the collection.
    pub address: ServerAddress,
    /// What the server knows the caller by.
    pub token: Option<SecretToken>,
    /// The certificate that the server must present; then nothing else is asked of it.
    pub pin: Option<Fingerprint>,
    /// Certificates to trust in place of the platform's, in PEM.
    pub ca_file: Option<PathBuf>,
    /// A proxy, in place of what the environment names.
    pub proxy: Option<ProxyAddress>,
    /// How long to wait.
    pub timeouts: Timeouts,
    /// What to do when it was in vain.
    pub retries: Retries,
}

impl RemoteOptions {
    /// The defaults for an address.
    pub fn new(address: ServerAddress) -> Self {
        Self {
            address,
            token: None,
            pin: None,
            ca_file: None,
            proxy: None,
            timeouts: Timeouts::default(),
            retries: Retries::default(),
        }
    }

    /// Refuses options that have no effect without TLS, since their user expects one.
    pub(super) fn check(&self) -> Result<(), RemoteError> {
        if self.address.base.scheme() == "https" {
            return Ok(());
        }
        if self.pin.is_some() || self.ca_file.is_some() {
            Err(RemoteError::CertificateWithoutTls)
        } else if self.proxy.is_some() {
            Err(RemoteError::ProxyWithoutTls)
        } else {
            Ok(())
        }
    }
}

/// The slowest link that large requests are given time for, in bytes per second.
const SLOWEST_LINK: u64 = 32 << 10;

/// Bytes of a request that the times below are for; only what is beyond is given more.
const USUAL_BYTES: usize = 1 << 20;

/// How long to wait. A server that is silent costs no more than `total`, however often it is
/// asked; once per connection, `connect` may come before, when the round trip is measured. For a
/// request above 1 MiB, `request` and `total` grow by the time that the bytes beyond take at
/// 32 KiB per second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// For a connection, TLS included.
    pub connect: Duration,
    /// For one request and its answer.
    pub request: Duration,
    /// For an exchange with everything that is repeated, and the pauses between.
    pub total: Duration,
    /// For what an operator asks, once: compacting and copying take as long as the rows are many.
    pub operator: Duration,
}

impl Timeouts {
    /// Nothing takes longer than this, but for requests above 1 MiB.
    pub fn within(deadline: Duration) -> Self {
        let Self { connect, request, .. } = Self::default();
        Self {
            connect: connect.min(deadline),
            request: request.min(deadline),
            total: deadline,
            operator: deadline,
        }
    }

    /// For a request of this many bytes.
    pub(super) fn for_bytes(self, bytes: usize) -> Self {
        let beyond = bytes.saturating_sub(USUAL_BYTES) as u64;
        let carrying = Duration::from_millis(beyond * 1000 / SLOWEST_LINK);
        Self { request: self.request + carrying, total: self.total + carrying, ..self }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            request: Duration::from_secs(60),
            total: Duration::from_secs(120),
            operator: Duration::from_secs(600),
        }
    }
}

/// Exponential backoff with full jitter: before repetition `n`, counted from 0, a pause drawn
/// uniformly from zero to `min(longest, shortest 2^n)`, or what the server asks for if that is
/// longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retries {
    /// Repetitions of a request; 0 for none.
    pub most: u32,
    /// Longest pause before the first one.
    pub shortest: Duration,
    /// Longest pause before any.
    pub longest: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { most: 5, shortest: Duration::from_millis(100), longest: Duration::from_secs(10) }
    }
}

/// `https://host:port/NAME`: a server and a collection of it, `main` where none is named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerAddress {
    /// Ends with a slash.
    base: Url,
    collection: CollectionName,
}

impl ServerAddress {
    /// The collection.
    pub fn collection(&self) -> &CollectionName {
        &self.collection
    }

    /// Whether the server is on this machine, by name or number.
    pub fn is_loopback(&self) -> bool {
        match self.base.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
            Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
            None => false,
        }
    }

    pub(super) fn operation(&self, operation: Operation) -> Url {
        self.at(&http::operation(&self.collection, operation))
    }

    /// A path of the server.
    pub(super) fn at(&self, path: &str) -> Url {
        self.base.join(path).expect("names need no escaping in a path")
    }
}

impl FromStr for ServerAddress {
    type Err = RemoteError;

    fn from_str(text: &str) -> Result<Self, RemoteError> {
        let wrong = |reason: String| RemoteError::Option { reason };
        let mut base = Url::parse(text).map_err(|error| {
            wrong(format!(
                "the server's address is not a URL ({error}): use https://HOST:PORT/NAME"
            ))
        })?;
        if !base.username().is_empty() || base.password().is_some() {
            return Err(wrong("a server's address has no user: give a token instead".into()));
        }
        if base.query().is_some() || base.fragment().is_some() || base.host().is_none() {
            return Err(wrong("a server's address is https://HOST:PORT/NAME and no more".into()));
        }
        let path = base.path().trim_end_matches('/').to_owned();
        let (prefix, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let collection = match name {
            "" => CollectionName::default(),
            name => name.parse().map_err(|error| {
                wrong(format!("the last part of a server's address names a collection: {error}"))
            })?,
        };
        base.set_path(&format!("{prefix}/"));
        let address = Self { base, collection };
        match address.base.scheme() {
            "https" => Ok(address),
            "http" if address.is_loopback() => Ok(address),
            "http" => Err(wrong(
                "http:// shows tokens and requests to everybody on the way, and is for this \
                 machine's own addresses only: use https://"
                    .into(),
            )),
            other => Err(wrong(format!("a server's address begins with https://, not {other}://"))),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.base, self.collection)
    }
}

/// A bearer token. It is wiped when dropped and never printed.
pub struct SecretToken(Zeroizing<String>);

impl SecretToken {
    /// A token as a server printed it; space around it is dropped.
    ///
    /// # Errors
    /// When it is empty, longer than 512 bytes or holds anything but visible ASCII. The error
    /// does not repeat it.
    pub fn new(text: &str) -> Result<Self, RemoteError> {
        let text = text.trim();
        if text.is_empty() || text.len() > 512 || !text.bytes().all(|byte| byte.is_ascii_graphic())
        {
            let reason = "a token is one word of at most 512 letters, digits and signs";
            return Err(RemoteError::Option { reason: reason.into() });
        }
        Ok(Self(Zeroizing::new(text.to_owned())))
    }

    /// The value of the header. The copy inside it is marked, so that it is not logged, but it
    /// lives as long as the connection and is not wiped.
    pub(super) fn header(&self) -> HeaderValue {
        let text = Zeroizing::new(format!("Bearer {}", self.0.as_str()));
        let mut value = HeaderValue::from_str(&text).expect("a token is visible ASCII");
        value.set_sensitive(true);
        value
    }
}

impl fmt::Debug for SecretToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretToken(redacted)")
    }
}

/// The address of a proxy (`http://`, `https://` or `socks5://`). It may hold a password, so it is
/// never printed.
pub struct ProxyAddress(Zeroizing<String>);

impl ProxyAddress {
    pub(super) fn to_proxy(&self) -> Result<reqwest::Proxy, RemoteError> {
        reqwest::Proxy::all(self.0.as_str()).map_err(|_| unusable_proxy())
    }
}

impl FromStr for ProxyAddress {
    type Err = RemoteError;

    fn from_str(text: &str) -> Result<Self, RemoteError> {
        let known = ["http", "https", "socks5", "socks5h"];
        match Url::parse(text) {
            Ok(url) if known.contains(&url.scheme()) && url.has_host() => {
                Ok(Self(Zeroizing::new(text.to_owned())))
            }
            _ => Err(unusable_proxy()),
        }
    }
}

impl fmt::Debug for ProxyAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProxyAddress(redacted)")
    }
}

fn unusable_proxy() -> RemoteError {
    RemoteError::Option { reason: "a proxy is http://HOST:PORT or socks5://HOST:PORT".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Result<ServerAddress, String> {
        text.parse().map_err(|error: RemoteError| error.to_string())
    }

    #[test]
    fn the_last_part_of_the_path_is_the_collection() {
        for (text, collection, operation) in [
            ("https://a.example", "main", "https://a.example/v1/collections/main/rows"),
            ("https://a.example/", "main", "https://a.example/v1/collections/main/rows"),
            ("https://a.example:8443/law", "law", "https://a.example:8443/v1/collections/law/rows"),
            ("https://a.example/x/law/", "law", "https://a.example/x/v1/collections/law/rows"),
            ("http://127.0.0.1:80/b", "b", "http://127.0.0.1/v1/collections/b/rows"),
            ("http://[::1]:8/b", "b", "http://[::1]:8/v1/collections/b/rows"),
        ] {
            let parsed = address(text).unwrap();
            assert_eq!(parsed.collection().as_str(), collection);
            assert_eq!(parsed.operation(Operation::Rows).as_str(), operation);
            assert_eq!(address(&parsed.to_string()), Ok(parsed));
        }
    }

    #[test]
    fn addresses_that_would_leak_or_mean_nothing_are_refused_in_words() {
        for (text, reason) in [
            ("http://a.example/x", "use https://"),
            ("http://10.0.0.1/x", "use https://"),
            ("ftp://a.example/x", "https://"),
            ("a.example", "not a URL"),
            ("https://me:pw@a.example/x", "token"),
            ("https://a.example/UPPER", "names a collection"),
            ("https://a.example/a%20b", "names a collection"),
            ("https://a.example/x?y=1", "no more"),
            ("https://a.example/x#y", "no more"),
        ] {
            let error = address(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
            assert!(!error.contains("pw"), "{error}");
        }
    }

    #[test]
    fn without_tls_a_pin_roots_and_a_proxy_are_refused_in_words() {
        let plain = || RemoteOptions::new("http://127.0.0.1:8/x".parse().unwrap());
        plain().check().unwrap();
        let pin = RemoteOptions { pin: Some(Fingerprint::of(b"any")), ..plain() };
        let roots = RemoteOptions { ca_file: Some("ca.pem".into()), ..plain() };
        let proxy = RemoteOptions { proxy: "http://127.0.0.1:9".parse().ok(), ..plain() };
        for (options, word) in [(&pin, "pin"), (&roots, "authority"), (&proxy, "proxy")] {
            let error = options.check().unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("https://"), "{error}");
        }
        let address = "https://127.0.0.1:8/x".parse().unwrap();
        RemoteOptions { address, ..pin }.check().unwrap();
    }

    #[test]
    fn large_requests_are_given_the_time_of_a_slow_link() {
        let timeouts = Timeouts::default();
        for usual in [0, 300_000, 1 << 20] {
            assert_eq!(timeouts.for_bytes(usual), timeouts);
        }
        let grown = timeouts.for_bytes(9 << 20);
        assert_eq!((grown.request.as_secs(), grown.total.as_secs()), (60 + 256, 120 + 256));
        assert_eq!(grown.connect, timeouts.connect);
    }

    #[test]
    fn a_deadline_bounds_every_wait() {
        let short = Timeouts::within(Duration::from_secs(3));
        for wait in [short.connect, short.request, short.total, short.operator] {
            assert_eq!(wait, Duration::from_secs(3));
        }
        let long = Timeouts::within(Duration::from_secs(900));
        assert_eq!((long.connect.as_secs(), long.request.as_secs()), (10, 60));
        assert_eq!((long.total.as_secs(), long.operator.as_secs()), (900, 900));
    }

    #[test]
    fn secrets_are_not_printed() {
        let mut options = RemoteOptions::new("https://a.example/x".parse().unwrap());
        options.token = Some(SecretToken::new(" shard_secret\n").unwrap());
        options.proxy = Some("http://me:secret@proxy.example:1".parse().unwrap());
        assert!(!format!("{options:?}").contains("secret"));
        assert!(!format!("{:?}", options.token.unwrap().header()).contains("secret"));
        for bad in ["", "two words", "caf\u{e9}", &"x".repeat(513)] {
            assert!(SecretToken::new(bad).is_err());
        }
        for bad in ["proxy", "ftp://proxy:1", "http://"] {
            assert!(bad.parse::<ProxyAddress>().is_err(), "{bad}");
        }
    }
}
