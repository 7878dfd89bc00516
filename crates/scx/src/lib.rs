//! A scheduler in the kernel (`sched_ext`, Linux 6.12) in which tasks prefer last-level caches, and its loader. No mask is
//! written, so there is nothing to undo: when the loader ends, dies or is silent, the kernel's own scheduler is back.
//!
//! 1. **The scheduler** (`bpf/pinfold.bpf.c`) is compiled by clang at build time and is part of the binary. Its head
//!    has its rules and a drawing.
//! 2. **The machine** (`domains`, pure): the last-level cache of each CPU, and the order of the others by distance.
//! 3. **What both sides write** (`layout`, pure): the settings, preferences and accounts as bytes.
//! 4. **The loader** (`scheduler`): loads, starts, calls it so that it knows the loader lives, sets preferences, and
//!    reads what tasks did and who woke whom.
//! 5. **Preferring** (`preferring`, pure): a `Host` whose tasks are placed by preferences.
//!
//! It needs the feature `kernel`, and clang, libelf and zlib to be built. Other builds have the same functions, and
//! `Scheduler::start` says what is missing.

#![cfg_attr(
    not(has_scheduler),
    allow(dead_code, reason = "a build without the scheduler writes nothing for it")
)]

mod domains;
mod error;
mod layout;
mod preferring;
mod scheduler;

pub use domains::Domains;
pub use error::StartError;
pub use layout::{Listed, Pair, Preference};
pub use preferring::{CALLED, MOST_SILENCE, PATIENCE, Preferences, Preferring, Way};
pub use scheduler::{Ended, Scheduler, Scope, State, other_scheduler, possible_cpus};
