//! The S3 driver before servers that answer as a script says. No sockets: the script stands where the network would.

use std::fmt;
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{Region, RequestChecksumCalculation, ResponseChecksumValidation};
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;

use super::watch::{Limits, Watched};
use super::*;

type Reply = Option<(u16, &'static str)>;
type Script = dyn Fn(&Asked) -> Reply + Send + Sync;

/// What was asked, and the how-manieth of its method it was.
struct Asked {
    method: String,
    uri: String,
    conditional: bool,
    count: usize,
}

/// Answers each request as the script says; `None` breaks the connection.
#[derive(Clone)]
struct Scripted(Arc<Script>, Arc<std::sync::Mutex<Vec<String>>>);

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

impl HttpConnector for Scripted {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (method, uri) = (request.method().to_owned(), request.uri().to_owned());
        let mut log = self.1.lock().unwrap();
        log.push(method.clone());
        let count = log.iter().filter(|asked| **asked == method).count();
        let conditional = request.headers().get("if-none-match") == Some("*");
        HttpConnectorFuture::ready(match (self.0)(&Asked { method, uri, conditional, count }) {
            Some((status, body)) => {
                let mut reply = HttpResponse::new(StatusCode::try_from(status).unwrap(), SdkBody::from(body));
                reply.headers_mut().insert("content-length", body.len().to_string());
                Ok(reply)
            }
            None => Err(ConnectorError::io("the connection was reset".into())),
        })
    }
}

struct Rig {
    s3: S3,
    log: Arc<std::sync::Mutex<Vec<String>>>,
}

