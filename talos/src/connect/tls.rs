//! The TLS side of a context: mutual authentication with ring, ALPN `h2`.
//!
//! Invariant: every certificate of `ca` is trusted, since a CA rotation leaves two in it; the system's roots are trusted
//! only when `ca` is empty. A certificate and key that do not belong together are refused here, not by the node.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

use crate::config::{ConfigError, Context};

/// The only protocol that Talos accepts; gRPC servers refuse a client that does not ask for it.
pub(crate) const ALPN: &[u8] = b"h2";

pub(crate) fn client_config(context: &Context) -> Result<ClientConfig, ConfigError> {
    let field = |field, why: String| ConfigError::Field {
        origin: context.origin().to_owned(),
        context: context.name().to_owned(),
        field,
        why,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| field("crt", error.to_string()))?
        .with_root_certificates(roots(context)?)
        .with_client_auth_cert(context.certificates().to_vec(), context.key().to_der())
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => field("key", "it does not belong to `crt`".to_owned()),
            other => field("crt", other.to_string()),
        })?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

fn roots(context: &Context) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    if context.ca().is_empty() {
        return system_roots(context);
    }
    for certificate in context.ca() {
        roots.add(certificate.clone()).map_err(|error| ConfigError::Field {
            origin: context.origin().to_owned(),
            context: context.name().to_owned(),
            field: "ca",
            why: error.to_string(),
        })?;
    }
    Ok(roots)
}

fn system_roots(context: &Context) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    let loaded = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(loaded.certs);
    if added == 0 {
        let why = loaded.errors.first().map_or_else(|| "there are none".to_owned(), ToString::to_string);
        let (origin, context) = (context.origin().to_owned(), context.name().to_owned());
        return Err(ConfigError::SystemRoots { origin, context, why });
    }
    Ok(roots)
}
