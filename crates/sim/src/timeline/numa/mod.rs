//! Automatic NUMA balancing of Linux 6.1 and later: pages go to the nodes that access them, and unpinned tasks to the
//! nodes of their pages. The names in parentheses are functions of kernel/sched/fair.c and mm/mempolicy.c.
//!
//! 1. A second after its begin and then once a period, a process makes the next 256 MiB of its memory inaccessible
//!    (`task_numa_work`). Here a random task scans, and its period counts.
//! 2. The task that accesses such a page next has a hint fault. It counts, and the page moves to the task's node if two
//!    faults in a row come from there, and at once early in the life of a task (`mpol_misplaced`,
//!    `should_numa_migrate_memory`; `faults.rs`).
//! 3. After each pass over its memory, the tasks of a process find the nodes they prefer, and go there
//!    (`task_numa_placement`, `numa_migrate_preferred`; `placement.rs`).
//!
//! Pinned tasks have hint faults like others, so their pages come to them. The kernel leaves memory with a policy alone
//! (`vma_policy_mof`). A program has such memory if it begins with another page mapping than first touch, `locality` or
//! `balance`. Pages that pinfold moves later, to any mapping, have the default policy.
//!
//! The time line simulates few distributions of pages (`distribution.rs`). The nodes of all pages are known exactly, and
//! the next faults follow from them.
//!
//! Assumptions:
//!
//! - A scan lasts no time, and the faults come all together after it: a repetition of the program is shorter than a
//!   period, so each page is accessed before the next scan. A program waits for its task with the most work of this
//!   kind.
//! - The first task to access a page is random, with the probability of its share of the accesses.
//! - The memory of a process is what its recording touches, in pages of 4 KiB that are writable. With transparent huge
//!   pages one fault covers 2 MiB.
//! - Nodes are equally distant (`NUMA_DIRECT`), and no migration fails.
//! - Linux 6.4 and later skip areas that the scanning task has not used lately (`vma_is_accessed`). That is not modelled.

mod accesses;
mod distribution;
mod faults;
mod placement;

use super::pages::Pages;
use super::scheduler::{Assignment, Scheduler};
use crate::window::{PageMapping, PageProfile};
use accesses::Accesses;
pub(crate) use distribution::Distribution;
use distribution::Distributions;
use faults::{Faults, Group, HintFault, SHORTEST_PERIOD, Toucher};
use pinfold_core::random::Random;
use std::collections::HashMap;
use std::ops::Range;

/// A hint fault that leaves its page where it is takes this time, in seconds. Assumed: that of another fault without
/// input or output. The cost of a page that moves includes its fault (`Pages::page_seconds`).
const HINT_FAULT: f64 = 1e-6;

/// `sysctl_numa_balancing_scan_size`: 256 MiB, of 256 pages each.
const SCAN_PAGES: usize = 256 * 256;

/// What automatic NUMA balancing has done in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumaBalancingCounts {
    /// Scans of a part of a process's memory.
    pub scans: u64,
    /// Faults on pages that a scan had made inaccessible.
    pub hint_faults: u64,
    /// Pages that moved to another node.
    pub pages_moved: u64,
    /// Moves of tasks to another node.
    pub tasks_moved: u64,
}

/// The scans of one program.
struct Process {
    tasks: Range<usize>,
    pages: Range<usize>,
    /// Completed passes over the memory (`numa_scan_seq`).
    passes: u32,
    /// The next page to scan.
    next_page: usize,
    /// When, in seconds.
    next_scan: f64,
}

impl Process {
    /// The parts in which its memory is scanned (`task_nr_scan_windows`).
    fn windows(&self) -> f64 {
        self.pages.len().div_ceil(SCAN_PAGES).max(1) as f64
    }

