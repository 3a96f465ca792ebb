//! The API of Talos nodes over mutual TLS, before a database of the test's choice.
//!
//! Invariant: nothing here is kinder than a node. A snapshot comes in messages of 1 KiB, a failure of etcd in the middle
//! of it ends with OK, an etcd that is down is waited for without end, and roles and routing headers are judged as
//! apid and machined judge them.

mod backend;
mod fault;
mod pump;
mod roles;
mod service;
mod state;
mod target;
mod tls;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bronzenail_proto::MESSAGE_BYTES_MAX;
use bronzenail_proto::machine::machine_service_server::MachineServiceServer;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;

pub use self::backend::Backend;
pub use self::fault::{Fault, Refusal};
pub use self::pump::MESSAGE_BYTES;
pub use self::roles::TalosVersion;
pub use self::state::{Call, NodeOptions};

use self::service::Service;
use self::state::State;
use self::wire::{Accepted, Breaker, Peer, Wire};
use crate::pki::{self, Authority, ClientSubject, Credentials};

/// The name of the context in [`Emulator::talosconfig`].
pub const CONTEXT: &str = "lab";

const WINDOW_UNIT_BYTES: u32 = 65_535;

/// How an emulator begins.
pub struct EmulatorOptions {
    /// The nodes; the first is the one that clients connect to.
    pub nodes: Vec<NodeOptions>,
    /// The version of Talos, which decides who may ask what.
    pub version: TalosVersion,
    /// The cluster's certificate authority.
    pub authority: Arc<Authority>,
    /// Names and addresses in the server's certificate.
    pub server_names: Vec<String>,
    /// Where it listens.
    pub listen: SocketAddr,
    /// How fast snapshots are sent, if not as fast as they can be.
    pub pace_bytes_per_second: Option<u64>,
}

impl EmulatorOptions {
    /// One node, `10.0.0.1`, with that database.
    pub fn new(backend: Backend) -> Self {
        Self::of_nodes(vec![NodeOptions::new("10.0.0.1", backend)])
    }

    /// Several nodes behind the first one.
    pub fn of_nodes(nodes: Vec<NodeOptions>) -> Self {
        Self {
            nodes,
            version: TalosVersion(1, 13, 9),
            authority: Arc::new(Authority::new()),
            server_names: ["127.0.0.1", "::1", "localhost"].map(str::to_owned).to_vec(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            pace_bytes_per_second: None,
        }
    }
}

/// A running emulator. Dropping it resets its connections and frees its port.
pub struct Emulator {
    state: Arc<State>,
    authority: Arc<Authority>,
    address: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
}

impl Emulator {
    /// Starts listening.
    pub async fn start(options: EmulatorOptions) -> io::Result<Self> {
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        let names: Vec<&str> = options.server_names.iter().map(String::as_str).collect();
        let server = options.authority.server(&names);
        let tls = tls::server_config(&server, &options.authority.certificate_der());
        let state = Arc::new(State::new(options.version, options.nodes, options.pace_bytes_per_second));
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let service = MachineServiceServer::new(Service(state.clone()))
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let serve = Server::builder()
            .initial_stream_window_size(WINDOW_UNIT_BYTES * 32)
            .initial_connection_window_size(WINDOW_UNIT_BYTES * 16)
            .add_service(service)
            .serve_with_incoming(ReceiverStream::new(receiver));
        let serve = tokio::spawn(async move {
            if let Err(error) = serve.await {
                tracing::error!(%error, "the emulator has stopped serving");
            }
        });
        let accept = tokio::spawn(accept(listener, tls, state.clone(), sender));
        Ok(Self { state, authority: options.authority, address, tasks: vec![serve, accept] })
    }

    /// Where it listens, as `127.0.0.1:port`.
    pub fn endpoint(&self) -> String {
        self.address.to_string()
    }

    /// The cluster's authority, to make other certificates with.
    pub fn authority(&self) -> &Arc<Authority> {
        &self.authority
    }

    /// A talosconfig for a client with these roles.
    pub fn talosconfig(&self, roles: &[&str]) -> String {
        self.talosconfig_for(&self.authority.client(&ClientSubject::new(roles)))
    }

    /// A talosconfig with these credentials.
    pub fn talosconfig_for(&self, client: &Credentials) -> String {
        pki::talosconfig(CONTEXT, &[self.endpoint()], &self.authority.certificate_pem(), Some(client))
    }

    /// The calls that have arrived, oldest first.
    pub fn calls(&self) -> Vec<Call> {
        self.state.calls()
    }

    /// Gives this fault to every snapshot that begins from now on.
    pub fn set(&self, fault: Fault) {
        self.state.faults().always = Some(fault);
    }

    /// Gives this fault to one snapshot call; the first since the start is 1.
    pub fn set_nth(&self, snapshot_call: u64, fault: Fault) {
        self.state.faults().nth.insert(snapshot_call, fault);
    }

    /// Refuses or hangs a method, such as `EtcdStatus`.
    pub fn refuse(&self, method: &str, refusal: Refusal) {
        self.state.faults().refusals.insert(method.to_owned(), refusal);
    }

    /// How fast snapshots that begin from now on are sent.
    pub fn set_pace(&self, bytes_per_second: Option<u64>) {
        self.state.faults().pace_bytes_per_second = bytes_per_second;
    }

    /// Takes all faults, refusals and the pace away.
    pub fn heal(&self) {
        let mut faults = self.state.faults();
        faults.always = None;
        faults.nth.clear();
        faults.refusals.clear();
        faults.pace_bytes_per_second = None;
    }

    /// Resets every connection that is open.
    pub fn reset_connections(&self) {
        self.state.reset_connections();
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.state.reset_connections();
    }
}

async fn accept(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    state: Arc<State>,
    sender: Sender<io::Result<Accepted>>,
) {
    let acceptor = TlsAcceptor::from(tls);
    loop {
        let Ok((tcp, _)) = listener.accept().await else { continue };
        let (acceptor, state, sender) = (acceptor.clone(), state.clone(), sender.clone());
        tokio::spawn(async move {
            match shake_hands(tcp, &acceptor, &state).await {
                Ok(accepted) => drop(sender.send(Ok(accepted)).await),
                Err(error) => tracing::debug!(%error, "a client was refused"),
            }
        });
    }
}

async fn shake_hands(tcp: TcpStream, acceptor: &TlsAcceptor, state: &State) -> io::Result<Accepted> {
    tcp.set_nodelay(true)?;
    let breaker = Arc::new(Breaker::default());
    state.remember(&breaker);
    let tls = acceptor.accept(Wire::new(tcp, breaker.clone())).await?;
    let (_, session) = tls.get_ref();
    // grpc-go refuses a connection without ALPN.
    if session.alpn_protocol() != Some(b"h2") {
        return Err(io::Error::other("the client did not agree on h2"));
    }
    let leaf = session.peer_certificates().and_then(<[_]>::first);
    let roles = leaf.map(tls::roles).unwrap_or_default().into();
    Ok(Accepted { tls, peer: Peer { roles, breaker } })
}
