//! What the mapper remembers of each task from one decision to the next.

use super::rates::TaskRates;
use pinfold_core::TaskId;

/// A task that was moved stays for so many intervals at least: in the first its caches are cold, and "tasks that have
/// just been migrated" are easily taken for sharers (section 4.5); the next ones show what the move has done.
pub(super) const HOLD: u64 = 3;

/// A task that comes back to a domain within so many intervals moves back and forth.
const BACK_AND_FORTH: u64 = 600;

/// One that is moved again within so many times its hold is restless, wherever it goes.
const RESTLESS: u64 = 4;

/// The hold is doubled so often at most: about two days at 100 ms.
const MOST_STRIKES: u32 = 20;

/// Traffic that has grown by this factor is another than that for which a move did not help.
const OTHERWISE: f64 = 2.0;

/// A task whose traffic is below the threshold for so many intervals, twice as many for each time that it was restless,
/// is in another phase. Fewer say nothing: where a group is brought together its tasks are quiet, and go back when they
/// get less done.
const PHASE: u64 = 10;

/// What an activity was lately: each interval weighs half of the one after it.
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

/// One task.
#[derive(Clone, Debug)]
pub(super) struct Remembered {
    pub(super) id: TaskId,
    /// The interval in which it was first seen.
    pub(super) born: u64,
    pub(super) inter: Recent,
    /// Instructions in an interval, relative to those that fit into it at one a cycle.
    pub(super) throughput: Recent,
    /// When it was moved last.
    pub(super) moved: Option<u64>,
    /// From which coherence domain.
    moved_from: Option<usize>,
    /// It is not moved before this interval.
    held_until: u64,
    /// How often it came back, or went on, soon.
    strikes: u32,
    /// `Soc_task`: the memory domain from which it was migrated reluctantly.
    pub(super) original: Option<usize>,
    /// Where its memory was seen to be local.
    pub(super) home: Option<usize>,
    /// The group of tasks with which it was seen to share; `None` for all that share in its process.
    pub(super) group: Option<u32>,
    /// How often moving it did not help, and how high its traffic between domains was then.
    failed: Option<(usize, f64)>,
    /// Whether its traffic between domains has ever been above the threshold.
    pub(super) has_shared: bool,
    /// For how many intervals its traffic has been below the threshold.
    quiet: u64,
}

impl Remembered {
    fn new(id: TaskId, now: u64) -> Self {
        Self {
            id,
            born: now,
            inter: Recent::default(),
            throughput: Recent::default(),
            moved: None,
            moved_from: None,
            held_until: 0,
            strikes: 0,
            original: None,
            home: None,
            group: None,
            failed: None,
            has_shared: false,
            quiet: 0,
        }
    }

    /// Takes note of what was observed of the task in a memory domain.
    fn observe(&mut self, now: u64, rates: &TaskRates) {
        // The interval of a move is partly that of the old place, and shows cold caches.
        if self.moved == Some(now - 1) {
            self.inter = Recent::default();
            self.throughput = Recent::default();
        } else {
            self.inter.add(rates.inter);
            self.throughput.add(throughput(rates));
        }
    }

    /// How many ways of bringing it together with others have failed, as long as its traffic is not much higher than it
    /// was then.
    pub(super) fn failures(&self, inter: f64) -> usize {
        self.failed
            .map_or(0, |(failures, at)| if inter > OTHERWISE * at { 0 } else { failures })
    }

    /// Moving it, or those with which it shares, did not help.
    pub(super) fn note_failure(&mut self, inter: f64) {
        self.failed = Some((self.failures(inter) + 1, inter));
    }

    /// Takes note of whether its traffic is below the threshold. When it has been for long enough, what comes next is
    /// another phase.
    pub(super) fn note_quiet(&mut self, quiet: bool) {
        self.quiet = if quiet { self.quiet + 1 } else { 0 };
        if self.quiet >= PHASE << self.strikes {
            self.failed = None;
        }
    }

    /// Whether it must stay for now.
    pub(super) fn is_held(&self, now: u64) -> bool {
        now < self.held_until
    }

    /// It is moved from one coherence domain to another. `back`: a move is undone. After the first time it may be moved
    /// in another way at once; who comes back more often is held like any other.
    pub(super) fn note_move(&mut self, now: u64, [from, to]: [usize; 2], back: bool, hysteresis: bool) {
        if hysteresis {
            let restless = match self.moved {
                None => false,
                Some(before) if self.moved_from == Some(to) => now - before < BACK_AND_FORTH,
                Some(before) => now - before < RESTLESS * (HOLD << self.strikes),
            };
            if restless {
                self.strikes = (self.strikes + 1).min(MOST_STRIKES);
            }
            let at_once = back && self.strikes <= 1;
            self.held_until = if at_once { now } else { now + (HOLD << self.strikes) };
        }
        self.moved = Some(now);
        self.moved_from = Some(from);
    }
}

/// Instructions in an interval, relative to those that fit into it at one a cycle; `None` where they were not counted.
pub(super) fn throughput(rates: &TaskRates) -> Option<f64> {
    rates.instructions.map(|per_cycle| per_cycle * rates.busy)
}

/// All tasks, in the order of their ids.
#[derive(Debug, Default)]
pub(super) struct Memory {
    tasks: Vec<Remembered>,
    next: Vec<Remembered>,
    next_group: u32,
}

impl Memory {
    /// Forgets tasks that are gone and remembers those that have come. `order` are the positions of `tasks` by id, each
    /// once. Afterwards the n-th task is that of the n-th position. Linear.
    pub(super) fn update(&mut self, now: u64, tasks: &[TaskRates], order: &[usize]) {
        self.next.clear();
        let mut before = self.tasks.drain(..).peekable();
        for &position in order {
            let rates = &tasks[position];
            while before.next_if(|task| task.id < rates.id).is_some() {}
            let known = before.next_if(|task| task.id == rates.id);
            let mut task = known.unwrap_or_else(|| Remembered::new(rates.id, now));
            task.observe(now, rates);
            self.next.push(task);
        }
        drop(before);
        std::mem::swap(&mut self.tasks, &mut self.next);
    }

    pub(super) fn tasks(&self) -> &[Remembered] {
        &self.tasks
    }

    pub(super) fn task_mut(&mut self, index: usize) -> &mut Remembered {
        &mut self.tasks[index]
    }

    pub(super) fn index_of(&self, id: TaskId) -> Option<usize> {
        self.tasks.binary_search_by_key(&id, |task| task.id).ok()
    }

    /// A group that nobody is in yet.
    pub(super) fn new_group(&mut self) -> u32 {
        self.next_group += 1;
        self.next_group
    }
}
