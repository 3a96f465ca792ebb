//! The embedded server: a port, the keys that it accepts, and a look at what it stores.
//!
//! Invariant: a request that is not signed by a granted key (with its session token, if it has one) never reaches the
//! objects.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, RwLock};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::service::Service;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::host::{S3Host, VirtualHost};
use s3s::service::S3ServiceBuilder;
use s3s::{S3Result, s3_error};

use super::listener::{BoxError, Cut, Listening};
use super::memory::Memory;

/// One pair of keys, and the session token that must come with it when it is temporary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Keys {
    /// What AWS calls the access key id.
    pub access_key: String,
    /// What requests are signed with.
    pub secret_key: String,
    /// Must be sent as `x-amz-security-token` if there is one.
    pub session_token: Option<String>,
}

impl S3Keys {
    /// Lasting keys, without a session token.
    pub fn new(access_key: impl Into<String>, secret_key: impl Into<String>) -> Self {
        Self { access_key: access_key.into(), secret_key: secret_key.into(), session_token: None }
    }

    /// Fresh random keys, so that no test can pass by knowing well-known ones.
    pub fn fresh() -> Self {
        let hex = |bytes: [u8; 16]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
        Self::new(format!("LAB{}", &hex(rand::random())[..17]), hex(rand::random()))
    }

    /// The same keys, valid only together with this session token.
    pub fn with_session_token(mut self, token: impl Into<String>) -> Self {
        self.session_token = Some(token.into());
        self
    }
}

/// How an embedded server is to be started.
#[derive(Debug, Default)]
pub struct S3Options {
    /// Keys that are granted from the start.
    pub keys: Vec<S3Keys>,
    /// Buckets that are there from the start.
    pub buckets: Vec<String>,
    /// The domain under which `<bucket>.<domain>` is understood too. Without it only path-style requests are.
    pub domain: Option<String>,
    /// TLS, for instance with a certificate of a private authority. Without it the server speaks plain HTTP.
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

/// An S3 server in memory, alive as long as this value.
#[derive(Debug)]
pub struct S3Server {
    listening: Listening,
    scheme: &'static str,
    keys: Keyring,
    memory: Memory,
}

impl S3Server {
    /// Starts a server on a free loopback port.
    ///
    /// # Errors
    /// No port could be had.
    pub async fn start(options: S3Options) -> io::Result<Self> {
        let keys = Keyring::default();
        for granted in options.keys {
            keys.grant(granted);
        }
        let memory = Memory::default();
        for bucket in options.buckets {
            memory.make_bucket(&bucket);
        }
        let mut service = S3ServiceBuilder::new(memory.clone());
        service.set_auth(keys.clone());
        service.set_access(keys.clone());
        if let Some(domain) = &options.domain {
            service.set_host(BucketHosts { domain: domain.clone() });
        }
        let service = service.build();
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let listening = Listening::start(options.tls, move |request| {
            let answer = Service::call(&service, request);
            Box::pin(async move {
                // s3s reports a failure of its own only when it has no answer at all: then there is none on the wire.
                let response = answer.await.map_err(|error| {
                    tracing::warn!("the embedded S3 server failed: {error:?}");
                    Cut::Close
                })?;
                Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
            })
        })
        .await?;
        Ok(Self { listening, scheme, keys, memory })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// The endpoint by address, as a user would configure it.
    pub fn endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.address())
    }

    /// Accepts these keys from now on; keys with the same access key are replaced.
    pub fn grant(&self, keys: S3Keys) {
        self.keys.grant(keys);
    }

    /// Accepts this access key no longer, as when temporary keys expire.
    pub fn revoke(&self, access_key: &str) {
        self.keys.revoke(access_key);
    }

    /// Makes a bucket without asking anyone.
    pub fn make_bucket(&self, bucket: &str) {
        self.memory.make_bucket(bucket);
    }

    /// Every object of a bucket, straight from the memory: what is really there, whatever listings say.
    pub fn objects(&self, bucket: &str) -> BTreeMap<String, Bytes> {
        self.memory.objects(bucket)
    }

    /// One object's bytes.
    pub fn object(&self, bucket: &str, key: &str) -> Option<Bytes> {
        self.memory.objects(bucket).remove(key)
    }

    /// The metadata with which an object was stored.
    pub fn metadata(&self, bucket: &str, key: &str) -> Option<HashMap<String, String>> {
        self.memory.metadata(bucket, key)
    }

    /// Puts an object there without asking anyone, for instance a stranger's.
    pub fn put(&self, bucket: &str, key: &str, bytes: impl Into<Bytes>) {
        self.memory.put(bucket, key, bytes.into());
    }

    /// Keys of uploads that were begun and neither completed nor aborted: parts that somebody pays for.
    pub fn unfinished_uploads(&self, bucket: &str) -> Vec<String> {
        self.memory.unfinished_uploads(bucket)
    }
}

/// Understands `<bucket>.<domain>`, whatever the port; every other host leaves the bucket to the path.
#[derive(Debug)]
struct BucketHosts {
    domain: String,
}

impl S3Host for BucketHosts {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let name = host.rsplit_once(':').map_or(host, |(name, _port)| name);
        let bucket = name.strip_suffix(self.domain.as_str()).and_then(|rest| rest.strip_suffix('.'));
        let found = VirtualHost::new(&self.domain);
        Ok(match bucket {
            Some(bucket) => found.with_bucket(bucket),
            None => found,
        })
    }
}

/// The keys that are granted now.
#[derive(Debug, Clone, Default)]
struct Keyring(Arc<RwLock<HashMap<String, S3Keys>>>);

impl Keyring {
    fn grant(&self, keys: S3Keys) {
        self.write().insert(keys.access_key.clone(), keys);
    }

    fn revoke(&self, access_key: &str) {
        self.write().remove(access_key);
    }

    fn find(&self, access_key: &str) -> S3Result<S3Keys> {
        let keys = self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        keys.get(access_key).cloned().ok_or_else(|| s3_error!(InvalidAccessKeyId, "no such access key"))
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<String, S3Keys>> {
        self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[async_trait::async_trait]
impl S3Auth for Keyring {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        Ok(SecretKey::from(self.find(access_key)?.secret_key))
    }
}

#[async_trait::async_trait]
impl S3Access for Keyring {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let Some(credentials) = context.credentials() else {
            return Err(s3_error!(AccessDenied, "the request is not signed"));
        };
        let keys = self.find(&credentials.access_key)?;
        let token = context.headers().get("x-amz-security-token").map(|value| value.as_bytes());
        if token != keys.session_token.as_deref().map(str::as_bytes) {
            return Err(s3_error!(InvalidToken, "the session token is not the one of this access key"));
        }
        Ok(())
    }
}
