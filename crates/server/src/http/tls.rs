//! The server's certificate. TLS 1.3 only.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use axum_server::tls_rustls::RustlsConfig;
use data_encoding::HEXLOWER;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::tokens::private;

/// Why there is no TLS. No variant holds a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The file system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file holds something else.
    #[error("{} holds no {what} in PEM form", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What should be there.
        what: &'static str,
    },
    /// Certificate and key cannot be used.
    #[error("the certificate and its key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Generate(#[from] rcgen::Error),
    /// Only one half of a pair is there.
    #[error(
        "{} is there and {} is not: restore it, or remove both for a new pair",
        there.display(),
        missing.display()
    )]
    Half {
        /// The file that is there.
        there: PathBuf,
        /// The one that is not.
        missing: PathBuf,
    },
}

/// A certificate with its key, from files that can be read again.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    config: RustlsConfig,
    fingerprint: RwLock<String>,
}

impl Tls {
    /// Reads a chain of certificates, the server's own first, and its key.
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let (config, fingerprint) = read(certificate, key)?;
        Ok(Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            config: RustlsConfig::from_config(config),
            fingerprint: RwLock::new(fingerprint),
        })
    }

    /// Reads the certificate of a directory, or makes one for these names and addresses if the
    /// directory has none. It is signed by nobody: clients pin its fingerprint.
    pub fn open_or_generate(directory: &Path, names: &[String]) -> Result<Self, TlsError> {
        let (certificate, key) = (directory.join("certificate.pem"), directory.join("key.pem"));
        match (certificate.exists(), key.exists()) {
            (true, true) => {}
            (false, false) => generate(directory, &certificate, &key, names)?,
            (true, false) => return Err(TlsError::Half { there: certificate, missing: key }),
            (false, true) => return Err(TlsError::Half { there: key, missing: certificate }),
        }
        Self::open(&certificate, &key)
    }

    /// `sha256:` and the SHA-256 of the server's certificate in DER form, for clients to pin.
    pub fn fingerprint(&self) -> String {
        self.fingerprint.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the files again; new connections get the new certificate. When they cannot be read,
    /// the one of before stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let (config, fingerprint) = read(&self.certificate, &self.key)?;
        self.config.reload_from_config(config);
        *self.fingerprint.write().unwrap_or_else(PoisonError::into_inner) = fingerprint;
        Ok(())
    }

    pub(super) fn config(&self) -> RustlsConfig {
        self.config.clone()
    }
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> TlsError {
    let path = path.to_owned();
    move |source| TlsError::File { doing, path, source }
}

fn read(certificate: &Path, key: &Path) -> Result<(Arc<ServerConfig>, String), TlsError> {
    let pem = fs::read(certificate).map_err(failed("read", certificate))?;
    let content = |path: &Path, what| TlsError::Content { path: path.to_owned(), what };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|_| content(certificate, "certificate"))?;
    let own = chain.first().ok_or_else(|| content(certificate, "certificate"))?;
    let fingerprint = format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(own)));
    let pem = Zeroizing::new(fs::read(key).map_err(failed("read", key))?);
    let private = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| content(key, "private key"))?;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, private)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((Arc::new(config), fingerprint))
}

fn generate(
    directory: &Path,
    certificate: &Path,
    key: &Path,
    names: &[String],
) -> Result<(), TlsError> {
    let made = rcgen::generate_simple_self_signed(names)?;
    let secret = Zeroizing::new(made.signing_key.serialize_pem());
    fs::create_dir_all(directory).map_err(failed("make", directory))?;
    let write = |path: &Path, text: &str| {
        let file = private().create_new(true).open(path);
        file.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .map_err(failed("write", path))
    };
    write(key, &secret)?;
    write(certificate, &made.cert.pem())
}
