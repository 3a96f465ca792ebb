//! What the lab asks of an etcd and writes into it.

use bytes::Bytes;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use super::EtcdError;
use super::api::kv_client::KvClient;
use super::api::maintenance_client::MaintenanceClient;
use super::api::request_op::Request as Op;
use super::api::{
    CompactionRequest, DeleteRangeRequest, HashKvRequest, HashKvResponse, PutRequest, RangeRequest, RequestOp,
    SnapshotRequest, StatusRequest, StatusResponse, TxnRequest,
};

/// Bytes of values in one transaction: etcd's own messages stay well under its limits.
const BATCH_BYTES: usize = 1024 * 1024;
const BATCH_OPS: usize = 1000;
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A client of one etcd member.
#[derive(Clone)]
pub struct Client {
    channel: Channel,
}

/// What [`Client::fill`] has left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Keys that are alive.
    pub live_keys: u64,
    /// Revision of the last write.
    pub revision: i64,
    /// Revision up to which the history is compacted.
    pub compact_revision: i64,
}

impl Client {
    pub(super) fn new(client_url: &str) -> Self {
        let endpoint = Endpoint::from_shared(client_url.to_owned()).expect("the lab writes its URLs itself");
        Self { channel: endpoint.connect_lazy() }
    }

    /// Whether a linearizable read is answered, which takes a leader.
    pub(super) async fn is_healthy(&self) -> bool {
        self.count(b"health").await.is_ok()
    }

    /// Writes `keys` keys under `/registry/lab/`, updates every third, deletes every tenth, and compacts up to the
    /// updates. Values do not compress: each is its own noise.
    pub async fn fill(&self, keys: u64, value_bytes: usize) -> Result<Fill, EtcdError> {
        self.fill_with(keys, |seed| noise(seed, value_bytes)).await
    }

    /// The same with values that `value` makes of a number.
    pub async fn fill_with(&self, keys: u64, value: impl Fn(u64) -> Vec<u8>) -> Result<Fill, EtcdError> {
        let ops = (0..keys).map(|index| put(index, value(index)));
        self.write(ops).await?;
        let updates = (0..keys).step_by(3).map(|index| put(index, value(index ^ 0xffff_0000)));
        let compact_revision = self.write(updates).await?;
        let deletes = (0..keys).step_by(10).map(|index| {
            let key = key(index).into_bytes();
            RequestOp {
                request: Some(Op::RequestDeleteRange(DeleteRangeRequest { key, ..DeleteRangeRequest::default() })),
            }
        });
        let revision = self.write(deletes).await?;
        // `physical`: the answer comes when the old revisions are out of the database.
        let request = CompactionRequest { revision: compact_revision, physical: true };
        self.kv().compact(request).await.map_err(call("compact"))?;
        Ok(Fill { live_keys: keys - keys.div_ceil(10), revision, compact_revision })
    }

    /// Writes one key.
    pub async fn put(&self, key: &str, value: &[u8]) -> Result<i64, EtcdError> {
        let request = PutRequest { key: key.into(), value: value.into(), ..PutRequest::default() };
        let response = self.kv().put(request).await.map_err(call("put"))?.into_inner();
        Ok(response.header.map(|header| header.revision).unwrap_or_default())
    }

    /// How many keys begin with this prefix; all keys for an empty one.
    pub async fn count(&self, prefix: &[u8]) -> Result<u64, EtcdError> {
        let (key, range_end) = match prefix {
            [] => (vec![0], vec![0]),
            _ => (prefix.to_vec(), after(prefix)),
        };
        let request = RangeRequest { key, range_end, count_only: true, ..RangeRequest::default() };
        let response = self.kv().range(request).await.map_err(call("count keys"))?.into_inner();
        Ok(response.count.unsigned_abs())
    }

    /// The member's status.
    pub async fn status(&self) -> Result<StatusResponse, EtcdError> {
        self.maintenance().status(StatusRequest {}).await.map(Response::into_inner).map_err(call("give its status"))
    }

    /// The hash of all keys up to a revision; 0 is the present one.
    pub async fn hash_kv(&self, revision: i64) -> Result<HashKvResponse, EtcdError> {
        let request = HashKvRequest { revision };
        self.maintenance().hash_kv(request).await.map(Response::into_inner).map_err(call("hash its keys"))
    }

    /// A whole snapshot, with its trailer.
    pub async fn snapshot(&self) -> Result<Bytes, EtcdError> {
        let mut stream =
            self.maintenance().snapshot(SnapshotRequest {}).await.map_err(call("begin a snapshot"))?.into_inner();
        let mut whole = Vec::new();
        while let Some(part) = stream.message().await.map_err(call("send a snapshot"))? {
            whole.extend_from_slice(&part.blob);
        }
        Ok(whole.into())
    }

    async fn write(&self, ops: impl Iterator<Item = RequestOp>) -> Result<i64, EtcdError> {
        let (mut batch, mut batch_bytes, mut revision) = (Vec::new(), 0, 0);
        let mut ops = ops.peekable();
        while let Some(op) = ops.next() {
            batch_bytes += match &op.request {
                Some(Op::RequestPut(put)) => put.value.len(),
                _ => 0,
            };
            batch.push(op);
            if batch_bytes >= BATCH_BYTES || batch.len() >= BATCH_OPS || ops.peek().is_none() {
                let request = TxnRequest { success: std::mem::take(&mut batch) };
                let response = self.kv().txn(request).await.map_err(call("write"))?.into_inner();
                revision = response.header.map(|header| header.revision).unwrap_or_default();
                batch_bytes = 0;
            }
        }
        Ok(revision)
    }

    fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    fn maintenance(&self) -> MaintenanceClient<Channel> {
        MaintenanceClient::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }
}

fn key(index: u64) -> String {
    format!("/registry/lab/{index:08}")
}

fn put(index: u64, value: Vec<u8>) -> RequestOp {
    let put = PutRequest { key: key(index).into_bytes(), value, ..PutRequest::default() };
    RequestOp { request: Some(Op::RequestPut(put)) }
}

/// The same noise for the same seed (splitmix64).
pub fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    // Not a multiple of the step below: else neighbours would be the same words, shifted, and compress well.
    let mut state = seed.wrapping_mul(0xd134_2543_de82_ef95).rotate_left(17) ^ 0x5851_f42d_4c95_7f2d;
    let mut value = Vec::with_capacity(bytes + 8);
    while value.len() < bytes {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
    }
    value.truncate(bytes);
    value
}

/// The first key that does not begin with the prefix. The lab's prefixes do not end in 0xff.
fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}

fn call(doing: &'static str) -> impl FnOnce(Status) -> EtcdError {
    move |source| EtcdError::Call { doing, source: Box::new(source) }
}
