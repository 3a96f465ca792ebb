//! Where in a bucket (or folder) backups live. However the slashes are written, one place has one [`Prefix`].

use std::fmt;
use std::str::FromStr;

/// A normalised place inside a store: empty, or segments joined by single slashes, without one at either end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Prefix(String);

/// Why a text cannot name a place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixError {
    /// A URL where a folder was meant.
    #[error("prefix `{0}` is a URL")]
    Url(String),
    /// `.` or `..`, which some stores and every directory would resolve to another place.
    #[error("prefix `{0}` has a segment `.` or `..`")]
    Dots(String),
    /// A control character, which no listing shows.
    #[error("prefix has a control character at byte {0}")]
    Control(usize),
    /// S3 keys end at 1,024 bytes; the names that follow need their share.
    #[error("prefix is {0} bytes long, at most 700 leave room for the names below it")]
    TooLong(usize),
}

impl PrefixError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Url(_) => "give the bucket and the prefix apart: --bucket NAME --prefix FOLDER/SUBFOLDER",
            _ => "a prefix is a plain path such as `etcd/production`",
        }
    }
}

const PREFIX_BYTES_MAX: usize = 700;

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        if text.contains("://") {
            return Err(PrefixError::Url(text.to_owned()));
        }
        if let Some((at, _)) = text.char_indices().find(|(_, c)| c.is_control()) {
            return Err(PrefixError::Control(at));
        }
        let segments: Vec<&str> = text.split('/').filter(|segment| !segment.is_empty()).collect();
        if segments.iter().any(|segment| matches!(*segment, "." | "..")) {
            return Err(PrefixError::Dots(text.to_owned()));
        }
        let joined = segments.join("/");
        if joined.len() > PREFIX_BYTES_MAX {
            return Err(PrefixError::TooLong(joined.len()));
        }
        Ok(Self(joined))
    }
}

impl Prefix {
    /// The place itself, without a slash at either end; empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A key below this place.
    pub fn join(&self, rest: &str) -> String {
        if self.0.is_empty() { rest.to_owned() } else { format!("{}/{rest}", self.0) }
    }

    /// What is left of `key` below this place; `None` if it lies elsewhere.
    pub fn strip<'k>(&self, key: &'k str) -> Option<&'k str> {
        if self.0.is_empty() {
            return Some(key);
        }
        key.strip_prefix(self.0.as_str())?.strip_prefix('/')
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_slashes_all_name_the_same_place() {
        for text in ["a/b", "/a/b", "a/b/", "//a//b//", "/a/b/"] {
            assert_eq!(text.parse::<Prefix>().unwrap().as_str(), "a/b", "{text}");
        }
        for text in ["", "/", "///"] {
            assert_eq!(text.parse::<Prefix>().unwrap().join("x"), "x", "{text}");
        }
    }

    #[test]
    fn a_prefix_never_swallows_its_neighbour() {
        let prefix: Prefix = "etcd/prod".parse().unwrap();
        assert_eq!(prefix.strip("etcd/prod/x"), Some("x"));
        assert_eq!(prefix.strip("etcd/prod-eu/x"), None);
        assert_eq!(prefix.strip("etcd/prod"), None);
    }

    #[test]
    fn urls_dots_and_control_characters_are_refused() {
        assert!(matches!("s3://bucket/x".parse::<Prefix>(), Err(PrefixError::Url(_))));
        assert!(matches!("a/../b".parse::<Prefix>(), Err(PrefixError::Dots(_))));
        assert!(matches!("a\nb".parse::<Prefix>(), Err(PrefixError::Control(1))));
        assert!(matches!("a".repeat(800).parse::<Prefix>(), Err(PrefixError::TooLong(800))));
    }
}
