//! Versions, ordered, so that "a newer version" is a comparison of numbers and not of letters (1.9 is before 1.10).

use std::fmt;
use std::str::FromStr;

/// `[v]major.minor.patch[-pre][+build]`, ordered as semantic versions are; the build is not kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    numbers: [u64; 3],
    stage: Stage,
}

// The order of the variants is the order of versions: a pre-release comes before its release, numbers before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Stage {
    Pre(Vec<Identifier>),
    Release,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Identifier {
    Number(u64),
    Word(String),
}

/// Text that is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no version such as v1.11.3")]
pub struct VersionError(pub String);

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let refused = || VersionError(text.to_owned());
        let plain = text.trim();
        let plain = plain.strip_prefix('v').unwrap_or(plain);
        let (plain, _build) = plain.split_once('+').unwrap_or((plain, ""));
        let (core, pre) = match plain.split_once('-') {
            Some((core, pre)) => (core, Some(pre)),
            None => (plain, None),
        };
        let numbers: Vec<u64> = core.split('.').map(number).collect::<Option<_>>().ok_or_else(refused)?;
        let numbers = numbers.try_into().map_err(|_| refused())?;
        let stage = match pre {
            None => Stage::Release,
            Some(pre) => Stage::Pre(pre.split('.').map(identifier).collect::<Option<_>>().ok_or_else(refused)?),
        };
        Ok(Self { numbers, stage })
    }
}

// `u64::from_str` alone would take "+1".
fn number(digits: &str) -> Option<u64> {
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

fn identifier(text: &str) -> Option<Identifier> {
    if let Some(number) = number(text) {
        return Some(Identifier::Number(number));
    }
    let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    fits.then(|| Identifier::Word(text.to_owned()))
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "v{major}.{minor}.{patch}")?;
        let Stage::Pre(identifiers) = &self.stage else { return Ok(()) };
        for (position, identifier) in identifiers.iter().enumerate() {
            f.write_str(if position == 0 { "-" } else { "." })?;
            match identifier {
                Identifier::Number(number) => write!(f, "{number}")?,
                Identifier::Word(word) => f.write_str(word)?,
            }
        }
        Ok(())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_are_ordered_by_number_and_pre_releases_come_first() {
        let ordered = ["v1.9.5", "1.10.0-alpha.2", "1.10.0-alpha.10", "1.10.0-beta.0", "1.10.0", "v1.10.1", "2.0.0"];
        for pair in ordered.windows(2) {
            assert!(version(pair[0]) < version(pair[1]), "{pair:?}");
        }
        assert_eq!(version("v1.10.0+build.5"), version("1.10.0"));
        assert_eq!(version("1.10.0-alpha.2").to_string(), "v1.10.0-alpha.2");
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "v", "1.2", "1.2.3.4", "1.+2.3", "1.2.x", "1.2.3-", "1.2.3-a..b", "99999999999999999999.0.0"] {
            assert_eq!(text.parse::<Version>(), Err(VersionError(text.to_owned())), "{text:?}");
        }
    }
}
