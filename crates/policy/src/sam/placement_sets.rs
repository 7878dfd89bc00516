//! The place of each task in one decision, and its sets in the paper's figure 3. Moves are applied here, so that a
//! later step sees the result of an earlier one.
//!
//! The paper's sets contain cores, with one task each. Here they contain tasks, since several may share a PU. `P^idle`
//! are the cores without tasks. When the machine has more busy tasks than cores, the idle siblings of busy cores follow
//! them.

use super::memory::Memory;
use super::options::Thresholds;
use super::rates::TaskRates;
use super::shape::{Place, Shape};
use std::cmp::Reverse;

/// A task that runs for less than this share of an interval occupies no PU: a helper thread of a runtime wakes a few
/// times a second for microseconds. Assumed.
const IDLE_SHARE: f64 = 0.01;

/// At most this many tasks of a list are tried whose masks do not fit. This keeps a decision linear. It differs from
/// trying all only where most tasks of a cell have masks that exclude each other.
const TRIES: usize = 16;

/// What a task does, in the order of the paper's priorities: a task that shares data is in none of the later sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// It hardly runs.
    Idle,
    /// `P^inter`.
    Inter,
    /// `P^intra`.
    Intra,
    /// `P^Mem`, without those above.
    Memory,
    /// `P^CPU`.
    Cpu,
    /// A metric is missing that would have to be low. The task stays.
    Unknown,
}

/// The state of one task in this decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskState {
    /// Its position in the input of the mapper.
    pub(super) input: usize,
    /// Its place: a position of `Shape::places`; `None` on a PU that may not be used.
    pub(super) position: Option<usize>,
    pub(super) class: Class,
    /// Whether it is on a PU that may be used, runs, and has not been moved in this decision.
    pub(super) free: bool,
    /// Whether a step may move it: it is free, its metrics are known, and nothing holds it.
    pub(super) movable: bool,
    pub(super) inter: f64,
    /// The group that it shares with, if that is known.
    pub(super) group: Option<u32>,
    pub(super) remote: f64,
    /// Demand for bandwidth, weighted with how much of the interval it ran.
    pub(super) demand: f64,
}

/// The sets of one decision. Tasks are numbered in the order of their ids; cells, domains and cores as in `Shape`.
#[derive(Clone, Debug, Default)]
pub(super) struct PlacementSets {
    states: Vec<TaskState>,
    /// The number of busy tasks.
    busy: usize,
    /// Whether idle siblings of busy cores are of use.
    siblings: bool,
    /// By position: how many busy tasks are there.
    on_pu: Vec<u32>,
    on_core: Vec<u32>,
    /// By cell, in reverse order of use: cores without tasks, and idle PUs of busy cores.
    idle_cores: Vec<Vec<usize>>,
    idle_siblings: Vec<Vec<usize>>,
    /// By cell, in reverse order of use.
    cpu: Vec<Vec<usize>>,
    memory: Vec<Vec<usize>>,
    /// By position: of the tasks that hardly run there, the one that runs most, if it may be moved.
    occupants: Vec<Option<usize>>,
    /// By coherence domain: how many share, `|P^inter| + |P^intra|`.
    sharers: Vec<usize>,
    /// By memory domain: `M_i`.
    demand: Vec<f64>,
}

impl PlacementSets {
    /// The states of all tasks.
    pub(super) fn states(&self) -> &[TaskState] {
        &self.states
    }

    /// By coherence domain: the number of tasks that share.
    pub(super) fn sharers(&self) -> &[usize] {
        &self.sharers
    }

    /// By memory domain: `M_i`.
    pub(super) fn demand(&self) -> &[f64] {
        &self.demand
    }

