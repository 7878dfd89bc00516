//! Names of objects that the kernel numbers.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A processing unit (hwloc's PU, the kernel's CPU): its operating-system index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PuId(pub u32);

/// A NUMA node: its operating-system index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

/// A schedulable thread. `serial` is the position among the tasks of a run in the order of their creation, from 0. So a
/// thread id that the kernel reuses is another task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    /// Position in the order of creation, from 0; the order of this type's `Ord`.
    pub serial: u64,
    /// The process (the kernel's thread-group id).
    pub process: i32,
    /// The thread (the kernel's pid).
    pub thread: i32,
}

impl fmt::Display for PuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} of process {}", self.thread, self.process)
    }
}