fn rig(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Rig {
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    let retries = Arc::new(AtomicU64::new(0));
    let limits = Limits { idle: Duration::from_secs(3_600), reply: Duration::from_secs(3_600) };
    let scripted = Scripted(Arc::new(script), Arc::clone(&log));
    let connector = SharedHttpConnector::new(Watched::new(scripted, limits, Arc::clone(&retries)));
    let config = aws_sdk_s3::Config::builder()
        .behavior_version_latest()
        .region(Region::new("us-east-1"))
        .endpoint_url("http://store.test")
        .force_path_style(true)
        .credentials_provider(Credentials::new("the-key-id", "the-secret", Some("the-token".to_owned()), None, "test"))
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        .retry_config(RetryConfig::standard().with_max_attempts(3).with_initial_backoff(Duration::from_millis(1)))
        .sleep_impl(TokioSleep::new())
        .http_client(http_client_fn(move |_, _| connector.clone()))
        .build();
    let client = aws_sdk_s3::Client::from_conf(config);
    let options = S3Options { endpoint: Some("http://store.test".to_owned()), ..S3Options::new("b") };
    Rig { s3: S3 { shared: Arc::new(Shared { client, options }), retries }, log }
}

impl Rig {
    async fn create(&self) -> Result<Created, StoreError> {
        self.s3.create("key", Bytes::from_static(b"mine")).await
    }

    fn asked(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

const THERE: Reply = Some((200, "mine"));
const GONE: Reply = Some((404, ""));
const TAKEN: Reply = Some((412, "<Error><Code>PreconditionFailed</Code></Error>"));

#[tokio::test]
async fn b62_a_store_that_forgets_the_condition_does_not_replace_what_is_there() {
    let rig = rig(|asked| match asked.method.as_str() {
        "HEAD" => THERE,
        _ => Some((200, "")),
    });
    assert_eq!(rig.create().await.unwrap_err().kind(), StoreErrorKind::AlreadyExists);
    assert_eq!(rig.asked(), ["HEAD"], "nothing is put");
}

#[tokio::test]
async fn a_look_that_is_refused_leaves_the_condition_to_say_it() {
    let rig = rig(|asked| match asked.method.as_str() {
        "HEAD" => Some((403, "")),
        "PUT" if asked.conditional => Some((200, "")),
        _ => Some((500, "")),
    });
    assert_eq!(rig.create().await.unwrap(), Created::Enforced);
}

#[tokio::test]
async fn a_store_without_conditions_is_looked_at_first() {
    let rig = rig(|asked| match asked.method.as_str() {
        "HEAD" => GONE,
        "PUT" if asked.conditional => Some((501, "<Error><Code>NotImplemented</Code></Error>")),
        _ => Some((200, "")),
    });
    assert_eq!(rig.create().await.unwrap(), Created::LookedFirst);
}

#[tokio::test]
async fn b62_a_put_that_was_sent_once_never_takes_anothers_object_for_its_own() {
    let rig = rig(|asked| match (asked.method.as_str(), asked.count) {
        ("HEAD", 1) => GONE,
        ("PUT", _) => TAKEN,
        _ => THERE,
    });
    assert_eq!(rig.create().await.unwrap_err().kind(), StoreErrorKind::AlreadyExists);
    assert_eq!(rig.s3.retries(), 0);
}

#[tokio::test]
async fn b62_a_put_whose_reply_was_lost_finds_itself_when_it_is_sent_again() {
    for (body, created) in [("mine", true), ("hers", false), ("other", false)] {
        let rig = rig(move |asked| match (asked.method.as_str(), asked.count) {
            ("HEAD", 1) => GONE,
            ("PUT", 1) => None,
            ("PUT", _) => TAKEN,
            _ => Some((200, body)),
        });
        match created {
            true => assert_eq!(rig.create().await.unwrap(), Created::Enforced),
            false => assert_eq!(rig.create().await.unwrap_err().kind(), StoreErrorKind::AlreadyExists, "{body}"),
        }
        assert_eq!(rig.s3.retries(), 1);
    }
}

const NO_ENCODING: &str = "<ListBucketResult><IsTruncated>false</IsTruncated>\
    <Contents><Key>mine/a%2Fb+c</Key><Size>1</Size></Contents>\
    <Contents><Key>other/x</Key><Size>1</Size></Contents></ListBucketResult>";

#[tokio::test]
async fn b51_a_listing_has_the_keys_as_they_are_and_nothing_beside_the_prefix() {
    let rig = rig(|_| Some((200, NO_ENCODING)));
    let listed = rig.s3.list("mine/").await.unwrap();
    assert_eq!(listed.iter().map(|object| object.key.as_str()).collect::<Vec<_>>(), ["mine/a%2Fb+c"]);
}

#[tokio::test]
async fn b34_a_sweep_never_sees_unfinished_uploads_beside_the_prefix() {
    let rig = rig(|_| {
        let page = "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated><EncodingType>url</EncodingType>\
            <Upload><Key>mine/a%0Ab</Key><UploadId>1</UploadId></Upload>\
            <Upload><Key>other/x</Key><UploadId>2</UploadId></Upload></ListMultipartUploadsResult>";
        Some((200, page))
    });
    let open = rig.s3.open_uploads("mine/").await.unwrap();
    assert_eq!(open.iter().map(|open| (open.key.as_str(), open.id.as_str())).collect::<Vec<_>>(), [("mine/a\nb", "1")]);
}

#[tokio::test]
async fn a_listing_that_repeats_itself_or_breaks_off_is_an_error() {
    const TO_B: &str = "<ListBucketResult><IsTruncated>true</IsTruncated>\
        <NextContinuationToken>b</NextContinuationToken></ListBucketResult>";
    const TO_C: &str = "<ListBucketResult><IsTruncated>true</IsTruncated>\
        <NextContinuationToken>c</NextContinuationToken></ListBucketResult>";
    const TO_NOWHERE: &str = "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>";
    let circle = |asked: &Asked| match asked.uri.contains("continuation-token=b") {
        true => Some((200, TO_C)),
        false => Some((200, TO_B)),
    };
    let error = rig(circle).s3.list("").await.unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (StoreErrorKind::Damaged, "could not list the bucket"));
    let error = rig(|_| Some((200, TO_NOWHERE))).s3.list("p/").await.unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (StoreErrorKind::Damaged, "could not list p/"));
    assert_eq!(rig(|_| Some((403, ""))).s3.list("").await.unwrap_err().kind(), StoreErrorKind::Denied);
}

#[tokio::test]
async fn b73_a_reply_of_fewer_bytes_than_it_said_is_an_error_at_its_end() {
    let mut rig = rig(|_| None);
    rig.s3.shared = short_reply();
    let read: Result<Vec<Bytes>, _> = rig.s3.read("key", 0).await.unwrap().try_collect().await;
    assert_eq!(read.unwrap_err().to_string(), "could not read key to its end");
}

/// Says 10 bytes and ends after 4, without an error.
fn short_reply() -> Arc<Shared> {
    #[derive(Debug)]
    struct Short;
    impl HttpConnector for Short {
        fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
            let mut reply = HttpResponse::new(StatusCode::try_from(200).unwrap(), SdkBody::from("four"));
            reply.headers_mut().insert("content-length", "10");
            HttpConnectorFuture::ready(Ok(reply))
        }
    }
    let old = rig(|_| None).s3.shared;
    let connector = SharedHttpConnector::new(Short);
    let config = old.client.config().to_builder().http_client(http_client_fn(move |_, _| connector.clone())).build();
    Arc::new(Shared { client: aws_sdk_s3::Client::from_conf(config), options: old.options.clone() })
}

