//! Results of microbenchmarks of a machine: plain data. `linux` measures them, `calibrate` evaluates them.
//!
//! Each time is the minimum of many short runs: interrupts, other programs and a hypervisor only make a run longer. The
//! spread says how much longer the median run was. Noise changes ratios and rates in both directions; they are medians.

use crate::{NodeId, ObjectId, ObjectKind, PuId, Topology};

/// A figure with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The figure of the run with the least noise.
    pub value: f64,
    /// The relative difference between the median run's figure and this one.
    pub spread: f64,
    /// The number of runs.
    pub runs: usize,
}

impl Measured {
    /// The minimum of the times of several runs; `None` without any.
    pub fn least(times: &[f64]) -> Option<Self> {
        let mut times = times.to_vec();
        times.sort_unstable_by(f64::total_cmp);
        let (&least, middle) = (times.first()?, times[times.len() / 2]);
        Some(Self {
            value: least,
            spread: middle / least - 1.0,
            runs: times.len(),
        })
    }

    /// The same figure in another unit.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            ..self
        }
    }

    /// The rate per second of something that happens `amount` times in the measured time.
    pub fn rate(self, amount: f64) -> Self {
        Self {
            value: amount / self.value,
            ..self
        }
    }
}

/// The median of figures that noise changes in both directions, such as ratios and rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    /// The median.
    pub value: f64,
    /// The lower and the upper quartile.
    pub quartiles: [f64; 2],
}

impl Median {
    /// The median of these figures; `None` without any.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_unstable_by(f64::total_cmp);
        let last = figures.len().checked_sub(1)?;
        // A quartile that lies between two figures is interpolated.
        let at = |quarter: usize| {
            let (whole, rest) = (quarter * last / 4, (quarter * last % 4) as f64 / 4.0);
            let next = figures[(whole + 1).min(last)];
            figures[whole] + rest * (next - figures[whole])
        };
        Some(Self {
            value: at(2),
            quartiles: [at(1), at(3)],
        })
    }
}

/// How thoroughly to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoroughness {
    /// Seconds: to test the measurement itself. Figures beyond the last-level cache are not reliable.
    Quick,
    /// A minute or two.
    Full,
}

/// How two PUs are related in the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// On one core.
    SameCore,
    /// Under one last-level cache.
    SameDomain,
    /// In one package, under different last-level caches.
    SamePackage,
    /// In different packages.
    OtherPackage,
}

impl Relation {
    /// All, the nearest first.
    pub const ALL: [Self; 4] = [Self::SameCore, Self::SameDomain, Self::SamePackage, Self::OtherPackage];

    /// The relation of two PUs.
    pub fn between(topology: &Topology, one: PuId, other: PuId) -> Self {
        let together = |kind: ObjectKind| {
            topology
                .objects_of(kind)
                .any(|(_, object)| object.pus.contains(one) && object.pus.contains(other))
        };
        if together(ObjectKind::Core) {
            return Self::SameCore;
        }
        let share = |&domain: &ObjectId| {
            let pus = &topology.object(domain).pus;
            pus.contains(one) && pus.contains(other)
        };
        if topology.llc_domains().iter().any(share) {
            Self::SameDomain
        } else if together(ObjectKind::Package) {
            Self::SamePackage
        } else {
            Self::OtherPackage
        }
    }

    /// The relation as text.
    pub fn words(self) -> &'static str {
        match self {
            Self::SameCore => "siblings of one core",
            Self::SameDomain => "cores under one last-level cache",
            Self::SamePackage => "cores of one package",
            Self::OtherPackage => "cores of two packages",
        }
    }
}

/// The latency of a load while this many bytes are in use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// The bytes in use.
    pub bytes: u64,
    /// Seconds per load.
    pub latency: Measured,
}

/// The latency of one load from each of `pages` pages, for pages of either size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TranslationPoint {
    /// Pages of 4 KiB in use.
    pub pages: u64,
    /// Seconds per load in such pages.
    pub small: Measured,
    /// Seconds per load at the same places in pages of 2 MiB.
    pub huge: Measured,
}

/// The costs of the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SystemMeasurement {
    /// Seconds of a system call that wakes no thread.
    pub call: Measured,
    /// Seconds from a call that wakes another thread of the same PU until that thread runs. The caller sleeps after it.
    pub hand_over: Measured,
    /// Seconds of a `pause`, which polling loops contain.
    pub pause: Measured,
}

/// The measurements of a pair of PUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairMeasurement {
    /// The PUs.
    pub pus: (PuId, PuId),
    /// Seconds from a change of a line by one PU until the other, which polls, sees it: half a round trip.
    pub ping_pong: Measured,
    /// Seconds of a load by the second PU from a line that the first has modified.
    pub modified: Measured,
    /// Seconds of a load by the second PU from an unmodified line that only the first has.
    pub clean: Measured,
    /// Seconds of an atomic addition by the second PU to a line that the first has modified, of many independent ones.
    pub atomic: Measured,
    /// The throughput of both together, relative to one alone: nearly 2 on two cores, less on siblings.
    pub throughput: f64,
}

