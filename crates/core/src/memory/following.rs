//! Pages that follow their threads, without samples of the accesses.
//!
//! autopin lets a page follow the thread that touches it next (Klug et al. 2008, section 3), which needs a patched
//! kernel. An unpatched kernel reports where a page is, but not which thread uses it. What is known is first touch:
//! while all threads were pinned, a page was placed on the node of the thread that touched it first. So:
//!
//! 1. The pages on a node belong to the group of threads that were on this node before they were pinned again.
//! 2. If all living threads of the group are on one node afterwards, its pages go there. If the group is scattered, the
//!    owner of a page is not known, and it stays.
//! 3. Moved pages keep their group while they are where they were put. So when two groups have met on one node and
//!    separate again, each takes its own pages along, and a search does not end with all pages in one place.
//!
//! Known limits: a page whose owner was not pinned when it was touched, or that a serial initialisation touched, counts
//! as a page of the threads on its node. If a program unmaps memory and maps other memory at the same addresses, the
//! new pages count for the old group until one is found on another node. Nothing follows before all threads of a
//! process that have ranks are pinned.

use super::runs::Runs;
use super::{MemoryArea, PageGoal};
use crate::{NodeId, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// A task with a rank, and the node of the PU that it is pinned to; `None` if it is not pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinnedTask {
    /// Which task.
    pub id: TaskId,
    /// The node that it is pinned to.
    pub node: Option<NodeId>,
}

/// The label of moved memory: its group, and the node where it was put.
type Home = (usize, NodeId);

/// The groups of threads, and the owners of the moved pages.
#[derive(Debug, Default)]
pub struct Following {
    /// Each group by the serials of its tasks.
    groups: Vec<BTreeSet<u64>>,
    homes: BTreeMap<i32, Runs<Home>>,
}

impl Following {
    /// Where the pages of `process` belong when its tasks were pinned as in `before` and now are as in `after`. Tasks
    /// of other processes are ignored.
    pub fn followed(&mut self, process: i32, before: &[PinnedTask], after: &[PinnedTask]) -> Followed<'_> {
        let its = |tasks: &[PinnedTask]| -> Vec<PinnedTask> {
            let its = tasks.iter().filter(|task| task.id.process == process);
            its.copied().collect()
        };
        let (before, after) = (its(before), its(after));
        let mut on_node: BTreeMap<NodeId, BTreeSet<u64>> = BTreeMap::new();
        let all_pinned = before.iter().all(|task| {
            task.node.is_some_and(|node| {
                on_node.entry(node).or_default().insert(task.id.serial);
                true
            })
        });
        if !all_pinned {
            on_node.clear();
        }
        let owners = on_node
            .into_iter()
            .map(|(node, tasks)| (node, self.group(tasks)))
            .collect();
        let destinations = self.groups.iter().map(|group| destination(group, &after)).collect();
        Followed {
            owners,
            destinations,
            homes: self.homes.entry(process).or_default(),
        }
    }

    /// The number of a group.
    fn group(&mut self, tasks: BTreeSet<u64>) -> usize {
        let known = self.groups.iter().position(|group| *group == tasks);
        known.unwrap_or_else(|| {
            self.groups.push(tasks);
            self.groups.len() - 1
        })
    }

    /// Something else has moved the pages of `process`: their owners are not known any more.
    pub fn forget(&mut self, process: i32) {
        if let Some(homes) = self.homes.get_mut(&process) {
            homes.clear();
        }
    }

    /// Forgets the processes that have ended according to `lives`.
    pub fn retain(&mut self, lives: impl Fn(i32) -> bool) {
        self.homes.retain(|&process, _| lives(process));
    }
}

/// The node that all living tasks of a group are pinned to; `None` if they are on several nodes, if one is not pinned,
/// or if none lives.
fn destination(group: &BTreeSet<u64>, after: &[PinnedTask]) -> Option<NodeId> {
    let mut nodes = after
        .iter()
        .filter(|task| group.contains(&task.id.serial))
        .map(|task| task.node);
    let first = nodes.next()??;
    nodes.all(|node| node == Some(first)).then_some(first)
}

/// Where the pages of one process belong.
#[derive(Debug)]
pub struct Followed<'a> {
    /// The owners of the pages on each node.
    owners: BTreeMap<NodeId, usize>,
    /// Where each group is now.
    destinations: Vec<Option<NodeId>>,
    homes: &'a mut Runs<Home>,
}

