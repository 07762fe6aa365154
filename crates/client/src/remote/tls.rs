//! Which server is believed to be the server.
//!
//! With a pin: the one whose end-entity certificate has that fingerprint, whoever signed it and
//! whatever name it carries. It must still prove, by signing the handshake, that it holds the
//! certificate's key. Without one: a server with a certificate for its name, from an authority
//! that the platform or a given file trusts.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};
use subtle::ConstantTimeEq;

use super::digest::Sha256Digest;
use super::error::RemoteError;
use super::options::RemoteOptions;

/// The SHA-256 of a certificate in DER, written `sha256:HEX`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint(Sha256Digest);

/// A text that is not a fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a fingerprint is sha256: and 64 hexadecimal digits, as a server prints it when it starts")]
pub struct FingerprintError;

impl Fingerprint {
    /// The fingerprint of a certificate.
    pub fn of(certificate: &[u8]) -> Self {
        Self(Sha256Digest::of(certificate))
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    /// Digits may be of either case and set apart by colons, as other tools print them.
    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let digits = text.strip_prefix("sha256:").ok_or(FingerprintError)?.replace(':', "");
        Sha256Digest::parse(&digits).map(Self).ok_or(FingerprintError)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

/// TLS 1.3 by ring, HTTP/2 preferred.
pub(super) fn configuration(options: &RemoteOptions) -> Result<ClientConfig, RemoteError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let unusable = |reason: String| RemoteError::Option { reason };
    let verifier: Arc<dyn ServerCertVerifier> = match (options.pin, &options.ca_file) {
        (Some(pinned), _) => Arc::new(Pinned { pinned, provider: provider.clone() }),
        (None, Some(file)) => {
            let unreadable = |reason: &dyn fmt::Display| {
                unusable(format!("{}: not usable as certificates: {reason}", file.display()))
            };
            let mut roots = RootCertStore::empty();
            let certificates = CertificateDer::pem_file_iter(file).map_err(|e| unreadable(&e))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| unreadable(&error))?;
                roots.add(certificate).map_err(|error| unreadable(&error))?;
            }
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()
                .map_err(|error| unreadable(&error))?
        }
        (None, None) => Arc::new(
            rustls_platform_verifier::Verifier::new(provider.clone())
                .map_err(|error| unusable(format!("the platform trusts nobody: {error}")))?,
        ),
    };
    let mut configuration = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("ring has the suites of TLS 1.3")
        .dangerous() // the name of the method; every verifier above checks
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    configuration.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(configuration)
}

/// The server showed another certificate than the pinned one.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the certificate is {seen}, not {pinned}")]
pub(super) struct PinMismatch {
    pub(super) pinned: Fingerprint,
    pub(super) seen: Fingerprint,
}

/// Accepts one certificate.
#[derive(Debug)]
struct Pinned {
    pinned: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let seen = Fingerprint::of(end_entity);
        if bool::from(seen.0.0.ct_eq(&self.pinned.0.0)) {
            return Ok(ServerCertVerified::assertion());
        }
        let mismatch = PinMismatch { pinned: self.pinned, seen };
        Err(rustls::Error::Other(OtherError(Arc::new(mismatch))))
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 is the only version spoken".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_read_as_they_are_written_and_as_other_tools_write_them() {
        let one = Fingerprint::of(b"certificate");
        assert_eq!(one.to_string().parse(), Ok(one));
        let digits = one.to_string()["sha256:".len()..].to_uppercase();
        let pairs: Vec<&str> = (0..32).map(|at| &digits[2 * at..][..2]).collect();
        assert_eq!(format!("sha256:{}", pairs.join(":")).parse(), Ok(one));
        for bad in ["", "sha256:", &digits, "sha1:00", &format!("sha256:{}", "g".repeat(64))] {
            assert_eq!(bad.parse::<Fingerprint>(), Err(FingerprintError), "{bad}");
        }
    }
}
