//! The plan: a verdict for every backup of one cluster, and the door through which removals leave it.

use std::collections::BTreeMap;
use std::fmt::Display;

use chrono::{DateTime, Utc};

use crate::judge::Judge;
use crate::{Backup, Blocked, Consent, Finding, Level, Policy, Verdict};

/// One backup and what is to happen to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Decision<Id> {
    /// The backup, as it was listed.
    pub backup: Backup<Id>,
    /// What is to happen to it, and why.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub verdict: Verdict,
}

/// A verdict for every backup that was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Plan<Id> {
    /// Newest first.
    pub decisions: Vec<Decision<Id>>,
    /// What a person should see.
    pub findings: Vec<Finding>,
}

/// Why there is no plan. Without one nothing is removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No rule is on.
    #[error("the retention policy has no rule, so it would keep nothing")]
    EmptyPolicy,
    /// Nothing was listed. That is what a wrong prefix and a lying store look like, so it drives no removal of any kind.
    #[error("the listing is empty, so there is nothing to judge")]
    EmptyListing,
    /// The same backup was listed twice: the listing repeats itself and cannot be trusted.
    #[error("the listing shows {0} twice")]
    ListedTwice(String),
    /// There are backups, but none that a rule may keep.
    #[error(
        "the rules would keep none of {listed} backups: none is at least {needed}, readable, not held and not stamped in the future"
    )]
    KeepsNothing {
        /// How many were listed.
        listed: u64,
        /// The evidence that counts.
        needed: Level,
    },
}

/// Judges the backups of one cluster.
///
/// The order of `entries` decides nothing. Everything that is listed is in the plan; what is not listed is never removed.
///
/// # Errors
/// If the policy has no rule or the rules keep nothing, and if the listing is empty or repeats itself.
pub fn plan<Id: Ord + Display>(
    mut entries: Vec<Backup<Id>>,
    policy: &Policy,
    now: DateTime<Utc>,
) -> Result<Plan<Id>, PlanError> {
    if policy.is_empty() {
        return Err(PlanError::EmptyPolicy);
    }
    if entries.is_empty() {
        return Err(PlanError::EmptyListing);
    }
    refuse_repeats(&entries)?;
    entries.sort_unstable_by(|a, b| (b.taken_at, &b.id).cmp(&(a.taken_at, &a.id)));
    let (verdicts, findings) = Judge::new(&entries, policy, now)?.verdicts();
    let decisions = entries.into_iter().zip(verdicts).map(|(backup, verdict)| Decision { backup, verdict }).collect();
    Ok(Plan { decisions, findings })
}

/// Judges several clusters, each apart: no backup of one counts for another, and one that cannot be judged hinders no other.
pub fn plan_each<Cluster: Ord, Id: Ord + Display>(
    entries: impl IntoIterator<Item = (Cluster, Backup<Id>)>,
    policy: &Policy,
    now: DateTime<Utc>,
) -> BTreeMap<Cluster, Result<Plan<Id>, PlanError>> {
    let mut clusters: BTreeMap<Cluster, Vec<Backup<Id>>> = BTreeMap::new();
    for (cluster, backup) in entries {
        clusters.entry(cluster).or_default().push(backup);
    }
    clusters.into_iter().map(|(cluster, entries)| (cluster, plan(entries, policy, now))).collect()
}

fn refuse_repeats<Id: Ord + Display>(entries: &[Backup<Id>]) -> Result<(), PlanError> {
    let mut ids: Vec<&Id> = entries.iter().map(|entry| &entry.id).collect();
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(PlanError::ListedTwice(pair[0].to_string())),
        None => Ok(()),
    }
}

impl<Id> Plan<Id> {
    /// What stays, newest first.
    pub fn kept(&self) -> impl Iterator<Item = &Backup<Id>> {
        self.decisions.iter().filter(|decision| decision.verdict.keeps()).map(|decision| &decision.backup)
    }

    /// What would go, in the order in which it must: oldest first, so that a prune that is cut short has removed what was
    /// worth least. For showing; to act, ask [`Plan::removals`].
    pub fn removable(&self) -> impl Iterator<Item = &Backup<Id>> {
        self.decisions.iter().rev().filter(|decision| !decision.verdict.keeps()).map(|decision| &decision.backup)
    }

    /// The findings that `consent` does not cover, if there is anything that they could block.
    pub fn blockers(&self, consent: Consent) -> impl Iterator<Item = &Finding> {
        let removes = self.removable().next().is_some();
        self.findings.iter().filter(move |finding| removes && !finding.passes(consent))
    }

    /// What may be removed now, oldest first.
    ///
    /// # Errors
    /// If a finding needs a yes that `consent` does not hold; then nothing may be removed.
    pub fn removals(&self, consent: Consent) -> Result<Vec<&Backup<Id>>, Blocked> {
        let findings: Vec<Finding> = self.blockers(consent).cloned().collect();
        if findings.is_empty() { Ok(self.removable().collect()) } else { Err(Blocked { findings }) }
    }
}
