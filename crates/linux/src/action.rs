//! A call that changes a mask or a register, or removes a probe. It is executed, or printed with `--dry-run`.

use crate::affinity::CpuMask;
use crate::requested::Requested;
use pinfold_core::PuId;
use std::fmt;

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sets the mask of a thread.
    Mask {
        /// The process.
        process: i32,
        /// The thread's number.
        thread: i32,
        /// Its current mask.
        now: CpuMask,
        /// Its new mask.
        to: Requested,
    },
    /// Writes a register.
    Register {
        /// The PU.
        pu: PuId,
        /// The register's number.
        register: u32,
        /// Its current value.
        now: u64,
        /// Its new value.
        to: u64,
    },
    /// Removes a probe of a function.
    Probe {
        /// Its group and name.
        name: String,
    },
}

/// The system call in the format of strace.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mask { thread, to, .. } => write!(f, "sched_setaffinity({thread}, {to})"),
            Self::Register { pu, register, to, .. } => write!(f, "pwrite(/dev/cpu/{pu}/msr, {to:#x}, {register:#x})"),
            Self::Probe { name } => write!(f, "write(/sys/kernel/tracing/uprobe_events, -:{name})"),
        }
    }
}
