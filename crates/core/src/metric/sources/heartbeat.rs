//! Heartbeats: the program reports that a unit of work is done.

use super::{Attached, ChannelCounter, Listed, MetricSource};

/// The program calls `pinfold_heartbeat`.
pub static HEARTBEAT: MetricSource = MetricSource {
    code: "heartbeat",
    unit: Some("heartbeat"),
    listed: Some(Listed {
        name: "heartbeat",
        about: "calls of pinfold_heartbeat, by which the program reports its own progress",
    }),
    automatic: |_| true,
    measures_idle_programs: true,
    is_flow: false,
    follows_demand: false,
    absent: |_| "the program reports no heartbeats".to_owned(),
    counter: Some(ChannelCounter {
        field: "heartbeats",
        word: 0,
        attached: &[Attached::Heartbeat],
    }),
};
