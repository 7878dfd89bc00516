//! Samples of accesses by page faults, without hardware counters and without changes in the program:
//!
//! 1. The kernel protects all pages of the process against writing (`protection`). If automatic NUMA balancing is on,
//!    it also protects some of them against any access.
//! 2. The next access to a page is a page fault, which the kernel handles itself. Its events report the thread, the
//!    address, the time, and the duration (`faults`).
//! 3. After a period all pages are protected again. Periods differ by up to a quarter, so that they do not synchronise
//!    with the program's. A round is extended while faults have taken more than `MOST` of the threads' time.
//! 4. `SampledAccesses` uses the faults to estimate how often each thread accesses each page.
//!
//! No end of pinfold needs a roll-back, not even a kill: a page that is still protected is written after one more
//! fault.
//!
//! Known limits: without automatic NUMA balancing, pages that are only read have no samples. Pages of hugetlbfs are
//! never protected. The program's own page faults, from first touches, are samples as well. Memory that a process maps
//! during the sampling is counted in small pages, even if it has huge ones.

use super::faults::{self, Faults, now};
use super::protection::{self, Protection};
use super::{Accesses, GLANCE, SHARED, SamplingError, each, why};
use crate::counters::Permission;
use crate::memory::calls::{StopReason, Target};
use crate::memory::system::System;
use crate::procfs::Procfs;
use pinfold_core::PuId;
use pinfold_core::memory::{FaultSampling, MemoryArea, Sampled, SampledAccesses, Seen};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

/// The share of threads' time that faults may take before rounds are extended.
const MOST: f64 = 0.2;

/// Samples the accesses of processes with known areas, all at the same time. Pages are protected once per `period`, for
/// the duration `lasts`. Results are in the order of the processes.
pub(super) fn sample(
    processes: &[(&dyn Target, &[MemoryArea])],
    system: &System,
    page_size: u64,
    period: Duration,
    lasts: Duration,
) -> Vec<Result<Accesses, SamplingError>> {
    let procfs = system.procfs();
    let by = available_methods(system, page_size);
    let mut samplers: Vec<Result<RoundSampler<'_>, SamplingError>> = processes
        .iter()
        .map(|&(target, areas)| RoundSampler::new(target, areas, procfs, page_size, &by))
        .collect();
    let began = now();
    for round in 0.. {
        let left = (began + lasts).saturating_sub(now());
        if left.is_zero() || samplers.iter().all(Result::is_err) {
            break;
        }
        let until = now() + period.mul_f64(jitter(round)).min(left);
        each(&mut samplers, |sampler| sampler.begin_round(procfs));
        loop {
            let left = until.saturating_sub(now());
            if left.is_zero() || samplers.iter().all(Result::is_err) {
                break;
            }
            // The first process represents all in the wait.
            let mut pause = left.min(GLANCE);
            each(&mut samplers, |sampler| {
                sampler.target.pause(std::mem::take(&mut pause))?;
                sampler.take();
                Ok(())
            });
        }
    }
    let lasted = now().saturating_sub(began);
    let accesses = |sampler: Result<RoundSampler<'_>, _>| sampler.map(|sampler| sampler.accesses(&by, period, lasted));
    samplers.into_iter().map(accesses).collect()
}

/// Checks that accesses can currently cause page faults on this machine.
pub(super) fn check(system: &System, page_size: u64) -> Result<(), SamplingError> {
    if available_methods(system, page_size).is_empty() {
        return Err(SamplingError::NoMethod);
    }
    Ok(())
}

/// The kinds of accesses that currently cause page faults on this machine.
fn available_methods(system: &System, page_size: u64) -> Vec<Seen> {
    let mut methods = vec![];
    if protection::is_available(system.procfs(), page_size) {
        methods.push(Seen::WriteProtection);
    }
    if system.numa_balancing() == Some(true) {
        methods.push(Seen::NumaHints);
    }
    methods
}

/// The length of a round relative to the period: 0.75 to 1.25, distributed evenly by the golden ratio.
fn jitter(round: u32) -> f64 {
    0.75 + 0.5 * (f64::from(round) * 0.618_033_988_75).fract()
}

/// One process.
struct RoundSampler<'a> {
    target: &'a dyn Target,
    areas: &'a [MemoryArea],
    page_size: u64,
    protection: Option<Protection>,
    faults: Faults,
    accesses: SampledAccesses,
    last_pus: HashMap<u32, PuId>,
    /// The time that each thread had spent in faults at its first fault of this round.
    before: HashMap<u32, Duration>,
    protecting: Duration,
}

