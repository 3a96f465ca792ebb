//! Each rule by itself, and how rules meet.
#![allow(clippy::unwrap_used)]

mod history;

use bronzenail_retention::{Backup, Bucket, Count, KeepReason, Period, Span, plan_each};
use chrono::NaiveDate;
use history::{all_proven, at, bare, judge, kept, nightly, proven, reasons, removed, shown};

const NOW: &str = "2026-12-01T13:00";

/// Two in one hour, two more that day, one the day before, one the week, month and year before that.
fn spread() -> Vec<Backup<String>> {
    all_proven(&[
        "2026-11-30T10:40",
        "2026-11-30T10:20",
        "2026-11-30T09:50",
        "2026-11-30T02:00",
        "2026-11-29T02:00",
        "2026-11-20T02:00",
        "2026-10-05T02:00",
        "2025-12-24T02:00",
        "2024-06-01T02:00",
    ])
}

#[test]
fn each_counted_rule_keeps_the_newest_of_its_buckets() {
    let cases: [(&str, &str, &[&str]); 8] = [
        ("keep-last", "2", &["2026-11-30T10:40", "2026-11-30T10:20"]),
        ("keep-hourly", "3", &["2026-11-30T10:40", "2026-11-30T09:50", "2026-11-30T02:00"]),
        ("keep-daily", "3", &["2026-11-30T10:40", "2026-11-29T02:00", "2026-11-20T02:00"]),
        ("keep-weekly", "3", &["2026-11-30T10:40", "2026-11-29T02:00", "2026-11-20T02:00"]),
        ("keep-monthly", "2", &["2026-11-30T10:40", "2026-10-05T02:00"]),
        ("keep-yearly", "2", &["2026-11-30T10:40", "2025-12-24T02:00"]),
        ("keep-yearly", "unlimited", &["2026-11-30T10:40", "2025-12-24T02:00", "2024-06-01T02:00"]),
        ("keep-daily", "1", &["2026-11-30T10:40"]),
    ];
    for (name, count, expected) in cases {
        assert_eq!(kept(&judge(spread(), &bare(&[(name, count)]), NOW)), expected, "{name} {count}");
    }
}

#[test]
fn each_window_ends_at_the_newest_backup() {
    let cases: [(&str, &str, &[&str]); 7] = [
        ("keep-within", "30min", &["2026-11-30T10:40", "2026-11-30T10:20"]),
        ("keep-within-hourly", "12h", &["2026-11-30T10:40", "2026-11-30T09:50", "2026-11-30T02:00"]),
        ("keep-within-daily", "2w", &["2026-11-30T10:40", "2026-11-29T02:00", "2026-11-20T02:00"]),
        ("keep-within-weekly", "1w", &["2026-11-30T10:40", "2026-11-29T02:00"]),
        ("keep-within-monthly", "3mo", &["2026-11-30T10:40", "2026-10-05T02:00"]),
        ("keep-within-yearly", "1y", &["2026-11-30T10:40", "2025-12-24T02:00"]),
        ("keep-within-yearly", "9y", &["2026-11-30T10:40", "2025-12-24T02:00", "2024-06-01T02:00"]),
    ];
    for (name, span, expected) in cases {
        assert_eq!(kept(&judge(spread(), &bare(&[(name, span)]), NOW)), expected, "{name} {span}");
    }
}

#[test]
fn one_bucket_is_one_backup_for_every_rule() {
    // Two rules with one backup each keep the same one, not two.
    let plan = judge(spread(), &bare(&[("keep-daily", "1"), ("keep-monthly", "1")]), NOW);
    assert_eq!(kept(&plan), ["2026-11-30T10:40"]);
    let day = NaiveDate::from_ymd_opt(2026, 11, 30).unwrap();
    let counted =
        |period, bucket| KeepReason::Counted { period, bucket: Some(bucket), left: Count::Off, oldest: false };
    let reasons = reasons(&plan, "2026-11-30T10:40");
    assert!(reasons.contains(&counted(Period::Day, Bucket::Day { day })));
    assert!(reasons.contains(&counted(Period::Month, Bucket::Month { year: 2026, month: 11 })));
}

#[test]
fn the_oldest_is_kept_by_a_window_only_if_it_lies_in_it() {
    let entries = all_proven(&["2026-11-30T20:00", "2026-11-30T08:00", "2026-11-30T02:00"]);
    let plan = judge(entries.clone(), &bare(&[("keep-within-daily", "1d")]), NOW);
    assert_eq!(kept(&plan), ["2026-11-30T20:00", "2026-11-30T02:00"]);
    assert_eq!(shown(&plan, "2026-11-30T02:00"), "oldest daily 2026-11-30 within 1d");
    assert_eq!(kept(&judge(entries, &bare(&[("keep-within-daily", "18h")]), NOW)), ["2026-11-30T20:00"]);
}

