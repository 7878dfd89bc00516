use super::super::memory_events::EventEncoding;
use super::super::targets::{Gone, Us};
use super::*;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

const PAGES: usize = 32;

/// A software event whose samples also have addresses. It stands for a hardware event that this machine may lack.
fn page_faults() -> MemoryEvent {
    MemoryEvent {
        name: "software/page-faults/".to_owned(),
        encoding: EventEncoding {
            kind: sys::PERF_TYPE_SOFTWARE,
            config: [u64::from(sys::PERF_COUNT_SW_PAGE_FAULTS), 0, 0],
        },
        leader: None,
        precise: 0,
        user_space: UserSpace::Exclusion,
        cpu_wide: false,
        multiple: 1,
    }
}

fn sampling() -> Sampling {
    Sampling {
        event_period: 1,
        lasts: Duration::from_millis(200),
        ..Sampling::default()
    }
}

/// The events as this machine opens them. `None`, with a message, if it does not.
fn opened(events: &[MemoryEvent]) -> Option<Vec<AdmittedEvent>> {
    admitted(Path::new("/sys"), events, 1)
        .inspect_err(|error| pinfold_testing::skip(error))
        .ok()
}

fn page_size() -> usize {
    usize::try_from(crate::memory::page_size()).unwrap()
}