    /// Computes the sets. `held` is by task, as `memory`.
    pub(super) fn set(
        &mut self,
        shape: &Shape,
        thresholds: &Thresholds,
        tasks: &[TaskRates],
        held: &[bool],
        memory: &Memory,
    ) {
        self.clear(shape);
        let blind = tasks.iter().all(|rates| rates.intra.is_none());
        for (index, &input) in memory.inputs().iter().enumerate() {
            let rates = &tasks[input];
            let position = shape.position(rates.pu);
            let class = classify(rates, thresholds, blind.then(|| memory.tasks()[index].has_shared()));
            let demand = rates.memory.unwrap_or(0.0) * rates.busy.clamp(0.0, 1.0);
            let free = position.is_some() && class != Class::Idle;
            self.states.push(TaskState {
                input,
                position,
                class,
                free,
                movable: free && class != Class::Unknown && !held[index],
                inter: rates.inter.unwrap_or(0.0),
                group: rates.group,
                remote: rates.remote.unwrap_or(0.0),
                demand,
            });
            if let Some(position) = position
                && class != Class::Idle
            {
                self.enter(shape, position, class, demand);
            } else if let Some(position) = position.filter(|_| rates.busy > 0.0 && !held[index]) {
                self.occupy(tasks, position, index);
            }
        }
        self.busy = self.states.iter().filter(|state| state.class != Class::Idle).count();
        self.siblings = self.busy > shape.cores.len();
        for (cell, cores) in shape.cells.iter().enumerate() {
            for &core in cores.iter().rev() {
                if self.on_core[core] == 0 {
                    self.idle_cores[cell].push(core);
                } else {
                    let pus = shape.cores[core].iter().rev();
                    self.idle_siblings[cell].extend(pus.filter(|&&pu| self.on_pu[pu] == 0));
                }
            }
        }
        for (index, state) in self.states.iter().enumerate().rev() {
            if let (true, Some(position)) = (state.movable, state.position) {
                match state.class {
                    Class::Cpu => self.cpu[shape.places[position].cell].push(index),
                    Class::Memory => self.memory[shape.places[position].cell].push(index),
                    _ => {}
                }
            }
        }
    }

    fn clear(&mut self, shape: &Shape) {
        self.states.clear();
        refill(&mut self.on_pu, shape.places.len());
        refill(&mut self.on_core, shape.cores.len());
        refill(&mut self.occupants, shape.places.len());
        refill(&mut self.sharers, shape.domains.len());
        refill(&mut self.demand, shape.memories.len());
        for lists in [
            &mut self.idle_cores,
            &mut self.idle_siblings,
            &mut self.cpu,
            &mut self.memory,
        ] {
            lists.resize_with(shape.cells.len(), Vec::new);
            lists.iter_mut().for_each(Vec::clear);
        }
    }

    fn enter(&mut self, shape: &Shape, position: usize, class: Class, demand: f64) {
        let place = shape.places[position];
        self.on_pu[position] += 1;
        self.on_core[place.core] += 1;
        self.demand[place.memory] += demand;
        if matches!(class, Class::Inter | Class::Intra) {
            self.sharers[place.domain] += 1;
        }
    }

    fn leave(&mut self, shape: &Shape, position: usize, class: Class, demand: f64) {
        let place = shape.places[position];
        self.on_pu[position] -= 1;
        self.on_core[place.core] -= 1;
        self.demand[place.memory] -= demand;
        if matches!(class, Class::Inter | Class::Intra) {
            self.sharers[place.domain] -= 1;
        }
    }

    /// The place of a task; only for tasks on a PU that may be used.
    pub(super) fn place(&self, shape: &Shape, task: usize) -> Option<Place> {
        Some(shape.places[self.states[task].position?])
    }

    /// The number of sharers that fit into a coherence domain. Where more tasks are busy than there are PUs, that is
    /// the domain's share of them.
    pub(super) fn capacity(&self, shape: &Shape, domain: usize) -> usize {
        let area = &shape.domains[domain];
        match (self.siblings, shape.places.len()) {
            (false, _) => area.cores,
            (true, all) if self.busy > all => (self.busy * area.pus).div_ceil(all),
            (true, _) => area.pus,
        }
    }

    /// The number of busy tasks on a PU.
    pub(super) fn tasks_on(&self, position: usize) -> u32 {
        self.on_pu[position]
    }

    /// Records a task that hardly runs.
    fn occupy(&mut self, tasks: &[TaskRates], position: usize, task: usize) {
        let busy = |task: usize| tasks[self.states[task].input].busy;
        if self.occupants[position].is_none_or(|other| busy(task) > busy(other)) {
            self.occupants[position] = Some(task);
        }
    }

