//! The Linux kernel of a simulated machine: the version decides where unpinned tasks run.
//!
//! | version | a few tasks stay on one node | seconds between two balancings | a process gathers on one cache |
//! |---|---|---|---|
//! | 2.6.39, 3.10 | no | 1.024 | no |
//! | 6.1, 6.12 | yes | 16 ms for each PU | no |
//! | 7.2 | yes | 16 ms for each PU | yes (`timeline/cache_aware.rs`) |
//!
//! - Linux 2.6.39 and 3.10: `find_idlest_group` in `kernel/sched_fair.c` (3.10: `kernel/sched/fair.c`) compares the
//!   load of groups of CPUs. A task that is created beside a running one goes to an idle node.
//! - Linux 6.12 chooses PUs as 6.1 does. It has EEVDF (6.6), which decides which of several tasks on one PU runs next,
//!   and for how long. The window has time slices of 3 ms for each version.
//! - Automatic NUMA balancing is an option of 6.1 and later, with the rules of 6.1 (`timeline/numa`).
//! - Linux 7.2 has cache-aware scheduling. Where a process does not gather, the places are assumed to be those of 6.12:
//!   other changes from 6.12 to 7.2 were not looked at.

use std::fmt;
use std::str::FromStr;

/// The interval between two balancings of NUMA nodes before Linux 3.16, in seconds: `max_interval` of 32 ms times
/// `busy_factor` of 32 (`SD_NODE_INIT` in arch/x86/include/asm/topology.h of 2.6.39, `sd_numa_init` in
/// kernel/sched/core.c of 3.10).
const EARLY_INTERVAL: f64 = 32.0 * 32e-3;

/// `busy_factor` of `sd_init` in kernel/sched/topology.c since Linux 5.10.
const BUSY_FACTOR: f64 = 16.0;

/// A version of Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernel {
    /// 2.6.39.
    V2_6_39,
    /// 3.10.
    V3_10,
    /// 6.1.
    #[default]
    V6_1,
    /// 6.12.
    V6_12,
    /// 7.2.
    V7_2,
}

impl Kernel {
    /// All known versions, the oldest first.
    pub const ALL: [Self; 5] = [Self::V2_6_39, Self::V3_10, Self::V6_1, Self::V6_12, Self::V7_2];

    /// The version as the kernel's developers write it.
    pub fn version(self) -> &'static str {
        match self {
            Self::V2_6_39 => "2.6.39",
            Self::V3_10 => "3.10",
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
            Self::V7_2 => "7.2",
        }
    }

    fn is_early(self) -> bool {
        matches!(self, Self::V2_6_39 | Self::V3_10)
    }

    /// Whether a node may have a few tasks while another one is idle: `adjust_numa_imbalance` in kernel/sched/fair.c,
    /// with these rules since Linux 5.18.
    pub(crate) fn tolerates_imbalance(self) -> bool {
        !self.is_early()
    }

    /// Seconds between two balancings of a busy machine with this number of PUs.
    pub(crate) fn balancing_interval(self, pus: usize) -> f64 {
        if self.is_early() {
            EARLY_INTERVAL
        } else {
            BUSY_FACTOR * pus as f64 * 1e-3
        }
    }

    /// Whether automatic NUMA balancing can be on. Linux 3.8 brought its page migration, and 3.13 preferred nodes of
    /// tasks.
    pub fn check_numa_balancing(self) -> Result<(), NoNumaBalancing> {
        let why = match self {
            Self::V2_6_39 => "has none (it came with 3.8)",
            Self::V3_10 => "moves pages by earlier rules, and no tasks (they came with 3.13)",
            Self::V6_1 | Self::V6_12 | Self::V7_2 => return Ok(()),
        };
        Err(NoNumaBalancing { kernel: self, why })
    }

    /// Whether the tasks of a process gather on one last-level cache (`CONFIG_SCHED_CACHE`, on by default since 7.2).
    pub(crate) fn gathers_processes(self) -> bool {
        self == Self::V7_2
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.version())
    }
}

/// A kernel without automatic NUMA balancing, or with one that pinfold has no rules of.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "automatic NUMA balancing is modelled as in Linux 6.1 and later, and Linux {kernel} {why}; choose a later kernel \
     or leave balancing off"
)]
pub struct NoNumaBalancing {
    kernel: Kernel,
    why: &'static str,
}

/// A version that pinfold has no rules of.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a kernel that pinfold simulates; give one of {known}", known = known())]
pub struct UnknownKernel {
    given: String,
}

fn known() -> String {
    Kernel::ALL.map(Kernel::version).join(", ")
}

impl FromStr for Kernel {
    type Err = UnknownKernel;

    fn from_str(text: &str) -> Result<Self, UnknownKernel> {
        let found = Self::ALL.into_iter().find(|kernel| kernel.version() == text);
        found.ok_or_else(|| UnknownKernel { given: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_as_it_is_written() {
        for kernel in Kernel::ALL {
            assert_eq!(kernel.to_string().parse(), Ok(kernel));
        }
    }

    #[test]
    fn kernels_before_3_13_have_no_balancing_of_tasks_and_pages() {
        for early in [Kernel::V2_6_39, Kernel::V3_10] {
            let error = early.check_numa_balancing().unwrap_err().to_string();
            assert!(
                error.contains(early.version()) && error.contains("choose a later kernel"),
                "{error}"
            );
        }
        for kernel in [Kernel::V6_1, Kernel::V6_12, Kernel::V7_2] {
            assert_eq!(kernel.check_numa_balancing(), Ok(()));
        }
    }

    #[test]
    fn an_unknown_version_is_refused_with_the_known_ones() {
        for wrong in ["", "6", "6.2", "v6.1", "6.1 "] {
            let error = wrong.parse::<Kernel>().unwrap_err().to_string();
            assert!(error.contains("2.6.39, 3.10, 6.1, 6.12, 7.2"), "{error}");
        }
    }
}
