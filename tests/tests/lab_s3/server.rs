//! The embedded server, asked directly.

use aws_sdk_s3::types::{Delete, ObjectIdentifier};
use bronzenail_lab::s3::{ClientOptions, S3Keys, S3Options, S3Server, client, client_with};
use md5::{Digest as _, Md5};

use super::stage::{BUCKET, PART, body, pattern, refusal, stage};

fn md5(bytes: &[u8]) -> Vec<u8> {
    Md5::digest(bytes).to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn server() -> (S3Server, S3Keys) {
    let keys = S3Keys::fresh();
    let options = S3Options { keys: vec![keys.clone()], buckets: vec![BUCKET.to_owned()], ..S3Options::default() };
    (S3Server::start(options).await.unwrap(), keys)
}

#[tokio::test]
async fn an_object_comes_back_as_it_was_put() {
    let (server, keys) = server().await;
    let client = client(&server.endpoint(), &keys);
    let bytes = pattern(100_000);
    let key = "a/b c+d/é%2F.age";
    let put = client.put_object().bucket(BUCKET).key(key).metadata("lab", "yes").body(body(bytes.clone()));
    let put = put.send().await.unwrap();
    let etag = format!("\"{}\"", hex(&md5(&bytes)));
    assert_eq!(put.e_tag.as_deref(), Some(etag.as_str()));

    let head = client.head_object().bucket(BUCKET).key(key).send().await.unwrap();
    assert_eq!((head.content_length, head.e_tag.as_deref()), (Some(100_000), Some(etag.as_str())));
    assert_eq!(head.metadata.unwrap()["lab"], "yes");
    let got = client.get_object().bucket(BUCKET).key(key).send().await.unwrap();
    assert_eq!(got.body.collect().await.unwrap().to_vec(), bytes);

    let middle = client.get_object().bucket(BUCKET).key(key).range("bytes=10-19").send().await.unwrap();
    assert_eq!(middle.content_range.as_deref(), Some("bytes 10-19/100000"));
    assert_eq!(middle.body.collect().await.unwrap().to_vec(), bytes[10..20]);
    let tail = client.get_object().bucket(BUCKET).key(key).range("bytes=99990-").send().await.unwrap();
    assert_eq!(tail.body.collect().await.unwrap().to_vec(), bytes[99_990..]);
    let beyond = client.get_object().bucket(BUCKET).key(key).range("bytes=100000-").send().await.unwrap_err();
    assert_eq!(refusal(&beyond).1, 416);

    client.delete_object().bucket(BUCKET).key(key).send().await.unwrap();
    let gone = client.get_object().bucket(BUCKET).key(key).send().await.unwrap_err();
    assert_eq!(refusal(&gone), ("NoSuchKey".to_owned(), 404));
    client.delete_object().bucket(BUCKET).key(key).send().await.unwrap();
    let no_bucket = client.get_object().bucket("no-such").key(key).send().await.unwrap_err();
    assert_eq!(refusal(&no_bucket), ("NoSuchBucket".to_owned(), 404));
}

#[tokio::test]
async fn only_granted_keys_get_in() {
    let (server, keys) = server().await;
    let temporary = S3Keys::fresh().with_session_token("token-1");
    server.grant(temporary.clone());
    let list = |keys: S3Keys| {
        let client = client(&server.endpoint(), &keys);
        async move { client.list_objects_v2().bucket(BUCKET).send().await }
    };
    list(keys.clone()).await.unwrap();
    list(temporary.clone()).await.unwrap();

    let wrong_secret = S3Keys::new(&keys.access_key, "another secret");
    assert_eq!(refusal(&list(wrong_secret).await.unwrap_err()), ("SignatureDoesNotMatch".to_owned(), 403));
    assert_eq!(refusal(&list(S3Keys::fresh()).await.unwrap_err()), ("InvalidAccessKeyId".to_owned(), 403));
    let wrong_token = temporary.clone().with_session_token("token-2");
    assert_eq!(refusal(&list(wrong_token).await.unwrap_err()).0, "InvalidToken");
    let no_token = S3Keys { session_token: None, ..temporary.clone() };
    assert_eq!(refusal(&list(no_token).await.unwrap_err()).0, "InvalidToken");
    server.revoke(&keys.access_key);
    assert_eq!(refusal(&list(keys).await.unwrap_err()).0, "InvalidAccessKeyId");
}

#[tokio::test]
async fn a_conditional_put_creates_only() {
    let (server, keys) = server().await;
    let client = client(&server.endpoint(), &keys);
    let put = |bytes: &'static [u8]| client.put_object().bucket(BUCKET).key("k").body(body(bytes));
    put(b"first").if_none_match("*").send().await.unwrap();
    let second = put(b"second").if_none_match("*").send().await.unwrap_err();
    assert_eq!(refusal(&second), ("PreconditionFailed".to_owned(), 412));
    assert_eq!(server.object(BUCKET, "k").unwrap(), "first");
    put(b"third").send().await.unwrap();
    assert_eq!(server.object(BUCKET, "k").unwrap(), "third");
}

#[tokio::test]
async fn listings_come_in_pages_in_the_order_of_bytes() {
    let (server, keys) = server().await;
    let client = client(&server.endpoint(), &keys);
    for key in ["p/c", "p/a", "p/é", "p/B", "p/b/x", "q"] {
        server.put(BUCKET, key, key.as_bytes().to_vec());
    }
    let mut pages = client.list_objects_v2().bucket(BUCKET).prefix("p/").max_keys(2).into_paginator().send();
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let keys = page.unwrap().contents.unwrap_or_default();
        found.push(keys.into_iter().map(|object| object.key.unwrap()).collect::<Vec<_>>());
    }
    assert_eq!(found, [vec!["p/B", "p/a"], vec!["p/b/x", "p/c"], vec!["p/é"]]);
}

