//! Configuration in layers: flags, then the environment, then one TOML file, then defaults.
//!
//! One table of [`Setting`]s makes the flags, the variables, the keys of the file, the help and `--print-config`.
//! Invariants: an empty variable is an unset one; an unknown key of the file is an error; a value that cannot be used is
//! reported with the place that it came from; a secret is never printed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::units;

/// One thing that can be set, in any layer.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Flag without its dashes, and key of the file.
    pub name: &'static str,
    /// Our own variable.
    pub env: &'static str,
    /// A variable of another program that is understood too.
    pub legacy: Option<Legacy>,
    /// What values it takes.
    pub kind: Kind,
    /// How the value is called in the help.
    pub value: &'static str,
    /// One line for the help.
    pub help: &'static str,
    /// Heading in the help.
    pub heading: &'static str,
}

/// What values a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One text.
    Text,
    /// Several texts: the flag may be repeated; a variable parts them by commas or lines.
    List,
    /// True if given; in the environment and the file `true` or `false`.
    Switch,
}

/// A variable of another program.
#[derive(Clone, Copy, Debug)]
pub struct Legacy {
    /// Its name.
    pub env: &'static str,
    /// From its value to ours.
    pub convert: fn(&str) -> Result<String, String>,
}

impl Legacy {
    /// A variable whose value means the same here.
    pub const fn same(env: &'static str) -> Option<Self> {
        Some(Self { env, convert: |value| Ok(value.to_owned()) })
    }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag.
    Flag(&'static str),
    /// A variable.
    Env(&'static str),
    /// The file, and the key in it.
    File(String, &'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "--{name}"),
            Self::Env(name) => write!(f, "{name}"),
            Self::File(file, key) => write!(f, "{file}, key `{key}`"),
        }
    }
}

/// What cannot be used, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A value that does not parse.
    #[error("{origin}: {why}")]
    Value {
        /// Where it stands.
        origin: Origin,
        /// What is wrong with it.
        why: String,
    },
    /// A key that is not known.
    #[error("{file} has an unknown key `{key}`")]
    UnknownKey {
        /// The file.
        file: String,
        /// The key.
        key: String,
        /// One that looks like it.
        near: Option<&'static str>,
    },
    /// The file is not TOML.
    #[error("{file} is not TOML: {why}")]
    NotToml {
        /// The file.
        file: String,
        /// Where and why.
        why: String,
    },
    /// A variable that is not Unicode.
    #[error("{0} is not Unicode text")]
    NotUnicode(&'static str),
    /// Nothing was given.
    #[error("{0} is not set")]
    Missing(String),
}

impl ConfigError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownKey { near: Some(near), .. } => Some(format!("did you mean `{near}`?")),
            Self::UnknownKey { near: None, .. } => {
                Some("keys are the names of the flags without their dashes".to_owned())
            }
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
struct Value {
    texts: Vec<String>,
    origin: Origin,
}

/// The settings as they are in force.
#[derive(Clone, Debug, Default)]
pub struct Values(BTreeMap<&'static str, Value>);

/// Flags as they were typed: name and values. A switch has none.
pub type Flags = BTreeMap<String, Vec<String>>;

impl Values {
    /// Puts the layers together.
    ///
    /// # Errors
    /// A key or a value that cannot be used.
    pub fn layered(
        settings: &'static [Setting],
        flags: &Flags,
        env: impl Fn(&str) -> Option<OsString>,
        file: Option<(&str, &str)>,
    ) -> Result<Self, ConfigError> {
        let mut from_file = match file {
            Some((name, text)) => read_file(settings, name, text)?,
            None => BTreeMap::new(),
        };
        let mut values = BTreeMap::new();
        for setting in settings {
            let value = match flags.get(setting.name) {
                Some(texts) => Some(Value { texts: texts.clone(), origin: Origin::Flag(setting.name) }),
                None => match from_env(setting, &env)? {
                    Some(value) => Some(value),
                    None => from_file.remove(setting.name),
                },
            };
            if let Some(value) = value {
                values.insert(setting.name, value);
            }
        }
        Ok(Self(values))
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(|value| value.texts.first()).map(String::as_str)
    }

    /// A list; empty if it is not set.
    pub fn list(&self, name: &str) -> &[String] {
        self.0.get(name).map(|value| value.texts.as_slice()).unwrap_or_default()
    }

    /// A switch; false if it is not set.
    ///
    /// # Errors
    /// Something other than true and false.
    pub fn switch(&self, name: &str) -> Result<bool, ConfigError> {
        let Some(value) = self.0.get(name) else { return Ok(false) };
        match value.texts.first().map(|text| text.to_ascii_lowercase()).as_deref() {
            None | Some("true" | "1" | "yes" | "on") => Ok(true),
            Some("false" | "0" | "no" | "off") => Ok(false),
            Some(other) => Err(ConfigError::Value {
                origin: value.origin.clone(),
                why: format!("`{other}` is neither true nor false"),
            }),
        }
    }

    /// Anything that parses from text.
    ///
    /// # Errors
    /// It does not parse.
    pub fn parsed<T>(&self, name: &str) -> Result<Option<T>, ConfigError>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        self.with(name, |text| text.parse().map_err(|error: T::Err| error.to_string()))
    }

    /// A duration.
    ///
    /// # Errors
    /// It is none.
    pub fn duration(&self, name: &str, default: Duration) -> Result<Duration, ConfigError> {
        Ok(self.with(name, units::parse_duration)?.unwrap_or(default))
    }

    /// A size.
    ///
    /// # Errors
    /// It is none.
    pub fn size(&self, name: &str, default: u64) -> Result<u64, ConfigError> {
        Ok(self.with(name, units::parse_size)?.unwrap_or(default))
    }

    /// What `parse` makes of a text.
    ///
    /// # Errors
    /// What `parse` says, with the place where the text stands.
    pub fn with<T>(&self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let text = value.texts.first().map(String::as_str).unwrap_or_default();
        parse(text).map(Some).map_err(|why| ConfigError::Value { origin: value.origin.clone(), why })
    }

    /// Where a value came from.
    pub fn origin(&self, name: &str) -> Option<&Origin> {
        self.0.get(name).map(|value| &value.origin)
    }

    /// The settings in force as TOML, each with the place it came from. Private keys are masked.
    pub fn to_toml(&self, settings: &'static [Setting]) -> String {
        let mut text = String::new();
        for setting in settings {
            let Some(value) = self.0.get(setting.name) else {
                text.push_str(&format!("# {} is not set\n", setting.name));
                continue;
            };
            let texts: Vec<toml::Value> = value.texts.iter().map(|text| toml::Value::String(masked(text))).collect();
            let shown = match setting.kind {
                Kind::List => toml::Value::Array(texts),
                Kind::Switch => toml::Value::Boolean(self.switch(setting.name).unwrap_or(true)),
                Kind::Text => texts.into_iter().next().unwrap_or(toml::Value::String(String::new())),
            };
            text.push_str(&format!("{} = {shown}  # {}\n", setting.name, value.origin));
        }
        text
    }
}

/// No setting of ours is a secret, but people paste the wrong thing; and a URL may carry a password.
fn masked(text: &str) -> String {
    let upper = text.to_ascii_uppercase();
    if upper.contains("AGE-SECRET-KEY-") || upper.contains("PRIVATE KEY") {
        return "(masked: a private key)".to_owned();
    }
    match (text.find("://"), text.find('@')) {
        (Some(scheme), Some(at)) if scheme < at => format!("{}://(masked){}", &text[..scheme], &text[at..]),
        _ => text.to_owned(),
    }
}

fn from_env(setting: &Setting, env: &impl Fn(&str) -> Option<OsString>) -> Result<Option<Value>, ConfigError> {
    let set = |name: &'static str| -> Result<Option<String>, ConfigError> {
        let Some(value) = env(name).filter(|value| !value.is_empty()) else { return Ok(None) };
        value.into_string().map(Some).map_err(|_| ConfigError::NotUnicode(name))
    };
    if let Some(text) = set(setting.env)? {
        return Ok(Some(Value { texts: split(setting, &text), origin: Origin::Env(setting.env) }));
    }
    let Some(legacy) = setting.legacy else { return Ok(None) };
    let Some(text) = set(legacy.env)? else { return Ok(None) };
    let origin = Origin::Env(legacy.env);
    match (legacy.convert)(&text) {
        Ok(text) => Ok(Some(Value { texts: split(setting, &text), origin })),
        Err(why) => Err(ConfigError::Value { origin, why }),
    }
}

