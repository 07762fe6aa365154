//! Where the database is: a connection string, TLS, and how errors show it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;
use zeroize::Zeroizing;

use crate::StoreError;

/// The longest time until one host has answered, after which the next is tried.
const CONNECT: Duration = Duration::from_secs(5);

/// After so long without a sign of life, the other side is asked for one, and then given up.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// A connection string, `postgres://user:password@host1,host2/database?sslmode=verify-full`.
///
/// Of several hosts the one that takes writes is used. Of the modes of TLS, `disable` uses none, `prefer`
/// (the default where all hosts are this machine; none where all are its sockets) and `require` (the default elsewhere) check the server's
/// certificate where TLS is used, as `verify-full` does; `sslrootcert` names a file of authorities in place
/// of the platform's. A password that it lacks may be given beside it. Printed, it is the hosts and the
/// database.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseAddress {
    config: Box<Config>,
    authorities: Option<PathBuf>,
}

impl DatabaseAddress {
    /// Reads a connection string; `password` stands in for one that it does not have.
    ///
    /// # Errors
    /// When it is not one. No error repeats it.
    pub fn parse(text: &str, password: Option<&str>) -> Result<Self, StoreError> {
        let (address, parameters) = text.split_once('?').unwrap_or((text, ""));
        let (mut kept, mut authorities, mut mode) = (Vec::new(), None, None);
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslmode", "disable")) => mode = Some(SslMode::Disable),
                Some(("sslmode", "allow" | "prefer")) => mode = Some(SslMode::Prefer),
                Some(("sslmode", "require" | "verify-ca" | "verify-full")) => {
                    mode = Some(SslMode::Require);
                }
                Some(("sslmode", _)) => return Err(wrong("an unknown sslmode")),
                Some(("sslrootcert", file)) => {
                    let mut pairs = url::form_urlencoded::parse(file.as_bytes());
                    authorities = pairs.next().map(|(file, _)| PathBuf::from(file.into_owned()));
                }
                _ => kept.push(parameter),
            }
        }
        let whole = Zeroizing::new(format!("{address}?{}", kept.join("&")));
        // The library's message may repeat the string, and a password with it.
        let unreadable = |_| wrong("it is not postgres://user@host/database");
        let mut config: Config = whole.parse().map_err(unreadable)?;
        if config.get_hosts().is_empty() {
            return Err(wrong("it names no host"));
        }
        if let (None, Some(password)) = (config.get_password(), password) {
            config.password(password);
        }
        // Whoever is on the way to another machine could take TLS away and ask for the password.
        let default = if is_local(&config) { SslMode::Prefer } else { SslMode::Require };
        // PostgreSQL has no TLS on sockets of one machine.
        #[cfg(unix)]
        let default = if config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_))) {
            SslMode::Disable
        } else {
            default
        };
        config
            .ssl_mode(mode.unwrap_or(default))
            .application_name("shard serve")
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .keepalives_idle(KEEPALIVE)
            .keepalives_interval(KEEPALIVE / 2)
            .keepalives_retries(2)
            .tcp_user_timeout(2 * KEEPALIVE);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        Ok(Self { config: Box::new(config), authorities })
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// The user, as far as one is named.
    pub(super) fn user(&self) -> &str {
        self.config.get_user().unwrap_or("of this process")
    }

    /// TLS for connections.
    pub(super) fn tls(&self) -> Result<Tls, StoreError> {
        self.client_config().map(|config| Tls(MakeRustlsConnect::new(config)))
    }

    /// TLS 1.3 by ring, with certificates of an authority that the platform or the given file trusts.
    fn client_config(&self) -> Result<ClientConfig, StoreError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match &self.authorities {
            Some(file) => {
                let roots = Arc::new(roots(file)?);
                WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
                    .build()
                    .map_err(|error| unusable(file, &error))?
            }
            None => Arc::new(
                rustls_platform_verifier::Verifier::new(provider.clone())
                    .map_err(|error| wrong(&format!("the platform trusts nobody: {error}")))?,
            ),
        };
        Ok(ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("ring has the suites of TLS 1.3")
            .dangerous() // the name of the method; both verifiers check
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth())
    }
}

