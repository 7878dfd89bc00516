//! The first step: tasks with coherence traffic between domains are brought together.
//!
//! Figure 4, as it is read here. For each domain `i` with such tasks, for each other domain `j` (the figure's `if (j = i)` says
//! the opposite of its loop over `S \ {i}`, and is left out), while `|P_i^inter| + |P_i^intra| < |C_i|` (the figure has
//! `P_j^intra`; what is to fit are the sharers of `i`) and `P_j^inter` is not empty:
//!
//! 1. while there are idle cores in `i`: move one there;
//! 2. while there are CPU-bound tasks in `i`: swap with one (the figure has lost this `while`; without it, it would swap with
//!    the first element of a set that may be empty);
//! 3. while there are memory-intensive tasks in `i`: swap with one, reluctantly.
//!
//! Also left open is where to begin. The domain with most of them comes first, so that the fewest move, and a domain that has
//! received tasks gives none in the same decision: the sets are those of the last interval, and say nothing of them any more.
//!
//! With `learn_groups` this is done by group: the tasks of a process, or those of it that were seen to share. The groups, the
//! largest first, choose their domains so that none takes the place of another, and two tasks of which each is to go where the
//! other is swap. A group that is all in one domain and still has traffic with others shares across processes; such tasks are
//! one group together. Of a group that fits into no domain, first half of the tasks with traffic between two domains swap, the
//! first of one with the last of the other: neighbours by rank come together then, and of pairs in any order half. If that does
//! not help, as many as fit are pulled together.

use super::board::Class;
use super::options::LOSS_AT_THRESHOLD;
use super::round::{Cause, Round};
use super::{Activity, Reason};
use std::collections::HashMap;

/// How many intervals a gain is expected to last: at least one, and no longer than a second of the paper's 100 ms.
const LONGEST_GAIN: f64 = 10.0;

/// What share of an interval a task loses when it is moved. Assumed: 10 ms to fill a megabyte or two of caches at what a core gets
/// of its memory while it does something else; measured moves on simulated machines cost less.
const MOVE_COST: f64 = 0.1;

/// What share of its time a memory-intensive task loses at most when its memory is remote. Assumed: remote latency is about
/// 1.5 times local latency on the machines of machines/.
const MOST_REMOTE_LOSS: f64 = 0.3;

/// Tasks that were moved for one group, which validation looks at.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// The tasks with traffic, moved or not.
    pub(super) sharers: Vec<usize>,
    /// Those that were moved.
    pub(super) movers: Vec<usize>,
}

/// The groups that have traffic between domains, and where they are. Kept for its memory only.
#[derive(Debug, Default)]
pub(super) struct Groups {
    numbers: HashMap<(i32, u32), usize>,
    /// By number.
    list: Vec<Group>,
    /// How many are in use.
    used: usize,
    order: Vec<usize>,
    /// By task: its group, if that has traffic.
    of: Vec<Option<usize>>,
}

#[derive(Debug, Default)]
struct Group {
    /// By domain: its tasks of the set `P^inter` that may be moved.
    inter: Vec<Vec<usize>>,
    /// By domain: its sharers.
    sharers: Vec<usize>,
    size: usize,
    /// Where it is brought together first.
    home: Option<usize>,
    way: Way,
}

/// The step. What it gathered, by group.
pub(super) fn gather(round: &mut Round<'_>, groups: &mut Groups) -> Vec<Gathering> {
    if !find_groups(round, groups) {
        return vec![];
    }
    choose_homes(round, groups);
    choose_ways(round, groups);
    let mut gatherings = vec![];
    for index in 0..groups.order.len() {
        let number = groups.order[index];
        let mut gathering = Gathering::default();
        if groups.list[number].way == Way::Mix {
            mix(round, groups, number, &mut gathering.movers);
        }
        if gathering.movers.is_empty() {
            pull_together(round, groups, number, &mut gathering.movers);
        }
        if !gathering.movers.is_empty() {
            gathering.sharers = groups.list[number].inter.iter().flatten().copied().collect();
            gatherings.push(gathering);
        }
    }
    gatherings
}

