//! The kernel's settings for memory on nodes, from `/proc/sys` and `/sys`. The roots are arguments, so that a test can
//! use its own files.

use pinfold_core::{NodeId, digits};
use std::fs;
use std::path::{Path, PathBuf};

/// The kernel's settings.
#[derive(Clone, Debug)]
pub struct System {
    procfs: PathBuf,
    sysfs: PathBuf,
}

impl Default for System {
    /// The running kernel's settings.
    fn default() -> Self {
        Self::new("/proc", "/sys")
    }
}

impl System {
    /// The settings in the file systems at these roots.
    pub fn new(procfs: impl Into<PathBuf>, sysfs: impl Into<PathBuf>) -> Self {
        Self {
            procfs: procfs.into(),
            sysfs: sysfs.into(),
        }
    }

    /// The root of `/proc`.
    pub fn procfs(&self) -> &Path {
        &self.procfs
    }

    /// The root of `/sys`.
    pub fn sysfs(&self) -> &Path {
        &self.sysfs
    }

    /// Whether automatic NUMA balancing moves pages to the threads that use them, or between kinds of memory. `None` if
    /// the kernel lacks it.
    pub fn numa_balancing(&self) -> Option<bool> {
        Some(number(&self.procfs.join("sys/kernel/numa_balancing"))? != 0)
    }

    /// The weight of a node in weighted interleaving, in consecutive pages. 1 if the kernel does not report it.
    pub fn weight(&self, node: NodeId) -> u32 {
        let file = self
            .sysfs
            .join(format!("kernel/mm/mempolicy/weighted_interleave/node{node}"));
        number(&file).unwrap_or(1).max(1)
    }
}

fn number(file: &Path) -> Option<u32> {
    digits::decimal(fs::read_to_string(file).ok()?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(files: &[(&str, &str)]) -> (tempfile::TempDir, System) {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let system = System::new(root.path(), root.path());
        (root, system)
    }

    #[test]
    fn balancing_is_on_off_or_not_there() {
        for (text, on) in [("0\n", false), ("1\n", true), ("2\n", true)] {
            let (_root, system) = system(&[("sys/kernel/numa_balancing", text)]);
            assert_eq!(system.numa_balancing(), Some(on));
        }
        assert_eq!(system(&[]).1.numa_balancing(), None);
    }

    #[test]
    fn a_node_without_a_weight_has_one() {
        let (_root, system) = system(&[("kernel/mm/mempolicy/weighted_interleave/node1", "5\n")]);
        assert_eq!((system.weight(NodeId(0)), system.weight(NodeId(1))), (1, 5));
    }
}
