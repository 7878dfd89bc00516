//! The CPUs that a task may use without a mask set by anyone: the CPUs of its cpuset that are online.
//!
//! 1. `/proc/TASK/cgroup` names the task's control group in the hierarchy of the controller `cpuset`. In version 1 of
//!    control groups this is a separate hierarchy, in version 2 the only one.
//! 2. `/proc/self/mountinfo` names the mount point of this hierarchy, and the group at the root of the mount.
//! 3. A file of the group lists the CPUs in effect. If the group lacks that file, or an online CPU in it, the nearest
//!    group above counts.
//!
//! The kernel treats the root group of the hierarchy differently. Its tasks keep the bits of offline CPUs. Tasks of
//! other groups lose them, and get them back with the CPUs. A CPU that comes online is in effect in the root group a
//! little later (`cpuset_hotplug_workfn`). A mask that is set in between lacks the CPU for good, because the kernel
//! does not change masks in the root group.
//!
//! If no group is visible, as in a container without control groups, a thread of this process sets its mask to all CPUs
//! and reads the resulting mask. It is valid for tasks of the same cpuset. For other tasks only the machine's CPUs are
//! known.

use crate::affinity::{CpuMask, kernel_words};
use crate::procfs::Procfs;
use pinfold_core::{PuSet, digits};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Reads cpusets and the machine's CPUs.
#[derive(Clone, Debug)]
pub(crate) struct Cpusets {
    procfs: Procfs,
    /// `/sys`.
    system: PathBuf,
    mounts: Arc<OnceLock<Vec<Mount>>>,
    possible: Arc<OnceLock<CpuMask>>,
    /// CPUs that stayed late for longer than the kernel takes: a partition has them.
    partitions: Arc<Mutex<CpuMask>>,
}

/// The CPUs of a task whose mask no one has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// The CPUs that it can run on now.
    pub(crate) now: CpuMask,
    /// Its whole mask. In the root group of the hierarchy it also has the offline CPUs.
    pub(crate) mask: CpuMask,
    /// CPUs that are online but not in effect in the root group: they came online just now, or a partition has them.
    pub(crate) late: CpuMask,
}

/// A version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A mounted hierarchy that may have cpusets.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// The group that is mounted.
    root: PathBuf,
    at: PathBuf,
}

impl Default for Cpusets {
    fn default() -> Self {
        Self::new(Procfs::default(), "/sys")
    }
}

impl Cpusets {
    /// Reads from this `/proc`, with the machine's CPUs in the `/sys` at `system`.
    pub(crate) fn new(procfs: Procfs, system: impl Into<PathBuf>) -> Self {
        Self {
            procfs,
            system: system.into(),
            mounts: Arc::default(),
            possible: Arc::default(),
            partitions: Arc::default(),
        }
    }

    /// The `/proc` of the tasks.
    pub(crate) fn procfs(&self) -> &Procfs {
        &self.procfs
    }

    /// The CPUs that the kernel could ever have.
    pub(crate) fn possible(&self) -> &CpuMask {
        let all = || CpuMask::from_words(vec![u64::MAX; kernel_words()]);
        self.possible
            .get_or_init(|| self.machine("possible").unwrap_or_else(all))
    }

    /// The online CPUs.
    fn online(&self) -> CpuMask {
        self.machine("online").unwrap_or_else(|| self.possible().clone())
    }

    /// The CPUs that are present and offline.
    pub(crate) fn offline(&self) -> CpuMask {
        let present = self.machine("present").unwrap_or_default();
        present.difference(&self.online())
    }

    /// Whether the kernel remembers the mask that was last set, and restores it when a cpuset grows: since Linux 6.2
    /// (commit 8f9ea86fdf99). A distribution's older kernel may also do so.
    pub(crate) fn remembers_masks(&self) -> bool {
        let file = self.procfs.root().join("sys/kernel/osrelease");
        let release = fs::read_to_string(file).ok();
        release
            .and_then(|release| version(&release))
            .is_none_or(|version| version >= (6, 2))
    }

