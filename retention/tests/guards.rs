//! What keeps a good backup from being lost although no rule would.
#![allow(clippy::unwrap_used)]

mod history;

use bronzenail_retention::{Backup, Consent, Finding, KeepReason, Level, Measure, Percent, PlanError, Policy, plan};
use history::{all_proven, at, bare, judge, kept, nightly, proven, removed, shown};

const NOW: &str = "2026-12-01T13:00";

fn with_evidence(time: &str, evidence: Option<Level>) -> Backup<String> {
    Backup { evidence, ..proven(time) }
}

#[test]
fn b58_a_policy_without_rules_is_an_error_and_never_deletes_all() {
    let settings: [&[(&str, &str)]; 4] =
        [&[], &[("keep-last", "0"), ("keep-daily", "0")], &[("keep-within", "0d")], &[("keep-min", "5")]];
    for settings in settings {
        let result = plan(nightly(3, "2026-11-30T02:00"), &bare(settings), at(NOW));
        assert_eq!(result, Err(PlanError::EmptyPolicy), "{settings:?}");
    }
}

#[test]
fn an_empty_listing_drives_no_deletion() {
    let nothing: Vec<Backup<String>> = Vec::new();
    assert_eq!(plan(nothing, &bare(&[("keep-last", "1")]), at(NOW)), Err(PlanError::EmptyListing));
}

#[test]
fn a_listing_that_repeats_itself_drives_no_deletion() {
    let mut entries = nightly(3, "2026-11-30T02:00");
    // The same name is enough; a store that lies need not lie the same way twice.
    entries.push(Backup { taken_at: at("2020-01-01T00:00"), ..entries[1].clone() });
    let error = plan(entries, &bare(&[("keep-last", "1")]), at(NOW)).unwrap_err();
    assert_eq!(error.to_string(), "the listing shows 2026-11-29T02:00 twice");
}

#[test]
fn b56_what_is_older_than_every_window_survives_while_nothing_newer_comes() {
    let entries = all_proven(&["2026-08-01T02:00", "2026-08-02T02:00", "2026-08-03T02:00"]);
    let policy = Policy { keep_min: 2, ..bare(&[("keep-within", "1h")]) };
    let plan = judge(entries, &policy, NOW);
    assert_eq!(kept(&plan), ["2026-08-03T02:00", "2026-08-02T02:00"]);
    assert_eq!(shown(&plan, "2026-08-02T02:00"), "one of at least 2");
    // Run again over what is left, it removes nothing.
    let left = plan.kept().cloned().collect();
    assert!(removed(&judge(left, &policy, "2027-06-01T00:00")).is_empty());
}

#[test]
fn the_floor_adds_only_what_is_missing_and_the_newest_first() {
    let policy = Policy { keep_min: 4, ..bare(&[("keep-daily", "3")]) };
    let mut entries = nightly(5, "2026-11-30T02:00");
    entries.extend(all_proven(&["2026-11-30T01:00", "2026-11-30T00:30"]));
    let expected = ["2026-11-30T02:00", "2026-11-30T01:00", "2026-11-29T02:00", "2026-11-28T02:00"];
    assert_eq!(kept(&judge(entries, &policy, NOW)), expected);
}

#[test]
fn the_newest_of_the_strongest_evidence_stays() {
    let mut entries = nightly(10, "2026-11-30T02:00");
    entries[6].evidence = Some(Level::Opened);
    entries[8].evidence = Some(Level::Opened);
    let plan = judge(entries, &bare(&[("keep-last", "2")]), NOW);
    assert_eq!(kept(&plan), ["2026-11-30T02:00", "2026-11-29T02:00", "2026-11-24T02:00"]);
    assert_eq!(shown(&plan, "2026-11-24T02:00"), "newest opened");
}

#[test]
fn the_only_one_that_a_drill_restored_stays() {
    let mut entries = nightly(10, "2026-11-30T02:00");
    entries[3].evidence = Some(Level::Opened);
    entries[7].restored_by_drill = true;
    let plan = judge(entries.clone(), &bare(&[("keep-last", "1")]), NOW);
    assert_eq!(kept(&plan), ["2026-11-30T02:00", "2026-11-27T02:00", "2026-11-23T02:00"]);
    assert_eq!(shown(&plan, "2026-11-23T02:00"), "the only one that a drill restored");

    // With two of them, one must be left all the same.
    entries[8].restored_by_drill = true;
    let plan = judge(entries, &bare(&[("keep-last", "1")]), NOW);
    assert_eq!(shown(&plan, "2026-11-23T02:00"), "newest that a drill restored");
    assert_eq!(shown(&plan, "2026-11-22T02:00"), "no rule keeps it");
}

