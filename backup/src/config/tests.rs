use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use bronzenail_cli::Exit;
use bronzenail_cli::report::error_text;
use bronzenail_store::{Addressing, S3Options};
use bronzenail_talos::{ConnectOptions, Deadlines};
use tempfile::TempDir;

use super::*;
use crate::arguments;

const KEY: &str = "age1khpnnl86pzx96ttyjmldptsl5yn2v9jgmmzcjcufvk00ttkph9zs0ytgec";
const OTHER_KEY: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";

/// A talosconfig with one endpoint and a certificate that nobody looks at here.
fn talosconfig() -> &'static str {
    use base64::Engine;
    static TEXT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    TEXT.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed([]).unwrap();
        let field = |pem: String| base64::engine::general_purpose::STANDARD.encode(pem);
        let (crt, key) = (field(made.cert.pem()), field(made.signing_key.serialize_pem()));
        format!(
            "context: prod\ncontexts:\n  prod:\n    endpoints: [10.0.0.1]\n    ca: {crt}\n    crt: {crt}\n    key: {key}\n"
        )
    })
}

/// A program's surroundings: files in a folder, and an environment that holds what the test put there.
struct Place {
    folder: TempDir,
    env: BTreeMap<String, String>,
}

impl Place {
    /// A talosconfig where `TALOSCONFIG` says, and nothing else.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talosconfig");
        std::fs::write(&path, talosconfig()).unwrap();
        let env = BTreeMap::from([("TALOSCONFIG".to_owned(), path.to_string_lossy().into_owned())]);
        Self { folder, env }
    }

    fn with(mut self, env: &[(&str, &str)]) -> Self {
        self.env.extend(env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        self
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    }

    fn env(&self) -> impl Fn(&str) -> Option<OsString> {
        |name| self.env.get(name).map(OsString::from)
    }

    fn values(&self, flags: &[&str]) -> Result<Values, RunError> {
        let typed = ["bronzenail-backup", "run"].into_iter().chain(flags.iter().copied());
        values(&arguments::parse(typed).unwrap(), &self.env())
    }

    fn build(&self, flags: &[&str]) -> Result<Config, RunError> {
        Config::build(&self.values(flags)?, &self.env(), DateTime::from_timestamp(1_780_000_000, 0).unwrap())
    }

    /// What would be printed.
    fn refused(&self, flags: &[&str]) -> String {
        let error = self.build(flags).unwrap_err();
        assert_eq!(error.exit(), Exit::Usage, "{error}");
        error_text(&error, error.hint().as_deref())
    }
}

fn s3(config: &Config) -> &S3Options {
    match &config.target {
        Target::S3(options) => options,
        Target::Directory(path) => panic!("{}", path.display()),
    }
}

/// The sample CronJob of siderolabs/talos-backup, by the names and the kind of values in it.
const CRON_JOB: &[(&str, &str)] = &[
    ("AWS_ACCESS_KEY_ID", "talosbackup"),
    ("AWS_SECRET_ACCESS_KEY", "verysecret"),
    ("AWS_REGION", "us-west-2"),
    ("CUSTOM_S3_ENDPOINT", "https://s3.example.org:1234"),
    ("BUCKET", "talos-backups"),
    ("CLUSTER_NAME", "prod-cluster"),
    ("S3_PREFIX", "important/backups"),
    ("AGE_X25519_PUBLIC_KEY", KEY),
    ("ENABLE_COMPRESSION", "false"),
];

#[test]
fn the_environment_of_talos_backup_works_unchanged() {
    let place = Place::new().with(CRON_JOB);
    let config = place.build(&[]).unwrap();
    assert_eq!(config.cluster.as_str(), "prod-cluster");
    assert_eq!(config.prefix, "important/backups".parse().unwrap());
    assert_eq!(config.recipients.canonical(), [KEY]);
    assert_eq!(config.notes, ["ENABLE_COMPRESSION=false has no effect: backups are always compressed"]);
    assert!(config.read_back);
    let s3 = s3(&config);
    assert_eq!(s3.bucket, "talos-backups");
    assert_eq!(s3.endpoint.as_deref(), Some("https://s3.example.org:1234"));
    assert_eq!(s3.region.as_deref(), Some("us-west-2"));
    assert_eq!(s3.addressing, Addressing::Auto);
}

