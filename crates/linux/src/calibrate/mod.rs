//! Measures this machine with microbenchmarks: the figures of a machine model, and SAM's thresholds.
//!
//! 1. The core: its clock, and its speed for loops whose data are in the L1 (`core`); atomic instructions, system
//!    calls, and thread switches (`system`).
//! 2. A curve of load latencies over the memory in use, in huge pages. Its steps are the levels of the caches
//!    (`latency`).
//! 3. The number of misses in flight at once, and whether prefetchers predict a stream.
//! 4. The cost of TLB misses: the same loads in small pages.
//! 5. Between pairs of PUs of each kind: the transfer time of a line, and whether the two share a core (`pair`).
//! 6. Bandwidth of each node's memory, from one core and from all allowed cores (`bandwidth`), and latency between
//!    nodes.
//!
//! Each figure is the minimum of many short runs (`runs`), because noise only adds time.
//!
//! SAM's thresholds need separate microbenchmarks: two threads that share data (`sharing`) and tasks that copy
//! (`copying`). They are teams of threads whose events are counted during each run (`team`). `pinfold-calibrate`
//! evaluates the results.
//!
//! Known limits: the figures are those that this process sees. If other guests of a hypervisor use the same last-level
//! cache, its measured size is the part that they leave. All cores are assumed equal, and one is measured.

mod bandwidth;
mod copying;
mod core;
mod instructions;
mod latency;
mod memory;
mod pair;
mod room;
mod runs;
mod sharing;
mod system;
mod team;
mod threads;

pub use copying::{Locality, copying};
pub use room::enough_memory;
pub use runs::Effort;
pub use sharing::{SharingEffort, sharing};
pub use team::{CountSource, ThreadCounts};

use crate::counters::CounterError;
use crate::machine_state::MachineReading;
use core::Loop;
use memory::{Memory, Pages};
use pinfold_core::measurement::{
    BandwidthMeasurement, Calibration, NodeLatency, Relation, SystemMeasurement, Thoroughness, Traffic,
};
use pinfold_core::{NodeId, ObjectKind, PuId, PuSet, Topology};
use std::io;
use std::time::Duration;
use threads::on;

/// Why the machine cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// A thread cannot be pinned on a PU.
    #[error(
        "cannot pin a thread on CPU {pu}: {error}; the measurement has to choose CPUs, which a sandbox or a container \
         may forbid (sched_setaffinity)"
    )]
    Affinity {
        /// The PU.
        pu: PuId,
        /// The kernel's error.
        error: io::Error,
    },
    /// The memory cannot be allocated.
    #[error("cannot allocate {bytes} bytes of memory: {error}; free some, or measure less with --quick")]
    Memory {
        /// The requested bytes.
        bytes: u64,
        /// The kernel's error.
        error: io::Error,
    },
    /// The available memory is not enough to exceed the caches.
    #[error(
        "{available} MiB of memory are available, and a measurement beyond the caches needs {needed} MiB; free some, \
         raise the limit of the control group (memory.max), or measure less with --quick"
    )]
    LittleMemory {
        /// The bytes that the kernel reports as available, and that the control groups allow.
        available: u64,
        /// The needed bytes.
        needed: u64,
    },
    /// An event cannot be counted.
    #[error(transparent)]
    Counters(CounterError),
}

/// Measures the machine on the allowed PUs. `topology` is the machine's topology. `progress` gets the name of the next
/// measurement.
pub fn measure(
    topology: &Topology,
    thoroughness: Thoroughness,
    progress: &mut dyn FnMut(&str),
) -> Result<Calibration, CalibrationError> {
    let allowed = topology.allowed_pus();
    let pu = allowed.first().expect("a topology allows at least one PU");
    let machine = MachineReading::now();
    let extent = Extent::new(thoroughness, last_cache(topology, pu));
    let Extent {
        effort,
        largest,
        rounds,
        ..
    } = extent;
    enough_memory(2 * largest)?;

    progress("the core");
    let frequency = on(pu, || core::frequency(effort))?;
    let instruction = on(pu, || Loop::ALL.map(|one| one.seconds_an_instruction(effort)).to_vec())?;

    let atomic = on(pu, || system::atomic(effort))?;

    progress("the kernel");
    let system = SystemMeasurement {
        call: on(pu, || system::call(effort))?,
        hand_over: system::hand_over(pu, effort)?,
        pause: on(pu, || system::pause(effort))?,
    };

    progress("the latency of caches and memory");
    let (curve, parallelism, foreseen, huge_share) = on(pu, || {
        let memory = Memory::new(largest, Pages::Huge)?;
        let sizes = latency::sizes(4 << 10, largest);
        Ok((
            latency::curve(&memory, &sizes, rounds, effort),
            latency::parallelism(&memory, largest, effort),
            latency::foreseen(&memory, largest, effort),
            memory.huge_share(),
        ))
    })??;

    progress("the translation of addresses");
    let translation = on(pu, || {
        let small = Memory::new(extent.pages * memory::PAGE, Pages::Small)?;
        let huge = Memory::new(extent.pages * memory::PAGE, Pages::Huge)?;
        let numbers = (4..).map(|power| 1 << power).take_while(|&pages| pages <= extent.pages);
        Ok(numbers
            .map(|pages| latency::translation(&small, &huge, pages, effort))
            .collect())
    })??;

    let mut pairs = vec![];
    for (relation, other) in partners(topology, pu) {
        progress(&format!("CPUs {pu} and {other}, {}", relation.words()));
        pairs.push((relation, pair::measure(pu, other, effort)?));
    }
    let (bandwidth, nodes) = memory_of_nodes(topology, &extent, progress)?;
    Ok(Calibration {
        pu,
        frequency,
        instruction,
        atomic,
        system,
        curve,
        parallelism,
        foreseen,
        translation,
        pairs,
        bandwidth,
        nodes,
        stolen: machine.until_now().stolen,
        huge_share,
        inclusive: (1..=4).map(instructions::inclusive).collect(),
        processor: instructions::processor(),
    })
}

