//! The real server, and the front before it: what holds for the embedded one must hold for the real one.

use bronzenail_lab::ceph::Rgw;
use bronzenail_lab::front::{Action, Front, FrontOptions, Lie, Operation, Rule, StoreTrait};
use bronzenail_lab::s3::client;
use bronzenail_lab::skip;

use super::stage::{PART, body, pattern, refusal};

fn rgw(what: &str) -> Option<Rgw> {
    match Rgw::from_env() {
        Ok(rgw) => Some(rgw),
        Err(why) => {
            skip(what, why);
            None
        }
    }
}

#[tokio::test]
async fn requests_pass_the_front_with_their_signature_intact() {
    let Some(rgw) = rgw("the front before a Ceph RGW") else { return };
    let bucket = rgw.fresh_bucket("front").await.unwrap();
    let front = Front::start(FrontOptions::before(rgw.address().unwrap())).await.unwrap();
    let client = client(&front.endpoint(), &rgw.keys);
    client.put_object().bucket(&bucket).key("a b+c/é").body(body(pattern(1000))).send().await.unwrap();
    let got = client.get_object().bucket(&bucket).key("a b+c/é").send().await.unwrap();
    assert_eq!(got.body.collect().await.unwrap().to_vec(), pattern(1000));
    let again = client.put_object().bucket(&bucket).key("a b+c/é").if_none_match("*").body(body("x")).send().await;
    assert_eq!(refusal(&again.unwrap_err()).1, 412);
    assert_eq!(client.list_objects_v2().bucket(&bucket).send().await.unwrap().contents().len(), 1);
    assert!(front.log().iter().all(|seen| seen.reached_store()));
}

#[tokio::test]
async fn what_the_front_signs_anew_is_accepted_by_the_real_store() {
    let Some(rgw) = rgw("lies before a Ceph RGW") else { return };
    let bucket = rgw.fresh_bucket("lies").await.unwrap();
    let options = FrontOptions::before(rgw.address().unwrap())
        .keys(rgw.keys.clone())
        .rule(Rule::new(Action::Store(StoreTrait::IgnoresIfNoneMatch)))
        .rule(Rule::new(Action::Lie(Lie::Truncates(PART as u64))).on(Operation::CompleteMultipartUpload));
    let front = Front::start(options).await.unwrap();
    let client = client(&front.endpoint(), &rgw.keys);
    for bytes in ["first", "second"] {
        let put = client.put_object().bucket(&bucket).key("k").if_none_match("*").body(body(bytes));
        put.send().await.unwrap();
    }
    let created = client.create_multipart_upload().bucket(&bucket).key("m").send().await.unwrap();
    let upload = created.upload_id.unwrap();
    let mut parts = Vec::new();
    for (number, bytes) in [(1, PART), (2, 10)] {
        let call = client.upload_part().bucket(&bucket).key("m").upload_id(&upload).part_number(number);
        let sent = call.body(body(pattern(bytes))).send().await.unwrap();
        parts.push(aws_sdk_s3::types::CompletedPart::builder().part_number(number).set_e_tag(sent.e_tag).build());
    }
    let parts = aws_sdk_s3::types::CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
    let call = client.complete_multipart_upload().bucket(&bucket).key("m").upload_id(&upload).multipart_upload(parts);
    // Ceph 16 answers a completion with an empty <ETag>: only HEAD tells what the store has.
    call.send().await.unwrap();
    let kept = client.head_object().bucket(&bucket).key("m").send().await.unwrap();
    assert_eq!(kept.content_length, Some(PART as i64));
}

#[tokio::test]
async fn a_second_user_may_do_only_what_the_policy_says() {
    let Some(rgw) = rgw("policies on a Ceph RGW") else { return };
    let bucket = rgw.fresh_bucket("policy").await.unwrap();
    let user = match rgw.fresh_user("policy") {
        Ok(user) => user,
        Err(bronzenail_lab::ceph::RgwError::NoAdministrator(why)) => return skip("policies on a Ceph RGW", why),
        Err(error) => panic!("{error:?}"),
    };
    let theirs = client(&rgw.endpoint, &user.keys);
    let put = || theirs.put_object().bucket(&bucket).key("k").body(body("x")).send();
    assert_eq!(refusal(&put().await.unwrap_err()).1, 403);
    let policy = format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":{{"AWS":["{}"]}},
            "Action":["s3:PutObject"],"Resource":["arn:aws:s3:::{bucket}/*"]}}]}}"#,
        user.arn()
    );
    rgw.set_policy(&bucket, &policy).await.unwrap();
    put().await.unwrap();
    let delete = theirs.delete_object().bucket(&bucket).key("k").send().await;
    assert_eq!(refusal(&delete.unwrap_err()).1, 403);
}

#[tokio::test]
async fn versions_are_kept_and_locks_hold() {
    let Some(rgw) = rgw("versions and locks on a Ceph RGW") else { return };
    let client = rgw.client();
    let bucket = rgw.fresh_versioned_bucket("versions").await.unwrap();
    for bytes in ["first", "second"] {
        client.put_object().bucket(&bucket).key("k").body(body(bytes)).send().await.unwrap();
    }
    client.delete_object().bucket(&bucket).key("k").send().await.unwrap();
    let versions = client.list_object_versions().bucket(&bucket).send().await.unwrap();
    assert_eq!((versions.versions().len(), versions.delete_markers().len()), (2, 1));

    let bucket = rgw.fresh_locked_bucket("locks").await.unwrap();
    let until = aws_sdk_s3::primitives::DateTime::from_secs(chrono::Utc::now().timestamp() + 3600);
    let put = client.put_object().bucket(&bucket).key("k").body(body("x"));
    let put = put.object_lock_mode(aws_sdk_s3::types::ObjectLockMode::Governance).object_lock_retain_until_date(until);
    // S3 demands a digest with whatever locks an object.
    let put = put.checksum_algorithm(aws_sdk_s3::types::ChecksumAlgorithm::Sha256).send().await;
    let version = match put {
        Ok(put) => put.version_id.unwrap(),
        Err(error) => panic!("{error:?}"),
    };
    let delete = client.delete_object().bucket(&bucket).key("k").version_id(version).send().await;
    assert_eq!(refusal(&delete.unwrap_err()).1, 403);
}
