//! Hint faults: what the kernel counts of them, which of them move a page, which node a task prefers, and how fast it
//! scans. The names in parentheses are functions of kernel/sched/fair.c of Linux 6.1.
//!
//! 1. A fault is private if the same task had the page's fault before, and else shared (`task_numa_fault`). Tasks of a
//!    process that share pages join one group (`task_numa_group`).
//! 2. After each pass over the memory, older counts lose half of their weight. The task then prefers the node with most
//!    faults of its group, or of its own without a group (`task_numa_placement`).
//! 3. Scanning becomes slower while most faults are private or local, and faster otherwise (`update_task_scan_period`).

/// `sysctl_numa_balancing_scan_delay` and `sysctl_numa_balancing_scan_period_min`, in milliseconds.
pub(super) const SHORTEST_PERIOD: f64 = 1000.0;

/// `sysctl_numa_balancing_scan_period_max`, in milliseconds.
const LONGEST_PERIOD: f64 = 60_000.0;

/// `task_scan_min`: no task scans more often than ten times a second with the default scan size (`MAX_SCAN_WINDOW`), in
/// milliseconds.
const FLOOR: f64 = 100.0;

/// `NUMA_PERIOD_SLOTS` and `NUMA_PERIOD_THRESHOLD`.
const SLOTS: f64 = 10.0;
const THRESHOLD: f64 = 7.0;

/// `ACTIVE_NODE_FRACTION`: a node with more than a third of the faults of the busiest one is active.
const ACTIVE_FRACTION: f64 = 3.0;

/// `should_numa_migrate_memory`: up to this pass, first and private faults move a page at once.
const EARLY_PASSES: u32 = 4;

/// Who had the last fault on a page: the task, and the node that it ran on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Toucher {
    pub(super) task: u32,
    pub(super) node: u8,
}

/// A hint fault of a task that runs on a node.
pub(super) struct HintFault {
    pub(super) toucher: Toucher,
    /// The node of the page.
    pub(super) page: u8,
    /// The fault before on this page, if any.
    pub(super) before: Option<Toucher>,
}

/// What a task has counted since its last placement.
#[derive(Clone, Debug)]
struct Fresh {
    /// By node of the page, after a move.
    memory: Vec<f64>,
    /// By node of the task.
    processors: Vec<f64>,
    private: f64,
    shared: f64,
}

/// One task.
#[derive(Clone, Debug)]
struct Task {
    fresh: Fresh,
    /// By node: faults on its memory, older ones with less weight.
    memory: Vec<f64>,
    /// By node: the share of the faults that the task had while it ran there, times the share of time that it ran.
    processors: Vec<f64>,
    private: f64,
    shared: f64,
    /// Faults on memory of another node and of the task's node, since they were last used for the period.
    remote: f64,
    local: f64,
    preferred: Option<usize>,
    group: Option<usize>,
    /// The pass after which it was placed last.
    pass: u32,
    /// Milliseconds to the next scan.
    period: f64,
}

/// The faults of all tasks of the machine.
pub(super) struct Faults {
    tasks: Vec<Task>,
    /// How many groups there have been. They are numbered in the order of their creation.
    groups: usize,
}

/// The sums over the tasks of a group.
pub(super) struct Group {
    memory: Vec<f64>,
    processors: Vec<f64>,
    private: f64,
    shared: f64,
    tasks: usize,
}

impl Group {
    fn is_active(&self, node: usize) -> bool {
        let most = self.processors.iter().copied().fold(0.0, f64::max);
        self.processors[node] * ACTIVE_FRACTION > most
    }

    /// How many nodes it is active on.
    pub(super) fn active_nodes(&self) -> usize {
        (0..self.processors.len()).filter(|&node| self.is_active(node)).count()
    }
}

/// The share of some faults that are on a node, in thousandths (`task_weight`, `group_weight`).
fn weight(faults: &[f64], node: usize) -> f64 {
    let all: f64 = faults.iter().sum();
    if all > 0.0 { 1000.0 * faults[node] / all } else { 0.0 }
}

