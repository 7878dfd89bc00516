//! The areas of a process's address space, and which of their pages pinfold moves.
//!
//! Pages that only the process uses are moved: heap, stacks, private mappings, and the written pages of private
//! mappings of files. For shared memory the kernel moves the pages that no other process has mapped. The pages of files
//! are the page cache, which all processes share; they stay unless the user asks for them. Memory to which the program
//! gave its own memory policy by `mbind` stays, too: the program has decided.

use super::Left;
use crate::NodeId;
use std::collections::BTreeMap;

/// Bytes of a transparent huge page: of x86-64, and of Arm with small pages of 4 KiB.
const HUGE: u64 = 2 << 20;

/// The memory policies of a process under which each page is on the node of the thread that touched it first.
const FIRST_TOUCH: [&str; 2] = ["default", "local"];

/// What backs an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AreaKind {
    /// Private memory: heap, stacks, anonymous mappings.
    Anonymous,
    /// A private mapping of a file: its written pages belong to the process, the others to the file.
    PrivateFile,
    /// Memory that is meant to be shared: System V and POSIX shared memory, memfd, shared anonymous mappings.
    SharedMemory,
    /// A shared mapping of a file.
    SharedFile,
    /// Memory that the kernel or a device maps into the process: its pages cannot be moved.
    Kernel,
}

/// One area of a process's address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryArea {
    /// Its first byte.
    pub start: u64,
    /// The byte after its last one.
    pub end: u64,
    /// What backs it.
    pub kind: AreaKind,
    /// The memory policy in force there, in the kernel's words, such as `default` or `bind:0-1`.
    pub policy: String,
    /// Bytes of one of its pages, except for transparent huge pages.
    pub page_size: u64,
    /// Bytes in transparent huge pages.
    pub huge: u64,
    /// Bytes by node.
    pub resident: BTreeMap<NodeId, u64>,
    /// Whether it is the first thread's stack.
    pub stack: bool,
}

impl MemoryArea {
    /// The bytes that are in memory.
    pub fn resident_bytes(&self) -> u64 {
        self.resident.values().sum()
    }

    /// The page at an address as the kernel moves it: its first byte and its length. `areas` are sorted by address;
    /// outside them pages have `page_size` bytes.
    pub fn page_at(areas: &[Self], page_size: u64, address: u64) -> (u64, u64) {
        let after = areas.partition_point(|area| area.start <= address);
        let area = areas[..after].last().filter(|area| address < area.end);
        let within = |bytes: u64| (address / bytes * bytes, bytes);
        let Some(area) = area else {
            return within(page_size);
        };
        let (huge, bytes) = within(HUGE);
        if area.huge > 0 && area.start <= huge && huge + bytes <= area.end {
            (huge, bytes)
        } else {
            within(area.page_size)
        }
    }

    /// Whether the process with these areas is known to place pages at first touch, or at least not known to do
    /// otherwise.
    pub fn are_touched_first(areas: &[Self]) -> bool {
        Self::process_policy(areas).is_none_or(|policy| FIRST_TOUCH.contains(&policy))
    }

    /// The memory policy of the process with these areas: its stack's, because programs hardly ever set another one
    /// there. `None` if the stack is not among them.
    pub fn process_policy(areas: &[Self]) -> Option<&str> {
        areas.iter().find(|area| area.stack).map(|area| area.policy.as_str())
    }
}

/// What the user wants moved beside the process's private memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Pages that other processes have mapped as well.
    pub shared: bool,
    /// Files' pages.
    pub files: bool,
    /// Areas with their own memory policy.
    pub own_policies: bool,
}

/// Which pages of an area move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All.
    All,
    /// The pages that the process has written, which are no longer the file's.
    Written,
    /// None, for this reason.
    None(Left),
    /// None; there is nothing to report.
    Never,
}

impl Selection {
    /// The pages of `area` that move, in a process whose own memory policy is `policy` (`None`: not known).
    pub fn share(&self, area: &MemoryArea, policy: Option<&str>) -> Share {
        if area.kind == AreaKind::Kernel {
            return Share::Never;
        }
        if !self.own_policies && policy.is_some_and(|policy| policy != area.policy) {
            return Share::None(Left::OwnPolicy);
        }
        match area.kind {
            AreaKind::Anonymous | AreaKind::SharedMemory => Share::All,
            AreaKind::PrivateFile | AreaKind::SharedFile if self.files => Share::All,
            AreaKind::PrivateFile => Share::Written,
            AreaKind::SharedFile => Share::None(Left::File),
            AreaKind::Kernel => Share::Never,
        }
    }

    /// Whether all pages of `area` move, in a process whose own memory policy is `policy`.
    pub fn is_all(&self, area: &MemoryArea, policy: Option<&str>) -> bool {
        self.share(area, policy) == Share::All
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(kind: AreaKind, policy: &str) -> MemoryArea {
        MemoryArea {
            start: 0x1000,
            end: 0x2000,
            kind,
            policy: policy.to_owned(),
            page_size: 4096,
            huge: 0,
            resident: [(NodeId(0), 4096)].into(),
            stack: false,
        }
    }

    #[test]
    fn files_stay_unless_asked_for_and_what_was_written_moves() {
        let share = |kind, files| {
            let selection = Selection {
                files,
                ..Selection::default()
            };
            selection.share(&area(kind, "default"), Some("default"))
        };
        assert_eq!(share(AreaKind::SharedFile, false), Share::None(Left::File));
        assert_eq!(share(AreaKind::PrivateFile, false), Share::Written);
        assert_eq!(share(AreaKind::SharedFile, true), Share::All);
        assert_eq!(share(AreaKind::PrivateFile, true), Share::All);
        assert_eq!(share(AreaKind::Anonymous, false), Share::All);
        assert_eq!(share(AreaKind::Kernel, true), Share::Never);
    }

    #[test]
    fn an_area_with_a_policy_of_its_own_stays_unless_overridden() {
        let bound = area(AreaKind::Anonymous, "bind:1");
        let mut selection = Selection::default();
        assert_eq!(selection.share(&bound, Some("default")), Share::None(Left::OwnPolicy));
        assert_eq!(selection.share(&bound, Some("bind:1")), Share::All);
        assert_eq!(selection.share(&bound, None), Share::All);
        selection.own_policies = true;
        assert_eq!(selection.share(&bound, Some("default")), Share::All);
    }

    #[test]
    fn pages_are_as_large_as_what_would_be_moved() {
        let of = |start: u64, end: u64, page_size: u64, huge: u64| MemoryArea {
            start,
            end,
            page_size,
            huge,
            ..area(AreaKind::Anonymous, "default")
        };
        let areas = [
            of(0x1000, 0x3000, 4096, 0),
            of(0x1f_f000, 0x60_1000, 4096, 2 << 20),
            of(0x4000_0000, 0x8000_0000, 1 << 30, 0),
        ];
        let page = |address| MemoryArea::page_at(&areas, 4096, address);
        assert_eq!(page(0x2fff), (0x2000, 4096));
        assert_eq!(page(0x3000), (0x3000, 4096));
        assert_eq!(page(0x20_0000), (0x20_0000, 2 << 20));
        assert_eq!(page(0x3f_ffff), (0x20_0000, 2 << 20));
        // Huge pages that would not lie within the area are none.
        assert_eq!(page(0x1f_f123), (0x1f_f000, 4096));
        assert_eq!(page(0x60_0123), (0x60_0000, 4096));
        assert_eq!(page(0x7000_0000), (0x4000_0000, 1 << 30));
    }
}
