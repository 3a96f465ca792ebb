//! One accepted connection, which can be broken below TLS while it is in use.
//!
//! Invariant: a frozen connection passes on nothing and ends nothing, as a peer does that has lost its power; a reset one
//! leaves the client with a TCP reset and not with a farewell of HTTP/2.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

const OPEN: u8 = 0;
const FROZEN: u8 = 1;
const RESET: u8 = 2;

/// Breaks one connection from outside.
#[derive(Default)]
pub(super) struct Breaker {
    state: AtomicU8,
    waker: AtomicWaker,
}

impl Breaker {
    pub(super) fn reset(&self) {
        self.state.store(RESET, Ordering::SeqCst);
        self.waker.wake();
    }

    pub(super) fn freeze(&self) {
        self.state.store(FROZEN, Ordering::SeqCst);
    }
}

/// A TCP stream with a breaker in it.
pub(super) struct Wire {
    tcp: TcpStream,
    breaker: Arc<Breaker>,
}

impl Wire {
    pub(super) fn new(tcp: TcpStream, breaker: Arc<Breaker>) -> Self {
        Self { tcp, breaker }
    }

    /// `Ready` when the wire is broken, `Pending` when it is frozen, nothing when it may be used.
    fn check(&self, context: &Context<'_>) -> Option<Poll<io::Error>> {
        self.breaker.waker.register(context.waker());
        match self.breaker.state.load(Ordering::SeqCst) {
            OPEN => None,
            FROZEN => Some(Poll::Pending),
            _ => {
                // Without lingering, the close that follows is a reset. If it fails, the client sees a close: also broken.
                let _ = self.tcp.set_zero_linger();
                Some(Poll::Ready(io::Error::from(io::ErrorKind::ConnectionReset)))
            }
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.check(cx) {
            Some(broken) => broken.map(Err),
            None => Pin::new(&mut self.tcp).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.check(cx) {
            Some(broken) => broken.map(Err),
            None => Pin::new(&mut self.tcp).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.check(cx) {
            Some(broken) => broken.map(Err),
            None => Pin::new(&mut self.tcp).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.check(cx) {
            Some(broken) => broken.map(Err),
            None => Pin::new(&mut self.tcp).poll_shutdown(cx),
        }
    }
}

/// Who is on the other side of a connection.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) roles: Arc<[String]>,
    pub(super) breaker: Arc<Breaker>,
}

/// A connection whose handshake is done.
pub(super) struct Accepted {
    pub(super) tls: TlsStream<Wire>,
    pub(super) peer: Peer,
}

impl Connected for Accepted {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Accepted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tls).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tls).poll_shutdown(cx)
    }
}
