//! The walk over the backups of one cluster, newest first.
//!
//! Every step only adds reasons to keep. What has none when all have run may go; there is no step that takes a reason back,
//! so no later rule can undo a guard.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::{
    Backup, Bucket, Count, Finding, KeepReason, Level, Measure, Period, PlanError, Policy, RemoveReason, Span, Verdict,
    Version,
};

/// Positions into `backups` are ages: 0 is the newest.
pub(crate) struct Judge<'a, Id> {
    backups: &'a [Backup<Id>],
    policy: &'a Policy,
    now: DateTime<Utc>,
    /// Readable, not from the future and with enough evidence, held or not; newest first.
    good: Vec<usize>,
    /// The good ones that are not held: what rules see.
    candidates: Vec<usize>,
    reasons: Vec<Vec<KeepReason>>,
}

impl<'a, Id> Judge<'a, Id> {
    /// `backups` come newest first.
    pub(crate) fn new(backups: &'a [Backup<Id>], policy: &'a Policy, now: DateTime<Utc>) -> Result<Self, PlanError> {
        let reasons = backups.iter().map(|_| Vec::new()).collect();
        let mut judge = Self { backups, policy, now, good: Vec::new(), candidates: Vec::new(), reasons };
        judge.good = (0..backups.len()).filter(|&at| judge.is_good(at)).collect();
        judge.hold();
        judge.candidates = judge.good.iter().copied().filter(|&at| judge.reasons[at].is_empty()).collect();
        let all_are_held = judge.reasons.iter().all(|reasons| !reasons.is_empty());
        if judge.candidates.is_empty() && !all_are_held {
            return Err(PlanError::KeepsNothing { listed: backups.len() as u64, needed: policy.min_evidence });
        }
        Ok(judge)
    }

    pub(crate) fn verdicts(mut self) -> (Vec<Verdict>, Vec<Finding>) {
        for (period, count) in self.policy.counts() {
            self.keep_counted(period, count);
        }
        for (period, span) in self.policy.windows() {
            self.keep_within(period, span);
        }
        self.keep_strongest();
        self.keep_drilled();
        self.keep_floor(); // after all that keeps candidates, or it would keep too many
        self.keep_unjudged();

        let removed = self.reasons.iter().filter(|reasons| reasons.is_empty()).count() as u64;
        let findings = self.findings(removed);
        let reasons = std::mem::take(&mut self.reasons);
        (reasons.into_iter().enumerate().map(|(at, reasons)| self.verdict(at, reasons)).collect(), findings)
    }

    fn is_future(&self, at: usize) -> bool {
        self.backups[at].taken_at > self.now
    }

    fn is_good(&self, at: usize) -> bool {
        !self.is_future(at) && self.backups[at].evidence.is_some_and(|level| level >= self.policy.min_evidence)
    }

    fn newest_candidate_at(&self) -> Option<DateTime<Utc>> {
        self.candidates.first().map(|&at| self.backups[at].taken_at)
    }

    /// Marks what somebody holds, and what was taken before an upgrade that has not proved itself.
    fn hold(&mut self) {
        let needed = self.policy.good_after_upgrade;
        let mut newer_good: BTreeMap<&Version, u32> = BTreeMap::new();
        for (at, backup) in self.backups.iter().enumerate() {
            if let Some(why) = &backup.held {
                self.reasons[at].push(KeepReason::Held { why: why.clone() });
            }
            if backup.before_upgrade {
                let newer = backup.version.as_ref().map_or(0, |version| count_above(&newer_good, version, needed));
                if newer < needed {
                    let version = backup.version.clone();
                    self.reasons[at].push(KeepReason::BeforeUpgrade { version, newer, needed });
                }
            }
            if let Some(version) = backup.version.as_ref().filter(|_| self.is_good(at)) {
                let count = newer_good.entry(version).or_default();
                *count = count.saturating_add(1);
            }
        }
    }

    fn keep_counted(&mut self, period: Period, count: Count) {
        if count.is_off() {
            return;
        }
        let mut left = count;
        for (at, bucket, oldest) in representatives(self.backups, &self.candidates, period) {
            if left.is_off() {
                return;
            }
            left = left.minus_one();
            self.reasons[at].push(KeepReason::Counted { period, bucket, left, oldest });
        }
    }

    /// Windows end at the newest candidate and never at `now`: if backups stop, nothing ages out.
    fn keep_within(&mut self, period: Period, span: Span) {
        let Some(newest) = self.newest_candidate_at().filter(|_| !span.is_zero()) else { return };
        for (at, bucket, oldest) in representatives(self.backups, &self.candidates, period) {
            if !span.reaches(self.backups[at].taken_at, newest) {
                return;
            }
            self.reasons[at].push(KeepReason::Within { period, bucket, span, oldest });
        }
    }

    /// The newest of those with the strongest evidence, whatever level that is.
    fn keep_strongest(&mut self) {
        let seen = (0..self.backups.len()).filter(|&at| !self.is_future(at));
        let leveled = seen.filter_map(|at| self.backups[at].evidence.map(|level| (level, at)));
        let strongest = leveled.reduce(|best, next| if next.0 > best.0 { next } else { best });
        if let Some((evidence, at)) = strongest {
            self.reasons[at].push(KeepReason::NewestOfStrongestEvidence { evidence });
        }
    }

    /// The newest that a drill restored: with more than one of them the last must not go either.
    fn keep_drilled(&mut self) {
        let mut drilled = (0..self.backups.len()).filter(|&at| !self.is_future(at) && self.backups[at].was_drilled());
        if let Some(newest) = drilled.next() {
            let only = drilled.next().is_none();
            self.reasons[newest].push(KeepReason::RestoredByDrill { only });
        }
    }

