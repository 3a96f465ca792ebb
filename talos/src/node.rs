//! The node that a call is for: the value of the `node` header.
//!
//! Invariant: a value that Talos would refuse never leaves this process. A port or brackets in it come back from the
//! endpoint as `invalid target`, which says nothing to the person who typed it. The header is `node`, never `nodes`:
//! the latter interleaves the answers of several nodes, which turns a snapshot into garbage.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use tonic::metadata::{Ascii, MetadataValue};

/// A Talos node as its endpoint knows it: an IP address, or a name that the endpoint can resolve.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(String);

/// A node value that Talos would refuse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a Talos node: {why}")]
pub struct NodeError {
    text: String,
    why: &'static str,
    right: Option<String>,
}

impl NodeError {
    /// How to write it, where that is known.
    pub fn hint(&self) -> Option<String> {
        self.right
            .as_ref()
            .map(|right| format!("write `{right}`: the port of a node is always 50000, only endpoints have one"))
    }
}

impl Node {
    /// The value as it goes over the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn header(&self) -> MetadataValue<Ascii> {
        // The parser lets only visible ASCII through.
        MetadataValue::try_from(self.0.as_str()).expect("a node is visible ASCII")
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<IpAddr> for Node {
    fn from(address: IpAddr) -> Self {
        Self(address.to_string())
    }
}

impl FromStr for Node {
    type Err = NodeError;

    fn from_str(text: &str) -> Result<Self, NodeError> {
        let text = text.trim();
        let refuse =
            |why, right: Option<&str>| Err(NodeError { text: text.to_owned(), why, right: right.map(str::to_owned) });
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(address.into());
        }
        if text.is_empty() {
            return refuse("it is empty", None);
        }
        if text.contains("://") {
            return refuse("a node is not a URL", None);
        }
        if text.contains(',') || text.contains(char::is_whitespace) {
            return refuse("a snapshot comes from exactly one node", None);
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return refuse("it has a port", Some(&address.ip().to_string()));
        }
        if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            return refuse("it has brackets", Some(inner));
        }
        if let Some((host, port)) = text.split_once(':')
            && port.parse::<u16>().is_ok()
        {
            return refuse("it has a port", Some(host));
        }
        if !text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_')) {
            return refuse("it is neither an IP address nor a host name", None);
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_nodes() {
        for (text, shown) in
            [("10.0.0.1", "10.0.0.1"), ("fd00:0::1", "fd00::1"), ("cp-1", "cp-1"), (" cp_1.lan ", "cp_1.lan")]
        {
            assert_eq!(text.parse::<Node>().unwrap().as_str(), shown);
        }
    }

    #[test]
    fn ports_brackets_and_lists_are_refused_with_the_right_way_to_write_it() {
        for (text, why, right) in [
            ("10.0.0.1:50000", "port", Some("`10.0.0.1`")),
            ("[fd00::1]:50000", "port", Some("`fd00::1`")),
            ("[fd00::1]", "brackets", Some("`fd00::1`")),
            ("cp-1:50000", "port", Some("`cp-1`")),
            ("10.0.0.1,10.0.0.2", "exactly one", None),
            ("https://10.0.0.1", "URL", None),
            ("", "empty", None),
            ("cp\u{e4}", "neither", None),
        ] {
            let error = text.parse::<Node>().unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert_eq!(error.hint().is_some(), right.is_some());
            assert!(right.is_none_or(|right| error.hint().unwrap().contains(right)), "{:?}", error.hint());
        }
    }
}
