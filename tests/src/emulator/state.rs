//! What an emulator knows and remembers while it runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bronzenail_proto::machine::{EtcdMember, EtcdMemberAlarm, EtcdMemberStatus};
use tonic::{Request, Status};

use super::backend::Backend;
use super::fault::{Faults, Refusal};
use super::roles::{TalosVersion, allowed};
use super::target::{self, Target};
use super::wire::{Breaker, Peer};

/// One emulated control-plane node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The address under which the `node` header names it.
    pub address: String,
    /// Its host name, which names it too.
    pub hostname: String,
    /// Whether it is a worker: it forwards nothing, and has no etcd.
    pub is_worker: bool,
    /// Its database.
    pub backend: Backend,
    /// What it says about its member. With a real etcd only `is_learner` and `errors` count, and only when set.
    pub status: EtcdMemberStatus,
    /// The alarms that it reports, when no real etcd is behind it.
    pub alarms: Vec<EtcdMemberAlarm>,
}

impl NodeOptions {
    /// A healthy node. Its member id is made from the address.
    pub fn new(address: &str, backend: Backend) -> Self {
        let member_id = address.bytes().fold(0x00b0_0b1e_u64, |id, byte| id.rotate_left(7) ^ u64::from(byte));
        let db_size = match &backend {
            Backend::Bytes(bytes) => bytes.len().saturating_sub(32) as i64,
            Backend::File(path) => std::fs::metadata(path).map_or(0, |found| found.len().saturating_sub(32) as i64),
            Backend::Etcd(_) => 0,
        };
        let status = EtcdMemberStatus {
            protocol_version: "3.6.1".to_owned(),
            storage_version: "3.6.0".to_owned(),
            db_size,
            db_size_in_use: db_size,
            leader: member_id,
            raft_index: 1000,
            raft_term: 3,
            raft_applied_index: 1000,
            member_id,
            ..Default::default()
        };
        let hostname = format!("node-{}", address.replace(['.', ':'], "-"));
        Self { address: address.to_owned(), hostname, is_worker: false, backend, status, alarms: Vec::new() }
    }
}

/// A call as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Such as `EtcdSnapshot`.
    pub method: &'static str,
    /// The values of the `node` header, joined by a comma; `None` without the header.
    pub node: Option<String>,
    /// The values of the `nodes` header.
    pub nodes: Vec<String>,
    /// The caller's roles, from its certificate.
    pub roles: Vec<String>,
    /// Bytes of the database that were given to the transport.
    pub bytes_sent: u64,
    /// Whether the call is over, by whatever end.
    pub ended: bool,
}

/// The parts of a call that change while it runs.
#[derive(Clone, Default)]
pub(super) struct Running {
    pub(super) sent_bytes: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

/// Says that a call has ended, when it is dropped.
pub(super) struct EndNote(Running);

impl Drop for EndNote {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
    }
}

pub(super) struct State {
    pub(super) version: TalosVersion,
    pub(super) nodes: Vec<NodeOptions>,
    faults: Mutex<Faults>,
    calls: Mutex<Vec<(Call, Running)>>,
    breakers: Mutex<Vec<Weak<Breaker>>>,
}

/// A call that was let in.
pub(super) struct Admitted {
    pub(super) target: Target,
    pub(super) running: Running,
    pub(super) note: EndNote,
    pub(super) breaker: Arc<Breaker>,
}

impl State {
    pub(super) fn new(version: TalosVersion, nodes: Vec<NodeOptions>, pace_bytes_per_second: Option<u64>) -> Self {
        let faults = Faults { pace_bytes_per_second, ..Faults::default() };
        Self { version, nodes, faults: Mutex::new(faults), calls: Mutex::default(), breakers: Mutex::default() }
    }

