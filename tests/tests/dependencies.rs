//! Dependencies point down only: the table in ARCHITECTURE.md, held by what cargo itself says.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};

/// Room, and the rooms that it may depend on. `None`: any.
const MAY_DEPEND_ON: [(&str, Option<&[&str]>); 9] = [
    ("proto", Some(&[])),
    ("format", Some(&[])),
    ("snapshot", Some(&[])),
    ("retention", Some(&["format"])),
    ("store", Some(&["format"])),
    ("talos", Some(&["proto"])),
    ("cli", Some(&["format", "store", "talos"])),
    ("backup", Some(&["cli", "talos", "store", "format", "snapshot", "retention"])),
    ("lab", None),
];

/// Rooms below which nothing may wait, talk or parse a command line.
const PURE: [&str; 3] = ["format", "snapshot", "retention"];
const IMPURE: [&str; 6] = ["tokio", "tonic", "aws-sdk-s3", "hyper", "clap", "tracing"];

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .exec()
        .expect("cargo knows the workspace")
}

fn room(package: &str) -> Option<&str> {
    package.strip_prefix("bronzenail-")
}

#[test]
fn rooms_depend_only_on_the_rooms_below_them() {
    for package in metadata().workspace_packages() {
        let name = room(&package.name).unwrap_or_else(|| panic!("{} is no room", package.name));
        let (_, allowed) = MAY_DEPEND_ON
            .iter()
            .find(|(known, _)| *known == name)
            .unwrap_or_else(|| panic!("{name} is not in the table"));
        let Some(allowed) = allowed else { continue };
        let used = package.dependencies.iter().filter(|dependency| dependency.kind != DependencyKind::Development);
        for used in used.filter_map(|dependency| room(&dependency.name)) {
            assert!(allowed.contains(&used), "{name} depends on {used}");
        }
    }
}

#[test]
fn nothing_below_a_pure_room_waits_or_talks() {
    let metadata = metadata();
    let resolve = metadata.resolve.as_ref().unwrap();
    let below: BTreeMap<&PackageId, Vec<&PackageId>> = resolve
        .nodes
        .iter()
        .map(|node| {
            let normal =
                node.deps.iter().filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal));
            (&node.id, normal.map(|dep| &dep.pkg).collect())
        })
        .collect();
    for package in metadata.workspace_packages() {
        if !room(&package.name).is_some_and(|name| PURE.contains(&name)) {
            continue;
        }
        let mut seen = BTreeSet::new();
        let mut todo = vec![&package.id];
        while let Some(id) = todo.pop() {
            if seen.insert(id) {
                todo.extend(below[id].iter());
            }
        }
        for id in seen {
            let name = metadata[id].name.as_str();
            assert!(!IMPURE.contains(&name), "{} has {name} below it", package.name);
        }
    }
}

#[test]
fn the_table_in_the_architecture_page_is_this_one() {
    let page = include_str!("../../ARCHITECTURE.md");
    for package in metadata().workspace_packages() {
        assert!(page.contains(&format!("| {} |", package.name)), "{} is missing from ARCHITECTURE.md", package.name);
    }
    assert!(page.lines().count() <= 150, "ARCHITECTURE.md is a map, not a book");
}
