//! The node's side of mutual TLS.
//!
//! Invariant: as picky as a node. A client certificate is required, of the cluster's own authority, valid now, with
//! clientAuth as its one extended usage; ALPN offers `h2` and nothing else.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::pki::Credentials;

const MADE_HERE: &str = "the lab's own certificates are sound";

pub(super) fn server_config(server: &Credentials, client_authority_der: &[u8]) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(client_authority_der.to_vec())).expect(MADE_HERE);
    let inner =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().expect(MADE_HERE);
    let chain = vec![CertificateDer::from(server.certificate_der.clone())];
    let key = PrivatePkcs8KeyDer::from(server.key_der.clone());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring speaks the default versions")
        .with_client_cert_verifier(Arc::new(ExactUsage { inner }))
        .with_single_cert(chain, key.into())
        .expect(MADE_HERE);
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Talos gives no session tickets: every connection shows its certificate.
    config.send_tls13_tickets = 0;
    Arc::new(config)
}

/// The organisations of a leaf certificate: Talos takes them as roles.
pub(super) fn roles(leaf: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(leaf) else {
        return Vec::new();
    };
    certificate.subject().iter_organization().filter_map(|name| name.as_str().ok().map(str::to_owned)).collect()
}

fn only_client_auth(leaf: &CertificateDer<'_>) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(leaf) else {
        return false;
    };
    let Ok(Some(usage)) = certificate.extended_key_usage() else {
        return false;
    };
    let usage = usage.value;
    let others = usage.any || usage.server_auth || usage.code_signing || usage.email_protection || usage.time_stamping;
    usage.client_auth && !others && !usage.ocsp_signing && usage.other.is_empty()
}

#[derive(Debug)]
struct ExactUsage {
    inner: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for ExactUsage {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.inner.verify_client_cert(end_entity, intermediates, now)?;
        if only_client_auth(end_entity) {
            return Ok(verified);
        }
        Err(Error::InvalidCertificate(CertificateError::InvalidPurpose))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
