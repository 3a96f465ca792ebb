//! Why a connection to an endpoint failed, in words that an operator can act on.
//!
//! Invariant: the reason is dug out of the innermost error that is known. The outer layers of a gRPC stack say
//! `transport error` for a refused port, an expired certificate and a typing error alike.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError};

use crate::endpoint::Endpoint;

/// One endpoint, and why it could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointFailure {
    /// The endpoint that was tried.
    pub endpoint: Endpoint,
    /// Its own reason.
    pub reason: ConnectReason,
}

impl fmt::Display for EndpointFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.endpoint, self.reason)
    }
}

/// Why a connection could not be made, or broke.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectReason {
    /// The name has no address.
    Dns(String),
    /// Nothing listens on that port.
    Refused,
    /// The local system forbids the connection (a firewall or network policy).
    Forbidden,
    /// No route to that address.
    Unreachable,
    /// The other side, or something between, cut the connection.
    Reset,
    /// No TCP connection in time.
    ConnectTimeout(Duration),
    /// TCP connected, but the TLS handshake did not end in time.
    HandshakeTimeout(Duration),
    /// The server's certificate comes from a CA that the talosconfig does not know.
    UnknownServerIssuer,
    /// The server's certificate has expired (or this clock is wrong).
    ServerExpired,
    /// The server's certificate is not valid yet (or this clock is wrong).
    ServerNotYetValid,
    /// The server's certificate is for other names.
    WrongServerName {
        /// The names that it carries.
        presented: Vec<String>,
    },
    /// The server's certificate is bad in another way.
    ServerCertificate(String),
    /// The server refused our certificate, with the alert that it sent.
    ClientCertificateRefused(String),
    /// The server closed right after the handshake without a word, which is how some refuse a certificate.
    ClosedAfterHandshake,
    /// The server does not speak TLS there.
    NotTls,
    /// The server speaks TLS, but not HTTP/2.
    NotHttp2,
    /// Anything else.
    Other(String),
}

impl fmt::Display for ConnectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(detail) => write!(f, "the name cannot be resolved ({detail})"),
            Self::Refused => f.write_str("connection refused"),
            Self::Forbidden => f.write_str("operation not permitted by this system's network rules"),
            Self::Unreachable => f.write_str("no route to that address"),
            Self::Reset => f.write_str("the connection was cut by the other side"),
            Self::ConnectTimeout(after) => write!(f, "no connection within {after:?}"),
            Self::HandshakeTimeout(after) => write!(f, "connected, but no TLS handshake within {after:?}"),
            Self::UnknownServerIssuer => f.write_str("the server's certificate is not from the CA in the talosconfig"),
            Self::ServerExpired => f.write_str("the server's certificate has expired"),
            Self::ServerNotYetValid => f.write_str("the server's certificate is not valid yet"),
            Self::WrongServerName { presented } => {
                write!(f, "the server's certificate is not for this name but for {}", presented.join(", "))
            }
            Self::ServerCertificate(detail) => write!(f, "the server's certificate cannot be accepted ({detail})"),
            Self::ClientCertificateRefused(alert) => write!(f, "the server refused the client certificate ({alert})"),
            Self::ClosedAfterHandshake => f.write_str("the server closed the connection right after the TLS handshake"),
            Self::NotTls => f.write_str("the server does not answer in TLS"),
            Self::NotHttp2 => f.write_str("the server does not speak HTTP/2 there"),
            Self::Other(detail) => f.write_str(detail),
        }
    }
}

