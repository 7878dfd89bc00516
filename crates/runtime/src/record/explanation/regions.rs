//! The configurations of parallel regions, in words.

use super::super::Regions;
use super::{number, sentence};
use pinfold_core::{Pinning, RegionChoice};
use std::fmt::Write as _;

/// What each region got, and why.
pub(super) fn explain(regions: Option<&Regions>, text: &mut String) {
    let Some(regions) = regions else {
        let _ = writeln!(text, "No region got a configuration of its own.");
        return;
    };
    let pages = match regions.pages {
        Some(pages) => format!("pages are placed by {pages}"),
        None => "pages were left alone".to_owned(),
    };
    let gain = match regions.gain {
        Some(gain) => format!("the time of all regions fell from 1 to {:.3}", 1.0 / (1.0 + gain)),
        None => "the effect on all regions was not measured".to_owned(),
    };
    let at = number(regions.at);
    let _ = match regions.kept() {
        0 => writeln!(
            text,
            "From {at} s on no region has a configuration of its own: {pages}, and with those that were tried {gain}."
        ),
        kept => writeln!(
            text,
            "From {at} s on {} have their configurations: {pages}, and {gain}.",
            match kept {
                1 => "1 region".to_owned(),
                several => format!("{several} regions"),
            }
        ),
    };
    if let Some(gain) = regions.program_gain() {
        let _ = writeln!(
            text,
            "The whole program ran {gain} as fast with these configurations as before."
        );
    }
    for choice in &regions.choices {
        let _ = writeln!(text, "  {}", one(choice));
    }
}

fn one(choice: &RegionChoice) -> String {
    let threads = match (choice.threads, &choice.pus) {
        (_, None) => "unpinned".to_owned(),
        (Some(threads), Some(pus)) => format!("{threads} threads on the CPUs {}", Pinning::text(Some(pus))),
        (None, Some(pus)) => format!("on the CPUs {}", Pinning::text(Some(pus))),
    };
    let prefetch = choice
        .prefetch
        .map_or_else(String::new, |prefetch| format!(", prefetchers {prefetch}"));
    let times = match (choice.before, choice.after) {
        (Some(before), Some(after)) => format!("{before:.3e} s an execution before, {after:.3e} s now"),
        (Some(before), None) => format!("{before:.3e} s an execution before"),
        _ => "not measured".to_owned(),
    };
    format!(
        "Region {}, {:.1} % of the time: {threads}{prefetch}; {times}. {}",
        choice.region,
        choice.share * 100.0,
        sentence(&choice.why)
    )
}