/// TLS where a host has a name. A socket of this machine has none, and its connections no TLS.
#[derive(Clone)]
pub(super) struct Tls(MakeRustlsConnect);

impl<S> MakeTlsConnect<S> for Tls
where
    MakeRustlsConnect: MakeTlsConnect<S>,
{
    type Stream = <MakeRustlsConnect as MakeTlsConnect<S>>::Stream;
    type TlsConnect = <MakeRustlsConnect as MakeTlsConnect<S>>::TlsConnect;
    type Error = <MakeRustlsConnect as MakeTlsConnect<S>>::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Self::TlsConnect, Self::Error> {
        let host = if host.is_empty() { "localhost" } else { host };
        MakeTlsConnect::<S>::make_tls_connect(&mut self.0, host)
    }
}

fn roots(file: &Path) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|e| unusable(file, &e))? {
        let certificate = certificate.map_err(|error| unusable(file, &error))?;
        roots.add(certificate).map_err(|error| unusable(file, &error))?;
    }
    Ok(roots)
}

fn unusable(file: &Path, error: &dyn fmt::Display) -> StoreError {
    wrong(&format!("{} is not usable as certificates: {error}", file.display()))
}

fn wrong(what: &str) -> StoreError {
    StoreError::Engine { doing: "read the address of the database", reason: what.to_owned() }
}

/// Whether every host is this machine, by its name and by the address that is given for it.
fn is_local(config: &Config) -> bool {
    let addresses_are_local = config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback);
    addresses_are_local
        && config.get_hosts().iter().all(|host| match host {
            Host::Tcp(name) => {
                let address = name.parse::<std::net::IpAddr>();
                name == "localhost" || address.is_ok_and(|address| address.is_loopback())
            }
            #[cfg(unix)]
            Host::Unix(_) => true,
        })
}

impl fmt::Display for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, host) in self.config.get_hosts().iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            match host {
                Host::Tcp(name) => f.write_str(name)?,
                #[cfg(unix)]
                Host::Unix(path) => write!(f, "{}", path.display())?,
            }
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseAddress({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_of_tls_are_respected_and_passwords_are_not_shown() {
        let parsed = |text: &str| DatabaseAddress::parse(text, Some("other"));
        let address = parsed("postgres://me:secret@one:5433,two:5434/db").unwrap();
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(address.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert_eq!(address.config.get_password(), Some(&b"secret"[..]));
        assert_eq!(address.to_string(), "one,two/db");
        assert_eq!(format!("{address:?}"), "DatabaseAddress(one,two/db)");
        for local in ["postgres://me@localhost/db", "postgres://me@127.0.0.1/db"] {
            assert_eq!(parsed(local).unwrap().config.get_ssl_mode(), SslMode::Prefer);
        }
        for elsewhere in [
            "postgres://me@localhost/db?hostaddr=10.0.0.5",
            "postgres://me@%2Frun%2Fpg,db.example.com/db",
        ] {
            let mode = parsed(elsewhere).unwrap().config.get_ssl_mode();
            assert_eq!(mode, SslMode::Require, "{elsewhere}");
        }
        #[cfg(unix)]
        for (local, mode) in [
            ("postgres://me@localhost/db?hostaddr=127.0.0.1", SslMode::Prefer),
            ("postgres://me@%2Frun%2Fpg,localhost/db", SslMode::Prefer),
            ("postgres://me@%2Frun%2Fpg,%2Frun%2Fother/db", SslMode::Disable),
        ] {
            assert_eq!(parsed(local).unwrap().config.get_ssl_mode(), mode, "{local}");
        }
        let address = parsed("postgres://me@host/db?sslmode=verify-full&sslrootcert=%2Fa%20b");
        let address = address.unwrap();
        assert_eq!(address.config.get_password(), Some(&b"other"[..]));
        assert_eq!(address.authorities, Some("/a b".into()));
        for wrong in [
            "postgres://me:secret@host/db?sslmode=maybe",
            "postgres://me:secret@host/db?secret=1",
            "postgres:///db?password=secret",
        ] {
            let error = parsed(wrong).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
