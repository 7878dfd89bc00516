//! Parallel regions of OpenMP.

use super::{Attached, ChannelCounter, Listed, MetricSource};

/// The agent counts the parallel regions that end.
pub static REGIONS: MetricSource = MetricSource {
    code: "regions",
    unit: Some("region"),
    listed: Some(Listed {
        name: "regions",
        about: "parallel regions that end, counted by the agent in an OpenMP program",
    }),
    automatic: |_| true,
    measures_idle_programs: false,
    is_flow: false,
    follows_demand: false,
    absent: |_| "the program has no parallel regions that the agent sees".to_owned(),
    counter: Some(ChannelCounter {
        field: "regions",
        word: 1,
        attached: &[Attached::Gomp, Attached::Ompt],
    }),
};
