//! The real machine: topology through hwloc, tasks through ptrace, counts through perf events and the agent's channel,
//! affinity through the scheduler's calls. Except for the QEMU plugin, only this crate uses libc and unsafe system
//! calls.

mod action;
pub mod affinity;
pub mod calibrate;
pub mod channel;
pub mod child;
pub mod claims;
pub mod counters;
mod cpuset;
pub mod embedded;
pub mod energy;
pub mod functions;
mod guard;
pub mod held;
pub mod interrupt;
pub mod journal;
pub mod launch;
pub mod limits;
pub mod machine;
pub mod machine_state;
pub mod memory;
pub mod mpi;
mod nearest;
mod new_tasks;
mod perf_event;
pub mod pfm;
pub mod prefetchers;
pub mod processor_time;
pub mod procfs;
pub mod qemu;
pub mod region_code;
pub mod regions;
pub mod requested;
mod ring;
mod scheduling;
pub mod service;
pub mod symbols;
mod tasks;
pub mod topology;
pub mod watch;
