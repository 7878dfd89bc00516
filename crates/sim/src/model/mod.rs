//! The model of a machine: a TOML file in which every number has its source.
//!
//! A text becomes a model in three steps. The file is parsed, each number into its own type with its unit. The numbers
//! are checked against each other. The routes between the nodes are computed. An error names the key and the line and
//! says how to correct it.
//!
//! A model describes packages of NUMA nodes of last-level-cache (LLC) domains of cores of PUs, all alike; caches that
//! are private to a core and a last level that several cores may share; the latency of a miss by who serves it; memory
//! with a bandwidth for each node, and links with a bandwidth for each direction or a front-side bus for each package.
//!
//! Known limits: no hybrid machines, no shared cache levels except the last, no memory-side caches, no nodes without
//! cores. The clock of a core depends at most on the number of active cores of its package: no power limits, no
//! throttling.

mod catalog;
mod check;
mod curve;
mod published;
mod quantity;
mod route;
mod topology;
mod turbo;

pub use catalog::{builtin, builtin_names};
pub use check::ModelError;
pub use curve::{LoadedLatency, Queueing, WaitAtShare};
pub use pinfold_core::Prefetcher;
pub use published::{Cores, Figure, Measure, Mix, Published, Target};
pub use quantity::{
    Bandwidth, Count, Cycles, Energy, Frequency, Inclusion, Latency, MicroarchitectureName, Numbering, Power,
    PrefetcherSet, Protocol, Quantity, Ratio, RawValue, Size, Source, Sourced,
};
pub use route::Routes;
pub use turbo::{Turbo, TurboStep};

use serde::{Deserialize, Serialize};

/// A machine.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// What `--machine` takes.
    pub name: String,
    /// The machine in one line.
    pub summary: String,
    /// The numbers of packages, nodes, cores and PUs.
    pub shape: Shape,
    /// The core and its clock.
    pub core: Core,
    /// The translation look-aside buffer.
    pub tlb: Tlb,
    /// The caches, nearest to the core first; the last may be shared.
    #[serde(rename = "cache")]
    pub caches: Vec<CacheLevel>,
    /// Who serves a miss, and how long it takes.
    pub coherence: Coherence,
    /// The memory of a node.
    pub memory: Memory,
    /// The links between nodes.
    #[serde(default, rename = "link")]
    pub links: Vec<Link>,
    /// The prefetchers that the machine has.
    pub prefetch: Prefetch,
    /// The energy costs.
    pub energy: EnergyModel,
    /// Published latencies and bandwidths.
    #[serde(default, deserialize_with = "published::list")]
    pub published: Vec<Published>,
    /// The costs of the operating system, if they were measured on the machine.
    pub system: Option<SystemCosts>,
}

/// The numbers of packages, nodes, cores and PUs.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Packages.
    pub packages: Sourced<Count>,
    /// NUMA nodes of the whole machine: a multiple of the packages, or 1 for a machine with uniform memory.
    pub nodes: Sourced<Count>,
    /// Cores per package.
    pub cores_per_package: Sourced<Count>,
    /// PUs per core.
    pub threads_per_core: Sourced<Count>,
    /// How the operating system numbers the PUs.
    pub pu_numbering: Sourced<Numbering>,
}

