//! The areas of a process's memory, from `/proc/PROCESS/smaps` (or `maps`, if that is missing) and
//! `/proc/PROCESS/numa_maps`. The root is an argument, so that a test can use its own files.
//!
//! The files are read one after the other while the process runs. An area is listed if both files have it. An area that
//! was mapped or unmapped in between is not listed.

use super::calls::{StopReason, Target};
use pinfold_core::memory::{AreaKind, MemoryArea};
use pinfold_core::{NodeId, digits};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why the areas of a process are not available.
#[derive(Debug, thiserror::Error)]
pub enum MapsError {
    /// The process has ended, or cannot be seen.
    #[error("there is no process {0}")]
    NoProcess(i32),
    /// The kernel has no NUMA nodes.
    #[error("`{}` does not exist: this kernel was built without NUMA", .0.display())]
    NoNuma(PathBuf),
    /// A file cannot be read.
    #[error("cannot read `{}`: {error}; only the process's user may, or a user who may trace it", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
}

/// A process's memory on each NUMA node in bytes, from `numa_maps` alone. `None` if it cannot be read.
pub fn by_node(procfs: &Path, process: i32, page_size: u64) -> Option<BTreeMap<NodeId, u64>> {
    let text = fs::read(procfs.join(process.to_string()).join("numa_maps")).ok()?;
    let mut bytes = BTreeMap::new();
    for (_, residence) in String::from_utf8_lossy(&text).lines().filter_map(Residence::parse) {
        let page_size = residence.page_size.unwrap_or(page_size);
        for (node, pages) in residence.pages {
            let sum: &mut u64 = bytes.entry(node).or_default();
            *sum = sum.saturating_add(pages.saturating_mul(page_size));
        }
    }
    Some(bytes)
}

/// The areas of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Areas(Vec<MemoryArea>);

impl Areas {
    /// Reads the areas of a process in the `/proc` at `procfs`, on a machine with a smallest page size of `page_size`
    /// bytes.
    pub fn read(procfs: &Path, process: i32, page_size: u64) -> Result<Self, MapsError> {
        let directory = procfs.join(process.to_string());
        let text = |name: &str| {
            let path = directory.join(name);
            match fs::read(&path) {
                Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) || !directory.exists() => {
                    Err(MapsError::NoProcess(process))
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => Err(MapsError::NoNuma(path)),
                Err(error) => Err(MapsError::Unreadable { path, error }),
            }
        };
        let numa_maps = text("numa_maps")?;
        let maps = match text("smaps") {
            Err(MapsError::NoNuma(_)) => text("maps")?,
            read => read?,
        };
        Ok(Self::parse(&maps, &numa_maps, page_size))
    }

    /// Reads the areas of a held process. Fails if it has ended or its migration is interrupted.
    pub fn of(target: &dyn Target, procfs: &Path, page_size: u64) -> Result<Result<Self, MapsError>, StopReason> {
        let mut read = Err(MapsError::NoProcess(target.process()));
        target.held(&mut |process| read = Self::read(procfs, process, page_size))?;
        Ok(read)
    }

    /// Joins the two files by the areas' first bytes. Unknown lines are ignored.
    pub fn parse(maps: &str, numa_maps: &str, page_size: u64) -> Self {
        let residences: HashMap<u64, Residence> = numa_maps.lines().filter_map(Residence::parse).collect();
        let mut areas: Vec<MemoryArea> = vec![];
        // Whether the detail lines that follow belong to the last area.
        let mut known = false;
        for line in maps.lines() {
            if let Some(header) = Header::parse(line) {
                let residence = residences.get(&header.start);
                known = residence.is_some();
                areas.extend(residence.map(|residence| header.area(residence, page_size)));
            } else if let (true, Some(area)) = (known, areas.last_mut()) {
                area.huge += huge(line).unwrap_or(0);
            }
        }
        Self(areas)
    }

