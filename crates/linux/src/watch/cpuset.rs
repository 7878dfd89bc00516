//! The PUs that a process's cpuset allows: the mask of a process when nothing has set one.

use crate::affinity::CpuMask;
use crate::procfs::Procfs;
use pinfold_core::PuSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where cpusets and online PUs are read.
#[derive(Clone, Debug)]
pub(super) struct Cpusets {
    system: PathBuf,
}

impl Default for Cpusets {
    fn default() -> Self {
        Self { system: "/sys".into() }
    }
}

impl Cpusets {
    /// The PUs that the cpuset of a process allows; the online PUs where there are no cpusets.
    pub(super) fn of(&self, procfs: &Procfs, process: i32) -> Option<CpuMask> {
        let mut groups = procfs.cgroups(process);
        groups.dedup();
        // Version 2 of control groups has one hierarchy; version 1's hierarchy for cpusets is usually mounted here.
        for (root, file) in [
            ("fs/cgroup", "cpuset.cpus.effective"),
            ("fs/cgroup/cpuset", "cpuset.effective_cpus"),
        ] {
            let root = self.system.join(root);
            let found = groups.iter().find_map(|group| nearest(&root, group, file));
            if found.is_some() {
                return found;
            }
        }
        list(&self.system.join("devices/system/cpu/online"))
    }
}

/// The content of the file in this group, or in the nearest group above it that has one.
fn nearest(root: &Path, group: &str, file: &str) -> Option<CpuMask> {
    let mut group = root.join(group.trim_start_matches('/'));
    loop {
        if let Some(found) = list(&group.join(file)) {
            return Some(found);
        }
        if group == root || !group.pop() {
            return None;
        }
    }
}

/// The CPU list in a file; `None` where there is none, or an empty one.
fn list(file: &Path) -> Option<CpuMask> {
    let set: PuSet = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    (!set.is_empty()).then(|| CpuMask::from(&set))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The PUs that a process in this group may run on, with these files.
    fn of(group: &str, files: &[(&str, &str)]) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files.iter().chain([&("proc/7/cgroup", group)]) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        let cpusets = Cpusets {
            system: root.path().join("sys"),
        };
        let mask = cpusets.of(&Procfs::new(root.path().join("proc")), 7)?;
        Some(mask.to_set().to_string())
    }

    #[test]
    fn the_groups_own_file_counts_and_else_that_of_a_group_above() {
        let files = [
            ("sys/fs/cgroup/cpuset.cpus.effective", "0-7"),
            ("sys/fs/cgroup/a/cpuset.cpus.effective", "0-3"),
            ("sys/fs/cgroup/a/b/none", ""),
        ];
        assert_eq!(of("0::/a/b", &files).unwrap(), "0-3");
        assert_eq!(of("0::/c", &files).unwrap(), "0-7");
    }

    #[test]
    fn the_first_version_of_control_groups_is_understood() {
        let files = [("sys/fs/cgroup/cpuset/a/cpuset.effective_cpus", "2")];
        assert_eq!(of("4:cpuset:/a\n0::/", &files).unwrap(), "2");
    }

    #[test]
    fn without_cpusets_it_is_what_is_online() {
        assert_eq!(of("0::/", &[("sys/devices/system/cpu/online", "0-1")]).unwrap(), "0-1");
        assert_eq!(of("0::/", &[]), None);
    }
}
