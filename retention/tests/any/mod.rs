//! Random histories and policies. Times crowd together on purpose: in the same minute, hour, day, month, and around `now`.

use bronzenail_retention::{Backup, Count, Level, Percent, Policy, Span};
use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;

pub const NOW: &str = "2026-11-30T12:30:00Z";

pub fn now() -> DateTime<Utc> {
    NOW.parse().unwrap()
}

fn age_minutes() -> impl Strategy<Value = i64> {
    prop_oneof![
        1 => -3 * 1440i64..=0,
        3 => 0..180i64,
        4 => 0..4 * 1440i64,
        4 => (0..60i64).prop_map(|days| days * 1440),
        4 => 0..60 * 1440i64,
        3 => 0..3 * 366 * 1440i64,
        2 => prop::sample::select(vec![1440, 7 * 1440, 30 * 1440, 31 * 1440, 365 * 1440, 334 * 1440 + 630]),
    ]
}

fn evidence() -> impl Strategy<Value = Option<Level>> {
    prop_oneof![
        1 => Just(None),
        2 => Just(Some(Level::Streamed)),
        2 => Just(Some(Level::Stored)),
        8 => Just(Some(Level::ReadBack)),
        1 => Just(Some(Level::Opened)),
        1 => Just(Some(Level::Restored)),
    ]
}

prop_compose! {
    fn backup()(
        age in age_minutes(),
        evidence in evidence(),
        restored_by_drill in prop::bool::weighted(0.05),
        held in prop::bool::weighted(0.1),
        before_upgrade in prop::bool::weighted(0.2),
        version in prop::option::weighted(0.8, prop::sample::select(vec!["v1.9.0", "v1.10.0-beta.1", "v1.10.0"])),
        plain_bytes in prop::option::weighted(0.7, 0..2_000u64),
        keys in prop::option::weighted(0.7, 0..2_000u64),
    ) -> Backup<u32> {
        Backup {
            id: 0,
            taken_at: now() - TimeDelta::minutes(age),
            evidence,
            restored_by_drill,
            held: held.then(|| "held".to_owned()),
            before_upgrade,
            version: version.map(|text| text.parse().unwrap()),
            plain_bytes,
            keys,
        }
    }
}

/// Up to 29 backups in no order, each with a name of its own.
pub fn history() -> impl Strategy<Value = Vec<Backup<u32>>> {
    prop::collection::vec(backup(), 1..30).prop_map(|mut entries| {
        for (id, entry) in (0u32..).zip(entries.iter_mut()) {
            entry.id = id;
        }
        entries
    })
}

fn count() -> impl Strategy<Value = Count> {
    prop_oneof![6 => Just(Count::Off), 6 => (1..6u32).prop_map(Count::from), 1 => Just(Count::Unlimited)]
}

fn window() -> impl Strategy<Value = Span> {
    let some = vec!["30min", "5h", "1d", "7d", "1mo", "3mo", "1y", "1y1mo3d2h", "1mo1d"];
    prop_oneof![8 => Just(Span::default()), 2 => prop::sample::select(some).prop_map(|text| text.parse().unwrap())]
}

prop_compose! {
    /// Any policy with at least one rule.
    pub fn policy()(
        (last, hourly, daily, weekly, monthly, yearly) in (count(), count(), count(), count(), count(), count()),
        windows in (window(), window(), window(), window(), window(), window()),
        keep_min in 0..6u32,
        min_evidence in prop::sample::select(vec![Level::Streamed, Level::Stored, Level::ReadBack, Level::Opened]),
        unproven_grace in window(),
        good_after_upgrade in 0..4u32,
        (share_limit, drop_alarm, drop_look_back) in (0..=100u8, 0..=100u8, 0..3u32),
    ) -> Policy {
        let (within, within_hourly, within_daily, within_weekly, within_monthly, within_yearly) = windows;
        let mut policy = Policy {
            last, hourly, daily, weekly, monthly, yearly,
            within, within_hourly, within_daily, within_weekly, within_monthly, within_yearly,
            keep_min, min_evidence, unproven_grace, good_after_upgrade,
            share_limit: Percent::new(share_limit).unwrap(),
            drop_alarm: Percent::new(drop_alarm).unwrap(),
            drop_look_back,
        };
        if policy.is_empty() {
            policy.daily = Count::from(2);
        }
        policy
    }
}
