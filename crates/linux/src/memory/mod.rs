//! Memory on NUMA nodes, by the kernel's calls: the memory policy that a program begins with (`policy`), what a running
//! process's memory looks like (`maps`, `page_map`, `mapped`), who accesses what (`sampling`), on which nodes the threads of
//! a process are (`threads`), and moving pages (`mover`, `calls`). `pinfold_core::memory` decides where each page belongs.

mod calls;
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
pub use mapped::{ProfileError, on_process};
pub use maps::{Areas, MapsError};
pub use mover::{Limits, Progress, move_pages};
pub use page_map::{Entry, PageMap};
pub use policy::{Balancing, MemoryPolicy, Mode, PolicyError};
pub use process::{OtherProcess, ProcessError};
pub use sampling::{Accesses, NoMemoryEvents, SampleBy, SampledMachine, Sampling, SamplingError};
pub use system::System;
pub use threads::ProcessThreads;
