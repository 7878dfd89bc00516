//! Calls of MPI.

use super::{Attached, ChannelCounter, Listed, MetricSource};

/// The interposer counts the calls of MPI functions that stand for progress (`agent/mpi_functions.h`).
pub static MPI: MetricSource = MetricSource {
    code: "mpi",
    unit: Some("call"),
    listed: Some(Listed {
        name: "mpi",
        about: "MPI calls that communicate, wait, or read and write files, counted in all ranks of this machine",
    }),
    automatic: |_| true,
    measures_idle_programs: false,
    is_flow: false,
    follows_demand: false,
    absent: |_| "the program makes no MPI calls that the agent sees".to_owned(),
    counter: Some(ChannelCounter {
        field: "mpi_calls",
        word: 3,
        attached: &[Attached::Mpi],
    }),
};
