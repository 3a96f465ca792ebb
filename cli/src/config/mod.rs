//! Configuration in layers: flags, then the environment, then one TOML file, then defaults.
//!
//! One table of [`Setting`]s makes the flags, the variables, the keys of the file, the help and `--print-config`.
//! Invariants: an empty variable is an unset one; an unknown key of the file is an error; a value that cannot be used is
//! reported with the place that it came from; a secret is never printed.

mod error;
mod file;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use error::ConfigError;

use crate::units;

/// One thing that can be set, in any layer.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Flag without its dashes, and key of the file.
    pub name: &'static str,
    /// Our own variable.
    pub env: &'static str,
    /// Variables of another program that are understood too, where ours is not set.
    pub legacy: &'static [Legacy],
    /// What values it takes.
    pub kind: Kind,
    /// What holds if nobody says anything else.
    pub default: Option<&'static str>,
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
    pub const fn same(env: &'static str) -> Self {
        Self { env, convert: |value| Ok(value.to_owned()) }
    }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag.
    Flag(&'static str),
    /// A variable.
    Env(&'static str),
    /// The file, and the line in it.
    File(String, usize),
    /// Nobody said anything else.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "--{name}"),
            Self::Env(name) => write!(f, "{name}"),
            Self::File(file, line) => write!(f, "{file}:{line}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One text, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Item {
    text: String,
    origin: Origin,
}

impl Item {
    fn new(text: impl Into<String>, origin: &Origin) -> Self {
        Self { text: text.into(), origin: origin.clone() }
    }

    fn wrong(&self, why: &str) -> ConfigError {
        // The value stands in the message, and people paste the wrong thing.
        ConfigError::Value { origin: self.origin.clone(), why: masked(why) }
    }
}

/// The settings as they are in force.
#[derive(Clone, Debug, Default)]
pub struct Values(BTreeMap<&'static str, Vec<Item>>);

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
            Some((name, text)) => file::read(settings, name, text)?,
            None => BTreeMap::new(),
        };
        let mut values = BTreeMap::new();
        for setting in settings {
            let layer = match from_flags(setting, flags) {
                Some(items) => Some(items),
                None => from_env(setting, &env)?,
            };
            let below = || setting.default.map(|text| vec![Item::new(text, &Origin::Default)]);
            if let Some(items) = layer.or_else(|| from_file.remove(setting.name)).or_else(below) {
                values.insert(setting.name, items);
            }
        }
        Ok(Self(values))
    }

    fn first(&self, name: &str) -> Option<&Item> {
        self.0.get(name).and_then(|items| items.first())
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.first(name).map(|item| item.text.as_str())
    }

    /// A list with the place of each entry; empty if it is not set.
    pub fn list(&self, name: &str) -> impl Iterator<Item = (&str, &Origin)> {
        self.0.get(name).into_iter().flatten().map(|item| (item.text.as_str(), &item.origin))
    }

    /// A switch; false if it is not set.
    ///
    /// # Errors
    /// Something other than true and false.
    pub fn switch(&self, name: &str) -> Result<bool, ConfigError> {
        Ok(self.with(name, parse_switch)?.unwrap_or(false))
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
    pub fn duration(&self, name: &str, otherwise: Duration) -> Result<Duration, ConfigError> {
        Ok(self.with(name, units::parse_duration)?.unwrap_or(otherwise))
    }

    /// A size.
    ///
    /// # Errors
    /// It is none.
    pub fn size(&self, name: &str, otherwise: u64) -> Result<u64, ConfigError> {
        Ok(self.with(name, units::parse_size)?.unwrap_or(otherwise))
    }

    /// What `parse` makes of a text.
    ///
    /// # Errors
    /// What `parse` says, with the place where the text stands.
    pub fn with<T>(&self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, ConfigError> {
        let Some(item) = self.first(name) else { return Ok(None) };
        parse(&item.text).map(Some).map_err(|why| item.wrong(&why))
    }

    /// What `parse` makes of each text of a list.
    ///
    /// # Errors
    /// What `parse` says of the first that is wrong, with the place where it stands.
    pub fn each<T>(&self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, ConfigError> {
        let items = self.0.get(name).into_iter().flatten();
        items.map(|item| parse(&item.text).map_err(|why| item.wrong(&why))).collect()
    }

    /// The place of the first private key in any setting but `other`.
    pub fn private_key_outside(&self, other: &str) -> Option<&Origin> {
        let items = self.0.iter().filter(|(name, _)| **name != other).flat_map(|(_, items)| items);
        items.into_iter().find(|item| is_private_key(&item.text)).map(|item| &item.origin)
    }

    /// Where a value came from.
    pub fn origin(&self, name: &str) -> Option<&Origin> {
        self.first(name).map(|item| &item.origin)
    }

    /// The settings in force as TOML, each with the place it came from. Private keys are masked.
    pub fn to_toml(&self, settings: &'static [Setting]) -> String {
        let mut text = String::new();
        for setting in settings {
            let Some(items) = self.0.get(setting.name) else {
                text.push_str(&format!("# {} is not set\n", setting.name));
                continue;
            };
            let mut origins: Vec<String> = items.iter().map(|item| item.origin.to_string()).collect();
            origins.dedup();
            let shown = shown(setting.kind, items);
            text.push_str(&format!("{} = {shown}  # {}\n", setting.name, origins.join(", ")));
        }
        text
    }
}

fn shown(kind: Kind, items: &[Item]) -> toml::Value {
    let mut texts = items.iter().map(|item| toml::Value::String(masked(&item.text)));
    match kind {
        Kind::List => toml::Value::Array(texts.collect()),
        Kind::Switch => match items.first().map(|item| parse_switch(&item.text)) {
            Some(Ok(on)) => toml::Value::Boolean(on),
            _ => texts.next().unwrap_or(toml::Value::Boolean(true)),
        },
        Kind::Text => texts.next().unwrap_or(toml::Value::String(String::new())),
    }
}

fn parse_switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err(format!("`{text}` is neither true nor false")),
    }
}

/// Whether a private key stands in a text: the key itself, since a label may well speak of one.
pub fn is_private_key(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    upper.contains("AGE-SECRET-KEY-") || (upper.contains("-----BEGIN ") && upper.contains("PRIVATE KEY-----"))
}

/// No setting of ours is a secret, but people paste the wrong thing; and a URL may carry a password.
fn masked(text: &str) -> String {
    let upper = text.to_ascii_uppercase();
    if upper.contains("AGE-SECRET-KEY-") || upper.contains("PRIVATE KEY") {
        return "(masked: a private key)".to_owned();
    }
    // The last `@`: a password may have one too.
    match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => format!("{}://(masked){}", &text[..scheme], &text[at..]),
        _ => text.to_owned(),
    }
}

