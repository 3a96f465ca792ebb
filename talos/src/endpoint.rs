//! Where a Talos API listens: `host:port`, parsed from every form that a talosconfig may hold.
//!
//! Invariant: the host is a name or an address that TLS can check, without brackets, and each endpoint is checked against
//! its own host. One server name for several endpoints would accept a node that answers under another's address.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use rustls_pki_types::ServerName;

/// Port of the Talos API (apid) when an endpoint names none.
pub const DEFAULT_PORT: u16 = 50000;

/// Port behind `https://host`: such endpoints are ingresses and proxies, not apid itself.
const HTTPS_PORT: u16 = 443;

/// One address of the Talos API.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    host: String,
    port: u16,
}

/// An endpoint that cannot be used as written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a Talos endpoint: {why}")]
pub struct EndpointError {
    text: String,
    why: &'static str,
}

impl EndpointError {
    fn new(text: &str, why: &'static str) -> Self {
        // What stands before an `@` is a password as often as not.
        let text = match text.rsplit_once('@') {
            Some((_, host)) => format!("***@{host}"),
            None => text.to_owned(),
        };
        Self { text, why }
    }
}

impl Endpoint {
    /// Host name or IP address, an IPv6 one without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The name that the server's certificate has to carry.
    pub fn server_name(&self) -> ServerName<'static> {
        // Checked by the parser, which is the only maker of endpoints.
        ServerName::try_from(self.host.clone()).expect("an endpoint's host is a valid server name")
    }

    pub(crate) fn uri(&self, scheme: &str) -> String {
        format!("{scheme}://{self}")
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            return write!(f, "[{}]:{}", self.host, self.port);
        }
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let text = text.trim();
        let refuse = |why| EndpointError::new(text, why);

        let (default_port, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (HTTPS_PORT, rest),
            Some((scheme, rest)) if is_scheme(scheme) => (DEFAULT_PORT, rest),
            Some(_) => return Err(refuse("what stands before `://` is not a scheme")),
            None => (DEFAULT_PORT, text),
        };
        let rest = if rest.len() < text.len() { rest.strip_suffix('/').unwrap_or(rest) } else { rest };
        if rest.is_empty() {
            return Err(refuse("there is no host in it"));
        }
        if rest.contains('@') {
            return Err(refuse("a user name or password has no place in it"));
        }
        if rest.contains(['/', '?', '#', ',']) || rest.contains(char::is_whitespace) {
            return Err(refuse("write one host, or host:port, without a path"));
        }

        let (host, port) = split_port(rest).map_err(refuse)?;
        let port = match port {
            None => default_port,
            Some(port) => match port.parse::<u16>() {
                Ok(number) if number != 0 && port.starts_with(|c: char| c.is_ascii_digit()) => number,
                _ => return Err(refuse("the port is not a number from 1 to 65535")),
            },
        };
        let host = normal_host(host).ok_or_else(|| refuse("the host is neither an IP address nor a DNS name"))?;
        Ok(Self { host, port })
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// Splits `host`, `host:port`, `[v6]`, `[v6]:port` and a bare IPv6 address.
fn split_port(text: &str) -> Result<(&str, Option<&str>), &'static str> {
    if let Some(rest) = text.strip_prefix('[') {
        let Some((host, tail)) = rest.split_once(']') else {
            return Err("the bracket is not closed");
        };
        if host.parse::<Ipv6Addr>().is_err() {
            return Err("only an IPv6 address may stand in brackets (zones such as %eth0 are not supported)");
        }
        if tail.is_empty() {
            return Ok((host, None));
        }
        return match tail.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None => Err("after the bracket only `:port` may follow"),
        };
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return Ok((text, None));
    }
    match text.split_once(':') {
        Some((_, port)) if port.contains(':') => Err("an IPv6 address with a port is written [address]:port"),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((text, None)),
    }
}

/// One spelling per host; `None` when TLS could never check it.
fn normal_host(host: &str) -> Option<String> {
    if let Ok(address) = host.parse::<Ipv6Addr>() {
        return Some(address.to_string());
    }
    // A trailing dot is right for DNS and wrong for a certificate.
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    (!host.ends_with('.') && ServerName::try_from(host.as_str()).is_ok()).then_some(host)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> String {
        text.parse::<Endpoint>().map_or_else(|e| format!("error: {e}"), |e| e.to_string())
    }

    #[test]
    fn every_documented_form_is_read() {
        for (text, expected) in [
            ("10.0.0.1", "10.0.0.1:50000"),
            (" talos.default ", "talos.default:50000"),
            ("talos.default.", "talos.default:50000"),
            ("CP-1.example.org:6000", "cp-1.example.org:6000"),
            ("fd00::1", "[fd00::1]:50000"),
            ("FD00:0::1", "[fd00::1]:50000"),
            ("[fd00::1]", "[fd00::1]:50000"),
            ("[fd00::1]:6000", "[fd00::1]:6000"),
            ("https://omni.example.org", "omni.example.org:443"),
            ("https://omni.example.org/", "omni.example.org:443"),
            ("HTTPS://10.0.0.1:8443", "10.0.0.1:8443"),
            ("https://[fd00::1]", "[fd00::1]:443"),
            ("grpc://10.0.0.1:7000", "10.0.0.1:7000"),
            ("http://10.0.0.1", "10.0.0.1:50000"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "no host"),
            ("https://", "no host"),
            ("10.0.0.1:", "port"),
            ("10.0.0.1:0", "port"),
            ("10.0.0.1:+80", "port"),
            ("10.0.0.1:70000", "port"),
            ("fd00::1:50000", "[address]:port"),
            ("[fd00::1", "not closed"),
            ("[10.0.0.1]:50000", "only an IPv6"),
            ("[fe80::1%eth0]", "zones"),
            ("10.0.0.1,10.0.0.2", "one host"),
            ("https://host/path", "without a path"),
            ("ho st", "one host"),
            ("under score:x", "one host"),
            ("-bad-", "neither"),
            ("dots..", "neither"),
        ] {
            let shown = shown(text);
            assert!(shown.starts_with("error: ") && shown.contains(why), "{text}: {shown}");
        }
    }

    #[test]
    fn a_password_in_an_endpoint_is_not_repeated() {
        let shown = shown("https://admin:hunter2@omni.example.org");
        assert!(shown.contains("***@omni.example.org") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn the_server_name_of_an_ipv6_endpoint_has_no_brackets() {
        let endpoint: Endpoint = "[::1]:50000".parse().unwrap();
        assert_eq!(endpoint.server_name().to_str(), "::1");
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back_as_the_same_endpoint(text in "(https://)?(\\[?[0-9a-f:]{2,12}\\]?|[a-z0-9.-]{1,20})(:[0-9]{1,6})?/?") {
            if let Ok(endpoint) = text.parse::<Endpoint>() {
                prop_assert_eq!(endpoint.to_string().parse::<Endpoint>(), Ok(endpoint.clone()));
                let _ = endpoint.server_name();
            }
        }

        #[test]
        fn arbitrary_text_never_panics(text in any::<String>()) {
            if let Ok(endpoint) = text.parse::<Endpoint>() {
                let _ = endpoint.server_name();
            }
        }
    }
}