    /// Moves the task that hardly runs on an idle PU to another PU, if its mask allows that. Returns the task.
    pub(super) fn evict(&mut self, shape: &Shape, tasks: &[TaskRates], position: usize, to: usize) -> Option<usize> {
        let task = self.occupants[position]?;
        let may = tasks[self.states[task].input].allowed.contains(shape.places[to].pu);
        may.then(|| {
            self.occupants[position] = None;
            self.states[task].position = Some(to);
            task
        })
    }

    /// An idle PU of these cells that the task's mask allows: a PU without any task, else a PU of an idle core, else,
    /// if siblings are of use, a PU of a busy core. The fastest idle core comes first.
    pub(super) fn idle(&self, shape: &Shape, tasks: &[TaskRates], cells: &[usize], task: usize) -> Option<usize> {
        let allowed = &tasks[self.states[task].input].allowed;
        let may = |position: usize| allowed.contains(shape.places[position].pu);
        let empty = |position: usize| may(position) && self.occupants[position].is_none();
        let of_cores = |suits: &dyn Fn(usize) -> bool| {
            let of_core = |&core: &usize| shape.cores[core].iter().copied().find(|&position| suits(position));
            let cores = cells.iter().map(|&cell| self.idle_cores[cell].iter().rev().take(TRIES));
            let fastest = cores.filter_map(|mut cores| cores.find_map(of_core));
            fastest.min_by_key(|&position| Reverse(shape.speeds[shape.places[position].core]))
        };
        let core = of_cores(&empty).or_else(|| of_cores(&may));
        let sibling = || {
            cells.iter().find_map(|&cell| {
                let mut siblings = self.idle_siblings[cell].iter().rev().take(TRIES).copied();
                siblings.find(|&position| may(position))
            })
        };
        core.or_else(|| self.siblings.then(sibling).flatten())
    }

    /// The number of tasks that fit into these cells, if tasks that share no data make room.
    pub(super) fn room(&self, cells: &[usize]) -> usize {
        let siblings = |cell: usize| {
            if self.siblings {
                self.idle_siblings[cell].len()
            } else {
                0
            }
        };
        let lists = |cell: usize| self.idle_cores[cell].len() + self.cpu[cell].len() + self.memory[cell].len();
        cells.iter().map(|&cell| lists(cell) + siblings(cell)).sum()
    }

    /// A task of this class in these cells that can exchange its place with `task`.
    pub(super) fn partner(
        &self,
        shape: &Shape,
        tasks: &[TaskRates],
        class: Class,
        cells: &[usize],
        task: usize,
    ) -> Option<usize> {
        self.partner_where(shape, tasks, class, cells, task, |_| true)
    }

    /// The same, of those tasks that are `suitable`.
    pub(super) fn partner_where(
        &self,
        shape: &Shape,
        tasks: &[TaskRates],
        class: Class,
        cells: &[usize],
        task: usize,
        suitable: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let lists = if class == Class::Cpu { &self.cpu } else { &self.memory };
        cells.iter().find_map(|&cell| {
            let candidates = lists[cell].iter().rev().copied();
            let mut suitable = candidates.filter(|&other| suitable(other)).take(TRIES);
            suitable.find(|&other| self.can_swap(shape, tasks, task, other))
        })
    }

    /// The memory-intensive tasks of these cells that may be moved.
    pub(super) fn memory_tasks(&self, cells: &[usize]) -> Vec<usize> {
        let lists = cells.iter().map(|&cell| &self.memory[cell]);
        lists.flat_map(|list| list.iter().rev().copied()).collect()
    }

    /// Whether a step may exchange the two.
    pub(super) fn can_swap(&self, shape: &Shape, tasks: &[TaskRates], one: usize, other: usize) -> bool {
        self.states[one].movable && self.states[other].movable && self.fit(shape, tasks, one, other)
    }