impl Followed<'_> {
    /// Whether each page is certainly where it belongs: no group has left its node.
    pub fn is_settled(&self) -> bool {
        let stays = |group: usize, node: NodeId| self.destinations[group].is_none_or(|there| there == node);
        self.owners.iter().all(|(&node, &group)| stays(group, node))
            && self.homes.values().all(|(group, node)| stays(group, node))
    }

    /// The bytes of these areas that are not where they belong.
    pub fn bytes(&self, areas: &[MemoryArea]) -> u64 {
        areas.iter().map(|area| self.bytes_of(area)).sum()
    }

    fn bytes_of(&self, area: &MemoryArea) -> u64 {
        let mut known: BTreeMap<NodeId, u64> = BTreeMap::new();
        let mut bytes = 0;
        for (length, (group, put)) in self.homes.within(area.start, area.end) {
            *known.entry(put).or_default() += length;
            if self.destinations[group].is_some_and(|node| node != put) {
                bytes += length;
            }
        }
        for (&node, &resident) in &area.resident {
            if self.owner_goes(node) != node {
                bytes += resident.saturating_sub(known.get(&node).copied().unwrap_or(0));
            }
        }
        bytes
    }

    /// The destination of the pages on `node` that were not moved before.
    fn owner_goes(&self, node: NodeId) -> NodeId {
        let owner = self.owners.get(&node);
        owner.and_then(|&group| self.destinations[group]).unwrap_or(node)
    }

    /// The home of a page that is where it was put.
    fn home(&self, address: u64, now: NodeId) -> Option<usize> {
        let (group, put) = self.homes.get(address)?;
        (put == now).then_some(group)
    }
}

