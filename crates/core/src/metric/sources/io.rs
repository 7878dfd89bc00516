//! Bytes that the program reads and writes.

use super::{Listed, MetricSource};

/// The kernel counts the bytes that each task reads and writes: `rchar` and `wchar` of proc(5). They are progress of a
/// program that processes a stream, unless its clients or a disk set the pace (docs/metrics.md).
pub static IO: MetricSource = MetricSource {
    code: "io",
    unit: Some("byte"),
    listed: Some(Listed {
        name: "io",
        about: "bytes that the program's processes read and write, in files, pipes and sockets",
    }),
    automatic: |_| true,
    measures_idle_programs: false,
    is_flow: true,
    follows_demand: true,
    absent: |_| "the kernel does not show the bytes that the program reads and writes".to_owned(),
    counter: None,
};
