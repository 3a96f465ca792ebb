//! Settings: the environment of siderolabs/talos-backup, and the layers of our own.

use bronzenail_lab::process::{Output, Program};
use bronzenail_lab::rig::{self, Rig};
use bronzenail_lab::s3::{S3Keys, S3Options, S3Server};

async fn store(keys: &S3Keys) -> S3Server {
    let options = S3Options { keys: vec![keys.clone()], buckets: vec!["backups".to_owned()], ..S3Options::default() };
    S3Server::start(options).await.unwrap()
}

/// What a CronJob of talos-backup sets, and no argument at all.
fn talos_backup(rig: &Rig, s3: &S3Server, keys: &S3Keys) -> Program {
    Program::backup()
        .unwrap()
        .env("CUSTOM_S3_ENDPOINT", s3.endpoint())
        .env("BUCKET", "backups")
        .env("AWS_REGION", "eu-central-1")
        .env("S3_PREFIX", "talos/etcd")
        .env("CLUSTER_NAME", "production")
        .env("AGE_X25519_PUBLIC_KEY", &rig.recipient)
        .env("ENABLE_COMPRESSION", "true")
        .env("DISABLE_ENCRYPTION", "false")
        .env("USE_PATH_STYLE", "true")
        .env("AWS_ACCESS_KEY_ID", &keys.access_key)
        .env("AWS_SECRET_ACCESS_KEY", &keys.secret_key)
        .env("TALOSCONFIG", rig.talosconfig())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_of_talos_backup_works_with_only_the_image_replaced() {
    let keys = S3Keys::fresh();
    let s3 = store(&keys).await;
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    talos_backup(&rig, &s3, &keys).run().await.unwrap().assert_code(0);
    let objects = s3.objects("backups");
    assert_eq!(objects.len(), 2);
    assert!(objects.keys().all(|key| key.starts_with("talos/etcd/production/production-")), "{:?}", objects.keys());
    let stored = objects.iter().find(|(key, _)| key.ends_with(".age")).unwrap().1;
    assert!(rig.open(stored).0 == rig::fixture_snapshot());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_context_names_the_cluster_if_nothing_else_does() {
    let keys = S3Keys::fresh();
    let s3 = store(&keys).await;
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    let run = talos_backup(&rig, &s3, &keys).env("CLUSTER_NAME", "").env("S3_PREFIX", "");
    run.run().await.unwrap().assert_code(0);
    let context = bronzenail_lab::emulator::CONTEXT;
    assert!(s3.objects("backups").keys().all(|key| key.starts_with(&format!("{context}/{context}-"))));
}

#[tokio::test(flavor = "multi_thread")]
async fn encryption_cannot_be_turned_off_and_compression_says_so() {
    let keys = S3Keys::fresh();
    let s3 = store(&keys).await;
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    let output = talos_backup(&rig, &s3, &keys).env("DISABLE_ENCRYPTION", "true").run().await.unwrap();
    output.assert_code(2);
    assert!(output.stderr.contains("DISABLE_ENCRYPTION=true") && output.stderr.contains("hint: "), "{output:#?}");
    assert!(s3.objects("backups").is_empty() && rig.emulator.calls().is_empty());

    let output = talos_backup(&rig, &s3, &keys).env("ENABLE_COMPRESSION", "false").run().await.unwrap();
    assert!(output.assert_code(0).stdout.contains("warning   ENABLE_COMPRESSION=false has no effect"), "{output:#?}");
}

async fn run(arguments: &[&str], env: &[(&str, &str)]) -> Output {
    let program = env.iter().fold(Program::backup().unwrap(), |program, (name, value)| program.env(name, value));
    program.args(arguments).run().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_exit_2_with_a_hint_and_contacts_nobody() {
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    let file = rig.path("c.toml");
    std::fs::write(&file, "part_size = '8MiB'\n").unwrap();
    let (file, config) = (file.to_str().unwrap(), rig.talosconfig());
    let key = rig.recipient.as_str();
    let cases: [(&[&str], &str); 13] = [
        (&[], "nothing to do"),
        (&["run"], "nowhere to store"),
        (&["run", "--dir", "d", "--bucket", "b"], "both --bucket and --dir are set"),
        (&["run", "--dir", "d"], "no recipient was given"),
        (&["run", "--dir", "d", "--recipient", "AGE-SECRET-KEY-1QQQ"], "--recipient is a private key"),
        (&["run", "--dir", "d", "--recipient", key, "--level", "20"], "--level: `20` is not a number from 1 to 19"),
        (&["run", "--dir", "d", "--recipient", key, "--part-size", "1MiB"], "is too small"),
        (&["run", "--dir", "d", "--recipient", key, "--cluster", "a/b"], "is not a cluster name"),
        (&["run", "--dir", "d", "--recipient", key, "--prefix", "s3://x"], "is a URL"),
        (&["run", "--dir", "d", "--recipient", key, "--context", "none"], "none"),
        (&["run", "--bucket", "b/etcd/", "--recipient", key], "has a folder in it"),
        (&["run", "--config", file], "unknown key `part_size`"),
        (&["run", "--recipients-file", "/does/not/exist", "--dir", "d"], "/does/not/exist"),
    ];
    for (arguments, expected) in cases {
        let output = run(arguments, &[("TALOSCONFIG", config.to_str().unwrap())]).await;
        output.assert_code(2);
        assert!(output.stderr.contains(expected), "{arguments:?}: {}", output.stderr);
        assert!(!output.stderr.contains("SECRET"), "{}", output.stderr);
    }
    assert!(rig.emulator.calls().is_empty());
    assert!(!std::path::Path::new("d").exists(), "a refused run makes no folder");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_in_force_are_printed_with_their_origin() {
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    let file = rig.path("c.toml");
    std::fs::write(&file, "prefix = 'from-file'\ncluster = 'from-file'\nlevel = 5\n").unwrap();
    let arguments = ["run", "--print-config", "--config", file.to_str().unwrap(), "--cluster", "from-flag"];
    let env =
        [("BRONZENAIL_PREFIX", "from-env"), ("CLUSTER_NAME", "x"), ("AGE_X25519_PUBLIC_KEY", "AGE-SECRET-KEY-1QQQ")];
    let output = run(&arguments, &env).await;
    output.assert_code(0);
    for line in
        ["cluster = \"from-flag\"  # --cluster", "prefix = \"from-env\"  # BRONZENAIL_PREFIX", "level = \"5\"  # "]
    {
        assert!(output.stdout.contains(line), "{line}: {}", output.stdout);
    }
    assert!(!output.stdout.contains("SECRET"), "{}", output.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn help_names_every_exit_code_and_variable() {
    let help = run(&["run", "--help"], &[]).await;
    help.assert_code(0);
    for expected in ["Exit codes:", "130", "BRONZENAIL_BUCKET", "CUSTOM_S3_ENDPOINT", "AWS_ACCESS_KEY_ID"] {
        assert!(help.stdout.contains(expected), "{expected}");
    }
    assert!(run(&["--version"], &[]).await.stdout.starts_with("bronzenail-backup "));
}

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_gets_one_short_line() {
    let rig = Rig::of_bytes(rig::fixture_snapshot()).await;
    let log = rig.path("termination-log");
    std::fs::write(&log, "").unwrap();
    let program = || rig.backup_to_directory().arg("--termination-log").arg(&log);
    program().run().await.unwrap().assert_code(0);
    let said = rig::read(&log).unwrap();
    assert!(said.starts_with("backup homelab-") && said.ends_with("evidence read-back"), "{said}");

    rig.emulator.set(bronzenail_lab::emulator::Fault::TruncateOk(100_000));
    program().run().await.unwrap().assert_code(1);
    let said = rig::read(&log).unwrap();
    assert!(said.contains("cut short") && said.lines().count() == 1, "{said}");
}
