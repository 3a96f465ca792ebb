//! Numbers in a policy, with the meanings of zero and minus one that tools disagree about written into types.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// How many buckets a rule keeps. Zero is off: it never means "delete all".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Count {
    /// The rule keeps nothing of its own.
    #[default]
    Off,
    /// At most this many.
    UpTo(NonZeroU32),
    /// Never used up.
    Unlimited,
}

impl Count {
    /// Whether the rule is off, or its count used up.
    pub fn is_off(self) -> bool {
        self == Self::Off
    }

    /// What is left after one more was kept.
    pub(crate) fn minus_one(self) -> Self {
        match self {
            Self::UpTo(count) => Self::from(count.get() - 1),
            unchanged => unchanged,
        }
    }
}

impl From<u32> for Count {
    fn from(count: u32) -> Self {
        NonZeroU32::new(count).map_or(Self::Off, Self::UpTo)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::UpTo(count) => write!(f, "{count}"),
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}

/// `0`, a count, or null where there is no limit.
#[cfg(feature = "serde")]
impl serde::Serialize for Count {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_u32(0),
            Self::UpTo(count) => serializer.serialize_u32(count.get()),
            Self::Unlimited => serializer.serialize_none(),
        }
    }
}

/// A number that a policy cannot use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NumberError {
    /// Nothing there: an unset rule is left out, not set to nothing.
    #[error("a number is missing: leave the setting out, or write 0 to turn it off")]
    Empty,
    /// No whole number.
    #[error("{0:?} is not a whole number")]
    NotANumber(String),
    /// More than can be counted.
    #[error("{0} is too large; the largest is 4294967295")]
    TooLarge(String),
    /// Less than -1.
    #[error("{0} is below -1; -1 means unlimited, 0 means off")]
    BelowMinusOne(String),
    /// A minus sign where -1 has no meaning.
    #[error("{0} is negative")]
    Negative(String),
    /// Not from 0 to 100.
    #[error("{0} is more than 100 percent")]
    OverHundred(String),
}

/// Reads digits with an optional sign, apart: whether the sign was a minus, and the value.
fn signed(text: &str) -> Result<(bool, u32), NumberError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(NumberError::Empty);
    }
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NumberError::NotANumber(text.to_owned()));
    }
    match digits.parse() {
        Ok(value) => Ok((negative, value)),
        // All digits, so only its size can be wrong. Far below zero is not "too large".
        Err(_) if negative => Err(NumberError::BelowMinusOne(text.to_owned())),
        Err(_) => Err(NumberError::TooLarge(text.to_owned())),
    }
}

/// Reads a number that may not be negative.
pub(crate) fn unsigned(text: &str) -> Result<u32, NumberError> {
    match signed(text) {
        Ok((false, value)) => Ok(value),
        Ok((true, _)) | Err(NumberError::BelowMinusOne(_)) => Err(NumberError::Negative(text.trim().to_owned())),
        Err(error) => Err(error),
    }
}

impl FromStr for Count {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, NumberError> {
        if text.trim() == "unlimited" {
            return Ok(Self::Unlimited);
        }
        match signed(text)? {
            (false, count) => Ok(Self::from(count)),
            (true, 0) => Ok(Self::Off),
            (true, 1) => Ok(Self::Unlimited),
            (true, _) => Err(NumberError::BelowMinusOne(text.trim().to_owned())),
        }
    }
}

/// A share of a whole, from 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Percent(u8);

impl Percent {
    /// Zero percent.
    pub const NONE: Self = Self(0);
    /// Fifty percent.
    pub const HALF: Self = Self(50);
    /// A hundred percent.
    pub const ALL: Self = Self(100);

    /// `None` above 100.
    pub const fn new(percent: u8) -> Option<Self> {
        if percent <= 100 { Some(Self(percent)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Whether `part` is more than this share of `whole`.
    pub(crate) fn is_exceeded_by(self, part: u64, whole: u64) -> bool {
        u128::from(part) * 100 > u128::from(whole) * u128::from(self.0)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl FromStr for Percent {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, NumberError> {
        let digits = text.trim();
        let value = unsigned(digits.strip_suffix('%').unwrap_or(digits))?;
        u8::try_from(value).ok().and_then(Self::new).ok_or_else(|| NumberError::OverHundred(digits.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b58_each_spelling_of_a_count_has_one_meaning() {
        let cases = [
            ("", Err(NumberError::Empty)),
            ("  ", Err(NumberError::Empty)),
            ("0", Ok(Count::Off)),
            ("-0", Ok(Count::Off)),
            ("-1", Ok(Count::Unlimited)),
            ("unlimited", Ok(Count::Unlimited)),
            ("-2", Err(NumberError::BelowMinusOne("-2".into()))),
            ("-99999999999999999999", Err(NumberError::BelowMinusOne("-99999999999999999999".into()))),
            ("abc", Err(NumberError::NotANumber("abc".into()))),
            ("7.5", Err(NumberError::NotANumber("7.5".into()))),
            ("+7", Err(NumberError::NotANumber("+7".into()))),
            ("-", Err(NumberError::NotANumber("-".into()))),
            ("--1", Err(NumberError::NotANumber("--1".into()))),
            ("7", Ok(Count::from(7))),
            (" 7 ", Ok(Count::from(7))),
            ("4294967295", Ok(Count::from(u32::MAX))),
            ("4294967296", Err(NumberError::TooLarge("4294967296".into()))),
            ("99999999999999999999", Err(NumberError::TooLarge("99999999999999999999".into()))),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Count>(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_percentage_lies_between_0_and_100() {
        assert_eq!(" 50% ".parse(), Ok(Percent(50)));
        assert_eq!("100".parse(), Ok(Percent::ALL));
        assert_eq!("101".parse::<Percent>(), Err(NumberError::OverHundred("101".into())));
        assert_eq!("300".parse::<Percent>(), Err(NumberError::OverHundred("300".into())));
        assert_eq!("-1".parse::<Percent>(), Err(NumberError::Negative("-1".into())));
        assert_eq!("%".parse::<Percent>(), Err(NumberError::Empty));
    }

    #[test]
    fn a_share_is_exceeded_only_by_more_than_it() {
        assert!(!Percent(50).is_exceeded_by(5, 10));
        assert!(Percent(50).is_exceeded_by(6, 10));
        assert!(!Percent::ALL.is_exceeded_by(u64::MAX, u64::MAX));
        assert!(Percent::NONE.is_exceeded_by(1, u64::MAX));
    }
}
