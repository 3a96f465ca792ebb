//! Certificates, keys and talosconfig texts in the form in which Talos writes them.
//!
//! Invariant: the odd parts stay odd. Keys are PKCS#8 of version 1 under the label `ED25519 PRIVATE KEY`, a client's
//! subject has no common name but its roles as organisations, and its only extended usage is clientAuth.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, PKCS_ED25519,
};

const MADE_HERE: &str = "these parameters are fixed here and always make a certificate";

/// The certificate authority of one cluster.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The certificate as PEM.
    pub certificate_pem: String,
    /// The key as PEM, with the label that Talos uses.
    pub key_pem: String,
    /// The certificate as DER.
    pub certificate_der: Vec<u8>,
    /// The key as PKCS#8 DER.
    pub key_der: Vec<u8>,
}

/// What a client certificate says.
#[derive(Clone, Debug)]
pub struct ClientSubject {
    /// The organisations of the subject.
    pub roles: Vec<String>,
    /// Start of validity.
    pub not_before: DateTime<Utc>,
    /// End of validity.
    pub not_after: DateTime<Utc>,
    /// The extended key usages.
    pub usages: Vec<ExtendedKeyUsagePurpose>,
}

impl ClientSubject {
    /// A client with those roles, as `talosctl config new` makes it.
    pub fn new(roles: &[&str]) -> Self {
        let now = Utc::now();
        Self {
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            not_before: now - TimeDelta::hours(1),
            not_after: now + TimeDelta::days(364),
            usages: vec![ExtendedKeyUsagePurpose::ClientAuth],
        }
    }

    /// The same client whose certificate ended an hour ago.
    pub fn expired(mut self) -> Self {
        self.not_before = Utc::now() - TimeDelta::days(30);
        self.not_after = Utc::now() - TimeDelta::hours(1);
        self
    }

    /// The same client with one usage too many: serverAuth, as cert-manager adds it.
    pub fn also_server(mut self) -> Self {
        self.usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        self
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// Makes a new authority.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "talos");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        Self { issuer: CertifiedIssuer::self_signed(params, new_key()).expect(MADE_HERE) }
    }

    /// The authority's certificate as PEM.
    pub fn certificate_pem(&self) -> String {
        self.issuer.as_ref().pem()
    }

    /// The authority's certificate as DER.
    pub fn certificate_der(&self) -> Vec<u8> {
        self.issuer.as_ref().der().to_vec()
    }

    /// A client's certificate.
    pub fn client(&self, subject: &ClientSubject) -> Credentials {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for role in &subject.roles {
            params.distinguished_name.push(DnType::OrganizationName, role.as_str());
        }
        params.not_before = rcgen::date_time_ymd(1970, 1, 1) + since_epoch(subject.not_before);
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + since_epoch(subject.not_after);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages.clone_from(&subject.usages);
        self.issue(&params)
    }

    /// A node's certificate for these addresses and names.
    pub fn server(&self, names: &[&str]) -> Credentials {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("the lab's names are plain ASCII");
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "lab-node");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(&params)
    }

    fn issue(&self, params: &CertificateParams) -> Credentials {
        let key = new_key();
        let certificate = params.signed_by(&key, &self.issuer).expect(MADE_HERE);
        let key_der = pkcs8_v1(&key);
        Credentials {
            certificate_pem: certificate.pem(),
            certificate_der: certificate.der().to_vec(),
            key_pem: talos_key_pem(&key_der),
            key_der,
        }
    }
}

/// A talosconfig with one context. Without `client`, the fields `crt` and `key` are left out.
pub fn talosconfig(context: &str, endpoints: &[String], ca_pem: &str, client: Option<&Credentials>) -> String {
    let mut text = format!("context: {context}\ncontexts:\n  {context}:\n    endpoints:");
    if endpoints.is_empty() {
        text.push_str(" []");
    }
    text.push('\n');
    for endpoint in endpoints {
        text.push_str(&format!("      - \"{endpoint}\"\n"));
    }
    text.push_str(&format!("    ca: {}\n", STANDARD.encode(ca_pem)));
    if let Some(client) = client {
        text.push_str(&format!("    crt: {}\n", STANDARD.encode(&client.certificate_pem)));
        text.push_str(&format!("    key: {}\n", STANDARD.encode(&client.key_pem)));
    }
    text
}

fn new_key() -> KeyPair {
    KeyPair::generate_for(&PKCS_ED25519).expect("ring always makes an Ed25519 key")
}

/// PKCS#8 of version 1, which has no public key in it. rcgen writes version 2; both have the seed at the same place.
fn pkcs8_v1(key: &KeyPair) -> Vec<u8> {
    let seed = &key.serialize_der()[16..48];
    let mut der = vec![0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    der.extend_from_slice(seed);
    der
}

fn talos_key_pem(der: &[u8]) -> String {
    format!("-----BEGIN ED25519 PRIVATE KEY-----\n{}\n-----END ED25519 PRIVATE KEY-----\n", STANDARD.encode(der))
}

fn since_epoch(time: DateTime<Utc>) -> Duration {
    Duration::from_secs(u64::try_from(time.timestamp()).expect("the lab's clock is after 1970"))
}
