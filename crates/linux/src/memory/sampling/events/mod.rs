//! Samples of accesses by the processor's memory events:
//!
//! 1. Each event is tried on pinfold itself, the most precise variant first (`admitted`).
//! 2. The cost of a sample is measured on pinfold itself: the same work with and without sampling (`sample_cost`).
//! 3. The events are opened on each thread, or on each CPU if the kernel permits only that; then a sample names its
//!    process. The kernel writes the samples into buffers, which are emptied every `GLANCE`.
//! 4. A sample represents as many accesses as its sampling period.
//!
//! The kernel throttles events that take too much time (`kernel.perf_cpu_time_max_percent`), and reports it. No
//! roll-back is needed: the events end with their descriptors.
//!
//! Known limits: if events are opened on threads, a thread that starts and ends between two searches for new threads is
//! not seen.

use super::faults::now;
use super::memory_events::{MemoryEvent, UserSpace};
use super::{Accesses, GLANCE, SHARED, Sampling, SamplingError, each, why};
use crate::counters::Permission;
use crate::memory::calls::Target;
use crate::perf_event::{self, EventScope, TaskClock, id};
use crate::pfm::sys;
use crate::procfs::Procfs;
use crate::ring::{FIELDS, Ring, RingRecord, SampleRecord};
use nix::errno::Errno;
use pinfold_core::memory::{AccessProfile, EventSampling, MemoryArea, Sampled, Seen};
use pinfold_core::{PuId, PuSet};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// Bytes of a buffer: 20,000 samples, as many as a thread has in half a second by default.
const BUFFER: usize = 1 << 20;

/// The number of times that buffers are emptied between two searches for new threads.
const LOOK: u32 = 10;

/// The kernel's first address, on all processors that Linux has memory events for.
const KERNEL: u64 = 1 << 63;

/// The period in the measurement of a sample's cost: hundreds of samples in a few milliseconds. It is a multiple of the
/// periods that events require.
const QUICK: u64 = 10_000;

/// The number of measurements with sampling. As many are made without.
const MEASUREMENTS: u32 = 8;

/// A variant of an event that the kernel opens.
#[derive(Clone)]
pub(super) struct AdmittedEvent {
    name: String,
    attributes: sys::perf_event_attr,
    leader: Option<sys::perf_event_attr>,
    cpu_wide: bool,
}

impl AdmittedEvent {
    /// The variants of an event, the best first.
    fn variants(event: &MemoryEvent, period: u64) -> Vec<Self> {
        let user_only = match event.user_space {
            UserSpace::Exclusion => Some(event.encoding),
            UserSpace::Filter(filtered) => Some(filtered),
            UserSpace::Nothing => None,
        };
        let mut variants = vec![];
        for cpu_wide in [false, true] {
            if cpu_wide && !event.cpu_wide {
                continue;
            }
            for (encoding, exclude) in [(Some(event.encoding), 0), (user_only, 1)] {
                let Some(encoding) = encoding else { continue };
                for precise in (event.precise.min(1)..=event.precise).rev() {
                    let mut attributes = encoding.attributes();
                    attributes.__bindgen_anon_1.sample_period = event.period(period);
                    attributes.sample_type = u64::from(FIELDS);
                    attributes.set_precise_ip(u64::from(precise));
                    attributes.set_exclude_kernel(exclude);
                    attributes.set_exclude_hv(exclude);
                    let leader = event.leader.map(|leader| {
                        let mut leader = leader.attributes();
                        leader.set_exclude_kernel(exclude);
                        leader.set_exclude_hv(exclude);
                        leader
                    });
                    variants.push(Self {
                        name: event.name.clone(),
                        attributes,
                        leader,
                        cpu_wide,
                    });
                }
            }
        }
        variants
    }

    fn period(&self) -> u64 {
        // SAFETY: the period of this union is set, and both members are plain 64-bit numbers.
        unsafe { self.attributes.__bindgen_anon_1.sample_period }
    }

    fn permission(&self) -> Permission {
        match (self.cpu_wide, self.attributes.exclude_kernel()) {
            (true, _) => Permission::AllCpus,
            (false, 0) => Permission::Kernel,
            (false, _) => Permission::UserSpace,
        }
    }
}

