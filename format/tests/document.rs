//! FORMAT.md is normative, so its examples are held to the code, and the code's fields to its tables.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use bronzenail_format::name::{ParsedKey, parse_key};
use bronzenail_format::seal::LEVEL_DEFAULT;
use bronzenail_format::{Evidence, EvidenceLevel, Manifest, Prefix, Recipients};
use serde_json::Value;

const DOCUMENT: &str = include_str!("../FORMAT.md");

fn json_blocks() -> Vec<String> {
    let blocks = DOCUMENT.split("```json\n").skip(1);
    blocks.map(|rest| rest.split_once("```").unwrap().0.to_owned()).collect()
}

/// `source.node`, `evidence.level`, ...: lists are looked into, maps of free text are not.
fn paths(prefix: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) if prefix != "evidence.detail" => {
            for (name, value) in fields {
                let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                paths(&path, value, found);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().for_each(|item| paths(prefix, item, found));
        }
        _ => drop(found.insert(prefix.to_owned())),
    }
}

fn paths_of(json: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    paths("", &serde_json::from_str(json).unwrap(), &mut found);
    found
}

#[test]
fn the_manifest_in_the_document_is_what_the_code_writes() {
    let [manifest, _] = &json_blocks()[..] else { panic!("two examples") };
    let parsed = Manifest::from_json(manifest.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(parsed.to_json()).unwrap(), *manifest);
    assert_eq!(parsed.zstd_level, LEVEL_DEFAULT);
    assert_eq!(Recipients::try_from(&parsed).unwrap().canonical(), parsed.recipients);
    // With every field that there is.
    assert_eq!(paths_of(manifest), paths_of(include_str!("../golden/v1/manifest-full.json")));
}

#[test]
fn every_field_has_a_row_in_the_document() {
    let [manifest, _] = &json_blocks()[..] else { panic!("two examples") };
    let rows: String = DOCUMENT.lines().filter(|line| line.starts_with("| `")).collect::<Vec<_>>().join("\n");
    for path in paths_of(manifest) {
        let short = path.strip_prefix("evidence.").unwrap_or(&path);
        assert!(rows.contains(&format!("`{short}`")), "{path} has no row");
    }
}

#[test]
fn the_evidence_in_the_document_is_what_the_code_writes() {
    let [_, evidence] = &json_blocks()[..] else { panic!("two examples") };
    let (id, parsed) = Evidence::from_json(evidence.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(parsed.to_json(&id)).unwrap(), *evidence);
}

#[test]
fn every_level_has_a_row_in_the_document() {
    let mut at = 0;
    for level in EvidenceLevel::ALL {
        let row = DOCUMENT[at..].find(&format!("\n| `{level}` |")).unwrap_or_else(|| panic!("{level}, in this order"));
        at += row + 1;
    }
}

#[test]
fn the_names_in_the_overview_are_names() {
    let (_, overview) = DOCUMENT.split_once("## 2. Overview").unwrap();
    let (overview, _) = overview.split_once("## 3.").unwrap();
    let names = overview.lines().filter_map(|line| line.split_whitespace().next());
    let kinds: Vec<_> = names
        .filter(|name| name.starts_with("homelab-"))
        .map(|name| parse_key(&Prefix::default(), &format!("homelab/{name}")))
        .collect();
    assert!(
        matches!(&kinds[..], [ParsedKey::Data(_), ParsedKey::Manifest(_), ParsedKey::Evidence { .. }]),
        "{kinds:?}"
    );
}
