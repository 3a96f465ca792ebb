//! A small Talos API over mutual TLS: enough to prove what this crate does on the wire.
//!
//! The whole-system tests have a full emulator before a real etcd; this one only plays scripts.

#![allow(dead_code, clippy::unwrap_used, missing_docs, reason = "shared by several test programs")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bronzenail_proto::common::{Data, Metadata, RpcStatus};
use bronzenail_proto::machine::machine_service_server::{MachineService, MachineServiceServer};
use bronzenail_proto::machine::*;
use bronzenail_talos::{Client, ConnectOptions, Context, TalosConfig};
use chrono::Utc;
use futures::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Code, Request, Response, Status, Streaming};

use crate::pki::{self, Credentials, Pki};

/// What the fake does in a snapshot, one after the other.
#[derive(Clone)]
pub enum Step {
    /// Sends these bytes in messages of 1 KiB, as Talos does.
    Data(Vec<u8>),
    /// An error inside a message, on a call that ends OK.
    InBand(&'static str, Code),
    /// Ends with this status.
    Fail(Code, &'static str),
    /// Sends nothing more and does not end.
    Hang,
    /// Sends empty messages without end.
    Empties,
}

/// What the fake answers. Keys are values of the `node` header; `""` is no header.
#[derive(Clone, Default)]
pub struct Script {
    pub snapshot: Vec<Step>,
    /// The snapshot's reply does not even begin.
    pub snapshot_hangs: bool,
    pub statuses: HashMap<String, EtcdMemberStatus>,
    pub members: Vec<EtcdMember>,
    pub alarms: Vec<EtcdMemberAlarm>,
    /// Fails a method with a status, or hangs it.
    pub refusals: HashMap<&'static str, (Code, &'static str)>,
    pub hangs: Vec<&'static str>,
    /// Answers a method with an error inside the message.
    pub in_band: HashMap<&'static str, (Code, &'static str)>,
}

/// One call as it arrived: method, `node`, whether there was a `nodes` header, and the deadline on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub method: &'static str,
    pub node: Option<String>,
    pub nodes_header: bool,
    pub wire_deadline: bool,
}

#[derive(Clone)]
pub struct Fake {
    script: Arc<Script>,
    pub seen: Arc<Mutex<Vec<Seen>>>,
}

/// A running fake.
pub struct Running {
    pub address: SocketAddr,
    pub fake: Fake,
}

impl Running {
    pub fn endpoint(&self) -> String {
        self.address.to_string()
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.fake.seen.lock().unwrap().clone()
    }
}

/// Starts a fake on a free port of 127.0.0.1.
pub async fn start(pki: &Pki, script: Script) -> Running {
    start_with("127.0.0.1:0", &pki.server(&["127.0.0.1", "localhost", "::1"]), &pki.ca_pem(), script).await.unwrap()
}

/// Starts a fake with that server certificate, which accepts clients of that CA.
pub async fn start_with(
    address: &str,
    server: &Credentials,
    client_ca: &str,
    script: Script,
) -> std::io::Result<Running> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let fake = Fake { script: Arc::new(script), seen: Arc::default() };
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(&server.certificate_pem, &server.key_pem))
        .client_ca_root(Certificate::from_pem(client_ca));
    let serve = Server::builder()
        .tls_config(tls)
        .unwrap()
        .add_service(MachineServiceServer::new(fake.clone()))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(serve);
    Ok(Running { address, fake })
}

/// What a proxy does once it has passed on that many bytes of answers.
#[derive(Clone, Copy, Debug)]
pub enum Then {
    /// Closes both connections.
    Close,
    /// Resets the connection to the client.
    Reset,
    /// Passes on nothing more, without a FIN: the peer is gone.
    Freeze,
}

/// A TCP proxy before the fake, which breaks the first connection.
pub async fn proxy(to: SocketAddr, after_bytes: usize, then: Then) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (near, _) = listener.accept().await.unwrap();
        let far = TcpStream::connect(to).await.unwrap();
        if matches!(then, Then::Reset) {
            near.set_zero_linger().unwrap();
        }
        let (mut near_read, mut near_write) = near.into_split();
        let (mut far_read, mut far_write) = far.into_split();
        let up = tokio::spawn(async move { tokio::io::copy(&mut near_read, &mut far_write).await.map(|_| near_read) });
        let (mut passed, mut buffer) = (0, vec![0; 16 * 1024]);
        while passed < after_bytes {
            let read = far_read.read(&mut buffer).await.unwrap();
            near_write.write_all(&buffer[..read]).await.unwrap();
            passed += read;
        }
        match then {
            Then::Freeze => std::future::pending::<()>().await,
            Then::Close | Then::Reset => up.abort(),
        }
    });
    address
}

/// A context for a client of that cluster.
pub fn context(pki: &Pki, endpoints: &[String]) -> Context {
    context_with(&pki.ca_pem(), &pki.client(&pki::Client::at(Utc::now())), endpoints)
}

pub fn context_with(ca_pem: &str, client: &Credentials, endpoints: &[String]) -> Context {
    TalosConfig::parse(&pki::talosconfig(ca_pem, client, endpoints), "test").unwrap().context(None).unwrap()
}

pub fn options() -> ConnectOptions {
    let mut options = ConnectOptions::new(Utc::now());
    options.connect_timeout = Duration::from_secs(5);
    options
}

pub async fn connect(pki: &Pki, running: &Running) -> Client {
    Client::connect(&context(pki, &[running.endpoint()]), &options()).await.unwrap()
}