    /// The areas, by address.
    pub fn as_slice(&self) -> &[MemoryArea] {
        &self.0
    }
}

impl From<Areas> for Vec<MemoryArea> {
    fn from(areas: Areas) -> Self {
        areas.0
    }
}

/// The bytes in transparent huge pages, from a line of `smaps`.
fn huge(line: &str) -> Option<u64> {
    let (name, value) = line.split_once(':')?;
    if !matches!(name, "AnonHugePages" | "ShmemPmdMapped" | "FilePmdMapped") {
        return None;
    }
    let kilobytes: u64 = digits::decimal(value.trim().strip_suffix("kB")?.trim())?;
    kilobytes.checked_mul(1024)
}

/// The first line of an area in `maps` and `smaps` (`proc_pid_maps(5)`).
pub(super) struct Header<'a> {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The four letters of the permissions.
    pub(super) permissions: &'a str,
    shared: bool,
    /// The offset in the file, in bytes.
    pub(super) offset: u64,
    pub(super) path: &'a str,
}

impl<'a> Header<'a> {
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let mut rest = line;
        let mut field = || {
            let (field, after) = rest.split_once(' ').unwrap_or((rest, ""));
            rest = after.trim_start();
            field
        };
        let (start, end) = field().split_once('-')?;
        let permissions = field();
        let (offset, _device, _inode) = (field(), field(), field());
        let header = Self {
            start: digits::hexadecimal(start)?,
            end: digits::hexadecimal(end)?,
            permissions,
            shared: permissions.as_bytes().get(3)? == &b's',
            offset: digits::hexadecimal(offset).unwrap_or(0),
            path: rest,
        };
        (header.start < header.end).then_some(header)
    }

    pub(super) fn kind(&self) -> AreaKind {
        let path = self.path;
        let memory = [
            "/dev/zero",
            "/dev/shm/",
            "/SYSV",
            "/memfd:",
            "/anon_hugepage",
            "[anon_shmem:",
        ];
        if memory.iter().any(|prefix| path.starts_with(prefix)) {
            return if self.shared {
                AreaKind::SharedMemory
            } else if path.starts_with("/dev/shm/") || path.starts_with("/memfd:") || path.starts_with("/SYSV") {
                AreaKind::PrivateFile
            } else {
                AreaKind::Anonymous
            };
        }
        match path {
            "" | "[heap]" => AreaKind::Anonymous,
            _ if path.starts_with("[stack") || path.starts_with("[anon:") => AreaKind::Anonymous,
            _ if path.starts_with('[') || (path.starts_with("/dev/") && !path.starts_with("/dev/hugepages/")) => {
                AreaKind::Kernel
            }
            _ if self.shared => AreaKind::SharedFile,
            _ => AreaKind::PrivateFile,
        }
    }

    fn area(&self, residence: &Residence, page_size: u64) -> MemoryArea {
        let page_size = residence.page_size.unwrap_or(page_size);
        let bytes = |&(node, pages): &(NodeId, u64)| Some((node, pages.checked_mul(page_size)?));
        MemoryArea {
            start: self.start,
            end: self.end,
            kind: self.kind(),
            policy: residence.policy.clone(),
            page_size,
            huge: 0,
            resident: residence.pages.iter().filter_map(bytes).collect(),
            stack: self.path == "[stack]",
        }
    }
}

/// A line of `numa_maps` (numa(7)).
struct Residence {
    policy: String,
    pages: Vec<(NodeId, u64)>,
    page_size: Option<u64>,
}