    fn machine(&self, file: &str) -> Option<CpuMask> {
        list(&self.system.join("devices/system/cpu").join(file))
    }

    /// The CPUs that the cpuset of a task allows now. The online CPUs if the cpuset cannot be read.
    pub(crate) fn now(&self, task: i32) -> CpuMask {
        let online = self.online();
        let group = self.group_cpus(task, &online);
        group.map_or(online, |(now, _)| now)
    }

    /// The CPUs of a task if no one has set a mask for it.
    ///
    /// # Errors
    ///
    /// `NotFound` for a task that has ended.
    pub(crate) fn allowed(&self, task: i32) -> io::Result<Allowed> {
        let online = self.online();
        if let Some((now, is_first)) = self.group_cpus(task, &online) {
            let offline = || self.possible().difference(&online);
            let (mask, late) = if is_first {
                (now.union(&offline()), online.difference(&now))
            } else {
                (now.clone(), CpuMask::default())
            };
            return Ok(Allowed { now, mask, late });
        }
        let cpuset_file = |task: &str| fs::read_to_string(self.procfs.file(task, "cpuset"));
        let ours = cpuset_file("self").ok();
        if cpuset_file(&task.to_string()).is_ok_and(|its| Some(its) == ours)
            && let Some(allowed) = self.tried()
        {
            return Ok(allowed);
        }
        // The task may have ended meanwhile.
        fs::metadata(self.procfs.file(&task.to_string(), "status"))?;
        Ok(Allowed {
            now: online,
            mask: self.possible().clone(),
            late: CpuMask::default(),
        })
    }

    /// Whether all of these late CPUs are known to belong to partitions.
    pub(crate) fn are_in_partitions(&self, late: &CpuMask) -> bool {
        let known = self.partitions.lock().unwrap_or_else(PoisonError::into_inner);
        known.is_superset(late)
    }

    /// Remembers that these late CPUs belong to partitions.
    pub(crate) fn add_to_partitions(&self, late: &CpuMask) {
        let mut known = self.partitions.lock().unwrap_or_else(PoisonError::into_inner);
        *known = known.union(late);
    }

    /// The CPUs of `online` that are in effect in a task's group, and whether that is the root group of its hierarchy.
    fn group_cpus(&self, task: i32, online: &CpuMask) -> Option<(CpuMask, bool)> {
        let groups = fs::read_to_string(self.procfs.file(&task.to_string(), "cgroup")).ok()?;
        let (version, group) = group_of(&groups)?;
        let mounts = self.mounts.get_or_init(|| self.read_mounts());
        mounts
            .iter()
            .filter(|mount| mount.version == version)
            .find_map(|mount| {
                let below = Path::new(group).strip_prefix(&mount.root).ok()?;
                version.nearest(&mount.at, below, online)
            })
    }

    fn read_mounts(&self) -> Vec<Mount> {
        let text = fs::read_to_string(self.procfs.file("self", "mountinfo")).unwrap_or_default();
        text.lines().filter_map(Mount::parse).collect()
    }

    /// The mask of a thread of this process that has set its mask to all CPUs.
    fn tried(&self) -> Option<Allowed> {
        let all = self.possible().clone();
        let thread = std::thread::Builder::new().spawn(move || {
            all.apply_to(0)?;
            let now = CpuMask::read(0)?;
            // SAFETY: a plain system call.
            let own = unsafe { libc::gettid() };
            let mask = Procfs::default().mask(own)?;
            let late = CpuMask::default();
            Ok::<_, io::Error>(Allowed { now, mask, late })
        });
        thread.ok()?.join().ok()?.ok()
    }
}

