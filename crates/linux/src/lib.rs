//! The real machine: topology through hwloc, tasks through ptrace, counts through perf events and the agent's
//! channel, affinity through the scheduler's calls. The only room with libc and unsafe system calls.

pub mod channel;
pub mod counters;
mod nearest;
pub mod pfm;
mod symbols;
pub mod topology;