impl Residence {
    fn parse(line: &str) -> Option<(u64, Self)> {
        let mut words = line.split_ascii_whitespace().peekable();
        let start = digits::hexadecimal(words.next()?)?;
        let mut policy = words.next()?.to_owned();
        // Two policies have names of two words: `weighted interleave:0-3` and `prefer (many):0-3`.
        if let Some(word) = words.next_if(|word| word.starts_with("interleave") || word.starts_with("(many)")) {
            policy = format!("{policy} {word}");
        }
        let mut residence = Self {
            policy,
            pages: vec![],
            page_size: None,
        };
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            if name == "kernelpagesize_kB" {
                residence.page_size = digits::decimal(value)
                    .and_then(|size: u64| size.checked_mul(1024))
                    .filter(|&size| size > 0);
            } else if let Some(node) = name.strip_prefix('N').and_then(digits::decimal) {
                residence.pages.push((NodeId(node), digits::decimal(value)?));
            }
        }
        Some((start, residence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 4096;

    /// Recorded from `tests/guest/programs/first_touch` in the emulated machine, with three threads on nodes 0, 1 and
    /// 2, each with 4 MiB of huge pages. The program bound the pages of the first thread to node 1.
    const SMAPS: &str = include_str!("../../tests/numa/smaps");
    const NUMA_MAPS: &str = include_str!("../../tests/numa/numa_maps");

    fn captured() -> Vec<MemoryArea> {
        Areas::parse(SMAPS, NUMA_MAPS, PAGE).into()
    }

    fn area(start: u64) -> MemoryArea {
        let found = captured().into_iter().find(|area| area.start == start);
        found.unwrap_or_else(|| panic!("no area at {start:x}"))
    }

    #[test]
    fn the_memory_by_node_is_that_of_all_areas() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("7")).unwrap();
        fs::write(folder.path().join("7/numa_maps"), NUMA_MAPS).unwrap();
        let mut expected = BTreeMap::new();
        for area in captured() {
            for (node, bytes) in area.resident {
                *expected.entry(node).or_default() += bytes;
            }
        }
        assert_eq!(by_node(folder.path(), 7, PAGE), Some(expected));
        assert_eq!(by_node(folder.path(), 8, PAGE), None);
    }

    #[test]
    fn an_area_has_its_policy_its_pages_by_node_and_its_huge_pages() {
        let bound = area(0x7f68_2700_0000);
        assert_eq!((bound.kind, bound.policy.as_str()), (AreaKind::Anonymous, "bind:1"));
        assert_eq!(bound.end - bound.start, 4 << 20);
        assert_eq!(bound.resident, [(NodeId(1), 4 << 20)].into());
        assert_eq!((bound.huge, bound.page_size), (4 << 20, PAGE));
        assert_eq!(area(0x7f68_2840_0000).resident, [(NodeId(2), 4 << 20)].into());
    }

    #[test]
    fn heap_stack_files_and_what_the_kernel_maps_are_distinguished() {
        let areas = captured();
        let stack = areas.iter().find(|area| area.stack).unwrap();
        assert_eq!(stack.kind, AreaKind::Anonymous);
        assert_eq!(area(0x35c4_a000).kind, AreaKind::Anonymous, "the heap");
        assert_eq!(area(0x0040_1000).kind, AreaKind::PrivateFile, "the program");
        assert_eq!(areas.last().unwrap().kind, AreaKind::Kernel, "the vdso");
        assert_eq!(MemoryArea::process_policy(&areas), Some("default"));
    }

    #[test]
    fn what_the_two_files_do_not_share_is_no_area() {
        let maps = "1000-2000 rw-p 00000000 00:00 0\n3000-4000 rw-p 00000000 00:00 0\nAnonHugePages: 2048 kB\n";
        let areas = Areas::parse(maps, "1000 default anon=1 N2=1\n5000 default N1=1\n", PAGE);
        let [only] = areas.as_slice() else { panic!("{areas:?}") };
        assert_eq!((only.start, only.huge), (0x1000, 0));
        assert_eq!(only.resident, [(NodeId(2), PAGE)].into());
    }

