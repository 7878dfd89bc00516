//! Memory on NUMA nodes, through the kernel's calls: the initial memory policy of a program (`policy`), the memory of a
//! running process (`maps`, `page_map`, `mapped`), its accesses (`sampling`), the nodes of its threads (`threads`), and
//! the migration of its pages (`mover`, `calls`, to a `goal`). `pinfold_core::memory` decides each page's node.

mod calls;
mod goal;
mod mapped;
mod maps;
mod mover;
mod page_map;
mod policy;
mod process;
mod run;
mod sampling;
mod system;
mod threads;

pub use calls::{Calls, MoveCalls, StopReason, Target, may_move_shared, page_size};
pub(crate) use goal::Goal;
pub use mapped::{ProfileError, on_process};
pub use maps::{Areas, MapsError, by_node};
pub use mover::{Limits, Progress, move_pages, move_pages_patiently};
pub use page_map::{Entry, PageMap};
pub use policy::{Balancing, MemoryPolicy, Mode, PolicyError};
pub use process::{OtherProcess, ProcessError};
pub use sampling::{Accesses, NoMemoryEvents, SampleBy, SampledMachine, Sampling, SamplingError};
pub use system::System;
pub use threads::ProcessThreads;
