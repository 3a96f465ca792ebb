//! From an endpoint to a proven HTTP/2 connection.
//!
//! Invariant: a connection counts as made only once the server has answered *inside* TLS. With TLS 1.3 a client believes
//! that the handshake succeeded before the server has judged its certificate; the refusal arrives with the first read.
//! An HTTP/2 server speaks first (SETTINGS), so waiting for that first byte tells a good endpoint from one that refuses us.
//!
//! Connections never go through a proxy: `HTTPS_PROXY` and its kin are for the storage side, and a node's API is not
//! behind one. The HTTP/2 keepalive stays off: Talos nodes answer pings more frequent than one in five minutes with
//! GOAWAY. TCP keepalive and the deadlines on progress find a dead peer instead.

mod reason;
mod tls;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::io::AsyncBufReadExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::Service;
use tonic::transport::Channel;

pub use reason::{ConnectReason, EndpointFailure};

use crate::config::{ConfigError, Context};
use crate::endpoint::Endpoint;
use reason::ConnectFailure;

/// Talos uses 65535 * 32 on both sides. A window bounds one stream at window / round trip, and the protocol's own 64 KiB
/// would make a far cluster crawl.
const STREAM_WINDOW_BYTES: u32 = 2 * 1024 * 1024;

/// More than one stream's window, so that a question is answered while a snapshot waits for its consumer.
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// How long to wait for the server's first byte inside TLS. Silence is no failure: a proxy may wait for us to speak.
const FIRST_BYTE_WAIT: Duration = Duration::from_secs(2);

/// What connecting needs to know besides the endpoint.
#[derive(Clone)]
pub(crate) struct Connect {
    tls: Arc<rustls::ClientConfig>,
    timeout: Duration,
    tcp_keepalive: Duration,
}

impl Connect {
    pub(crate) fn new(context: &Context, timeout: Duration, tcp_keepalive: Duration) -> Result<Self, ConfigError> {
        Ok(Self { tls: Arc::new(tls::client_config(context)?), timeout, tcp_keepalive })
    }

    /// Connects to one endpoint. The channel reconnects by itself, with the same certificate.
    pub(crate) async fn channel(&self, endpoint: &Endpoint) -> Result<Channel, ConnectReason> {
        // The parser lets no host through that a URI cannot hold; should one slip by, it is that endpoint's failure.
        let unfit = || ConnectReason::Other("the endpoint does not fit into a URI".to_owned());
        let built = tonic::transport::Endpoint::from_shared(endpoint.uri("http")).map_err(|_| unfit())?;
        let origin: Uri = endpoint.uri("https").parse().map_err(|_| unfit())?;
        // TLS is ours (see `Connector`), so tonic gets a plain URI; what the server sees is the https one.
        built
            .origin(origin)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .connect_with_connector(self.connector(endpoint))
            .await
            .map_err(|error| ConnectReason::dig(&error))
    }

    fn connector(&self, endpoint: &Endpoint) -> Connector {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(self.tcp_keepalive));
        tcp.set_keepalive_interval(Some(self.tcp_keepalive));
        // Shared out among the addresses of a name, so that a dead first one does not eat all of it.
        tcp.set_connect_timeout(Some(self.timeout));
        Connector {
            tcp,
            tls: TlsConnector::from(Arc::clone(&self.tls)),
            server_name: endpoint.server_name(),
            timeout: self.timeout,
        }
    }
}

/// Makes the TCP and TLS connection itself, so that each failure keeps its own name.
#[derive(Clone)]
struct Connector {
    tcp: HttpConnector,
    tls: TlsConnector,
    server_name: ServerName<'static>,
    timeout: Duration,
}

type Connected = TokioIo<TlsStream<TcpStream>>;

impl Service<Uri> for Connector {
    type Response = Connected;
    type Error = ConnectFailure;
    type Future = Pin<Box<dyn Future<Output = Result<Connected, ConnectFailure>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), ConnectFailure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect(uri).await.map(TokioIo::new).map_err(ConnectFailure) })
    }
}

impl Connector {
    async fn connect(mut self, uri: Uri) -> Result<TlsStream<TcpStream>, ConnectReason> {
        let deadline = Instant::now() + self.timeout;
        let tcp = match timeout_at(deadline, self.tcp.call(uri)).await {
            Ok(Ok(tcp)) => tcp.into_inner(),
            Ok(Err(error)) => return Err(self.tcp_reason(&error)),
            Err(_) => return Err(ConnectReason::ConnectTimeout(self.timeout)),
        };
        let mut stream = match timeout_at(deadline, self.tls.connect(self.server_name.clone(), tcp)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(ConnectReason::dig(&error)),
            Err(_) => return Err(ConnectReason::HandshakeTimeout(self.timeout)),
        };
        if stream.get_ref().1.alpn_protocol() != Some(tls::ALPN) {
            return Err(ConnectReason::NotHttp2);
        }
        // Looks at the first byte without taking it.
        match timeout(FIRST_BYTE_WAIT.min(self.timeout), stream.fill_buf()).await {
            Ok(Ok([])) => Err(ConnectReason::ClosedAfterHandshake),
            Ok(Ok(_)) | Err(_) => Ok(stream),
            Ok(Err(error)) => Err(match ConnectReason::dig(&error) {
                // The alert can get lost behind a reset; what is left still says that the certificate did not please.
                ConnectReason::Reset => ConnectReason::ClosedAfterHandshake,
                reason => reason,
            }),
        }
    }

    /// DNS and TCP failures share one error type, told apart by its text.
    fn tcp_reason(&self, error: &(dyn std::error::Error + 'static)) -> ConnectReason {
        if error.to_string().contains("dns") {
            let detail = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
            return ConnectReason::Dns(detail);
        }
        let mut next = Some(error);
        while let Some(error) = next {
            let io = error.downcast_ref::<std::io::Error>();
            if io.is_some_and(|io| io.kind() == std::io::ErrorKind::TimedOut) {
                return ConnectReason::ConnectTimeout(self.timeout);
            }
            next = error.source();
        }
        ConnectReason::dig(error)
    }
}