    /// The pages of the next scan.
    fn scan(&mut self) -> Range<usize> {
        let begin = self.next_page;
        let end = self.pages.end.min(begin + SCAN_PAGES);
        self.next_page = end;
        if end == self.pages.end {
            self.next_page = self.pages.start;
            self.passes += 1;
        }
        begin..end
    }
}

/// What a scan finds.
pub(crate) struct Present<'a> {
    /// Seconds since the programs began.
    pub(crate) clock: f64,
    /// By task: the share of time that it runs; 0 for one that hardly does.
    pub(crate) running: &'a [f64],
    /// By task: whether it may not move.
    pub(crate) stays: &'a [bool],
    /// By page: the node in the distribution that is simulated.
    pub(crate) nodes: &'a [u8],
}

/// What a scan changes.
pub(crate) struct Scanned {
    /// The tasks that have moved.
    pub(crate) moved: Vec<usize>,
    /// By program: how long it stands still, in seconds.
    pub(crate) seconds: Vec<f64>,
    /// The distribution to simulate from now on, if it is another one.
    pub(crate) distribution: Option<Distribution>,
}

/// Automatic NUMA balancing of all programs of a run.
pub(crate) struct NumaBalancing {
    random: Random,
    processes: Vec<Process>,
    faults: Faults,
    /// By page: its last fault.
    touchers: Vec<Option<Toucher>>,
    /// By page: its node. Empty before the first scan.
    nodes: Vec<u8>,
    accesses: Option<Accesses>,
    distributions: Distributions,
    counts: NumaBalancingCounts,
}

impl NumaBalancing {
    /// Balancing of programs with these tasks and pages, on a machine with `nodes` nodes.
    pub(crate) fn new(programs: impl Iterator<Item = (Range<usize>, Range<usize>)>, nodes: usize, seed: u64) -> Self {
        let process = |(tasks, pages): (Range<usize>, Range<usize>)| Process {
            tasks,
            next_page: pages.start,
            pages,
            passes: 0,
            next_scan: SHORTEST_PERIOD / 1000.0,
        };
        let processes: Vec<Process> = programs.map(process).collect();
        let tasks = processes.last().map_or(0, |last| last.tasks.end);
        let pages = processes.last().map_or(0, |last| last.pages.end);
        Self {
            random: Random::new(!seed),
            processes,
            faults: Faults::new(tasks, nodes),
            touchers: vec![None; pages],
            nodes: vec![],
            accesses: None,
            distributions: Distributions::new(tasks, nodes),
            counts: NumaBalancingCounts::default(),
        }
    }

    /// Whether the memory of a program that begins with this page mapping has the default policy.
    pub(crate) fn includes(mapping: PageMapping) -> bool {
        matches!(
            mapping,
            PageMapping::FirstTouch | PageMapping::Locality | PageMapping::Balance
        )
    }

    pub(crate) fn counts(&self) -> NumaBalancingCounts {
        self.counts
    }

    /// When some process scans next, in seconds.
    pub(crate) fn next_scan(&self) -> f64 {
        let scans = self.processes.iter().map(|process| process.next_scan);
        scans.fold(f64::INFINITY, f64::min)
    }

    /// By task: the node that it prefers.
    pub(crate) fn preferred(&self) -> Vec<Option<usize>> {
        let tasks = self.processes.last().map_or(0, |last| last.tasks.end);
        (0..tasks).map(|task| self.faults.preferred(task)).collect()
    }

    /// A policy has moved pages: each page whose node differs in `after` is there now.
    pub(crate) fn pages_moved(&mut self, before: &[u8], after: &[u8]) {
        let nodes = self.nodes.iter_mut().zip(before).zip(after);
        for ((node, before), after) in nodes {
            if before != after {
                *node = *after;
            }
        }
    }

    /// Needed before the first scan: the pages in the order of their numbers, and their accesses.
    pub(crate) fn learn_accesses(&mut self, pages: impl Iterator<Item = u64>, profile: &PageProfile) {
        self.accesses = Some(Accesses::new(pages, profile));
    }

