//! The first step: tasks with coherence traffic between domains are brought together.
//!
//! This is how figure 4 is read here. For each domain `i` with such tasks, for each other domain `j`, while
//! `|P_i^inter| + |P_i^intra| < |C_i|` and `P_j^inter` is not empty (the figure's `if (j = i)` contradicts its loop
//! over `S \ {i}` and is left out; the figure has `P_j^intra`, but the sharers of `i` have to fit):
//!
//! 1. While there are idle cores in `i`: move a task there.
//! 2. While there are CPU-bound tasks in `i`: swap with one. The figure lacks this `while`; without it, it would swap
//!    with the first element of a set that may be empty.
//! 3. While there are memory-intensive tasks in `i`: swap with one, reluctantly.
//!
//! The figure also leaves the order of the domains open. The domain with the most such tasks comes first, so that the
//! fewest tasks move. A domain that has received tasks gives none in the same decision: the sets describe the last
//! interval and no longer hold for these tasks.
//!
//! With `learn_groups` the step works by group: all tasks of a process, or the tasks that were seen to share. The
//! groups choose their domains, the largest group first, so that no group takes the place of another. Two tasks that
//! each belong in the other's domain swap. A group that is all in one domain and still has traffic with others shares
//! data across processes; such tasks are one group together. A group that fits into one domain is gathered there. For a
//! group that fits nowhere, sorting is tried first: tasks exchange their places so that neighbours by rank are
//! together, with as many tasks in each domain as before. Sorting changes no task's room or bandwidth. What does not
//! help is rolled back (`trial`), and the other method is tried.
//!
//! Half a group that has come together shows no effect. So a group without room waits while others move: on a machine
//! with many small domains, the tasks that take its room often belong elsewhere themselves. They make room. If no
//! group fits as a whole, the tasks that do fit are moved, as in the figure.

use super::groups::{self, Groups, Method};
use super::placement_sets::Class;
use super::potential::Change;
use super::round::{Cause, Round};
use super::{Activity, Excess, Reason};

/// Tasks that were moved for one group; validation observes them.
#[derive(Debug)]
pub(super) struct Gathering {
    /// The tasks with traffic, moved or not.
    pub(super) sharers: Vec<usize>,
    /// Those that were moved.
    pub(super) movers: Vec<usize>,
}

/// The step. Returns the gathered tasks of each group. `waiting`: earlier moves may still make room, so no group is
/// moved in part.
pub(super) fn gather(round: &mut Round<'_>, groups: &mut Groups, waiting: bool) -> Vec<Gathering> {
    if !groups::find(round, groups) {
        return vec![];
    }
    let mut gatherings = vec![];
    let mut postponed = vec![];
    for index in 0..groups.order().len() {
        let number = groups.order()[index];
        let sorted = match groups.list()[number].method {
            Method::Sort => attempt(round, groups, number, sort),
            Method::Pull => None,
        };
        if sorted.is_some() {
            gatherings.extend(sorted);
        } else if has_room(round, groups, number) {
            gatherings.extend(attempt(round, groups, number, pull_together));
        } else {
            postponed.push(number);
        }
    }
    if gatherings.is_empty() && !(waiting && round.options.learn_groups) {
        let pulled = postponed
            .into_iter()
            .filter_map(|number| attempt(round, groups, number, pull_together));
        gatherings.extend(pulled);
    }
    gatherings
}

impl Gathering {
    /// The moves of a group, if it had any.
    fn of(groups: &Groups, number: usize, movers: Vec<usize>) -> Option<Self> {
        (!movers.is_empty()).then(|| Self {
            sharers: groups.list()[number].asking(),
            movers,
        })
    }
}

/// The moves of a group, if they lower the potential. Other groups see them from then on.
///
/// Without `learn_groups` it is not known who shares with whom, and the moves stay as in the figure.
pub(super) fn attempt(
    round: &mut Round<'_>,
    groups: &mut Groups,
    number: usize,
    gather: impl FnOnce(&mut Round<'_>, &Groups, usize) -> Option<Gathering>,
) -> Option<Gathering> {
    let savepoint = round.save();
    let gathering = gather(round, groups, number)?;
    let moves = round.moves_since(&savepoint);
    if round.options.learn_groups && !Change::by(round, groups, moves).lowers() {
        round.restore(savepoint);
        return None;
    }
    groups.note_moves(round, moves);
    Some(gathering)
}

/// Whether all of a group fits into its home at once.
fn has_room(round: &Round<'_>, groups: &Groups, number: usize) -> bool {
    let group = &groups.list()[number];
    let Some(home) = group.home else { return false };
    let elsewhere = || (0..group.inter.len()).filter(|&domain| domain != home);
    let coming: usize = elsewhere().map(|domain| group.inter[domain].len()).sum();
    let sharers: usize = elsewhere().map(|domain| group.sharers[domain]).sum();
    let room = round.sets.room(&round.shape.domains[home].cells);
    coming == sharers && coming <= room + non_members(round, groups, number, home).take(coming).count()
}

/// Tasks of other groups that are in `target`, belong elsewhere, and can make room there.
fn non_members<'r>(
    round: &'r Round<'_>,
    groups: &'r Groups,
    number: usize,
    target: usize,
) -> impl Iterator<Item = usize> + 'r {
    let others = groups.order().iter().filter(move |&&other| other != number);
    let others = others.map(|&other| &groups.list()[other]);
    let others = others.filter(move |group| group.home != Some(target));
    let tasks = others.flat_map(move |group| group.inter[target].iter().copied());
    tasks.filter(|&task| round.sets.states()[task].movable)
}

