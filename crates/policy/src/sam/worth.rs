//! Whether a move for coherence is expected to gain more than it costs.

use super::options::LOSS_AT_THRESHOLD;
use super::placement_sets::Class;
use super::round::Round;

/// The number of intervals that a gain is expected to last: at least one, and at most a second of the paper's 100 ms.
const LONGEST_GAIN: f64 = 10.0;

/// The share of an interval that a task loses by a move. Assumed: 10 ms to fill a megabyte or two of caches at a core's
/// share of the memory bandwidth. Measured moves on simulated machines cost less.
const MOVE_COST: f64 = 0.1;

/// The largest share of its time that a memory-intensive task loses with remote memory. Assumed: remote latency is
/// about 1.5 times local latency on the machines of machines/.
const MOST_REMOTE_LOSS: f64 = 0.3;

/// Whether bringing `task`, with this `traffic`, to a memory domain, where `partner` makes room for it, is expected to
/// gain more than it costs. All in shares of one task's time:
///
/// - gained: the cost of the traffic, which is 5 % at the threshold by definition, for the task and the same for those
///   with which it shares, for the number of intervals that it stayed where it is;
/// - lost: the caches of the tasks that move; the cost of remote memory for a memory-intensive partner; the loss of
///   tasks whose memory becomes saturated, minus the relief where the task was.
///   whose memory is saturated by it, less what it relieves where the task was.
pub(super) fn is_worth_it(round: &Round<'_>, task: usize, traffic: f64, to: usize, partner: Option<usize>) -> bool {
    if !round.options.cost_gain {
        return true;
    }
    let Some(from) = round.place(task).map(|place| place.memory) else {
        return false;
    };
    let state = round.sets.states[task];
    let remembered = &round.memory.tasks()[task];
    let stayed = round.now - remembered.moved.unwrap_or(remembered.began).min(round.now);
    // A task that has just arrived has no history.
    let lasts = if remembered.moved.is_none() {
        LONGEST_GAIN
    } else {
        (stayed as f64).clamp(1.0, LONGEST_GAIN)
    };
    let gain = 2.0 * (LOSS_AT_THRESHOLD * traffic / round.thresholds.coherence).min(1.0);
    let other = partner.map(|partner| round.sets.states[partner]);
    let leaves_memory = other.filter(|other| other.class == Class::Memory && from != to);
    let remote = leaves_memory.map_or(0.0, |other| {
        (LOSS_AT_THRESHOLD * other.demand / round.thresholds.remote).min(MOST_REMOTE_LOSS)
    });
    let grown = state.demand - other.map_or(0.0, |other| other.demand);
    let crowded = if from == to || grown <= 0.0 {
        0.0
    } else {
        saturation(round, to, grown) + saturation(round, from, -grown)
    };
    let moved = if partner.is_some() { 2.0 } else { 1.0 };
    (gain - remote - crowded) * lasts > MOVE_COST * moved
}

/// The loss of the tasks of a memory domain, in tasks, when its demand grows by `grown`; negative for a gain. Above the
/// bandwidth, each memory-intensive task is delayed by the share that is above.
fn saturation(round: &Round<'_>, memory: usize, grown: f64) -> f64 {
    let bandwidth = round.bandwidth(memory);
    let above = |demand: f64| (demand - bandwidth).max(0.0);
    let before = round.sets.demand[memory];
    let after = before + grown;
    // The demand of a task that saturates the memory: a fair share.
    let area = &round.shape.memories[memory];
    let fair = bandwidth / area.cores as f64;
    (above(after) - above(before)) / fair
}
