//! The first step: tasks with coherence traffic between domains are brought together.
//!
//! Figure 4, as it is read here. For each domain `i` with such tasks, for each other domain `j` (the figure's `if (j =
//! i)` says the opposite of its loop over `S \ {i}`, and is left out), while `|P_i^inter| + |P_i^intra| < |C_i|` (the
//! figure has `P_j^intra`; what is to fit are the sharers of `i`) and `P_j^inter` is not empty:
//!
//! 1. while there are idle cores in `i`: move one there;
//! 2. while there are CPU-bound tasks in `i`: swap with one (the figure has lost this `while`; without it, it would
//!    swap with the first element of a set that may be empty);
//! 3. while there are memory-intensive tasks in `i`: swap with one, reluctantly.
//!
//! Also left open is where to begin. The domain with most of them comes first, so that the fewest move, and a domain
//! that has received tasks gives none in the same decision: the sets are those of the last interval, and say nothing of
//! them any more.
//!
//! With `learn_groups` this is done by group: the tasks of a process, or those of it that were seen to share. The
//! groups, the largest first, choose their domains so that none takes the place of another, and two tasks of which each
//! is to go where the other is swap. A group that is all in one domain and still has traffic with others shares across
//! processes; such tasks are one group together. A group that fits into one domain is pulled there; of one that fits
//! nowhere it is tried first whether it is enough to sort it: to have tasks change places so that neighbours by rank
//! are together, as many in each domain as before. Nobody's room or bandwidth changes by that. What does not help is
//! undone (`trial`), and the other way is tried.
//!
//! Half a group that has come together shows nothing. So one for which there is no room waits while others move: on a
//! machine of many small domains those that are in its way belong elsewhere themselves. They make room, too, and where
//! no group can come whole, those come that can, as in the figure.

use super::groups::{self, Groups, Method};
use super::placement_sets::Class;
use super::round::{Cause, Round};
use super::worth::is_worth_it;
use super::{Activity, Reason};

/// Tasks that were moved for one group, which validation looks at.
#[derive(Debug)]
pub(super) struct Gathering {
    /// The tasks with traffic, moved or not.
    pub(super) sharers: Vec<usize>,
    /// Those that were moved.
    pub(super) movers: Vec<usize>,
}

/// The step. What it gathered, by group. `waiting`: what was moved before may make room, and nothing is done by halves.
pub(super) fn gather(round: &mut Round<'_>, groups: &mut Groups, waiting: bool) -> Vec<Gathering> {
    if !groups::find(round, groups) {
        return vec![];
    }
    let mut gatherings = vec![];
    let mut postponed = vec![];
    for index in 0..groups.order.len() {
        let number = groups.order[index];
        let sorted = match groups.list[number].method {
            Method::Sort => sort(round, groups, number),
            Method::Pull => None,
        };
        if sorted.is_some() {
            gatherings.extend(sorted);
        } else if has_room(round, groups, number) {
            gatherings.extend(pull_together(round, groups, number));
        } else {
            postponed.push(number);
        }
    }
    if gatherings.is_empty() && !(waiting && round.options.learn_groups) {
        let pulled = postponed
            .into_iter()
            .filter_map(|number| pull_together(round, groups, number));
        gatherings.extend(pulled);
    }
    gatherings
}

impl Gathering {
    /// What was moved of a group, if anything was.
    fn of(groups: &Groups, number: usize, movers: Vec<usize>) -> Option<Self> {
        (!movers.is_empty()).then(|| Self {
            sharers: groups.list[number].asking(),
            movers,
        })
    }
}

/// Whether all of a group can come to its home at once.
fn has_room(round: &Round<'_>, groups: &Groups, number: usize) -> bool {
    let group = &groups.list[number];
    let Some(home) = group.home else { return false };
    let elsewhere = || (0..group.inter.len()).filter(|&domain| domain != home);
    let coming: usize = elsewhere().map(|domain| group.inter[domain].len()).sum();
    let sharers: usize = elsewhere().map(|domain| group.sharers[domain]).sum();
    let room = round.sets.room(&round.shape.domains[home].cells);
    coming == sharers && coming <= room + non_members(round, groups, number, home).take(coming).count()
}

/// Tasks of other groups that are at `target` and are to go elsewhere, where they can make room.
fn non_members<'r>(
    round: &'r Round<'_>,
    groups: &'r Groups,
    number: usize,
    target: usize,
) -> impl Iterator<Item = usize> + 'r {
    let others = groups.order.iter().filter(move |&&other| other != number);
    let others = others.map(|&other| &groups.list[other]);
    let others = others.filter(move |group| group.home != Some(target));
    let tasks = others.flat_map(move |group| group.inter[target].iter().copied());
    tasks.filter(|&task| round.sets.states[task].movable)
}

/// Pulls a group into one domain: its home, or where that has no room, the next.
pub(super) fn pull_together(round: &mut Round<'_>, groups: &Groups, number: usize) -> Option<Gathering> {
    let group = &groups.list[number];
    let mut movers = vec![];
    let mut targets: Vec<usize> = (0..group.sharers.len())
        .filter(|&domain| group.sharers[domain] > 0)
        .collect();
    targets.sort_by_key(|&domain| {
        (
            Some(domain) != group.home,
            std::cmp::Reverse(group.sharers[domain]),
            domain,
        )
    });
    if let Some(home) = group.home.filter(|home| !targets.contains(home)) {
        targets.insert(0, home);
    }
    for (rank, &target) in targets.iter().enumerate() {
        // Into a domain that is not its home the group comes for those that have no room there.
        let most = if rank == 0 {
            usize::MAX
        } else {
            group.inter[target].len()
        };
        let package = round.shape.domains[target].package;
        let mut sources: Vec<usize> = targets.iter().copied().filter(|&source| source != target).collect();
        sources.sort_by_key(|&source| (round.shape.domains[source].package != package, source));
        for source in sources {
            for &task in &group.inter[source] {
                if movers.len() < most && pull(round, groups, task, target) {
                    movers.push(task);
                }
            }
        }
        if !movers.is_empty() {
            break;
        }
    }
    Gathering::of(groups, number, movers)
}