#[test]
fn a_window_reaches_to_the_last_day_of_a_shorter_month() {
    let entries = all_proven(&["2026-03-31T02:00", "2026-02-28T02:01", "2026-02-28T02:00"]);
    assert_eq!(kept(&judge(entries, &bare(&[("keep-within", "1mo")]), NOW)), ["2026-03-31T02:00", "2026-02-28T02:01"]);
}

#[test]
fn buckets_are_utc_whatever_the_offset_of_a_name() {
    let other_zone =
        |text: &str| Backup::new(text.to_owned(), text.parse().unwrap(), proven("2026-01-01T00:00").evidence);
    // In their own zones these are three days; in UTC they are one, and the oldest of all.
    let names = ["2026-11-29T23:30:00-02:00", "2026-11-30T12:00:00+00:00", "2026-12-01T01:00:00+09:00"];
    let plan = judge(names.map(other_zone).to_vec(), &bare(&[("keep-daily", "1")]), NOW);
    assert_eq!(kept(&plan), ["2026-12-01T01:00:00+09:00"]);
}

#[test]
fn b55_time_and_not_the_name_decides_what_is_newest() {
    let named = |name: &str, time: &str| Backup { id: name.to_owned(), ..proven(time) };
    let entries = vec![
        named("1767225600", "2026-01-01T00:00"),
        named("20260101T000100Z", "2026-01-01T00:01"),
        named("2026-01-01T00:02:00Z", "2026-01-01T00:02"),
        named("0-the-newest", "2026-01-01T00:03"),
        named("zz-the-oldest", "2025-12-31T23:00"),
    ];
    let plan = judge(entries, &bare(&[("keep-last", "3")]), NOW);
    assert_eq!(kept(&plan), ["0-the-newest", "2026-01-01T00:02:00Z", "20260101T000100Z"]);
}

#[test]
fn b62_backups_of_one_second_are_told_apart_by_name() {
    let twin = |name: &str| Backup { id: name.to_owned(), ..proven("2026-11-30T02:00:07") };
    for entries in [[twin("a"), twin("b"), twin("c")], [twin("c"), twin("a"), twin("b")]] {
        let plan = judge(entries.to_vec(), &bare(&[("keep-last", "2")]), NOW);
        assert_eq!((kept(&plan), removed(&plan)), (vec!["c", "b"], vec!["a"]));
    }
}

#[test]
fn removal_begins_with_the_oldest() {
    let plan = judge(nightly(6, "2026-11-30T02:00"), &bare(&[("keep-last", "3")]), NOW);
    assert_eq!(removed(&plan), ["2026-11-25T02:00", "2026-11-26T02:00", "2026-11-27T02:00"]);
}

#[test]
fn a_window_longer_than_time_keeps_everything() {
    let policy = bare(&[("keep-within", "4294967295mo")]);
    assert_eq!(judge(spread(), &policy, NOW).kept().count(), spread().len());
}

#[test]
fn a_window_of_no_length_is_off_like_a_count_of_zero() {
    let mut policy = bare(&[("keep-last", "2"), ("keep-within", "0d"), ("keep-daily", "0")]);
    assert_eq!(policy.within, Span::default());
    assert_eq!(judge(spread(), &policy, NOW).kept().count(), 2);
    policy.last = Count::Off;
    assert!(policy.is_empty());
}

#[test]
fn clusters_are_judged_apart() {
    let entries = nightly(3, "2026-11-30T02:00").into_iter().map(|backup| ("prod", backup));
    // The same names in another cluster, older; and one that cannot be judged.
    let older = nightly(3, "2020-11-30T02:00").into_iter().map(|backup| ("prod-2", backup));
    let unproven = [("broken", Backup { evidence: None, ..proven("2026-11-30T02:00") })];
    let plans = plan_each(entries.chain(older).chain(unproven), &bare(&[("keep-last", "2")]), at(NOW));
    assert_eq!(kept(plans["prod"].as_ref().unwrap()), ["2026-11-30T02:00", "2026-11-29T02:00"]);
    assert_eq!(kept(plans["prod-2"].as_ref().unwrap()), ["2020-11-30T02:00", "2020-11-29T02:00"]);
    assert!(plans["broken"].is_err());
}
