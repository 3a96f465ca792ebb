//! Which certificates the store may show.
//!
//! A bundle is checked here, certificate by certificate, because the HTTP stack below panics on one that it cannot use.

use aws_smithy_http_client::tls::{TlsContext, TrustStore};
use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

use crate::{StoreError, StoreErrorKind};

/// The system's roots, and those of `ca` (its name and its text).
pub(super) fn context(ca: Option<&(String, String)>) -> Result<TlsContext, StoreError> {
    // A minimal container has no roots at all; that is no reason to fail a store that needs none.
    let native = !rustls_native_certs::load_native_certs().certs.is_empty();
    let mut trust = TrustStore::empty().with_native_roots(native);
    if let Some((name, text)) = ca {
        trust = trust.with_pem_certificate(checked(name, text)?);
    }
    let wrong = |error| StoreError::new(StoreErrorKind::Config, "could not set up TLS").because(error);
    TlsContext::builder().with_trust_store(trust).build().map_err(wrong)
}

/// The certificates of a bundle as clean PEM: comments, CRLF and blank lines are gone.
fn checked(name: &str, text: &str) -> Result<String, StoreError> {
    let wrong = |why: String| {
        StoreError::new(StoreErrorKind::Config, format!("CA file {name} cannot be used: {why}"))
            .with_hint("it holds one or more PEM certificates (-----BEGIN CERTIFICATE-----)")
    };
    let mut clean = String::new();
    let mut roots = RootCertStore::empty();
    for (index, der) in CertificateDer::pem_slice_iter(text.as_bytes()).enumerate() {
        let number = index + 1;
        let der = der.map_err(|error| wrong(format!("certificate {number} is damaged ({error})")))?;
        let (_, certificate) =
            X509Certificate::from_der(&der).map_err(|_| wrong(format!("certificate {number} is damaged")))?;
        if certificate.version() != X509Version::V3 {
            let subject = certificate.subject();
            return Err(wrong(format!(
                "certificate {number} ({subject}) is of X.509 version 1, which is not supported"
            )));
        }
        roots.add(der.clone()).map_err(|error| wrong(format!("certificate {number}: {error}")))?;
        clean.push_str(&pem(&der));
    }
    if clean.is_empty() {
        return Err(wrong("there is no certificate in it".to_owned()));
    }
    Ok(clean)
}

fn pem(der: &[u8]) -> String {
    use base64::Engine;
    let body = base64::engine::general_purpose::STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in body.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem + "-----END CERTIFICATE-----\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = include_str!("../../tests/certificates/ca.pem");
    const OLD: &str = include_str!("../../tests/certificates/v1.pem");

    #[test]
    fn b43_bundles_are_taken_as_people_write_them() {
        let untidy = format!("# our root\r\n{}\r\n\r\n# again\r\n{}\n\n\n", GOOD.replace('\n', "\r\n"), GOOD);
        assert_eq!(checked("ca.pem", &untidy).unwrap().matches("BEGIN").count(), 2);
        assert!(context(Some(&("ca.pem".to_owned(), untidy))).is_ok());
    }

    #[test]
    fn b43_a_bad_bundle_names_the_file() {
        let cut = GOOD.replace("MII", "MIJ");
        for (text, why) in [("", "no certificate"), ("hello", "no certificate"), (&cut, "is damaged")] {
            let error = checked("/etc/ca.pem", text).unwrap_err().to_string();
            assert!(error.contains("/etc/ca.pem") && error.contains(why), "{error}");
        }
    }

    #[test]
    fn b21_a_version_1_certificate_is_named() {
        let error = checked("/etc/ca.pem", &format!("{GOOD}{OLD}")).unwrap_err().to_string();
        assert_eq!(
            error,
            "CA file /etc/ca.pem cannot be used: certificate 2 (CN=old root) is of X.509 version 1, which is not supported"
        );
    }
}
