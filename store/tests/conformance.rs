//! Every driver passes the suite. Without a real S3 server, that one is skipped aloud.

use std::io::Write;
use std::path::Path;

use bronzenail_store::{S3Options, Store, conformance};

#[tokio::test(flavor = "multi_thread")]
async fn memory_keeps_the_contract() {
    conformance::run_all(&Store::memory(), "suite").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::directory(&folder.path().join("made/on/the/way")).await.unwrap();
    conformance::run_all(&store, "suite").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_keeps_the_contract() {
    let Ok(endpoint) = std::env::var("BRONZENAIL_LAB_S3_ENDPOINT") else {
        return skip("S3 conformance", "BRONZENAIL_LAB_S3_ENDPOINT names no server; tests/run starts one");
    };
    let bucket = format!("conformance-{:08x}", rand::random::<u32>());
    make_bucket(&endpoint, &bucket).await;
    let mut options = S3Options::new(bucket);
    options.endpoint = Some(endpoint);
    let store = Store::s3(options).await.unwrap();
    conformance::run_all(&store, "suite").await;
}

/// The store itself never makes one.
async fn make_bucket(endpoint: &str, bucket: &str) {
    let var = |name| std::env::var(name).expect("tests/run sets it beside the endpoint");
    let (access, secret) = (var("BRONZENAIL_LAB_S3_ACCESS_KEY"), var("BRONZENAIL_LAB_S3_SECRET_KEY"));
    let config = aws_sdk_s3::Config::builder()
        .behavior_version_latest()
        .region(aws_sdk_s3::config::Region::new("us-east-1"))
        .endpoint_url(endpoint)
        .force_path_style(true)
        .credentials_provider(aws_credential_types::Credentials::new(access, secret, None, None, "the lab"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    aws_sdk_s3::Client::from_conf(config).create_bucket().bucket(bucket).send().await.expect("a bucket can be made");
}

/// A driver that is not in this file would be tested by nobody.
#[test]
fn every_driver_is_in_the_suite() {
    let mut drivers = Vec::new();
    drivers_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut drivers);
    drivers.sort();
    // Who adds a driver adds it here, and its test above.
    assert_eq!(drivers, ["Directory", "Memory", "S3"]);
    let here = include_str!("conformance.rs");
    for name in ["memory", "a_directory", "s3"] {
        let test = format!("async fn {name}_keeps_the_contract() {{");
        let body = here.split_once(&test).and_then(|(_, rest)| rest.split_once("\n}\n")).map(|(body, _)| body);
        assert!(body.is_some_and(|body| body.contains("conformance::run_all(")), "{name} is not run through the suite");
    }
}

fn drivers_below(folder: &Path, drivers: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("the sources are beside the tests") {
        let path = entry.expect("a folder that is there can be read").path();
        if path.is_dir() {
            drivers_below(&path, drivers);
            continue;
        }
        // The one that is faulty on purpose is compiled for tests alone.
        if path.ends_with("faulty.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("source text is UTF-8");
        let named = text.lines().filter_map(|line| line.strip_prefix("impl Driver for ")?.split([' ', '{']).next());
        drivers.extend(named.map(str::to_owned));
    }
}

fn skip(what: &str, why: &str) {
    let line = format!("skipped: {what} ({why})");
    eprintln!("{line}");
    if let Some(path) = std::env::var_os("BRONZENAIL_LAB_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| writeln!(file, "{line}")).expect("the list of skips can be written");
    }
}
