//! The machine service of the emulated nodes.

use std::pin::Pin;
use std::sync::Arc;

use bronzenail_proto::common::{Data, Metadata};
use bronzenail_proto::machine::machine_service_server::MachineService;
use bronzenail_proto::machine::*;
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::pump::{Pump, in_band};
use super::state::{Admitted, NodeOptions, State};

const QUEUED_MESSAGES: usize = 16;

#[derive(Clone)]
pub(super) struct Service(pub(super) Arc<State>);

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Service {
    /// Asks each node of the call. With `nodes`, an error is a message with metadata only.
    async fn each<T>(
        &self,
        admitted: &Admitted,
        ask: impl AsyncFn(&State, &NodeOptions) -> Result<T, Status>,
        failed: impl Fn(Metadata) -> T,
        mark: impl Fn(&mut T, Metadata),
    ) -> Result<Vec<T>, Status> {
        let mut messages = Vec::new();
        for (hostname, node) in self.0.targets(&admitted.target) {
            let answer = match node {
                Ok(node) => ask(&self.0, node).await,
                Err(status) => Err(status),
            };
            messages.push(match (hostname, answer) {
                (None, answer) => answer?,
                (Some(hostname), Ok(mut message)) => {
                    mark(&mut message, Metadata { hostname, error: String::new(), status: None });
                    message
                }
                (Some(hostname), Err(status)) => failed(in_band(&hostname, &status)),
            });
        }
        Ok(messages)
    }

    /// Notes a call that only an operator of a recovery makes.
    async fn not_here<T, R>(&self, method: &'static str, request: &Request<T>) -> Result<Response<R>, Status> {
        self.0.admit(method, request).await?;
        Err(Status::unimplemented(format!(
            "the lab's emulator has no {method}: it stands for backups, not for recovery"
        )))
    }
}

#[tonic::async_trait]
impl MachineService for Service {
    type EtcdSnapshotStream = Answers<Data>;
    type ListStream = Answers<FileInfo>;
    type ReadStream = Answers<Data>;
    type CopyStream = Answers<Data>;

    async fn version(&self, request: Request<()>) -> Result<Response<VersionResponse>, Status> {
        let admitted = self.0.admit("Version", &request).await?;
        let ask = async |state: &State, _: &NodeOptions| {
            let tag = state.version.to_string();
            let version =
                VersionInfo { tag, os: "linux".to_owned(), arch: "amd64".to_owned(), ..VersionInfo::default() };
            let platform = Some(PlatformInfo { name: "metal".to_owned(), mode: "metal".to_owned() });
            let features = Some(FeaturesInfo { rbac: true });
            Ok(Version { metadata: None, version: Some(version), platform, features })
        };
        let failed = |metadata| Version { metadata: Some(metadata), ..Version::default() };
        let messages = self.each(&admitted, ask, failed, |message, metadata| message.metadata = Some(metadata)).await?;
        Ok(Response::new(VersionResponse { messages }))
    }

    async fn hostname(&self, request: Request<()>) -> Result<Response<HostnameResponse>, Status> {
        let admitted = self.0.admit("Hostname", &request).await?;
        let ask =
            async |_: &State, node: &NodeOptions| Ok(Hostname { metadata: None, hostname: node.hostname.clone() });
        let failed = |metadata| Hostname { metadata: Some(metadata), ..Hostname::default() };
        let messages = self.each(&admitted, ask, failed, |message, metadata| message.metadata = Some(metadata)).await?;
        Ok(Response::new(HostnameResponse { messages }))
    }

    async fn etcd_status(&self, request: Request<()>) -> Result<Response<EtcdStatusResponse>, Status> {
        let admitted = self.0.admit("EtcdStatus", &request).await?;
        let ask = async |state: &State, node: &NodeOptions| {
            Ok(EtcdStatus { metadata: None, member_status: Some(state.status(node).await?) })
        };
        let failed = |metadata| EtcdStatus { metadata: Some(metadata), ..EtcdStatus::default() };
        let messages = self.each(&admitted, ask, failed, |message, metadata| message.metadata = Some(metadata)).await?;
        Ok(Response::new(EtcdStatusResponse { messages }))
    }