#[test]
fn what_talos_backup_leaves_out_has_the_same_default_here() {
    let place = Place::new().with(&[("BUCKET", "b"), ("AGE_X25519_PUBLIC_KEY", KEY), ("CLUSTER_NAME", "")]);
    let config = place.build(&[]).unwrap();
    assert_eq!(config.cluster.as_str(), "prod", "the talosconfig's context");
    assert_eq!(config.prefix, Prefix::default(), "the cluster's own folder");
    assert_eq!((&s3(&config).endpoint, &s3(&config).region), (&None, &None));
}

#[test]
fn every_odd_value_that_talos_backup_takes_is_taken() {
    let base = || Place::new().with(&[("BUCKET", "b"), ("AGE_X25519_PUBLIC_KEY", KEY)]);
    let endpoint = |value| s3(&base().with(&[("CUSTOM_S3_ENDPOINT", value)]).build(&[]).unwrap()).endpoint.clone();
    assert_eq!(endpoint("minio.example.org:9000").as_deref(), Some("https://minio.example.org:9000"));
    assert_eq!(endpoint("http://minio:9000/").as_deref(), Some("http://minio:9000/"));
    assert_eq!(endpoint(""), None);

    let style = |value| s3(&base().with(&[("USE_PATH_STYLE", value)]).build(&[]).unwrap()).addressing;
    assert_eq!(
        (style("true"), style("false"), style("")),
        (Addressing::Path, Addressing::VirtualHost, Addressing::Auto)
    );

    // Beta 3 puts both variables together, and parts the second by commas.
    let both = base().with(&[("AGE_RECIPIENT_PUBLIC_KEY", &format!("{OTHER_KEY},{KEY}"))]).build(&[]).unwrap();
    assert_eq!(both.recipients.canonical(), [KEY, OTHER_KEY]);

    for off in ["false", "0", ""] {
        assert!(base().with(&[("DISABLE_ENCRYPTION", off)]).build(&[]).is_ok());
    }
    assert!(base().with(&[("ENABLE_COMPRESSION", "true")]).build(&[]).unwrap().notes.is_empty());
}

#[test]
fn encryption_cannot_be_turned_off_and_the_way_out_is_told() {
    for on in ["true", "TRUE", "1", " true\n"] {
        let text = Place::new().with(CRON_JOB).with(&[("DISABLE_ENCRYPTION", on)]).refused(&[]);
        assert_eq!(
            text,
            "error: DISABLE_ENCRYPTION=true: encryption cannot be turned off\n\n\
             hint: an etcd snapshot holds every Secret of the cluster; unset the variable and set AGE_X25519_PUBLIC_KEY to \
             the public key that `age-keygen -o key.txt` prints\n"
        );
    }
}

#[test]
fn our_own_variables_come_before_those_of_others() {
    let place = Place::new().with(CRON_JOB).with(&[
        ("BRONZENAIL_BUCKET", "ours"),
        ("BRONZENAIL_CLUSTER", "homelab"),
        ("BRONZENAIL_PREFIX", "p"),
        ("BRONZENAIL_RECIPIENT", OTHER_KEY),
        ("BRONZENAIL_S3_ENDPOINT", "http://localhost:9000"),
        ("BRONZENAIL_S3_REGION", "eu-nl-1"),
        ("BRONZENAIL_S3_ADDRESSING", "virtual-host"),
    ]);
    let config = place.build(&[]).unwrap();
    assert_eq!((config.cluster.as_str(), &config.prefix), ("homelab", &"p".parse().unwrap()));
    assert_eq!(config.recipients.canonical(), [OTHER_KEY]);
    let s3 = s3(&config);
    assert_eq!((s3.bucket.as_str(), s3.endpoint.as_deref()), ("ours", Some("http://localhost:9000")));
    assert_eq!((s3.region.as_deref(), s3.addressing), (Some("eu-nl-1"), Addressing::VirtualHost));
}

#[test]
fn b41_an_empty_region_is_no_region() {
    let base = || Place::new().with(&[("BUCKET", "b"), ("AGE_X25519_PUBLIC_KEY", KEY), ("AWS_REGION", "")]);
    let region = |place: Place| s3(&place.build(&[]).unwrap()).region.clone();
    assert_eq!(region(base()), None);
    assert_eq!(region(base().with(&[("CUSTOM_S3_ENDPOINT", "http://x")])).as_deref(), Some("us-east-1"));
    assert_eq!(region(base().with(&[("AWS_DEFAULT_REGION", "eu-1")])).as_deref(), Some("eu-1"));
}

