//! From settings to a configuration that can be acted on: parse, validate, build. Nothing is contacted here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use bronzenail_cli::log::{Format, Level};
use bronzenail_cli::{ConfigError, Values, termination};
use bronzenail_format::seal::{LEVEL_DEFAULT, LEVEL_MAX, LEVEL_MIN};
use bronzenail_format::{ClusterName, Prefix, Recipients};
use bronzenail_store::parts::PART_BYTES_DEFAULT;
use bronzenail_store::{
    Addressing, ChecksumMode, ObjectLock, ObjectLockMode, S3Options, ServerSideEncryption, Store, UploadOptions,
};
use bronzenail_talos::{ConnectOptions, Context, Deadlines, Endpoint, Node, TalosConfig};
use chrono::{DateTime, Utc};

use crate::arguments::Arguments;
use crate::error::RunError;
use crate::settings::SETTINGS;

/// The environment as a function, so that tests need not change their own.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Everything that a run needs, validated.
#[derive(Debug)]
pub struct Config {
    /// Whose backup.
    pub cluster: ClusterName,
    /// Below which folder.
    pub prefix: Prefix,
    /// Free text for the manifest.
    pub label: Option<String>,
    /// Who can open it.
    pub recipients: Recipients,
    /// Where to connect to.
    pub talos: TalosOptions,
    /// Where to store.
    pub target: Target,
    /// How to upload.
    pub upload: UploadOptions,
    /// How to compress.
    pub compression: Compression,
    /// Whether the stored object is opened again.
    pub read_back: bool,
    /// What to say about settings that are understood but change nothing.
    pub notes: Vec<String>,
}

/// The Talos side.
#[derive(Debug)]
pub struct TalosOptions {
    /// Endpoints, CA and client certificate.
    pub context: Context,
    /// The node that was asked for.
    pub node: Option<Node>,
    /// Deadlines of the connection.
    pub connect: ConnectOptions,
    /// Deadlines of the snapshot.
    pub deadlines: Deadlines,
}

/// Where backups go.
#[derive(Clone, Debug)]
pub enum Target {
    /// A bucket.
    S3(Box<S3Options>),
    /// A directory.
    Directory(PathBuf),
}

impl Target {
    /// Opens it. Sends nothing.
    ///
    /// # Errors
    /// It cannot work.
    pub async fn open(self) -> Result<Store, RunError> {
        let opened = match self {
            Self::S3(options) => Store::s3(*options).await,
            Self::Directory(path) => Store::directory(&path).await,
        };
        opened.map_err(RunError::Store)
    }
}

/// zstd's level and threads.
#[derive(Clone, Copy, Debug)]
pub struct Compression {
    /// 1 to 19.
    pub level: i32,
    /// Threads beside the one that seals.
    pub workers: u32,
}

/// How the program talks; needed before anything else can go wrong.
#[derive(Clone, Debug)]
pub struct Talk {
    /// One JSON document.
    pub json: bool,
    /// No progress.
    pub quiet: bool,
    /// How much is logged.
    pub log: Level,
    /// How it is logged.
    pub format: Format,
    /// Kubernetes' file.
    pub termination_log: PathBuf,
}

impl Talk {
    /// What the settings say.
    ///
    /// # Errors
    /// A value that cannot be used.
    pub fn from_values(values: &Values) -> Result<Self, RunError> {
        let default = Self::default();
        Ok(Self {
            json: values.switch("json")?,
            quiet: values.switch("quiet")?,
            log: values.with("log", Level::from_str)?.unwrap_or(default.log),
            format: values.with("log-format", Format::from_str)?.unwrap_or(default.format),
            termination_log: values.text("termination-log").map_or(default.termination_log, PathBuf::from),
        })
    }
}

/// What holds until the settings are read, and so for what is wrong with them.
impl Default for Talk {
    fn default() -> Self {
        Self {
            json: false,
            quiet: false,
            log: Level::from_str("warn").expect("a name of the list"),
            format: Format::Text,
            termination_log: termination::DEFAULT_PATH.into(),
        }
    }
}

