//! Base64 of PEM, as a talosconfig carries certificates and keys.
//!
//! Invariant: no error from here repeats what it read, since it may be a private key. Readers with a fixed list of
//! labels skip Talos's own (`ED25519 PRIVATE KEY`, with ordinary PKCS#8 inside) and report an empty file; here an unknown
//! label is named.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretSlice};

/// The form of a private key's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyForm {
    Pkcs8,
    Sec1,
    Pkcs1,
}

/// A private key that TLS can use. `Debug` shows its form only.
#[derive(Clone)]
pub(crate) struct PrivateKey {
    form: KeyForm,
    der: SecretSlice<u8>,
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrivateKey").field("form", &self.form).field("der", &"[redacted]").finish()
    }
}

impl PrivateKey {
    pub(crate) fn to_der(&self) -> PrivateKeyDer<'static> {
        let der = self.der.expose_secret().to_vec();
        match self.form {
            KeyForm::Pkcs8 => PrivateKeyDer::Pkcs8(der.into()),
            KeyForm::Sec1 => PrivateKeyDer::Sec1(der.into()),
            KeyForm::Pkcs1 => PrivateKeyDer::Pkcs1(der.into()),
        }
    }
}

struct Section {
    label: String,
    der: Vec<u8>,
}

/// Reads the `ca` or `crt` field: one or more certificates.
pub(crate) fn certificates(field: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let sections = sections(&pem_text(field)?)?;
    let mut certificates = Vec::new();
    for section in sections {
        if section.label != "CERTIFICATE" {
            return Err(format!("it holds a `{}` where only certificates belong", section.label));
        }
        certificates.push(CertificateDer::from(section.der));
    }
    if certificates.is_empty() {
        return Err("there is no certificate in it".to_owned());
    }
    Ok(certificates)
}

/// Reads the `key` field and proves that TLS can use it.
pub(crate) fn private_key(field: &str) -> Result<PrivateKey, String> {
    if field.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    let mut other = None;
    for section in sections(&pem_text(field)?)? {
        let form = match section.label.as_str() {
            // The label says Ed25519, the bytes are PKCS#8 like any other.
            "ED25519 PRIVATE KEY" | "PRIVATE KEY" => KeyForm::Pkcs8,
            "EC PRIVATE KEY" => KeyForm::Sec1,
            "RSA PRIVATE KEY" => KeyForm::Pkcs1,
            // OpenSSL writes the curve in a section of its own before the key.
            "EC PARAMETERS" => continue,
            "ENCRYPTED PRIVATE KEY" => {
                return Err("the key is encrypted; Talos writes keys without a password".to_owned());
            }
            _ => {
                other = Some(section.label);
                continue;
            }
        };
        let key = PrivateKey { form, der: SecretSlice::from(section.der) };
        return match rustls::crypto::ring::sign::any_supported_type(&key.to_der()) {
            Ok(_) => Ok(key),
            Err(_) => Err(format!("the bytes under `{}` are not a usable private key", section.label)),
        };
    }
    match other {
        Some(label) => Err(format!("it holds a `{label}`, not a private key")),
        None => Err("there is no private key in it".to_owned()),
    }
}

fn pem_text(field: &str) -> Result<Zeroizing<String>, String> {
    if field.contains("-----BEGIN") {
        return Err("it is PEM, but a talosconfig holds base64 of the PEM text".to_owned());
    }
    let packed: Zeroizing<String> = Zeroizing::new(field.split_ascii_whitespace().collect());
    let bytes = STANDARD.decode(packed.as_str()).map_err(|_| "it is not base64".to_owned())?;
    String::from_utf8(bytes).map(Zeroizing::new).map_err(|_| "its base64 does not hold PEM text".to_owned())
}

