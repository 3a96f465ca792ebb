//! Spans of calendar time: `7d`, `2w`, `3mo`, `1y6mo`, `12h`, `30min`.
//!
//! A bare `m` is refused, because it is months to one well-known tool and minutes to another, and a policy must not turn a
//! year of history into a quarter of an hour.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Days, Months, TimeDelta, Utc};

/// Months, days and minutes, kept apart because months and days differ in length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    months: u32,
    days: u32,
    minutes: u32,
}

/// Text that is no span.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpanError {
    /// Nothing there.
    #[error("a duration is missing: write one such as 7d, 2w, 3mo, 1y, 12h or 30min")]
    Empty,
    /// A bare `m`.
    #[error("\"m\" in {0:?} could be months or minutes: write mo or min")]
    BareM(String),
    /// A unit that does not exist.
    #[error("{unit:?} in {text:?} is no unit: y, mo, w, d, h and min are")]
    UnknownUnit {
        /// What stands where a unit should.
        unit: String,
        /// The whole text.
        text: String,
    },
    /// A number without a unit.
    #[error("{0:?} lacks a unit: y, mo, w, d, h or min")]
    NoUnit(String),
    /// A unit without a number, or a sign.
    #[error("{0:?} lacks a whole number before a unit")]
    NoNumber(String),
    /// The same unit twice.
    #[error("{unit:?} stands twice in {text:?}")]
    Repeated {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
    /// Longer than can be reckoned with.
    #[error("{0:?} is too long")]
    TooLong(String),
}

impl Span {
    /// This many days.
    pub const fn days(days: u32) -> Self {
        Self { months: 0, days, minutes: 0 }
    }

    /// Whether it is no time at all.
    pub fn is_zero(self) -> bool {
        self == Self::default()
    }

    /// The instant this long before `end`: months first, clamped to the last day of the month, then days, then minutes.
    /// `None` before the beginning of time, where everything lies within the span.
    pub fn before(self, end: DateTime<Utc>) -> Option<DateTime<Utc>> {
        end.checked_sub_months(Months::new(self.months))?
            .checked_sub_days(Days::new(self.days.into()))?
            .checked_sub_signed(TimeDelta::minutes(self.minutes.into()))
    }

    /// Whether `at` lies strictly less than this span before `end`. What is later than `end` does.
    pub fn reaches(self, at: DateTime<Utc>, end: DateTime<Utc>) -> bool {
        self.before(end).is_none_or(|start| at > start)
    }

    /// Adds so many of a unit; `None` if the sum cannot be held.
    fn plus(mut self, number: u32, unit: &str) -> Option<Self> {
        let (total, each) = match unit {
            "y" => (&mut self.months, 12),
            "mo" => (&mut self.months, 1),
            "w" => (&mut self.days, 7),
            "d" => (&mut self.days, 1),
            "h" => (&mut self.minutes, 60),
            _ => (&mut self.minutes, 1),
        };
        *total = number.checked_mul(each)?.checked_add(*total)?;
        Some(self)
    }
}

const UNITS: [&str; 6] = ["y", "mo", "w", "d", "h", "min"];

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(given: &str) -> Result<Self, SpanError> {
        let text = given.trim();
        if text.is_empty() {
            return Err(SpanError::Empty);
        }
        let mut span = Self::default();
        let mut seen = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (digits, tail) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
            if digits.is_empty() {
                return Err(SpanError::NoNumber(text.to_owned()));
            }
            let (unit, tail) = tail.split_at(tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len()));
            rest = tail;
            match unit {
                "" => return Err(SpanError::NoUnit(text.to_owned())),
                "m" => return Err(SpanError::BareM(text.to_owned())),
                unit if !UNITS.contains(&unit) => {
                    return Err(SpanError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() });
                }
                unit if seen.contains(&unit) => {
                    return Err(SpanError::Repeated { unit: unit.to_owned(), text: text.to_owned() });
                }
                unit => seen.push(unit),
            }
            // Only digits, so only the size can be wrong.
            let number = digits.parse().ok();
            span =
                number.and_then(|number| span.plus(number, unit)).ok_or_else(|| SpanError::TooLong(text.to_owned()))?;
        }
        Ok(span)
    }
}

