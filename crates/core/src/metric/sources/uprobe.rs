//! Probes in the program's text.

use super::{Listed, MetricSource, unreadable};

/// The kernel counts how often a function is entered. `auto` never chooses it: only the user knows which function
/// stands for progress.
pub static UPROBE: MetricSource = MetricSource {
    code: "uprobe",
    unit: Some("call"),
    listed: Some(Listed {
        name: "uprobe:SYMBOL",
        about: "entries into a function of the program; uprobe:PATH:SYMBOL for one of a library",
    }),
    automatic: |_| false,
    measures_idle_programs: false,
    is_flow: false,
    follows_demand: false,
    absent: unreadable,
    counter: None,
};