/// Two PUs whose throughput together is below this share a core. Two cores reach 2 minus the noise. Siblings reach at
/// most about 1.7 with these loops, because one loop alone leaves most of a wide core idle.
const SIBLINGS: f64 = 1.75;

impl PairMeasurement {
    /// Whether the two share a core, by measurement.
    pub fn siblings(&self) -> bool {
        self.throughput < SIBLINGS
    }
}

/// What a stream does to each line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Loads it.
    Read,
    /// Stores to it: it is read first and written back later.
    Write,
    /// Loads it and stores to another one.
    Copy,
}

impl Traffic {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Copy];
}

/// Bandwidth of one node's memory, for the PUs of one node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BandwidthMeasurement {
    /// The node of the threads.
    pub from: NodeId,
    /// The node of the memory.
    pub home: NodeId,
    /// What the threads do.
    pub traffic: Traffic,
    /// The number of cores that do it.
    pub cores: usize,
    /// Bytes per second that the memory transfers for all of them.
    pub rate: Measured,
}

/// Latency of one node's memory from another node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeLatency {
    /// The node of the thread.
    pub from: NodeId,
    /// The node of the memory.
    pub home: NodeId,
    /// Seconds per load.
    pub latency: Measured,
}

/// All measurements that a machine model needs.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The PU of all measurements that need one.
    pub pu: PuId,
    /// The clock, in hertz.
    pub frequency: Measured,
    /// By loop: seconds per instruction with all data in the L1.
    pub instruction: Vec<Measured>,
    /// Seconds of an atomic addition in the L1.
    pub atomic: Measured,
    /// What the kernel costs.
    pub system: SystemMeasurement,
    /// Latency of a load by the bytes in use, in huge pages.
    pub curve: Vec<CurvePoint>,
    /// The number of misses that a core has in flight at once.
    pub parallelism: Measured,
    /// Seconds per load from lines in ascending order, in memory.
    pub foreseen: Measured,
    /// The cost of missing translations.
    pub translation: Vec<TranslationPoint>,
    /// One pair of PUs of each relation that the machine has.
    pub pairs: Vec<(Relation, PairMeasurement)>,
    /// Bandwidths.
    pub bandwidth: Vec<BandwidthMeasurement>,
    /// Latencies between nodes, if there are several.
    pub nodes: Vec<NodeLatency>,
    /// The share of the processor time that a hypervisor took during the measurement; `None` if the kernel does not
    /// report it.
    pub stolen: Option<f64>,
    /// The share of the requested bytes of huge pages that the kernel gave.
    pub huge_share: Option<f64>,
    /// By level, from 1 on: whether a cache is inclusive of the caches nearer to the core; `None` if the processor
    /// does not report it.
    pub inclusive: Vec<Option<bool>>,
    /// What the processor says it is.
    pub processor: Option<Processor>,
}

/// A processor by the numbers that its maker gave it (CPUID).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// `GenuineIntel`, `AuthenticAMD`.
    pub vendor: String,
    /// The family.
    pub family: u32,
    /// The model in the family.
    pub model: u32,
}

/// One run of a team of threads.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedRun {
    /// Seconds until the last of them finished.
    pub seconds: f64,
    /// By thread: the counts, in the order of the source, scaled to the whole run where counters were multiplexed;
    /// `None` for a count that is not available.
    pub counts: Vec<Vec<Option<f64>>>,
}

/// Two threads that share data, measured at one rate of sharing.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedRuns {
    /// Accesses of each thread in a run.
    pub accesses: u64,
    /// By round: the run with the threads close together, and the run with the threads apart.
    pub rounds: Vec<(TimedRun, TimedRun)>,
}

/// Tasks that copied memory at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct CopiedRuns {
    /// Bytes that all of them copied in a run: this many were read and written.
    pub bytes: u64,
    /// The runs.
    pub runs: Vec<TimedRun>,
    /// The share of the arrays that is not on their tasks' nodes; `None` if the kernel does not report it.
    pub elsewhere: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_time_is_the_figure_and_the_median_gives_the_spread() {
        let measured = Measured::least(&[12.0, 10.0, 50.0]).unwrap();
        assert_eq!((measured.value, measured.runs), (10.0, 3));
        assert!((measured.spread - 0.2).abs() < 1e-12);
        assert_eq!(Measured::least(&[]), None);
    }

    #[test]
    fn a_median_has_its_quartiles_around_it() {
        let median = Median::of([5.0, 1.0, 3.0, 2.0, 4.0]).unwrap();
        assert_eq!((median.value, median.quartiles), (3.0, [2.0, 4.0]));
        let median = Median::of([1.0, 2.0]).unwrap();
        assert_eq!((median.value, median.quartiles), (1.5, [1.25, 1.75]));
        let median = Median::of([7.0]).unwrap();
        assert_eq!((median.value, median.quartiles), (7.0, [7.0, 7.0]));
        assert_eq!(Median::of([]), None);
    }
}
