//! What to keep. A policy without a single rule keeps nothing and is refused, by [`plan`](crate::plan()) too.

use std::fmt;

use crate::{Count, Level, Percent, Period, Span};

/// Rules, each of which counts on its own; a backup stays if any of them takes it. The rest are guards, which keep more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The newest so many.
    pub last: Count,
    /// The newest of each of so many hours with backups.
    pub hourly: Count,
    /// The newest of each of so many days with backups.
    pub daily: Count,
    /// The newest of each of so many ISO weeks with backups.
    pub weekly: Count,
    /// The newest of each of so many months with backups.
    pub monthly: Count,
    /// The newest of each of so many years with backups.
    pub yearly: Count,
    /// All that are younger than this, seen from the newest candidate. Zero is off, here and below.
    pub within: Span,
    /// The newest of each hour in this window.
    pub within_hourly: Span,
    /// The newest of each day in this window.
    pub within_daily: Span,
    /// The newest of each week in this window.
    pub within_weekly: Span,
    /// The newest of each month in this window.
    pub within_monthly: Span,
    /// The newest of each year in this window.
    pub within_yearly: Span,
    /// Never fewer candidates than this, whatever the rules say. No rule: a policy of this alone is empty.
    pub keep_min: u32,
    /// The evidence from which on a backup counts.
    pub min_evidence: Level,
    /// How long one with less is left alone.
    pub unproven_grace: Span,
    /// A backup from before an upgrade is held until there are so many good ones of a newer version. Zero: it is not held.
    /// More than the rules keep would hold it for ever.
    pub good_after_upgrade: u32,
    /// A plan that removes more than this share of what is listed needs a yes. 100 turns it off.
    pub share_limit: Percent,
    /// A good backup that shrank by more than this against the good one before it needs a yes. 100 turns it off.
    pub drop_alarm: Percent,
    /// How many of the newest good backups are compared with the one before them.
    pub drop_look_back: u32,
}

impl Default for Policy {
    /// No rules, and guards that suit a nightly backup which reads back what it stored.
    fn default() -> Self {
        Self {
            last: Count::Off,
            hourly: Count::Off,
            daily: Count::Off,
            weekly: Count::Off,
            monthly: Count::Off,
            yearly: Count::Off,
            within: Span::default(),
            within_hourly: Span::default(),
            within_daily: Span::default(),
            within_weekly: Span::default(),
            within_monthly: Span::default(),
            within_yearly: Span::default(),
            keep_min: 1,
            min_evidence: Level::ReadBack,
            unproven_grace: Span::days(14),
            good_after_upgrade: 3,
            share_limit: Percent::HALF,
            drop_alarm: Percent::HALF,
            drop_look_back: 1,
        }
    }
}

impl Policy {
    /// The rules with counts, those that are off too.
    pub fn counts(&self) -> [(Period, Count); 6] {
        [
            (Period::Each, self.last),
            (Period::Hour, self.hourly),
            (Period::Day, self.daily),
            (Period::Week, self.weekly),
            (Period::Month, self.monthly),
            (Period::Year, self.yearly),
        ]
    }

    /// The rules with windows, those that are off too.
    pub fn windows(&self) -> [(Period, Span); 6] {
        [
            (Period::Each, self.within),
            (Period::Hour, self.within_hourly),
            (Period::Day, self.within_daily),
            (Period::Week, self.within_weekly),
            (Period::Month, self.within_monthly),
            (Period::Year, self.within_yearly),
        ]
    }

    /// Whether every rule is off, so that nothing may be removed.
    pub fn is_empty(&self) -> bool {
        self.counts().iter().all(|(_, count)| count.is_off()) && self.windows().iter().all(|(_, span)| span.is_zero())
    }
}

impl fmt::Display for Policy {
    /// The rules in English, without the guards.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no rules: remove nothing");
        }
        let counts: Vec<_> = self.counts().into_iter().filter(|(_, count)| !count.is_off()).collect();
        let windows: Vec<_> = self.windows().into_iter().filter(|(_, span)| !span.is_zero()).collect();

        f.write_str("keep ")?;
        if !counts.is_empty() {
            let noun = if counts.len() == 1 && counts[0].1 == Count::from(1) { "backup" } else { "backups" };
            let counts: Vec<_> = counts.into_iter().map(counted).collect();
            write!(f, "{} {noun}", counts.join(", "))?;
        }
        if windows.is_empty() {
            return Ok(());
        }
        if self.counts().iter().any(|(_, count)| !count.is_off()) {
            f.write_str(", and ")?;
        }
        let windows: Vec<_> = windows.into_iter().map(windowed).collect();
        write!(f, "{} of the newest", windows.join(", "))
    }
}

fn counted((period, count): (Period, Count)) -> String {
    match (period, count) {
        (Period::Each, Count::Unlimited) => "all".to_owned(),
        (Period::Each, count) => format!("the last {count}"),
        (period, Count::Unlimited) => format!("all {}", period.adjective()),
        (period, count) => format!("{count} {}", period.adjective()),
    }
}

fn windowed((period, span): (Period, Span)) -> String {
    match period {
        Period::Each => format!("all within {span}"),
        period => format!("{} within {span}", period.adjective()),
    }
}
