//! What a plan found that a person should see, and what only a person may wave through.

use std::fmt;

use chrono::{DateTime, Utc};

use crate::Percent;

/// Something about the listing or the plan that is not one backup's verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "kind", rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Finding {
    /// The plan removes more of the listing than it may without a yes. Blocks.
    LargeShare {
        /// How many it removes.
        removed: u64,
        /// Of how many.
        listed: u64,
        /// The share that it may remove.
        limit: Percent,
    },
    /// A good backup is much smaller than the good one before it. Blocks: what is about to be removed may be all that is
    /// left of what went missing.
    Drop {
        /// What shrank.
        measure: Measure,
        /// The larger one's time.
        previous_at: DateTime<Utc>,
        /// The larger one's number.
        previous: u64,
        /// The smaller one's time.
        taken_at: DateTime<Utc>,
        /// The smaller one's number.
        now: u64,
        /// The drop that passes without a yes.
        limit: Percent,
    },
    /// Backups are stamped later than now: a clock is wrong, here or where they were taken.
    FutureStamped {
        /// How many.
        backups: u64,
        /// The latest.
        latest: DateTime<Utc>,
    },
    /// Manifests could not be read.
    Unreadable {
        /// How many.
        backups: u64,
    },
    /// Backups newer than every candidate lack the evidence to count.
    NewestUnproven {
        /// How many.
        backups: u64,
        /// When the newest candidate was taken.
        newest_candidate_at: DateTime<Utc>,
    },
}

/// What a drop is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum Measure {
    /// The plain snapshot's size.
    PlainBytes,
    /// The number of keys in it.
    Keys,
}

/// What a person said yes to. One yes does not cover another kind of finding: a job that is told to remove many must still
/// stop when the data shrinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    /// To a plan that removes a large share.
    pub to_large_share: bool,
    /// To a plan over backups that shrank.
    pub to_drop: bool,
}

impl Finding {
    /// Whether nothing may be removed until somebody says yes.
    pub fn blocks(&self) -> bool {
        !self.passes(Consent::default())
    }

    /// Whether it lets a plan through, given what was said yes to.
    pub fn passes(&self, consent: Consent) -> bool {
        match self {
            Self::LargeShare { .. } => consent.to_large_share,
            Self::Drop { .. } => consent.to_drop,
            Self::FutureStamped { .. } | Self::Unreadable { .. } | Self::NewestUnproven { .. } => true,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LargeShare { removed, listed, limit } => {
                write!(f, "the plan removes {removed} of {listed} backups, more than {limit}")
            }
            Self::Drop { measure, previous_at, previous, taken_at, now, limit } => {
                let unit = match measure {
                    Measure::PlainBytes => "bytes",
                    Measure::Keys => "keys",
                };
                let (taken_at, previous_at) = (stamp(taken_at), stamp(previous_at));
                write!(
                    f,
                    "the backup of {taken_at} has {now} {unit} where that of {previous_at} had {previous}, a drop of more than {limit}"
                )
            }
            Self::FutureStamped { backups, latest } => {
                write!(f, "stamped in the future: {}, the latest {}", counted(*backups), stamp(latest))
            }
            Self::Unreadable { backups } => write!(f, "manifest cannot be read: {}", counted(*backups)),
            Self::NewestUnproven { backups, newest_candidate_at } => {
                let since = stamp(newest_candidate_at);
                write!(f, "not proven, and newer than the newest proven one of {since}: {}", counted(*backups))
            }
        }
    }
}

fn stamp(at: &DateTime<Utc>) -> impl fmt::Display {
    at.format("%Y-%m-%dT%H:%M:%SZ")
}

fn counted(backups: u64) -> String {
    format!("{backups} {}", if backups == 1 { "backup" } else { "backups" })
}

/// A plan that needs a yes which nobody gave.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing is removed without an explicit yes: {}", .findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Blocked {
    /// What needs the yes.
    pub findings: Vec<Finding>,
}
