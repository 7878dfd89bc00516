//! Barriers of OpenMP.

use super::{Attached, ChannelCounter, Listed, MetricSource};

/// The agent counts the team barriers passed inside parallel regions.
pub static BARRIERS: MetricSource = MetricSource {
    code: "barriers",
    unit: Some("barrier"),
    listed: Some(Listed {
        name: "barriers",
        about: "team barriers passed inside parallel regions, counted by the agent in an OpenMP program",
    }),
    automatic: |_| true,
    measures_idle_programs: false,
    is_flow: false,
    follows_demand: false,
    absent: |_| "the program has no barriers that the agent sees".to_owned(),
    counter: Some(ChannelCounter {
        field: "barriers",
        word: 2,
        attached: &[Attached::Gomp, Attached::Ompt],
    }),
};
