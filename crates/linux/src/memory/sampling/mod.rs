//! Which thread accesses which pages, by sampling, with no hardware counters and nothing inside the program:
//!
//! 1. The kernel protects all pages of the process against writing (`protection`). Where automatic NUMA balancing is on, it also
//!    protects some of them against any access, by itself.
//! 2. The next access to a page is a page fault, which the kernel answers itself. Its events tell the thread, the address, the
//!    time, and how long it took (`faults`).
//! 3. After a period all is protected anew. Periods differ by up to a quarter, so that they never keep step with the program's.
//!    A round is prolonged while faults have taken more than `MOST` of the threads' time.
//! 4. `SampledAccesses` makes of it how often each thread accesses each page.
//!
//! Whatever ends it, us being killed included, leaves nothing behind: a page that is still protected is written after one more
//! fault.
//!
//! Known limits: without automatic NUMA balancing, pages that are only read have no samples. Pages of hugetlbfs are never protected. A
//! page fault that the program would have had anyway is a sample, too: its first touch of a page. What a process maps
//! while it is sampled counts in small pages, also where it has huge ones.

mod faults;
mod protection;
mod ring;

use super::calls::{Halt, Target};
use super::system::System;
use crate::counters;
use crate::procfs::Procfs;
use faults::{Faults, now};
use pinfold_core::PuId;
use pinfold_core::memory::{AccessProfile, MemoryArea, Sampled, SampledAccesses, Seen};
use protection::Protection;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;

/// How accesses are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// How far apart pages are protected.
    pub period: Duration,
    /// How long it goes on.
    pub lasts: Duration,
}

impl Default for Sampling {
    /// Thirty rounds: enough to tell apart pages of which one is accessed twice as often, with a hundred faults a page and
    /// second at most.
    fn default() -> Self {
        Self {
            period: Duration::from_millis(100),
            lasts: Duration::from_secs(3),
        }
    }
}

/// The share of threads' time that faults may take before rounds are prolonged.
const MOST: f64 = 0.2;

/// How often buffers are emptied.
const GLANCE: Duration = Duration::from_millis(10);

/// Bytes of a transparent huge page, as in `mover`.
const HUGE: u64 = 2 << 20;

/// Why accesses cannot be sampled.
#[derive(Debug, thiserror::Error)]
pub enum SamplingError {
    /// Nothing makes accesses visible.
    #[error(
        "nothing shows here which thread accesses which page: this kernel does not track soft-dirty pages \
         (CONFIG_MEM_SOFT_DIRTY), and automatic NUMA balancing is off; `sysctl -w kernel.numa_balancing=1` as root turns it on \
         for all programs"
    )]
    NoWay,
    /// The kernel does not let us listen to page faults.
    #[error("the page faults of process {process} cannot be sampled: {why}")]
    Faults {
        /// Its number.
        process: i32,
        /// Why, and the remedy.
        why: String,
    },
    /// The kernel does not let us protect the pages.
    #[error("the pages of process {process} cannot be protected ({error}); run pinfold as the same user, or as root")]
    Protection {
        /// Its number.
        process: i32,
        /// What the kernel said.
        error: io::Error,
    },
    /// The process has ended, or we were told to stop.
    #[error(transparent)]
    Halted(#[from] Halt),
}

/// Who accesses what in one process.
#[derive(Debug)]
pub struct Accesses {
    /// Accesses by page and by the kernel's number of the thread, by estimate.
    pub profile: AccessProfile,
    /// On which PU each thread was when it was seen last.
    pub last_pus: HashMap<u32, PuId>,
    /// What came of it.
    pub sampled: Sampled,
}

/// Samples the accesses of processes, of which the areas are known, all at the same time. In the order of the processes.
pub fn sample(
    processes: &[(&dyn Target, &[MemoryArea])],
    procfs: &Path,
    page_size: u64,
    sampling: Sampling,
) -> Vec<Result<Accesses, SamplingError>> {
    let by = ways(procfs, page_size);
    let mut samplers: Vec<Result<Sampler<'_>, SamplingError>> = processes
        .iter()
        .map(|&(target, areas)| Sampler::new(target, areas, procfs, page_size, &by))
        .collect();
    let began = now();
    for round in 0.. {
        let left = (began + sampling.lasts).saturating_sub(now());
        if left.is_zero() || samplers.iter().all(Result::is_err) {
            break;
        }
        let until = now() + sampling.period.mul_f64(jitter(round)).min(left);
        each(&mut samplers, |sampler| sampler.begin_round(procfs));
        loop {
            let left = until.saturating_sub(now());
            if left.is_zero() || samplers.iter().all(Result::is_err) {
                break;
            }
            // Who waits for the first waits for all.
            let mut pause = left.min(GLANCE);
            each(&mut samplers, |sampler| {
                sampler.target.pause(std::mem::take(&mut pause))?;
                sampler.take();
                Ok(())
            });
        }
    }
    let lasted = now().saturating_sub(began);
    let accesses =
        |sampler: Result<Sampler<'_>, _>| sampler.map(|sampler| sampler.accesses(&by, sampling.period, lasted));
    samplers.into_iter().map(accesses).collect()
}

