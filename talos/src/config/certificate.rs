//! What a certificate says, checked before a node sees it.
//!
//! Invariant: `now` is a parameter. A node refuses a bad client certificate inside the TLS handshake with an alert that
//! looks like a broken connection; everything that can be known beforehand is said here in plain words instead.

use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};
use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate, X509Version};

/// Roles of which one is enough to take a snapshot.
pub const SNAPSHOT_ROLES: [&str; 3] = ["os:etcd:backup", "os:operator", "os:admin"];

/// A warning comes when less than a tenth of the lifetime is left, and at most this long before the end. For the six-hour
/// certificate of a service account, which Talos renews in its last hour, a tenth means that it was not renewed.
const WARN_AHEAD_MAX: TimeDelta = TimeDelta::days(14);

/// Talos stamps certificates without backdating, so a clock that is slightly behind sees them in its future.
const CLOCK_TOLERANCE: TimeDelta = TimeDelta::minutes(5);

/// SHA-256 of a CA certificate's DER: which cluster a backup came from.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CaFingerprint(pub [u8; 32]);

impl CaFingerprint {
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for CaFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CaFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CaFingerprint({self})")
    }
}

/// What the client certificate says, once it has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Talos roles: the organisations of the subject.
    pub roles: Vec<String>,
    /// Start of validity.
    pub not_before: DateTime<Utc>,
    /// End of validity.
    pub not_after: DateTime<Utc>,
    /// Whole days until the end.
    pub days_left: i64,
    /// What an operator should know although it works today.
    pub warnings: Vec<String>,
}

/// Why a client certificate would be refused by every node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateProblem {
    /// Its end has passed.
    #[error("it expired on {}", shown(not_after))]
    Expired {
        /// End of validity.
        not_after: DateTime<Utc>,
    },
    /// Its beginning is still ahead.
    #[error("it is not valid before {}", shown(not_before))]
    NotYetValid {
        /// Start of validity.
        not_before: DateTime<Utc>,
    },
    /// The extended key usage is not exactly `clientAuth`, which Talos demands.
    #[error("its extended key usage is {found}, and Talos accepts exactly clientAuth")]
    KeyUsage {
        /// The usages that it has.
        found: String,
    },
    /// Not a certificate at all.
    #[error("it cannot be parsed")]
    Unreadable,
}

impl CertificateProblem {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Expired { .. } => {
                "issue a new one with `talosctl config new --roles os:etcd:backup <file>` from an admin talosconfig, \
                or let the Talos service account renew its secret; check this machine's clock too"
                    .to_owned()
            }
            Self::NotYetValid { .. } => "check this machine's clock".to_owned(),
            Self::KeyUsage { .. } => {
                "issue it with `talosctl config new`, or set the usages of your own issuer to `client auth` only"
                    .to_owned()
            }
            Self::Unreadable => "copy the `crt` of the talosconfig again".to_owned(),
        }
    }
}

fn shown(time: &DateTime<Utc>) -> String {
    time.format("%Y-%m-%d %H:%M UTC").to_string()
}

/// Checks the leaf as a Talos node would.
pub(crate) fn check_client(
    leaf: &CertificateDer<'_>,
    now: DateTime<Utc>,
) -> Result<ClientCertificate, CertificateProblem> {
    let (_, certificate) = X509Certificate::from_der(leaf).map_err(|_| CertificateProblem::Unreadable)?;
    let time = |seconds| DateTime::from_timestamp(seconds, 0).ok_or(CertificateProblem::Unreadable);
    let not_before = time(certificate.validity().not_before.timestamp())?;
    let not_after = time(certificate.validity().not_after.timestamp())?;

    if now > not_after {
        return Err(CertificateProblem::Expired { not_after });
    }
    if now + CLOCK_TOLERANCE < not_before {
        return Err(CertificateProblem::NotYetValid { not_before });
    }
    let usages = key_usages(&certificate)?;
    if usages != ["clientAuth"] {
        let found = if usages.is_empty() { "missing".to_owned() } else { usages.join(" + ") };
        return Err(CertificateProblem::KeyUsage { found });
    }

    let roles: Vec<String> =
        certificate.subject().iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect();
    let left = not_after - now;
    let mut warnings = Vec::new();
    if now < not_before {
        warnings.push("the client certificate starts in this machine's future; its clock is behind".to_owned());
    }
    warnings.extend(expiry_warning(left, not_after - not_before, &not_after));
    if !roles.iter().any(|role| SNAPSHOT_ROLES.contains(&role.as_str())) {
        let has = if roles.is_empty() { "no role".to_owned() } else { format!("only {}", roles.join(", ")) };
        warnings
            .push(format!("the client certificate has {has}; a snapshot needs one of {}", SNAPSHOT_ROLES.join(", ")));
    }
    Ok(ClientCertificate { roles, not_before, not_after, days_left: left.num_days(), warnings })
}

fn expiry_warning(left: TimeDelta, lifetime: TimeDelta, not_after: &DateTime<Utc>) -> Option<String> {
    if left >= WARN_AHEAD_MAX.min(lifetime / 10) {
        return None;
    }
    let left = match left.num_days() {
        0 => format!("{} minutes", left.num_minutes()),
        days => format!("{days} days"),
    };
    Some(format!("the client certificate expires on {}, in {left}; renew it", shown(not_after)))
}

fn key_usages(certificate: &X509Certificate<'_>) -> Result<Vec<String>, CertificateProblem> {
    let Some(extension) = certificate.extended_key_usage().map_err(|_| CertificateProblem::Unreadable)? else {
        return Ok(Vec::new());
    };
    let usage = extension.value;
    let named = [
        (usage.client_auth, "clientAuth"),
        (usage.server_auth, "serverAuth"),
        (usage.any, "any"),
        (usage.code_signing, "codeSigning"),
        (usage.email_protection, "emailProtection"),
        (usage.time_stamping, "timeStamping"),
        (usage.ocsp_signing, "ocspSigning"),
    ];
    let mut found: Vec<String> = named.into_iter().filter(|(on, _)| *on).map(|(_, name)| name.to_owned()).collect();
    found.extend(usage.other.iter().map(ToString::to_string));
    Ok(found)
}

/// A CA certificate that TLS cannot use, with its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CaProblem {
    Version1 { subject: String },
    Unreadable,
}

/// TLS drops what it cannot use as a trust anchor without a word, and then trusts nobody.
pub(crate) fn check_ca(certificate: &CertificateDer<'_>) -> Result<(), CaProblem> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| CaProblem::Unreadable)?;
    if parsed.version() != X509Version::V3 {
        return Err(CaProblem::Version1 { subject: parsed.subject().to_string() });
    }
    Ok(())
}
