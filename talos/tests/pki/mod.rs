//! Certificates and keys in the form in which Talos writes them.

#![allow(dead_code, clippy::unwrap_used, missing_docs, reason = "shared by several test programs")]

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ED25519,
};

/// One cluster's certificate authority.
pub struct Pki {
    ca: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, and the context fields that carry them.
pub struct Credentials {
    pub certificate_pem: String,
    pub key_pem: String,
    pub crt: String,
    pub key: String,
}

/// How a client certificate is made.
pub struct Client {
    pub roles: Vec<String>,
    pub not_before: DateTime<Utc>,
    pub not_after: DateTime<Utc>,
    pub usages: Vec<ExtendedKeyUsagePurpose>,
}

impl Client {
    pub fn at(now: DateTime<Utc>) -> Self {
        Self {
            roles: vec!["os:etcd:backup".to_owned()],
            not_before: now - TimeDelta::days(1),
            not_after: now + TimeDelta::days(364),
            usages: vec![ExtendedKeyUsagePurpose::ClientAuth],
        }
    }
}

impl Pki {
    pub fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "talos");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        Self { ca: CertifiedIssuer::self_signed(params, key).unwrap() }
    }

    pub fn ca_pem(&self) -> String {
        self.ca.as_ref().pem()
    }

    pub fn ca_der(&self) -> Vec<u8> {
        self.ca.as_ref().der().to_vec()
    }

    pub fn client(&self, client: &Client) -> Credentials {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for role in &client.roles {
            params.distinguished_name.push(DnType::OrganizationName, role.as_str());
        }
        params.not_before = rcgen::date_time_ymd(1970, 1, 1) + since_epoch(client.not_before);
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + since_epoch(client.not_after);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = client.usages.clone();
        self.issue(&params)
    }

    pub fn server(&self, names: &[&str]) -> Credentials {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(&params)
    }

    fn issue(&self, params: &CertificateParams) -> Credentials {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let certificate_pem = params.signed_by(&key, &self.ca).unwrap().pem();
        let crt = STANDARD.encode(&certificate_pem);
        Credentials { certificate_pem, key_pem: key.serialize_pem(), crt, key: STANDARD.encode(talos_key_pem(&key)) }
    }
}

/// Talos's own label around PKCS#8 of version 1, which has no public key in it (rcgen writes version 2).
pub fn talos_key_pem(key: &KeyPair) -> String {
    let seed = &key.serialize_der()[16..48];
    let mut der = vec![0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    der.extend_from_slice(seed);
    format!("-----BEGIN ED25519 PRIVATE KEY-----\n{}\n-----END ED25519 PRIVATE KEY-----\n", STANDARD.encode(der))
}

/// A talosconfig with one context named `prod`.
pub fn talosconfig(ca_pem: &str, client: &Credentials, endpoints: &[String]) -> String {
    let endpoints: String = endpoints.iter().map(|endpoint| format!("      - \"{endpoint}\"\n")).collect();
    let endpoints =
        if endpoints.is_empty() { "    endpoints: []\n".to_owned() } else { format!("    endpoints:\n{endpoints}") };
    let (ca, crt, key) = (STANDARD.encode(ca_pem), &client.crt, &client.key);
    format!("context: prod\ncontexts:\n  prod:\n{endpoints}    ca: {ca}\n    crt: {crt}\n    key: {key}\n")
}

fn since_epoch(time: DateTime<Utc>) -> Duration {
    Duration::from_secs(u64::try_from(time.timestamp()).unwrap())
}