fn sections(text: &str) -> Result<Vec<Section>, String> {
    let mut sections = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some(label) = line.strip_prefix("-----BEGIN ").and_then(|l| l.strip_suffix("-----")) else {
            continue;
        };
        let end = format!("-----END {label}-----");
        // As large as it can get: a string that grows leaves its old bytes behind.
        let mut body = Zeroizing::new(String::with_capacity(text.len()));
        loop {
            match lines.next() {
                Some(line) if line == end => break,
                Some(line) => body.push_str(line),
                None => return Err(format!("the section `{label}` has no end")),
            }
        }
        let der = STANDARD.decode(body.as_str()).map_err(|_| format!("the section `{label}` is damaged"))?;
        sections.push(Section { label: label.to_owned(), der });
    }
    if sections.is_empty() {
        return Err("its base64 does not hold PEM text".to_owned());
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};

    use super::*;

    fn field(label: &str, der: &[u8]) -> String {
        STANDARD.encode(format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der)))
    }

    #[test]
    fn b19_the_key_labels_of_talos_load() {
        let ed25519 = KeyPair::generate_for(&PKCS_ED25519).unwrap().serialize_der();
        let ecdsa = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap().serialize_der();
        // The SEC1 form is the octet string at the end of the PKCS#8 form.
        let sec1 = ecdsa[ecdsa.len() - 0x6d..].to_vec();
        for (label, der) in [("ED25519 PRIVATE KEY", &ed25519), ("PRIVATE KEY", &ecdsa), ("EC PRIVATE KEY", &sec1)] {
            private_key(&field(label, der)).unwrap_or_else(|e| panic!("{label}: {e}"));
        }
    }

    // PKCS#8 of version 1 carries no public key; that is how Go writes Ed25519 keys, rcgen writes version 2.
    #[test]
    fn b19_pkcs8_without_a_public_key_loads() {
        let mut der =
            vec![0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
        der.extend_from_slice(&[7; 32]);
        private_key(&field("ED25519 PRIVATE KEY", &der)).unwrap();
    }

    #[test]
    fn b19_an_empty_or_broken_key_is_a_clear_error_that_does_not_repeat_it() {
        let secret = "c2VjcmV0LXNlY3JldA==";
        for (field, why) in [
            (String::new(), "empty"),
            ("  \n".to_owned(), "empty"),
            (STANDARD.encode(""), "empty"),
            ("%%%secret".to_owned(), "not base64"),
            (STANDARD.encode("secret"), "does not hold PEM"),
            (format!("-----BEGIN PRIVATE KEY-----\n{secret}"), "base64 of the PEM"),
            (STANDARD.encode(format!("-----BEGIN PRIVATE KEY-----\n{secret}\n")), "no end"),
            (field("PRIVATE KEY", b"secret"), "not a usable private key"),
            (field("OPENSSH PRIVATE KEY", b"secret"), "OPENSSH PRIVATE KEY"),
            (field("ENCRYPTED PRIVATE KEY", b"secret"), "encrypted"),
            (field("CERTIFICATE", b"secret"), "not a private key"),
        ] {
            let error = private_key(&field).unwrap_err();
            assert!(error.contains(why), "{field}: {error}");
            assert!(!error.contains("secret") && !error.contains(secret), "{error}");
        }
    }

    #[test]
    fn several_certificates_are_all_read() {
        let text = format!("{0}{0}", "-----BEGIN CERTIFICATE-----\r\nAQID\r\n-----END CERTIFICATE-----\r\n");
        assert_eq!(certificates(&STANDARD.encode(text)).unwrap().len(), 2);
    }

    #[test]
    fn the_debug_form_of_a_key_is_redacted() {
        let der = KeyPair::generate_for(&PKCS_ED25519).unwrap().serialize_der();
        let key = private_key(&field("PRIVATE KEY", &der)).unwrap();
        assert_eq!(format!("{key:?}"), r#"PrivateKey { form: Pkcs8, der: "[redacted]" }"#);
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in any::<String>(), inner in any::<String>()) {
            let _ = private_key(&text);
            let _ = certificates(&text);
            let _ = private_key(&STANDARD.encode(format!("-----BEGIN {inner}-----\n{text}\n-----END {inner}-----")));
        }
    }
}