/// The variants of the events that the kernel opens for pinfold. Fails if it opens none.
pub(super) fn admitted(sysfs: &Path, events: &[MemoryEvent], period: u64) -> Result<Vec<AdmittedEvent>, SamplingError> {
    let cpu = online(sysfs).into_iter().next().unwrap_or(0);
    let admit = |event: &MemoryEvent| {
        let mut refusals = vec![];
        for variant in AdmittedEvent::variants(event, period) {
            let watched = if variant.cpu_wide {
                EventScope::Cpu(cpu)
            } else {
                EventScope::Thread(0)
            };
            match EventListener::events(std::slice::from_ref(&variant), watched) {
                Ok(_) => return Ok(variant),
                Err(error) => refusals.push((error, variant.permission())),
            }
        }
        Err(SamplingError::MemoryEvents {
            names: event.name.clone(),
            why: refusal(&refusals),
        })
    };
    events.iter().map(admit).collect()
}

/// The message if all variants were refused. It names a missing permission only for the least demanding variant.
fn refusal(refusals: &[(Errno, Permission)]) -> String {
    let forbidden = |(error, _): &&(Errno, Permission)| matches!(error, Errno::EACCES | Errno::EPERM);
    let Some(&(error, permission)) = refusals.iter().rfind(forbidden).or(refusals.first()) else {
        return "it cannot be opened in any form".to_owned();
    };
    match error {
        Errno::ENOENT | Errno::EOPNOTSUPP | Errno::ENODEV | Errno::ENXIO => format!(
            "the kernel has it but does not open it ({}), as in virtual machines without counters",
            error.desc()
        ),
        _ => why(&error.into(), permission, 3),
    }
}

/// The numbers of the CPUs that are online.
fn online(sysfs: &Path) -> Vec<i32> {
    let text = fs::read_to_string(sysfs.join("devices/system/cpu/online")).unwrap_or_default();
    let cpus: PuSet = text.trim().parse().unwrap_or_default();
    cpus.iter().filter_map(|cpu| i32::try_from(cpu.0).ok()).collect()
}

/// The events of one thread or CPU, with their buffer.
struct EventListener {
    ring: Ring,
    events: Vec<OwnedFd>,
}

impl EventListener {
    fn open(events: &[AdmittedEvent], watched: EventScope, page_size: u64) -> Result<Self, Errno> {
        let (sampled, others) = Self::events(events, watched)?;
        let Some((first, rest)) = sampled.split_first() else {
            return Err(Errno::ENOENT);
        };
        let ring = Ring::map(first, usize::try_from(page_size).unwrap_or(4096), BUFFER)?;
        for event in rest {
            perf_event::set_output(event, first)?;
        }
        Ok(Self {
            ring,
            events: others.into_iter().chain(sampled).collect(),
        })
    }

    /// Opens events: the sampled ones, and the leaders of their groups.
    fn events(events: &[AdmittedEvent], watched: EventScope) -> Result<(Vec<OwnedFd>, Vec<OwnedFd>), Errno> {
        let (mut sampled, mut leaders) = (vec![], vec![]);
        for event in events {
            let leader = event
                .leader
                .as_ref()
                .map(|leader| perf_event::open(leader, watched, None))
                .transpose()?;
            sampled.push(perf_event::open(&event.attributes, watched, leader.as_ref())?);
            leaders.extend(leader);
        }
        // A kernel id shows that the descriptor belongs to a perf event.
        sampled.iter().try_for_each(|event| id(event).map(drop))?;
        Ok((sampled, leaders))
    }

    fn set_counting(&self, counts: bool) {
        for event in &self.events {
            // The thread may have ended, and its events with it.
            let _ = perf_event::set_counting(event, counts);
        }
    }
}

/// All open events.
struct EventListeners<'a> {
    events: &'a [AdmittedEvent],
    page_size: u64,
    opened: HashMap<i32, EventListener>,
    lost: u64,
    throttled: u64,
}

impl<'a> EventListeners<'a> {
    fn new(events: &'a [AdmittedEvent], page_size: u64) -> Self {
        Self {
            events,
            page_size,
            opened: HashMap::new(),
            lost: 0,
            throttled: 0,
        }
    }

    fn are_cpu_wide(&self) -> bool {
        self.events.iter().any(|event| event.cpu_wide)
    }