/// The node with most faults; `None` without faults.
fn most(faults: &[f64]) -> Option<usize> {
    let (mut found, mut most) = (None, 0.0);
    for (node, &number) in faults.iter().enumerate() {
        if number > most {
            (found, most) = (Some(node), number);
        }
    }
    found
}

impl Faults {
    /// Tasks without faults, on a machine with this number of nodes.
    pub(super) fn new(tasks: usize, nodes: usize) -> Self {
        let task = Task {
            fresh: Fresh {
                memory: vec![0.0; nodes],
                processors: vec![0.0; nodes],
                private: 0.0,
                shared: 0.0,
            },
            memory: vec![0.0; nodes],
            processors: vec![0.0; nodes],
            private: 0.0,
            shared: 0.0,
            remote: 0.0,
            local: 0.0,
            preferred: None,
            group: None,
            pass: 0,
            period: SHORTEST_PERIOD,
        };
        Self {
            tasks: vec![task; tasks],
            groups: 0,
        }
    }

    /// The node that a task prefers.
    pub(super) fn preferred(&self, task: usize) -> Option<usize> {
        self.tasks[task].preferred
    }

    /// A task prefers a node.
    pub(super) fn prefer(&mut self, task: usize, node: usize) {
        self.tasks[task].preferred = Some(node);
    }

    /// Milliseconds between two scans of a task.
    pub(super) fn period(&self, task: usize) -> f64 {
        self.tasks[task].period
    }

    /// The number of a task's group.
    pub(super) fn group_number(&self, task: usize) -> Option<usize> {
        self.tasks[task].group
    }

    /// The share of a task's faults on a node, in thousandths.
    pub(super) fn task_weight(&self, task: usize, node: usize) -> f64 {
        weight(&self.tasks[task].memory, node)
    }

    /// The share of the faults of a task's group on a node, in thousandths; 0 without a group.
    pub(super) fn group_weight(&self, task: usize, node: usize) -> f64 {
        self.group(task).map_or(0.0, |group| weight(&group.memory, node))
    }

    /// The sums of a task's group.
    pub(super) fn group(&self, task: usize) -> Option<Group> {
        let number = self.tasks[task].group?;
        let nodes = self.tasks[task].memory.len();
        let mut group = Group {
            memory: vec![0.0; nodes],
            processors: vec![0.0; nodes],
            private: 0.0,
            shared: 0.0,
            tasks: 0,
        };
        for task in self.tasks.iter().filter(|task| task.group == Some(number)) {
            for node in 0..nodes {
                group.memory[node] += task.memory[node];
                group.processors[node] += task.processors[node];
            }
            group.private += task.private;
            group.shared += task.shared;
            group.tasks += 1;
        }
        Some(group)
    }

    /// Counts a fault. Returns whether its page moves to the task's node. `group` are the sums of the task's group.
    pub(super) fn handle(&mut self, fault: &HintFault, group: Option<&Group>) -> bool {
        let Toucher { task, node } = fault.toucher;
        let (node, page) = (usize::from(node), usize::from(fault.page));
        let is_private = fault.before.is_none_or(|before| before.task == task);
        let moves = self.may_move(fault, group) && page != node;
        let both_active =
            || group.is_some_and(|group| group.active_nodes() > 1 && group.is_active(node) && group.is_active(page));
        let is_local = page == node || (!is_private && both_active());
        let task = &mut self.tasks[task as usize];
        task.fresh.memory[if moves { node } else { page }] += 1.0;
        task.fresh.processors[node] += 1.0;
        *(if is_private {
            &mut task.fresh.private
        } else {
            &mut task.fresh.shared
        }) += 1.0;
        *(if is_local { &mut task.local } else { &mut task.remote }) += 1.0;
        moves
    }

