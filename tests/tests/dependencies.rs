//! Holds the rooms to their dependency table: whoever adds a dependency that the table does not have must change the
//! table too, and with it ARCHITECTURE.md, and say why.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};

/// Which rooms of ours a room may depend on. Dependencies point down only.
const TABLE: &[(&str, &[&str])] = &[
    ("bronzenail-proto", &[]),
    ("bronzenail-format", &[]),
    ("bronzenail-snapshot", &[]),
    ("bronzenail-store", &["format"]),
    ("bronzenail-retention", &["format"]),
    ("bronzenail-gate", &["format"]),
    ("bronzenail-talos", &["proto"]),
    ("bronzenail-cli", &["format", "store", "talos"]),
    ("bronzenail-backup", &["cli", "talos", "store", "format", "snapshot", "retention"]),
    ("bronzenail", &["cli", "talos", "store", "format", "snapshot", "retention", "gate"]),
    ("bronzenail-lab", &["proto", "format", "snapshot", "store", "retention", "gate", "talos", "cli", "backup"]),
];

/// Rooms without input, output, time or concurrency of their own.
const PURE: &[&str] = &["bronzenail-format", "bronzenail-snapshot", "bronzenail-retention", "bronzenail-gate"];

/// What must not stand anywhere below a pure room: runtimes, networks, storage, command lines.
const IMPURE: &[&str] = &["tokio", "tonic", "hyper", "aws-sdk-s3", "aws-config", "clap", "reqwest"];

fn metadata() -> Metadata {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    MetadataCommand::new().manifest_path(manifest).other_options(vec!["--locked".to_owned()]).exec().unwrap()
}

#[test]
fn rooms_depend_only_on_rooms_below_them() {
    let metadata = metadata();
    let rooms: BTreeSet<&str> = metadata.workspace_packages().iter().map(|package| package.name.as_str()).collect();
    let mut problems = Vec::new();
    for package in metadata.workspace_packages() {
        let Some((_, allowed)) = TABLE.iter().find(|(room, _)| *room == package.name.as_str()) else {
            problems.push(format!("{} is not in the table", package.name));
            continue;
        };
        // Dependencies of tests and build scripts too: a room must be testable with what stands below it.
        for dependency in package.dependencies.iter().filter(|dependency| rooms.contains(dependency.name.as_str())) {
            let below = dependency.name.strip_prefix("bronzenail-").unwrap_or(&dependency.name);
            if !allowed.contains(&below) {
                problems.push(format!("{} depends on {} ({})", package.name, dependency.name, dependency.kind));
            }
        }
    }
    assert!(problems.is_empty(), "against the table: {problems:#?}");
}

#[test]
fn the_table_itself_points_down_only() {
    // A room may name only rooms that the table lists before it: that leaves no way for a circle.
    let mut above: Vec<String> = Vec::new();
    for (room, allowed) in TABLE {
        for below in *allowed {
            assert!(above.contains(&format!("bronzenail-{below}")), "{room} names {below}, which is not below it");
        }
        above.push((*room).to_owned());
    }
}

#[test]
fn nothing_impure_stands_below_a_pure_room() {
    let metadata = metadata();
    let names: BTreeMap<&PackageId, &str> =
        metadata.packages.iter().map(|package| (&package.id, package.name.as_str())).collect();
    let mut checked = 0;
    for package in metadata.workspace_packages().iter().filter(|package| PURE.contains(&package.name.as_str())) {
        checked += 1;
        for (found, way) in everything_below(&metadata, &package.id, &names) {
            assert!(!IMPURE.contains(&found), "{found} stands below {}: {way}", package.name);
        }
    }
    assert!(checked >= 2, "format and snapshot are there and pure");
}

#[test]
fn the_search_for_impurity_finds_it_where_it_is() {
    let metadata = metadata();
    let names: BTreeMap<&PackageId, &str> =
        metadata.packages.iter().map(|package| (&package.id, package.name.as_str())).collect();
    let store = metadata.workspace_packages().into_iter().find(|package| package.name.as_str() == "bronzenail-store");
    let below = everything_below(&metadata, &store.unwrap().id, &names);
    assert!(below.contains_key("tokio") && below.contains_key("hyper"), "{:?}", below.keys());
}

/// Every package that is linked in below `root`, with one way that leads to it.
fn everything_below<'a>(
    metadata: &'a Metadata,
    root: &'a PackageId,
    names: &BTreeMap<&'a PackageId, &'a str>,
) -> BTreeMap<&'a str, String> {
    let resolve = metadata.resolve.as_ref().unwrap();
    let nodes: BTreeMap<&PackageId, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let mut ways = BTreeMap::new();
    let mut seen = BTreeSet::from([root]);
    let mut open = vec![(root, names[root].to_owned())];
    while let Some((id, way)) = open.pop() {
        for dependency in &nodes[id].deps {
            // Build scripts and procedural macros run at build time and are not part of the room.
            let linked = dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal);
            if linked && seen.insert(&dependency.pkg) {
                let way = format!("{way} -> {}", names[&dependency.pkg]);
                ways.insert(names[&dependency.pkg], way.clone());
                open.push((&dependency.pkg, way));
            }
        }
    }
    ways
}