    fn keep_floor(&mut self) {
        let keep_min = self.policy.keep_min;
        let (kept, others): (Vec<usize>, Vec<usize>) =
            self.candidates.iter().partition(|&&at| !self.reasons[at].is_empty());
        let missing = (keep_min as usize).saturating_sub(kept.len());
        for &at in others.iter().take(missing) {
            self.reasons[at].push(KeepReason::Floor { keep_min });
        }
    }

    /// What no rule may judge: the future, the unreadable, and the unproven while their grace lasts.
    fn keep_unjudged(&mut self) {
        let (needed, grace) = (self.policy.min_evidence, self.policy.unproven_grace);
        let newest = self.newest_candidate_at();
        for at in 0..self.backups.len() {
            let backup = &self.backups[at];
            if self.is_future(at) {
                self.reasons[at].push(KeepReason::FutureStamped);
            }
            let Some(evidence) = backup.evidence else {
                self.reasons[at].push(KeepReason::Unreadable);
                continue;
            };
            if evidence < needed && newest.is_none_or(|newest| self.has_grace(backup.taken_at, newest)) {
                self.reasons[at].push(KeepReason::Unproven { evidence, needed, grace });
            }
        }
    }

    /// From the newest candidate and not from now: what is newer than all that is proven may be all there is. What is as
    /// old to the second has grace too, even where there is none to give: once proven, it is "the newest" that another
    /// prune relies on while this one still means to remove it.
    fn has_grace(&self, taken_at: DateTime<Utc>, newest: DateTime<Utc>) -> bool {
        taken_at >= newest || self.policy.unproven_grace.reaches(taken_at, newest)
    }

    fn verdict(&self, at: usize, reasons: Vec<KeepReason>) -> Verdict {
        if !reasons.is_empty() {
            return Verdict::Keep { reasons };
        }
        let (needed, grace) = (self.policy.min_evidence, self.policy.unproven_grace);
        let reason = match self.backups[at].evidence {
            Some(evidence) if evidence < needed => RemoveReason::UnprovenPastGrace { evidence, needed, grace },
            _ => RemoveReason::NoRule,
        };
        Verdict::Remove { reason }
    }

    fn findings(&self, removed: u64) -> Vec<Finding> {
        let mut findings = Vec::new();
        let (listed, limit) = (self.backups.len() as u64, self.policy.share_limit);
        if limit.is_exceeded_by(removed, listed) {
            findings.push(Finding::LargeShare { removed, listed, limit });
        }
        self.find_drops(Measure::PlainBytes, |backup| backup.plain_bytes, &mut findings);
        self.find_drops(Measure::Keys, |backup| backup.keys, &mut findings);

        let future = (0..self.backups.len()).take_while(|&at| self.is_future(at)).count();
        if future > 0 {
            findings.push(Finding::FutureStamped { backups: future as u64, latest: self.backups[0].taken_at });
        }
        let unreadable = self.backups.iter().filter(|backup| backup.evidence.is_none()).count() as u64;
        if unreadable > 0 {
            findings.push(Finding::Unreadable { backups: unreadable });
        }
        if let Some(&newest) = self.candidates.first() {
            let weak = |evidence: Level| evidence < self.policy.min_evidence;
            let unproven =
                self.backups[future..newest].iter().filter(|backup| backup.evidence.is_some_and(weak)).count();
            if unproven > 0 {
                let newest_candidate_at = self.backups[newest].taken_at;
                findings.push(Finding::NewestUnproven { backups: unproven as u64, newest_candidate_at });
            }
        }
        findings
    }

    /// Compares the newest good backups with the good one before them. Held ones are compared too: they are as real as any.
    fn find_drops(&self, measure: Measure, number: impl Fn(&Backup<Id>) -> Option<u64>, findings: &mut Vec<Finding>) {
        let limit = self.policy.drop_alarm;
        let measured =
            self.good.iter().map(|&at| &self.backups[at]).filter_map(|backup| Some((backup, number(backup)?)));
        let pairs = measured.clone().zip(measured.skip(1));
        for ((backup, now), (before, previous)) in pairs.take(self.policy.drop_look_back as usize) {
            if limit.is_exceeded_by(previous.saturating_sub(now), previous) {
                let (previous_at, taken_at) = (before.taken_at, backup.taken_at);
                findings.push(Finding::Drop { measure, previous_at, previous, taken_at, now, limit });
            }
        }
    }
}

fn count_above(newer_good: &BTreeMap<&Version, u32>, version: &Version, enough: u32) -> u32 {
    use std::ops::Bound::{Excluded, Unbounded};
    let mut sum = 0u32;
    // Each version adds at least one, so this stops after `enough` steps however many versions there are.
    for (_, count) in newer_good.range::<&Version, _>((Excluded(version), Unbounded)) {
        sum = sum.saturating_add(*count);
        if sum >= enough {
            break;
        }
    }
    sum
}

/// Newest first, each candidate whose bucket differs from the last one taken, with that bucket; and the oldest of all even
/// if its bucket repeats, marked so: while counts are left, history reaches as far back as there is any.
fn representatives<Id>(
    backups: &[Backup<Id>],
    candidates: &[usize],
    period: Period,
) -> Vec<(usize, Option<Bucket>, bool)> {
    let mut last_taken = None;
    let mut taken = Vec::new();
    for (rank, &at) in candidates.iter().enumerate() {
        let bucket = period.bucket(backups[at].taken_at);
        let repeats = bucket.is_some() && bucket == last_taken;
        if repeats && rank + 1 < candidates.len() {
            continue;
        }
        last_taken = bucket;
        taken.push((at, bucket, repeats));
    }
    taken
}
