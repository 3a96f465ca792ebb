//! The talosconfig: where to connect, whom to trust, and who we are.
//!
//! Invariant: a [`Context`] is ready for use. Its fields were decoded, its key was proven loadable, and it has a client
//! certificate; what is wrong with any of that was said with the file's and the context's name. Keys are never shown,
//! neither in an error nor in `Debug`. Unknown keys of newer Talos versions are skipped.

mod certificate;
mod error;
mod pem;
mod places;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use chrono::{DateTime, Utc};
use rustls_pki_types::CertificateDer;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer};

pub use certificate::{CaFingerprint, CertificateProblem, ClientCertificate, SNAPSHOT_ROLES};
pub use error::ConfigError;
pub(crate) use pem::PrivateKey;
pub use places::{Place, Places, SERVICE_ACCOUNT_PATH};

use crate::endpoint::Endpoint;

/// A talosconfig as read, its contexts not decoded yet.
pub struct TalosConfig {
    origin: String,
    current: Option<String>,
    contexts: BTreeMap<String, WireContext>,
}

impl fmt::Debug for TalosConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TalosConfig")
            .field("origin", &self.origin)
            .field("current", &self.current)
            .field("contexts", &self.contexts.keys().collect::<Vec<_>>())
            .finish()
    }
}

// The wire structs have no `Debug`: they hold keys.
#[derive(Default, Deserialize)]
struct WireConfig {
    #[serde(default)]
    context: Option<String>,
    #[serde(default)]
    contexts: Option<BTreeMap<String, Option<WireContext>>>,
}

#[derive(Default, Deserialize)]
struct WireContext {
    #[serde(default)]
    endpoints: Option<Vec<String>>,
    #[serde(default)]
    nodes: Option<Vec<String>>,
    /// Deprecated by Talos, which still appends it to the endpoints.
    #[serde(default)]
    target: Option<String>,
    #[serde(default)]
    ca: Option<String>,
    #[serde(default)]
    crt: Option<String>,
    #[serde(default, deserialize_with = "secret")]
    key: Option<SecretString>,
    #[serde(default)]
    auth: Option<WireAuth>,
    #[serde(default, rename = "proxy-url")]
    proxy_url: Option<String>,
}

#[derive(Default, Deserialize)]
struct WireAuth {
    #[serde(default)]
    siderov1: Option<serde::de::IgnoredAny>,
}

fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SecretString>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(SecretString::from))
}

impl TalosConfig {
    /// Finds and reads the talosconfig. `env` answers for environment variables.
    pub fn load(explicit: Option<&Path>, env: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        let place = Places::new(explicit, env).find()?;
        let text = std::fs::read_to_string(&place.path)
            .map(Zeroizing::new)
            .map_err(|source| ConfigError::Read { path: place.path.clone(), source })?;
        Self::parse(&text, &place.path.display().to_string())
    }

    /// Parses a talosconfig; `origin` names it in errors.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ConfigError> {
        let origin = origin.to_owned();
        if text.trim().is_empty() {
            return Err(ConfigError::Empty { origin });
        }
        let wire: Option<WireConfig> = serde_saphyr::from_str(text).map_err(|error| {
            // Only the place: the message itself may quote a key.
            let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
            ConfigError::Yaml { origin: origin.clone(), line, column }
        })?;
        let wire = wire.unwrap_or_default();
        let contexts: BTreeMap<_, _> =
            wire.contexts.unwrap_or_default().into_iter().map(|(name, c)| (name, c.unwrap_or_default())).collect();
        if contexts.is_empty() {
            return Err(ConfigError::Empty { origin });
        }
        Ok(Self { origin, current: wire.context.filter(|name| !name.is_empty()), contexts })
    }

    /// Where it was read from.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Names of the contexts, sorted.
    pub fn context_names(&self) -> Vec<String> {
        self.contexts.keys().cloned().collect()
    }

    /// The context of that name, or the current one, decoded.
    pub fn context(&self, name: Option<&str>) -> Result<Context, ConfigError> {
        let name = match name.or(self.current.as_deref()) {
            Some(name) => name,
            // With one context there is nothing to choose.
            None => match self.contexts.keys().next() {
                Some(only) if self.contexts.len() == 1 => only,
                _ => {
                    let (origin, existing) = (self.origin.clone(), self.context_names());
                    return Err(ConfigError::NoCurrentContext { origin, existing });
                }
            },
        };
        let Some(wire) = self.contexts.get(name) else {
            return Err(ConfigError::UnknownContext {
                origin: self.origin.clone(),
                name: name.to_owned(),
                existing: self.context_names(),
            });
        };
        Context::decode(&self.origin, name, wire)
    }
}