/// The core and its clock.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// The base clock. Cycles of latencies that are not of the core and its private caches are cycles of it.
    pub frequency: Sourced<Frequency>,
    /// The clocks by the number of active cores of the package; the base clock at any number where the model does not
    /// say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turbo: Option<Sourced<Turbo>>,
    /// The latencies and execution ports of its instructions. Recordings that hold the program's code use them.
    pub microarchitecture: Option<Sourced<MicroarchitectureName>>,
    /// Cycles per instruction where every access hits the L1, for programs whose code is unknown. They contain the
    /// width of the core, branches and the program's own dependences.
    pub base_cpi: Sourced<Cycles>,
    /// Instructions that may be in flight behind a load that misses.
    pub reorder_buffer: Sourced<Count>,
    /// Stores that may wait for an earlier one that missed.
    pub store_buffer: Sourced<Count>,
    /// Misses of the L1 that may be in flight at the same time.
    pub line_fill_buffers: Sourced<Count>,
    /// Cycles that an atomic instruction adds on a line that the L1 holds; 20 where the model does not say it.
    pub locked: Option<Sourced<Cycles>>,
    /// Lines that atomic instructions may wait for at the same time. 1 where the model does not say it: each atomic
    /// instruction waits for everything before it, as was measured on four processors of 2012 to 2015 (Schweizer,
    /// Besta, Hoefler: "Evaluating the cost of atomic operations on modern architectures", PACT 2015, section 5).
    pub locked_misses: Option<Sourced<Count>>,
    /// Instructions per cycle of all PUs of a core together, relative to one PU that runs alone; for cores with several
    /// PUs.
    pub smt_throughput: Option<Sourced<Ratio>>,
    /// Share of the reorder buffer and of the store buffer that a PU may use while another PU of its core runs, too; 1
    /// where the model does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smt_buffers: Option<Sourced<Ratio>>,
}

impl Core {
    /// For how many lines atomic instructions wait at the same time.
    pub(crate) fn locked_at_once(&self) -> usize {
        self.locked_misses
            .as_ref()
            .map_or(1, |misses| misses.value().0 as usize)
    }
}

/// The translation look-aside buffer: its last level.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tlb {
    /// Pages of 4 KiB that it holds.
    pub entries: Sourced<Count>,
    /// Ways.
    pub ways: Sourced<Count>,
    /// Cycles or nanoseconds that a miss adds to an access.
    pub walk: Sourced<Latency>,
}

/// One level of cache.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CacheLevel {
    /// Capacity of one cache.
    pub size: Sourced<Size>,
    /// Ways; replacement is true LRU.
    pub ways: Sourced<Count>,
    /// Cores that share one cache.
    pub cores: Sourced<Count>,
    /// From load to use, for a hit.
    pub latency: Sourced<Latency>,
    /// What it holds of the lines of the levels nearer to the core. The first level is `non_inclusive`.
    pub inclusion: Sourced<Inclusion>,
    /// Energy of an access.
    pub energy: Sourced<Energy>,
}

/// Who serves a miss, and how long it takes from load to use.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Coherence {
    /// The protocol.
    pub protocol: Sourced<Protocol>,
    /// Another core under the same LLC holds the line exclusively, unmodified.
    pub same_domain_clean: Option<Sourced<Latency>>,
    /// Another core under the same LLC has modified it.
    pub same_domain_modified: Option<Sourced<Latency>>,
    /// Another LLC domain of the package holds it unmodified.
    pub same_package_clean: Option<Sourced<Latency>>,
    /// Another LLC domain of the package has modified it.
    pub same_package_modified: Option<Sourced<Latency>>,
    /// The nearest other package holds it unmodified.
    pub other_package_clean: Option<Sourced<Latency>>,
    /// The nearest other package has modified it.
    pub other_package_modified: Option<Sourced<Latency>>,
}

/// The memory of a node.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// From load to use, idle, of the core's own node.
    pub latency: Sourced<Latency>,
    /// Sustained bandwidth of one node: of reads where `write_cost` is given, and otherwise of reads and writes
    /// together.
    pub bandwidth: Sourced<Bandwidth>,
    /// How long a written line occupies memory, relative to one that is read; 1 if it is not given.
    pub write_cost: Option<Sourced<Ratio>>,
    /// How long a line waits behind others, as was measured. Without it, lines arrive at random and are served one
    /// after the other.
    pub queueing: Option<Sourced<Queueing>>,
    /// Of one node.
    pub capacity: Option<Sourced<Size>>,
    /// Bandwidth of one package's bus to memory, of both directions together, if the machine has a bus.
    pub front_side_bus: Option<Sourced<Bandwidth>>,
    /// Bandwidth of lines that enter one LLC domain, if its own connection to the rest of the package limits it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain_in: Option<Sourced<Bandwidth>>,
    /// Bandwidth of lines that leave one LLC domain: written ones, and those for other domains; with `domain_in`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain_out: Option<Sourced<Bandwidth>>,
}