    /// Opens the events of a thread or CPU, if they are not open. False if the thread has ended.
    fn listen(&mut self, watched: EventScope) -> Result<bool, Errno> {
        let (EventScope::Thread(number) | EventScope::Cpu(number)) = watched;
        if self.opened.contains_key(&number) {
            return Ok(true);
        }
        match EventListener::open(self.events, watched, self.page_size) {
            Ok(listener) => {
                self.opened.insert(number, listener);
                Ok(true)
            }
            Err(Errno::ESRCH) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn take(&mut self, mut note: impl FnMut(&SampleRecord)) {
        for listener in self.opened.values_mut() {
            listener.ring.drain(|record| match record {
                RingRecord::Sample(sample) => note(&sample),
                RingRecord::Lost(records) => self.lost += records,
                RingRecord::Throttled => self.throttled += 1,
                RingRecord::Fork { .. } => {}
            });
        }
    }

    /// Stops sampling. The processor's remaining samples are written first.
    fn stop(&self) {
        for listener in self.opened.values() {
            listener.set_counting(false);
        }
    }
}

/// Samples the accesses of processes with known areas, all at the same time. Results are in the order of the processes.
pub(super) fn sample(
    processes: &[(&dyn Target, &[MemoryArea])],
    procfs: &Path,
    sysfs: &Path,
    page_size: u64,
    events: &[AdmittedEvent],
    sampling: Sampling,
) -> Vec<Result<Accesses, SamplingError>> {
    let sample_cost = sample_cost(events, page_size, work);
    let mut listeners = EventListeners::new(events, page_size);
    let mut samplers: Vec<Result<EventSampler<'_>, SamplingError>> = processes
        .iter()
        .map(|&(target, areas)| Ok(EventSampler::new(target, areas, page_size)))
        .collect();
    if listeners.are_cpu_wide() {
        for cpu in online(sysfs) {
            if let Err(error) = listeners.listen(EventScope::Cpu(cpu)) {
                each(&mut samplers, |_| Err(refused(events, error)));
            }
        }
    }
    let began = now();
    for glance in 0u32.. {
        let left = (began + sampling.lasts).saturating_sub(now());
        if left.is_zero() || samplers.iter().all(Result::is_err) {
            break;
        }
        if glance.is_multiple_of(LOOK) {
            each(&mut samplers, |sampler| sampler.look(procfs, &mut listeners));
        }
        // The first process represents all in the wait.
        let mut pause = left.min(GLANCE);
        each(&mut samplers, |sampler| {
            Ok(sampler.target.pause(std::mem::take(&mut pause))?)
        });
        note_all(&mut listeners, &mut samplers);
    }
    listeners.stop();
    note_all(&mut listeners, &mut samplers);
    let lasted = now().saturating_sub(began);
    // Lost and throttled samples are known only for all processes together, so they are reported with the first.
    let mut lost = std::mem::take(&mut listeners.lost);
    let mut throttled = std::mem::take(&mut listeners.throttled);
    let accesses = |sampler: Result<EventSampler<'_>, _>| {
        sampler.map(|sampler| {
            let sampling = EventSampling {
                names: events.iter().map(|event| event.name.clone()).collect(),
                period: events.first().map_or(0, AdmittedEvent::period),
                taken: sampler.taken,
                throttled: std::mem::take(&mut throttled),
                sample_cost,
            };
            let in_kernel = events.iter().all(|event| event.attributes.exclude_kernel() == 0);
            sampler.accesses(sampling, lasted, in_kernel, std::mem::take(&mut lost))
        })
    };
    samplers.into_iter().map(accesses).collect()
}

/// Assigns the samples since the last call to their processes.
fn note_all(listeners: &mut EventListeners<'_>, samplers: &mut [Result<EventSampler<'_>, SamplingError>]) {
    let weight = listeners.events.first().map_or(1, AdmittedEvent::period);
    listeners.take(|sample| {
        let process = i32::try_from(sample.process).ok();
        let its = samplers.iter_mut().flatten();
        if let Some(sampler) = its.into_iter().find(|its| Some(its.target.process()) == process) {
            sampler.note(sample, weight);
        }
    });
}

fn refused(events: &[AdmittedEvent], error: Errno) -> SamplingError {
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    let permission = events.first().map_or(Permission::UserSpace, AdmittedEvent::permission);
    SamplingError::MemoryEvents {
        names: names.join(" and "),
        why: refusal(&[(error, permission)]),
    }
}

/// One process.
struct EventSampler<'a> {
    target: &'a dyn Target,
    areas: &'a [MemoryArea],
    page_size: u64,
    profile: AccessProfile,
    samples: u64,
    taken: u64,
    last_pus: HashMap<u32, PuId>,
    clocks: HashMap<i32, TaskClock>,
    /// Threads that ended before their events were opened.
    ended: HashSet<i32>,
}

impl<'a> EventSampler<'a> {
    fn new(target: &'a dyn Target, areas: &'a [MemoryArea], page_size: u64) -> Self {
        Self {
            target,
            areas,
            page_size,
            profile: AccessProfile::default(),
            samples: 0,
            taken: 0,
            last_pus: HashMap::new(),
            clocks: HashMap::new(),
            ended: HashSet::new(),
        }
    }

