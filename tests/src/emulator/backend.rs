//! Where an emulated node gets its database from.

use std::path::PathBuf;
use std::time::Duration;

use bronzenail_proto::machine::{EtcdMember, EtcdMemberAlarm, EtcdMemberStatus};
use bytes::{Bytes, BytesMut};
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

use crate::etcd::api::cluster_client::ClusterClient;
use crate::etcd::api::maintenance_client::MaintenanceClient;
use crate::etcd::api::{
    AlarmRequest, MemberListRequest, SnapshotRequest, SnapshotResponse, StatusRequest, StatusResponse,
};

const FILE_READ_BYTES: usize = 64 * 1024;

/// The database behind a node.
#[derive(Clone, Debug)]
pub enum Backend {
    /// These bytes, as they are.
    Bytes(Bytes),
    /// A file, read as it is sent.
    File(PathBuf),
    /// A real etcd at this client URL, such as `http://127.0.0.1:2379`.
    Etcd(String),
}

/// A snapshot that is being read.
pub(super) enum Source {
    Bytes(Option<Bytes>),
    File(File),
    Etcd(Streaming<SnapshotResponse>),
}

impl Source {
    /// The next piece, of any size. A read error ends the source like its end does: Talos swallows it too.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        match self {
            Self::Bytes(bytes) => bytes.take(),
            Self::File(file) => {
                let mut buffer = BytesMut::with_capacity(FILE_READ_BYTES);
                let read = file.read_buf(&mut buffer).await.ok()?;
                (read > 0).then(|| buffer.freeze())
            }
            Self::Etcd(stream) => Some(stream.message().await.ok()??.blob),
        }
    }
}

impl Backend {
    /// Begins a snapshot. Waits for etcd for as long as it takes, as Talos does.
    pub(super) async fn snapshot(&self) -> Result<Source, Status> {
        match self {
            Self::Bytes(bytes) => Ok(Source::Bytes(Some(bytes.clone()))),
            Self::File(path) => match File::open(path).await {
                Ok(file) => Ok(Source::File(file)),
                Err(error) => Err(Status::internal(format!("the lab cannot open {}: {error}", path.display()))),
            },
            Self::Etcd(url) => {
                let stream = wait_for_ready(url, |channel| async move {
                    MaintenanceClient::new(channel).snapshot(SnapshotRequest {}).await
                });
                Ok(Source::Etcd(stream.await?.into_inner()))
            }
        }
    }

    /// The member's status, if there is a real etcd to ask.
    pub(super) async fn status(&self) -> Option<Result<EtcdMemberStatus, Status>> {
        let Self::Etcd(url) = self else { return None };
        let status =
            wait_for_ready(
                url,
                |channel| async move { MaintenanceClient::new(channel).status(StatusRequest {}).await },
            );
        Some(status.await.map(|response| member_status(response.into_inner())))
    }

    pub(super) async fn members(&self) -> Option<Result<Vec<EtcdMember>, Status>> {
        let Self::Etcd(url) = self else { return None };
        let members = wait_for_ready(url, |channel| async move {
            ClusterClient::new(channel).member_list(MemberListRequest { linearizable: true }).await
        });
        Some(members.await.map(|response| {
            let members = response.into_inner().members.into_iter();
            members
                .map(|member| EtcdMember {
                    id: member.id,
                    hostname: member.name,
                    peer_urls: member.peer_ur_ls,
                    client_urls: member.client_ur_ls,
                    is_learner: member.is_learner,
                })
                .collect()
        }))
    }

    pub(super) async fn alarms(&self) -> Option<Result<Vec<EtcdMemberAlarm>, Status>> {
        let Self::Etcd(url) = self else { return None };
        let alarms = wait_for_ready(url, |channel| async move {
            MaintenanceClient::new(channel).alarm(AlarmRequest::default()).await
        });
        Some(alarms.await.map(|response| {
            let alarms = response.into_inner().alarms.into_iter();
            alarms.map(|alarm| EtcdMemberAlarm { member_id: alarm.member_id, alarm: alarm.alarm }).collect()
        }))
    }
}

fn member_status(status: StatusResponse) -> EtcdMemberStatus {
    EtcdMemberStatus {
        protocol_version: status.version,
        db_size: status.db_size,
        db_size_in_use: status.db_size_in_use,
        leader: status.leader,
        raft_index: status.raft_index,
        raft_term: status.raft_term,
        raft_applied_index: status.raft_applied_index,
        errors: status.errors,
        is_learner: status.is_learner,
        member_id: status.header.map(|header| header.member_id).unwrap_or_default(),
        storage_version: status.storage_version,
    }
}

/// etcd's Go client is lazy and waits until etcd is there: only the caller's deadline ends it.
async fn wait_for_ready<T, F, R>(url: &str, call: F) -> Result<T, Status>
where
    F: Fn(Channel) -> R,
    R: Future<Output = Result<T, Status>>,
{
    let endpoint = Endpoint::from_shared(url.to_owned())
        .map_err(|error| Status::internal(format!("the lab's etcd URL {url:?} is not one: {error}")))?
        // Small windows keep etcd from being far ahead of what the client has received.
        .initial_stream_window_size(65_535)
        .initial_connection_window_size(65_535);
    loop {
        match call(endpoint.connect_lazy()).await {
            Err(status) if status.code() == Code::Unavailable => tokio::time::sleep(Duration::from_millis(100)).await,
            answer => return answer,
        }
    }
}
