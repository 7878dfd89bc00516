//! The data that all parts of pinfold share: topologies, samples, placements, decisions; and the traits through which a
//! machine, real or simulated, is used.
//!
//! No input or output happens here, and no clock is read: `clippy.toml` beside this crate's manifest enforces it.

mod believed;
mod code;
mod configuration;
pub mod container;
mod content_hash;
mod decision;
mod device;
pub mod digits;
pub mod function;
pub mod hint;
mod host;
mod id;
mod likwid;
mod machine;
pub mod measurement;
pub mod memory;
mod metric;
mod node_set;
mod own_finding;
mod page_mapping;
pub mod placement;
mod prefetchers;
mod pu_set;
pub mod random;
mod region;
mod replay;
mod sample;
mod scheduled;
pub mod statistics;
mod summary;
mod task_move;
pub mod text;
mod thread_map;
mod topology;

pub use believed::{BelievedTrial, ExpectedTime, Tried, WITHIN_95};
pub use code::{
    BrokenOffCode, CODE_SETS, CandidatesCode, Children, ChoiceCode, CodeSet, ComparedCode, EndedCode, ForecastCode,
    HostNoteCode, MachineKind, MetricCode, NoteCode, OutcomeCode, PlacedBy, ProposerCode, Reason, RefusalCode,
    RegionCode, SampleCode, StayCode,
};
pub use configuration::{Applied, Configuration, Instead, Pinning, ProcessGoal, Refusal};
pub use content_hash::content_hash;
pub use decision::{Decision, Finding, Observed, ProgramGain, RegionChoice, StrategyForecast};
pub use device::{Device, DeviceKind, DeviceName, NoDeviceName, NoPciAddress, PciAddress};
pub use host::{
    Host, HostNote, HostSample, LeftAlone, Placed, ProcessFunction, ProcessPages, ProgressCode, TaskStatus, Wake,
};
pub use id::{NodeId, PuId, TaskId};
pub use likwid::{LIKWID, LikwidCounter};
pub use machine::{Machine, MachineError, Wait};
pub use metric::{COUNTS_OF_A_JOULE, ENERGY_UNIT, Metric, MetricColumn, MetricSource, Scope, sources};
pub use node_set::{NodeSet, ParseNodeSetError};
pub use own_finding::{OwnFinding, PolicyFinding};
pub use page_mapping::{PageMapping, ParsePageMappingError};
pub use prefetchers::{ParsePrefetchersError, Prefetcher, Prefetchers};
pub use pu_set::{ParsePuSetError, PuSet};
pub use region::{CacheCounts, RegionConfiguration, RegionCounts, RegionId, RegionKeeps, RegionSample};
pub use replay::{CostSource, MoveCost, MoveCosts, Replayed, ReplayedRegion, UnpinnedSource};
pub use sample::{Count, Sample, TaskSample};
pub use scheduled::{Scheduled, TaskTimes, WakeCounts};
pub use summary::{size_text, summary};
pub use task_move::{Activity, Excess, MappingCode, MappingComparison, MoveReason, ProcessGain, TaskMove};
pub use thread_map::{ThreadMap, cores_by_node, map_over_nodes, map_threads, map_threads_per_core, most_on_a_core};
pub use topology::{
    Cache, CacheType, CoreKind, Distances, MemoryKind, NumaNode, Object, ObjectId, ObjectKind, Topology,
    TopologyBuilder, TopologyError, resolve_overlaps,
};