impl<'a> RoundSampler<'a> {
    fn new(
        target: &'a dyn Target,
        areas: &'a [MemoryArea],
        procfs: &Path,
        page_size: u64,
        methods: &[Seen],
    ) -> Result<Self, SamplingError> {
        if methods.is_empty() {
            return Err(SamplingError::NoMethod);
        }
        let mut protection = None;
        if methods.contains(&Seen::WriteProtection) {
            let mut opened = None;
            target.held(&mut |process| opened = Some((process, Protection::open(procfs, process))))?;
            protection = match opened {
                Some((_, Ok(protection))) => Some(protection),
                Some((process, Err(error))) => return Err(SamplingError::Protection { process, error }),
                None => None,
            };
        }
        Ok(Self {
            target,
            areas,
            page_size,
            protection,
            faults: Faults::default(),
            accesses: SampledAccesses::default(),
            last_pus: HashMap::new(),
            before: HashMap::new(),
            protecting: Duration::ZERO,
        })
    }

    /// Protects the pages, and opens the events of new threads.
    fn begin_round(&mut self, procfs: &Path) -> Result<(), SamplingError> {
        self.take();
        if self.accesses.rounds() > 0 && self.is_costly() {
            return Ok(());
        }
        let mut listening = Ok(());
        let page_size = usize::try_from(self.page_size).unwrap_or(4096);
        self.target.held(&mut |process| {
            let threads = Procfs::new(procfs).threads(process);
            listening = self
                .faults
                .listen(&threads, page_size)
                .map_err(|error| SamplingError::Faults {
                    process,
                    why: why(&error, Permission::UserSpace, 3),
                });
        })?;
        listening?;
        let before = now();
        if let Some(protection) = &mut self.protection
            && let Err(error) = protection.protect()
        {
            return Err(match error.raw_os_error() {
                Some(libc::ESRCH) => StopReason::Ended.into(),
                _ => SamplingError::Protection {
                    process: self.target.process(),
                    error,
                },
            });
        }
        let after = now();
        self.protecting += after.saturating_sub(before);
        self.accesses.end_round(before);
        // Faults come after the protection, at the earliest during the call.
        let faults = self.faults.take();
        let first = faults.iter().map(|fault| fault.at).find(|&at| at >= before);
        self.accesses.begin_round(first.unwrap_or(after).min(after));
        self.before.clear();
        self.note(&faults);
        Ok(())
    }

    /// Whether faults have taken more time than allowed.
    fn is_costly(&mut self) -> bool {
        let ran = self.faults.ran();
        self.faults.in_faults() > ran.mul_f64(MOST)
    }

    /// Records the faults since the last call.
    fn take(&mut self) {
        let faults = self.faults.take();
        self.note(&faults);
    }

    fn note(&mut self, faults: &[faults::Fault]) {
        for fault in faults {
            let (address, bytes) = MemoryArea::page_at(self.areas, self.page_size, fault.address);
            // A thread in a fault makes no accesses, so its time does not advance.
            let before = *self.before.entry(fault.thread).or_insert(fault.in_faults);
            let at = fault.at.saturating_sub(fault.in_faults.saturating_sub(before));
            self.accesses.access(fault.thread, address, bytes, at);
            self.last_pus.insert(fault.thread, PuId(fault.pu));
        }
    }

    fn accesses(mut self, by: &[Seen], period: Duration, lasted: Duration) -> Accesses {
        self.take();
        self.accesses.end_round(now());
        let profile = self.accesses.profile();
        let resident: u64 = self.areas.iter().map(MemoryArea::resident_bytes).sum();
        let sampled = Sampled {
            by: by.to_vec(),
            in_kernel: self.faults.in_kernel(),
            lasted,
            processes: 1,
            samples: self.accesses.samples(),
            lost: self.faults.lost,
            pages: profile.len() as u64,
            without_samples: resident.saturating_sub(profile.bytes()),
            ran: self.faults.ran(),
            faults: Some(FaultSampling {
                period,
                rounds: self.accesses.rounds(),
                in_faults: self.faults.in_faults(),
                protecting: self.protecting,
            }),
            events: None,
            shared: profile.shared(SHARED),
        };
        Accesses {
            profile,
            last_pus: self.last_pus,
            sampled,
        }
    }
}

#[cfg(test)]
mod tests;
