//! The groups of tasks that share data: those that the rates name, or else all tasks of a process, until the sharing tasks
//! among them are known.

use super::Move;
use super::placement_sets::Class;
use super::round::Round;
use std::collections::HashMap;

/// The groups with traffic between domains, and their domains. Allocations are kept for the next decision.
#[derive(Debug, Default)]
pub(super) struct Groups {
    numbers: HashMap<(i32, u32), usize>,
    /// By number.
    list: Vec<Group>,
    /// The number of groups in use.
    used: usize,
    /// The groups, the largest first.
    order: Vec<usize>,
    /// By task: its group, if that has traffic.
    of: Vec<Option<usize>>,
}

#[derive(Debug, Default)]
pub(super) struct Group {
    /// By domain: its tasks of the set `P^inter` that may be moved.
    pub(super) inter: Vec<Vec<usize>>,
    /// By domain: the number of its sharers.
    pub(super) sharers: Vec<usize>,
    /// Its sharers, in the order of their ids.
    pub(super) members: Vec<usize>,
    pub(super) size: usize,
    /// It is gathered in this domain first.
    pub(super) home: Option<usize>,
    pub(super) method: Method,
}

/// Finds the groups, and where and how each is gathered; whether there are any.
pub(super) fn find(round: &Round<'_>, groups: &mut Groups) -> bool {
    let any = find_groups(round, groups);
    if any {
        choose_homes(round, groups);
        choose_methods(round, groups);
    }
    any
}

/// Whether a task has traffic and can be moved.
fn asks(round: &Round<'_>, task: usize) -> bool {
    let state = round.sets.states()[task];
    state.class == Class::Inter && state.movable && failures(round, task) < WHERE_IT_FITS.len()
}

/// The number of methods that have failed for a task.
pub(super) fn failures(round: &Round<'_>, task: usize) -> usize {
    round.memory.tasks()[task].failures(round.sets.states()[task].inter)
}

/// How a group is gathered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Method {
    /// Into one domain.
    #[default]
    Pull,
    /// By swaps between its domains, so that neighbours by rank are together.
    Sort,
}

impl Group {
    /// Its tasks that are to be moved.
    pub(super) fn asking(&self) -> Vec<usize> {
        self.inter.iter().flatten().copied().collect()
    }
}

/// The methods for a group, in order. If it fits into one domain, the paper's method is first; if not, sorting, which
/// may be sufficient.
const WHERE_IT_FITS: [Method; 2] = [Method::Pull, Method::Sort];
const WHERE_IT_DOES_NOT_FIT: [Method; 2] = [Method::Sort, Method::Pull];

/// Finds the groups of all tasks that are to be moved; whether there are any.
fn find_groups(round: &Round<'_>, groups: &mut Groups) -> bool {
    groups.clear(round);
    for task in 0..round.sets.states().len() {
        if asks(round, task) {
            groups.number(round, task);
        }
    }
    if groups.used == 0 {
        return false;
    }
    for task in 0..round.sets.states().len() {
        let class = round.sets.states()[task].class;
        if let (Class::Inter | Class::Intra, Some(place)) = (class, round.place(task))
            && let Some(number) = groups.enter(round, task, place.domain)
            && asks(round, task)
        {
            groups.ask(number, place.domain, task);
        }
    }
    if round.options.learn_groups {
        groups.pool_those_in_one_domain(round.shape.domains.len());
    }
    true
}

/// In place of the process, for a group that is known: it may have tasks of several processes.
const KNOWN: i32 = -1;

/// What tasks are grouped by.
fn key(round: &Round<'_>, task: usize) -> (i32, u32) {
    if !round.options.learn_groups {
        return (0, 0);
    }
    if let Some(group) = round.sets.states()[task].group {
        return (KNOWN, group);
    }
    let remembered = &round.memory.tasks()[task];
    (remembered.id().process, remembered.group().unwrap_or(0))
}

impl Groups {
    /// All groups, by number.
    pub(super) fn list(&self) -> &[Group] {
        &self.list
    }

    /// The numbers of the groups, the largest group first.
    pub(super) fn order(&self) -> &[usize] {
        &self.order
    }

    /// The group of a task; `None` for a task without traffic.
    pub(super) fn group_of(&self, task: usize) -> Option<usize> {
        self.of[task]
    }

    /// Removes all groups.
    pub(super) fn clear(&mut self, round: &Round<'_>) {
        self.numbers.clear();
        self.used = 0;
        self.of.clear();
        self.of.resize(round.sets.states().len(), None);
    }

