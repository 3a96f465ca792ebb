//! Shorthand for histories of backups, shared by the tests.
#![allow(dead_code, clippy::unwrap_used)]

use bronzenail_retention::{Backup, Consent, KeepReason, Level, Percent, Plan, Policy, plan};
use chrono::{DateTime, TimeDelta, Utc};

pub fn at(text: &str) -> DateTime<Utc> {
    let full = format!("{}Z", if text.len() == 16 { format!("{text}:00") } else { text.to_owned() });
    full.parse().unwrap()
}

/// A proven backup named after its time.
pub fn proven(time: &str) -> Backup<String> {
    Backup::new(time.to_owned(), at(time), Some(Level::ReadBack))
}

pub fn all_proven(times: &[&str]) -> Vec<Backup<String>> {
    times.iter().map(|time| proven(time)).collect()
}

/// One a day at the same hour, so many days, the last of which is given.
pub fn nightly(days: i64, last: &str) -> Vec<Backup<String>> {
    let names = (0..days).map(|back| (at(last) - TimeDelta::days(back)).format("%FT%R").to_string());
    names.map(|name| proven(&name)).collect()
}

/// A policy without the guards that would hide what a rule does by itself.
pub fn bare(settings: &[(&str, &str)]) -> Policy {
    let mut policy = Policy::from_settings(settings.iter().copied()).unwrap();
    policy.keep_min = 0;
    policy.share_limit = Percent::ALL;
    policy
}

pub fn kept(plan: &Plan<String>) -> Vec<&str> {
    plan.kept().map(|backup| backup.id.as_str()).collect()
}

pub fn removed(plan: &Plan<String>) -> Vec<&str> {
    plan.removals(Consent::default()).unwrap().into_iter().map(|backup| backup.id.as_str()).collect()
}

pub fn reasons<'a>(plan: &'a Plan<String>, id: &str) -> &'a [KeepReason] {
    let decision = plan.decisions.iter().find(|decision| decision.backup.id == id).unwrap();
    match &decision.verdict {
        bronzenail_retention::Verdict::Keep { reasons } => reasons,
        bronzenail_retention::Verdict::Remove { reason } => panic!("{id} is not kept: {reason}"),
    }
}

/// What a table shows of one backup.
pub fn shown(plan: &Plan<String>, id: &str) -> String {
    plan.decisions.iter().find(|decision| decision.backup.id == id).unwrap().verdict.to_string()
}

pub fn judge(entries: Vec<Backup<String>>, policy: &Policy, now: &str) -> Plan<String> {
    plan(entries, policy, at(now)).unwrap()
}