impl Fake {
    async fn note<T>(&self, method: &'static str, request: &Request<T>) -> Result<String, Status> {
        let text = |name: &str| request.metadata().get(name).map(|value| value.to_str().unwrap().to_owned());
        let node = text("node");
        self.seen.lock().unwrap().push(Seen {
            method,
            node: node.clone(),
            nodes_header: text("nodes").is_some(),
            wire_deadline: text("grpc-timeout").is_some(),
        });
        if self.script.hangs.contains(&method) {
            std::future::pending::<()>().await;
        }
        match self.script.refusals.get(method) {
            Some((code, message)) => Err(Status::new(*code, *message)),
            None => Ok(node.unwrap_or_default()),
        }
    }

    fn metadata(&self, method: &'static str) -> Option<Metadata> {
        self.script.in_band.get(method).map(|(code, error)| in_band(error, *code))
    }
}

fn in_band(error: &str, code: Code) -> Metadata {
    let status = Some(RpcStatus { code: code as i32, message: error.to_owned() });
    Metadata { hostname: "10.0.0.1".to_owned(), error: error.to_owned(), status }
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl MachineService for Fake {
    type EtcdSnapshotStream = Answers<Data>;
    type ListStream = Answers<FileInfo>;
    type ReadStream = Answers<Data>;
    type CopyStream = Answers<Data>;

    async fn version(&self, request: Request<()>) -> Result<Response<VersionResponse>, Status> {
        self.note("Version", &request).await?;
        let version = Some(VersionInfo { tag: "v1.13.9".to_owned(), arch: "amd64".to_owned(), ..Default::default() });
        let messages = vec![Version { metadata: self.metadata("Version"), version, ..Default::default() }];
        Ok(Response::new(VersionResponse { messages }))
    }

    async fn etcd_status(&self, request: Request<()>) -> Result<Response<EtcdStatusResponse>, Status> {
        let node = self.note("EtcdStatus", &request).await?;
        let Some(status) = self.script.statuses.get(&node) else {
            return Err(Status::unavailable(format!("no route to {node}")));
        };
        let messages = vec![EtcdStatus { metadata: self.metadata("EtcdStatus"), member_status: Some(status.clone()) }];
        Ok(Response::new(EtcdStatusResponse { messages }))
    }

    async fn etcd_member_list(
        &self,
        request: Request<EtcdMemberListRequest>,
    ) -> Result<Response<EtcdMemberListResponse>, Status> {
        self.note("EtcdMemberList", &request).await?;
        let metadata = self.metadata("EtcdMemberList");
        let messages = vec![EtcdMembers { metadata, legacy_members: vec![], members: self.script.members.clone() }];
        Ok(Response::new(EtcdMemberListResponse { messages }))
    }

    async fn etcd_alarm_list(&self, request: Request<()>) -> Result<Response<EtcdAlarmListResponse>, Status> {
        self.note("EtcdAlarmList", &request).await?;
        let metadata = self.metadata("EtcdAlarmList");
        let messages = vec![EtcdAlarm { metadata, member_alarms: self.script.alarms.clone() }];
        Ok(Response::new(EtcdAlarmListResponse { messages }))
    }

    async fn etcd_snapshot(
        &self,
        request: Request<EtcdSnapshotRequest>,
    ) -> Result<Response<Self::EtcdSnapshotStream>, Status> {
        self.note("EtcdSnapshot", &request).await?;
        if self.script.snapshot_hangs {
            std::future::pending::<()>().await;
        }
        let (sender, receiver) = tokio::sync::mpsc::channel(16);
        let steps = self.script.snapshot.clone();
        tokio::spawn(async move {
            for step in steps {
                play(step, &sender).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn hostname(&self, _: Request<()>) -> Result<Response<HostnameResponse>, Status> {
        Err(Status::unimplemented("not in this fake"))
    }

    async fn service_list(&self, _: Request<()>) -> Result<Response<ServiceListResponse>, Status> {
        Err(Status::unimplemented("not in this fake"))
    }

    async fn etcd_recover(&self, _: Request<Streaming<Data>>) -> Result<Response<EtcdRecoverResponse>, Status> {
        Err(Status::unimplemented("not in this fake"))
    }

    async fn bootstrap(&self, _: Request<BootstrapRequest>) -> Result<Response<BootstrapResponse>, Status> {
        Err(Status::unimplemented("not in this fake"))
    }

    async fn reset(&self, _: Request<ResetRequest>) -> Result<Response<ResetResponse>, Status> {
        Err(Status::unimplemented("not in this fake"))
    }

    async fn list(&self, _: Request<ListRequest>) -> Result<Response<Self::ListStream>, Status> {
        Err(Status::unimplemented("not in this fake"))
    }

    async fn read(&self, _: Request<ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        Err(Status::unimplemented("not in this fake"))
    }

    async fn copy(&self, _: Request<CopyRequest>) -> Result<Response<Self::CopyStream>, Status> {
        Err(Status::unimplemented("not in this fake"))
    }
}

/// Plays one step; a client that has gone ends it.
async fn play(step: Step, sender: &tokio::sync::mpsc::Sender<Result<Data, Status>>) {
    let message = |metadata, bytes: Vec<u8>| Ok(Data { metadata, bytes: bytes.into() });
    match step {
        Step::Data(bytes) => {
            for part in bytes.chunks(1024) {
                let _ = sender.send(message(None, part.to_vec())).await;
            }
        }
        Step::InBand(error, code) => drop(sender.send(message(Some(in_band(error, code)), vec![])).await),
        Step::Fail(code, words) => drop(sender.send(Err(Status::new(code, words))).await),
        Step::Hang => sender.closed().await,
        Step::Empties => {
            while sender.send(message(None, vec![])).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}