#[test]
fn held_backups_stand_outside_the_counts() {
    let mut entries = nightly(5, "2026-11-30T02:00");
    for (place, why) in [(0, "audit"), (3, "incident 7")] {
        entries[place].held = Some(why.to_owned());
    }
    let plan = judge(entries, &bare(&[("keep-last", "2")]), NOW);
    assert_eq!(kept(&plan), ["2026-11-30T02:00", "2026-11-29T02:00", "2026-11-28T02:00", "2026-11-27T02:00"]);
    assert_eq!(shown(&plan, "2026-11-27T02:00"), "held: incident 7");
}

#[test]
fn when_everything_is_held_there_is_a_plan_that_removes_nothing() {
    let mut entries = nightly(2, "2026-11-30T02:00");
    entries.iter_mut().for_each(|entry| entry.held = Some("audit".to_owned()));
    assert!(removed(&judge(entries, &bare(&[("keep-last", "1")]), NOW)).is_empty());
}

#[test]
fn a_backup_from_before_an_upgrade_is_held_until_the_upgrade_has_proved_itself() {
    let of = |time: &str, version: &str| Backup { version: version.parse().ok(), ..proven(time) };
    let mut entries = vec![
        of("2026-11-28T02:00", "v1.10.0"),
        Backup { before_upgrade: true, ..of("2026-11-27T10:00", "v1.9.2") },
        of("2026-11-27T02:00", "v1.9.2"),
        of("2026-11-26T02:00", "v1.9.2"),
    ];
    let policy = Policy { good_after_upgrade: 2, ..bare(&[("keep-daily", "2")]) };
    let plan = judge(entries.clone(), &policy, NOW);
    // It does not displace the nightly of its day either.
    assert_eq!(kept(&plan), ["2026-11-28T02:00", "2026-11-27T10:00", "2026-11-27T02:00"]);
    assert_eq!(shown(&plan, "2026-11-27T10:00"), "before the upgrade from v1.9.2 (1 of 2 newer good backups)");

    // A second one that is not proven does not count; once it is proven, the hold is over.
    entries.push(Backup { evidence: Some(Level::Stored), ..of("2026-11-29T02:00", "v1.10.0") });
    let plan = judge(entries.clone(), &policy, NOW);
    assert!(shown(&plan, "2026-11-27T10:00").contains("1 of 2"));
    entries.last_mut().unwrap().evidence = Some(Level::ReadBack);
    assert_eq!(kept(&judge(entries.clone(), &policy, NOW)), ["2026-11-29T02:00", "2026-11-28T02:00"]);

    // Nobody can tell when an upgrade from an unknown version is over.
    entries[1].version = None;
    let plan = judge(entries, &policy, NOW);
    assert_eq!(shown(&plan, "2026-11-27T10:00"), "before an upgrade from an unknown version");
}

#[test]
fn unproven_backups_fill_no_bucket_and_stay_while_their_grace_lasts() {
    let entries = vec![
        with_evidence("2026-11-30T08:00", Some(Level::Stored)),
        proven("2026-11-30T02:00"),
        with_evidence("2026-11-29T08:00", Some(Level::Streamed)),
        proven("2026-11-29T02:00"),
        with_evidence("2026-11-23T02:00", Some(Level::Stored)),
        with_evidence("2026-11-22T02:00", Some(Level::Stored)),
    ];
    let policy = bare(&[("keep-daily", "2"), ("unproven-grace", "7d")]);
    let plan = judge(entries, &policy, NOW);
    assert_eq!(removed(&plan), ["2026-11-22T02:00", "2026-11-23T02:00"], "exactly seven days is out");
    assert_eq!(shown(&plan, "2026-11-29T08:00"), "only streamed, not read-back, but within 7d of grace");
    assert_eq!(shown(&plan, "2026-11-23T02:00"), "only stored, not read-back, for more than 7d");
    assert_eq!(shown(&plan, "2026-11-29T02:00"), "daily 2026-11-29 (0 left)");
    assert!(matches!(plan.findings[..], [Finding::NewestUnproven { backups: 1, .. }]));
}