    /// Whether each may run where the other is, and neither has been moved.
    pub(super) fn fit(&self, shape: &Shape, tasks: &[TaskRates], one: usize, other: usize) -> bool {
        let may = |task: usize, there: usize| {
            let allowed = &tasks[self.states[task].input].allowed;
            self.states[there]
                .position
                .is_some_and(|position| allowed.contains(shape.places[position].pu))
        };
        one != other && self.states[one].free && self.states[other].free && may(one, other) && may(other, one)
    }

    /// Puts a task on an idle PU.
    pub(super) fn put(&mut self, shape: &Shape, task: usize, position: usize) {
        let state = self.states[task];
        let Some(before) = state.position else { return };
        self.unlist(shape, task);
        self.leave(shape, before, state.class, state.demand);
        self.free(shape, before);
        let place = shape.places[position];
        if self.on_core[place.core] == 0 {
            remove(&mut self.idle_cores[place.cell], place.core);
            let siblings = shape.cores[place.core].iter().rev().copied();
            self.idle_siblings[place.cell].extend(siblings.filter(|&other| other != position));
        } else {
            remove(&mut self.idle_siblings[place.cell], position);
        }
        self.enter(shape, position, state.class, state.demand);
        self.states[task].position = Some(position);
        self.states[task].free = false;
        self.states[task].movable = false;
    }

    /// Exchanges the places of two tasks.
    pub(super) fn swap(&mut self, shape: &Shape, one: usize, other: usize) {
        let (Some(here), Some(there)) = (self.states[one].position, self.states[other].position) else {
            return;
        };
        for (task, from, to) in [(one, here, there), (other, there, here)] {
            let state = self.states[task];
            self.unlist(shape, task);
            self.leave(shape, from, state.class, state.demand);
            self.enter(shape, to, state.class, state.demand);
            self.states[task].free = false;
            self.states[task].movable = false;
        }
        self.states[one].position = Some(there);
        self.states[other].position = Some(here);
    }

    /// The PU that a task has left may be idle now.
    fn free(&mut self, shape: &Shape, position: usize) {
        let place = shape.places[position];
        if self.on_core[place.core] == 0 {
            self.idle_siblings[place.cell].retain(|&other| shape.places[other].core != place.core);
            // It comes first among cores that are equally fast.
            let idle = &mut self.idle_cores[place.cell];
            let slower = idle.partition_point(|&core| shape.speeds[core] <= shape.speeds[place.core]);
            idle.insert(slower, place.core);
        } else if self.on_pu[position] == 0 {
            self.idle_siblings[place.cell].push(position);
        }
    }

    /// A task that was moved makes room for no other.
    fn unlist(&mut self, shape: &Shape, task: usize) {
        if let Some(place) = self.place(shape, task) {
            match self.states[task].class {
                Class::Cpu => remove(&mut self.cpu[place.cell], task),
                Class::Memory => remove(&mut self.memory[place.cell], task),
                _ => {}
            }
        }
    }
}

/// Figure 3's sets, made disjoint by the order of the priorities.
///
/// Some processors (AMD's Zen) cannot count traffic within a domain. There `shared` says whether the task has ever had
/// traffic between domains. If so, it is assumed to share data in its domain; if not, to share no data.
fn classify(rates: &TaskRates, thresholds: &Thresholds, shared: Option<bool>) -> Class {
    if rates.busy < IDLE_SHARE {
        return Class::Idle;
    }
    match (rates.inter, rates.intra, rates.memory) {
        (Some(inter), _, _) if inter > thresholds.coherence => Class::Inter,
        (_, Some(intra), _) if intra >= thresholds.coherence => Class::Intra,
        (Some(_), None, _) if shared == Some(true) => Class::Intra,
        (_, _, Some(memory)) if memory > thresholds.memory => Class::Memory,
        (Some(_), Some(_), Some(_)) => Class::Cpu,
        (Some(_), None, Some(_)) if shared == Some(false) => Class::Cpu,
        _ => Class::Unknown,
    }
}

fn refill<T: Clone + Default>(list: &mut Vec<T>, length: usize) {
    list.clear();
    list.resize(length, T::default());
}

/// Removes an element near the end.
fn remove(list: &mut Vec<usize>, element: usize) {
    if let Some(index) = list.iter().rposition(|&other| other == element) {
        list.remove(index);
    }
}