/// Links with the same properties.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The pairs of nodes. One link connects each pair.
    pub between: Vec<(usize, usize)>,
    /// The source of the pairs.
    pub source: String,
    /// Bandwidth of data, in each direction.
    pub bandwidth: Sourced<Bandwidth>,
    /// Latency that crossing the link adds to local memory's latency, there and back.
    pub latency: Sourced<Latency>,
    /// How long a line waits behind others in one direction, as was measured. Without it, lines arrive at random and
    /// are served one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queueing: Option<Sourced<Queueing>>,
}

/// The prefetchers that the machine has.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Prefetch {
    /// Which of the four prefetchers of Intel's processors it has, or the most similar ones.
    pub present: Sourced<PrefetcherSet>,
    /// How many lines the streamer runs ahead at most.
    pub streamer_distance: Sourced<Count>,
    /// Prefetches of a core that may be in flight at the same time.
    pub in_flight: Sourced<Count>,
    /// How many lines the streamer runs ahead while all line-fill buffers of the core are in use. In between the
    /// distance is linear in the buffers in use. Without it the distance is the same at any load.
    pub streamer_busy_distance: Option<Sourced<Count>>,
    /// The streamer brings lines to the L2 while the core uses fewer line-fill buffers than this and `in_flight` has
    /// room, and otherwise to the last-level cache only. Without it all lines go to the L2, and those that find no
    /// room are dropped.
    pub streamer_l2_below: Option<Sourced<Count>>,
    /// A core's prefetches to the last-level cache that may be in flight at the same time; with `streamer_l2_below`.
    pub llc_in_flight: Option<Sourced<Count>>,
    /// Lines of the next page, in the direction of a stream, that the streamer fetches when it reaches the end of a
    /// page. Without it streams end at the end of a page.
    pub next_page: Option<Sourced<Count>>,
    /// The adjacent line is fetched while the core uses fewer line-fill buffers than this.
    pub adjacent_below: Option<Sourced<Count>>,
    /// The L1's prefetchers fetch lines while the core uses fewer line-fill buffers than this.
    pub l1_below: Option<Sourced<Count>>,
}

impl Prefetch {
    /// The optional numbers that the model gives, by key.
    pub fn optional(&self) -> impl Iterator<Item = (&'static str, &Sourced<Count>)> {
        [
            ("streamer_busy_distance", &self.streamer_busy_distance),
            ("streamer_l2_below", &self.streamer_l2_below),
            ("llc_in_flight", &self.llc_in_flight),
            ("next_page", &self.next_page),
            ("adjacent_below", &self.adjacent_below),
            ("l1_below", &self.l1_below),
        ]
        .into_iter()
        .filter_map(|(key, count)| count.as_ref().map(|count| (key, count)))
    }
}

/// The energy costs. The costs of cache accesses are in `CacheLevel`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EnergyModel {
    /// An idle package.
    pub package_idle: Sourced<Power>,
    /// A running core, without its instructions and accesses.
    pub core_active: Sourced<Power>,
    /// An instruction.
    pub instruction: Sourced<Energy>,
    /// A line that crosses a link or a bus.
    pub link_line: Sourced<Energy>,
    /// The idle memory of a node.
    pub memory_idle: Sourced<Power>,
    /// A line read or written.
    pub memory_line: Sourced<Energy>,
}

/// The costs of the operating system.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SystemCosts {
    /// A system call that finds nothing to do.
    pub call: Sourced<Latency>,
    /// The switch from one thread of a PU to another.
    pub switch: Sourced<Latency>,
    /// How long a thread polls while it waits for its team, before it sleeps, where other threads want its PU.
    pub poll: Sourced<Latency>,
}