#[test]
fn recipients_come_from_flags_variables_and_files_at_once() {
    let place = Place::new();
    let file = place.file("keys.txt", &format!("# the vault\n{OTHER_KEY}\n\n"));
    let config = place.build(&["--bucket", "b", "--recipient", KEY, "--recipients-file", &file]).unwrap();
    assert_eq!(config.recipients.canonical(), [KEY, OTHER_KEY]);
    let parted = format!("{KEY} {OTHER_KEY}");
    let config = Place::new().with(&[("BUCKET", "b"), ("BRONZENAIL_RECIPIENT", &parted)]).build(&[]).unwrap();
    assert_eq!(config.recipients.canonical(), [KEY, OTHER_KEY]);
}

#[test]
fn endpoints_may_be_parted_in_any_way() {
    let place = Place::new().with(&[("BUCKET", "b"), ("AGE_X25519_PUBLIC_KEY", KEY)]);
    for text in ["10.0.0.2,[fd00::3]:6000", "10.0.0.2 [fd00::3]:6000", "10.0.0.2\n[fd00::3]:6000\n"] {
        let place =
            Place::new().with(&[("BUCKET", "b"), ("AGE_X25519_PUBLIC_KEY", KEY), ("BRONZENAIL_ENDPOINT", text)]);
        let config = place.build(&[]).unwrap();
        let endpoints: Vec<String> = config.talos.context.endpoints().iter().map(ToString::to_string).collect();
        assert_eq!(endpoints, ["10.0.0.2:50000", "[fd00::3]:6000"], "{text:?}");
    }
    let config = place.build(&[]).unwrap();
    assert_eq!(config.talos.context.endpoints().len(), 1, "those of the talosconfig");
}

#[test]
fn the_defaults_that_are_printed_are_those_in_force() {
    let config = Place::new().build(&["--bucket", "b", "--recipient", KEY]).unwrap();
    let (s3, defaults) = (s3(&config), S3Options::new("b"));
    assert_eq!(s3.connect_timeout, defaults.connect_timeout);
    assert_eq!(s3.idle_timeout, defaults.idle_timeout);
    assert_eq!(s3.reply_timeout, defaults.reply_timeout);
    assert_eq!(s3.attempts_max, defaults.attempts_max);
    assert_eq!(config.upload.part_size_bytes, PART_BYTES_DEFAULT);
    assert_eq!(config.compression.level, LEVEL_DEFAULT);
    assert_eq!(config.talos.deadlines, Deadlines::default());
    assert_eq!(config.talos.connect.connect_timeout, ConnectOptions::new(DateTime::UNIX_EPOCH).connect_timeout);
}

#[test]
fn what_is_set_arrives() {
    let place = Place::new();
    let ca = place.file("ca.pem", "not looked at yet");
    let flags = [
        "--bucket",
        "b",
        "--recipient",
        KEY,
        "--s3-ca-file",
        &ca,
        "--s3-checksums",
        "when-supported",
        "--s3-sse",
        "aws:kms",
        "--s3-sse-kms-key",
        "k",
        "--object-lock-mode",
        "compliance",
        "--object-lock-for",
        "30d",
        "--object-lock-legal-hold",
        "--s3-storage-class",
        "GLACIER_IR",
        "--s3-idle-timeout",
        "5s",
        "--s3-attempts",
        "2",
        "--part-size",
        "16MiB",
        "--parts-in-flight",
        "2",
        "--level",
        "19",
        "--workers",
        "0",
        "--no-read-back",
        "--node",
        "10.0.0.7",
        "--idle-timeout",
        "90s",
        "--first-byte-timeout",
        "2s",
        "--label",
        "pre-upgrade",
    ];
    let config = place.build(&flags).unwrap();
    let s3 = s3(&config);
    assert_eq!(s3.ca, Some((ca, "not looked at yet".to_owned())));
    assert_eq!(s3.checksums, Some(bronzenail_store::ChecksumMode::WhenSupported));
    assert_eq!(s3.sse, Some(bronzenail_store::ServerSideEncryption::Kms { key_id: Some("k".to_owned()) }));
    let lock = s3.object_lock.unwrap();
    assert_eq!(lock.mode, bronzenail_store::ObjectLockMode::Compliance);
    assert_eq!(lock.retain_until, DateTime::from_timestamp(1_780_000_000 + 30 * 86_400, 0).unwrap());
    assert!(s3.legal_hold);
    assert_eq!((s3.storage_class.as_deref(), s3.attempts_max), (Some("GLACIER_IR"), 2));
    assert_eq!(s3.idle_timeout, Duration::from_secs(5));
    assert_eq!((config.upload.part_size_bytes, config.upload.parts_in_flight), (16 << 20, 2));
    assert_eq!((config.compression.level, config.compression.workers, config.read_back), (19, 0, false));
    assert_eq!(config.talos.node.as_ref().map(ToString::to_string).as_deref(), Some("10.0.0.7"));
    let deadlines = Deadlines { first_byte: Duration::from_secs(2), idle: Duration::from_secs(90) };
    assert_eq!(config.talos.deadlines, deadlines);
    assert_eq!(config.label.as_deref(), Some("pre-upgrade"));
}

