//! What cannot be used of a configuration, and where it stands.

use super::Origin;

/// A part of the configuration that cannot be used.
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
    #[error("{file}:{line}: unknown key `{key}`")]
    UnknownKey {
        /// The file.
        file: String,
        /// The line.
        line: usize,
        /// The key.
        key: String,
        /// One that looks like it.
        near: Option<&'static str>,
    },
    /// The file is not TOML.
    #[error("{file}:{line}: not TOML: {why}")]
    NotToml {
        /// The file.
        file: String,
        /// The line.
        line: usize,
        /// Why.
        why: String,
    },
    /// A variable that is not Unicode.
    #[error("{0} is not Unicode text")]
    NotUnicode(&'static str),
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