/// Brings one task to a domain; whether it could be done and was worth it.
fn pull(round: &mut Round<'_>, groups: &Groups, task: usize, target: usize) -> bool {
    let Some(place) = round.place(task).filter(|_| round.sets.states[task].movable) else {
        return false;
    };
    let cause = cause(round, task);
    if let Some(other) = swap_partner(round, groups, task, place.domain, target) {
        round.swap(task, other, cause, false);
        return true;
    }
    if round.sets.sharers[target] >= round.sets.capacity(round.shape, target) {
        return swap_with_non_member(round, groups, task, target);
    }
    let least = groups.of[task].map_or(0.0, |number| groups.list[number].least_traffic);
    let traffic = round.sets.states[task].inter.max(least);
    let shape = round.shape;
    let cells = &shape.domains[target].cells;
    if let Some(position) = round.sets.idle(shape, round.tasks, cells, task) {
        let worth = is_worth_it(round, task, traffic, shape.places[position].memory, None);
        if worth {
            round.move_to(task, position, cause);
        }
        return worth;
    }
    for class in [Class::Cpu, Class::Memory] {
        // Who shares with it is to be where it goes.
        let own = |other: usize| groups.of[other].is_some() && groups.of[other] == groups.of[task];
        let partner = round
            .sets
            .partner_where(shape, round.tasks, class, cells, task, |other| !own(other));
        if let Some(other) = partner {
            let to = round
                .place(other)
                .expect("a partner is on a PU that may be used")
                .memory;
            if is_worth_it(round, task, traffic, to, Some(other)) {
                round.swap(task, other, cause, class == Class::Memory);
                return true;
            }
        }
    }
    swap_with_non_member(round, groups, task, target)
}

/// Has a task change places with one of another group that is not where it is to go, either. That one comes to its own
/// home in one of the next decisions.
fn swap_with_non_member(round: &mut Round<'_>, groups: &Groups, task: usize, target: usize) -> bool {
    let Some(own) = groups.of[task] else { return false };
    if groups.list[own].home != Some(target) {
        return false;
    }
    let suits = |&other: &usize| round.sets.can_swap(round.shape, round.tasks, task, other);
    let non_member = non_members(round, groups, own, target).find(suits);
    if let Some(other) = non_member {
        let cause = cause(round, task);
        round.swap(task, other, cause, false);
    }
    non_member.is_some()
}

/// A task of another group that is at `target` and is to go where `task` is.
fn swap_partner(round: &Round<'_>, groups: &Groups, task: usize, here: usize, target: usize) -> Option<usize> {
    let own = groups.of[task];
    groups.order.iter().take(MOST_OTHERS).find_map(|&number| {
        let group = &groups.list[number];
        if group.home != Some(here) || own == Some(number) {
            return None;
        }
        let mut others = group.inter[target].iter().copied();
        others.find(|&other| round.sets.can_swap(round.shape, round.tasks, task, other))
    })
}

/// Among so many of the largest groups somebody is looked for who wants to go the other way.
const MOST_OTHERS: usize = 4;

/// Has tasks of a group change places so that neighbours by rank are in one domain, as many in each as before. Nobody's
/// room or bandwidth changes by it, and where threads share with their neighbours, as they do in most programs that
/// divide an array, this is all that is needed.
fn sort(round: &mut Round<'_>, groups: &Groups, number: usize) -> Option<Gathering> {
    let group = &groups.list[number];
    let mut movers = vec![];
    let mut tasks: Vec<(usize, usize)> = vec![];
    for (domain, there) in group.inter.iter().enumerate() {
        tasks.extend(there.iter().map(|&task| (task, domain)));
    }
    tasks.sort_unstable();
    let mut free: Vec<usize> = group.inter.iter().map(Vec::len).collect();
    // By domain: who is there and is to leave it, and for where.
    let mut leaving: Vec<Vec<(usize, usize)>> = vec![vec![]; free.len()];
    let mut rest = &tasks[..];
    while !rest.is_empty() {
        // The domain that has most of the next block already keeps it.
        let here = |domain: &usize| {
            let block = &rest[..free[*domain]];
            let kept = block.iter().filter(|(_, there)| there == domain).count();
            (kept, std::cmp::Reverse(*domain))
        };
        let Some(target) = (0..free.len()).filter(|&domain| free[domain] > 0).max_by_key(here) else {
            break;
        };
        let (block, others) = rest.split_at(std::mem::take(&mut free[target]));
        for &(task, domain) in block.iter().filter(|(_, domain)| *domain != target) {
            leaving[domain].push((task, target));
        }
        rest = others;
    }
    for domain in 0..leaving.len() {
        for (task, target) in std::mem::take(&mut leaving[domain]) {
            let returns = |&(other, to): &(usize, usize)| {
                to == domain && round.sets.can_swap(round.shape, round.tasks, task, other)
            };
            if let Some(index) = leaving[target].iter().position(returns) {
                let (other, _) = leaving[target].remove(index);
                let cause = cause(round, task);
                round.swap(task, other, cause, false);
                movers.extend([task, other]);
            }
        }
    }
    Gathering::of(groups, number, movers)
}

fn cause(round: &Round<'_>, task: usize) -> Cause {
    Cause {
        reason: Reason::Coherence,
        activity: Activity::InterPackageCoherence,
        value: round.sets.states[task].inter,
        threshold: round.thresholds.coherence,
    }
}