/// The settings in force.
///
/// # Errors
/// A file, key or variable that cannot be used.
pub fn values(arguments: &Arguments, env: Env<'_>) -> Result<Values, RunError> {
    let file = match &arguments.config {
        Some(path) => Some((path.as_str(), read("the configuration", path)?)),
        None => None,
    };
    Ok(Values::layered(SETTINGS, &arguments.flags, env, file.as_ref().map(|(path, text)| (*path, text.as_str())))?)
}

fn usage(what: impl Into<String>, hint: impl Into<String>) -> RunError {
    RunError::Usage { what: what.into(), hint: hint.into() }
}

fn read(what: &'static str, path: &str) -> Result<String, RunError> {
    std::fs::read_to_string(path).map_err(|source| RunError::File { what, path: path.to_owned(), source })
}

impl Config {
    /// Validates everything that can be without contacting anyone.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn build(values: &Values, env: Env<'_>, now: DateTime<Utc>) -> Result<Self, RunError> {
        let notes = legacy_switches(env)?;
        let target = target(values, env, now)?;
        let recipients = recipients(values)?;
        let upload = upload(values)?;
        let compression = compression(values)?;
        let talos = talos(values, env, now)?;
        let cluster = match values.with("cluster", |text| text.parse().map_err(|e| explained(&e)))? {
            Some(cluster) => cluster,
            None => talos.context.name().parse::<ClusterName>().map_err(|_| {
                let what = format!("the talosconfig's context `{}` cannot be a cluster's name", talos.context.name());
                usage(what, "give the name with --cluster")
            })?,
        };
        let prefix = values.text("prefix").unwrap_or_default().parse::<Prefix>()?;
        Ok(Self {
            cluster,
            prefix,
            label: values.text("label").filter(|label| !label.is_empty()).map(str::to_owned),
            recipients,
            talos,
            target,
            upload,
            compression,
            read_back: !values.switch("no-read-back")?,
            notes,
        })
    }
}

fn explained(error: &bronzenail_format::NameError) -> String {
    format!("{error}; {}", error.hint())
}

/// talos-backup's switches that mean something else here, or nothing.
fn legacy_switches(env: Env<'_>) -> Result<Vec<String>, RunError> {
    let is = |name: &str, expected: &[&str]| {
        let value = env(name).and_then(|value| value.into_string().ok()).unwrap_or_default();
        expected.contains(&value.trim().to_ascii_lowercase().as_str())
    };
    if is("DISABLE_ENCRYPTION", &["true", "1", "yes", "on"]) {
        return Err(usage(
            "DISABLE_ENCRYPTION=true: encryption cannot be turned off",
            "an etcd snapshot holds every Secret of the cluster; unset the variable and set AGE_X25519_PUBLIC_KEY to the public \
             key that `age-keygen -o key.txt` prints",
        ));
    }
    let mut notes = Vec::new();
    if is("ENABLE_COMPRESSION", &["false", "0", "no", "off"]) {
        notes.push("ENABLE_COMPRESSION=false has no effect: backups are always compressed".to_owned());
    }
    Ok(notes)
}

fn target(values: &Values, env: Env<'_>, now: DateTime<Utc>) -> Result<Target, RunError> {
    match (values.text("bucket"), values.text("dir")) {
        (Some(bucket), None) => Ok(Target::S3(Box::new(s3(values, bucket, env, now)?))),
        (None, Some(dir)) if !dir.is_empty() => Ok(Target::Directory(dir.into())),
        (Some(_), Some(_)) => {
            let origins: Vec<String> =
                ["bucket", "dir"].iter().filter_map(|name| values.origin(name)).map(ToString::to_string).collect();
            Err(usage(format!("both {} are set", origins.join(" and ")), "a backup goes to a bucket or to a directory"))
        }
        _ => Err(usage(
            "nowhere to store: neither a bucket nor a directory is set",
            "give --bucket NAME (or BRONZENAIL_BUCKET, or BUCKET), or --dir PATH; `bronzenail-backup run --help` lists everything",
        )),
    }
}