    #[test]
    fn mappings_have_the_kinds_that_their_paths_tell() {
        for (permissions, path, kind) in [
            ("rw-p", "", AreaKind::Anonymous),
            ("rw-p", "[anon:stack of a thread]", AreaKind::Anonymous),
            ("rw-s", "/dev/zero (deleted)", AreaKind::SharedMemory),
            ("rw-s", "/SYSV00000000 (deleted)", AreaKind::SharedMemory),
            ("rw-s", "/dev/shm/a queue", AreaKind::SharedMemory),
            ("rw-s", "/memfd:a (deleted)", AreaKind::SharedMemory),
            ("rw-p", "/anon_hugepage (deleted)", AreaKind::Anonymous),
            ("rw-s", "/data/file with spaces", AreaKind::SharedFile),
            ("r--p", "/lib/libc.so.6", AreaKind::PrivateFile),
            ("rw-s", "/dev/dri/card0", AreaKind::Kernel),
            ("r-xp", "[vdso]", AreaKind::Kernel),
        ] {
            let maps = format!("1000-2000 {permissions} 00000000 00:01 7    {path}\n");
            let areas = Areas::parse(&maps, "1000 default N0=1 kernelpagesize_kB=4\n", PAGE);
            assert_eq!(areas.as_slice()[0].kind, kind, "{path}");
        }
    }

    #[test]
    fn policies_of_two_words_and_large_pages_are_understood() {
        let maps = "1000-2000 rw-p 0 00:00 0\n200000-400000 rw-p 0 00:00 0 /anon_hugepage (deleted)\n";
        let numa_maps = "1000 weighted interleave:0-3 anon=3 N0=3 kernelpagesize_kB=4\n\
                         200000 prefer (many):0-1 file=/anon_hugepage\\040(deleted) huge anon=1 N1=1 kernelpagesize_kB=2048\n";
        let areas = Areas::parse(maps, numa_maps, PAGE);
        let [small, large] = areas.as_slice() else {
            panic!("{areas:?}")
        };
        assert_eq!(small.policy, "weighted interleave:0-3");
        assert_eq!(large.policy, "prefer (many):0-1");
        assert_eq!(large.resident, [(NodeId(1), 2 << 20)].into());
    }

    #[test]
    fn a_process_that_is_not_there_and_a_kernel_without_nodes_are_distinguished() {
        let root = tempfile::tempdir().unwrap();
        let read = || Areas::read(root.path(), 7, PAGE);
        assert!(matches!(read(), Err(MapsError::NoProcess(7))));
        fs::create_dir(root.path().join("7")).unwrap();
        fs::write(root.path().join("7/maps"), "").unwrap();
        assert!(matches!(read(), Err(MapsError::NoNuma(_))));
        fs::write(root.path().join("7/numa_maps"), NUMA_MAPS).unwrap();
        fs::write(root.path().join("7/smaps"), SMAPS).unwrap();
        let areas: Vec<MemoryArea> = read().unwrap().into();
        assert_eq!(areas, captured());
    }

    #[test]
    fn any_text_is_read_or_passed_over_without_a_panic() {
        let lines = || proptest::collection::vec("[0-9a-f]{0,17}[-: =/a-zA-Z0-9.\\[\\]()]{0,40}", 0..12);
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(2000));
        runner
            .run(&(lines(), lines()), |(maps, numa_maps)| {
                let areas = Areas::parse(&maps.join("\n"), &numa_maps.join("\n"), PAGE);
                for area in areas.as_slice() {
                    prop_assert!(area.start < area.end && area.page_size > 0);
                }
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn any_cut_of_a_captured_pair_is_read_without_a_panic() {
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(500));
        runner
            .run(&(0..SMAPS.len(), 0..NUMA_MAPS.len()), |(smaps, numa_maps)| {
                let areas = Areas::parse(&SMAPS[..smaps], &NUMA_MAPS[..numa_maps], PAGE);
                prop_assert!(areas.as_slice().len() <= captured().len());
                Ok(())
            })
            .unwrap();
    }
}
