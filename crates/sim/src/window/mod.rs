//! The detailed simulation of a window: the events of some threads, under one configuration, on one model.
//!
//! Threads take turns by their own clocks: the PU with the lowest clock runs until it is a quantum ahead of the next
//! one, or its thread waits for another. Events that order threads in the program (barriers, signals) order them here
//! exactly. Accesses that the program leaves unordered may be swapped when they are less than a quantum apart.
//!
//! The same input gives the same result. PUs with equal clocks are ordered by their numbers. The only random quantity,
//! the latency of transfers between caches, depends on `Options::seed`.

#![expect(
    clippy::cast_possible_truncation,
    reason = "line, core, domain and node numbers are packed tightly; the limits are checked when a window begins"
)]

mod cache;
mod clocks;
mod configuration;
mod core;
mod counters;
mod directory;
mod engine;
mod host;
mod mapping;
mod misses;
mod options;
mod pages;
mod piece;
mod placement;
mod profile;
mod queueing;
mod regions;
mod restraint;
mod result;
mod runner;
mod schedule;
mod server;
mod state;
mod steps;
mod stream;
pub mod synthetic;
mod system;
mod thread;
mod time;
mod totals;
mod trainer;
mod unrecorded;

pub use configuration::WindowConfiguration;
pub use counters::{
    Counters, LevelCounters, LinkTraffic, Mark, PrefetchCounters, RegionSpan, Served, ServedCounters, TeamMarks,
};
pub(crate) use directory::BLOCK_SHIFT;
pub(crate) use engine::{ThreadCounts, simulate_piece};
pub use engine::{simulate, simulate_regions, simulate_teams, simulate_with_pages};
pub(crate) use mapping::Mapping;
pub use misses::{Geometry, MissCounter, Misses, MissesError};
pub use options::{Options, WindowError};
pub(crate) use pages::{BLOCK_PAGE_SHIFT, Blocks, UNPLACED};
pub(crate) use piece::{PieceResult, Running};
pub use pinfold_core::{PageMapping, Prefetchers};
pub use profile::PageProfile;
pub use regions::{RegionPlace, RegionPlaces};
pub use result::WindowResult;
pub(crate) use schedule::Waiting;
pub(crate) use state::CacheState;
pub use steps::StepTable;
pub(crate) use steps::UNKNOWN;
pub use stream::{BATCH_EVENTS, Batch, Event, EventKind, Generated, Recorded, Stream};
pub(crate) use system::Touch;
pub use totals::{RegionTotals, TrafficBytes};
pub(crate) use totals::{memory_joules, package_joules};
pub(crate) use unrecorded::share as unrecorded_share;
