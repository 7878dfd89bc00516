//! Samples which threads access which pages. There are two sources:
//!
//! - **memory events** (`events`): the processor samples loads and stores as they retire and reports their addresses.
//!   The kernel's description of its events lists them (`memory_events`). They distinguish reads and writes, and cost
//!   an interrupt per several samples;
//! - **page faults** (`rounds`): pages are protected, and the next access to each is a fault. They need no hardware
//!   counters.
//!
//! Both use perf events, with a buffer that the kernel writes (`crate::ring`). Memory events are preferred.

mod events;
mod faults;
mod memory_events;
mod protection;
mod rounds;
#[cfg(test)]
mod targets;

use super::calls::{StopReason, Target};
use super::system::System;
use crate::counters::{self, Permission};
use events::AdmittedEvent;
pub use memory_events::NoMemoryEvents;
use pinfold_core::PuId;
use pinfold_core::memory::{AccessProfile, MemoryArea, Sampled};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The source of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleBy {
    /// Memory events if they are available, else page faults.
    Auto,
    /// Memory events only.
    MemoryEvents,
    /// Page faults only.
    PageFaults,
}

/// The settings of a sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// The source of samples.
    pub by: SampleBy,
    /// With page faults: the period of the protection.
    pub period: Duration,
    /// With memory events: the sampling period in events.
    pub event_period: u64,
    /// The duration of the sampling.
    pub lasts: Duration,
}

impl Default for Sampling {
    /// Thirty rounds of page faults distinguish a page from one that is accessed twice as often, with at most a hundred
    /// faults per page and second. The event period is a prime number, so that samples do not synchronise with loops.
    /// At four thousand million micro-operations per second it gives 40,000 samples per second, which cost about a
    /// microsecond each.
    fn default() -> Self {
        Self {
            by: SampleBy::Auto,
            period: Duration::from_millis(100),
            event_period: 100_003,
            lasts: Duration::from_secs(3),
        }
    }
}

/// The interval between two readings of the buffers.
const GLANCE: Duration = Duration::from_millis(10);

/// Why accesses cannot be sampled.
#[derive(Debug, thiserror::Error)]
pub enum SamplingError {
    /// No source of samples is available.
    #[error(
        "accesses cannot be sampled on this machine: this kernel does not track soft-dirty pages \
         (CONFIG_MEM_SOFT_DIRTY), and automatic NUMA balancing is off; `sysctl -w kernel.numa_balancing=1` as root turns it on \
         for all programs"
    )]
    NoMethod,
    /// Memory events were requested, and there are none.
    #[error("{0}; --sample-by page-faults does not need them")]
    NoMemoryEvents(NoMemoryEvents),
    /// The kernel does not permit sampling memory events.
    #[error("{names} cannot be sampled: {why}")]
    MemoryEvents {
        /// The events in perf's notation.
        names: String,
        /// The reason, and the remedy.
        why: String,
    },
    /// The kernel does not permit sampling page faults.
    #[error("the page faults of process {process} cannot be sampled: {why}")]
    Faults {
        /// The process number.
        process: i32,
        /// The reason, and the remedy.
        why: String,
    },
    /// The kernel does not permit protecting the pages.
    #[error("the pages of process {process} cannot be protected ({error}); run pinfold as the same user, or as root")]
    Protection {
        /// The process number.
        process: i32,
        /// The kernel's error.
        error: io::Error,
    },
    /// The process has ended, or the user interrupted the sampling.
    #[error(transparent)]
    Stopped(#[from] StopReason),
}

/// The most pairs of threads that a record keeps: all of 24 threads.
const SHARED: usize = 276;

/// The accesses of one process.
#[derive(Debug)]
pub struct Accesses {
    /// Estimated accesses by page and by the kernel's number of the thread.
    pub profile: AccessProfile,
    /// The PU that each thread was last seen on.
    pub last_pus: HashMap<u32, PuId>,
    /// The result of the sampling.
    pub sampled: Sampled,
}

/// The sampled machine: the roots of its `/proc` and `/sys`, and the size of its smallest pages in bytes.
#[derive(Clone, Debug)]
pub struct SampledMachine {
    system: System,
    page_size: u64,
}

impl SampledMachine {
    /// The machine that these file systems describe.
    pub fn new(system: System, page_size: u64) -> Self {
        Self { system, page_size }
    }

    /// This machine.
    pub fn here() -> Self {
        Self::new(System::default(), super::page_size())
    }

    /// Samples the accesses of processes with known areas, all at the same time. Results are in the order of the
    /// processes. Fails if there is no source of samples for any of them.
    pub fn sample(
        &self,
        processes: &[(&dyn Target, &[MemoryArea])],
        sampling: Sampling,
    ) -> Result<Vec<Result<Accesses, SamplingError>>, SamplingError> {
        Ok(match self.memory_events(sampling)? {
            Some(events) => events::sample(
                processes,
                self.system.procfs(),
                self.system.sysfs(),
                self.page_size,
                &events,
                sampling,
            ),
            None => rounds::sample(processes, &self.system, self.page_size, sampling.period, sampling.lasts),
        })
    }

    /// Checks that this machine has one of the sources that `sampling` allows.
    pub fn check(&self, sampling: Sampling) -> Result<(), SamplingError> {
        match self.memory_events(sampling)? {
            Some(_) => Ok(()),
            None => rounds::check(&self.system, self.page_size),
        }
    }

    /// The memory events to sample. `None` for page faults.
    fn memory_events(&self, sampling: Sampling) -> Result<Option<Vec<AdmittedEvent>>, SamplingError> {
        if sampling.by == SampleBy::PageFaults {
            return Ok(None);
        }
        let events = memory_events::read(self.system.sysfs())
            .map_err(SamplingError::NoMemoryEvents)
            .and_then(|events| events::admitted(self.system.sysfs(), &events, sampling.event_period));
        match events {
            Ok(events) => Ok(Some(events)),
            Err(_) if sampling.by == SampleBy::Auto => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Calls `act` with all samplers that still work.
fn each<S>(samplers: &mut [Result<S, SamplingError>], mut act: impl FnMut(&mut S) -> Result<(), SamplingError>) {
    for slot in samplers {
        if let Ok(sampler) = slot
            && let Err(error) = act(sampler)
        {
            *slot = Err(error);
        }
    }
}

/// Translates the kernel's refusal, for events that need `permission` and this many descriptors per thread.
fn why(error: &io::Error, permission: Permission, descriptors: usize) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => counters::forbidden(Path::new("/"), permission),
        Some(libc::EMFILE) => {
            format!("no file descriptor is left: each thread takes {descriptors}; raise the limit by ulimit -n")
        }
        _ => format!("perf_event_open: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(sysfs: &Path) -> SampledMachine {
        SampledMachine::new(System::new("/proc", sysfs), super::super::page_size())
    }

    fn by(by: SampleBy) -> Sampling {
        Sampling {
            by,
            ..Sampling::default()
        }
    }

    #[test]
    fn without_memory_events_sampling_uses_page_faults_unless_events_were_requested() {
        let empty = tempfile::tempdir().unwrap();
        let machine = machine(empty.path());
        let error = machine.check(by(SampleBy::MemoryEvents)).unwrap_err().to_string();
        assert!(error.contains("--sample-by page-faults"), "{error}");
        assert!(machine.memory_events(by(SampleBy::Auto)).unwrap().is_none());
    }
}