/// Whether anything makes accesses visible on this machine now.
pub fn check_sampling(procfs: &Path, page_size: u64) -> Result<(), SamplingError> {
    if ways(procfs, page_size).is_empty() {
        return Err(SamplingError::NoWay);
    }
    Ok(())
}

/// What makes accesses visible on this machine now.
fn ways(procfs: &Path, page_size: u64) -> Vec<Seen> {
    let mut ways = vec![];
    if protection::is_available(procfs, page_size) {
        ways.push(Seen::WriteProtection);
    }
    if System::new(procfs, "/sys").numa_balancing() == Some(true) {
        ways.push(Seen::NumaHints);
    }
    ways
}

/// How long a round is, of the period: 0.75 to 1.25, spread evenly by the golden ratio.
fn jitter(round: u32) -> f64 {
    0.75 + 0.5 * (f64::from(round) * 0.618_033_988_75).fract()
}

/// Does the same with all samplers that still work.
fn each<'a>(
    samplers: &mut [Result<Sampler<'a>, SamplingError>],
    mut act: impl FnMut(&mut Sampler<'a>) -> Result<(), SamplingError>,
) {
    for slot in samplers {
        if let Ok(sampler) = slot
            && let Err(error) = act(sampler)
        {
            *slot = Err(error);
        }
    }
}

/// One process.
struct Sampler<'a> {
    target: &'a dyn Target,
    areas: &'a [MemoryArea],
    page_size: u64,
    protection: Option<Protection>,
    faults: Faults,
    accesses: SampledAccesses,
    last_pus: HashMap<u32, PuId>,
    /// How long each thread had been in faults when its first fault of this round came.
    before: HashMap<u32, Duration>,
    protecting: Duration,
}

impl<'a> Sampler<'a> {
    fn new(
        target: &'a dyn Target,
        areas: &'a [MemoryArea],
        procfs: &Path,
        page_size: u64,
        ways: &[Seen],
    ) -> Result<Self, SamplingError> {
        if ways.is_empty() {
            return Err(SamplingError::NoWay);
        }
        let mut protection = None;
        if ways.contains(&Seen::WriteProtection) {
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

    /// Protects the pages, and listens to threads that are new.
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
                    why: why(&error),
                });
        })?;
        listening?;
        let before = now();
        if let Some(protection) = &mut self.protection
            && let Err(error) = protection.protect()
        {
            return Err(match error.raw_os_error() {
                Some(libc::ESRCH) => Halt::Ended.into(),
                _ => SamplingError::Protection {
                    process: self.target.process(),
                    error,
                },
            });
        }
        let after = now();
        self.protecting += after.saturating_sub(before);
        self.accesses.end_round(before);
        // The pages have been protected when the first fault comes, or the call.
        let faults = self.faults.take();
        let first = faults.iter().map(|fault| fault.at).find(|&at| at >= before);
        self.accesses.begin_round(first.unwrap_or(after).min(after));
        self.before.clear();
        self.note(&faults);
        Ok(())
    }

    /// Whether faults have taken more than they may.
    fn is_costly(&mut self) -> bool {
        let ran = self.faults.ran();
        self.faults.in_faults() > ran.mul_f64(MOST)
    }

    /// Notes the faults since the last call.
    fn take(&mut self) {
        let faults = self.faults.take();
        self.note(&faults);
    }

    fn note(&mut self, faults: &[faults::Fault]) {
        for fault in faults {
            let (address, bytes) = self.page(fault.address);
            // A thread that is in a fault accesses nothing: its time stands still.
            let before = *self.before.entry(fault.thread).or_insert(fault.in_faults);
            let at = fault.at.saturating_sub(fault.in_faults.saturating_sub(before));
            self.accesses.access(fault.thread, address, bytes, at);
            self.last_pus.insert(fault.thread, PuId(fault.pu));
        }
    }

    /// The page at an address, as it would be moved: its first byte and its length.
    fn page(&self, address: u64) -> (u64, u64) {
        let after = self.areas.partition_point(|area| area.start <= address);
        let area = self.areas[..after].last().filter(|area| address < area.end);
        let within = |bytes: u64| (address / bytes * bytes, bytes);
        let Some(area) = area else {
            return within(self.page_size);
        };
        let (huge, bytes) = within(HUGE);
        if area.huge > 0 && area.start <= huge && huge + bytes <= area.end {
            (huge, bytes)
        } else {
            within(area.page_size)
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
            period,
            lasted,
            processes: 1,
            rounds: self.accesses.rounds(),
            samples: self.accesses.samples(),
            lost: self.faults.lost,
            pages: profile.len() as u64,
            without_samples: resident.saturating_sub(profile.bytes()),
            in_faults: self.faults.in_faults(),
            protecting: self.protecting,
            ran: self.faults.ran(),
        };
        Accesses {
            profile,
            last_pus: self.last_pus,
            sampled,
        }
    }
}

/// What the kernel's refusal means.
fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => counters::forbidden(Path::new("/")),
        Some(libc::EMFILE) => {
            "no file descriptor is left: each thread takes three; raise the limit by ulimit -n".to_owned()
        }
        _ => format!("perf_event_open: {error}"),
    }
}

#[cfg(test)]
mod tests;