/// Whether a task asks to be moved.
fn asks(round: &Round<'_>, task: usize) -> bool {
    let seat = round.board.seats[task];
    seat.class == Class::Inter && seat.movable && failures(round, task) < WAYS.len()
}

/// How many ways have failed for a task.
fn failures(round: &Round<'_>, task: usize) -> usize {
    round.memory.tasks()[task].failures(round.board.seats[task].inter)
}

/// How a group is brought together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    /// Into one domain.
    #[default]
    Pull,
    /// By swaps between domains.
    Mix,
}

/// The ways of bringing a group together that fits into no domain. One that fits is only pulled.
const WAYS: [Way; 2] = [Way::Mix, Way::Pull];

/// Finds the groups of all tasks that ask; whether there are any.
fn find_groups(round: &Round<'_>, groups: &mut Groups) -> bool {
    let domains = round.shape.domains.len();
    groups.numbers.clear();
    groups.used = 0;
    groups.of.clear();
    groups.of.resize(round.board.seats.len(), None);
    for task in 0..round.board.seats.len() {
        if asks(round, task) {
            let key = key(round, task);
            let next = groups.numbers.len();
            let number = *groups.numbers.entry(key).or_insert(next);
            if number == next {
                groups.clear_group(number, domains);
            }
        }
    }
    if groups.used == 0 {
        return false;
    }
    for task in 0..round.board.seats.len() {
        let class = round.board.seats[task].class;
        if let (Class::Inter | Class::Intra, Some(place)) = (class, round.place(task))
            && let Some(&number) = groups.numbers.get(&key(round, task))
        {
            groups.of[task] = Some(number);
            groups.list[number].sharers[place.domain] += 1;
            groups.list[number].size += 1;
            if asks(round, task) {
                groups.list[number].inter[place.domain].push(task);
            }
        }
    }
    if round.options.learn_groups {
        groups.pool_those_in_one_domain(domains);
    }
    true
}

/// By what tasks are grouped.
fn key(round: &Round<'_>, task: usize) -> (i32, u32) {
    if !round.options.learn_groups {
        return (0, 0);
    }
    let remembered = &round.memory.tasks()[task];
    (remembered.id.process, remembered.group.unwrap_or(0))
}

impl Groups {
    fn clear_group(&mut self, number: usize, domains: usize) {
        if number == self.list.len() {
            self.list.push(Group::default());
        }
        let group = &mut self.list[number];
        group.inter.resize_with(domains, Vec::new);
        group.inter.iter_mut().for_each(Vec::clear);
        group.sharers.clear();
        group.sharers.resize(domains, 0);
        group.size = 0;
        group.home = None;
        self.used = number + 1;
    }

    /// Tasks whose group is all in one domain share with tasks of other groups.
    fn pool_those_in_one_domain(&mut self, domains: usize) {
        let alone = |group: &Group| group.sharers.iter().filter(|&&sharers| sharers > 0).count() == 1;
        let lonely: Vec<usize> = (0..self.used).filter(|&number| alone(&self.list[number])).collect();
        if lonely.len() < 2 {
            return;
        }
        let pool = self.used;
        self.clear_group(pool, domains);
        for number in lonely {
            for domain in 0..domains {
                let tasks = std::mem::take(&mut self.list[number].inter[domain]);
                self.list[pool].inter[domain].extend(&tasks);
                let sharers = std::mem::take(&mut self.list[number].sharers[domain]);
                self.list[pool].sharers[domain] += sharers;
            }
            self.list[pool].size += self.list[number].size;
            self.list[number].size = 0;
        }
        for tasks in &mut self.list[pool].inter {
            tasks.sort_unstable();
        }
    }
}