/// One context, decoded and ready to connect with. `Debug` shows no key.
#[derive(Clone)]
pub struct Context {
    origin: String,
    name: String,
    endpoints: Vec<Endpoint>,
    nodes: Vec<String>,
    ca: Vec<CertificateDer<'static>>,
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKey,
    warnings: Vec<String>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("origin", &self.origin)
            .field("name", &self.name)
            .field("endpoints", &self.endpoints)
            .field("nodes", &self.nodes)
            .field("ca", &self.ca_fingerprints())
            .field("key", &"[redacted]")
            .finish_non_exhaustive()
    }
}

impl Context {
    fn decode(origin: &str, name: &str, wire: &WireContext) -> Result<Self, ConfigError> {
        let field = |field, why| ConfigError::Field { origin: origin.to_owned(), context: name.to_owned(), field, why };
        let crt = wire.crt.as_deref().filter(|text| !text.trim().is_empty());
        // A key that is present but empty next to a certificate is a damaged file, not a context without one.
        let key = wire.key.as_ref().filter(|key| crt.is_some() || !key.expose_secret().trim().is_empty());
        let (crt, key) = match (crt, key) {
            (Some(crt), Some(key)) => (crt, key),
            (Some(_), None) => return Err(field("key", "it is empty, although `crt` is there".to_owned())),
            (None, Some(_)) => return Err(field("crt", "it is empty, although `key` is there".to_owned())),
            (None, None) => {
                return Err(ConfigError::NoClientCertificate {
                    origin: origin.to_owned(),
                    context: name.to_owned(),
                    signed_requests: wire.auth.as_ref().is_some_and(|auth| auth.siderov1.is_some()),
                });
            }
        };
        let certificates = pem::certificates(crt).map_err(|why| field("crt", why))?;
        let key = pem::private_key(key.expose_secret()).map_err(|why| field("key", why))?;
        let ca = match wire.ca.as_deref().filter(|text| !text.trim().is_empty()) {
            Some(text) => pem::certificates(text).map_err(|why| field("ca", why))?,
            None => Vec::new(),
        };
        for certificate in &ca {
            certificate::check_ca(certificate).map_err(|problem| match problem {
                certificate::CaProblem::Unreadable => field("ca", "a certificate in it cannot be parsed".to_owned()),
                certificate::CaProblem::Version1 { subject } => {
                    ConfigError::CaVersion1 { origin: origin.to_owned(), context: name.to_owned(), subject }
                }
            })?;
        }
        let endpoints = wire.endpoints.iter().flatten().chain(&wire.target).filter(|text| !text.trim().is_empty());
        let endpoints: Vec<Endpoint> = endpoints
            .map(|text| text.parse())
            .collect::<Result<_, _>>()
            .map_err(|source| ConfigError::Endpoint { origin: origin.to_owned(), context: name.to_owned(), source })?;
        let mut warnings = Vec::new();
        if wire.proxy_url.as_ref().is_some_and(|url| !url.is_empty()) {
            warnings
                .push(format!("`proxy-url` of context `{name}` is not used: connections to Talos are always direct"));
        }
        let nodes = wire.nodes.clone().unwrap_or_default();
        Ok(Self { origin: origin.to_owned(), name: name.to_owned(), endpoints, nodes, ca, certificates, key, warnings })
    }

    /// Name of the context, which is the cluster's name unless someone renamed it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that it came from.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Endpoints in the order of the file.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Default nodes of `talosctl`. They are not applied by themselves.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// The same context with other endpoints.
    pub fn with_endpoints(mut self, endpoints: Vec<Endpoint>) -> Self {
        self.endpoints = endpoints;
        self
    }

    /// What in the context has no effect here.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Fingerprints of the CA certificates; none when the system's roots are trusted instead.
    pub fn ca_fingerprints(&self) -> Vec<CaFingerprint> {
        self.ca.iter().map(CaFingerprint::of).collect()
    }

    /// Checks the client certificate as a Talos node would, and says what it says.
    pub fn client_certificate(&self, now: DateTime<Utc>) -> Result<ClientCertificate, ConfigError> {
        let leaf = self.certificates.first().expect("the parser refuses an empty list");
        certificate::check_client(leaf, now).map_err(|problem| ConfigError::ClientCertificate {
            origin: self.origin.clone(),
            context: self.name.clone(),
            problem,
        })
    }

    pub(crate) fn ca(&self) -> &[CertificateDer<'static>] {
        &self.ca
    }

    pub(crate) fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }

    pub(crate) fn key(&self) -> &PrivateKey {
        &self.key
    }
}

#[cfg(test)]
mod tests;
