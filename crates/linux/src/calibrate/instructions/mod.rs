//! The parts that depend on the instruction set: loops with a known number of instructions, vectors, the eviction of
//! lines from the caches, and the properties that the processor reports. Each instruction set has a file with the same
//! functions. A loop does the same work in both, but with different numbers of instructions.
//!
//! Limit: the file for aarch64 has run only under emulation, which shows no real times.

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
