//! The state of each task that the mapper keeps between decisions.

use super::rates::TaskRates;
use pinfold_core::TaskId;

/// The least number of intervals that a task stays after a move. In the first its caches are cold, and "tasks that have
/// just been migrated" are easily mistaken for sharers (section 4.5). The next two show the effect of the move; that two
/// are enough is assumed.
pub(super) const HOLD: u64 = 3;

/// After this number of intervals the progress of a moved task is known again, so that another move can be judged.
const KNOWN_AGAIN: u64 = 2;

/// A task that returns to a domain within this number of intervals moves back and forth. Assumed: a minute of the
/// paper's 100 ms.
const BACK_AND_FORTH: u64 = 600;

/// A task that is moved again within this multiple of its hold is restless, also if it goes elsewhere. Assumed.
const RESTLESS: u64 = 4;

/// The largest number of doublings of the hold: about two days at 100 ms.
const MOST_STRIKES: u32 = 20;

/// Traffic that has grown by this factor differs from the traffic for which a move did not help. Assumed.
const OTHERWISE: f64 = 2.0;

/// The others have gone when at most this share of them is left. Assumed: a task that comes or goes is no reason.
const GONE: f64 = 0.5;

/// After this number of intervals with traffic below the threshold, a task is in another phase; twice as many for each
/// time that it was restless. Fewer intervals say nothing: the tasks of a group that is gathered have little traffic,
/// and go back if they make less progress. Assumed: a second of the paper's 100 ms.
const PHASE: u64 = 10;

/// The recent value of an activity: each interval has half the weight of the one after it.
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

/// Moving a task, or those with which it shares, did not help.
#[derive(Clone, Copy, Debug)]
struct Failure {
    /// How often.
    times: usize,
    /// Its traffic between domains at the last time.
    inter: f64,
    /// The busy tasks of other processes at the last time.
    others: usize,
}

/// Who places a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placing {
    /// The operating system.
    System,
    /// The mapper. `was_free`: the operating system did before the last move that was not rolled back.
    Mapper { was_free: bool },
    /// The mapper no longer: that move was rolled back.
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
    pub(super) id: TaskId,
    pub(super) inter: Recent,
    /// Instructions per interval, relative to one instruction per cycle.
    pub(super) throughput: Recent,
    /// The decision that moved it last.
    moved: Option<u64>,
    /// The coherence domain that it left.
    moved_from: Option<usize>,
    placing: Placing,
    /// It is not moved before this interval.
    held_until: u64,
    /// How often it returned, or moved on, soon.
    strikes: u32,
    /// `Soc_task`: the memory domain from which it was migrated reluctantly.
    pub(super) original: Option<usize>,
    /// The memory domain in which its memory was seen to be local.
    pub(super) home: Option<usize>,
    /// The tasks with which it was seen to share data; `None` for all that share in its process.
    pub(super) group: Option<u32>,
    failed: Option<Failure>,
    /// The busy tasks of other processes.
    others: usize,
    /// Whether its traffic between domains has ever been above the threshold.
    pub(super) has_shared: bool,
    /// The number of intervals with traffic below the threshold.
    quiet: u64,
}

impl Remembered {
    fn new(id: TaskId) -> Self {
        Self {
            id,
            inter: Recent::default(),
            throughput: Recent::default(),
            moved: None,
            moved_from: None,
            placing: Placing::System,
            held_until: 0,
            strikes: 0,
            original: None,
            home: None,
            group: None,
            failed: None,
            others: 0,
            has_shared: false,
            quiet: 0,
        }
    }

    /// Updates the memory from the rates of the task in a memory domain.
    fn observe(&mut self, now: u64, rates: &TaskRates) {
        // The interval of a move is partly spent in the old place, and has cold caches.
        if self.moved == Some(now - 1) {
            self.inter = Recent::default();
            self.throughput = Recent::default();
        } else {
            self.inter.add(rates.inter);
            self.throughput.add(throughput(rates));
        }
    }

    /// The number of methods of gathering it that have failed, under conditions like the present ones: its traffic is
    /// not much higher than then, and the tasks of other processes that were in the way have not gone.
    pub(super) fn failures(&self, inter: f64) -> usize {
        self.failed.map_or(0, |failure| {
            let otherwise = inter > OTHERWISE * failure.inter;
            let gone = failure.others > 0 && self.others as f64 <= GONE * failure.others as f64;
            if otherwise || gone { 0 } else { failure.times }
        })
    }

    /// Moving it, or the tasks with which it shares, did not help.
    pub(super) fn note_failure(&mut self, inter: f64) {
        self.failed = Some(Failure {
            times: self.failures(inter) + 1,
            inter,
            others: self.others,
        });
    }

    /// Records how many tasks of other processes are busy.
    pub(super) fn note_others(&mut self, others: usize) {
        self.others = others;
    }

    /// Records whether its traffic is below the threshold. After enough such intervals the task is in another phase.
    pub(super) fn note_quiet(&mut self, quiet: bool) {
        self.quiet = if quiet { self.quiet + 1 } else { 0 };
        if self.quiet >= PHASE << self.strikes {
            self.failed = None;
        }
    }

    /// Whether it must stay at present.
    pub(super) fn is_held(&self, now: u64) -> bool {
        now < self.held_until
    }

    /// It is moved from one coherence domain to another. `back`: a move is rolled back. After the first time it may be
    /// moved by another method soon; a task that returns more often is held like any other.
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
            let soon = back && self.strikes <= 1;
            self.held_until = now + if soon { KNOWN_AGAIN } else { HOLD << self.strikes };
        }
        self.moved = Some(now);
        self.moved_from = Some(from);
        self.placing = match (back, self.placing) {
            (true, Placing::Mapper { was_free: true }) => Placing::LetGo,
            (true, _) => Placing::Mapper { was_free: false },
            (false, before) => before.then_by_mapper(),
        };
    }

    /// It is pinned where it is.
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
    pub(super) fn take_let_go(&mut self) -> bool {
        let let_go = self.placing == Placing::LetGo;
        if let_go {
            self.placing = Placing::System;
        }
        let_go
    }
}

/// Instructions per interval, relative to one instruction per cycle; `None` where they were not counted.
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
    /// Removes tasks that have ended and adds new ones. `order` has the positions of `tasks` by id, each once.
    /// Afterwards the n-th entry is that of the n-th position. Linear.
    pub(super) fn update(&mut self, now: u64, tasks: &[TaskRates], order: &[usize]) {
        self.next.clear();
        let mut before = self.tasks.drain(..).peekable();
        for &position in order {
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

    pub(super) fn task_mut(&mut self, index: usize) -> &mut Remembered {
        &mut self.tasks[index]
    }

    pub(super) fn index_of(&self, id: TaskId) -> Option<usize> {
        self.tasks.binary_search_by_key(&id, |task| task.id).ok()
    }

    /// A number that no group has.
    pub(super) fn new_group(&mut self) -> u32 {
        self.next_group += 1;
        self.next_group
    }
}