#[test]
fn what_cannot_be_used_is_refused_with_its_place_and_the_way_out() {
    let place = Place::new().with(&[("AGE_X25519_PUBLIC_KEY", KEY)]);
    let cases: &[(&[&str], &str)] = &[
        (
            &[],
            "error: nowhere to store: neither a bucket nor a directory is set\n\n\
             hint: give --bucket NAME (or BRONZENAIL_BUCKET, or BUCKET), or --dir PATH; `bronzenail-backup run --help` lists \
             everything\n",
        ),
        (
            &["--bucket", "b", "--dir", "/d"],
            "error: both --bucket and --dir are set\n\nhint: a backup goes to a bucket or to a directory\n",
        ),
        (&["--dir", "/d", "--level", "20"], "error: --level: `20` is not a number from 1 to 19\n"),
        (&["--dir", "/d", "--workers", "many"], "error: --workers: `many` is not a number from 0 to 64\n"),
        (&["--dir", "/d", "--part-size", "8MB"], "error: --part-size: `8MB` is not a size such as 8MiB or 1GiB\n"),
        (
            &["--dir", "/d", "--idle-timeout", "90"],
            "error: --idle-timeout: `90` is not a duration such as 90s, 5m, 12h or 30d\n",
        ),
        (
            &["--bucket", "b", "--s3-addressing", "vhost"],
            "error: --s3-addressing: `vhost` is not one of auto, path, virtual-host\n",
        ),
        (
            &["--bucket", "b", "--object-lock-mode", "governance"],
            "error: --object-lock-mode and --object-lock-for go together\n\nhint: set both, or neither\n",
        ),
        (
            &["--bucket", "b", "--s3-sse-kms-key", "k"],
            "error: --s3-sse-kms-key is set without --s3-sse aws:kms\n\nhint: set both, or neither\n",
        ),
        (&["--dir", "/d", "--endpoint", "10.0.0.1/x"], "error: --endpoint: "),
        (
            &["--dir", "/d", "--cluster", "a/b"],
            "error: --cluster: \"a/b\" is not a cluster name; a cluster name has 1 to 100 letters, digits, `.`, `_`, `@` or \
             `-`, and starts with a letter or a digit\n",
        ),
        (
            &["--dir", "/d", "--recipients-file", "/does/not/exist"],
            "error: could not read the recipients file /does/not/exist\n  caused by: No such file or directory (os error 2)\n",
        ),
        (&["--dir", "/d", "--context", "gone"], "error: could not use the talosconfig\n  caused by: the talosconfig "),
    ];
    for (flags, expected) in cases {
        let text = place.refused(flags);
        assert!(text.starts_with(expected), "{flags:?}:\n{text}\ninstead of:\n{expected}");
    }
}

