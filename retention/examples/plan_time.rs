//! How long planning takes for 100,000 backups: hourly ones of eleven years, judged by every kind of rule.
//!
//! `cargo run --release -p bronzenail-retention --example plan_time`

use std::time::Instant;

use bronzenail_retention::{Backup, Level, Policy, plan};
use chrono::{DateTime, TimeDelta, Utc};

const ENTRIES: u32 = 100_000;

fn main() {
    let now = DateTime::<Utc>::from_timestamp(1_796_083_200, 0).expect("a time in 2026");
    let versions: Vec<_> = (0..40).filter_map(|minor| format!("v1.{minor}.0").parse().ok()).collect();
    let entries: Vec<Backup<String>> = (0..ENTRIES)
        // Scattered, as a listing that is not in the order of time would be.
        .map(|place| (u64::from(place) * 7_919 % u64::from(ENTRIES)) as u32)
        .map(|hours| {
            let taken_at = now - TimeDelta::hours(hours.into());
            let id = format!("prod-{}-{hours:06x}", taken_at.format("%Y%m%dT%H%M%SZ"));
            Backup {
                before_upgrade: hours % 50 == 0,
                version: versions.get(39 - (hours / 2_500) as usize).cloned(),
                plain_bytes: Some(100_000_000),
                keys: Some(20_000),
                ..Backup::new(id, taken_at, Some(if hours % 9 == 0 { Level::Stored } else { Level::ReadBack }))
            }
        })
        .collect();
    let settings = [
        ("keep-last", "10"),
        ("keep-hourly", "48"),
        ("keep-daily", "60"),
        ("keep-weekly", "52"),
        ("keep-monthly", "-1"),
        ("keep-yearly", "-1"),
        ("keep-within", "3mo"),
        ("keep-within-daily", "2y"),
    ];
    let policy = Policy::from_settings(settings).expect("the settings are constants");
    println!("{policy}");
    for _ in 0..5 {
        let entries = entries.clone();
        let start = Instant::now();
        match plan(entries, &policy, now) {
            Ok(plan) => {
                let took = start.elapsed();
                println!(
                    "{ENTRIES} entries in {took:.1?}: {} kept, {} removed",
                    plan.kept().count(),
                    plan.removable().count()
                );
            }
            Err(error) => println!("no plan: {error}"),
        }
    }
}