impl Version {
    /// The files with the CPUs in effect. Version 1 can be mounted without prefixes.
    fn files(self) -> &'static [&'static str] {
        match self {
            Self::One => &["cpuset.effective_cpus", "effective_cpus"],
            Self::Two => &["cpuset.cpus.effective"],
        }
    }

    /// Whether the group at this path is the root group of its hierarchy. The root group has other files than the
    /// groups below.
    fn is_first(self, path: &Path) -> bool {
        match self {
            Self::One => path.join("cgroup.sane_behavior").exists(),
            Self::Two => !path.join("cpuset.cpus").exists(),
        }
    }

    /// The CPUs of `online` that are in effect in the group `below` the mount, or in the nearest group above it with
    /// such CPUs, and whether that is the root group.
    fn nearest(self, mount: &Path, below: &Path, online: &CpuMask) -> Option<(CpuMask, bool)> {
        let mut path = mount.join(below);
        loop {
            let effective = self.files().iter().find_map(|file| list(&path.join(file)));
            let now = effective.map(|cpus| cpus.intersection(online)).unwrap_or_default();
            if !now.is_empty() {
                return Some((now, self.is_first(&path)));
            }
            if path == mount || !path.pop() {
                return None;
            }
        }
    }
}

impl Mount {
    /// Parses the line of a mount in `mountinfo`: number, parent, device, root, mount point, options, any number of
    /// fields, `-`, type, source, options of the file system. `None` for a mount without cpusets.
    fn parse(line: &str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let mut file_system = file_system.split(' ');
        let version = match file_system.next()? {
            "cgroup2" => Version::Two,
            "cgroup" if file_system.nth(1)?.split(',').any(|option| option == "cpuset") => Version::One,
            _ => return None,
        };
        Some(Self {
            version,
            root: path(mount.next()?),
            at: path(mount.next()?),
        })
    }
}

/// A path of `mountinfo`. Three octal digits after a backslash stand for a space or another special character.
fn path(text: &str) -> PathBuf {
    let mut parts = text.split('\\');
    let mut path = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(code) = code {
            path.push(char::from(code));
            path.push_str(&part[3..]);
        } else {
            path.push('\\');
            path.push_str(part);
        }
    }
    path.into()
}

/// The group in the hierarchy of the controller `cpuset`. Version 2 has it if no hierarchy of version 1 has it.
fn group_of(groups: &str) -> Option<(Version, &str)> {
    let mut second = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        if controllers.split(',').any(|controller| controller == "cpuset") {
            return Some((Version::One, group));
        }
        if controllers.is_empty() {
            second = Some((Version::Two, group));
        }
    }
    second
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((digits::decimal(numbers.next()?)?, digits::decimal(numbers.next()?)?))
}