/// Touches new pages repeatedly. Publishes their address and its thread.
fn touch(stop: &AtomicBool, at: &AtomicU64, thread: &AtomicI32) {
    // SAFETY: a new mapping, written within its bounds, and unmapped after its last use. The other call only queries.
    unsafe {
        let memory = libc::mmap(
            std::ptr::null_mut(),
            PAGES * page_size(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(memory, libc::MAP_FAILED);
        libc::madvise(memory, PAGES * page_size(), libc::MADV_NOHUGEPAGE);
        thread.store(libc::gettid(), Ordering::Relaxed);
        at.store(memory as u64, Ordering::Release);
        while !stop.load(Ordering::Relaxed) {
            for page in 0..PAGES {
                memory.cast::<u8>().add(page * page_size()).write_volatile(1);
            }
            libc::madvise(memory, PAGES * page_size(), libc::MADV_DONTNEED);
        }
        libc::munmap(memory, PAGES * page_size());
    }
}

#[test]
fn samples_of_a_thread_are_its_accesses_to_the_pages_of_their_addresses() {
    let Some(events) = opened(&[page_faults()]) else { return };
    let (stop, at, thread) = (AtomicBool::new(false), AtomicU64::new(0), AtomicI32::new(0));
    let nodes = [0, 1].map(pinfold_core::NodeId);
    let both = nodes.into_iter().collect();
    let sampled = || {
        let paths = [Path::new("/proc"), Path::new("/sys")];
        let mut results = sample(
            &[(&Us, &[])],
            paths[0],
            paths[1],
            page_size() as u64,
            &events,
            sampling(),
        );
        results.pop().unwrap().unwrap()
    };
    // The number of pages that these samples assign to the thread: it is on node 1, and all others are on node 0.
    let found = |accesses: &Accesses| {
        let thread = thread.load(Ordering::Relaxed).cast_unsigned();
        let node_of = |its| Some(nodes[usize::from(its == thread)]);
        let places = accesses.profile.place_by_locality(&both, node_of);
        let memory = at.load(Ordering::Acquire);
        (0..PAGES)
            .filter(|page| places.node(memory + (page * page_size()) as u64) == Some(nodes[1]))
            .count()
    };
    let accesses = std::thread::scope(|scope| {
        scope.spawn(|| touch(&stop, &at, &thread));
        // On a busy machine the thread may not have run meanwhile.
        let mut tries = (0..50).map(|_| sampled());
        let accesses = tries.find(|accesses| at.load(Ordering::Acquire) != 0 && found(accesses) == PAGES);
        stop.store(true, Ordering::Relaxed);
        accesses.expect("all pages have samples of the thread")
    });
    let thread = thread.load(Ordering::Relaxed).cast_unsigned();
    assert!(accesses.last_pus.contains_key(&thread));
    let sampled = accesses.sampled;
    assert!(sampled.pages >= PAGES as u64 && sampled.samples >= PAGES as u64 && !sampled.ran.is_zero());
    let reported = sampled.events.unwrap();
    assert_eq!(
        (reported.period, reported.names.as_slice()),
        (1, &["software/page-faults/".to_owned()][..])
    );
    assert!(reported.taken >= sampled.samples);
    assert_eq!(sampled.faults, None);
}

#[test]
fn two_events_of_a_thread_share_a_buffer_and_a_group_has_its_leader() {
    let mut led = page_faults();
    led.leader = Some(page_faults().encoding);
    // If several listeners share one software event, Linux 6.18 gives all their samples the id of one.
    let mut minor = page_faults();
    minor.encoding.config[0] = u64::from(sys::PERF_COUNT_SW_PAGE_FAULTS_MIN);
    let Some(events) = opened(&[led, minor]) else { return };
    let work = || drop(black_box(vec![1u8; 64 << 20]));
    // SAFETY: the call only queries.
    let thread = unsafe { libc::gettid() };
    let mut listeners = EventListeners::new(&events, page_size() as u64);
    assert_eq!(listeners.listen(EventScope::Thread(thread)), Ok(true));
    work();
    listeners.stop();
    let mut by_event: HashMap<u64, Vec<u64>> = HashMap::new();
    listeners.take(|sample| by_event.entry(sample.event).or_default().push(sample.address));
    let addresses: Vec<Vec<u64>> = by_event.into_values().collect();
    let lengths: Vec<usize> = addresses.iter().map(Vec::len).collect();
    let many = lengths.iter().filter(|&&length| length > 16).count();
    assert!(
        many >= 2,
        "as many of each as there are huge pages at least: {lengths:?}"
    );
}

#[test]
fn work_without_samples_has_no_cost() {
    let Some(events) = opened(&[page_faults()]) else { return };
    assert_eq!(sample_cost(&events, page_size() as u64, || ()), None);
    let milliseconds = Duration::from_millis;
    assert_eq!(
        cost([milliseconds(4), milliseconds(6)], 1000),
        Some(Duration::from_micros(2))
    );
    assert_eq!(cost([milliseconds(4), milliseconds(6)], 0), None);
    assert_eq!(cost([milliseconds(6), milliseconds(4)], 1000), None);
    assert_eq!(cost([milliseconds(4), milliseconds(4)], 1000), None);
}

#[test]
fn an_ended_process_is_reported_as_ended() {
    let Some(events) = opened(&[page_faults()]) else { return };
    let paths = [Path::new("/proc"), Path::new("/sys")];
    let result = sample(
        &[(&Gone, &[])],
        paths[0],
        paths[1],
        page_size() as u64,
        &events,
        sampling(),
    );
    assert!(matches!(result.as_slice(), [Err(SamplingError::Stopped(_))]));
}

#[test]
fn an_event_that_the_kernel_does_not_have_is_refused_by_name() {
    let mut absent = page_faults();
    absent.encoding.config[0] = 1 << 40;
    let error = admitted(Path::new("/sys"), &[absent], 1).err().unwrap().to_string();
    assert!(error.contains("software/page-faults/ cannot be sampled"), "{error}");
}

#[test]
fn the_most_precise_variant_is_first_and_cpu_wide_ones_are_last() {
    let mut event = page_faults();
    event.precise = 2;
    event.cpu_wide = true;
    let variants: Vec<(bool, u64, u64)> = AdmittedEvent::variants(&event, 100)
        .iter()
        .map(|variant| {
            (
                variant.cpu_wide,
                variant.attributes.exclude_kernel(),
                variant.attributes.precise_ip(),
            )
        })
        .collect();
    let threads = [(false, 0, 2), (false, 0, 1), (false, 1, 2), (false, 1, 1)];
    let cpus = [(true, 0, 2), (true, 0, 1), (true, 1, 2), (true, 1, 1)];
    assert_eq!(variants, [threads, cpus].concat());
    event.user_space = UserSpace::Nothing;
    assert!(
        AdmittedEvent::variants(&event, 100)
            .iter()
            .all(|variant| variant.attributes.exclude_kernel() == 0)
    );
}

#[test]
fn the_refusal_with_a_remedy_is_reported() {
    let text = refusal(&[
        (Errno::EINVAL, Permission::Kernel),
        (Errno::EACCES, Permission::Kernel),
        (Errno::EACCES, Permission::UserSpace),
        (Errno::EINVAL, Permission::UserSpace),
    ]);
    assert!(
        text.contains("perf_event_paranoid") || text.contains("CAP_PERFMON"),
        "{text}"
    );
    assert!(refusal(&[(Errno::ENOENT, Permission::Kernel)]).contains("virtual machines"));
    assert!(refusal(&[(Errno::EMFILE, Permission::Kernel)]).contains("ulimit -n"));
}

#[test]
fn samples_of_whole_cpus_are_assigned_to_their_process() {
    let mut event = page_faults();
    event.cpu_wide = true;
    let mut variants = AdmittedEvent::variants(&event, 1);
    variants.retain(|variant| variant.cpu_wide);
    let whole = variants.remove(0);
    let mut listeners = EventListeners::new(std::slice::from_ref(&whole), page_size() as u64);
    for cpu in online(Path::new("/sys")) {
        if let Err(error) = listeners.listen(EventScope::Cpu(cpu)) {
            pinfold_testing::skip(format_args!("whole CPUs may not be sampled here: {error}"));
            return;
        }
    }
    let us = Us;
    let mut sampler = EventSampler::new(&us, &[], page_size() as u64);
    // The other program comes first, because this one can fill the buffers.
    assert!(std::process::Command::new("true").status().unwrap().success());
    // More than the allocator ever takes from memory that was touched before (mallopt(3), M_MMAP_THRESHOLD).
    black_box(vec![1u8; 64 << 20]);
    listeners.stop();
    let mut processes = HashSet::new();
    let mut ours = 0;
    listeners.take(|sample| {
        processes.insert(sample.process);
        if sample.process == std::process::id() {
            sampler.note(sample, 1);
            ours += 1;
        }
    });
    assert!(processes.len() > 1, "the other program's are there too");
    assert_eq!(sampler.taken, ours);
    assert!(ours > 0);
}
