//! A security token service for web identities, as the SDK's credential chain meets it.
//!
//! It answers `AssumeRoleWithWebIdentity` with the credentials that the test gave it and notes every token that it was
//! shown. Invariant: it never invents credentials; without any it refuses, as the real one does for a foreign token.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{SecondsFormat, Utc};
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::S3Keys;
use super::listener::{Cut, Listening, Reply, full};

/// What the service hands out.
#[derive(Debug, Clone)]
pub struct StsCredentials {
    /// The temporary keys; they should have a session token.
    pub keys: S3Keys,
    /// How long from the answer they are said to be valid.
    pub lifetime: Duration,
}

/// One call that the service got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSeen {
    /// `Action` of the call.
    pub action: String,
    /// The web identity token.
    pub token: String,
    /// The role that was asked for.
    pub role_arn: String,
    /// Whether credentials were handed out.
    pub granted: bool,
}

/// A security token service on a loopback port, alive as long as this value.
#[derive(Debug)]
pub struct Sts {
    listening: Listening,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    credentials: Option<StsCredentials>,
    seen: Vec<TokenSeen>,
}

impl Sts {
    /// Starts the service. `None` makes it refuse every token until [`Sts::hand_out`].
    ///
    /// # Errors
    /// No port could be had.
    pub async fn start(credentials: Option<StsCredentials>) -> io::Result<Self> {
        let state = Arc::new(Mutex::new(State { credentials, seen: Vec::new() }));
        let shared = Arc::clone(&state);
        let listening = Listening::start(None, move |request| Box::pin(answer(request, Arc::clone(&shared)))).await?;
        Ok(Self { listening, state })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// The value for `AWS_ENDPOINT_URL_STS`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Hands out these credentials from now on; `None` refuses.
    pub fn hand_out(&self, credentials: Option<StsCredentials>) {
        lock(&self.state).credentials = credentials;
    }

    /// Every call so far, in order.
    pub fn seen(&self) -> Vec<TokenSeen> {
        lock(&self.state).seen.clone()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(request: Request<Incoming>, state: Arc<Mutex<State>>) -> Reply {
    let body = request.into_body().collect().await.map_err(|_| Cut::Close)?.to_bytes();
    let mut form = form_fields(&String::from_utf8_lossy(&body));
    let mut field = |name: &str| form.remove(name).unwrap_or_default();
    let (action, token, role_arn) = (field("Action"), field("WebIdentityToken"), field("RoleArn"));
    let mut state = lock(&state);
    let known = action == "AssumeRoleWithWebIdentity" && !token.is_empty() && !role_arn.is_empty();
    let credentials = state.credentials.clone().filter(|_| known);
    state.seen.push(TokenSeen { action, token, role_arn: role_arn.clone(), granted: credentials.is_some() });
    Ok(match credentials {
        Some(credentials) => xml(StatusCode::OK, granted(&credentials, &role_arn)),
        None => xml(StatusCode::BAD_REQUEST, refused()),
    })
}

fn xml(status: StatusCode, body: String) -> Response<super::listener::ReplyBody> {
    let mut response = Response::new(full(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/xml"));
    response
}

fn granted(credentials: &StsCredentials, role_arn: &str) -> String {
    let until = (Utc::now() + credentials.lifetime).to_rfc3339_opts(SecondsFormat::Secs, true);
    let S3Keys { access_key, secret_key, session_token } = &credentials.keys;
    let session_token = session_token.as_deref().unwrap_or_default();
    format!(
        "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
         <AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{access_key}</AccessKeyId>\
         <SecretAccessKey>{secret_key}</SecretAccessKey><SessionToken>{session_token}</SessionToken>\
         <Expiration>{until}</Expiration></Credentials><AssumedRoleUser><Arn>{role_arn}/lab</Arn>\
         <AssumedRoleId>LABROLE:lab</AssumedRoleId></AssumedRoleUser></AssumeRoleWithWebIdentityResult>\
         <ResponseMetadata><RequestId>lab</RequestId></ResponseMetadata></AssumeRoleWithWebIdentityResponse>"
    )
}

fn refused() -> String {
    "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type>\
     <Code>InvalidIdentityToken</Code><Message>the lab accepts no such token now</Message></Error>\
     <RequestId>lab</RequestId></ErrorResponse>"
        .to_owned()
}

fn form_fields(form: &str) -> HashMap<String, String> {
    let pairs = form.split('&').filter_map(|pair| pair.split_once('='));
    // In a form, a plus sign is a space; elsewhere in a URL it is itself.
    pairs.map(|(name, value)| (unescape(&name.replace('+', " ")), unescape(&value.replace('+', " ")))).collect()
}

/// Undoes percent encoding; what is no encoding stays as it is.
pub(crate) fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = (first == b'%').then(|| after.get(..2)).flatten();
        let byte = hex.and_then(|hex| std::str::from_utf8(hex).ok()).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