#[test]
fn unproven_backups_newer_than_all_proven_ones_are_never_removed() {
    // Reading back has been broken for months: the proven ones must not age out, nor the only fresh ones go.
    let mut entries = nightly(90, "2026-11-30T02:00");
    entries.iter_mut().for_each(|entry| entry.evidence = Some(Level::Stored));
    entries.extend(nightly(3, "2026-08-31T02:00"));
    let policy = bare(&[("keep-within", "7d"), ("unproven-grace", "0d")]);
    assert!(removed(&judge(entries, &policy, NOW)).is_empty());
}

/// Found by the model: one prune means to remove an unproven twin of the newest candidate; the twin is proven; another prune
/// now takes the twin for the newest, and removes the first one.
#[test]
fn an_unproven_backup_of_the_same_second_as_the_newest_proven_one_is_not_removed() {
    let mut entries = all_proven(&["2026-11-30T02:00", "2026-11-29T02:00"]);
    for name in ["a", "z"] {
        entries.push(Backup { id: name.to_owned(), ..with_evidence("2026-11-30T02:00", Some(Level::Stored)) });
    }
    let policy = bare(&[("keep-last", "1"), ("unproven-grace", "0d")]);
    assert_eq!(removed(&judge(entries, &policy, NOW)), ["2026-11-29T02:00"]);
}

#[test]
fn when_nothing_is_proven_there_is_no_plan() {
    let mut entries = nightly(3, "2026-11-30T02:00");
    entries.iter_mut().for_each(|entry| entry.evidence = Some(Level::Stored));
    let error = plan(entries, &bare(&[("keep-last", "1")]), at(NOW)).unwrap_err();
    assert_eq!(error, PlanError::KeepsNothing { listed: 3, needed: Level::ReadBack });
}

#[test]
fn the_future_uses_up_no_count_and_is_reported() {
    let mut entries = nightly(3, "2026-11-30T02:00");
    entries.extend(all_proven(&["2026-12-01T13:01", "2031-01-01T00:00", "2026-12-01T13:00"]));
    let plan = judge(entries, &bare(&[("keep-last", "2"), ("keep-within", "1d")]), NOW);
    // What is stamped exactly now is not in the future.
    assert_eq!(kept(&plan), ["2031-01-01T00:00", "2026-12-01T13:01", "2026-12-01T13:00", "2026-11-30T02:00"]);
    assert_eq!(shown(&plan, "2031-01-01T00:00"), "stamped in the future");
    assert_eq!(plan.findings, [Finding::FutureStamped { backups: 2, latest: at("2031-01-01T00:00") }]);
    assert_eq!(plan.findings[0].to_string(), "stamped in the future: 2 backups, the latest 2031-01-01T00:00:00Z");
}

#[test]
fn a_manifest_that_cannot_be_read_is_kept_and_uses_up_no_count() {
    let mut entries = nightly(4, "2026-11-30T02:00");
    entries[0].evidence = None;
    entries[3].evidence = None;
    let plan = judge(entries, &bare(&[("keep-last", "1")]), NOW);
    assert_eq!(removed(&plan), ["2026-11-28T02:00"]);
    assert_eq!(shown(&plan, "2026-11-27T02:00"), "manifest cannot be read");
    assert_eq!(plan.findings, [Finding::Unreadable { backups: 2 }]);
}

#[test]
fn a_plan_that_removes_a_large_share_needs_a_yes() {
    let policy = Policy { share_limit: Percent::HALF, ..bare(&[("keep-last", "4")]) };
    let half = judge(nightly(8, "2026-11-30T02:00"), &policy, NOW);
    assert_eq!(removed(&half).len(), 4, "exactly half is not more than half");

    let more = judge(nightly(9, "2026-11-30T02:00"), &policy, NOW);
    let blocked = more.removals(Consent::default()).unwrap_err();
    assert_eq!(
        blocked.to_string(),
        "nothing is removed without an explicit yes: the plan removes 5 of 9 backups, more than 50%"
    );
    assert!(more.removals(Consent { to_drop: true, ..Consent::default() }).is_err(), "a yes to something else");
    assert_eq!(more.removals(Consent { to_large_share: true, ..Consent::default() }).unwrap().len(), 5);
}

