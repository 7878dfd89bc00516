//! The third step: memory-intensive tasks leave domains whose memory is saturated for others where it is not.
//!
//! Figure 4 calls it `balance(P_i^Mem, P_j^Mem)` and leaves it open. Here: one after the other goes from `i` to an idle
//! core of `j`, or where there is none swaps with a CPU-bound task of `j` (section 4.3: "moving the CPU-bound tasks to
//! accommodate distribution of the memory-intensive tasks"), until the demand of `i` is no longer above the bandwidth,
//! or that of `j` would be ("we track the increase in bandwidth utilization after every migration", section 3.1). Then
//! the next `j`. Sharers stay.

use super::board::Class;
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

fn relieve(round: &mut Round<'_>, from: usize, to: usize) {
    let shape = round.shape;
    let cells = &shape.memories[to].cells;
    for task in round.board.memory_tasks(&shape.memories[from].cells) {
        let demand = round.board.seats[task].demand;
        if round.board.demand[from] <= round.bandwidth(from) {
            return;
        }
        let after = round.board.demand[to] + demand;
        // Where it would only make the other the fuller of the two, nothing is gained.
        if after > round.bandwidth(to) || (round.options.cost_gain && after >= round.board.demand[from]) {
            continue;
        }
        let cause = Cause {
            reason: Reason::Bandwidth,
            activity: Activity::MemoryBandwidth,
            value: round.board.demand[from],
            threshold: round.bandwidth(from),
        };
        if round.move_to_idle(task, cells, cause) {
            continue;
        }
        if let Some(other) = round.board.partner(shape, round.tasks, Class::Cpu, cells, task) {
            round.swap(task, other, cause, false);
        }
    }
}
