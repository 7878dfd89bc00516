//! The available memory: the part that the kernel reports as available, limited by the control groups. The kernel kills
//! a process that takes more, without a warning.

use super::CalibrationError;
use pinfold_core::digits;
use std::fs;
use std::path::Path;

/// Fails if fewer bytes are available. Succeeds if the kernel does not report the available memory.
pub fn enough_memory(needed: usize) -> Result<(), CalibrationError> {
    match available(Path::new("/")) {
        Some(available) if available < needed as u64 => Err(CalibrationError::LittleMemory {
            available: available >> 20,
            needed: needed as u64 >> 20,
        }),
        _ => Ok(()),
    }
}

/// Available bytes. `root` is the root of /proc and /sys.
fn available(root: &Path) -> Option<u64> {
    let meminfo = fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mount = root.join("sys/fs/cgroup");
    // Only in version 2 of control groups is a process in a single group. A group that is not visible belongs to
    // another namespace.
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let own = group.map(|group| mount.join(group));
    let folders = own.iter().flat_map(|own| own.ancestors());
    let rooms = folders.take_while(|folder| folder.starts_with(&mount)).filter_map(room);
    rooms.chain(of_system(&meminfo)).min()
}

/// Bytes that /proc/meminfo reports as available.
fn of_system(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = digits::decimal(line.trim().trim_end_matches(" kB"))?;
    Some(kilobytes << 10)
}

/// Bytes that a control group allows in addition to its current use. Its page cache counts as free, because the kernel
/// reclaims it on demand.
fn room(folder: &Path) -> Option<u64> {
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let most: u64 = digits::decimal(read("memory.max")?.trim())?;
    let taken: u64 = digits::decimal(read("memory.current")?.trim())?;
    let statistics = read("memory.stat").unwrap_or_default();
    let files = statistics
        .lines()
        .find_map(|line| digits::decimal(line.strip_prefix("file ")?));
    Some(most.saturating_sub(taken.saturating_sub(files.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_read_from_meminfo() {
        let text = "MemTotal:       24000 kB\nMemAvailable:   12000 kB\n";
        assert_eq!(of_system(text), Some(12000 << 10));
        assert_eq!(of_system("MemTotal: 1 kB\n"), None);
    }

    /// The available bytes on a system with these files.
    fn on(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        available(root.path())
    }

    #[test]
    fn the_least_that_a_group_or_one_around_it_allows_counts() {
        let mut files = vec![
            ("proc/meminfo", "MemAvailable: 1000 kB\n"),
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "100\n"),
        ];
        assert_eq!(on(&files), Some(1000 << 10), "a group without a limit");
        files.push(("sys/fs/cgroup/a/memory.max", "5000\n"));
        files.push(("sys/fs/cgroup/a/memory.current", "3000\n"));
        assert_eq!(on(&files), Some(2000));
        files.push(("sys/fs/cgroup/a/memory.stat", "anon 2500\nfile 500\n"));
        assert_eq!(on(&files), Some(2500), "files are given up");
    }

    #[test]
    fn a_system_without_these_files_has_no_limit() {
        assert_eq!(on(&[]), None);
        assert_eq!(on(&[("proc/self/cgroup", "4:memory:/a\n0::/../b\n")]), None);
    }
}
