//! Tests of scans, faults and moves on a machine of two nodes with two cores each.

use super::placement::move_to_preferred;
use super::*;
use crate::kernel::Kernel;
use crate::model::Model;
use pinfold_core::{PuId, PuSet};

/// Two packages of two cores, with a node each.
fn model() -> Model {
    let text = include_str!("../../../../../machines/e5-2660v2x2.toml");
    let lines = text.lines().filter(|line| {
        !["smt_throughput", "smt_buffers", "turbo"]
            .iter()
            .any(|key| line.starts_with(key))
    });
    let text = lines
        .collect::<Vec<_>>()
        .join("\n")
        .replace("cores_per_package = { count = 10", "cores_per_package = { count = 2")
        .replace("threads_per_core = { count = 2", "threads_per_core = { count = 1")
        .replace("cores = { count = 10", "cores = { count = 2");
    Model::parse("two_nodes.toml", &text).unwrap()
}

/// Tasks that run on such a machine, and access pages.
struct Run {
    numa: NumaBalancing,
    pages: Pages,
    scheduler: Scheduler,
    assignment: Assignment,
    pinned: bool,
}

impl Run {
    /// A process with tasks on these PUs. Page `n` is on node `pages[n].0`, and tasks access it so often.
    fn new(pus: &[u32], pages: &[(u8, &[(u32, u64)])], pinned: bool) -> Self {
        let model = model();
        let all: PuSet = (0..4).map(PuId).collect();
        let owners: Vec<(u64, u32)> = (0..pages.len() as u64).map(|page| (page, 0)).collect();
        let mut numa = NumaBalancing::new([(0..pus.len(), 0..pages.len())].into_iter(), 2, 1);
        numa.accesses = Some(Accesses::from_entries(pages.iter().map(|(_, tasks)| *tasks)));
        numa.nodes = pages.iter().map(|(node, _)| *node).collect();
        Self {
            numa,
            pages: Pages::new(&model, &owners),
            scheduler: Scheduler::new(Kernel::V6_1, &model, &all, None, 1),
            assignment: pus.iter().map(|&pu| Some(PuId(pu))).collect(),
            pinned,
        }
    }

    /// The next scan. Returns what it changes.
    fn scan(&mut self) -> Scanned {
        let tasks = self.assignment.len();
        let present = Present {
            clock: self.numa.next_scan(),
            running: &vec![1.0; tasks],
            stays: &vec![self.pinned; tasks],
            nodes: &self.numa.nodes.clone(),
        };
        self.numa
            .scan(&present, &self.pages, &mut self.scheduler, &mut self.assignment)
    }

    fn nodes_of_tasks(&self) -> Vec<usize> {
        let nodes = self.assignment.iter().flatten();
        nodes.map(|&pu| self.scheduler.node(pu).unwrap()).collect()
    }
}

#[test]
fn private_pages_come_to_their_task_with_the_first_scan_whether_it_is_pinned_or_not() {
    for pinned in [false, true] {
        let mut run = Run::new(&[0, 2], &[(0, &[(1, 9)]), (0, &[(0, 9)]), (1, &[(0, 9)])], pinned);
        assert!((run.numa.next_scan() - 1.0).abs() < 1e-9);
        let scanned = run.scan();
        assert_eq!(run.numa.nodes, [1, 0, 0]);
        let counts = run.numa.counts();
        assert_eq!((counts.scans, counts.hint_faults, counts.pages_moved), (1, 3, 2));
        assert!(scanned.distribution.is_some());
        assert!(scanned.seconds[0] > 4e-6);
        assert!(run.scan().distribution.is_none());
        assert_eq!(run.numa.counts().pages_moved, 2);
    }
}

#[test]
fn a_page_moves_to_another_task_when_two_faults_in_a_row_come_from_its_node() {
    let mut faults = Faults::new(3, 2);
    let toucher = |task: u32, node: u8| Toucher { task, node };
    let fault = |toucher, page, before| HintFault { toucher, page, before };
    // The first fault on a page moves it, early in the life of a task.
    assert!(faults.handle(&fault(toucher(0, 1), 0, None), None));
    // A fault from another node than the one before does not.
    assert!(!faults.handle(&fault(toucher(1, 0), 1, Some(toucher(0, 1))), None));
    // The second one from there does, whichever task has it.
    assert!(faults.handle(&fault(toucher(2, 0), 1, Some(toucher(1, 0))), None));
    assert_eq!(faults.group_number(0), None);
    assert!(!faults.share(1, 0), "the other task has no group yet");
    assert!(faults.share(2, 1));
    assert_eq!(faults.group_number(2), faults.group_number(1));
}

