//! The one accept loop under every HTTP server of the lab: loopback only, TLS if asked, and able to cut a connection.
//!
//! Invariant: a handler that returns [`Cut`] ends its connection without one more byte; with [`Cut::Reset`] the peer
//! sees a TCP reset, with [`Cut::Close`] an orderly end of the connection. When the [`Listening`] is dropped, the port
//! is closed and so is every connection, so that no test leaves a server behind.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

const RECEIVE_BUFFER_BYTES: u32 = 256 * 1024;
const BACKLOG: u32 = 1024;

/// What a body may fail with on the wire; the failure itself is the message.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Any body that a handler answers with.
pub(crate) type ReplyBody = UnsyncBoxBody<Bytes, BoxError>;

/// What a handler gives back.
pub(crate) type Reply = Result<Response<ReplyBody>, Cut>;

type Handler = Arc<dyn Fn(Request<Incoming>) -> BoxFuture<'static, Reply> + Send + Sync>;

/// A handler's wish that the connection ends without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// As a crashing peer or a dropping load balancer does it: TCP RST.
    Reset,
    /// As a peer does that shuts down in good order: TCP FIN.
    Close,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cut::Reset => "the lab resets this connection",
            Cut::Close => "the lab closes this connection",
        })
    }
}

impl std::error::Error for Cut {}

/// A server on a loopback port, alive as long as this value.
#[derive(Debug)]
pub(crate) struct Listening {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Listening {
    /// Starts serving `handler` on a free loopback port, over TLS if a configuration is given.
    pub(crate) async fn start<H>(tls: Option<Arc<rustls::ServerConfig>>, handler: H) -> io::Result<Self>
    where
        H: Fn(Request<Incoming>) -> BoxFuture<'static, Reply> + Send + Sync + 'static,
    {
        let socket = TcpSocket::new_v4()?;
        // The kernel would otherwise take in megabytes of a body that nobody reads, and no drain would look slow.
        socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
        socket.bind((std::net::Ipv4Addr::LOCALHOST, 0).into())?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(accept(listener, tls, Arc::new(handler)));
        Ok(Self { address, accepting })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, tls: Option<Arc<rustls::ServerConfig>>, handler: Handler) {
    // The set aborts its tasks when it is dropped: connections end with the listener.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, tls.clone(), Arc::clone(&handler)));
                }
                // Out of file descriptors, or the peer was gone before we looked: neither is the end of a server.
                Err(error) => tracing::warn!("the lab could not accept a connection: {error}"),
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, tls: Option<Arc<rustls::ServerConfig>>, handler: Handler) {
    // Nagle's algorithm would hold back the small pieces that slow replies are made of.
    let _ = stream.set_nodelay(true);
    let reset = Arc::new(AtomicBool::new(false));
    let stream = Resettable { stream, reset: Arc::clone(&reset) };
    match tls {
        None => serve_http(stream, handler, reset).await,
        Some(config) => match tokio_rustls::TlsAcceptor::from(config).accept(stream).await {
            Ok(stream) => serve_http(stream, handler, reset).await,
            Err(error) => tracing::debug!("a TLS handshake with the lab failed: {error}"),
        },
    }
}

async fn serve_http<IO>(stream: IO, handler: Handler, reset: Arc<AtomicBool>)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = handler(request);
        let reset = Arc::clone(&reset);
        async move {
            let answer = answer.await;
            if let Err(Cut::Reset) = &answer {
                reset.store(true, Ordering::SeqCst);
            }
            answer.map(|response| response.map(|body| mark_resets(body, reset)))
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new());
    let connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
    if let Err(error) = connection.await {
        tracing::debug!("a connection to the lab ended: {error}");
    }
}

/// Lets a body end its connection by a reset: a body that fails with [`Cut::Reset`] must not end in an orderly close.
fn mark_resets(body: ReplyBody, reset: Arc<AtomicBool>) -> ReplyBody {
    body.map_err(move |error| {
        if let Some(Cut::Reset) = error.downcast_ref::<Cut>() {
            reset.store(true, Ordering::SeqCst);
        }
        error
    })
    .boxed_unsync()
}

/// A TCP stream that ends in a reset once the flag is set.
struct Resettable {
    stream: TcpStream,
    reset: Arc<AtomicBool>,
}

impl Drop for Resettable {
    fn drop(&mut self) {
        if self.reset.load(Ordering::SeqCst) {
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Resettable {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Resettable {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper shuts a connection down in order before it drops it; a reset must come instead, not after.
        if self.reset.load(Ordering::SeqCst) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A body of these bytes.
pub(crate) fn full(bytes: impl Into<Bytes>) -> ReplyBody {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// A body of nothing.
pub(crate) fn empty() -> ReplyBody {
    Empty::new().map_err(|never: Infallible| match never {}).boxed_unsync()
}
