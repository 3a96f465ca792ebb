//! The zone of the machine decides nothing.
#![allow(clippy::unwrap_used)]

mod history;

use std::process::Command;

use history::{bare, judge, nightly, proven};

const ASKED: &str = "BRONZENAIL_RETENTION_TEST_PRINTS_A_PLAN";

/// Prints a plan when asked to; the other test runs it in several zones.
#[test]
fn a_plan_is_printed() {
    if std::env::var_os(ASKED).is_none() {
        return;
    }
    println!(); // the harness has begun a line of its own
    let mut entries = nightly(40, "2026-11-30T23:30");
    entries.extend(["2026-11-30T00:10", "2026-11-29T12:00", "2026-03-29T01:30"].map(proven));
    let rules = [("keep-hourly", "3"), ("keep-daily", "5"), ("keep-weekly", "3"), ("keep-monthly", "9")];
    for decision in judge(entries, &bare(&rules), "2026-12-01T13:00").decisions {
        println!("{}: {}", decision.backup.id, decision.verdict);
    }
}

#[test]
fn a_plan_is_the_same_in_every_zone() {
    let printed = |zone: &str| {
        let this = std::env::current_exe().unwrap();
        let mut run = Command::new(this);
        run.args(["--exact", "a_plan_is_printed", "--nocapture", "--test-threads=1"]).env(ASKED, "1").env("TZ", zone);
        let output = run.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<String> = text.lines().filter(|line| line.starts_with("2026-")).map(str::to_owned).collect();
        assert_eq!(lines.len(), 43, "{zone}: {text}");
        lines
    };
    let utc = printed("UTC");
    for zone in ["Pacific/Kiritimati", "Pacific/Pago_Pago", "XYZ+11:30", "Europe/Berlin"] {
        assert_eq!(printed(zone), utc, "{zone}");
    }
}
