//! Whether a move for coherence is expected to gain more than it costs.

use super::options::LOSS_AT_THRESHOLD;
use super::placement_sets::Class;
use super::round::Round;

/// How many intervals a gain is expected to last: at least one, and no longer than a second of the paper's 100 ms.
const LONGEST_GAIN: f64 = 10.0;

/// What share of an interval a task loses when it is moved. Assumed: 10 ms to fill a megabyte or two of caches at what
/// a core gets of its memory while it does something else; measured moves on simulated machines cost less.
const MOVE_COST: f64 = 0.1;

/// What share of its time a memory-intensive task loses at most when its memory is remote. Assumed: remote latency is
/// about 1.5 times local latency on the machines of machines/.
const MOST_REMOTE_LOSS: f64 = 0.3;

/// Whether bringing `task`, which has so much `traffic`, to a memory domain, where `partner` makes room for it, is
/// expected to gain more than it costs. All in shares of one task's time:
///
/// - gained: what the traffic costs, by the threshold's definition 5 % at the threshold, for the task and as much for
///   those with which it shares, for as many intervals as it stayed where it is;
/// - lost: the caches of those that move; what remote memory costs a partner that is memory-intensive; what those lose
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
    let stayed = round.now - remembered.moved.unwrap_or(remembered.born).min(round.now);
    // One that has just come has stayed for no time that says anything.
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

/// What the tasks of a memory domain lose, in tasks, when its demand grows by `grown`, or gain (negative) when it
/// falls: where demand is above the bandwidth, each memory-intensive task is held up by the share that is above.
fn saturation(round: &Round<'_>, memory: usize, grown: f64) -> f64 {
    let bandwidth = round.bandwidth(memory);
    let above = |demand: f64| (demand - bandwidth).max(0.0);
    let before = round.sets.demand[memory];
    let after = before + grown;
    // A task's demand, where it saturates the memory: a fair share.
    let area = &round.shape.memories[memory];
    let fair = bandwidth / area.cores as f64;
    (above(after) - above(before)) / fair
}