/// The CPU list in a file. `None` if the file is missing or the list is empty.
fn list(file: &Path) -> Option<CpuMask> {
    let set: PuSet = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    (!set.is_empty()).then(|| CpuMask::from(&set))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A machine of these CPUs with these files, below the directories `proc` and `sys`. `{sys}` in a text is the path
    /// of `sys`.
    pub(crate) fn machine(possible: &str, online: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, Cpusets) {
        let root = tempfile::tempdir().unwrap();
        let cpus = [
            ("sys/devices/system/cpu/possible", possible),
            ("sys/devices/system/cpu/present", possible),
            ("sys/devices/system/cpu/online", online),
        ];
        for (path, text) in files.iter().chain(&cpus) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = text.replace("{sys}", root.path().join("sys").to_str().unwrap());
            fs::write(path, format!("{text}\n")).unwrap();
        }
        let procfs = Procfs::new(root.path().join("proc"));
        let cpusets = Cpusets::new(procfs, root.path().join("sys"));
        (root, cpusets)
    }

    /// The CPUs of task 7 without a mask set by anyone: now, and in its mask.
    fn allowed(possible: &str, online: &str, files: &[(&str, &str)]) -> (String, String) {
        let (_root, cpusets) = machine(possible, online, files);
        let allowed = cpusets.allowed(7).unwrap();
        (allowed.now.to_set().to_string(), allowed.mask.to_set().to_string())
    }

    const SECOND: (&str, &str) = (
        "proc/self/mountinfo",
        "30 23 0:26 / {sys}/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate",
    );

    #[test]
    fn the_nearest_group_with_a_file_counts() {
        let files = [
            SECOND,
            ("sys/fs/cgroup/cpuset.cpus.effective", "0-7"),
            ("sys/fs/cgroup/a/cpuset.cpus.effective", "0-3"),
            ("sys/fs/cgroup/a/cpuset.cpus", "0-3"),
            ("sys/fs/cgroup/a/b/none", ""),
        ];
        let within = |group| [&files[..], &[("proc/7/cgroup", group)]].concat();
        assert_eq!(allowed("0-7", "0-7", &within("0::/a/b")), ("0-3".into(), "0-3".into()));
        assert_eq!(allowed("0-7", "0-7", &within("0::/c")), ("0-7".into(), "0-7".into()));
    }

    #[test]
    fn only_the_first_group_keeps_cpus_that_are_offline() {
        let files = [
            SECOND,
            ("sys/fs/cgroup/cpuset.cpus.effective", "0-2"),
            ("sys/fs/cgroup/a/cpuset.cpus.effective", "0-2"),
            ("sys/fs/cgroup/a/cpuset.cpus", ""),
        ];
        let within = |group| [&files[..], &[("proc/7/cgroup", group)]].concat();
        assert_eq!(allowed("0-3", "0-2", &within("0::/")), ("0-2".into(), "0-3".into()));
        assert_eq!(allowed("0-3", "0-2", &within("0::/a")), ("0-2".into(), "0-2".into()));
    }

    #[test]
    fn the_hierarchy_of_version_one_is_found_by_its_controller() {
        let files = [
            (
                "proc/self/mountinfo",
                "31 30 0:27 / {sys}/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                 34 30 0:31 /pod {sys}/fs/cgroup/some\\040where rw - cgroup cgroup rw,cpuset\n\
                 35 30 0:38 / {sys}/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
            ),
            (
                "proc/7/cgroup",
                "9:name=systemd:/a\n4:cpu,cpuacct:/a\n3:cpuset:/pod/b\n0::/a",
            ),
            ("sys/fs/cgroup/cpu/a/cpuset.effective_cpus", "0"),
            ("sys/fs/cgroup/unified/a/cpuset.cpus.effective", "1"),
            ("sys/fs/cgroup/some where/b/cpuset.effective_cpus", "2"),
        ];
        assert_eq!(allowed("0-3", "0-3", &files), ("2".into(), "2".into()));
    }

    #[test]
    fn a_group_without_a_cpu_that_is_online_uses_those_of_the_group_above() {
        let files = [
            SECOND,
            ("proc/7/cgroup", "0::/a"),
            ("sys/fs/cgroup/cpuset.cpus.effective", "0-1"),
            ("sys/fs/cgroup/a/cpuset.cpus.effective", "2-3"),
            ("sys/fs/cgroup/a/cpuset.cpus", "2-3"),
        ];
        assert_eq!(allowed("0-3", "0-1", &files).0, "0-1");
    }

    #[test]
    fn without_cpusets_it_is_what_the_machine_has() {
        let files = [("proc/7/cgroup", "0::/"), ("proc/7/status", "")];
        assert_eq!(allowed("0-3", "0-1", &files), ("0-1".into(), "0-3".into()));
    }

    #[test]
    fn kernels_before_6_2_forget_masks() {
        for (release, remembers) in [
            ("6.1.0-44-amd64", false),
            ("6.2.0", true),
            ("6.18.44", true),
            ("strange", true),
        ] {
            let (_root, cpusets) = machine("0", "0", &[("proc/sys/kernel/osrelease", release)]);
            assert_eq!(cpusets.remembers_masks(), remembers, "{release}");
        }
    }

    #[test]
    fn a_task_that_has_ended_is_allowed_nothing() {
        let (_root, cpusets) = machine("0-3", "0-3", &[]);
        assert_eq!(cpusets.allowed(7).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_thread_that_sets_all_cpus_gets_what_this_process_is_allowed() {
        let own = std::process::id().cast_signed();
        let cpusets = Cpusets::default();
        let tried = cpusets.tried().unwrap();
        assert_eq!(tried.now, cpusets.allowed(own).unwrap().now);
        assert!(tried.mask.is_superset(&tried.now));
    }
}
