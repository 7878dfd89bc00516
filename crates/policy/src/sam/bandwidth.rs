//! The third step: memory-intensive tasks leave domains whose memory is saturated for domains whose memory is not.
//!
//! Figure 4 calls it `balance(P_i^Mem, P_j^Mem)` and leaves it open. Here one task after the other goes from `i` to an
//! idle core of `j`. Without an idle core it swaps with a CPU-bound task of `j` (section 4.3: "moving the CPU-bound
//! tasks to accommodate distribution of the memory-intensive tasks"). This stops when the demand of `i` is no longer
//! above the bandwidth, or when the demand of `j` would be ("we track the increase in bandwidth utilization after every
//! migration", section 3.1), or when `j` would be the busier of the two. Then the next `j` follows. Sharers stay.

use super::placement_sets::Class;
use super::round::{Cause, Round};
use super::{Activity, Excess, Reason};

/// The step.
pub(super) fn balance(round: &mut Round<'_>) {
    let memories = round.shape.memories.len();
    for from in 0..memories {
        for to in 0..memories {
            if round.sets.demand()[from] <= round.bandwidth(from) {
                break;
            }
            if to != from && round.sets.demand()[to] < round.bandwidth(to) {
                relieve(round, from, to);
            }
        }
    }
}

/// Moves a task to an idle core of another memory, or swaps it with a CPU-bound task there.
fn send(round: &mut Round<'_>, task: usize, from: usize, to: usize) -> bool {
    let shape = round.shape;
    let cells = &shape.memories[to].cells;
    let cause = Cause {
        reason: Reason::Bandwidth,
        excess: Excess {
            activity: Activity::MemoryBandwidth,
            value: round.sets.demand()[from],
            threshold: round.bandwidth(from),
        },
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
        let demand = round.sets.states()[task].demand;
        if round.sets.demand()[from] <= round.bandwidth(from) {
            return;
        }
        let after = round.sets.demand()[to] + demand;
        // A move after which the other memory is the busier of the two gains nothing.
        if after > round.bandwidth(to) || after >= round.sets.demand()[from] {
            continue;
        }
        send(round, task, from, to);
    }
}