impl ConnectReason {
    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Dns(_) => "inside a cluster the Talos API is `talos.default`; names need a pod with cluster DNS",
            Self::Refused | Self::Unreachable | Self::ConnectTimeout(_) => {
                "check the address and that port 50000 of a control-plane node can be reached from here"
            }
            Self::Forbidden => "a network policy or firewall of this machine or pod blocks it",
            Self::HandshakeTimeout(_) | Self::NotTls | Self::NotHttp2 => "is this really the Talos API (port 50000)?",
            Self::UnknownServerIssuer => {
                "the talosconfig is for another cluster, or older than the cluster's current CA; fetch a new one"
            }
            Self::ServerExpired | Self::ServerNotYetValid => "compare the clocks of this machine and the node",
            Self::WrongServerName { .. } => {
                "use a name that the certificate has (in a cluster `talos.default`, not `talos.default.svc`), or add this one to machine.certSANs"
            }
            Self::ClientCertificateRefused(_) | Self::ClosedAfterHandshake => {
                "the client certificate has expired, is from another CA, or has other usages than clientAuth; issue a new talosconfig"
            }
            Self::Reset | Self::ServerCertificate(_) | Self::Other(_) => return None,
        })
    }

    /// Whether the same attempt may succeed later without anybody changing the configuration.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Dns(_)
                | Self::Refused
                | Self::Unreachable
                | Self::Reset
                | Self::ConnectTimeout(_)
                | Self::HandshakeTimeout(_)
                | Self::ClosedAfterHandshake
                | Self::ServerNotYetValid
                | Self::Other(_)
        )
    }

    /// The most useful reason in a chain of errors.
    pub(crate) fn dig(error: &(dyn Error + 'static)) -> Self {
        known(error).unwrap_or_else(|| Self::Other(innermost(error)))
    }
}

/// A reason on its way through the layers of the gRPC stack, which hand it on as a source.
#[derive(Clone, Debug)]
pub(crate) struct ConnectFailure(pub(crate) ConnectReason);

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for ConnectFailure {}

/// The first known reason on the way down the chain.
fn known(error: &(dyn Error + 'static)) -> Option<ConnectReason> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(ConnectFailure(reason)) = error.downcast_ref() {
            return Some(reason.clone());
        }
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return Some(from_tls(tls));
        }
        if let Some(io) = error.downcast_ref::<io::Error>() {
            // An io::Error leaves the error that it carries out of its own chain.
            if let Some(reason) = io.get_ref().and_then(|inner| known(inner)).or_else(|| from_io_kind(io)) {
                return Some(reason);
            }
        }
        // HTTP/2 keeps only the text of what broke the connection.
        if let Some(reason) = from_text(&error.to_string()) {
            return Some(reason);
        }
        next = error.source();
    }
    None
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

fn from_io_kind(error: &io::Error) -> Option<ConnectReason> {
    Some(match error.kind() {
        io::ErrorKind::ConnectionRefused => ConnectReason::Refused,
        io::ErrorKind::PermissionDenied => ConnectReason::Forbidden,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable | io::ErrorKind::AddrNotAvailable => {
            ConnectReason::Unreachable
        }
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => ConnectReason::Reset,
        _ => return None,
    })
}

fn from_tls(error: &rustls::Error) -> ConnectReason {
    match error {
        rustls::Error::AlertReceived(alert) => from_alert(*alert),
        rustls::Error::InvalidCertificate(problem) => from_certificate(problem),
        rustls::Error::InvalidMessage(_) => ConnectReason::NotTls,
        rustls::Error::NoApplicationProtocol => ConnectReason::NotHttp2,
        other => ConnectReason::Other(format!("TLS: {other}")),
    }
}

fn from_alert(alert: AlertDescription) -> ConnectReason {
    let words = match alert {
        AlertDescription::CertificateExpired => "it has expired, says the server",
        AlertDescription::UnknownCA => "the server does not know the CA that issued it",
        AlertDescription::BadCertificate => "bad certificate",
        AlertDescription::UnsupportedCertificate => "unsupported certificate",
        AlertDescription::CertificateRevoked => "it was revoked",
        AlertDescription::CertificateUnknown => "certificate unknown",
        AlertDescription::AccessDenied => "access denied",
        AlertDescription::CertificateRequired => "the server wants one and got none",
        // CAs of different clusters often share their subject; then the signature is what does not fit.
        AlertDescription::DecryptError => "its signature does not fit the CA that the server trusts",
        AlertDescription::NoApplicationProtocol => return ConnectReason::NotHttp2,
        other => return ConnectReason::Other(format!("the server ended the TLS handshake with the alert {other:?}")),
    };
    ConnectReason::ClientCertificateRefused(words.to_owned())
}

