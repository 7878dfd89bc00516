//! What differs by instruction set: loops whose instructions are counted, vectors, the eviction of lines from the caches, and
//! what the processor reports about itself. Each instruction set has a file with the same functions. A loop does the same work
//! in both, and its number of instructions differs.
//!
//! Limit: those of aarch64 ran under emulation only, which has no times of its own.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod cpuid;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(super) use {cpuid::*, x86_64::*};