    async fn etcd_member_list(
        &self,
        request: Request<EtcdMemberListRequest>,
    ) -> Result<Response<EtcdMemberListResponse>, Status> {
        let admitted = self.0.admit("EtcdMemberList", &request).await?;
        let ask = async |state: &State, node: &NodeOptions| {
            Ok(EtcdMembers { metadata: None, legacy_members: Vec::new(), members: state.members(node).await? })
        };
        let failed = |metadata| EtcdMembers { metadata: Some(metadata), ..EtcdMembers::default() };
        let messages = self.each(&admitted, ask, failed, |message, metadata| message.metadata = Some(metadata)).await?;
        Ok(Response::new(EtcdMemberListResponse { messages }))
    }

    async fn etcd_alarm_list(&self, request: Request<()>) -> Result<Response<EtcdAlarmListResponse>, Status> {
        let admitted = self.0.admit("EtcdAlarmList", &request).await?;
        let ask = async |state: &State, node: &NodeOptions| {
            Ok(EtcdAlarm { metadata: None, member_alarms: state.alarms(node).await? })
        };
        let failed = |metadata| EtcdAlarm { metadata: Some(metadata), ..EtcdAlarm::default() };
        let messages = self.each(&admitted, ask, failed, |message, metadata| message.metadata = Some(metadata)).await?;
        Ok(Response::new(EtcdAlarmListResponse { messages }))
    }

    async fn etcd_snapshot(
        &self,
        request: Request<EtcdSnapshotRequest>,
    ) -> Result<Response<Self::EtcdSnapshotStream>, Status> {
        let Admitted { target, running, note, breaker } = self.0.admit("EtcdSnapshot", &request).await?;
        let (fault, pace_bytes_per_second) = {
            let mut faults = self.0.faults();
            (faults.next(), faults.pace_bytes_per_second)
        };
        let (sender, mut receiver) = mpsc::channel(QUEUED_MESSAGES);
        // With `nodes`, every node pumps into the one stream: interleaved, as a proxying node really does it.
        for (hostname, node) in self.0.targets(&target) {
            let node = match (node, &hostname) {
                (Ok(node), _) => node,
                (Err(status), None) => return Err(status),
                (Err(status), Some(hostname)) => {
                    let metadata = Some(in_band(hostname, &status));
                    // There is room: more nodes than the queue has places are not emulated.
                    let _ = sender.try_send(Ok(Data { metadata, ..Data::default() }));
                    continue;
                }
            };
            let pump = Pump {
                backend: node.backend.clone(),
                fault: fault.clone(),
                pace_bytes_per_second,
                hostname,
                sender: sender.clone(),
                sent_bytes: running.sent_bytes.clone(),
                breaker: breaker.clone(),
            };
            tokio::spawn(pump.run());
        }
        drop(sender);
        // A Go server sends its headers with the first message: until then the client sees nothing at all.
        let first = match receiver.recv().await {
            Some(Err(status)) => return Err(status),
            first => first,
        };
        let stream = futures::stream::iter(first).chain(ReceiverStream::new(receiver)).map(move |item| {
            let _held_until_the_stream_is_dropped = &note;
            item
        });
        Ok(Response::new(Box::pin(stream)))
    }

    async fn service_list(&self, request: Request<()>) -> Result<Response<ServiceListResponse>, Status> {
        self.not_here("ServiceList", &request).await
    }

    async fn etcd_recover(&self, request: Request<Streaming<Data>>) -> Result<Response<EtcdRecoverResponse>, Status> {
        self.not_here("EtcdRecover", &request).await
    }

    async fn bootstrap(&self, request: Request<BootstrapRequest>) -> Result<Response<BootstrapResponse>, Status> {
        self.not_here("Bootstrap", &request).await
    }

    async fn reset(&self, request: Request<ResetRequest>) -> Result<Response<ResetResponse>, Status> {
        self.not_here("Reset", &request).await
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<Self::ListStream>, Status> {
        self.not_here("List", &request).await
    }

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        self.not_here("Read", &request).await
    }

    async fn copy(&self, request: Request<CopyRequest>) -> Result<Response<Self::CopyStream>, Status> {
        self.not_here("Copy", &request).await
    }
}
