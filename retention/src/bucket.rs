//! Buckets: the hours, days, weeks, months and years that rules keep one backup of. Always UTC.

use std::fmt;

use chrono::{DateTime, Datelike, NaiveDate, Timelike, Utc};

/// What a rule counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Period {
    /// Every backup by itself.
    Each,
    /// One an hour.
    Hour,
    /// One a day.
    Day,
    /// One an ISO week, which begins on Monday and may span two years.
    Week,
    /// One a month.
    Month,
    /// One a year.
    Year,
}

impl Period {
    /// Every period, finest first.
    pub const ALL: [Self; 6] = [Self::Each, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// As in "a daily backup".
    pub fn adjective(self) -> &'static str {
        match self {
            Self::Each => "last",
            Self::Hour => "hourly",
            Self::Day => "daily",
            Self::Week => "weekly",
            Self::Month => "monthly",
            Self::Year => "yearly",
        }
    }

    /// The bucket that an instant falls into; none where every backup counts by itself.
    pub fn bucket(self, at: DateTime<Utc>) -> Option<Bucket> {
        let day = at.date_naive();
        Some(match self {
            Self::Each => return None,
            Self::Hour => Bucket::Hour { day, hour: at.hour() },
            Self::Day => Bucket::Day { day },
            // The ISO year and not the calendar's: 2024-12-30 lies in the first week of 2025.
            Self::Week => Bucket::Week { year: day.iso_week().year(), week: day.iso_week().week() },
            Self::Month => Bucket::Month { year: day.year(), month: day.month() },
            Self::Year => Bucket::Year { year: day.year() },
        })
    }
}

/// One hour, day, week, month or year. Buckets of different periods are never equal, so rules cannot share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Bucket {
    /// One hour of a day.
    Hour { day: NaiveDate, hour: u32 },
    /// One day.
    Day { day: NaiveDate },
    /// One ISO week of an ISO year.
    Week { year: i32, week: u32 },
    /// One month of a year.
    Month { year: i32, month: u32 },
    /// One year.
    Year { year: i32 },
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hour { day, hour } => write!(f, "{day}T{hour:02}"),
            Self::Day { day } => write!(f, "{day}"),
            Self::Week { year, week } => write!(f, "{year:04}-W{week:02}"),
            Self::Month { year, month } => write!(f, "{year:04}-{month:02}"),
            Self::Year { year } => write!(f, "{year:04}"),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Bucket {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_period_names_its_bucket_in_utc() {
        let at = "2024-12-30T00:30:00+01:00".parse::<DateTime<Utc>>().unwrap();
        let names = Period::ALL.map(|period| period.bucket(at).map(|bucket| bucket.to_string()).unwrap_or_default());
        assert_eq!(names, ["", "2024-12-29T23", "2024-12-29", "2024-W52", "2024-12", "2024"]);
    }

    #[test]
    fn an_iso_week_spans_the_turn_of_the_year() {
        let week = |text: &str| Period::Week.bucket(text.parse().unwrap());
        assert_eq!(week("2024-12-30T02:00:00Z"), week("2025-01-05T02:00:00Z"));
        assert_ne!(week("2025-01-05T02:00:00Z"), week("2025-01-06T02:00:00Z"));
    }
}
