//! Building the SDK's client.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{RequestChecksumCalculation, ResponseChecksumValidation, StalledStreamProtectionConfig};
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_http_client::{Connector, proxy::ProxyConfig, tls};
use aws_smithy_runtime_api::client::http::{
    HttpConnectorSettings, SharedHttpClient, SharedHttpConnector, http_client_fn,
};

use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction, SharedRetryClassifier};

use super::options::{ChecksumMode, S3Options};
use super::trust;
use super::watch::{Limits, Watched};
use crate::StoreError;

/// A custom endpoint rarely knows regions; the signature needs one all the same.
const REGION_OF_CUSTOM_ENDPOINTS: &str = "us-east-1";

pub(super) async fn build(options: &S3Options, retries: Arc<AtomicU64>) -> Result<aws_sdk_s3::Client, StoreError> {
    let http = http_client(options, retries)?;
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(http);
    // The region is settled before credentials are looked for: web identity asks a regional service for them.
    if let Some(region) = region(options) {
        loader = loader.region(region);
    }
    let shared = loader
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .timeout_config(TimeoutConfig::builder().connect_timeout(options.connect_timeout).build())
        .retry_config(RetryConfig::standard().with_max_attempts(options.attempts_max.max(1)))
        .load()
        .await;

    let mut config = aws_sdk_s3::config::Builder::from(&shared);
    config.set_force_path_style(Some(options.path_style()));
    if let Some(endpoint) = &options.endpoint {
        config.set_endpoint_url(Some(endpoint.clone()));
    }
    let (request, response) = match checksum_mode(options) {
        ChecksumMode::WhenRequired => {
            (RequestChecksumCalculation::WhenRequired, ResponseChecksumValidation::WhenRequired)
        }
        ChecksumMode::WhenSupported => {
            (RequestChecksumCalculation::WhenSupported, ResponseChecksumValidation::WhenSupported)
        }
    };
    config.set_request_checksum_calculation(Some(request));
    config.set_response_checksum_validation(Some(response));
    config.push_retry_classifier(SharedRetryClassifier::new(TooManyRequests));
    Ok(aws_sdk_s3::Client::from_conf(config.build()))
}

/// What was set, else what the SDK's own variable says, else the mode that every store takes.
///
/// Read here, because the SDK's configuration does not tell its default from a choice, and its default is what many refuse.
fn checksum_mode(options: &S3Options) -> ChecksumMode {
    let from_env = || std::env::var("AWS_REQUEST_CHECKSUM_CALCULATION").ok();
    match options.checksums {
        Some(mode) => mode,
        None if from_env().is_some_and(|mode| mode.eq_ignore_ascii_case("when_supported")) => {
            ChecksumMode::WhenSupported
        }
        None => ChecksumMode::WhenRequired,
    }
}

/// 429 without a body, as an answer to HEAD is, says no code that the SDK would know.
#[derive(Debug)]
struct TooManyRequests;

impl ClassifyRetry for TooManyRequests {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        match context.response().map(|response| response.status().as_u16()) {
            Some(429) => RetryAction::throttling_error(),
            _ => RetryAction::NoActionIndicated,
        }
    }

    fn name(&self) -> &'static str {
        "429 Too Many Requests"
    }
}

/// What was set; for a custom endpoint also what the environment or the profile says, and a name that any store takes.
/// For AWS itself the SDK's own search is right.
fn region(options: &S3Options) -> Option<RegionProviderChain> {
    if let Some(region) = &options.region {
        return Some(RegionProviderChain::first_try(Region::new(region.clone())));
    }
    options.endpoint.as_ref()?;
    let environment = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new());
    let profile = ProfileFileRegionProvider::new();
    Some(environment.or_else(profile).or_else(Region::from_static(REGION_OF_CUSTOM_ENDPOINTS)))
}

/// One pool of connections for the store and for the services that hand out credentials.
fn http_client(options: &S3Options, retries: Arc<AtomicU64>) -> Result<SharedHttpClient, StoreError> {
    let settings = HttpConnectorSettings::builder().connect_timeout(options.connect_timeout).build();
    let connector = Connector::builder()
        .tls_provider(tls::Provider::rustls(tls::rustls_provider::CryptoMode::Ring))
        .tls_context(trust::context(options.ca.as_ref())?)
        .proxy_config(ProxyConfig::from_env())
        .connector_settings(settings)
        .sleep_impl(TokioSleep::new())
        .build();
    let limits = Limits { idle: options.idle_timeout, reply: options.reply_timeout };
    let watched = SharedHttpConnector::new(Watched::new(connector, limits, retries));
    Ok(http_client_fn(move |_, _| watched.clone()))
}