fn split(setting: &Setting, text: &str) -> Vec<String> {
    match setting.kind {
        Kind::List => {
            text.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
        }
        // A variable from a file or a Secret often ends in a newline.
        Kind::Text | Kind::Switch => vec![text.trim().to_owned()],
    }
}

fn read_file(
    settings: &'static [Setting],
    file: &str,
    text: &str,
) -> Result<BTreeMap<&'static str, Value>, ConfigError> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        // The parser's own text shows the line, and the line may be a secret that stands in the wrong file.
        let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        ConfigError::NotToml { file: file.to_owned(), why: format!("line {line}: {}", error.message()) }
    })?;
    let mut values = BTreeMap::new();
    for (key, value) in table {
        let Some(setting) = settings.iter().find(|setting| setting.name == key) else {
            return Err(ConfigError::UnknownKey { file: file.to_owned(), near: near(settings, &key), key });
        };
        let origin = Origin::File(file.to_owned(), setting.name);
        let texts = texts_of(setting, &value)
            .ok_or_else(|| ConfigError::Value { origin: origin.clone(), why: expected(setting).to_owned() })?;
        values.insert(setting.name, Value { texts, origin });
    }
    Ok(values)
}

fn expected(setting: &Setting) -> &'static str {
    match setting.kind {
        Kind::Text => "it takes one text or number",
        Kind::List => "it takes a list of texts",
        Kind::Switch => "it takes true or false",
    }
}

