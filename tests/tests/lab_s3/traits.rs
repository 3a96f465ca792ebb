//! Lesser stores: what each of them lacks must really be lacking.

use aws_sdk_s3::types::{Delete, ObjectIdentifier};
use bronzenail_lab::front::{Action, Front, FrontOptions, Operation, Rule, StoreTrait};
use bronzenail_lab::s3::{ClientOptions, S3Keys, S3Options, S3Server, client, client_with};

use super::stage::{BUCKET, PART, Stage, body, pattern, refusal, stage};

async fn lesser(store_trait: StoreTrait) -> Stage {
    stage([Rule::new(Action::Store(store_trait))]).await
}

#[tokio::test]
async fn a_store_that_ignores_conditions_overwrites() {
    let stage = lesser(StoreTrait::IgnoresIfNoneMatch).await;
    for bytes in ["first", "second"] {
        let put = stage.client.put_object().bucket(BUCKET).key("a+b c/é").metadata("m", "v").if_none_match("*");
        put.body(body(bytes)).send().await.unwrap();
        assert_eq!(stage.server.object(BUCKET, "a+b c/é").unwrap(), bytes);
    }
    assert_eq!(stage.server.metadata(BUCKET, "a+b c/é").unwrap()["m"], "v");
    assert!(stage.front.seen(Operation::PutObject).iter().all(|seen| seen.if_none_match() == Some("*")));
}

#[tokio::test]
async fn a_store_without_the_new_checksums_refuses_them() {
    for (store_trait, status) in [(StoreTrait::RefusesChecksums, 400), (StoreTrait::LacksChecksums, 501)] {
        let stage = lesser(store_trait).await;
        let options = ClientOptions { checksums_always: true, ..ClientOptions::default() };
        let modern = client_with(&stage.front.endpoint(), &stage.keys, &options);
        let error = modern.put_object().bucket(BUCKET).key("k").body(body("x")).send().await.unwrap_err();
        assert_eq!(refusal(&error).1, status);
        assert!(!stage.front.log()[0].checksum_headers().is_empty());
        stage.client.put_object().bucket(BUCKET).key("k").body(body("x")).send().await.unwrap();
    }
}

#[tokio::test]
async fn a_store_that_wants_a_length_refuses_chunked_bodies() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let stage = lesser(StoreTrait::RequiresContentLength).await;
    let mut wire = tokio::net::TcpStream::connect(stage.front.address()).await.unwrap();
    let request =
        "PUT /b/k HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    wire.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    wire.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 411"), "{answer}");
    stage.client.put_object().bucket(BUCKET).key("k").body(body("x")).send().await.unwrap();
}

#[tokio::test]
async fn a_store_that_wants_an_md5_refuses_batches_without_one() {
    let stage = lesser(StoreTrait::RequiresContentMd5).await;
    let one = ObjectIdentifier::builder().key("k").build().unwrap();
    let delete = Delete::builder().objects(one).build().unwrap();
    let error = stage.client.delete_objects().bucket(BUCKET).delete(delete).send().await.unwrap_err();
    assert_eq!(refusal(&error), ("MissingContentMD5".to_owned(), 400));
    stage.client.delete_object().bucket(BUCKET).key("k").send().await.unwrap();
}

#[tokio::test]
async fn a_store_takes_only_so_many_parts() {
    let stage = lesser(StoreTrait::PartsAtMost(2)).await;
    stage.upload("k", &[PART, 10]).await.unwrap();
    let upload = stage.begin("k").await;
    let call = stage.client.upload_part().bucket(BUCKET).key("k").upload_id(upload).part_number(3);
    assert_eq!(refusal(&call.body(body("x")).send().await.unwrap_err()).0, "InvalidArgument");
}

#[tokio::test]
async fn a_store_wants_equal_parts_and_says_so_only_at_the_end() {
    let stage = lesser(StoreTrait::RequiresEqualParts).await;
    stage.upload("equal", &[PART, PART, 10]).await.unwrap();
    for sizes in [[PART, PART + 1, 10], [PART, PART, PART + 1]] {
        assert_eq!(refusal(&stage.upload("unequal", &sizes).await.unwrap_err()), ("InvalidPart".to_owned(), 400));
    }
    assert!(stage.server.object(BUCKET, "unequal").is_none());
}

#[tokio::test]
async fn a_store_answers_only_to_virtual_hosts_or_only_to_paths() {
    let keys = S3Keys::fresh();
    let options = S3Options {
        keys: vec![keys.clone()],
        buckets: vec![BUCKET.to_owned()],
        domain: Some("s3.test".to_owned()),
        ..S3Options::default()
    };
    let server = S3Server::start(options).await.unwrap();
    let mut options =
        FrontOptions::before(server.address()).rule(Rule::new(Action::Store(StoreTrait::VirtualHostsOnly)));
    options.domain = Some("s3.test".to_owned());
    let front = Front::start(options).await.unwrap();

    let path_style = client(&front.endpoint(), &keys);
    let put = |client: &aws_sdk_s3::Client| client.put_object().bucket(BUCKET).key("dir/k").body(body(pattern(9)));
    assert_eq!(refusal(&put(&path_style).send().await.unwrap_err()).0, "VirtualHostStyleRequired");
    let endpoint = format!("http://s3.test:{}", front.address().port());
    let options = ClientOptions { virtual_hosts: true, ..ClientOptions::default() };
    let virtual_hosts = client_with(&endpoint, &keys, &options);
    put(&virtual_hosts).send().await.unwrap();
    assert_eq!(server.object(BUCKET, "dir/k").unwrap(), pattern(9));
    let seen = front.log().pop().unwrap();
    assert!(seen.virtual_host);
    assert_eq!((seen.bucket.as_deref(), seen.key.as_deref()), (Some(BUCKET), Some("dir/k")));

    front.clear_rules();
    front.rule(Rule::new(Action::Store(StoreTrait::PathStyleOnly)));
    assert_eq!(refusal(&put(&virtual_hosts).send().await.unwrap_err()).1, 404);
    put(&path_style).send().await.unwrap();
}
