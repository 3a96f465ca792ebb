//! From settings to a configuration that can be acted on: parse, validate, build. Nothing is contacted here.

mod store;
mod talos;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use bronzenail_cli::config::is_private_key;
use bronzenail_cli::log::{Format, Level};
use bronzenail_cli::{ConfigError, Values, termination};
use bronzenail_format::seal::{LEVEL_DEFAULT, LEVEL_MAX, LEVEL_MIN};
use bronzenail_format::{ClusterName, Prefix, Recipients};
use bronzenail_store::UploadOptions;
use bronzenail_store::parts::PART_BYTES_DEFAULT;
use chrono::{DateTime, Utc};

pub use store::Target;
pub use talos::TalosOptions;

use crate::arguments::Arguments;
use crate::error::RunError;
use crate::settings::SETTINGS;

/// Enough for a sentence or two.
const LABEL_BYTES_MAX: usize = 1_000;
/// Each stands in the header and in the manifest, an RSA key with 700 bytes: so both stay far below what readers take.
const RECIPIENTS_MAX: usize = 200;

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
        // A path that cannot be read is repeated in the error; a key must not be.
        Some(path) if is_private_key(path) => return Err(RunError::private_key("--config (or BRONZENAIL_CONFIG)")),
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
        refuse_private_keys(values)?;
        let notes = legacy_switches(env)?;
        let target = store::target(values, env, now)?;
        let recipients = recipients(values)?;
        let upload = upload(values)?;
        let compression = compression(values)?;
        let talos = talos::talos(values, env, now)?;
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
            label: values.with("label", label)?.flatten(),
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

/// Names, prefixes and labels end up in the store for everyone to read. Recipients have an error of their own.
fn refuse_private_keys(values: &Values) -> Result<(), RunError> {
    match values.private_key_outside("recipient") {
        Some(origin) => Err(RunError::private_key(origin)),
        None => Ok(()),
    }
}

/// A manifest has to stay small: readers refuse one that is not.
fn label(text: &str) -> Result<Option<String>, String> {
    match text.len() {
        0 => Ok(None),
        1..=LABEL_BYTES_MAX => Ok(Some(text.to_owned())),
        bytes => Err(format!("the label has {bytes} bytes, more than the {LABEL_BYTES_MAX} that it may have")),
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
    let recipients = Recipients::parse(sources.iter().map(|(name, text)| (name.as_str(), text.as_str())))?;
    let number = recipients.canonical().len();
    if number > RECIPIENTS_MAX {
        return Err(usage(
            format!("{number} recipients are more than the {RECIPIENTS_MAX} that a backup may have"),
            "seal to a group's key",
        ));
    }
    Ok(recipients)
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