    /// `should_numa_migrate_memory`, for memory without slower tiers.
    fn may_move(&self, fault: &HintFault, group: Option<&Group>) -> bool {
        let task = &self.tasks[fault.toucher.task as usize];
        let is_private = fault.before.is_some_and(|before| before.task == fault.toucher.task);
        let is_early = task.preferred.is_none() || task.pass <= EARLY_PASSES;
        if is_early && (fault.before.is_none() || is_private) {
            return true;
        }
        if fault.before.is_some_and(|before| before.node != fault.toucher.node) {
            return false;
        }
        let Some(group) = group.filter(|_| !is_private) else {
            return true;
        };
        let (to, from) = (usize::from(fault.toucher.node), usize::from(fault.page));
        let (processors, memory) = (&group.processors, &group.memory);
        processors[to] > processors[from] * ACTIVE_FRACTION
            || processors[to] * memory[from] * 3.0 > processors[from] * memory[to] * 4.0
    }

    /// A task has a shared fault on a page whose fault before was another task's (`task_numa_group`). It joins that
    /// task's group, unless its own one is larger, or older and as large. Returns whether it does.
    pub(super) fn share(&mut self, task: usize, other: usize) -> bool {
        if self.tasks[task].group.is_none() {
            self.tasks[task].group = Some(self.groups);
            self.groups += 1;
        }
        let size = |group| self.tasks.iter().filter(|task| task.group == group).count();
        let (own, theirs) = (self.tasks[task].group, self.tasks[other].group);
        if theirs.is_none() || own == theirs || (size(own), theirs) > (size(theirs), own) {
            return false;
        }
        self.tasks[task].group = theirs;
        true
    }

    /// A task of a process that scans in `windows` parts finds its preferred node after pass `pass`. It has run for the
    /// share `ran` of the time. Returns whether the next scan of its process begins a whole period from now.
    pub(super) fn place(&mut self, task: usize, pass: u32, ran: f64, windows: f64) -> bool {
        if self.tasks[task].pass == pass {
            return false;
        }
        let placed = &mut self.tasks[task];
        placed.pass = pass;
        let counted = placed.local + placed.remote;
        for (old, fresh) in placed.memory.iter_mut().zip(&mut placed.fresh.memory) {
            *old = *old / 2.0 + std::mem::take(fresh);
        }
        for (old, fresh) in placed.processors.iter_mut().zip(&mut placed.fresh.processors) {
            *old = *old / 2.0 + ran * std::mem::take(fresh) / (counted + 1.0);
        }
        let private = std::mem::take(&mut placed.fresh.private);
        let shared = std::mem::take(&mut placed.fresh.shared);
        placed.private = placed.private / 2.0 + private;
        placed.shared = placed.shared / 2.0 + shared;
        let group = self.group(task);
        let placed = &mut self.tasks[task];
        if let Some(node) = most(group.as_ref().map_or(&placed.memory, |group| &group.memory)) {
            placed.preferred = Some(node);
        }
        placed.scan_slower_or_faster(private, shared, windows, group.as_ref())
    }
}

impl Task {
    /// `update_task_scan_period`.
    fn scan_slower_or_faster(&mut self, private: f64, shared: f64, windows: f64, group: Option<&Group>) -> bool {
        let shortest = (SHORTEST_PERIOD / windows).max(FLOOR);
        let mut longest = LONGEST_PERIOD / windows;
        if let Some(group) = group {
            let scale = group.tasks as f64 * (group.shared + 1.0) / (group.private + group.shared + 1.0);
            longest = longest.max(longest * scale);
        }
        let longest = longest.max(shortest);
        if self.local + shared == 0.0 {
            self.period = (2.0 * self.period).min(longest);
            return true;
        }
        let slots = |part: f64, all: f64| (part * SLOTS / all.max(1.0)).floor();
        let local = slots(self.local, self.local + self.remote);
        let private = slots(private, private + shared);
        let change = if private >= THRESHOLD {
            (private - THRESHOLD).max(1.0)
        } else if local >= THRESHOLD {
            (local - THRESHOLD).max(1.0)
        } else {
            private.max(local) - THRESHOLD
        };
        let slot = (self.period / SLOTS).ceil();
        self.period = (self.period + change * slot).clamp(shortest, longest);
        (self.local, self.remote) = (0.0, 0.0);
        false
    }
}
