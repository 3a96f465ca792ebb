//! Which node a call is for: the rules of apid's director.

use tonic::Status;
use tonic::metadata::MetadataMap;

/// Where a call goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The node that the client is connected to.
    Here,
    /// One node, by the `node` header.
    One(String),
    /// Each of the nodes in the deprecated `nodes` header.
    Many(Vec<String>),
}

/// Reads the routing headers.
pub(super) fn read(metadata: &MetadataMap) -> Result<Target, Status> {
    let nodes = values(metadata, "nodes");
    if !nodes.is_empty() {
        nodes.iter().try_for_each(|node| check(node))?;
        return Ok(Target::Many(nodes));
    }
    match values(metadata, "node").as_slice() {
        [] => Ok(Target::Here),
        [node] => check(node).map(|()| Target::One(node.clone())),
        _ => Err(Status::invalid_argument("node metadata must be single-valued")),
    }
}

pub(super) fn values(metadata: &MetadataMap, name: &str) -> Vec<String> {
    let values = metadata.get_all(name).iter();
    values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

/// A target is an address or a name, never with a port and never in brackets.
fn check(node: &str) -> Result<(), Status> {
    let is_ipv6 = node.parse::<std::net::Ipv6Addr>().is_ok();
    if node.is_empty() || (node.contains([':', '[', ']']) && !is_ipv6) {
        return Err(Status::internal(format!("invalid target {node:?}")));
    }
    Ok(())
}