    /// The number of a task's group; a new group if there is none.
    pub(super) fn number(&mut self, round: &Round<'_>, task: usize) -> usize {
        let next = self.numbers.len();
        let number = *self.numbers.entry(key(round, task)).or_insert(next);
        if number == next {
            self.clear_group(number, round.shape.domains.len());
        }
        number
    }

    /// Counts a task in a domain for its group, if there is one; returns that.
    pub(super) fn enter(&mut self, round: &Round<'_>, task: usize, domain: usize) -> Option<usize> {
        let &number = self.numbers.get(&key(round, task))?;
        self.of[task] = Some(number);
        self.list[number].sharers[domain] += 1;
        self.list[number].size += 1;
        self.list[number].members.push(task);
        Some(number)
    }

    /// A task of a group, in a domain, is to be moved.
    pub(super) fn ask(&mut self, number: usize, domain: usize, task: usize) {
        self.list[number].inter[domain].push(task);
    }

    /// Leaves out the groups that do not suit, by number.
    pub(super) fn keep(&mut self, suits: impl Fn(usize, &Group) -> bool) {
        let list = &self.list;
        self.order.retain(|&number| suits(number, &list[number]));
    }

    /// The groups after these moves, so that the next group sees them.
    pub(super) fn note_moves(&mut self, round: &Round<'_>, moves: &[Move]) {
        let domain = |pu| Some(round.shape.places[round.shape.position(pu)?].domain);
        for made in moves {
            if let Some(task) = round.memory.index_of(made.task)
                && let (Some(number), Some(from), Some(to)) = (self.of[task], domain(made.from), domain(made.to))
            {
                let group = &mut self.list[number];
                group.sharers[from] -= 1;
                group.sharers[to] += 1;
                if let Some(index) = group.inter[from].iter().position(|&other| other == task) {
                    group.inter[from].remove(index);
                    group.inter[to].push(task);
                }
            }
        }
    }

    fn clear_group(&mut self, number: usize, domains: usize) {
        if number == self.list.len() {
            self.list.push(Group::default());
        }
        let group = &mut self.list[number];
        group.inter.resize_with(domains, Vec::new);
        group.inter.iter_mut().for_each(Vec::clear);
        group.sharers.clear();
        group.sharers.resize(domains, 0);
        group.members.clear();
        group.size = 0;
        group.home = None;
        self.used = number + 1;
    }

    /// Groups that are in one domain with all their tasks share data with other groups: they become one.
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
            let members = std::mem::take(&mut self.list[number].members);
            self.list[pool].members.extend(members);
        }
        let group = &mut self.list[pool];
        for tasks in &mut group.inter {
            tasks.sort_unstable();
        }
        group.members.sort_unstable();
        for &task in &group.members {
            self.of[task] = Some(pool);
        }
    }
}

/// Chooses the domain of each group, the largest group first. A domain with room for the whole group beside the groups
/// before is preferred, then the domain with most of its sharers.
pub(super) fn choose_homes(round: &Round<'_>, groups: &mut Groups) {
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
        let fits = |domain: usize| taken[domain] + group.size <= round.sets.capacity(round.shape, domain);
        let rank = |&domain: &usize| (fits(domain), group.sharers[domain], std::cmp::Reverse(domain));
        let home = (0..taken.len()).max_by_key(rank);
        if let Some(home) = home {
            taken[home] += group.size;
        }
        group.home = home;
    }
}

/// Chooses the method of each group, and leaves out tasks whose methods have all failed. Without `learn_groups` all
/// tasks are one group, and ranks have no order.
fn choose_methods(round: &Round<'_>, groups: &mut Groups) {
    let most = (0..round.shape.domains.len())
        .map(|domain| round.sets.capacity(round.shape, domain))
        .max();
    for &number in &groups.order {
        let group = &mut groups.list[number];
        let methods = match (round.options.learn_groups, most.is_some_and(|most| group.size <= most)) {
            (false, _) => &WHERE_IT_FITS[..1],
            (true, true) => &WHERE_IT_FITS,
            (true, false) => &WHERE_IT_DOES_NOT_FIT,
        };
        for tasks in &mut group.inter {
            tasks.retain(|&task| failures(round, task) < methods.len());
        }
        let tasks = group.inter.iter().flatten();
        let failed = tasks.map(|&task| failures(round, task)).max().unwrap_or(0);
        group.method = methods[failed];
    }
}
