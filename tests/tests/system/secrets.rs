//! Secrets in what goes wrong before and beside the store: broken files, keys in wrong places, proxies, token services.
//!
//! Invariant: whatever fails, at the highest log level, no output repeats a secret that the program was given.

use std::path::PathBuf;

use bronzenail_lab::process::{Output, Program};
use bronzenail_lab::rig::{self, Rig};
use bronzenail_lab::s3::{S3Keys, S3Options, S3Server, Sts};

use super::bucket::talos_key_pieces;

const BUCKET: &str = "backups";

/// A rig whose runs tell as much as they can.
struct Talkative {
    rig: Rig,
    last_words: PathBuf,
}

impl Talkative {
    async fn new() -> Self {
        let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
        let last_words = rig.path("termination-log");
        Self { rig, last_words }
    }

    fn loud(&self, program: Program) -> Program {
        std::fs::write(&self.last_words, "").unwrap();
        let program = program.args(["--log", "trace"]).arg("--termination-log").arg(&self.last_words);
        program.env("RUST_LOG", "trace").env("AWS_EC2_METADATA_DISABLED", "true")
    }

    fn to_directory(&self) -> Program {
        self.loud(self.rig.backup_to_directory())
    }

    fn to_bucket(&self, endpoint: &str) -> Program {
        self.loud(self.rig.backup().args(["--bucket", BUCKET, "--s3-endpoint", endpoint, "--s3-attempts", "1"]))
    }

    async fn run(&self, program: Program) -> Output {
        let mut output = program.run().await.unwrap();
        output.stderr.push_str(&rig::read(&self.last_words).unwrap());
        assert!(!output.stderr.contains("panicked"), "{output:#?}");
        output
    }

    async fn fails(&self, program: Program) -> Output {
        let output = self.run(program).await;
        assert!(matches!(output.code, Some(1 | 2)), "{output:#?}");
        output
    }
}

