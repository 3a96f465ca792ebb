//! What stands around S3: the security token service and the forward proxy, met by the SDK's own means.

use std::time::Duration;

use bronzenail_lab::front::ForwardProxy;
use bronzenail_lab::s3::{S3Keys, Sts, StsCredentials, TokenSeen};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::stage::stage;

async fn exchange(address: std::net::SocketAddr, request: String) -> String {
    let mut wire = tokio::net::TcpStream::connect(address).await.unwrap();
    wire.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    wire.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn assume(sts: &Sts, token: &str) -> String {
    let form = format!(
        "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Flab&\
         RoleSessionName=s&WebIdentityToken={token}"
    );
    let head = format!("POST / HTTP/1.1\r\nhost: sts\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", form.len());
    exchange(sts.address(), head + &form).await
}

#[tokio::test]
async fn the_token_service_hands_out_what_it_was_given_and_notes_the_token() {
    let sts = Sts::start(None).await.unwrap();
    let refused = assume(&sts, "one").await;
    assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("InvalidIdentityToken"), "{refused}");

    let keys = S3Keys::fresh().with_session_token("the-session");
    sts.hand_out(Some(StsCredentials { keys: keys.clone(), lifetime: Duration::from_secs(60) }));
    let granted = assume(&sts, "two%2B").await;
    assert!(granted.starts_with("HTTP/1.1 200"), "{granted}");
    for value in [&keys.access_key, &keys.secret_key, "the-session"] {
        assert!(granted.contains(&format!(">{value}<")), "{granted}");
    }
    let seen = |token: &str, granted| TokenSeen {
        action: "AssumeRoleWithWebIdentity".to_owned(),
        token: token.to_owned(),
        role_arn: "arn:aws:iam::1:role/lab".to_owned(),
        granted,
    };
    assert_eq!(sts.seen(), [seen("one", false), seen("two+", true)]);
}

#[tokio::test]
async fn the_proxy_tunnels_and_forwards_and_notes_both() {
    let stage = stage([]).await;
    let proxy = ForwardProxy::start().await.unwrap();
    proxy.lead("*.s3.test", stage.front.address());
    let request = "GET http://bucket.s3.test/stage/k HTTP/1.1\r\nhost: bucket.s3.test\r\nconnection: close\r\n\r\n";
    let forwarded = exchange(proxy.address(), request.to_owned()).await;
    assert!(forwarded.starts_with("HTTP/1.1 403"), "an unsigned request is refused: {forwarded}");
    assert_eq!(stage.front.log()[0].header("host"), Some("bucket.s3.test"));

    let tunnel = "CONNECT x.s3.test:443 HTTP/1.1\r\nhost: x.s3.test:443\r\nproxy-authorization: Basic bGFi\r\n\r\n";
    let inside = "GET /stage/inside HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let mut wire = tokio::net::TcpStream::connect(proxy.address()).await.unwrap();
    wire.write_all(tunnel.as_bytes()).await.unwrap();
    let mut head = [0; 12];
    wire.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    while !head.ends_with(b"\r\n\r\n") {
        head.rotate_left(1);
        head[11] = wire.read_u8().await.unwrap();
    }
    wire.write_all(inside.as_bytes()).await.unwrap();
    let mut answer = String::new();
    wire.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert_eq!(stage.front.log()[1].path, "/stage/inside");

    let seen = proxy.seen();
    assert_eq!(
        (seen[0].method.as_str(), seen[0].authority.as_str(), seen[0].path.as_str()),
        ("GET", "bucket.s3.test", "/stage/k")
    );
    assert_eq!((seen[1].method.as_str(), seen[1].authority.as_str()), ("CONNECT", "x.s3.test:443"));
    assert_eq!(seen[1].authorization.as_deref(), Some("Basic bGFi"));
    let nowhere = "GET http://elsewhere.invalid/ HTTP/1.1\r\nhost: elsewhere.invalid\r\nconnection: close\r\n\r\n";
    assert_eq!(exchange(proxy.address(), nowhere.to_owned()).await, "");
}