/// Chooses where each group is brought together, the largest group first: where it has most sharers of those domains in which all
/// of it fits beside the groups before; where it fits nowhere, where it has most.
fn choose_homes(round: &Round<'_>, groups: &mut Groups) {
    groups.order.clear();
    groups
        .order
        .extend((0..groups.used).filter(|&number| groups.list[number].size > 0));
    groups
        .order
        .sort_by_key(|&number| std::cmp::Reverse(groups.list[number].size));
    let mut taken = vec![0; round.shape.domains.len()];
    for &number in &groups.order {
        let group = &mut groups.list[number];
        let fits = |domain: usize| taken[domain] + group.size <= round.board.capacity(round.shape, domain);
        let rank = |&domain: &usize| (fits(domain), group.sharers[domain], std::cmp::Reverse(domain));
        let home = (0..taken.len()).max_by_key(rank);
        if let Some(home) = home {
            taken[home] += group.size;
        }
        group.home = home;
    }
}

/// Chooses how each group is brought together, and leaves out the tasks for which all ways have failed.
fn choose_ways(round: &Round<'_>, groups: &mut Groups) {
    let most = (0..round.shape.domains.len())
        .map(|domain| round.board.capacity(round.shape, domain))
        .max();
    for &number in &groups.order {
        let group = &mut groups.list[number];
        let fits = !round.options.learn_groups || most.is_some_and(|most| group.size <= most);
        let ways = if fits { &[Way::Pull][..] } else { &WAYS };
        for tasks in &mut group.inter {
            tasks.retain(|&task| failures(round, task) < ways.len());
        }
        let tasks = group.inter.iter().flatten();
        let failed = tasks.map(|&task| failures(round, task)).max().unwrap_or(0);
        group.way = ways[failed];
    }
}

/// Pulls a group into one domain: its home, or where that has no room, the next.
fn pull_together(round: &mut Round<'_>, groups: &Groups, number: usize, movers: &mut Vec<usize>) {
    let group = &groups.list[number];
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
            return;
        }
    }
}

/// Brings one task to a domain; whether it could be done and was worth it.
fn pull(round: &mut Round<'_>, groups: &Groups, task: usize, target: usize) -> bool {
    let Some(place) = round.place(task).filter(|_| round.board.seats[task].movable) else {
        return false;
    };
    let cause = cause(round, task);
    if let Some(other) = returner(round, groups, task, place.domain, target) {
        round.swap(task, other, cause, false);
        return true;
    }
    if round.board.sharers[target] >= round.board.capacity(round.shape, target) {
        return false;
    }
    let shape = round.shape;
    let cells = &shape.domains[target].cells;
    if let Some(position) = round.board.idle(shape, round.tasks, cells, task) {
        let worth = is_worth_it(round, task, shape.places[position].memory, None);
        if worth {
            round.move_to(task, position, cause);
        }
        return worth;
    }
    for class in [Class::Cpu, Class::Memory] {
        if let Some(other) = round.board.partner(shape, round.tasks, class, cells, task) {
            let to = round
                .place(other)
                .expect("a partner is on a PU that may be used")
                .memory;
            if is_worth_it(round, task, to, Some(other)) {
                round.swap(task, other, cause, class == Class::Memory);
                return true;
            }
        }
    }
    false
}

/// A task of another group that is at `target` and is to go where `task` is.
fn returner(round: &Round<'_>, groups: &Groups, task: usize, here: usize, target: usize) -> Option<usize> {
    let own = groups.of[task];
    groups.order.iter().take(MOST_OTHERS).find_map(|&number| {
        let group = &groups.list[number];
        if group.home != Some(here) || own == Some(number) {
            return None;
        }
        let mut others = group.inter[target].iter().copied();
        others.find(|&other| round.board.can_swap(round.shape, round.tasks, task, other))
    })
}

/// Among so many of the largest groups somebody is looked for who wants to go the other way.
const MOST_OTHERS: usize = 4;

