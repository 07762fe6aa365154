//! Which servers are trusted: those with a certificate for their name, from an authority that the platform or
//! a given file trusts. There is no way to go on without.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::ImportError;

/// TLS 1.3 by ring.
pub(crate) fn configuration(authorities: Option<&Path>) -> Result<ClientConfig, ImportError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match authorities {
        Some(file) => {
            let unusable = |reason: &dyn Display| {
                ImportError::damaged(file, format!("not usable as certificates: {reason}"))
            };
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_file_iter(file).map_err(|e| unusable(&e))? {
                let certificate = certificate.map_err(|error| unusable(&error))?;
                roots.add(certificate).map_err(|error| unusable(&error))?;
            }
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()
                .map_err(|error| unusable(&error))?
        }
        None => Arc::new(rustls_platform_verifier::Verifier::new(provider.clone()).map_err(
            |error| ImportError::Option(format!("the platform trusts nobody: {error}")),
        )?),
    };
    Ok(ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("ring has the suites of TLS 1.3")
        .dangerous() // the name of the method; both verifiers check
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}