fn assert_silent(output: &Output, secrets: &[String]) {
    for secret in secrets {
        for said in [&output.stdout, &output.stderr] {
            assert!(!said.contains(secret.as_str()), "{secret} was said: {output:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_talosconfig_that_cannot_be_used_is_never_repeated() {
    let talkative = Talkative::new().await;
    let good = rig::read(&talkative.rig.talosconfig()).unwrap();
    let pieces = talos_key_pieces(&good);
    assert!(pieces.len() > 4);
    let key_line = good.lines().find(|line| line.trim_start().starts_with("key:")).unwrap();
    let crt_line = good.lines().find(|line| line.trim_start().starts_with("crt:")).unwrap();
    let (indent, key) = key_line.split_at(key_line.find("key:").unwrap());
    let value = key.trim_start_matches("key:").trim().trim_matches('"');
    let with = |line: String| good.replace(key_line, &line);
    let broken = [
        with(format!("{indent}key: \"{value}")),
        with(format!("{indent}key: [{value}]")),
        with(format!("{indent}key: {{{value}: {value}}}")),
        with(format!("{indent}key:{value}")),
        with(format!("{indent}{value}")),
        with(format!("{indent}key: \"{value}!\"")),
        with(format!("{indent}key: \"{}\"", &value[..value.len() - 5])),
        with(format!("\t{key}")),
        with(format!("{key_line}\n{key_line}")),
        with(format!("{key_line}\n{indent}{value}: 1")),
        good.replace(crt_line, &format!("{indent}crt: {value}")),
        good.replace("contexts:", &format!("contexts: {value}")),
        value.to_owned(),
    ];
    for (number, text) in broken.iter().enumerate() {
        assert_ne!(text, &good, "{number} is not broken");
        std::fs::write(talkative.rig.talosconfig(), text).unwrap();
        let output = talkative.run(talkative.to_directory()).await;
        assert_ne!(output.code, None, "{output:#?}");
        assert_silent(&output, &pieces);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_a_node_and_a_whole_run_into_a_directory_say_nothing_of_the_key() {
    let talkative = Talkative::new().await;
    for (roles, code) in [("os:reader", 1), ("os:etcd:backup", 0)] {
        talkative.rig.write_talosconfig(&[roles]);
        let mut secrets = talos_key_pieces(&rig::read(&talkative.rig.talosconfig()).unwrap());
        secrets.push("AGE-SECRET-KEY-".to_owned());
        let output = talkative.run(talkative.to_directory()).await;
        assert_silent(output.assert_code(code), &secrets);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_key_in_a_wrong_place_is_never_repeated() {
    let talkative = Talkative::new().await;
    let key = rig::read(&talkative.rig.identity_file).unwrap().trim().to_owned();
    let secrets = ["AGE-SECRET-KEY-".to_owned(), key["AGE-SECRET-KEY-".len()..].to_owned()];
    let settings = [
        "recipient",
        "cluster",
        "bucket",
        "prefix",
        "endpoint",
        "node",
        "idle-timeout",
        "s3-addressing",
        "s3-checksums",
        "s3-sse",
        "object-lock-mode",
        "object-lock-for",
        "s3-attempts",
        "part-size",
        "level",
        "workers",
        "log",
    ];
    for setting in settings {
        for text in [key.clone(), key.to_lowercase()] {
            let variable = format!("BRONZENAIL_{}", setting.replace('-', "_").to_uppercase());
            let program = talkative.rig.backup_to_directory().env("AWS_EC2_METADATA_DISABLED", "true");
            // A flag wins over a variable, and these come as flags in every rig.
            let program = match setting {
                "recipient" | "cluster" => program.args([&format!("--{setting}"), &text]),
                _ => program.env(variable, &text),
            };
            std::fs::write(&talkative.last_words, "").unwrap();
            let output = talkative.run(program.arg("--termination-log").arg(&talkative.last_words)).await;
            let lower: Vec<String> = secrets.iter().map(|secret| secret.to_lowercase()).collect();
            assert_silent(&output, &secrets);
            assert_silent(&output, &lower);
            assert_ne!(output.code, Some(0), "{setting}: {output:#?}");
        }
    }
    let file = talkative.to_directory().arg("--recipients-file").arg(&talkative.rig.identity_file);
    assert_silent(talkative.fails(file).await.assert_code(2), &secrets);
    let config = talkative.to_directory().arg("--config").arg(&talkative.rig.identity_file);
    assert_silent(talkative.fails(config).await.assert_code(2), &secrets);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_key_among_the_arguments_is_never_repeated() {
    let talkative = Talkative::new().await;
    let age = rig::read(&talkative.rig.identity_file).unwrap().trim().to_owned();
    let body = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ";
    let pem = format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----\n");
    let secrets = [age["AGE-SECRET-KEY-".len()..].to_owned(), body.to_owned()];
    let program = || Program::backup().unwrap().arg("run").arg("--dir").arg(talkative.rig.path("store"));
    for key in [&age, &pem] {
        for arguments in [vec!["--recipient", key], vec![key.as_str()], vec!["--log", key], vec!["--quiet", key]] {
            let output = program().args(arguments).run().await.unwrap();
            assert_silent(output.assert_code(2), &secrets);
            assert!(output.stderr.contains("private key"), "{output:#?}");
        }
        for flag in ["recipient", "config", "recipients-file", "talosconfig"] {
            let output = program().arg(format!("--{flag}={key}")).run().await.unwrap();
            assert_silent(output.assert_code(2), &secrets);
        }
        for arguments in [vec!["run", "--dir", "store"], vec!["run", "--help"]] {
            let output = Program::backup().unwrap().args(arguments).env("BRONZENAIL_CONFIG", key).run().await.unwrap();
            assert_silent(output.assert_code(2), &secrets);
        }
        let output = Program::backup().unwrap().arg(key).run().await.unwrap();
        assert_silent(output.assert_code(2), &secrets);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_do_not_work_are_never_repeated() {
    let talkative = Talkative::new().await;
    let keys = S3Keys::fresh();
    let options = S3Options { keys: vec![keys.clone()], buckets: vec![BUCKET.to_owned()], ..S3Options::default() };
    let s3 = S3Server::start(options).await.unwrap();
    let secret = "theSecretThatNobodyMaySay".to_owned();
    let secrets = [secret.clone()];

    let shared = talkative.rig.path("credentials");
    let files = [
        format!("[default]\naws_access_key_id = {}\naws_secret_access_key = {secret}\n", keys.access_key),
        format!("[default\naws_secret_access_key = {secret}\n"),
        format!("{secret}\n"),
        format!("[default]\n{secret}\n"),
        format!("[default]\ncredential_process = /bin/echo {secret}\n"),
        format!("[default]\ncredential_process = sh -c 'echo {secret} >&2; exit 1'\n"),
    ];
    for text in files {
        std::fs::write(&shared, text).unwrap();
        let program =
            talkative.to_bucket(&s3.endpoint()).env("AWS_SHARED_CREDENTIALS_FILE", &shared).env("PATH", "/bin");
        assert_silent(&talkative.fails(program).await, &secrets);
    }

    let sts = Sts::start(None).await.unwrap();
    let token = talkative.rig.path("token");
    std::fs::write(&token, &secret).unwrap();
    let program = talkative
        .to_bucket(&s3.endpoint())
        .env("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/backup")
        .env("AWS_WEB_IDENTITY_TOKEN_FILE", &token)
        .env("AWS_ENDPOINT_URL_STS", sts.endpoint());
    assert_silent(&talkative.fails(program).await, &secrets);
    assert_eq!(sts.seen()[0].token, secret, "the token was shown to the service");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_password_of_a_proxy_or_of_an_endpoint_is_never_repeated() {
    let talkative = Talkative::new().await;
    let keys = S3Keys::fresh();
    let with_keys = |program: Program| {
        let program = program.env("AWS_ACCESS_KEY_ID", &keys.access_key);
        program.env("AWS_SECRET_ACCESS_KEY", &keys.secret_key)
    };
    let secrets = ["proxyPassWord".to_owned(), keys.secret_key.clone()];
    // Nobody listens at the first; the second is no proxy's address at all.
    for proxy in
        ["http://user:proxyPassWord@127.0.0.1:9", "http://user:proxyPassWord@[nonsense", "user:proxyPassWord@x"]
    {
        let program = with_keys(talkative.to_bucket("http://store.invalid")).env("HTTP_PROXY", proxy);
        let program = program.env("HTTPS_PROXY", proxy).env("ALL_PROXY", proxy);
        assert_silent(&talkative.fails(program).await, &secrets);
    }
    for endpoint in
        ["http://user:proxyPassWord@127.0.0.1:9", "user:proxyPassWord@127.0.0.1:9", "http://:proxyPassWord@"]
    {
        assert_silent(&talkative.fails(with_keys(talkative.to_bucket(endpoint))).await, &secrets);
    }
}
