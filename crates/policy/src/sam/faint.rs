//! Sharers below the paper's threshold: tasks of a process whose traffic between domains is a little less than the
//! threshold.
//!
//! At the threshold *two* threads lose 5 %. Where many threads meet at barriers, each waits for all that the slowest
//! one has lost, and a program may lose twice as much with half the traffic. No counter shows that in advance, so a
//! trial does. All tasks of the process, with traffic or without, are gathered if a domain has room for all of them.
//! They stay if they make more progress than before, by the same trial as other moves (`trial`). One group is tried at
//! a time, and only while nothing else is moved. A group that gained nothing is not tried again until most of its
//! traffic is of tasks whose traffic has changed since: one task whose traffic stays must not keep all others apart.

use super::coherence::{self, Gathering};
use super::groups::{self, Groups};
use super::options::FAINT;
use super::placement_sets::Class;
use super::round::Round;

/// A group has failed when tasks with this share of its traffic have. Assumed: most of it.
const MOST: f64 = 0.5;

/// Gathers one group, the largest that can be moved.
pub(super) fn gather(round: &mut Round<'_>, groups: &mut Groups) -> Option<Gathering> {
    if !find(round, groups) {
        return None;
    }
    let mut numbers = groups.order().to_vec().into_iter();
    numbers.find_map(|number| coherence::attempt(round, groups, number, coherence::pull_together))
}

/// Finds the groups that may be tried; whether there are any.
fn find(round: &Round<'_>, groups: &mut Groups) -> bool {
    groups.clear(round);
    for task in 0..round.sets.states().len() {
        if has_traffic(round, task) {
            groups.number(round, task);
        }
    }
    let mut out = vec![false; groups.list().len()];
    // By group: the traffic of all its tasks, and of the tasks whose trial has failed.
    let mut traffic = vec![(0.0, 0.0); groups.list().len()];
    for task in 0..round.sets.states().len() {
        let state = round.sets.states()[task];
        if let (true, Some(place)) = (state.class != Class::Idle, round.place(task))
            && let Some(number) = groups.enter(round, task, place.domain)
        {
            groups.ask(number, place.domain, task);
            out[number] |= !state.movable;
            if has_traffic(round, task) {
                let (all, failed) = &mut traffic[number];
                *all += state.inter;
                if groups::failures(round, task) > 0 {
                    *failed += state.inter;
                }
            }
        }
    }
    groups::choose_homes(round, groups);
    groups.keep(|number, group| {
        let fits = group
            .home
            .is_some_and(|home| group.size <= round.sets.capacity(round.shape, home));
        let (all, failed) = traffic[number];
        fits && !out[number] && failed < MOST * all
    });
    !groups.order().is_empty()
}

/// Whether a task shares data, possibly less than the threshold, and its progress is known.
fn has_traffic(round: &Round<'_>, task: usize) -> bool {
    let state = round.sets.states()[task];
    let known = round.memory.tasks()[task].throughput().is_some();
    let busy = !matches!(state.class, Class::Idle | Class::Unknown);
    known && busy && state.inter > FAINT * round.thresholds.coherence
}
