//! The third step: memory-intensive tasks leave domains whose memory is saturated for domains whose memory is not.
//!
//! Figure 4 calls it `balance(P_i^Mem, P_j^Mem)` and leaves it open. Here one task after the other goes from `i` to an
//! idle core of `j`. Without an idle core it swaps with a CPU-bound task of `j` (section 4.3: "moving the CPU-bound
//! tasks to accommodate distribution of the memory-intensive tasks"). This stops when the demand of `i` is no longer
//! above the bandwidth, or when that of `j` would be ("we track the increase in bandwidth utilization after every
//! migration", section 3.1), or when `j` would be the busier of the two. Then the next `j` follows. Sharers stay.
//!
//! Memory slows down before it is saturated. With `faint_contention`, a memory-intensive task of the busiest memory is
//! moved to the least busy one on trial, if that one stays the less busy of the two. The task stays if the
//! memory-intensive tasks of both then progress faster. After a trial that does not help, the wait for the next one doubles.
//! After several of these there is no trial until the number of memory-intensive tasks changes (`BalanceTrials`).

use super::coherence::Gathering;
use super::placement_sets::Class;
use super::round::{Cause, Round};
use super::{Activity, Reason};

/// The step.
pub(super) fn balance(round: &mut Round<'_>) {
    let memories = round.shape.memories.len();
    for from in 0..memories {
        for to in 0..memories {
            if round.sets.demand[from] <= round.bandwidth(from) {
                break;
            }
            if to != from && round.sets.demand[to] < round.bandwidth(to) {
                relieve(round, from, to);
            }
        }
    }
}

/// The share of its bandwidth from which on a memory is busy enough for a trial. Assumed: below it, its latency hardly
/// rises with its load.
const BUSY: f64 = 0.5;

/// Intervals until the next trial; they double after each trial that does not help. Assumed: a second of the paper's
/// 100 ms.
const FIRST_WAIT: u64 = 10;

/// After this many trials in a row that do not help, none starts until the number of memory-intensive tasks changes.
/// Assumed.
const MOST_FAILURES: u32 = 3;

/// Trials that balance the demand of two memories: when the next may start.
#[derive(Debug, Default)]
pub(super) struct BalanceTrials {
    not_before: u64,
    failures: u32,
    /// How many memory-intensive tasks there were.
    tasks: usize,
}

impl BalanceTrials {
    /// Records the outcome of a trial.
    pub(super) fn note(&mut self, now: u64, helped: bool) {
        self.failures = if helped { 0 } else { self.failures + 1 };
        self.not_before = now + (FIRST_WAIT << self.failures);
    }

    /// Moves one task from the busiest memory to the least busy one, if that balances them better and a trial may start.
    pub(super) fn start(&mut self, round: &mut Round<'_>) -> Option<Gathering> {
        let states = round.sets.states.iter();
        let tasks = states.filter(|state| state.class == Class::Memory).count();
        if self.tasks != tasks {
            *self = Self {
                tasks,
                ..Self::default()
            };
        }
        if round.now < self.not_before || self.failures >= MOST_FAILURES {
            return None;
        }
        let load = |memory: &usize| round.sets.demand[*memory] / round.bandwidth(*memory);
        let by_load = |one: &usize, other: &usize| load(one).total_cmp(&load(other)).then(other.cmp(one));
        let from = (0..round.shape.memories.len()).max_by(by_load)?;
        let to = (0..round.shape.memories.len()).min_by(by_load)?;
        if load(&from) <= BUSY {
            return None;
        }
        let shape = round.shape;
        let tasks = round.sets.memory_tasks(&shape.memories[from].cells);
        tasks.into_iter().find_map(|task| {
            let after = round.sets.demand[to] + round.sets.states[task].demand;
            let better_balanced = after / round.bandwidth(to) < round.sets.demand[from] / round.bandwidth(from);
            (better_balanced && send(round, task, from, to)).then(|| Gathering {
                sharers: vec![],
                movers: vec![task],
            })
        })
    }
}

/// Moves a task to an idle core of another memory, or swaps it with a CPU-bound task there.
fn send(round: &mut Round<'_>, task: usize, from: usize, to: usize) -> bool {
    let shape = round.shape;
    let cells = &shape.memories[to].cells;
    let cause = Cause {
        reason: Reason::Bandwidth,
        activity: Activity::MemoryBandwidth,
        value: round.sets.demand[from],
        threshold: round.bandwidth(from),
    };
    if round.move_to_idle(task, cells, cause) {
        return true;
    }
    let partner = round.sets.partner(shape, round.tasks, Class::Cpu, cells, task);
    if let Some(other) = partner {
        round.swap(task, other, cause, false);
    }
    partner.is_some()
}

fn relieve(round: &mut Round<'_>, from: usize, to: usize) {
    for task in round.sets.memory_tasks(&round.shape.memories[from].cells) {
        let demand = round.sets.states[task].demand;
        if round.sets.demand[from] <= round.bandwidth(from) {
            return;
        }
        let after = round.sets.demand[to] + demand;
        // A move after which the other memory is the busier of the two gains nothing.
        if after > round.bandwidth(to) || after >= round.sets.demand[from] {
            continue;
        }
        send(round, task, from, to);
    }
}
