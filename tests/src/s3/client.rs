//! Plain S3 clients for tests: the SDK with nothing between the test and the wire.
//!
//! Invariant: no retries and no waiting that a test did not ask for, so that every fault reaches the test that made it.
//! This is the lab's own client; what the programs under test do is the affair of their store.

use std::time::Duration;

use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    BehaviorVersion, Credentials, Region, RequestChecksumCalculation, ResponseChecksumValidation,
    StalledStreamProtectionConfig,
};
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_runtime_api::client::dns::{DnsFuture, ResolveDns};

use super::S3Keys;

/// How a client is to talk, where the defaults do not do.
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    /// Address buckets as `<bucket>.<host>`, with every name resolved to the loopback address.
    pub virtual_hosts: bool,
    /// Send checksum headers and trailers even where S3 does not demand them, as the SDK does by default.
    pub checksums_always: bool,
    /// PEM certificates to trust instead of the system's.
    pub ca_pem: Option<Vec<u8>>,
    /// Give up on a call after this long; otherwise 60 seconds.
    pub timeout: Option<Duration>,
}

/// A client that sends path-style requests to `endpoint` and retries nothing.
pub fn client(endpoint: &str, keys: &S3Keys) -> aws_sdk_s3::Client {
    client_with(endpoint, keys, &ClientOptions::default())
}

/// A client as [`client`] makes it, but for what `options` say.
pub fn client_with(endpoint: &str, keys: &S3Keys, options: &ClientOptions) -> aws_sdk_s3::Client {
    let mut tls = TlsContext::builder();
    if let Some(pem) = &options.ca_pem {
        tls = tls.with_trust_store(TrustStore::empty().with_pem_certificate(pem.clone()));
    }
    let tls = tls.build().expect("a TLS context without special server names is always valid");
    let http = aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).tls_context(tls);
    let http = match options.virtual_hosts {
        true => http.build_with_resolver(Loopback),
        false => http.build_https(),
    };
    let credentials =
        Credentials::new(&keys.access_key, &keys.secret_key, keys.session_token.clone(), None, "bronzenail-lab");
    let timeouts = TimeoutConfig::builder().operation_timeout(options.timeout.unwrap_or(Duration::from_secs(60)));
    let mut config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(http)
        .endpoint_url(endpoint)
        .region(Region::new("us-east-1"))
        .credentials_provider(credentials)
        .force_path_style(!options.virtual_hosts)
        .retry_config(RetryConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .timeout_config(timeouts.build());
    if !options.checksums_always {
        config = config
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    }
    aws_sdk_s3::Client::from_conf(config.build())
}

/// Resolves every name to the loopback address, so that virtual hosts need no DNS.
#[derive(Debug, Clone)]
struct Loopback;

impl ResolveDns for Loopback {
    fn resolve_dns<'a>(&'a self, _name: &'a str) -> DnsFuture<'a> {
        DnsFuture::ready(Ok(vec![std::net::Ipv4Addr::LOCALHOST.into()]))
    }
}
