//! The way from the front to the store: a fresh connection for each request, and a fresh signature where one is needed.
//!
//! Invariant: a request that no rule changes is forwarded byte for byte, `Host` and signature included. One that a rule
//! changes is signed anew with the keys that the test gave, since the old signature covers what is no longer there.

use std::net::SocketAddr;
use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings, UriPathNormalizationMode,
    sign,
};
use aws_sigv4::sign::v4;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::s3::S3Keys;
use crate::s3::listener::BoxError;

/// Sends a request to the store and waits for the head of its answer.
pub(crate) async fn send(store: SocketAddr, request: Request<Bytes>) -> Result<Response<Incoming>, BoxError> {
    let stream = TcpStream::connect(store).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!("the front's connection to the store ended: {error}");
        }
    });
    Ok(sender.send_request(request.map(Full::new)).await?)
}

/// Gives a request another body, and takes away everything that vouched for the old one.
pub(crate) fn replace_body(request: &mut Request<Bytes>, body: Bytes) {
    let headers = request.headers_mut();
    headers.remove("content-md5");
    let checksums: Vec<_> =
        headers.keys().filter(|name| name.as_str().starts_with("x-amz-checksum-")).cloned().collect();
    for name in checksums {
        headers.remove(name);
    }
    headers.remove("x-amz-content-sha256");
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    *request.body_mut() = body;
}

/// Signs a request anew.
pub(crate) fn sign_again(request: &mut Request<Bytes>, keys: &S3Keys) -> Result<(), BoxError> {
    let headers = request.headers_mut();
    headers.remove(header::AUTHORIZATION);
    headers.remove("x-amz-date");
    headers.remove("x-amz-security-token");
    // Kept when the body is as it was: it may say that the payload is unsigned or framed.
    let payload = headers.remove("x-amz-content-sha256").and_then(|value| value.to_str().map(str::to_owned).ok());

    let identity =
        Credentials::new(&keys.access_key, &keys.secret_key, keys.session_token.clone(), None, "bronzenail-lab").into();
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region("us-east-1")
        .name("s3")
        .time(SystemTime::now())
        .settings(settings)
        .build()?
        .into();
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let uri = format!("http://{host}{}", request.uri());
    let signed_headers =
        request.headers().iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let body = match payload {
        Some(payload) => SignableBody::Precomputed(payload),
        None => SignableBody::Bytes(request.body()),
    };
    let signable = SignableRequest::new(request.method().as_str(), uri, signed_headers, body)?;
    let (instructions, _signature) = sign(signable, &parameters)?.into_parts();
    let (new_headers, _query) = instructions.into_parts();
    for new in new_headers {
        request.headers_mut().insert(new.name(), HeaderValue::from_str(new.value())?);
    }
    Ok(())
}