#[tokio::test]
async fn many_objects_are_deleted_at_once() {
    let (server, keys) = server().await;
    let client = client(&server.endpoint(), &keys);
    server.put(BUCKET, "a", "1");
    server.put(BUCKET, "b", "2");
    let one = |key: &str| ObjectIdentifier::builder().key(key).build().unwrap();
    let delete = Delete::builder().objects(one("a")).objects(one("never there")).build().unwrap();
    let deleted = client.delete_objects().bucket(BUCKET).delete(delete).send().await.unwrap();
    assert_eq!(deleted.deleted().len(), 2);
    assert_eq!(server.objects(BUCKET).into_keys().collect::<Vec<_>>(), ["b"]);
}

#[tokio::test]
async fn an_upload_in_parts_is_invisible_until_it_is_completed() {
    let stage = stage([]).await;
    let upload = stage.begin("k").await;
    let parts = vec![stage.part("k", &upload, 1, pattern(PART)).await, stage.part("k", &upload, 2, pattern(77)).await];
    assert!(stage.server.objects(BUCKET).is_empty());
    let listed = stage.client.list_multipart_uploads().bucket(BUCKET).prefix("k").send().await.unwrap();
    assert_eq!(listed.uploads()[0].upload_id(), Some(upload.as_str()));
    let pieces = stage.client.list_parts().bucket(BUCKET).key("k").upload_id(&upload).send().await.unwrap();
    assert_eq!(pieces.parts().iter().map(|part| part.size.unwrap()).collect::<Vec<_>>(), [PART as i64, 77]);

    let completed = stage.complete("k", &upload, parts).await.unwrap();
    let digests = [md5(&pattern(PART)), md5(&pattern(77))].concat();
    assert_eq!(completed.e_tag.unwrap(), format!("\"{}-2\"", hex(&md5(&digests))));
    assert_eq!(stage.server.object(BUCKET, "k").unwrap(), [pattern(PART), pattern(77)].concat());
    assert!(stage.server.unfinished_uploads(BUCKET).is_empty());
    let again = stage.client.list_parts().bucket(BUCKET).key("k").upload_id(&upload).send().await.unwrap_err();
    assert_eq!(refusal(&again).0, "NoSuchUpload");
}