    /// Opens the events of new threads.
    fn look(&mut self, procfs: &Path, listeners: &mut EventListeners<'_>) -> Result<(), SamplingError> {
        let mut listening = Ok(());
        self.target.held(&mut |process| {
            for thread in Procfs::new(procfs).threads(process) {
                if self.clocks.contains_key(&thread) || self.ended.contains(&thread) {
                    continue;
                }
                let lives = listeners.are_cpu_wide() || {
                    match listeners.listen(EventScope::Thread(thread)) {
                        Ok(lives) => lives,
                        Err(error) => {
                            listening = Err(refused(listeners.events, error));
                            return;
                        }
                    }
                };
                match TaskClock::open(thread) {
                    Ok(clock) if lives => drop(self.clocks.insert(thread, clock)),
                    Ok(_) | Err(Errno::ESRCH) => drop(self.ended.insert(thread)),
                    Err(error) => {
                        listening = Err(refused(listeners.events, error));
                        return;
                    }
                }
            }
        })?;
        listening
    }

    /// Records a sample of this process, which represents `weight` accesses. A sample without an address is not a load
    /// or store. A sample of the kernel's memory is ignored.
    fn note(&mut self, sample: &SampleRecord, weight: u64) {
        self.taken += 1;
        self.last_pus.insert(sample.thread, PuId(sample.pu));
        if (1..KERNEL).contains(&sample.address) {
            let (address, bytes) = MemoryArea::page_at(self.areas, self.page_size, sample.address);
            self.profile.add(address, bytes, sample.thread, weight);
            self.samples += 1;
        }
    }

    fn accesses(mut self, events: EventSampling, lasted: Duration, in_kernel: bool, lost: u64) -> Accesses {
        let resident: u64 = self.areas.iter().map(MemoryArea::resident_bytes).sum();
        let sampled = Sampled {
            by: vec![Seen::MemoryEvents],
            in_kernel,
            lasted,
            processes: 1,
            samples: self.samples,
            lost,
            pages: self.profile.len() as u64,
            without_samples: resident.saturating_sub(self.profile.bytes()),
            ran: self.clocks.values_mut().map(TaskClock::ran).sum(),
            faults: None,
            events: Some(events),
            shared: self.profile.shared(SHARED),
        };
        Accesses {
            profile: self.profile,
            last_pus: self.last_pus,
            sampled,
        }
    }
}

/// The cost of a sample for its thread: the additional time of the same work with sampling, divided by the number of
/// samples. `None` if there were no samples, or no difference.
fn sample_cost(events: &[AdmittedEvent], page_size: u64, work: fn()) -> Option<Duration> {
    let mut quick = events.to_vec();
    for event in &mut quick {
        event.attributes.__bindgen_anon_1.sample_period = QUICK.min(event.period());
    }
    // SAFETY: the call only queries.
    let thread = unsafe { libc::gettid() };
    let watched = if quick.iter().any(|event| event.cpu_wide) {
        // SAFETY: the call only queries.
        EventScope::Cpu(unsafe { libc::sched_getcpu() })
    } else {
        EventScope::Thread(thread)
    };
    let mut listener = EventListener::open(&quick, watched, page_size).ok()?;
    let mut took = [Duration::ZERO; 2];
    for run in 0..2 * MEASUREMENTS {
        let counts = run % 2 == 1;
        listener.set_counting(counts);
        let before = thread_time();
        work();
        took[usize::from(counts)] += thread_time().saturating_sub(before);
    }
    listener.set_counting(false);
    let mut samples = 0;
    listener.ring.drain(|record| match record {
        RingRecord::Sample(sample) => samples += u32::from(sample.thread == thread.cast_unsigned()),
        RingRecord::Lost(_) | RingRecord::Throttled | RingRecord::Fork { .. } => {}
    });
    cost(took, samples)
}

/// The cost of a sample, from the work's times without and with sampling.
fn cost([without, with]: [Duration; 2], samples: u32) -> Option<Duration> {
    let more = with.checked_sub(without)?;
    more.checked_div(samples).filter(|cost| !cost.is_zero())
}

/// Loads and stores for about a millisecond.
fn work() {
    let mut numbers = vec![1u64; 1 << 13];
    for _ in 0..1 << 6 {
        for number in &mut numbers {
            *number = black_box(*number).wrapping_mul(3);
        }
    }
    black_box(numbers);
}

/// The processor time of this thread. It includes the interrupts that take samples.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the given structure, and this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests;