/// The sizes and repetitions of the measurement.
struct Extent {
    effort: Effort,
    /// Bytes of the largest array whose latency is measured.
    largest: usize,
    /// The number of latency measurements of each size.
    rounds: usize,
    /// Pages of the largest array in the measurement of address translation.
    pages: usize,
    /// Bytes of each thread's array in the measurement of bandwidth.
    array: usize,
    effort_for_bandwidth: Effort,
}

impl Extent {
    fn new(thoroughness: Thoroughness, last_cache: usize) -> Self {
        match thoroughness {
            Thoroughness::Quick => Self {
                effort: effort(15, 10),
                largest: (2 * last_cache).min(16 << 20),
                rounds: 1,
                pages: 4096,
                array: 8 << 20,
                effort_for_bandwidth: effort(3, 0),
            },
            Thoroughness::Full => Self {
                effort: effort(100, 500),
                largest: 4 * last_cache,
                rounds: 3,
                pages: 32768,
                array: (4 * last_cache).min(512 << 20),
                effort_for_bandwidth: effort(9, 0),
            },
        }
    }
}

/// The bandwidth of each node's memory from each node, by one core and by all cores; and its latency if there are
/// several nodes.
fn memory_of_nodes(
    topology: &Topology,
    extent: &Extent,
    progress: &mut dyn FnMut(&str),
) -> Result<(Vec<BandwidthMeasurement>, Vec<NodeLatency>), CalibrationError> {
    let mut bandwidth = vec![];
    let mut latencies = vec![];
    let places = node_places(topology);
    for (from, pus) in &places {
        for (home, home_pus) in &places {
            progress(&format!("the bandwidth of node {home} from node {from}"));
            let home_pu = home_pus[0];
            let mut teams = vec![&pus[..1]];
            if pus.len() > 1 {
                teams.push(&pus[..]);
            }
            for team in teams {
                for traffic in Traffic::ALL {
                    let effort = extent.effort_for_bandwidth;
                    bandwidth.push(BandwidthMeasurement {
                        from: *from,
                        home: *home,
                        traffic,
                        cores: team.len(),
                        rate: bandwidth::streaming(team, home_pu, extent.array, traffic, effort)?,
                    });
                }
            }
            if places.len() > 1 {
                let memory = on(home_pu, || Memory::new(extent.largest, Pages::Huge))??;
                let point = on(pus[0], || latency::at_size(&memory, extent.largest, extent.effort))?;
                latencies.push(NodeLatency {
                    from: *from,
                    home: *home,
                    latency: point.latency,
                });
            }
        }
    }
    Ok((bandwidth, latencies))
}

fn effort(runs: usize, milliseconds: u64) -> Effort {
    Effort {
        runs,
        longest: Duration::from_millis(milliseconds),
    }
}

/// Bytes of the outermost cache of a PU. 32 MiB if the machine does not report it.
fn last_cache(topology: &Topology, pu: PuId) -> usize {
    let path = topology.path_to(pu);
    let caches = path.iter().filter_map(|&id| topology.object(id).cache);
    let largest = caches.filter_map(|cache| cache.size).max().unwrap_or(32 << 20);
    usize::try_from(largest).unwrap_or(usize::MAX / 8)
}

/// For each relation to `pu`, the first PU in this relation.
fn partners(topology: &Topology, pu: PuId) -> Vec<(Relation, PuId)> {
    let others: Vec<(Relation, PuId)> = topology
        .allowed_pus()
        .iter()
        .filter(|&other| other != pu)
        .map(|other| (Relation::between(topology, pu, other), other))
        .collect();
    Relation::ALL
        .into_iter()
        .filter_map(|wanted| others.iter().find(|&&(relation, _)| relation == wanted).copied())
        .collect()
}

/// The nodes with allowed PUs, with one of these PUs per core.
fn node_places(topology: &Topology) -> Vec<(NodeId, Vec<PuId>)> {
    let one_a_core: PuSet = topology
        .objects_of(ObjectKind::Core)
        .filter_map(|(_, core)| core.pus.intersection(topology.allowed_pus()).first())
        .collect();
    let usable = if one_a_core.is_empty() {
        topology.allowed_pus().clone()
    } else {
        one_a_core
    };
    topology
        .nodes()
        .iter()
        .map(|node| (node.id, node.pus.intersection(&usable).iter().collect::<Vec<_>>()))
        .filter(|(_, pus)| !pus.is_empty())
        .collect()
}
