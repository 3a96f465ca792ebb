//! Why a backup stays or goes, as data; `Display` is what a table shows.

use std::fmt;

use crate::{Bucket, Count, Level, Period, Span, Version};

/// What is to happen to a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "verdict", rename_all = "kebab-case"))]
pub enum Verdict {
    /// It stays.
    Keep {
        /// Every reason that holds, at least one.
        reasons: Vec<KeepReason>,
    },
    /// It may go.
    Remove {
        /// Why nothing keeps it.
        reason: RemoveReason,
    },
}

impl Verdict {
    /// Whether it stays.
    pub fn keeps(&self) -> bool {
        matches!(self, Self::Keep { .. })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remove { reason } => write!(f, "{reason}"),
            Self::Keep { reasons } => {
                for (position, reason) in reasons.iter().enumerate() {
                    f.write_str(if position == 0 { "" } else { ", " })?;
                    write!(f, "{reason}")?;
                }
                Ok(())
            }
        }
    }
}

/// Why a backup stays.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "kind", rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum KeepReason {
    /// A rule with a count took it.
    Counted {
        /// The rule.
        period: Period,
        /// The bucket that it stands for.
        bucket: Option<Bucket>,
        /// The rule's count after this one.
        left: Count,
        /// Its bucket had been taken; it is kept because it is the oldest of all and the rule had count left.
        oldest: bool,
    },
    /// A rule with a window took it.
    Within {
        /// The rule.
        period: Period,
        /// The bucket that it stands for.
        bucket: Option<Bucket>,
        /// The window, measured from the newest candidate.
        span: Span,
        /// Its bucket had been taken; it is kept because it is the oldest of all.
        oldest: bool,
    },
    /// Somebody holds it.
    Held {
        /// In their words.
        why: String,
    },
    /// It was taken before an upgrade that has not proved itself yet.
    BeforeUpgrade {
        /// The version that it was taken of, if known.
        version: Option<Version>,
        /// Good backups of a newer version, taken after it.
        newer: u32,
        /// How many there must be.
        needed: u32,
    },
    /// The newest of those with the strongest evidence.
    NewestOfStrongestEvidence {
        /// That evidence.
        evidence: Level,
    },
    /// The newest of those that a drill restored.
    RestoredByDrill {
        /// Whether there is no other.
        only: bool,
    },
    /// Without it, fewer candidates than the floor would be left.
    Floor {
        /// The floor.
        keep_min: u32,
    },
    /// Its evidence is too weak to count, and its grace time is not over.
    Unproven {
        /// The evidence that it has.
        evidence: Level,
        /// The evidence that counts.
        needed: Level,
        /// The grace time, measured from the newest candidate.
        grace: Span,
    },
    /// It is stamped later than now.
    FutureStamped,
    /// Its manifest cannot be read, so nothing is known of it.
    Unreadable,
}

impl fmt::Display for KeepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counted { period, bucket, left, oldest } => {
                write_rule(f, *period, *bucket, *oldest)?;
                match left {
                    Count::Unlimited => Ok(()),
                    left => write!(f, " ({left} left)"),
                }
            }
            Self::Within { period: Period::Each, span, .. } => write!(f, "within {span}"),
            Self::Within { period, bucket, span, oldest } => {
                write_rule(f, *period, *bucket, *oldest)?;
                write!(f, " within {span}")
            }
            Self::Held { why } => write!(f, "held: {why}"),
            Self::BeforeUpgrade { version: Some(version), newer, needed } => {
                write!(f, "before the upgrade from {version} ({newer} of {needed} newer good backups)")
            }
            Self::BeforeUpgrade { version: None, .. } => f.write_str("before an upgrade from an unknown version"),
            Self::NewestOfStrongestEvidence { evidence } => write!(f, "newest {evidence}"),
            Self::RestoredByDrill { only: true } => f.write_str("the only one that a drill restored"),
            Self::RestoredByDrill { only: false } => f.write_str("newest that a drill restored"),
            Self::Floor { keep_min } => write!(f, "one of at least {keep_min}"),
            Self::Unproven { evidence, needed, grace } => {
                write!(f, "only {evidence}, not {needed}, but within {grace} of grace")
            }
            Self::FutureStamped => f.write_str("stamped in the future"),
            Self::Unreadable => f.write_str("manifest cannot be read"),
        }
    }
}

fn write_rule(f: &mut fmt::Formatter<'_>, period: Period, bucket: Option<Bucket>, oldest: bool) -> fmt::Result {
    let oldest = if oldest { "oldest " } else { "" };
    write!(f, "{oldest}{}", period.adjective())?;
    bucket.map_or(Ok(()), |bucket| write!(f, " {bucket}"))
}

/// Why nothing keeps a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "kind", rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum RemoveReason {
    /// It is proven, and no rule takes it.
    NoRule,
    /// It was not proven within its grace time.
    UnprovenPastGrace {
        /// The evidence that it has.
        evidence: Level,
        /// The evidence that counts.
        needed: Level,
        /// The grace time, measured from the newest candidate.
        grace: Span,
    },
}

impl fmt::Display for RemoveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRule => f.write_str("no rule keeps it"),
            Self::UnprovenPastGrace { evidence, needed, grace } => {
                write!(f, "only {evidence}, not {needed}, for more than {grace}")
            }
        }
    }
}