impl PageGoal for Followed<'_> {
    fn wanted(&self, address: u64, _bytes: u64, now: NodeId) -> NodeId {
        match self.home(address, now) {
            Some(group) => self.destinations[group].unwrap_or(now),
            None => self.owner_goes(now),
        }
    }

    fn moved(&mut self, address: u64, bytes: u64, from: NodeId, to: NodeId) {
        let group = self.home(address, from).or_else(|| self.owners.get(&from).copied());
        if let Some(group) = group {
            self.homes.set(address, address + bytes, (group, to));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 4096;
    const PROCESS: i32 = 7;

    fn tasks(nodes: &[Option<u32>]) -> Vec<PinnedTask> {
        (0..)
            .zip(nodes)
            .map(|(serial, node)| PinnedTask {
                id: TaskId {
                    serial,
                    process: PROCESS,
                    thread: PROCESS + i32::try_from(serial).unwrap(),
                },
                node: node.map(NodeId),
            })
            .collect()
    }

    fn pinned(nodes: &[u32]) -> Vec<PinnedTask> {
        tasks(&nodes.iter().copied().map(Some).collect::<Vec<_>>())
    }

    /// Pins the tasks again and moves each page where it belongs.
    fn repin(following: &mut Following, before: &[u32], after: &[u32], pages: &mut [NodeId]) {
        let mut followed = following.followed(PROCESS, &pinned(before), &pinned(after));
        for (address, page) in (0..).map(|page| page * PAGE).zip(pages) {
            let wanted = followed.wanted(address, PAGE, *page);
            if wanted != *page {
                followed.moved(address, PAGE, *page, wanted);
                *page = wanted;
            }
        }
    }

    #[test]
    fn pages_follow_threads_that_go_to_another_node_together() {
        let mut following = Following::default();
        let mut pages = [0, 0, 1].map(NodeId);
        repin(&mut following, &[0, 0, 1], &[2, 2, 3], &mut pages);
        assert_eq!(pages, [2, 2, 3].map(NodeId));
    }

    #[test]
    fn pages_of_threads_that_part_stay() {
        let mut following = Following::default();
        let mut pages = [0, 1].map(NodeId);
        repin(&mut following, &[0, 0, 1], &[2, 3, 0], &mut pages);
        assert_eq!(pages, [0, 0].map(NodeId));
    }

    #[test]
    fn groups_that_met_on_one_node_take_their_own_pages_along_when_they_part() {
        let mut following = Following::default();
        let touched = [0, 1, 2, 3, 3, 0].map(NodeId);
        let mut pages = touched;
        repin(&mut following, &[0, 1, 2, 3], &[1, 1, 1, 1], &mut pages);
        assert_eq!(pages, [1; 6].map(NodeId));
        repin(&mut following, &[1, 1, 1, 1], &[3, 2, 1, 0], &mut pages);
        // What was on node 1 before did not move then, and the owner of the pages that met there is not known.
        assert_eq!(pages, [3, 1, 1, 0, 0, 3].map(NodeId));
    }

    #[test]
    fn nothing_follows_while_a_ranked_task_is_not_pinned() {
        let mut following = Following::default();
        let followed = following.followed(PROCESS, &tasks(&[Some(0), None]), &pinned(&[1, 1]));
        assert_eq!(followed.wanted(0, PAGE, NodeId(0)), NodeId(0));
        let followed = following.followed(PROCESS, &pinned(&[0, 0]), &tasks(&[Some(1), None]));
        assert_eq!(followed.wanted(0, PAGE, NodeId(0)), NodeId(0));
    }

    #[test]
    fn the_bytes_to_move_are_those_of_groups_that_went_elsewhere() {
        let mut following = Following::default();
        let followed = following.followed(PROCESS, &pinned(&[0, 1]), &pinned(&[0, 2]));
        let area = MemoryArea {
            start: 0,
            end: 100 * PAGE,
            kind: super::super::AreaKind::Anonymous,
            policy: String::new(),
            page_size: PAGE,
            huge: 0,
            resident: [(NodeId(0), 10 * PAGE), (NodeId(1), 20 * PAGE), (NodeId(3), PAGE)].into(),
            stack: false,
        };
        assert_eq!(followed.bytes(&[area]), 20 * PAGE);
    }

    #[test]
    fn a_page_that_is_not_where_it_was_put_is_another() {
        let mut following = Following::default();
        let mut pages = [NodeId(0)];
        repin(&mut following, &[0, 1], &[2, 2], &mut pages);
        // Unmapped, and touched again by the second thread, which now is on node 3.
        pages = [NodeId(3)];
        repin(&mut following, &[1, 3], &[1, 0], &mut pages);
        assert_eq!(pages, [NodeId(0)]);
    }

    proptest! {
        #[test]
        fn pages_go_only_where_threads_are_and_the_estimate_is_what_moves(
            pinnings in proptest::collection::vec(proptest::collection::vec(0u32..4, 5), 2..6),
            nodes in proptest::collection::vec(0u32..4, 1..30),
        ) {
            let mut following = Following::default();
            let mut pages: Vec<NodeId> = nodes.into_iter().map(NodeId).collect();
            for pair in pinnings.windows(2) {
                let was = pages.clone();
                let mut resident: BTreeMap<NodeId, u64> = BTreeMap::new();
                for &page in &was {
                    *resident.entry(page).or_default() += PAGE;
                }
                let area = MemoryArea {
                    start: 0,
                    end: PAGE * was.len() as u64,
                    kind: super::super::AreaKind::Anonymous,
                    policy: String::new(),
                    page_size: PAGE,
                    huge: 0,
                    resident,
                    stack: false,
                };
                let estimate = following.followed(PROCESS, &pinned(&pair[0]), &pinned(&pair[1])).bytes(&[area]);
                repin(&mut following, &pair[0], &pair[1], &mut pages);
                let moved = was.iter().zip(&pages).filter(|(was, is)| was != is).count() as u64;
                prop_assert_eq!(estimate, moved * PAGE);
                for (was, is) in was.iter().zip(&pages) {
                    prop_assert!(was == is || pair[1].contains(&is.0));
                }
            }
        }

        #[test]
        fn a_search_that_returns_to_where_each_node_had_its_threads_returns_the_pages(
            permutation in Just(vec![0u32, 1, 2, 3]).prop_shuffle(),
            nodes in proptest::collection::vec(0u32..4, 1..30),
        ) {
            let mut following = Following::default();
            let touched: Vec<NodeId> = nodes.into_iter().map(NodeId).collect();
            let mut pages = touched.clone();
            repin(&mut following, &[0, 1, 2, 3], &permutation, &mut pages);
            repin(&mut following, &permutation, &[0, 1, 2, 3], &mut pages);
            prop_assert_eq!(pages, touched);
        }
    }
}
