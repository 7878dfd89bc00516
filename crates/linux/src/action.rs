//! A call that changes a mask or a register, as it is made or, with `--dry-run`, printed.

use crate::affinity::CpuMask;
use pinfold_core::PuId;
use std::fmt;

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A thread gets this mask.
    Mask {
        /// Its process.
        process: i32,
        /// Its number.
        thread: i32,
        /// Its mask now.
        now: CpuMask,
        /// The one that it gets.
        to: CpuMask,
    },
    /// A register is written.
    Register {
        /// Of which PU.
        pu: PuId,
        /// Its number.
        register: u32,
        /// Its value now.
        now: u64,
        /// The one that it gets.
        to: u64,
    },
}

/// The system call, as strace would show it.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mask { thread, to, .. } => write!(f, "sched_setaffinity({thread}, {})", to.to_set()),
            Self::Register { pu, register, to, .. } => write!(f, "pwrite(/dev/cpu/{pu}/msr, {to:#x}, {register:#x})"),
        }
    }
}
