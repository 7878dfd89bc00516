//! Processes whose creator has ended: the rule that decides whether a process is the child of a pinned thread.
//!
//! A child inherits its creator's mask. When the creator ends, the first process of the PID namespace becomes the
//! parent, and `/proc` no longer shows the creator: `sh -c "x &"` and a daemon's double fork do so within a
//! millisecond. A process counts as a descendant of a journal's thread if all of this holds:
//!
//! 1. Its parent is the first process of its PID namespace.
//! 2. It started after the thread was pinned.
//! 3. It is in the control groups of the thread's process. Children inherit these. A service manager or a batch system
//!    starts its processes in other groups.
//!
//! Then each of its threads with the one-PU mask of that pinning gets the pinned thread's original mask.
//!
//! Limits: a process counts as a descendant by mistake if its creator has ended, and a user started it with `taskset`
//! in the same control groups, on exactly that PU, after the thread was pinned. A process whose new parent is not the
//! first process (`PR_SET_CHILD_SUBREAPER`) is not found.

use super::record::MaskChange;
use crate::procfs::{Procfs, ThreadStat};
use crate::requested::Requested;
use pinfold_core::PuId;
use std::collections::BTreeMap;

/// The PUs of the pinned threads that may have created `process`, each with that thread's original mask. `None` if the
/// process is not an orphan of theirs.
pub(super) fn pinnings<'a>(
    changes: impl IntoIterator<Item = &'a MaskChange>,
    procfs: &Procfs,
    process: i32,
    stat: &ThreadStat,
) -> Option<BTreeMap<PuId, &'a Requested>> {
    let mut earlier = changes
        .into_iter()
        .filter(|change| change.since <= stat.start)
        .peekable();
    earlier.peek()?;
    if !procfs.adopts(stat.parent) {
        return None;
    }
    let groups = procfs.groups_checksum(process)?;
    let mut pinnings = BTreeMap::new();
    for change in earlier.filter(|change| change.groups == Some(groups)) {
        for pu in change.replaced.into_iter().chain([change.pinned]) {
            pinnings.insert(pu, &change.original);
        }
    }
    (!pinnings.is_empty()).then_some(pinnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Thread;
    use std::fs;

    /// A `/proc` where process 7, in the control group `group`, has the parent `parent`: 1 is the first process of the
    /// machine's PID namespace, 5 the first of a nested one, and 3 is neither.
    fn orphan(group: &str, parent: i32) -> (tempfile::TempDir, Procfs, ThreadStat) {
        let root = tempfile::tempdir().unwrap();
        for (process, numbers) in [(1, "1"), (3, "3"), (5, "5\t1"), (7, "7")] {
            let folder = root.path().join(process.to_string());
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("status"), format!("Name:\tx\nNSpid:\t{numbers}\n")).unwrap();
            fs::write(folder.join("cgroup"), format!("0::{group}\n")).unwrap();
        }
        let procfs = Procfs::new(root.path());
        let stat = ThreadStat {
            name: "x".to_owned(),
            state: 'S',
            start: 100,
            last_pu: None,
            parent,
            is_kernel_thread: false,
            is_user_worker: false,
            is_real_time: false,
        };
        (root, procfs, stat)
    }

    /// A thread in the control group `/a`, pinned on PU 2 at time 100.
    fn pinned() -> MaskChange {
        MaskChange {
            thread: Thread {
                process: 6,
                thread: 6,
                start: 50,
            },
            original: Requested::Nobody,
            replaced: Some(PuId(3)),
            pinned: PuId(2),
            since: 100,
            groups: Some(crc32fast::hash(b"0::/a\n")),
            meanwhile: None,
        }
    }

    #[test]
    fn an_orphan_of_a_pinned_process_is_recognised_by_its_parent_its_groups_and_its_time() {
        for parent in [1, 5] {
            let (_root, procfs, stat) = orphan("/a", parent);
            let change = pinned();
            let found = pinnings([&change], &procfs, 7, &stat).unwrap();
            let original = &change.original;
            assert_eq!(found, [(PuId(2), original), (PuId(3), original)].into());
        }
    }

    #[test]
    fn one_that_has_another_parent_or_group_or_is_older_is_not() {
        let change = pinned();
        for (group, parent, start) in [("/a", 3, 100), ("/b", 1, 100), ("/a", 1, 99)] {
            let (_root, procfs, stat) = orphan(group, parent);
            let stat = ThreadStat { start, ..stat };
            assert_eq!(pinnings([&change], &procfs, 7, &stat), None, "{group} {parent} {start}");
        }
    }
}
