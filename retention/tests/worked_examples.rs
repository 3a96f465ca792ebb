//! Examples of what a policy keeps, worked out by hand from the rules.
#![allow(clippy::unwrap_used)]

mod history;

use bronzenail_retention::Backup;
use history::{all_proven, bare, judge, kept, nightly, proven, reasons, shown};

const NOW: &str = "2026-12-01T13:00";

fn check(name: &str, entries: Vec<Backup<String>>, settings: &[(&str, &str)], expected: &[&str]) {
    let plan = judge(entries, &bare(settings), NOW);
    assert_eq!(kept(&plan), expected, "example {name}: {settings:?}");
}

fn spring() -> Vec<Backup<String>> {
    all_proven(&[
        "2025-04-21T11:00",
        "2025-04-22T11:00",
        "2025-04-23T11:00",
        "2025-04-24T11:00",
        "2025-04-25T11:00",
        "2025-04-25T23:00",
        "2025-04-28T11:00",
        "2025-04-29T11:00",
        "2025-05-01T11:00",
        "2025-05-02T11:00",
        "2025-05-02T23:00",
    ])
}

#[test]
fn example_01_five_days_with_backups() {
    let expected = ["2025-05-02T23:00", "2025-05-01T11:00", "2025-04-29T11:00", "2025-04-28T11:00", "2025-04-25T23:00"];
    check("1", spring(), &[("keep-daily", "5")], &expected);
}

#[test]
fn example_02_seven_days_of_the_calendar() {
    let expected = ["2025-05-02T23:00", "2025-05-01T11:00", "2025-04-29T11:00", "2025-04-28T11:00"];
    check("2", spring(), &[("keep-within-daily", "7d")], &expected);
}

#[test]
fn example_03_days_weeks_and_months_each_count_on_their_own() {
    let settings = [("keep-daily", "7"), ("keep-weekly", "4"), ("keep-monthly", "3")];
    let expected = [
        "2026-11-30T02:00",
        "2026-11-29T02:00",
        "2026-11-28T02:00",
        "2026-11-27T02:00",
        "2026-11-26T02:00",
        "2026-11-25T02:00",
        "2026-11-24T02:00",
        "2026-11-22T02:00",
        "2026-11-15T02:00",
        "2026-10-31T02:00",
        "2026-10-22T02:00",
    ];
    check("3", nightly(40, "2026-11-30T02:00"), &settings, &expected);

    let plan = judge(nightly(40, "2026-11-30T02:00"), &bare(&settings), NOW);
    assert_eq!(shown(&plan, "2026-10-22T02:00"), "oldest monthly 2026-10 (0 left)");
    assert_eq!(
        shown(&plan, "2026-11-30T02:00"),
        "daily 2026-11-30 (6 left), weekly 2026-W49 (3 left), monthly 2026-11 (2 left), newest read-back"
    );
    assert_eq!(shown(&plan, "2026-11-15T02:00"), "weekly 2026-W46 (0 left)");
    assert_eq!(shown(&plan, "2026-11-16T02:00"), "no rule keeps it");
}

#[test]
fn example_04_the_oldest_is_kept_while_count_is_left() {
    let entries = all_proven(&["2026-11-30T02:00", "2026-11-30T08:00", "2026-11-30T14:00", "2026-11-30T20:00"]);
    check("4", entries.clone(), &[("keep-daily", "7")], &["2026-11-30T20:00", "2026-11-30T02:00"]);
    let plan = judge(entries, &bare(&[("keep-daily", "7")]), NOW);
    assert_eq!(shown(&plan, "2026-11-30T02:00"), "oldest daily 2026-11-30 (5 left)");
}

