//! Policies from text, and as text.
#![allow(clippy::unwrap_used)]

use std::error::Error;

use bronzenail_retention::{Count, Level, NumberError, Percent, Policy, SettingError, SpanError};

fn policy(settings: &[(&str, &str)]) -> Result<Policy, SettingError> {
    Policy::from_settings(settings.iter().copied())
}

#[test]
fn every_setting_can_be_set() {
    for name in Policy::SETTINGS {
        let mut changed = Policy::default();
        let value = match name {
            "min-evidence" => "opened",
            name if name.contains("within") || name.contains("grace") => "3mo",
            _ => "7",
        };
        changed.set(name, value).unwrap();
        assert_ne!(changed, Policy::default(), "{name}");
    }
}

#[test]
fn settings_are_read_into_their_own_fields() {
    let read = policy(&[
        ("keep-last", "1"),
        ("keep-hourly", "2"),
        ("keep-daily", " 3 "),
        ("keep-weekly", "-1"),
        ("keep-monthly", "unlimited"),
        ("keep-yearly", "0"),
        ("keep-within", "7d"),
        ("min-evidence", "stored"),
        ("share-limit", "30%"),
    ]);
    let expected = Policy {
        last: Count::from(1),
        hourly: Count::from(2),
        daily: Count::from(3),
        weekly: Count::Unlimited,
        monthly: Count::Unlimited,
        within: "1w".parse().unwrap(),
        min_evidence: Level::Stored,
        share_limit: Percent::new(30).unwrap(),
        ..Policy::default()
    };
    assert_eq!(read, Ok(expected));
}

#[test]
fn b58_unset_rules_are_off_and_broken_ones_are_errors() {
    assert!(policy(&[]).unwrap().is_empty());
    for value in ["", " ", "abc", "-2", "99999999999999999999", "7d"] {
        let error = policy(&[("keep-last", value)]).unwrap_err();
        assert_eq!(error.to_string(), "cannot use keep-last", "{value:?}");
        assert!(error.source().is_some(), "{value:?}");
    }
    let source = NumberError::TooLarge("99999999999999999999".to_owned());
    assert_eq!(source.to_string(), "99999999999999999999 is too large; the largest is 4294967295");
    assert_eq!(
        policy(&[("keep-last", "99999999999999999999")]),
        Err(SettingError::Number { name: "keep-last".to_owned(), source })
    );
}

#[test]
fn a_guard_cannot_be_negative() {
    for name in ["keep-min", "good-after-upgrade", "share-limit", "drop-alarm", "drop-look-back"] {
        for value in ["-1", "-99999999999999999999"] {
            let source = NumberError::Negative(value.to_owned());
            assert_eq!(policy(&[(name, value)]), Err(SettingError::Number { name: name.to_owned(), source }), "{name}");
        }
    }
}

#[test]
fn other_mistakes_are_named() {
    let bare_m = SpanError::BareM("3m".to_owned());
    assert_eq!(
        policy(&[("keep-within", "3m")]),
        Err(SettingError::Span { name: "keep-within".to_owned(), source: bare_m })
    );
    assert_eq!(policy(&[("keep-daily", "1"), ("keep-daily", "2")]).unwrap_err().to_string(), "keep-daily is set twice");
    assert_eq!(
        policy(&[("keep-dayly", "1")]).unwrap_err().to_string(),
        "\"keep-dayly\" is no setting of a retention policy"
    );
    let error = policy(&[("min-evidence", "verified")]).unwrap_err();
    assert_eq!(
        error.source().unwrap().to_string(),
        "\"verified\" is no level of evidence: streamed, stored, read-back, opened or restored"
    );
}

#[test]
fn a_policy_reads_as_english() {
    let cases: [(&[(&str, &str)], &str); 8] = [
        (&[], "no rules: remove nothing"),
        (&[("keep-daily", "3"), ("keep-weekly", "5")], "keep 3 daily, 5 weekly backups"),
        (&[("keep-monthly", "1")], "keep 1 monthly backup"),
        (&[("keep-last", "5")], "keep the last 5 backups"),
        (&[("keep-last", "1")], "keep the last 1 backup"),
        (&[("keep-hourly", "24"), ("keep-yearly", "-1")], "keep 24 hourly, all yearly backups"),
        (&[("keep-within", "7d")], "keep all within 7d of the newest"),
        (
            &[("keep-daily", "7"), ("keep-within", "2d"), ("keep-within-monthly", "1y")],
            "keep 7 daily backups, and all within 2d, monthly within 1y of the newest",
        ),
    ];
    for (settings, expected) in cases {
        assert_eq!(policy(settings).unwrap().to_string(), expected);
    }
}