    /// Whether the accesses are known.
    pub(crate) fn knows_accesses(&self) -> bool {
        self.accesses.is_some()
    }

    /// The scans that are due now, with the faults and moves that follow from them.
    pub(crate) fn scan(
        &mut self,
        present: &Present<'_>,
        pages: &Pages,
        scheduler: &mut Scheduler,
        assignment: &mut Assignment,
    ) -> Scanned {
        if self.nodes.is_empty() {
            self.nodes = present.nodes.to_vec();
        }
        let mut scanned = Scanned {
            moved: vec![],
            seconds: vec![0.0; self.processes.len()],
            distribution: None,
        };
        for program in 0..self.processes.len() {
            if self.processes[program].next_scan > present.clock {
                continue;
            }
            let range = self.begin_scan(program, present);
            let tasks = self.processes[program].tasks.clone();
            for task in tasks.filter(|&task| present.running[task] > 0.0) {
                self.place(program, task, present);
                let moved = placement::move_to_preferred(&mut self.faults, scheduler, assignment, present.stays, task);
                self.counts.tasks_moved += moved.len() as u64;
                scanned.moved.extend(moved);
            }
            let node_of = |task: u32| u8::try_from(scheduler.node(assignment[task as usize]?)?).ok();
            scanned.seconds[program] = self.fault(range, node_of, pages);
        }
        if let Some(accesses) = &self.accesses {
            scanned.distribution = self.distributions.next(accesses, present.nodes, &self.nodes);
        }
        scanned
    }

    /// One of the running tasks scans, and its period determines when the next scan is.
    fn begin_scan(&mut self, program: usize, present: &Present<'_>) -> Range<usize> {
        self.counts.scans += 1;
        let process = &mut self.processes[program];
        let running: Vec<usize> = (process.tasks.clone())
            .filter(|&task| present.running[task] > 0.0)
            .collect();
        let period = match running.as_slice() {
            [] => SHORTEST_PERIOD,
            running => self.faults.period(running[self.random.below(running.len())]),
        };
        process.next_scan = present.clock + period / 1000.0;
        process.scan()
    }

    /// A task finds the node that it prefers after a pass.
    fn place(&mut self, program: usize, task: usize, present: &Present<'_>) {
        let process = &mut self.processes[program];
        let waits = (self.faults).place(task, process.passes, present.running[task], process.windows());
        if waits {
            process.next_scan = present.clock + self.faults.period(task) / 1000.0;
        }
    }

    /// The faults on some pages. Returns how long the task with the most work is busy with them, in seconds.
    fn fault(&mut self, range: Range<usize>, node_of: impl Fn(u32) -> Option<u8>, pages: &Pages) -> f64 {
        let Some(accesses) = &self.accesses else { return 0.0 };
        let mut groups: HashMap<u32, Option<Group>> = HashMap::new();
        let mut seconds: HashMap<u32, f64> = HashMap::new();
        for page in range {
            let Some(task) = accesses.first_after_scan(page, &mut self.random) else {
                continue;
            };
            let Some(node) = node_of(task) else { continue };
            let toucher = Toucher { task, node };
            let before = self.touchers[page].replace(toucher);
            let from = self.nodes[page];
            let fault = HintFault {
                toucher,
                page: from,
                before,
            };
            let group = groups.entry(task).or_insert_with(|| self.faults.group(task as usize));
            let moves = self.faults.handle(&fault, group.as_ref());
            if let Some(before) = before.filter(|before| before.task != toucher.task)
                && self.faults.share(task as usize, before.task as usize)
            {
                groups.clear();
            }
            self.counts.hint_faults += 1;
            *seconds.entry(task).or_default() += if moves {
                pages.page_seconds(from, node)
            } else {
                HINT_FAULT
            };
            if moves {
                self.nodes[page] = node;
                self.counts.pages_moved += 1;
            }
        }
        seconds.into_values().fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests;