#[test]
fn a_drop_against_the_previous_backup_needs_a_yes() {
    type Numbers = (Option<u64>, Option<u64>);
    let sized = |numbers: &[Numbers]| -> Vec<Backup<String>> {
        let entries = nightly(numbers.len() as i64, "2026-11-30T02:00").into_iter().zip(numbers);
        entries.map(|(backup, &(plain_bytes, keys))| Backup { plain_bytes, keys, ..backup }).collect()
    };
    let steady = (Some(100), Some(100));
    let cases: [(&str, Vec<Numbers>, &[Measure]); 9] = [
        ("steady", vec![steady; 4], &[]),
        ("half is not more than half", vec![(Some(50), Some(50)), steady, steady], &[]),
        ("bytes", vec![(Some(49), Some(100)), steady, steady], &[Measure::PlainBytes]),
        ("keys", vec![(Some(100), Some(49)), steady, steady], &[Measure::Keys]),
        ("both, to nothing", vec![(Some(0), Some(0)), steady, steady], &[Measure::PlainBytes, Measure::Keys]),
        ("growth", vec![(Some(900), Some(900)), steady, steady], &[]),
        ("an older drop", vec![steady, steady, (Some(900), Some(900))], &[]),
        ("from nothing", vec![steady, (Some(0), Some(0)), steady], &[]),
        ("one that does not say is passed over", vec![(Some(1), None), (None, None), steady], &[Measure::PlainBytes]),
    ];
    for (name, numbers, expected) in cases {
        let plan = judge(sized(&numbers), &bare(&[("keep-last", "1")]), NOW);
        let found: Vec<Measure> = plan.blockers(Consent::default()).map(measure).collect();
        assert_eq!(found, expected, "{name}");
        assert_eq!(plan.removals(Consent::default()).is_err(), !expected.is_empty(), "{name}");
        assert!(plan.removals(Consent { to_drop: true, ..Consent::default() }).is_ok(), "{name}");
    }
}

fn measure(finding: &Finding) -> Measure {
    match finding {
        Finding::Drop { measure, .. } => *measure,
        other => panic!("{other}"),
    }
}

#[test]
fn a_drop_can_be_looked_for_further_back_and_turned_off() {
    let mut entries = nightly(4, "2026-11-30T02:00");
    for (entry, keys) in entries.iter_mut().zip([10, 10, 100, 100]) {
        entry.keys = Some(keys);
    }
    let mut policy = bare(&[("keep-last", "1")]);
    assert!(judge(entries.clone(), &policy, NOW).removals(Consent::default()).is_ok());
    policy.drop_look_back = 2;
    let plan = judge(entries.clone(), &policy, NOW);
    assert_eq!(
        plan.findings[0].to_string(),
        "the backup of 2026-11-29T02:00:00Z has 10 keys where that of 2026-11-28T02:00:00Z had 100, a drop of more than 50%"
    );
    policy.drop_alarm = Percent::ALL;
    assert!(judge(entries, &policy, NOW).findings.is_empty());
}

#[test]
fn a_held_backup_is_compared_as_any_other() {
    let mut entries = nightly(4, "2026-11-30T02:00");
    for (entry, keys) in entries.iter_mut().zip([10, 100, 10, 10]) {
        entry.keys = Some(keys);
    }
    entries[1].held = Some("audit".to_owned());
    assert!(judge(entries, &bare(&[("keep-last", "1")]), NOW).removals(Consent::default()).is_err());
}

#[test]
fn the_future_is_not_reported_as_unproven_too() {
    let mut entries = nightly(2, "2026-11-30T02:00");
    entries.push(with_evidence("2031-01-01T00:00", Some(Level::Stored)));
    let plan = judge(entries, &bare(&[("keep-last", "1")]), NOW);
    assert_eq!(plan.findings, [Finding::FutureStamped { backups: 1, latest: at("2031-01-01T00:00") }]);
}

#[test]
fn a_drop_is_reported_but_blocks_nothing_where_nothing_is_removed() {
    let mut entries = nightly(2, "2026-11-30T02:00");
    (entries[0].keys, entries[1].keys) = (Some(1), Some(100));
    let plan = judge(entries, &bare(&[("keep-last", "5")]), NOW);
    assert!(plan.findings[0].blocks());
    assert_eq!(plan.removals(Consent::default()), Ok(Vec::new()));
}

#[test]
fn all_reasons_that_hold_are_given() {
    let mut entries = nightly(3, "2026-11-30T02:00");
    entries[0].held = Some("audit".to_owned());
    entries[0].taken_at = at("2026-12-02T02:00");
    entries[0].evidence = None;
    let plan = judge(entries, &bare(&[("keep-last", "1")]), NOW);
    let why = KeepReason::Held { why: "audit".to_owned() };
    assert_eq!(history::reasons(&plan, "2026-11-30T02:00"), [why, KeepReason::FutureStamped, KeepReason::Unreadable]);
}