    pub(super) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let now = |(call, running): &(Call, Running)| {
            let bytes_sent = running.sent_bytes.load(Ordering::SeqCst);
            Call { bytes_sent, ended: running.ended.load(Ordering::SeqCst), ..call.clone() }
        };
        calls.iter().map(now).collect()
    }

    pub(super) fn remember(&self, breaker: &Arc<Breaker>) {
        let mut breakers = self.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        breakers.retain(|breaker| breaker.strong_count() > 0);
        breakers.push(Arc::downgrade(breaker));
    }

    pub(super) fn reset_connections(&self) {
        let breakers = std::mem::take(&mut *self.breakers.lock().unwrap_or_else(PoisonError::into_inner));
        breakers.iter().filter_map(Weak::upgrade).for_each(|breaker| breaker.reset());
    }

    /// Notes a call, routes it, asks for the role: in the order of a node, where the target's own machined decides.
    pub(super) async fn admit<T>(&self, method: &'static str, request: &Request<T>) -> Result<Admitted, Status> {
        let peer = request.extensions().get::<Peer>().cloned();
        let Some(Peer { roles, breaker }) = peer else {
            return Err(Status::internal("the lab has lost its peer"));
        };
        let node = target::values(request.metadata(), "node");
        let running = Running::default();
        let call = Call {
            method,
            node: (!node.is_empty()).then(|| node.join(",")),
            nodes: target::values(request.metadata(), "nodes"),
            roles: roles.to_vec(),
            bytes_sent: 0,
            ended: false,
        };
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push((call, running.clone()));
        let note = EndNote(running.clone());
        let target = target::read(request.metadata())?;
        self.forwards(&target)?;
        if let Target::One(name) = &target {
            self.node(name)?;
        }
        // Under `nodes` a refusal of the role is in-band at a real node; here it is the call's own, which no client of
        // ours tells apart.
        if !allowed(method, &roles, self.version) {
            return Err(Status::permission_denied("not authorized"));
        }
        self.has_etcd(method, &target)?;
        let refusal = self.faults().refusals.get(method).cloned();
        match refusal {
            Some(Refusal::Status(code, message)) => Err(Status::new(code, message)),
            Some(Refusal::Hang) => std::future::pending().await,
            None => Ok(Admitted { target, running, note, breaker }),
        }
    }

    /// A worker has no client certificate to forward with, except to itself.
    fn forwards(&self, target: &Target) -> Result<(), Status> {
        let Some(here) = self.nodes.first().filter(|node| node.is_worker) else { return Ok(()) };
        let elsewhere = |name: &String| here.address != *name && here.hostname != *name;
        let refused = match target {
            Target::Here => false,
            Target::One(name) => elsewhere(name),
            Target::Many(names) => names.iter().any(elsewhere),
        };
        if refused { Err(Status::permission_denied("no request forwarding")) } else { Ok(()) }
    }

    /// The gate of every call about etcd; the same code as for a call that an old node does not know.
    fn has_etcd(&self, method: &str, target: &Target) -> Result<(), Status> {
        let api = match method {
            "EtcdSnapshot" => "etcd snapshot",
            "EtcdStatus" => "etcd status",
            "EtcdMemberList" => "member list",
            "EtcdAlarmList" => "etcd alarm list",
            _ => return Ok(()),
        };
        let node = match target {
            Target::Here => self.nodes.first(),
            Target::One(name) => self.node(name).ok(),
            Target::Many(_) => None,
        };
        match node.is_some_and(|node| node.is_worker) {
            true => Err(Status::unimplemented(format!("{api} is only available on control plane nodes"))),
            false => Ok(()),
        }
    }

    pub(super) fn node(&self, name: &str) -> Result<&NodeOptions, Status> {
        let found = self.nodes.iter().find(|node| node.address == name || node.hostname == name);
        found.ok_or_else(|| {
            let reason = format!("dial tcp {name}:50000: connect: no route to host");
            Status::unavailable(format!("connection error: desc = \"transport: Error while dialing: {reason}\""))
        })
    }

    /// The nodes of a call, each with the host name to write into its answers, if any.
    pub(super) fn targets(&self, target: &Target) -> Vec<(Option<String>, Result<&NodeOptions, Status>)> {
        match target {
            Target::Here => vec![(None, self.nodes.first().ok_or_else(|| Status::internal("the lab has no node")))],
            Target::One(name) => vec![(None, self.node(name))],
            Target::Many(names) => names.iter().map(|name| (Some(name.clone()), self.node(name))).collect(),
        }
    }

    pub(super) async fn status(&self, node: &NodeOptions) -> Result<EtcdMemberStatus, Status> {
        let Some(status) = node.backend.status().await else {
            return Ok(node.status.clone());
        };
        let mut status = status?;
        status.is_learner |= node.status.is_learner;
        status.errors.extend(node.status.errors.iter().cloned());
        Ok(status)
    }

    pub(super) async fn members(&self, node: &NodeOptions) -> Result<Vec<EtcdMember>, Status> {
        let Some(members) = node.backend.members().await else {
            return Ok(self.nodes.iter().map(invented_member).collect());
        };
        let mut members = members?;
        for member in &mut members {
            let node = self.nodes.iter().find(
                |node| matches!(&node.backend, Backend::Etcd(url) if member.client_urls.iter().any(|known| known == url)),
            );
            if let Some(node) = node {
                *member = EtcdMember { id: member.id, is_learner: member.is_learner, ..invented_member(node) };
            }
        }
        Ok(members)
    }

    pub(super) async fn alarms(&self, node: &NodeOptions) -> Result<Vec<EtcdMemberAlarm>, Status> {
        match node.backend.alarms().await {
            Some(alarms) => alarms,
            None => Ok(node.alarms.clone()),
        }
    }
}

fn invented_member(node: &NodeOptions) -> EtcdMember {
    let host = if node.address.contains(':') { format!("[{}]", node.address) } else { node.address.clone() };
    EtcdMember {
        id: node.status.member_id,
        hostname: node.hostname.clone(),
        peer_urls: vec![format!("https://{host}:2380")],
        client_urls: vec![format!("https://{host}:2379")],
        is_learner: node.status.is_learner,
    }
}
