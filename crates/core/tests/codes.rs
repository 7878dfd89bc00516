//! docs/formats/codes.md lists the codes of JSON, all of them and no others.

use pinfold_core::CODE_SETS;
use std::collections::{BTreeMap, BTreeSet};

const FORMATS: &str = include_str!("../../../docs/formats/codes.md");

/// The codes that the document lists, by key: after a line that begins with ``Codes of `KEY` ``, one item for each, or
/// for several.
fn documented() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut sets: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut key = None;
    for line in FORMATS.lines() {
        if let Some(begun) = line.strip_prefix("Codes of `") {
            key = begun.split('`').next();
        } else if let (Some(key), Some(item)) = (key, line.strip_prefix("- ")) {
            let (codes, _) = item.split_once(": ").unwrap_or_else(|| panic!("{line}"));
            let codes = codes.split(", ").map(|code| code.trim_matches('`'));
            sets.entry(key).or_default().extend(codes);
        } else if !line.is_empty() && !line.starts_with("  ") {
            key = None;
        }
    }
    sets
}

#[test]
fn the_document_lists_each_code_of_each_set_and_no_other() {
    // `unknown` is how a reader sees a code of a later pinfold. No pinfold writes it.
    let defined: BTreeMap<&str, BTreeSet<&str>> = CODE_SETS
        .iter()
        .map(|set| {
            let codes = set.codes.iter().copied().filter(|&code| code != "unknown");
            (set.key, codes.collect())
        })
        .collect();
    assert_eq!(defined.len(), CODE_SETS.len(), "two sets have one key");
    let documented = documented();
    for (key, codes) in &defined {
        assert_eq!(
            documented.get(key),
            Some(codes),
            "docs/formats/codes.md: codes of `{key}`"
        );
    }
    let keys: Vec<_> = documented.keys().filter(|key| !defined.contains_key(*key)).collect();
    assert!(
        keys.is_empty(),
        "docs/formats/codes.md lists codes of {keys:?}, which nothing defines"
    );
}
