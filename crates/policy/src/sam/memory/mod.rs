//! What the mapper remembers of each task between decisions.
//!
//! ```text
//!   Memory
//!    '-- Remembered       one task: recent rates, who places it, its memory domains
//!         |-- MoveHistory    when it moved, and how long it stays
//!         '-- Sharing        with which tasks it shares, and what was tried
//! ```

mod history;
mod sharing;

use super::rates::TaskRates;
pub(super) use history::HOLD;
use history::MoveHistory;
use pinfold_core::TaskId;
use sharing::Sharing;
use std::collections::HashMap;

/// The recent value of an activity: each interval has half the weight of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Recent(Option<f64>);

impl Recent {
    fn add(&mut self, value: Option<f64>) {
        self.0 = match (self.0, value) {
            (Some(before), Some(now)) => Some(f64::midpoint(before, now)),
            (before, now) => now.or(before),
        };
    }

    pub(super) fn value(self) -> Option<f64> {
        self.0
    }
}

/// Who places a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placing {
    /// The operating system.
    System,
    /// The mapper. `was_free`: the operating system placed it before the last move that was not rolled back.
    Mapper { was_free: bool },
    /// The operating system again, from the next decision on: the move was rolled back.
    LetGo,
}

impl Placing {
    /// Who places it after a move.
    fn then_by_mapper(self) -> Self {
        Self::Mapper {
            was_free: !matches!(self, Self::Mapper { .. }),
        }
    }
}

/// One task.
#[derive(Clone, Debug)]
pub(super) struct Remembered {
    id: TaskId,
    inter: Recent,
    throughput: Recent,
    placing: Placing,
    history: MoveHistory,
    sharing: Sharing,
    /// `Soc_task`: the memory domain that it left reluctantly.
    original: Option<usize>,
    /// The memory domain that was seen to be local to its memory.
    home: Option<usize>,
}

impl Remembered {
    fn new(id: TaskId) -> Self {
        Self {
            id,
            inter: Recent::default(),
            throughput: Recent::default(),
            placing: Placing::System,
            history: MoveHistory::default(),
            sharing: Sharing::default(),
            original: None,
            home: None,
        }
    }

    /// Updates the recent rates.
    fn observe(&mut self, now: u64, rates: &TaskRates) {
        // The interval of a move is partly spent on the old PU, and has cold caches.
        if self.history.was_moved_by(now - 1) {
            self.inter = Recent::default();
            self.throughput = Recent::default();
        } else {
            self.inter.add(rates.inter);
            self.throughput.add(throughput(rates));
        }
    }

    pub(super) fn id(&self) -> TaskId {
        self.id
    }

    /// Its recent traffic between domains.
    pub(super) fn inter(&self) -> Option<f64> {
        self.inter.value()
    }

    /// Its recent progress per interval.
    pub(super) fn throughput(&self) -> Option<f64> {
        self.throughput.value()
    }

    /// `Soc_task`: the memory domain that it left reluctantly.
    pub(super) fn original(&self) -> Option<usize> {
        self.original
    }

    /// The memory domain that was seen to be local to its memory.
    pub(super) fn home(&self) -> Option<usize> {
        self.home
    }

    /// This memory domain is local to its memory.
    pub(super) fn note_home(&mut self, memory: usize) {
        self.home = Some(memory);
    }

    /// The mapper moved it from one memory domain to another, where it belongs from now on, wherever its memory is. A
    /// task that left reluctantly keeps its original domain until it returns.
    pub(super) fn note_memory(&mut self, from: usize, to: usize, reluctant: bool) {
        if self.original == Some(to) {
            self.original = None;
        } else if reluctant && self.original.is_none() {
            self.original = Some(from);
        }
        self.home = Some(to);
    }

    /// The tasks with which it was seen to share data. `None` for all sharers of its process.
    pub(super) fn group(&self) -> Option<u32> {
        self.sharing.group()
    }

    /// It shares data with this group.
    pub(super) fn join(&mut self, group: u32) {
        self.sharing.join(group);
    }

    /// Whether its traffic between domains was ever above the threshold.
    pub(super) fn has_shared(&self) -> bool {
        self.sharing.has_shared()
    }

    /// Records whether its traffic between domains is above the threshold, and whether it is quiet.
    pub(super) fn note_traffic(&mut self, shares: bool, quiet: bool) {
        if shares {
            self.sharing.note_shared();
        }
        self.sharing.note_quiet(quiet, self.history.strikes());
    }

    /// The number of methods of gathering it that failed under conditions like today's.
    pub(super) fn failures(&self, inter: f64) -> usize {
        self.sharing.failures(inter)
    }

