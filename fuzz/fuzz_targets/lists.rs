//! The words of a configuration: lists of PUs and nodes, page mappings, prefetchers, and skipped tasks. The printed
//! form of an accepted word is parsed to the same value.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_core::{NodeSet, PageMapping, Prefetchers, PuSet};
use pinfold_policy::Skip;
use std::fmt::Display;
use std::str::FromStr;

fn reads_back<T: FromStr + Display>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let printed = value.to_string();
        assert_eq!(printed.parse::<T>().ok().map(|again| again.to_string()), Some(printed));
    }
}

fuzz_target!(|text: &str| {
    reads_back::<PuSet>(text);
    reads_back::<NodeSet>(text);
    reads_back::<PageMapping>(text);
    reads_back::<Prefetchers>(text);
    let _ = PuSet::parse_ordered(text);
    let _ = text.parse::<Skip>();
});
