//! A plan as data.
#![cfg(feature = "serde")]
#![allow(clippy::unwrap_used)]

mod history;

use bronzenail_retention::Level;
use history::{bare, judge, nightly};
use serde_json::json;

#[test]
fn a_plan_is_data_with_its_reasons() {
    let mut entries = nightly(4, "2026-11-30T02:00");
    entries[2].evidence = Some(Level::Opened);
    entries[3].evidence = None;
    let policy = bare(&[("keep-weekly", "1"), ("keep-yearly", "-1"), ("keep-within-daily", "1d")]);
    let plan = serde_json::to_value(judge(entries, &policy, "2026-12-01T13:00")).unwrap();
    assert_eq!(plan["decisions"][0]["verdict"], "keep");
    assert_eq!(
        plan["decisions"][0]["reasons"],
        json!([
            {"kind": "counted", "period": "week", "bucket": "2026-W49", "left": 0, "oldest": false},
            {"kind": "counted", "period": "year", "bucket": "2026", "left": null, "oldest": false},
            {"kind": "within", "period": "day", "bucket": "2026-11-30", "span": "1d", "oldest": false},
        ])
    );
    assert_eq!(plan["decisions"][1]["verdict"], "remove");
    assert_eq!(plan["decisions"][1]["reason"], json!({"kind": "no-rule"}));
    assert_eq!(plan["decisions"][1]["backup"]["id"], "2026-11-29T02:00");
    assert_eq!(plan["decisions"][1]["backup"]["taken_at"], "2026-11-29T02:00:00Z");
    assert_eq!(plan["decisions"][1]["backup"]["evidence"], "read-back");
    assert_eq!(plan["decisions"][3]["reasons"], json!([{"kind": "unreadable"}]));
    assert_eq!(plan["findings"], json!([{"kind": "unreadable", "backups": 1}]));
}
