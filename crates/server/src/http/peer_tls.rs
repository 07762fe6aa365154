//! Certificates of servers for each other: no authority, no names, only fingerprints of live leases.
//!
//! Either side proves by signing the handshake that it holds the key of the certificate it shows, and the
//! certificate must be one that a lease carries.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// SHA-256 of a certificate in DER form.
pub(super) type Fingerprint = [u8; 32];

/// A certificate with its key.
pub(super) struct Identity {
    certificate: CertificateDer<'static>,
    key: Zeroizing<Vec<u8>>,
}

impl Identity {
    /// A new one, signed by nobody.
    pub(super) fn generate(address: &str) -> Result<Self, String> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let made = rcgen::generate_simple_self_signed([host.to_owned()])
            .map_err(|error| format!("cannot make a certificate for {host}: {error}"))?;
        let key = Zeroizing::new(made.signing_key.serialize_der());
        Ok(Self { certificate: made.cert.der().clone(), key })
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        Sha256::digest(&self.certificate).into()
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.to_vec()).into()
    }

    /// TLS to the server that has this fingerprint.
    pub(super) fn for_client(&self, expected: Fingerprint) -> Result<ClientConfig, String> {
        let verifier = Arc::new(Certificates {
            provider: Arc::new(rustls::crypto::ring::default_provider()),
            known: Arc::new(KnownCertificates::of([expected])),
        });
        let mut config = ClientConfig::builder_with_provider(verifier.provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| error.to_string())?
            .dangerous() // the name of the method; the verifier above checks
            .with_custom_certificate_verifier(verifier)
            .with_client_auth_cert(vec![self.certificate.clone()], self.key())
            .map_err(|error| error.to_string())?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    /// TLS for those whose fingerprints are known.
    pub(super) fn for_server(
        &self,
        known: Arc<KnownCertificates>,
    ) -> Result<Arc<ServerConfig>, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Arc::new(Certificates { provider: provider.clone(), known });
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![self.certificate.clone()], self.key())
            .map_err(|error| error.to_string())?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        // A resumed session would not show its certificate again.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

/// Fingerprints of live leases.
#[derive(Debug, Default)]
pub(super) struct KnownCertificates(RwLock<HashSet<Fingerprint>>);

impl KnownCertificates {
    fn of(fingerprints: impl IntoIterator<Item = Fingerprint>) -> Self {
        Self(RwLock::new(fingerprints.into_iter().collect()))
    }

    /// These, and no others.
    pub(super) fn set(&self, fingerprints: impl IntoIterator<Item = Fingerprint>) {
        let all = fingerprints.into_iter().collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = all;
    }

    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        // Fingerprints are not secret, so how long it takes to find one tells nothing.
        let fingerprint: Fingerprint = Sha256::digest(certificate).into();
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if known.contains(&fingerprint) {
            Ok(())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }
}

#[derive(Debug)]
struct Certificates {
    provider: Arc<CryptoProvider>,
    known: Arc<KnownCertificates>,
}

impl Certificates {
    fn verify(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// There is no TLS before 1.3 here.
fn too_old() -> Error {
    Error::General("TLS 1.3 only".to_owned())
}

impl ServerCertVerifier for Certificates {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.known.check(certificate).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for Certificates {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.known.check(certificate).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

#[cfg(test)]
mod tests {
    use rustls::{ClientConnection, ServerConnection};

    use super::*;

    fn identity() -> Identity {
        Identity::generate("127.0.0.1:1").unwrap()
    }

    /// Whether a client reaches a server, each carrying the other's bytes until nobody has any.
    fn reaches(client: ClientConfig, server: Arc<ServerConfig>) -> bool {
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
        let mut server = ServerConnection::new(server).unwrap();
        for _ in 0..8 {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            let mut from = &bytes[..];
            while !from.is_empty() {
                server.read_tls(&mut from).unwrap();
            }
            let taken = server.process_new_packets().is_ok();
            let mut bytes = Vec::new();
            server.write_tls(&mut bytes).unwrap();
            let mut from = &bytes[..];
            while !from.is_empty() {
                client.read_tls(&mut from).unwrap();
            }
            if !taken || client.process_new_packets().is_err() {
                return false;
            }
        }
        !client.is_handshaking() && !server.is_handshaking()
    }

    #[test]
    fn both_sides_show_a_certificate_that_a_lease_carries_or_there_is_no_connection() {
        let (server, known, stranger) = (identity(), identity(), identity());
        let leases = Arc::new(KnownCertificates::of([known.fingerprint()]));
        let serve = || server.for_server(leases.clone()).unwrap();
        assert!(reaches(known.for_client(server.fingerprint()).unwrap(), serve()));
        assert!(!reaches(stranger.for_client(server.fingerprint()).unwrap(), serve()));
        // Another server than the one that was to be reached.
        assert!(!reaches(known.for_client(stranger.fingerprint()).unwrap(), serve()));
        // No certificate at all.
        let mut bare = known.for_client(server.fingerprint()).unwrap();
        bare.client_auth_cert_resolver = Arc::new(NoCertificate);
        assert!(!reaches(bare, serve()));
        // A lease that has ended.
        leases.set([]);
        assert!(!reaches(known.for_client(server.fingerprint()).unwrap(), serve()));
    }

    #[derive(Debug)]
    struct NoCertificate;

    impl rustls::client::ResolvesClientCert for NoCertificate {
        fn resolve(
            &self,
            _: &[&[u8]],
            _: &[SignatureScheme],
        ) -> Option<Arc<rustls::sign::CertifiedKey>> {
            None
        }

        fn has_certs(&self) -> bool {
            false
        }
    }
}
