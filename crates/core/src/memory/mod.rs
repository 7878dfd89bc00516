//! Decides where the pages of a running program should be: which parts of a process's memory are considered (`area`),
//! and which node each page belongs on (`goal`, `spread`, `following`). For mappings by accesses, `profile` holds the
//! accesses, from samples (`sampling`, whose cost is in `sampled`) or from a recording of another run (`recorded`).
//! `cost` decides whether pages follow their threads, `origins` remembers where pages were, and `moves` has the result
//! of moving them.

mod area;
mod cost;
mod following;
mod goal;
mod moves;
mod origins;
mod profile;
mod recorded;
mod runs;
mod sampled;
mod sampling;
mod spread;

pub use area::{AreaKind, MemoryArea, Selection, Share};
pub use cost::{ASSUMED_COPY_RATE, SAMPLED_BEFORE, TooLong, check_cost};
pub use following::{Followed, Following, PinnedTask};
pub use goal::{Unavailable, check_nodes, main_memory, memory_nodes, nearest_other, node_of_pu, nodes_of_pus, spread};
pub use moves::{Left, LeftCode, PageCount, PageMoves};
pub use origins::{Back, Noting, Origins};
pub use profile::{AccessProfile, PagePlaces, SharedPages};
pub use recorded::{MappedArea, MappedBacking, Mismatch, Profiled, RecordedArea, RecordedProfile, UnmatchedArea};
pub use sampled::{EventSampling, FaultSampling, Sampled, Seen};
pub use sampling::SampledAccesses;
pub use spread::{Spread, Turns};

use crate::NodeId;

/// On which node each page of one process belongs.
pub trait PageGoal {
    /// The node for the page of `bytes` at `address`, which is on `now`; `now` itself if the page may stay.
    fn wanted(&self, address: u64, bytes: u64, now: NodeId) -> NodeId;

    /// The page of `bytes` at `address` has been moved.
    fn moved(&mut self, _address: u64, _bytes: u64, _from: NodeId, _to: NodeId) {}
}
