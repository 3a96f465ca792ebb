//! The TOML file: one flat table, whose keys are the names of the flags.
//!
//! Invariant: no text of the file stands in an error, but for a key: the line may be a secret that stands in the wrong file.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::{ConfigError, Item, Kind, Origin, Setting};

/// Letters that may differ between a key and the name that was meant.
const TYPING_ERRORS_MAX: usize = 2;

pub(super) fn read(
    settings: &'static [Setting],
    file: &str,
    text: &str,
) -> Result<BTreeMap<&'static str, Vec<Item>>, ConfigError> {
    // Editors on other systems put a byte-order mark first.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let line = |span: Range<usize>| text[..span.start.min(text.len())].matches('\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| ConfigError::NotToml {
        file: file.to_owned(),
        line: line(error.span().unwrap_or(0..0)),
        why: error.message().to_owned(),
    })?;
    let mut values = BTreeMap::new();
    for (key, value) in table.get_ref() {
        let line = line(key.span());
        let Some(setting) = settings.iter().find(|setting| setting.name == key.get_ref()) else {
            let key = key.get_ref().to_string();
            return Err(ConfigError::UnknownKey { file: file.to_owned(), line, near: near(settings, &key), key });
        };
        let origin = Origin::File(file.to_owned(), line);
        let items = items(setting.kind, value.get_ref(), &origin).ok_or_else(|| {
            let why = format!("`{}` takes {}", setting.name, expected(setting.kind));
            ConfigError::Value { origin: origin.clone(), why }
        })?;
        values.insert(setting.name, items);
    }
    Ok(values)
}

fn expected(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "one text or whole number",
        Kind::List => "a list of texts",
        Kind::Switch => "true or false",
    }
}

fn items(kind: Kind, value: &DeValue<'_>, origin: &Origin) -> Option<Vec<Item>> {
    let one = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Some(Item::new(text.as_ref(), origin)),
        DeValue::Integer(number) => Some(Item::new(number.to_string(), origin)),
        _ => None,
    };
    match (kind, value) {
        (Kind::Switch, DeValue::Boolean(on)) => Some(vec![Item::new(on.to_string(), origin)]),
        (Kind::List, DeValue::Array(list)) => list.iter().map(|value| one(value.get_ref())).collect(),
        (Kind::Text | Kind::List, value) => Some(vec![one(value)?]),
        (Kind::Switch, _) => None,
    }
}

/// A name that the key may have meant.
fn near(settings: &'static [Setting], key: &str) -> Option<&'static str> {
    let key = key.replace('_', "-").to_ascii_lowercase();
    let names = || settings.iter().map(|setting| setting.name);
    let closest = names().map(|name| (distance(name, &key), name)).min()?;
    if closest.0 <= TYPING_ERRORS_MAX.min(key.chars().count() / 2) {
        return Some(closest.1);
    }
    names().find(|name| name.ends_with(&format!("-{key}")) || key.ends_with(&format!("-{name}")))
}

/// Letters to insert, remove or replace to make one text of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn a_distance_counts_letters() {
        for (a, b, letters) in
            [("", "", 0), ("", "ab", 2), ("bucket", "buket", 1), ("level", "lvl", 2), ("abc", "xyz", 3)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (letters, letters), "{a} {b}");
        }
    }
}