/// Gathers a group in one domain: its home, or the next domain if the home has no room.
pub(super) fn pull_together(round: &mut Round<'_>, groups: &Groups, number: usize) -> Option<Gathering> {
    let group = &groups.list()[number];
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
        // Another domain than its home gets those tasks of the group that have no room in the home.
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

/// Brings one task to a domain; whether that was possible.
fn pull(round: &mut Round<'_>, groups: &Groups, task: usize, target: usize) -> bool {
    let Some(place) = round.place(task).filter(|_| round.sets.states()[task].movable) else {
        return false;
    };
    let cause = cause(round, task);
    if let Some(other) = swap_partner(round, groups, task, place.domain, target) {
        round.swap(task, other, cause, false);
        return true;
    }
    if round.sets.sharers()[target] >= round.sets.capacity(round.shape, target) {
        return swap_with_non_member(round, groups, task, target);
    }
    let shape = round.shape;
    let cells = &shape.domains[target].cells;
    if round.move_to_idle(task, cells, cause) {
        return true;
    }
    for class in [Class::Cpu, Class::Memory] {
        // The tasks that share with it are in that domain, or come there.
        let own = |other: usize| groups.group_of(other).is_some() && groups.group_of(other) == groups.group_of(task);
        let partner = round
            .sets
            .partner_where(shape, round.tasks, class, cells, task, |other| !own(other));
        if let Some(other) = partner {
            round.swap(task, other, cause, class == Class::Memory);
            return true;
        }
    }
    swap_with_non_member(round, groups, task, target)
}

/// Exchanges the places of a task and one of another group that is not in its home either. The other one comes to its
/// own home in one of the next decisions.
fn swap_with_non_member(round: &mut Round<'_>, groups: &Groups, task: usize, target: usize) -> bool {
    let Some(own) = groups.group_of(task) else { return false };
    if groups.list()[own].home != Some(target) {
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

/// A task of another group that is in `target` and belongs where `task` is.
fn swap_partner(round: &Round<'_>, groups: &Groups, task: usize, here: usize, target: usize) -> Option<usize> {
    let own = groups.group_of(task);
    groups.order().iter().take(MOST_OTHERS).find_map(|&number| {
        let group = &groups.list()[number];
        if group.home != Some(here) || own == Some(number) {
            return None;
        }
        let mut others = group.inter[target].iter().copied();
        others.find(|&other| round.sets.can_swap(round.shape, round.tasks, task, other))
    })
}

/// A partner for the opposite direction is searched in this number of groups, the largest first. This limits the time
/// of a decision.
const MOST_OTHERS: usize = 4;

/// Tasks of a group exchange their places so that neighbours by rank are in one domain, with as many tasks in each
/// domain as before. No task's room or bandwidth changes. In most programs that divide an array, threads share data
/// with their neighbours only, and this is sufficient.
fn sort(round: &mut Round<'_>, groups: &Groups, number: usize) -> Option<Gathering> {
    let group = &groups.list()[number];
    let mut movers = vec![];
    let mut tasks: Vec<(usize, usize)> = vec![];
    for (domain, there) in group.inter.iter().enumerate() {
        tasks.extend(there.iter().map(|&task| (task, domain)));
    }
    tasks.sort_unstable();
    let mut free: Vec<usize> = group.inter.iter().map(Vec::len).collect();
    // By domain: the tasks that are to leave it, and their new domains.
    let mut leaving: Vec<Vec<(usize, usize)>> = vec![vec![]; free.len()];
    let mut rest = &tasks[..];
    while !rest.is_empty() {
        // The domain that already has most of the next block keeps it.
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
        excess: Excess {
            activity: Activity::InterPackageCoherence,
            value: round.sets.states()[task].inter,
            threshold: round.thresholds.coherence,
        },
    }
}
