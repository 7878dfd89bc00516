//! Events of the kernel and of the processor.

use super::{Listed, MetricSource, unreadable};

/// The kernel or the processor counts events for each task. `auto` chooses retired instructions only.
pub static EVENT: MetricSource = MetricSource {
    code: "event",
    unit: None,
    listed: Some(Listed {
        name: "event:NAME",
        about: "an event of the list below, in each task",
    }),
    automatic: |metric| metric.unit == "instruction",
    measures_idle_programs: false,
    is_flow: false,
    follows_demand: false,
    absent: unreadable,
    counter: None,
};