#[test]
fn what_would_make_a_manifest_that_no_reader_takes_is_refused() {
    let place = Place::new();
    let label = |bytes: usize| place.build(&["--dir", "/d", "--recipient", KEY, "--label", &"x".repeat(bytes)]);
    assert!(label(LABEL_BYTES_MAX).is_ok());
    let refused = label(LABEL_BYTES_MAX + 1).unwrap_err().to_string();
    assert_eq!(refused, "--label: the label has 1001 bytes, more than the 1000 that it may have");
    assert_eq!(label(0).unwrap().label, None);

    let keys = |number: usize| -> String {
        (0..number).map(|_| age::x25519::Identity::generate().to_public().to_string() + "\n").collect()
    };
    let many = |number| place.build(&["--dir", "/d", "--recipients-file", &place.file("keys", &keys(number))]);
    assert!(many(RECIPIENTS_MAX).is_ok());
    assert_eq!(many(RECIPIENTS_MAX + 1).unwrap_err().exit(), Exit::Usage);
}

#[test]
fn without_a_recipient_there_is_no_backup() {
    let text = Place::new().refused(&["--dir", "/d"]);
    assert!(text.starts_with("error: no recipient was given\n\nhint: encryption cannot be turned off"), "{text}");
}

#[test]
fn a_private_key_where_a_public_one_belongs_is_refused_and_never_repeated() {
    let secret = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";
    let place = Place::new().with(&[("BUCKET", "b"), ("AGE_X25519_PUBLIC_KEY", secret)]);
    let text = place.refused(&[]);
    assert!(text.starts_with("error: AGE_X25519_PUBLIC_KEY is a private key\n"), "{text}");
    assert!(!text.contains(secret));
    let printed = place.values(&[]).unwrap().to_toml(SETTINGS);
    assert!(printed.contains("recipient = [\"(masked: a private key)\"]  # AGE_X25519_PUBLIC_KEY\n"), "{printed}");
}

#[test]
fn a_private_key_in_any_other_setting_is_refused_before_it_becomes_a_name_in_the_store() {
    let age = "age-secret-key-1gfpyysjzgfpyysjzgfpyysjzgfpyysjzgfpyysjzgfpyysjzgfpq4egaex";
    let pem = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaA==\n-----END OPENSSH PRIVATE KEY-----";
    for secret in [age, pem] {
        for flag in ["--prefix", "--label", "--cluster", "--recipients-file", "--talosconfig"] {
            let text = Place::new().refused(&["--dir", "/d", "--recipient", KEY, &format!("{flag}={secret}")]);
            assert!(text.starts_with(&format!("error: {flag} is a private key\n")), "{text}");
        }
    }
    let rotated = ["--dir", "/d", "--recipient", KEY, "--label", "after the private key was rotated"];
    assert!(Place::new().build(&rotated).is_ok());
}

#[test]
fn the_file_is_the_lowest_layer_that_is_written_by_hand() {
    let place = Place::new().with(&[("BRONZENAIL_LEVEL", "5"), ("AGE_X25519_PUBLIC_KEY", KEY)]);
    let file = place.file("c.toml", "dir = \"/d\"\nlevel = 7\nworkers = 1\nno-read-back = true\n");
    let config = place.build(&["--config", &file, "--workers", "2"]).unwrap();
    assert_eq!((config.compression.level, config.compression.workers, config.read_back), (5, 2, false));
    assert!(matches!(config.target, Target::Directory(path) if path == std::path::Path::new("/d")));

    let file = place.file("c.toml", "dir = \"/d\"\n\nworkres = 1\n");
    let text = place.refused(&["--config", &file]);
    assert_eq!(text, format!("error: {file}:3: unknown key `workres`\n\nhint: did you mean `workers`?\n"));
    let text = place.refused(&["--config", "/does/not/exist"]);
    assert!(text.starts_with("error: could not read the configuration /does/not/exist\n"), "{text}");
}

#[test]
fn how_it_talks_is_a_setting_too() {
    let talk = |flags: &[&str]| Talk::from_values(&Place::new().values(flags).unwrap());
    let quiet = talk(&[]).unwrap();
    assert_eq!((quiet.json, quiet.quiet, quiet.format), (false, false, Format::Text));
    assert_eq!(quiet.log, Talk::default().log);
    assert_eq!(quiet.termination_log, PathBuf::from(termination::DEFAULT_PATH));
    let all =
        talk(&["--json", "--quiet", "--log", "trace", "--log-format", "json", "--termination-log", "/t"]).unwrap();
    assert_eq!((all.json, all.quiet, all.format), (true, true, Format::Json));
    assert_eq!(all.termination_log, PathBuf::from("/t"));
    assert!(talk(&["--log", "loud"]).is_err() && talk(&["--log-format", "xml"]).is_err());
}