#[tokio::test]
async fn uploads_are_held_to_the_rules_of_s3() {
    let stage = stage([]).await;
    let small = stage.upload("small", &[PART - 1, 10]).await.unwrap_err();
    assert_eq!(refusal(&small), ("EntityTooSmall".to_owned(), 400));

    let upload = stage.begin("k").await;
    let first = stage.part("k", &upload, 1, pattern(PART)).await;
    let second = stage.part("k", &upload, 2, pattern(10)).await;
    let disordered = stage.complete("k", &upload, vec![second.clone(), first.clone()]).await.unwrap_err();
    assert_eq!(refusal(&disordered).0, "InvalidPartOrder");
    stage.part("k", &upload, 2, pattern(11)).await;
    let outdated = stage.complete("k", &upload, vec![first, second]).await.unwrap_err();
    assert_eq!(refusal(&outdated).0, "InvalidPart");

    let abort = || stage.client.abort_multipart_upload().bucket(BUCKET).key("k").upload_id(&upload).send();
    abort().await.unwrap();
    assert_eq!(refusal(&abort().await.unwrap_err()).0, "NoSuchUpload");
    assert_eq!(stage.server.unfinished_uploads(BUCKET), ["small"]);
}

#[tokio::test]
async fn a_conditional_completion_creates_only() {
    let stage = stage([]).await;
    let upload = stage.begin("k").await;
    let part = stage.part("k", &upload, 1, pattern(10)).await;
    stage.server.put(BUCKET, "k", "already there");
    let parts = aws_sdk_s3::types::CompletedMultipartUpload::builder().parts(part).build();
    let call = stage.client.complete_multipart_upload().bucket(BUCKET).key("k").upload_id(&upload);
    let refused = call.multipart_upload(parts).if_none_match("*").send().await.unwrap_err();
    assert_eq!(refusal(&refused), ("PreconditionFailed".to_owned(), 412));
    assert_eq!(stage.server.object(BUCKET, "k").unwrap(), "already there");
}

#[tokio::test]
async fn checksums_of_new_clients_are_verified() {
    let (server, keys) = server().await;
    let options = ClientOptions { checksums_always: true, ..ClientOptions::default() };
    let client = client_with(&server.endpoint(), &keys, &options);
    client.put_object().bucket(BUCKET).key("k").body(body("with a trailer")).send().await.unwrap();
    assert_eq!(server.object(BUCKET, "k").unwrap(), "with a trailer");
    let wrong = client.put_object().bucket(BUCKET).key("w").checksum_sha256("AAAA").body(body("x")).send().await;
    assert_eq!(refusal(&wrong.unwrap_err()).1, 400);
    let wrong = client.put_object().bucket(BUCKET).key("w").content_md5("AAAA").body(body("x")).send().await;
    assert_eq!(refusal(&wrong.unwrap_err()).1, 400);
    assert!(server.object(BUCKET, "w").is_none());
}

#[tokio::test]
async fn a_private_authority_is_trusted_only_when_it_is_given() {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = rcgen::CertifiedIssuer::self_signed(authority, authority_key).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &authority).unwrap();
    let tls = rustls::ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            rustls_pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();

    let keys = S3Keys::fresh();
    let options = S3Options {
        keys: vec![keys.clone()],
        buckets: vec![BUCKET.to_owned()],
        tls: Some(tls.into()),
        ..S3Options::default()
    };
    let server = S3Server::start(options).await.unwrap();
    assert!(server.endpoint().starts_with("https://"));
    let trusting = ClientOptions { ca_pem: Some(authority.pem().into_bytes()), ..ClientOptions::default() };
    let trusting = client_with(&server.endpoint(), &keys, &trusting);
    trusting.put_object().bucket(BUCKET).key("k").body(body("x")).send().await.unwrap();
    let other = client(&server.endpoint(), &keys);
    assert!(super::stage::was_cut(&other.list_objects_v2().bucket(BUCKET).send().await.unwrap_err()));
}
