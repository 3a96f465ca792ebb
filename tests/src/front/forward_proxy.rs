//! A forward HTTP proxy that notes what goes through it: `CONNECT` tunnels and requests in absolute form.
//!
//! It can be told where names lead, so that tests need no DNS and virtual hosts reach a loopback port.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::upstream;
use crate::s3::listener::{BoxError, Cut, Listening, Reply, ReplyBody, empty};

/// One request that went through the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxySeen {
    /// `CONNECT` for a tunnel, else the method of the request.
    pub method: String,
    /// Host and port that were asked for.
    pub authority: String,
    /// What was asked for there; empty for a tunnel, whose inside the proxy does not see.
    pub path: String,
    /// The credentials shown to the proxy, if any.
    pub authorization: Option<String>,
}

/// A logging forward proxy on a loopback port, alive as long as this value.
#[derive(Debug)]
pub struct ForwardProxy {
    listening: Listening,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    leads_to: HashMap<String, SocketAddr>,
    seen: Vec<ProxySeen>,
}

impl ForwardProxy {
    /// Starts a proxy on a free loopback port.
    ///
    /// # Errors
    /// No port could be had.
    pub async fn start() -> io::Result<Self> {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let listening = Listening::start(None, move |request| Box::pin(pass(Arc::clone(&shared), request))).await?;
        Ok(Self { listening, state })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// The value for `HTTP_PROXY` and `HTTPS_PROXY`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Sends everything for this host name, whatever its port, to `address`. `*.domain` stands for all names under it.
    pub fn lead(&self, host: impl Into<String>, address: SocketAddr) {
        lock(&self.state).leads_to.insert(host.into(), address);
    }

    /// Everything that went through so far, in the order of arrival.
    pub fn seen(&self) -> Vec<ProxySeen> {
        lock(&self.state).seen.clone()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn pass(state: Arc<Mutex<State>>, request: Request<Incoming>) -> Reply {
    let authority = request.uri().authority().map(ToString::to_string).unwrap_or_default();
    let tunnel = request.method() == Method::CONNECT;
    let authorization = request.headers().get("proxy-authorization").and_then(|value| value.to_str().ok());
    let path = request.uri().path_and_query().filter(|_| !tunnel).map(ToString::to_string).unwrap_or_default();
    let seen = ProxySeen {
        method: request.method().to_string(),
        authority: authority.clone(),
        path,
        authorization: authorization.map(str::to_owned),
    };
    lock(&state).seen.push(seen);
    let passed = match tunnel {
        true => open_tunnel(&state, &authority, request).await,
        false => forward(&state, &authority, request).await,
    };
    passed.map_err(|error| {
        tracing::warn!("the forward proxy could not reach {authority}: {error}");
        Cut::Close
    })
}

async fn open_tunnel(
    state: &Mutex<State>,
    authority: &str,
    request: Request<Incoming>,
) -> Result<Response<ReplyBody>, BoxError> {
    let mut there = TcpStream::connect(find(state, authority, 443)?).await?;
    tokio::spawn(async move {
        let Ok(here) = hyper::upgrade::on(request).await else { return };
        // Either side may end the tunnel at any time; that is no failure of the proxy.
        let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(here), &mut there).await;
    });
    Ok(Response::new(empty()))
}

async fn forward(
    state: &Mutex<State>,
    authority: &str,
    request: Request<Incoming>,
) -> Result<Response<ReplyBody>, BoxError> {
    if authority.is_empty() {
        let mut response = Response::new(empty());
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(response);
    }
    let address = find(state, authority, 80)?;
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = path.parse::<Uri>()?;
    for name in ["proxy-authorization", "proxy-connection", "connection"] {
        parts.headers.remove(name);
    }
    let body: Bytes = body.collect().await?.to_bytes();
    let response = upstream::send(address, Request::from_parts(parts, body)).await?;
    Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
}

/// Where a name leads. The proxy leads nowhere but to the loopback interface and to what it was told.
fn find(state: &Mutex<State>, authority: &str, default_port: u16) -> Result<SocketAddr, BoxError> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse()?),
        None => (authority, default_port),
    };
    let leads_to = &lock(state).leads_to;
    let under = |pattern: &str| pattern.strip_prefix('*').is_some_and(|domain| host.ends_with(domain));
    let told = leads_to.iter().find(|(pattern, _)| *pattern == host || under(pattern));
    match (told, host) {
        (Some((_, address)), _) => Ok(*address),
        (None, "127.0.0.1" | "localhost") => Ok((std::net::Ipv4Addr::LOCALHOST, port).into()),
        _ => Err(format!("the lab's proxy knows no way to {host}").into()),
    }
}