    /// Its move, or the moves of its group, did not help.
    pub(super) fn note_failure(&mut self, inter: f64) {
        self.sharing.note_failure(inter);
    }

    /// Whether it must stay now.
    pub(super) fn is_held(&self, now: u64) -> bool {
        self.history.is_held(now)
    }

    /// It is moved from one coherence domain to another. `back`: a move is rolled back.
    pub(super) fn note_move(&mut self, now: u64, domains: [usize; 2], back: bool, hysteresis: bool) {
        self.history.add(now, domains, back, hysteresis);
        self.placing = match (back, self.placing) {
            (true, Placing::Mapper { was_free: true }) => Placing::LetGo,
            (true, _) => Placing::Mapper { was_free: false },
            (false, before) => before.then_by_mapper(),
        };
    }

    /// It is pinned to the PU on which it runs.
    pub(super) fn note_kept(&mut self) {
        self.placing = self.placing.then_by_mapper();
    }

    /// The operating system places it again.
    pub(super) fn note_let_go(&mut self) {
        self.placing = Placing::System;
    }

    /// Whether the mapper has placed it, so that the operating system does not.
    pub(super) fn is_placed(&self) -> bool {
        self.placing != Placing::System
    }

    /// Whether the operating system is to place it again, after a move that was rolled back.
    fn take_let_go(&mut self) -> bool {
        let let_go = self.placing == Placing::LetGo;
        if let_go {
            self.placing = Placing::System;
        }
        let_go
    }
}

/// Instructions per interval, relative to one instruction per cycle. `None` if they were not counted.
pub(super) fn throughput(rates: &TaskRates) -> Option<f64> {
    rates.progress.map(|progress| progress * rates.busy)
}

/// All tasks, in the order of their ids.
#[derive(Debug, Default)]
pub(super) struct Memory {
    tasks: Vec<Remembered>,
    /// By task: its position in the mapper's input.
    inputs: Vec<usize>,
    next_group: u32,
    /// Only kept for its allocation.
    next: Vec<Remembered>,
    /// By process: its busy tasks. Only kept for its allocation.
    busy: HashMap<i32, usize>,
}

impl Memory {
    /// Removes tasks that have ended, and adds new ones. If several tasks have the same id, the first one counts.
    /// Linear, but for sorting.
    pub(super) fn update(&mut self, now: u64, tasks: &[TaskRates]) {
        self.inputs.clear();
        self.inputs.extend(0..tasks.len());
        self.inputs.sort_by_key(|&position| tasks[position].id);
        self.inputs.dedup_by_key(|&mut position| tasks[position].id);
        self.next.clear();
        let mut before = self.tasks.drain(..).peekable();
        for &position in &self.inputs {
            let rates = &tasks[position];
            while before.next_if(|task| task.id < rates.id).is_some() {}
            let known = before.next_if(|task| task.id == rates.id);
            let mut task = known.unwrap_or_else(|| Remembered::new(rates.id));
            task.observe(now, rates);
            self.next.push(task);
        }
        drop(before);
        std::mem::swap(&mut self.tasks, &mut self.next);
    }

    pub(super) fn tasks(&self) -> &[Remembered] {
        &self.tasks
    }

    /// By task: its position in the mapper's input.
    pub(super) fn inputs(&self) -> &[usize] {
        &self.inputs
    }

    pub(super) fn task_mut(&mut self, index: usize) -> &mut Remembered {
        &mut self.tasks[index]
    }

    pub(super) fn index_of(&self, id: TaskId) -> Option<usize> {
        self.tasks.binary_search_by_key(&id, |task| task.id).ok()
    }

    /// The tasks that the operating system is to place again. Each is returned once.
    pub(super) fn take_let_go(&mut self) -> impl Iterator<Item = TaskId> {
        let tasks = self.tasks.iter_mut();
        tasks.filter_map(|task| task.take_let_go().then_some(task.id))
    }

    /// Counts the busy tasks of other processes for each task.
    pub(super) fn count_others(&mut self, is_busy: impl Fn(usize) -> bool) {
        self.busy.clear();
        let mut all = 0;
        for (index, task) in self.tasks.iter().enumerate() {
            let busy = usize::from(is_busy(index));
            *self.busy.entry(task.id.process).or_default() += busy;
            all += busy;
        }
        for task in &mut self.tasks {
            task.sharing.note_others(all - self.busy[&task.id.process]);
        }
    }

    /// A number that no group has.
    pub(super) fn new_group(&mut self) -> u32 {
        self.next_group += 1;
        self.next_group
    }
}
