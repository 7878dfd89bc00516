//! The third step: memory-intensive tasks leave domains whose memory is saturated for others where it is not.
//!
//! Figure 4 calls it `balance(P_i^Mem, P_j^Mem)` and leaves it open. Here: one after the other goes from `i` to an idle
//! core of `j`, or where there is none swaps with a CPU-bound task of `j` (section 4.3: "moving the CPU-bound tasks to
//! accommodate distribution of the memory-intensive tasks"), until the demand of `i` is no longer above the bandwidth,
//! or that of `j` would be ("we track the increase in bandwidth utilization after every migration", section 3.1). Then
//! the next `j`. Sharers stay.
//!
//! Memory slows down before it is saturated. With `faint_contention` a memory-intensive task of the busiest memory is
//! moved to the least busy one for a trial, where that is left the less busy of the two; it stays if the
//! memory-intensive tasks of both get more done so. Where it does not help, the next trial is twice as far away, and
//! after a few that did not there is none before other tasks use the memories (`Evening`).

use super::board::Class;
use super::coherence::Gathering;
use super::round::{Cause, Round};
use super::{Activity, Reason};

/// The step.
pub(super) fn balance(round: &mut Round<'_>) {
    let memories = round.shape.memories.len();
    for from in 0..memories {
        for to in 0..memories {
            if round.board.demand[from] <= round.bandwidth(from) {
                break;
            }
            if to != from && round.board.demand[to] < round.bandwidth(to) {
                relieve(round, from, to);
            }
        }
    }
}

/// From which share of the bandwidth on a memory is busy enough for somebody to leave it on trial.
const BUSY: f64 = 0.5;

/// After so many intervals the next task may be tried, twice as many after each that did not help.
const FIRST_WAIT: u64 = 10;

/// After so many in a row that did not help there is no trial before the number of memory-intensive tasks is another.
const MOST_FAILURES: u32 = 3;

/// When demands may be evened out again.
#[derive(Debug, Default)]
pub(super) struct Evening {
    not_before: u64,
    failures: u32,
    /// How many memory-intensive tasks there were.
    tasks: usize,
}

impl Evening {
    /// Takes note of how a trial went.
    pub(super) fn note(&mut self, now: u64, helped: bool) {
        self.failures = if helped { 0 } else { self.failures + 1 };
        self.not_before = now + (FIRST_WAIT << self.failures);
    }

    /// Moves one task from the busiest memory to the least busy one, if that leaves them more even and it is time.
    pub(super) fn even(&mut self, round: &mut Round<'_>) -> Option<Gathering> {
        let seats = round.board.seats.iter();
        let tasks = seats.filter(|seat| seat.class == Class::Memory).count();
        if self.tasks != tasks {
            *self = Self {
                tasks,
                ..Self::default()
            };
        }
        if round.now < self.not_before || self.failures >= MOST_FAILURES {
            return None;
        }
        let load = |memory: &usize| round.board.demand[*memory] / round.bandwidth(*memory);
        let by_load = |one: &usize, other: &usize| load(one).total_cmp(&load(other)).then(other.cmp(one));
        let from = (0..round.shape.memories.len()).max_by(by_load)?;
        let to = (0..round.shape.memories.len()).min_by(by_load)?;
        if load(&from) <= BUSY {
            return None;
        }
        let shape = round.shape;
        let tasks = round.board.memory_tasks(&shape.memories[from].cells);
        tasks.into_iter().find_map(|task| {
            let after = round.board.demand[to] + round.board.seats[task].demand;
            let more_even = after / round.bandwidth(to) < round.board.demand[from] / round.bandwidth(from);
            (more_even && send(round, task, from, to)).then(|| Gathering {
                sharers: vec![],
                movers: vec![task],
            })
        })
    }
}

/// Moves a task to an idle core of another memory, or has it change places with a CPU-bound task there.
fn send(round: &mut Round<'_>, task: usize, from: usize, to: usize) -> bool {
    let shape = round.shape;
    let cells = &shape.memories[to].cells;
    let cause = Cause {
        reason: Reason::Bandwidth,
        activity: Activity::MemoryBandwidth,
        value: round.board.demand[from],
        threshold: round.bandwidth(from),
    };
    if round.move_to_idle(task, cells, cause) {
        return true;
    }
    let partner = round.board.partner(shape, round.tasks, Class::Cpu, cells, task);
    if let Some(other) = partner {
        round.swap(task, other, cause, false);
    }
    partner.is_some()
}

fn relieve(round: &mut Round<'_>, from: usize, to: usize) {
    for task in round.board.memory_tasks(&round.shape.memories[from].cells) {
        let demand = round.board.seats[task].demand;
        if round.board.demand[from] <= round.bandwidth(from) {
            return;
        }
        let after = round.board.demand[to] + demand;
        // Where it would only make the other the fuller of the two, nothing is gained.
        if after > round.bandwidth(to) || (round.options.cost_gain && after >= round.board.demand[from]) {
            continue;
        }
        send(round, task, from, to);
    }
}
