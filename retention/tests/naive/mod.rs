//! The rules a second time, as slowly and plainly as they can be said: every question is asked of the whole history, nothing
//! is walked and nothing is counted down. Buckets are text, months are counted by hand.

use std::collections::BTreeSet;

use bronzenail_retention::{Backup, Count, Level, Policy};
use chrono::{DateTime, Datelike, NaiveDate, TimeDelta, Utc};

/// The three numbers of a span, read back from its text.
#[derive(Clone, Copy)]
struct Length {
    months: i64,
    days: i64,
    minutes: i64,
}

impl Length {
    fn read(text: &str) -> Self {
        let mut length = Self { months: 0, days: 0, minutes: 0 };
        let (mut number, mut unit) = (0, String::new());
        for letter in text.chars().chain(['0']) {
            let Some(digit) = letter.to_digit(10).map(i64::from) else {
                unit.push(letter);
                continue;
            };
            match unit.as_str() {
                "" => {}
                "y" => length.months += 12 * number,
                "mo" => length.months += number,
                "d" => length.days += number,
                "h" => length.minutes += 60 * number,
                "min" => length.minutes += number,
                other => panic!("{other}"),
            }
            number = if unit.is_empty() { 10 * number + digit } else { digit };
            unit.clear();
        }
        length
    }

    fn is_nothing(self) -> bool {
        self.months == 0 && self.days == 0 && self.minutes == 0
    }

    fn back_from(self, end: DateTime<Utc>) -> DateTime<Utc> {
        let month = i64::from(end.year()) * 12 + i64::from(end.month0()) - self.months;
        let (year, month) = (month.div_euclid(12) as i32, month.rem_euclid(12) as u32 + 1);
        // The last day that exists in that month, at most the one wanted.
        let day = (1..=end.day()).rev().find_map(|day| NaiveDate::from_ymd_opt(year, month, day)).unwrap();
        day.and_time(end.time()).and_utc() - TimeDelta::days(self.days) - TimeDelta::minutes(self.minutes)
    }
}

type History<'a> = Vec<&'a Backup<u32>>;

fn newer(a: &Backup<u32>, b: &Backup<u32>) -> bool {
    a.taken_at > b.taken_at || (a.taken_at == b.taken_at && a.id > b.id)
}

fn newest<'a>(history: &[&'a Backup<u32>]) -> Option<&'a Backup<u32>> {
    history.iter().copied().find(|one| history.iter().all(|other| other.id == one.id || newer(one, other)))
}

fn is_oldest(one: &Backup<u32>, history: &[&Backup<u32>]) -> bool {
    history.iter().all(|other| other.id == one.id || newer(other, one))
}

const BUCKETS: [&str; 5] = ["%Y-%m-%d %H", "%Y-%m-%d", "%G week %V", "%Y-%m", "%Y"];

/// The newest of their buckets.
fn heads<'a>(history: &[&'a Backup<u32>], format: &str) -> History<'a> {
    let named: Vec<(String, &Backup<u32>)> =
        history.iter().map(|one| (one.taken_at.format(format).to_string(), *one)).collect();
    let is_head = |(bucket, one): &&(String, &'a Backup<u32>)| {
        !named.iter().any(|(theirs, other)| theirs == bucket && newer(other, one))
    };
    named.iter().filter(is_head).map(|(_, one)| *one).collect()
}

fn kept_by_count(one: &Backup<u32>, history: &[&Backup<u32>], format: &str, count: Count) -> bool {
    let limit = match count {
        Count::Off => return false,
        Count::UpTo(limit) => limit.get() as usize,
        Count::Unlimited => usize::MAX,
    };
    let heads = heads(history, format);
    if heads.iter().any(|head| head.id == one.id) {
        return heads.iter().filter(|head| newer(head, one)).count() < limit;
    }
    is_oldest(one, history) && heads.len() < limit
}