/// Half of the tasks with traffic of the two domains that have most of them change places.
fn mix(round: &mut Round<'_>, groups: &Groups, number: usize, movers: &mut Vec<usize>) {
    let group = &groups.list[number];
    let mut domains: Vec<usize> = (0..group.inter.len())
        .filter(|&domain| group.inter[domain].len() > 1)
        .collect();
    domains.sort_by_key(|&domain| (std::cmp::Reverse(group.inter[domain].len()), domain));
    let [one, other, ..] = domains[..] else { return };
    let (here, there) = (&group.inter[one], &group.inter[other]);
    let half = here.len().min(there.len()) / 2;
    for (&task, &partner) in here[..half].iter().zip(&there[there.len() - half..]) {
        if round.board.can_swap(round.shape, round.tasks, task, partner) {
            let cause = cause(round, task);
            round.swap(task, partner, cause, false);
            movers.extend([task, partner]);
        }
    }
}

fn cause(round: &Round<'_>, task: usize) -> Cause {
    Cause {
        reason: Reason::Coherence,
        activity: Activity::InterPackageCoherence,
        value: round.board.seats[task].inter,
        threshold: round.thresholds.coherence,
    }
}

/// Whether bringing `task` to a memory domain, where `partner` makes room for it, is expected to gain more than it costs. All
/// in shares of one task's time:
///
/// - gained: what the traffic costs, by the threshold's definition 5 % at the threshold, for the task and as much for those
///   with which it shares, for as many intervals as it stayed where it is;
/// - lost: the caches of those that move; what remote memory costs a partner that is memory-intensive; what those lose whose
///   memory is saturated by it, less what it relieves where the task was.
fn is_worth_it(round: &Round<'_>, task: usize, to: usize, partner: Option<usize>) -> bool {
    if !round.options.cost_gain {
        return true;
    }
    let Some(from) = round.place(task).map(|place| place.memory) else {
        return false;
    };
    let seat = round.board.seats[task];
    let remembered = &round.memory.tasks()[task];
    let stayed = round.now - remembered.moved.unwrap_or(remembered.born).min(round.now);
    // One that has just come has stayed for no time that says anything.
    let lasts = if remembered.moved.is_none() {
        LONGEST_GAIN
    } else {
        (stayed as f64).clamp(1.0, LONGEST_GAIN)
    };
    let gain = 2.0 * (LOSS_AT_THRESHOLD * seat.inter / round.thresholds.coherence).min(1.0);
    let other = partner.map(|partner| round.board.seats[partner]);
    let leaves_memory = other.filter(|other| other.class == Class::Memory && from != to);
    let remote = leaves_memory.map_or(0.0, |other| {
        (LOSS_AT_THRESHOLD * other.demand / round.thresholds.remote).min(MOST_REMOTE_LOSS)
    });
    let grown = seat.demand - other.map_or(0.0, |other| other.demand);
    let crowded = if from == to || grown <= 0.0 {
        0.0
    } else {
        saturation(round, to, grown) + saturation(round, from, -grown)
    };
    let moved = if partner.is_some() { 2.0 } else { 1.0 };
    (gain - remote - crowded) * lasts > MOVE_COST * moved
}

/// What the tasks of a memory domain lose, in tasks, when its demand grows by `grown`, or gain (negative) when it falls: where
/// demand is above the bandwidth, each memory-intensive task is held up by the share that is above.
fn saturation(round: &Round<'_>, memory: usize, grown: f64) -> f64 {
    let bandwidth = round.bandwidth(memory);
    let above = |demand: f64| (demand - bandwidth).max(0.0);
    let before = round.board.demand[memory];
    let after = before + grown;
    // A task's demand, where it saturates the memory: a fair share.
    let area = &round.shape.memories[memory];
    let fair = bandwidth / area.cores as f64;
    (above(after) - above(before)) / fair
}