fn from_certificate(problem: &CertificateError) -> ConnectReason {
    match problem {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => ConnectReason::ServerExpired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => ConnectReason::ServerNotYetValid,
        // Another cluster's CA often has the same subject, and then it is the signature that does not fit.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => ConnectReason::UnknownServerIssuer,
        CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
            ConnectReason::WrongServerName { presented: presented.clone() }
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            ConnectReason::WrongServerName { presented: vec!["no name at all".to_owned()] }
        }
        other => ConnectReason::ServerCertificate(other.to_string()),
    }
}

fn from_text(text: &str) -> Option<ConnectReason> {
    // What Linux, Rust and the TLS library call a connection that ended without a farewell.
    let cut = ["connection reset", "connection aborted", "broken pipe", "unexpected end of file", "close_notify"];
    let lower = text.to_ascii_lowercase();
    if cut.iter().any(|words| lower.contains(words)) {
        return Some(ConnectReason::Reset);
    }
    let (_, alert) = text.split_once("received fatal alert: ")?;
    let alert = alert.trim();
    let named = [
        AlertDescription::CertificateExpired,
        AlertDescription::UnknownCA,
        AlertDescription::BadCertificate,
        AlertDescription::UnsupportedCertificate,
        AlertDescription::CertificateRevoked,
        AlertDescription::CertificateUnknown,
        AlertDescription::AccessDenied,
        AlertDescription::CertificateRequired,
        AlertDescription::DecryptError,
    ];
    named.into_iter().find(|known| alert.starts_with(&format!("{known:?}"))).map(from_alert)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("transport error")]
    struct Outer(#[source] Box<dyn Error + Send + Sync>);

    fn dug(inner: impl Into<Box<dyn Error + Send + Sync>>) -> ConnectReason {
        ConnectReason::dig(&Outer(Box::new(Outer(inner.into()))))
    }

    #[test]
    fn the_useful_reason_is_found_under_every_layer() {
        let alert = rustls::Error::AlertReceived(AlertDescription::CertificateExpired);
        assert_eq!(dug(io::Error::from(io::ErrorKind::ConnectionRefused)), ConnectReason::Refused);
        assert_eq!(dug(io::Error::from_raw_os_error(1)), ConnectReason::Forbidden);
        assert_eq!(dug(ConnectFailure(ConnectReason::NotHttp2)), ConnectReason::NotHttp2);
        assert_eq!(
            dug(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)),
            ConnectReason::UnknownServerIssuer
        );
        assert!(
            matches!(dug(alert.clone()), ConnectReason::ClientCertificateRefused(words) if words.contains("expired"))
        );
        assert!(matches!(dug(io::Error::other(alert)), ConnectReason::ClientCertificateRefused(_)));
        assert!(matches!(dug(io::Error::new(io::ErrorKind::ConnectionRefused, "wrapped")), ConnectReason::Refused));
        for cut in ["close_notify: https://example.org", "connection reset", "Connection reset by peer (os error 104)"]
        {
            assert_eq!(dug(format!("error reading a body from connection: {cut}")), ConnectReason::Reset);
        }
        assert_eq!(dug("something new"), ConnectReason::Other("something new".to_owned()));
    }

    #[test]
    fn b17_a_late_alert_is_named_even_when_only_its_text_is_left() {
        let reason = dug("connection error: received fatal alert: BadCertificate");
        assert_eq!(reason, ConnectReason::ClientCertificateRefused("bad certificate".to_owned()));
        assert!(reason.hint().unwrap().contains("expired"));
        let in_go_words = dug("received fatal alert: UnknownCA");
        assert!(in_go_words.to_string().contains("does not know the CA"));
    }
}