#[test]
fn scans_become_rare_where_memory_is_local_and_private() {
    let mut run = Run::new(&[0, 2], &[(0, &[(0, 9)]), (1, &[(1, 9)])], false);
    let mut at = vec![];
    for _ in 0..40 {
        at.push(run.numa.next_scan());
        run.scan();
    }
    assert_eq!(run.numa.counts().pages_moved, 0);
    let gaps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.windows(2).all(|pair| pair[0] <= pair[1]), "{gaps:?}");
    assert_eq!(gaps.last(), Some(&60.0));
}

#[test]
fn a_task_goes_to_the_node_of_memory_that_cannot_come_to_it() {
    let mut run = Run::new(&[2], &[], false);
    run.numa.faults.prefer(0, 0);
    let moved = move_to_preferred(
        &mut run.numa.faults,
        &mut run.scheduler,
        &mut run.assignment,
        &[false],
        0,
    );
    assert_eq!((moved, run.nodes_of_tasks()), (vec![0], vec![0]));
}

#[test]
fn pinned_tasks_do_not_move() {
    let mut run = Run::new(&[2], &[], true);
    run.numa.faults.prefer(0, 0);
    let moved = move_to_preferred(
        &mut run.numa.faults,
        &mut run.scheduler,
        &mut run.assignment,
        &[true],
        0,
    );
    assert_eq!((moved, run.nodes_of_tasks()), (vec![], vec![1]));
}

#[test]
fn tasks_of_full_nodes_change_places_where_both_gain() {
    // Tasks 0 and 1 run on node 0, tasks 2 and 3 on node 1, and each has faults on its page only.
    let mut run = Run::new(&[0, 1, 2, 3], &[], false);
    for (task, page) in [(0, 1), (1, 0), (2, 0), (3, 1)] {
        let toucher = Toucher {
            task,
            node: u8::from(task > 1),
        };
        let other = Some(Toucher {
            task: 9,
            node: 1 - toucher.node,
        });
        for _ in 0..10 {
            run.numa.faults.handle(
                &HintFault {
                    toucher,
                    page,
                    before: other,
                },
                None,
            );
        }
        run.numa.faults.place(task as usize, 1, 1.0, 1.0);
        assert_eq!(run.numa.faults.preferred(task as usize), Some(usize::from(page)));
    }
    let moved = move_to_preferred(
        &mut run.numa.faults,
        &mut run.scheduler,
        &mut run.assignment,
        &[false; 4],
        0,
    );
    assert_eq!(moved, [0, 2]);
    assert_eq!(run.nodes_of_tasks(), [1, 0, 0, 1]);
}

#[test]
fn pages_that_all_tasks_use_spread_and_cost_few_distributions() {
    let all: &[(u32, u64)] = &[(0, 9), (1, 9), (2, 9), (3, 9)];
    let mut run = Run::new(&[0, 1, 2, 3], &vec![(0, all); 1000], false);
    let mut distributions = 0;
    let mut simulated = run.numa.nodes.clone();
    for _ in 0..50 {
        let present = Present {
            clock: run.numa.next_scan(),
            running: &[1.0; 4],
            stays: &[false; 4],
            nodes: &simulated,
        };
        let scanned = (run.numa).scan(&present, &run.pages, &mut run.scheduler, &mut run.assignment);
        if let Some(distribution) = scanned.distribution {
            simulated = distribution.nodes().to_vec();
            distributions += 1;
        }
    }
    let there: usize = run.numa.nodes.iter().copied().map(usize::from).sum();
    assert!((300..700).contains(&there), "{there} of 1000 pages are on node 1");
    assert!(distributions <= 3, "{distributions}");
}

#[test]
fn a_large_process_is_scanned_in_parts() {
    let mut process = Process {
        tasks: 0..1,
        pages: 10..10 + SCAN_PAGES + 5,
        passes: 0,
        next_page: 10,
        next_scan: 1.0,
    };
    assert!((process.windows() - 2.0).abs() < 1e-9);
    assert_eq!((process.scan(), process.passes), (10..10 + SCAN_PAGES, 0));
    assert_eq!((process.scan(), process.passes), (10 + SCAN_PAGES..15 + SCAN_PAGES, 1));
    assert_eq!(process.scan().start, 10);
}

#[test]
fn memory_with_a_policy_is_left_alone() {
    assert!(NumaBalancing::includes(PageMapping::FirstTouch));
    assert!(!NumaBalancing::includes(PageMapping::Interleave));
    assert!(!NumaBalancing::includes(PageMapping::Local));
}