fn texts_of(setting: &Setting, value: &toml::Value) -> Option<Vec<String>> {
    let one = |value: &toml::Value| match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        _ => None,
    };
    match (setting.kind, value) {
        (Kind::Switch, toml::Value::Boolean(on)) => Some(vec![on.to_string()]),
        (Kind::Text, value) => Some(vec![one(value)?]),
        (Kind::List, toml::Value::Array(list)) => list.iter().map(one).collect(),
        (Kind::List, value) => Some(vec![one(value)?]),
        _ => None,
    }
}

fn near(settings: &'static [Setting], key: &str) -> Option<&'static str> {
    let plain = |text: &str| text.replace('_', "-").to_ascii_lowercase();
    let key = plain(key);
    let alike = |name: &str| name == key || name.ends_with(&format!("-{key}")) || key.trim_end_matches('s') == name;
    settings.iter().map(|setting| setting.name).find(|name| alike(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn setting(name: &'static str, env: &'static str, kind: Kind, legacy: Option<Legacy>) -> Setting {
        Setting { name, env, legacy, kind, value: "X", help: "", heading: "" }
    }

    static SETTINGS: &[Setting] = &[
        setting("bucket", "BN_BUCKET", Kind::Text, Legacy::same("BUCKET")),
        setting("recipient", "BN_RECIPIENT", Kind::List, None),
        setting("part-size", "BN_PART_SIZE", Kind::Text, None),
        setting("read-back", "BN_READ_BACK", Kind::Switch, None),
        setting(
            "addressing",
            "BN_ADDRESSING",
            Kind::Text,
            Some(Legacy {
                env: "PATH_STYLE",
                convert: |text| if text == "true" { Ok("path".to_owned()) } else { Err(format!("`{text}`?")) },
            }),
        ),
    ];

    fn layered(flags: &[(&str, &[&str])], env: &[(&str, &str)], file: &str) -> Result<Values, ConfigError> {
        let flags = flags.iter().map(|(k, v)| ((*k).to_owned(), v.iter().map(|t| (*t).to_owned()).collect())).collect();
        let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        Values::layered(SETTINGS, &flags, env, Some(("c.toml", file)))
    }

    #[test]
    fn a_flag_beats_the_environment_which_beats_the_file() {
        let file = "bucket = 'from-file'";
        let env = [("BN_BUCKET", "from-env"), ("BUCKET", "from-legacy")];
        let bucket = |values: Values| values.text("bucket").unwrap().to_owned();
        assert_eq!(bucket(layered(&[("bucket", &["from-flag"])], &env, file).unwrap()), "from-flag");
        assert_eq!(bucket(layered(&[], &env, file).unwrap()), "from-env");
        assert_eq!(bucket(layered(&[], &env[1..], file).unwrap()), "from-legacy");
        assert_eq!(bucket(layered(&[], &[], file).unwrap()), "from-file");
    }

    #[test]
    fn an_empty_variable_is_an_unset_one() {
        let values = layered(&[], &[("BN_BUCKET", ""), ("BUCKET", "x")], "").unwrap();
        assert_eq!(values.text("bucket"), Some("x"));
        assert_eq!(values.origin("bucket"), Some(&Origin::Env("BUCKET")));
    }

    #[test]
    fn lists_come_repeated_parted_or_as_arrays() {
        let list = |values: Values| values.list("recipient").to_vec();
        assert_eq!(list(layered(&[("recipient", &["a", "b"])], &[], "").unwrap()), ["a", "b"]);
        assert_eq!(
            list(layered(&[], &[("BN_RECIPIENT", "ssh-ed25519 x,\n b \n")], "").unwrap()),
            ["ssh-ed25519 x", "b"]
        );
        assert_eq!(list(layered(&[], &[], "recipient = ['a', 'b']").unwrap()), ["a", "b"]);
        assert_eq!(list(layered(&[], &[], "recipient = 'a'").unwrap()), ["a"]);
    }

    #[test]
    fn an_unknown_key_is_an_error_that_suggests() {
        let error = layered(&[], &[], "part_size = '8MiB'").unwrap_err();
        assert_eq!(error.to_string(), "c.toml has an unknown key `part_size`");
        assert_eq!(error.hint().as_deref(), Some("did you mean `part-size`?"));
        assert!(layered(&[], &[], "[s3]\nbucket = 'x'").is_err());
    }

    #[test]
    fn a_wrong_value_names_its_place() {
        let error = layered(&[], &[("BN_PART_SIZE", "large")], "").unwrap().size("part-size", 1).unwrap_err();
        assert_eq!(error.to_string(), "BN_PART_SIZE: `large` is not a size such as 8MiB or 1GiB");
        let error = layered(&[], &[], "read-back = 'maybe'").unwrap_err();
        assert_eq!(error.to_string(), "c.toml, key `read-back`: it takes true or false");
        let error = layered(&[], &[("PATH_STYLE", "maybe")], "").unwrap_err();
        assert_eq!(error.to_string(), "PATH_STYLE: `maybe`?");
        let error = layered(&[], &[], "a = 1\nb = = secret").unwrap_err().to_string();
        assert!(error.starts_with("c.toml is not TOML: line 2:") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn switches_are_true_when_given() {
        let on = |values: Values| values.switch("read-back").unwrap();
        assert!(on(layered(&[("read-back", &[])], &[], "").unwrap()));
        assert!(!on(layered(&[], &[("BN_READ_BACK", "False")], "").unwrap()));
        assert!(on(layered(&[], &[], "read-back = true").unwrap()));
        assert!(!on(layered(&[], &[], "").unwrap()));
    }

    #[test]
    fn the_printed_settings_say_where_they_came_from_and_mask_keys() {
        let env = [("BN_RECIPIENT", "AGE-SECRET-KEY-1ABC"), ("BUCKET", "http://me:hunter2@x")];
        let printed = layered(&[("part-size", &["8MiB"])], &env, "").unwrap().to_toml(SETTINGS);
        assert_eq!(
            printed,
            "bucket = \"http://(masked)@x\"  # BUCKET\n\
             recipient = [\"(masked: a private key)\"]  # BN_RECIPIENT\n\
             part-size = \"8MiB\"  # --part-size\n\
             # read-back is not set\n\
             # addressing is not set\n"
        );
    }
}
