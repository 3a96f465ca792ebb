//! Connecting: fail-over, and a reason of its own for each way in which it fails.

#![allow(clippy::unwrap_used)]

mod fake;
mod pki;

use std::time::Duration;

use bronzenail_talos::{Client, ConnectReason, Context, TalosError};
use chrono::{TimeDelta, Utc};
use fake::{Script, connect, context, context_with, options, start, start_with};
use pki::Pki;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

/// An address where nothing listens.
async fn refused() -> String {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string()
}

/// A listener that accepts and then says nothing, or something that is not TLS.
async fn not_talos(words: Option<&'static [u8]>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            if let Some(words) = words {
                let _ = stream.write_all(words).await;
            }
            kept.push(stream);
        }
    });
    address
}

async fn reason(context: &Context) -> ConnectReason {
    let mut options = options();
    options.certificate_must_hold_at = None;
    match Client::connect(context, &options).await.unwrap_err() {
        TalosError::NoEndpoint { mut failures, .. } => failures.remove(0).reason,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn b15_the_next_endpoint_is_tried_and_the_failed_one_remembered() {
    let pki = Pki::new();
    let good = start(&pki, Script::default()).await;
    let bad = refused().await;
    let client = Client::connect(&context(&pki, &[bad.clone(), good.endpoint()]), &options()).await.unwrap();
    assert_eq!(client.endpoint().to_string(), good.endpoint());
    let passed_over: Vec<String> = client.passed_over().iter().map(ToString::to_string).collect();
    assert_eq!(passed_over, [format!("{bad}: connection refused")]);
}

#[tokio::test]
async fn the_order_of_the_endpoints_is_kept() {
    let pki = Pki::new();
    let (first, second) = (start(&pki, Script::default()).await, start(&pki, Script::default()).await);
    let client = Client::connect(&context(&pki, &[second.endpoint(), first.endpoint()]), &options()).await.unwrap();
    assert_eq!(client.endpoint().to_string(), second.endpoint());
}

#[tokio::test]
async fn b15_when_all_fail_each_endpoint_has_its_own_reason_within_bounded_time() {
    let pki = Pki::new();
    let endpoints = [refused().await, not_talos(None).await, "no-such-host.invalid".to_owned()];
    let mut options = options();
    options.connect_timeout = Duration::from_millis(700);
    let context = context(&pki, &endpoints);
    let connecting = Client::connect(&context, &options);
    let error = tokio::time::timeout(Duration::from_secs(30), connecting).await.expect("bounded").unwrap_err();
    let TalosError::NoEndpoint { failures, .. } = &error else { panic!("{error}") };
    let reasons: Vec<&ConnectReason> = failures.iter().map(|failure| &failure.reason).collect();
    assert_eq!(reasons[..2], [&ConnectReason::Refused, &ConnectReason::HandshakeTimeout(options.connect_timeout)]);
    // A resolver that cannot be reached at all takes longer than our patience.
    assert!(matches!(reasons[2], ConnectReason::Dns(_) | ConnectReason::ConnectTimeout(_)), "{}", reasons[2]);
    for endpoint in endpoints {
        assert!(error.to_string().contains(&endpoint), "{error}");
    }
}

#[tokio::test]
async fn b17_an_expired_certificate_is_named_before_any_connection() {
    let pki = Pki::new();
    let mut client = pki::Client::at(Utc::now());
    client.not_after = Utc::now() - TimeDelta::hours(1);
    let context = context_with(&pki.ca_pem(), &pki.client(&client), &[refused().await]);
    let error = Client::connect(&context, &options()).await.unwrap_err();
    assert!(matches!(error, TalosError::Config(_)), "{error}");
}

#[tokio::test]
async fn b17_a_certificate_that_the_server_calls_expired_is_named_although_tls_1_3_says_so_late() {
    let pki = Pki::new();
    let server = start(&pki, Script::default()).await;
    let mut client = pki::Client::at(Utc::now());
    client.not_after = Utc::now() - TimeDelta::hours(1);
    let context = context_with(&pki.ca_pem(), &pki.client(&client), &[server.endpoint()]);
    let reason = reason(&context).await;
    assert!(matches!(&reason, ConnectReason::ClientCertificateRefused(why) if why.contains("expired")), "{reason:?}");
    assert!(reason.hint().unwrap().contains("new talosconfig") && !reason.is_passing());
}

#[tokio::test]
async fn b17_a_certificate_of_another_cluster_is_named_and_the_next_endpoint_is_tried() {
    let (ours, theirs) = (Pki::new(), Pki::new());
    // The same server certificate, but the first server accepts only clients of the other cluster.
    let server = ours.server(&["127.0.0.1"]);
    let strict = start_with("127.0.0.1:0", &server, &theirs.ca_pem(), Script::default()).await.unwrap();
    let good = start(&ours, Script::default()).await;
    let client = Client::connect(&context(&ours, &[strict.endpoint(), good.endpoint()]), &options()).await.unwrap();
    assert_eq!(client.endpoint().to_string(), good.endpoint());
    assert!(matches!(client.passed_over()[0].reason, ConnectReason::ClientCertificateRefused(_)));
}

#[tokio::test]
async fn a_server_of_another_cluster_is_named() {
    let (ours, theirs) = (Pki::new(), Pki::new());
    let server = start(&theirs, Script::default()).await;
    assert_eq!(reason(&context(&ours, &[server.endpoint()])).await, ConnectReason::UnknownServerIssuer);
}

#[tokio::test]
async fn a_server_with_other_names_says_which() {
    let pki = Pki::new();
    let server = pki.server(&["talos.default"]);
    let server = start_with("127.0.0.1:0", &server, &pki.ca_pem(), Script::default()).await.unwrap();
    let reason = reason(&context(&pki, &[server.endpoint()])).await;
    assert!(reason.to_string().contains("talos.default"), "{reason}");
}

#[tokio::test]
async fn each_endpoint_is_checked_against_its_own_host() {
    let pki = Pki::new();
    let named = pki.server(&["localhost"]);
    let named = start_with("127.0.0.1:0", &named, &pki.ca_pem(), Script::default()).await.unwrap();
    let by_address = named.endpoint();
    let by_name = format!("localhost:{}", named.address.port());
    let client = Client::connect(&context(&pki, &[by_address, by_name.clone()]), &options()).await.unwrap();
    assert_eq!(client.endpoint().to_string(), by_name);
}

#[tokio::test]
async fn what_is_not_tls_is_named() {
    let pki = Pki::new();
    let web = not_talos(Some(b"HTTP/1.1 400 Bad Request\r\n\r\n")).await;
    assert_eq!(reason(&context(&pki, &[web])).await, ConnectReason::NotTls);
}

#[tokio::test]
async fn every_certificate_of_a_rotated_ca_is_trusted() {
    let (old, new) = (Pki::new(), Pki::new());
    let server = start(&new, Script::default()).await;
    let client = new.client(&pki::Client::at(Utc::now()));
    for ca in [old.ca_pem() + &new.ca_pem(), new.ca_pem() + &old.ca_pem()] {
        Client::connect(&context_with(&ca, &client, &[server.endpoint()]), &options()).await.unwrap();
    }
}

#[tokio::test]
async fn an_ipv6_endpoint_connects() {
    let pki = Pki::new();
    let server = pki.server(&["::1"]);
    let Ok(server) = start_with("[::1]:0", &server, &pki.ca_pem(), Script::default()).await else {
        eprintln!("skipped: IPv6 endpoint (this machine has no ::1)");
        return;
    };
    let client = connect(&pki, &server).await;
    assert_eq!(client.endpoint().host(), "::1");
}

#[tokio::test]
async fn a_context_without_endpoints_is_refused() {
    let pki = Pki::new();
    let error = Client::connect(&context(&pki, &[]), &options()).await.unwrap_err();
    assert!(error.to_string().contains("`prod`") && error.hint().is_some(), "{error}");
}