fn s3(values: &Values, bucket: &str, env: Env<'_>, now: DateTime<Utc>) -> Result<S3Options, RunError> {
    let mut options = S3Options::new(bucket);
    options.endpoint = values.text("s3-endpoint").map(str::to_owned);
    options.region = values.text("s3-region").map(str::to_owned).or_else(|| region_beside_an_empty_one(env, &options));
    options.storage_class = values.text("s3-storage-class").map(str::to_owned);
    if let Some(addressing) = values.with("s3-addressing", addressing)? {
        options.addressing = addressing;
    }
    options.checksums = values.with("s3-checksums", checksums)?;
    if let Some(path) = values.text("s3-ca-file") {
        options.ca = Some((path.to_owned(), read("the CA file", path)?));
    }
    let key_id = values.text("s3-sse-kms-key").map(str::to_owned);
    options.sse = values.with("s3-sse", |text| sse(text, key_id.clone()))?;
    if key_id.is_some() && !matches!(options.sse, Some(ServerSideEncryption::Kms { .. })) {
        return Err(usage("--s3-sse-kms-key is set without --s3-sse aws:kms", "set both, or neither"));
    }
    options.object_lock = object_lock(values, now)?;
    options.legal_hold = values.switch("object-lock-legal-hold")?;
    options.connect_timeout = values.duration("s3-connect-timeout", options.connect_timeout)?;
    options.idle_timeout = values.duration("s3-idle-timeout", options.idle_timeout)?;
    options.reply_timeout = values.duration("s3-reply-timeout", options.reply_timeout)?;
    options.attempts_max = number(values, "s3-attempts", 1..=100)?.unwrap_or(options.attempts_max);
    Ok(options)
}

/// An empty AWS_REGION is an unset one. The SDK would take it for a region whose name is nothing.
fn region_beside_an_empty_one(env: Env<'_>, options: &S3Options) -> Option<String> {
    let text = |name: &str| env(name).and_then(|value| value.into_string().ok()).map(|text| text.trim().to_owned());
    if text("AWS_REGION")?.is_empty() {
        let other = text("AWS_DEFAULT_REGION").filter(|region| !region.is_empty());
        return other.or_else(|| options.endpoint.is_some().then(|| "us-east-1".to_owned()));
    }
    None
}

fn addressing(text: &str) -> Result<Addressing, String> {
    match text {
        "auto" => Ok(Addressing::Auto),
        "path" => Ok(Addressing::Path),
        "virtual-host" => Ok(Addressing::VirtualHost),
        _ => Err(format!("`{text}` is not one of auto, path, virtual-host")),
    }
}

fn checksums(text: &str) -> Result<ChecksumMode, String> {
    match text {
        "when-required" => Ok(ChecksumMode::WhenRequired),
        "when-supported" => Ok(ChecksumMode::WhenSupported),
        _ => Err(format!("`{text}` is not one of when-required, when-supported")),
    }
}

fn sse(text: &str, key_id: Option<String>) -> Result<ServerSideEncryption, String> {
    match text {
        "AES256" | "aes256" => Ok(ServerSideEncryption::Aes256),
        "aws:kms" => Ok(ServerSideEncryption::Kms { key_id }),
        _ => Err(format!("`{text}` is not one of AES256, aws:kms")),
    }
}