fn kept_by_window(one: &Backup<u32>, history: &[&Backup<u32>], format: Option<&str>, length: Length) -> bool {
    let Some(newest) = newest(history) else { return false };
    if length.is_nothing() || one.taken_at <= length.back_from(newest.taken_at) {
        return false;
    }
    let Some(format) = format else { return true };
    is_oldest(one, history) || heads(history, format).iter().any(|head| head.id == one.id)
}

fn kept_by_rules(one: &Backup<u32>, candidates: &[&Backup<u32>], policy: &Policy) -> bool {
    let counts = [policy.hourly, policy.daily, policy.weekly, policy.monthly, policy.yearly];
    let windows =
        [policy.within_hourly, policy.within_daily, policy.within_weekly, policy.within_monthly, policy.within_yearly];
    let length = |span: bronzenail_retention::Span| Length::read(&span.to_string());
    let rank = candidates.iter().filter(|other| newer(other, one)).count();
    let last = match policy.last {
        Count::Off => false,
        Count::UpTo(limit) => rank < limit.get() as usize,
        Count::Unlimited => true,
    };
    last || kept_by_window(one, candidates, None, length(policy.within))
        || BUCKETS.iter().zip(counts).any(|(format, count)| kept_by_count(one, candidates, format, count))
        || BUCKETS
            .iter()
            .zip(windows)
            .any(|(format, window)| kept_by_window(one, candidates, Some(format), length(window)))
}

/// The names of what is kept; `None` where there must be no plan at all.
pub fn kept(entries: &[Backup<u32>], policy: &Policy, now: DateTime<Utc>) -> Option<BTreeSet<u32>> {
    let past = |one: &&Backup<u32>| one.taken_at <= now;
    let good: History = entries.iter().filter(past).filter(|one| one.evidence >= Some(policy.min_evidence)).collect();
    let is_held = |one: &Backup<u32>| {
        let proven_upgrade = good.iter().filter(|other| newer(other, one)).filter(|other| {
            let (Some(theirs), Some(ours)) = (&other.version, &one.version) else { return false };
            theirs > ours
        });
        one.held.is_some() || one.before_upgrade && proven_upgrade.count() < policy.good_after_upgrade as usize
    };
    let candidates: History = good.iter().copied().filter(|one| !is_held(one)).collect();
    let newest_candidate = newest(&candidates);
    if newest_candidate.is_none() && !entries.iter().all(is_held) {
        return None;
    }

    let judged: History = entries.iter().filter(past).filter(|one| one.evidence.is_some()).collect();
    let strongest = judged.iter().map(|one| one.evidence).max().flatten();
    let best: History = judged.iter().copied().filter(|one| one.evidence == strongest).collect();
    let was_drilled = |one: &&Backup<u32>| one.restored_by_drill || one.evidence == Some(Level::Restored);
    let drilled: History = entries.iter().filter(past).filter(was_drilled).collect();
    let guarded: BTreeSet<u32> = [newest(&best), newest(&drilled)].into_iter().flatten().map(|one| one.id).collect();

    let grace = Length::read(&policy.unproven_grace.to_string());
    let grace_lasts = |one: &Backup<u32>| match newest_candidate.map(|newest| newest.taken_at) {
        Some(newest) => one.taken_at >= newest || one.taken_at > grace.back_from(newest),
        None => true,
    };
    let mut kept = BTreeSet::new();
    for one in entries {
        let unproven = one.evidence < Some(policy.min_evidence);
        let is_candidate = candidates.iter().any(|candidate| candidate.id == one.id);
        if one.taken_at > now
            || one.evidence.is_none()
            || is_held(one)
            || unproven && grace_lasts(one)
            || guarded.contains(&one.id)
            || is_candidate && kept_by_rules(one, &candidates, policy)
        {
            kept.insert(one.id);
        }
    }
    // The floor: the newest candidate that would go stays, until there are enough.
    loop {
        let (stay, go): (History, History) = candidates.iter().partition(|one| kept.contains(&one.id));
        match newest(&go) {
            Some(one) if stay.len() < policy.keep_min as usize => kept.insert(one.id),
            _ => return Some(kept),
        };
    }
}