/// Bytes of a cache line, the same on all machines.
pub const LINE_BYTES: u64 = 64;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

impl Model {
    /// Parses and checks a model. `file` names it in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, ModelError> {
        let model: Self = toml::from_str(text).map_err(|error| ModelError::syntax(file, text, &error))?;
        model.check(file, text)?;
        Ok(model)
    }

    /// NUMA nodes.
    pub fn nodes(&self) -> usize {
        self.shape.nodes.value().0 as usize
    }

    /// Packages.
    pub fn packages(&self) -> usize {
        self.shape.packages.value().0 as usize
    }

    /// Cores of the machine.
    pub fn cores(&self) -> usize {
        self.packages() * self.shape.cores_per_package.value().0 as usize
    }

    /// PUs of a core.
    pub fn threads_per_core(&self) -> usize {
        self.shape.threads_per_core.value().0 as usize
    }

    /// How many of the `entries` of a core's buffer a PU has while others of the core run, at least one.
    pub(crate) fn entries_beside_others(&self, entries: u64) -> u64 {
        let share = self.core.smt_buffers.as_ref().map_or(1.0, |share| share.value().0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a small whole number"
        )]
        let part = (entries as f64 * share) as u64;
        part.max(1)
    }

    /// PUs of the machine.
    pub fn pus(&self) -> usize {
        self.cores() * self.threads_per_core()
    }

    /// Cores that share a last-level cache.
    pub fn cores_per_domain(&self) -> usize {
        self.caches[self.caches.len() - 1].cores.value().0 as usize
    }

    /// The capacity of one last-level cache, in bytes.
    pub fn domain_llc_bytes(&self) -> u64 {
        self.caches[self.caches.len() - 1].size.value().0
    }

    /// The capacity of all last-level caches together, in bytes.
    pub fn llc_bytes(&self) -> u64 {
        (self.cores() / self.cores_per_domain()) as u64 * self.domain_llc_bytes()
    }

    /// The package of core `core`; cores are numbered package by package, node by node, domain by domain.
    pub fn package_of_core(&self, core: usize) -> usize {
        core / self.shape.cores_per_package.value().0 as usize
    }

    /// The NUMA node of core `core`.
    pub fn node_of_core(&self, core: usize) -> usize {
        core * self.nodes() / self.cores()
    }

    /// The LLC domain of core `core`.
    pub fn domain_of_core(&self, core: usize) -> usize {
        core / self.cores_per_domain()
    }

    /// The NUMA node of the PU with operating-system index `pu`; `None` if the machine has no such PU.
    pub fn node_of_pu(&self, pu: u32) -> Option<usize> {
        self.core_of_pu(pu).map(|(core, _)| self.node_of_core(core))
    }

    /// Core and sibling number of the PU with operating-system index `pu`; `None` if the machine has no such PU.
    pub fn core_of_pu(&self, pu: u32) -> Option<(usize, usize)> {
        let cores = self.cores();
        let numbering = self.shape.pu_numbering.value();
        let place = match &numbering {
            Numbering::Contiguous | Numbering::RoundRobin => pu as usize,
            Numbering::Listed(pus) => pus.iter().position(|&listed| listed == pu)?,
        };
        let (sibling, position) = (place / cores, place % cores);
        if sibling >= self.threads_per_core() {
            return None;
        }
        let core = match numbering {
            Numbering::Contiguous | Numbering::Listed(_) => position,
            Numbering::RoundRobin => {
                let nodes = self.nodes().max(self.packages());
                position % nodes * (cores / nodes) + position / nodes
            }
        };
        Some((core, sibling))
    }

    /// The base clock.
    pub fn frequency(&self) -> Frequency {
        self.core.frequency.value()
    }

    /// The clock of the cores of a package of which `active` are active.
    pub fn clock(&self, active: usize) -> Frequency {
        let turbo = self.core.turbo.as_ref();
        turbo.map_or(self.frequency(), |turbo| turbo.value().clock(active))
    }
}