fn object_lock(values: &Values, now: DateTime<Utc>) -> Result<Option<ObjectLock>, RunError> {
    let mode = values.with("object-lock-mode", |text| match text.to_ascii_lowercase().as_str() {
        "governance" => Ok(ObjectLockMode::Governance),
        "compliance" => Ok(ObjectLockMode::Compliance),
        _ => Err(format!("`{text}` is not one of governance, compliance")),
    })?;
    let lock_for = values.with("object-lock-for", bronzenail_cli::units::parse_duration)?;
    match (mode, lock_for) {
        (None, None) => Ok(None),
        (Some(mode), Some(lock_for)) => Ok(Some(ObjectLock { mode, retain_until: now + lock_for })),
        _ => Err(usage("--object-lock-mode and --object-lock-for go together", "set both, or neither")),
    }
}

/// A whole number in a range.
fn number<T>(values: &Values, name: &str, range: std::ops::RangeInclusive<T>) -> Result<Option<T>, ConfigError>
where
    T: FromStr + PartialOrd + std::fmt::Display,
{
    values.with(name, |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("`{text}` is not a number from {} to {}", range.start(), range.end()))
    })
}

fn recipients(values: &Values) -> Result<Recipients, RunError> {
    let mut sources = Vec::new();
    for (text, origin) in values.list("recipient") {
        // Each by itself: a flag has no lines to count. Blanks part age's keys; in an SSH key they are part of it.
        let all_age = text.split_whitespace().all(|word| word.starts_with("age1"));
        let keys: Vec<&str> = if all_age { text.split_whitespace().collect() } else { vec![text] };
        sources.extend(keys.into_iter().map(|key| (origin.to_string(), key.to_owned())));
    }
    for (path, _) in values.list("recipients-file") {
        sources.push((path.to_owned(), read("the recipients file", path)?));
    }
    Ok(Recipients::parse(sources.iter().map(|(name, text)| (name.as_str(), text.as_str())))?)
}

fn upload(values: &Values) -> Result<UploadOptions, RunError> {
    let options = UploadOptions {
        part_size_bytes: values.size("part-size", PART_BYTES_DEFAULT)?,
        parts_in_flight: number(values, "parts-in-flight", 1..=64)?.unwrap_or(1),
        ..UploadOptions::default()
    };
    options.validate().map_err(RunError::Store)?;
    Ok(options)
}

fn compression(values: &Values) -> Result<Compression, RunError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = number(values, "workers", 0..=64)?.unwrap_or(if cores >= 2 { 2 } else { 0 });
    let level = number(values, "level", LEVEL_MIN..=LEVEL_MAX)?.unwrap_or(LEVEL_DEFAULT);
    Ok(Compression { level, workers })
}

/// One endpoint, or several parted by blanks.
fn endpoints(text: &str) -> Result<Vec<Endpoint>, String> {
    let parse = |word: &str| {
        word.parse::<Endpoint>()
            .map_err(|error| format!("{error}; write 10.0.0.2, cp-1.example.org:50000 or [fd00::2]:50000"))
    };
    text.split_whitespace().map(parse).collect()
}

fn talos(values: &Values, env: Env<'_>, now: DateTime<Utc>) -> Result<TalosOptions, RunError> {
    let node = values.with("node", |text| {
        text.parse::<Node>().map_err(|error| match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        })
    })?;
    let endpoints: Vec<Endpoint> = values.each("endpoint", endpoints)?.into_iter().flatten().collect();

    let config = TalosConfig::load(values.text("talosconfig").map(Path::new), env).map_err(RunError::from)?;
    let mut context = config.context(values.text("context")).map_err(RunError::from)?;
    if !endpoints.is_empty() {
        context = context.with_endpoints(endpoints);
    }
    let mut connect = ConnectOptions::new(now);
    connect.connect_timeout = values.duration("connect-timeout", connect.connect_timeout)?;
    let mut deadlines = Deadlines::default();
    deadlines.first_byte = values.duration("first-byte-timeout", deadlines.first_byte)?;
    deadlines.idle = values.duration("idle-timeout", deadlines.idle)?;
    connect.question_timeout = connect.question_timeout.min(deadlines.first_byte).max(Duration::from_millis(100));
    Ok(TalosOptions { context, node, connect, deadlines })
}
