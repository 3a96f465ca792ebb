//! What holds for every history and every policy, and that two implementations of the rules agree.
#![allow(clippy::unwrap_used)]

mod any;
mod naive;

use std::collections::BTreeSet;

use any::{history, now, policy};
use bronzenail_retention::{Backup, Consent, Level, Plan, PlanError, Policy, Verdict, plan};
use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};

const YES: Consent = Consent { to_large_share: true, to_drop: true };

fn kept(plan: &Plan<u32>) -> BTreeSet<u32> {
    plan.kept().map(|backup| backup.id).collect()
}

fn removed(entries: &[Backup<u32>], policy: &Policy, now: DateTime<Utc>) -> BTreeSet<u32> {
    plan(entries.to_vec(), policy, now)
        .map(|plan| plan.removable().map(|backup| backup.id).collect())
        .unwrap_or_default()
}

fn is_good(backup: &Backup<u32>, policy: &Policy) -> bool {
    backup.taken_at <= now() && backup.evidence.is_some_and(|level| level >= policy.min_evidence)
}

fn was_drilled(backup: &Backup<u32>) -> bool {
    backup.restored_by_drill || backup.evidence == Some(Level::Restored)
}

/// PROPTEST_CASES may ask for more.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.max(500), failure_persistence: None, ..config }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_second_implementation_keeps_the_same(entries in history(), policy in policy()) {
        match (plan(entries.clone(), &policy, now()), naive::kept(&entries, &policy, now())) {
            (Ok(plan), Some(expected)) => prop_assert_eq!(kept(&plan), expected),
            (Err(PlanError::KeepsNothing { .. }), None) => {}
            (ours, theirs) => prop_assert!(false, "{ours:?} and {theirs:?}"),
        }
    }

    #[test]
    fn the_order_of_the_listing_decides_nothing(
        (sorted, shuffled) in history().prop_flat_map(|entries| (Just(entries.clone()), Just(entries).prop_shuffle())),
        policy in policy(),
    ) {
        prop_assert_eq!(plan(sorted, &policy, now()), plan(shuffled, &policy, now()));
    }

    #[test]
    fn what_must_never_go_is_kept(entries in history(), policy in policy()) {
        let Ok(plan) = plan(entries.clone(), &policy, now()) else { return Ok(()) };
        let kept = kept(&plan);
        let stays = |backup: &Backup<u32>| kept.contains(&backup.id);
        let age = |backup: &&Backup<u32>| (backup.taken_at, backup.id);

        for backup in &entries {
            if backup.held.is_some() || backup.taken_at > now() || backup.evidence.is_none() {
                prop_assert!(stays(backup), "{backup:?} is held, future or unreadable");
            }
        }
        let good = || entries.iter().filter(|backup| is_good(backup, &policy));
        if let Some(newest) = good().max_by_key(age) {
            prop_assert!(stays(newest), "{newest:?} is the newest good one");
            // Whatever was taken since may be all that there is of it.
            for backup in entries.iter().filter(|backup| backup.taken_at > newest.taken_at) {
                prop_assert!(stays(backup), "{backup:?} is newer than all that is good");
            }
        }
        let past = || entries.iter().filter(|backup| backup.taken_at <= now());
        if let Some(strongest) = past().max_by_key(|backup| (backup.evidence, backup.taken_at, backup.id)) {
            prop_assert!(stays(strongest), "{strongest:?} is the newest of the strongest evidence");
        }
        if past().any(was_drilled) {
            prop_assert!(past().any(|backup| was_drilled(backup) && stays(backup)), "none that was drilled is left");
        }
        // A floor of candidates; held ones are good as well and only add to it.
        let floor = good().count().min(policy.keep_min as usize);
        prop_assert!(good().filter(|backup| stays(backup)).count() >= floor, "below the floor");
    }

    #[test]
    fn every_backup_has_one_verdict_and_every_verdict_a_reason(entries in history(), policy in policy()) {
        let Ok(plan) = plan(entries.clone(), &policy, now()) else { return Ok(()) };
        let judged: Vec<u32> = plan.decisions.iter().map(|decision| decision.backup.id).collect();
        prop_assert_eq!(judged.len(), entries.len());
        prop_assert_eq!(judged.iter().collect::<BTreeSet<_>>().len(), entries.len());
        for decision in &plan.decisions {
            if let Verdict::Keep { reasons } = &decision.verdict {
                prop_assert!(!reasons.is_empty());
            }
            prop_assert!(!decision.verdict.to_string().is_empty());
        }
        let ages: Vec<_> = plan.removable().map(|backup| (backup.taken_at, backup.id)).collect();
        prop_assert!(ages.is_sorted(), "oldest first");
    }

    #[test]
    fn a_prune_that_is_run_again_removes_nothing_more(entries in history(), policy in policy()) {
        let gone = removed(&entries, &policy, now());
        let left: Vec<_> = entries.into_iter().filter(|backup| !gone.contains(&backup.id)).collect();
        prop_assert_eq!(removed(&left, &policy, now()), BTreeSet::new());
    }

    #[test]
    fn a_prune_that_is_cut_short_and_run_again_removes_nothing_more(
        entries in history(),
        cut in any::<Index>(),
        mut policy in policy(),
    ) {
        // A floor is filled up with the newest of what is left, so a second run may name others.
        policy.keep_min = 0;
        let Ok(first) = plan(entries.clone(), &policy, now()) else { return Ok(()) };
        let doomed: Vec<u32> = first.removals(YES).unwrap().iter().map(|backup| backup.id).collect();
        let gone = &doomed[..cut.index(doomed.len() + 1)];
        let left: Vec<_> = entries.into_iter().filter(|backup| !gone.contains(&backup.id)).collect();
        let second = plan(left, &policy, now()).unwrap();
        prop_assert!(kept(&first).is_subset(&kept(&second)), "{:?} and then {:?}", kept(&first), kept(&second));
    }

    #[test]
    fn what_cannot_be_read_drives_no_deletion(
        (entries, hidden) in history().prop_flat_map(|entries| {
            let ids: Vec<u32> = entries.iter().map(|backup| backup.id).collect();
            (Just(entries), subsequence(ids.clone(), 0..=ids.len()))
        }),
        mut policy in policy(),
    ) {
        // A floor is filled up with the newest of what is left, so it may name others.
        policy.keep_min = 0;
        let mut half_read = entries.clone();
        for backup in half_read.iter_mut().filter(|backup| hidden.contains(&backup.id)) {
            backup.evidence = None;
        }
        prop_assert!(removed(&half_read, &policy, now()).is_subset(&removed(&entries, &policy, now())));
    }

    #[test]
    fn a_hold_drives_no_deletion(entries in history(), chosen in any::<Index>(), mut policy in policy()) {
        policy.keep_min = 0;
        let mut holding = entries.clone();
        let chosen = chosen.index(entries.len());
        holding[chosen].held = Some("why not".to_owned());
        prop_assert!(removed(&holding, &policy, now()).is_subset(&removed(&entries, &policy, now())));
    }

    #[test]
    fn a_clock_that_is_behind_removes_nothing_that_a_right_one_keeps(
        entries in history(),
        mut policy in policy(),
        behind_minutes in prop_oneof![0..3_000i64, 0..2_000_000i64],
    ) {
        policy.keep_min = 0;
        let behind = removed(&entries, &policy, now() - TimeDelta::minutes(behind_minutes));
        prop_assert!(behind.is_subset(&removed(&entries, &policy, now())));
    }

    #[test]
    fn nothing_is_handed_out_while_a_finding_blocks(entries in history(), policy in policy()) {
        let Ok(plan) = plan(entries, &policy, now()) else { return Ok(()) };
        let removes = plan.removable().next().is_some();
        let blocks = plan.findings.iter().any(|finding| finding.blocks());
        prop_assert_eq!(plan.removals(Consent::default()).is_err(), removes && blocks);
        prop_assert_eq!(plan.removals(YES).unwrap().len(), plan.removable().count());
    }
}