/// The chain of credentials ends in errors of its own: none was found, or a source that was found failed.
#[derive(Debug)]
struct NoCredentials(fn() -> CredentialsError);

impl ProvideCredentials for NoCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(Err((self.0)()))
    }
}

#[tokio::test]
async fn b46_credentials_that_cannot_be_had_are_not_called_a_broken_network() {
    let failures: [fn() -> CredentialsError; 2] = [
        || CredentialsError::not_loaded("no providers in chain provided credentials"),
        || CredentialsError::provider_error("request forbidden: IMDS is disabled"),
    ];
    for failure in failures {
        let mut rig = rig(|_| THERE);
        let old = &rig.s3.shared;
        let config = old.client.config().to_builder().credentials_provider(NoCredentials(failure)).build();
        let client = aws_sdk_s3::Client::from_conf(config);
        rig.s3.shared = Arc::new(Shared { client, options: old.options.clone() });
        let error = rig.s3.list("").await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Denied, "{error:?}");
        assert!(error.hint().is_some_and(|hint| hint.contains("AWS_WEB_IDENTITY_TOKEN_FILE")), "{error:?}");
        assert!(rig.asked().is_empty(), "nothing is sent without them");
    }
}

#[tokio::test]
async fn no_failure_carries_a_credential_or_a_header() {
    let replies: [Reply; 4] = [
        None,
        Some((403, "<Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>the-key-id</AWSAccessKeyId></Error>")),
        Some((200, "no XML at all")),
        Some((500, "<Error><Code>InternalError</Code></Error>")),
    ];
    for reply in replies {
        let rig = rig(move |_| reply);
        let mut failures = vec![rig.s3.list("p/").await.expect_err("must fail")];
        failures.extend(rig.s3.begin("key").await.err());
        failures.extend(rig.s3.stat("key").await.err());
        failures.extend(rig.create().await.err());
        for failure in failures {
            let text = format!("{failure} {failure:?}");
            for secret in ["the-key-id", "the-secret", "the-token", "Signature=", "uthorization", "x-amz-"] {
                assert!(!text.contains(secret), "{secret} in {text}");
            }
        }
    }
}

#[tokio::test]
async fn removing_is_told_apart_from_nothing_to_remove_and_from_a_refusal() {
    let script = |head: Reply, delete: Reply| {
        rig(move |asked| match asked.method.as_str() {
            "HEAD" => head,
            _ => delete,
        })
    };
    assert!(script(THERE, Some((204, ""))).s3.remove("key").await.unwrap());
    assert!(!script(GONE, Some((204, ""))).s3.remove("key").await.unwrap());
    assert!(!script(THERE, GONE).s3.remove("key").await.unwrap(), "someone else was faster");
    let locked = script(THERE, Some((403, "<Error><Code>AccessDenied</Code></Error>"))).s3.remove("key").await;
    assert_eq!(locked.unwrap_err().kind(), StoreErrorKind::Denied);
    let busy = script(THERE, Some((503, "<Error><Code>SlowDown</Code></Error>")));
    assert_eq!(busy.s3.remove("key").await.unwrap_err().kind(), StoreErrorKind::Unavailable);
    assert_eq!(busy.s3.retries(), 2, "B37: asked again before it is given up");
}