#[test]
fn example_05_a_manual_backup_displaces_the_nightly_unless_it_is_held() {
    let mut entries = nightly(10, "2026-11-30T02:00");
    entries.push(proven("2026-11-30T09:30"));
    let mut expected = vec![
        "2026-11-30T09:30",
        "2026-11-29T02:00",
        "2026-11-28T02:00",
        "2026-11-27T02:00",
        "2026-11-26T02:00",
        "2026-11-25T02:00",
        "2026-11-24T02:00",
    ];
    check("5", entries.clone(), &[("keep-daily", "7")], &expected);

    entries.last_mut().unwrap().held = Some("before the move".into());
    expected.insert(1, "2026-11-30T02:00");
    check("5, held", entries.clone(), &[("keep-daily", "7")], &expected);
    let plan = judge(entries, &bare(&[("keep-daily", "7")]), NOW);
    assert!(shown(&plan, "2026-11-30T09:30").starts_with("held: before the move"));
}

#[test]
fn example_06_a_burst_uses_up_the_last_ones_but_not_the_days() {
    let mut entries = nightly(10, "2026-11-29T02:00");
    let burst: Vec<String> = (0..10).map(|step| format!("2026-11-30T10:{:02}", step * 5)).collect();
    entries.extend(burst.iter().map(|time| proven(time)));
    let newest = ["2026-11-30T10:45", "2026-11-30T10:40", "2026-11-30T10:35", "2026-11-30T10:30", "2026-11-30T10:25"];
    check("6", entries.clone(), &[("keep-last", "5")], &newest);

    let nights = ["2026-11-29T02:00", "2026-11-28T02:00", "2026-11-27T02:00", "2026-11-26T02:00"];
    let settings = [("keep-last", "5"), ("keep-daily", "5")];
    check("6, with days", entries, &settings, &[&newest[..], &nights[..]].concat());
}

#[test]
fn example_07_an_iso_week_spans_the_turn_of_the_year() {
    let entries = all_proven(&[
        "2024-12-29T02:00",
        "2024-12-30T02:00",
        "2024-12-31T02:00",
        "2025-01-01T02:00",
        "2025-01-05T02:00",
        "2025-01-06T02:00",
    ]);
    let expected = ["2025-01-06T02:00", "2025-01-05T02:00", "2024-12-29T02:00"];
    check("7", entries, &[("keep-weekly", "10")], &expected);
}

#[test]
fn example_08_when_backups_stop_nothing_ages_out() {
    let entries = all_proven(&["2026-08-01T02:00", "2026-08-02T02:00", "2026-08-03T02:00"]);
    let expected = ["2026-08-03T02:00", "2026-08-02T02:00", "2026-08-01T02:00"];
    check("8", entries.clone(), &[("keep-daily", "3")], &expected);
    check("8, within", entries, &[("keep-within", "7d")], &expected);
}

#[test]
fn example_09_exactly_seven_days_is_out() {
    let entries = all_proven(&["2026-11-30T02:00", "2026-11-23T02:00", "2026-11-23T01:59"]);
    check("9", entries, &[("keep-within", "7d")], &["2026-11-30T02:00"]);
}

#[test]
fn example_10_the_oldest_of_a_year_and_of_a_month() {
    let entries = nightly(4, "2026-11-30T02:00");
    let both = ["2026-11-30T02:00", "2026-11-27T02:00"];
    check("10, yearly -1", entries.clone(), &[("keep-yearly", "-1")], &both);
    check("10, monthly 1", entries.clone(), &[("keep-monthly", "1")], &both[..1]);
    check("10, monthly 5", entries, &[("keep-monthly", "5")], &both);
}

#[test]
fn example_11_overlap_does_not_extend_history() {
    let mut entries = nightly(20, "2026-11-30T02:00");
    entries.extend(all_proven(&["2026-11-25T09:00", "2026-11-25T15:00"]));
    let settings = [("keep-last", "3"), ("keep-daily", "3"), ("keep-weekly", "2")];
    check("11", entries.clone(), &settings, &["2026-11-30T02:00", "2026-11-29T02:00", "2026-11-28T02:00"]);
    assert_eq!(reasons(&judge(entries, &bare(&settings), NOW), "2026-11-29T02:00").len(), 3);
}
