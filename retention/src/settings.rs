//! A policy from text: the settings of a command line, an environment or a file, all under the same names.
//!
//! An unset rule is off. A setting that is there and cannot be read is an error, never a default: a typing error must not
//! remove a year of history.

use std::collections::BTreeSet;

use crate::backup::UnknownLevel;
use crate::count::{NumberError, unsigned};
use crate::{Policy, SpanError};

/// A setting that a policy cannot be made of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// No such setting.
    #[error("{0:?} is no setting of a retention policy")]
    UnknownName(String),
    /// The same setting twice.
    #[error("{0} is set twice")]
    Repeated(String),
    /// A number that cannot be used.
    #[error("cannot use {name}")]
    Number {
        /// The setting.
        name: String,
        /// What is wrong with it.
        #[source]
        source: NumberError,
    },
    /// A duration that cannot be used.
    #[error("cannot use {name}")]
    Span {
        /// The setting.
        name: String,
        /// What is wrong with it.
        #[source]
        source: SpanError,
    },
    /// A level of evidence that does not exist.
    #[error("cannot use {name}")]
    Level {
        /// The setting.
        name: String,
        /// What is wrong with it.
        #[source]
        source: UnknownLevel,
    },
}

impl Policy {
    /// The name of every setting that [`Policy::set`] takes.
    pub const SETTINGS: [&str; 19] = [
        "keep-last",
        "keep-hourly",
        "keep-daily",
        "keep-weekly",
        "keep-monthly",
        "keep-yearly",
        "keep-within",
        "keep-within-hourly",
        "keep-within-daily",
        "keep-within-weekly",
        "keep-within-monthly",
        "keep-within-yearly",
        "keep-min",
        "min-evidence",
        "unproven-grace",
        "good-after-upgrade",
        "share-limit",
        "drop-alarm",
        "drop-look-back",
    ];

    /// Reads all settings of a policy; those that are not there keep their default, which for a rule is off.
    ///
    /// # Errors
    /// If a name is unknown or stands twice, or a value cannot be read. Whether any rule is left is asked by
    /// [`plan`](crate::plan()).
    pub fn from_settings<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, SettingError> {
        let mut policy = Self::default();
        let mut seen = BTreeSet::new();
        for (name, value) in settings {
            if !seen.insert(name) {
                return Err(SettingError::Repeated(name.to_owned()));
            }
            policy.set(name, value)?;
        }
        Ok(policy)
    }

    /// Reads one setting.
    ///
    /// # Errors
    /// If the name is unknown or the value cannot be read; the policy is then unchanged.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let number = |source| SettingError::Number { name: name.to_owned(), source };
        let span = |source| SettingError::Span { name: name.to_owned(), source };
        match name {
            "keep-last" => self.last = value.parse().map_err(number)?,
            "keep-hourly" => self.hourly = value.parse().map_err(number)?,
            "keep-daily" => self.daily = value.parse().map_err(number)?,
            "keep-weekly" => self.weekly = value.parse().map_err(number)?,
            "keep-monthly" => self.monthly = value.parse().map_err(number)?,
            "keep-yearly" => self.yearly = value.parse().map_err(number)?,
            "keep-within" => self.within = value.parse().map_err(span)?,
            "keep-within-hourly" => self.within_hourly = value.parse().map_err(span)?,
            "keep-within-daily" => self.within_daily = value.parse().map_err(span)?,
            "keep-within-weekly" => self.within_weekly = value.parse().map_err(span)?,
            "keep-within-monthly" => self.within_monthly = value.parse().map_err(span)?,
            "keep-within-yearly" => self.within_yearly = value.parse().map_err(span)?,
            "keep-min" => self.keep_min = unsigned(value).map_err(number)?,
            "min-evidence" => {
                let level = |source| SettingError::Level { name: name.to_owned(), source };
                self.min_evidence = value.parse().map_err(level)?;
            }
            "unproven-grace" => self.unproven_grace = value.parse().map_err(span)?,
            "good-after-upgrade" => self.good_after_upgrade = unsigned(value).map_err(number)?,
            "share-limit" => self.share_limit = value.parse().map_err(number)?,
            "drop-alarm" => self.drop_alarm = value.parse().map_err(number)?,
            "drop-look-back" => self.drop_look_back = unsigned(value).map_err(number)?,
            unknown => return Err(SettingError::UnknownName(unknown.to_owned())),
        }
        Ok(())
    }
}