impl fmt::Display for Span {
    /// The shortest text that parses to the same span, weeks written as days.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0d");
        }
        let parts = [
            (self.months / 12, "y"),
            (self.months % 12, "mo"),
            (self.days, "d"),
            (self.minutes / 60, "h"),
            (self.minutes % 60, "min"),
        ];
        parts.iter().filter(|(number, _)| *number > 0).try_for_each(|(number, unit)| write!(f, "{number}{unit}"))
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn before(span: &str, end: &str) -> String {
        span.parse::<Span>().unwrap().before(at(end)).unwrap().format("%FT%R").to_string()
    }

    #[test]
    fn each_unit_reaches_back_as_far_as_it_says() {
        let end = "2026-11-30T12:30:00Z";
        let cases = [
            ("7d", "2026-11-23T12:30"),
            ("2w", "2026-11-16T12:30"),
            ("3mo", "2026-08-30T12:30"),
            ("1y", "2025-11-30T12:30"),
            ("12h", "2026-11-30T00:30"),
            ("30min", "2026-11-30T12:00"),
            (" 1y6mo1w2d3h30min ", "2025-05-21T09:00"),
        ];
        for (span, expected) in cases {
            assert_eq!(before(span, end), expected, "{span}");
        }
    }

    #[test]
    fn a_month_is_clamped_to_the_last_day_of_the_month() {
        assert_eq!(before("1mo", "2026-03-31T02:00:00Z"), "2026-02-28T02:00");
        assert_eq!(before("1mo", "2024-03-31T02:00:00Z"), "2024-02-29T02:00");
        assert_eq!(before("1y", "2024-02-29T02:00:00Z"), "2023-02-28T02:00");
        // Months first and days after: the other way round would end on the 28th.
        assert_eq!(before("1mo1d", "2026-03-31T02:00:00Z"), "2026-02-27T02:00");
    }

    #[test]
    fn a_bare_m_is_refused_with_the_reason() {
        let error = "1y5m7d".parse::<Span>().unwrap_err();
        assert_eq!(error, SpanError::BareM("1y5m7d".into()));
        assert_eq!(error.to_string(), "\"m\" in \"1y5m7d\" could be months or minutes: write mo or min");
    }

    #[test]
    fn what_is_no_span_is_refused() {
        let unknown = |unit: &str, text: &str| SpanError::UnknownUnit { unit: unit.into(), text: text.into() };
        let cases = [
            ("", SpanError::Empty),
            ("  ", SpanError::Empty),
            ("7", SpanError::NoUnit("7".into())),
            ("7d3", SpanError::NoUnit("7d3".into())),
            ("d", SpanError::NoNumber("d".into())),
            ("-7d", SpanError::NoNumber("-7d".into())),
            ("7s", unknown("s", "7s")),
            ("7 d", unknown(" d", "7 d")),
            ("7D", unknown("D", "7D")),
            ("7\u{e9}", unknown("\u{e9}", "7\u{e9}")),
            ("7.5d", unknown(".", "7.5d")),
            ("1d2d", SpanError::Repeated { unit: "d".into(), text: "1d2d".into() }),
            ("99999999999999999999d", SpanError::TooLong("99999999999999999999d".into())),
            ("4000000000y", SpanError::TooLong("4000000000y".into())),
            ("4294967295d1w", SpanError::TooLong("4294967295d1w".into())),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Span>(), Err(expected), "{text:?}");
        }
    }

    #[test]
    fn a_span_that_reaches_past_the_beginning_of_time_holds_everything() {
        let span: Span = "4294967295mo".parse().unwrap();
        assert!(span.reaches(DateTime::<Utc>::MIN_UTC, at("2026-11-30T02:00:00Z")));
    }

    #[test]
    fn a_span_displays_as_text_that_parses_to_it() {
        for text in ["7d", "1y6mo", "3mo", "12h", "30min", "1y2mo3d4h5min", "0d"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        assert_eq!("2w".parse::<Span>().unwrap().to_string(), "14d");
    }
}