fn from_flags(setting: &Setting, flags: &Flags) -> Option<Vec<Item>> {
    let texts = flags.get(setting.name)?;
    let origin = Origin::Flag(setting.name);
    if setting.kind == Kind::Switch && texts.is_empty() {
        return Some(vec![Item::new("true", &origin)]);
    }
    Some(texts.iter().map(|text| Item::new(text, &origin)).collect())
}

fn from_env(setting: &Setting, env: &impl Fn(&str) -> Option<OsString>) -> Result<Option<Vec<Item>>, ConfigError> {
    if let Some(text) = variable(setting.env, env)? {
        return Ok(Some(split(setting.kind, &text, setting.env)));
    }
    let mut all = Vec::new();
    for legacy in setting.legacy {
        let Some(text) = variable(legacy.env, env)? else { continue };
        let converted = (legacy.convert)(&text).map_err(|why| Item::new("", &Origin::Env(legacy.env)).wrong(&why))?;
        all.extend(split(setting.kind, &converted, legacy.env));
        // One text has one place; a list is what all of them say together.
        if setting.kind != Kind::List {
            break;
        }
    }
    Ok((!all.is_empty()).then_some(all))
}

/// A variable's text. A value from a file or a Secret often ends in a newline; one of blanks alone is empty.
fn variable(name: &'static str, env: &impl Fn(&str) -> Option<OsString>) -> Result<Option<String>, ConfigError> {
    let Some(value) = env(name) else { return Ok(None) };
    let text = value.into_string().map_err(|_| ConfigError::NotUnicode(name))?;
    Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
}

fn split(kind: Kind, text: &str, env: &'static str) -> Vec<Item> {
    let origin = Origin::Env(env);
    match kind {
        Kind::List => {
            let parts = text.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty());
            parts.map(|part| Item::new(part, &origin)).collect()
        }
        Kind::Text | Kind::Switch => vec![Item::new(text, &origin)],
    }
}

#[cfg(test)]
mod tests;
