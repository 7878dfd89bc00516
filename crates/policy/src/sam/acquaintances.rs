//! Processes whose programs are known from earlier runs, and when they go where they were fastest.
//!
//! 1. A process that begins to work is a newcomer once. Whoever has the behaviour database says what is known of it.
//! 2. While a known process has not as many working tasks as in a known placement, its tasks stay where they are, for at
//!    most `PATIENCE`. After that they are moved like any others, until it has as many.
//! 3. It goes to the known placement, or to the same one elsewhere on the machine (`placement::elsewhere`), if no other
//!    process works on these cores. Several go at once and make room for each other, the one with the largest gain first.
//!    Who finds no room is tried again as long as none of its tasks were moved.
//! 4. What it is worth beside the other processes of the machine is found by the comparison of all moves (`fair`).
//!
//! Limits: a placement for which pages have to be spread is not followed. Who works in the same package is not asked about.

use super::progress::WORKS;
use super::rates::TaskRates;
use crate::known::KnownPlacement;
use pinfold_core::placement::elsewhere;
use pinfold_core::{ObjectKind, PageMapping, Pinning, PuId, PuSet, TaskId, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// For this number of steps the tasks of a known process stay, until as many work as are known. Assumed: the first three
/// seconds, in which a program reads its input.
const PATIENCE: u64 = 30;

/// For this number of steps the same tasks must have worked.
const STEADY: u64 = 3;

/// A process that works, or has.
#[derive(Clone, Debug, Default)]
struct Acquaintance {
    /// By number of threads: where it was fastest, and the gain. Empty where nothing is known.
    placements: BTreeMap<usize, (Pinning, f64)>,
    /// Until when its tasks stay.
    until: u64,
    /// The tasks that work, by id, and since when it is these.
    crew: Vec<TaskId>,
    since: u64,
    /// Whether it went to a known placement.
    is_placed: bool,
    /// The last interval in which it worked.
    worked: u64,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Acquaintances {
    topology: Topology,
    /// The PUs of each core that may be used.
    cores: Vec<PuSet>,
    /// The intervals of a step.
    step: u64,
    all: BTreeMap<i32, Acquaintance>,
    newcomers: Vec<i32>,
}

impl Acquaintances {
    pub(super) fn new(topology: &Topology, step: u64) -> Self {
        let cores = topology.objects_of(ObjectKind::Core).map(|(_, core)| core.pus.clone());
        Self {
            topology: topology.clone(),
            cores: cores.collect(),
            step,
            all: BTreeMap::new(),
            newcomers: vec![],
        }
    }

    /// Notes who works in this interval.
    pub(super) fn see(&mut self, now: u64, tasks: &[TaskRates]) {
        let mut crews: BTreeMap<i32, Vec<TaskId>> = BTreeMap::new();
        for task in tasks.iter().filter(|task| task.busy >= WORKS) {
            crews.entry(task.id.process).or_default().push(task.id);
        }
        for (process, mut crew) in crews {
            crew.sort_unstable();
            let newcomers = &mut self.newcomers;
            let known = self.all.entry(process).or_insert_with(|| {
                newcomers.push(process);
                Acquaintance::default()
            });
            known.worked = now;
            if known.crew != crew {
                known.crew = crew;
                known.since = now;
            }
        }
    }

    /// The processes that have begun to work since the last call.
    pub(super) fn take_newcomers(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.newcomers)
    }

    /// What is known of the program of a process, by number of threads.
    pub(super) fn note(&mut self, now: u64, process: i32, placements: &BTreeMap<usize, KnownPlacement>) {
        let Some(known) = self.all.get_mut(&process) else {
            return;
        };
        let usable = placements.iter().filter_map(|(&threads, placement)| {
            let stays = matches!(
                placement.pages,
                None | Some(PageMapping::FirstTouch | PageMapping::Local)
            );
            let pinning = placement.pinning.as_ref().filter(|_| stays && placement.gain > 0.0)?;
            (pinning.pus().len() == threads).then(|| (threads, (pinning.clone(), placement.gain)))
        });
        known.placements = usable.collect();
        known.until = now + PATIENCE * self.step;
    }

    /// Whether the tasks of this process stay, because they may go to a known placement soon.
    pub(super) fn is_awaited(&self, now: u64, process: i32) -> bool {
        let known = self.all.get(&process);
        known.is_some_and(|known| !known.is_placed && !known.placements.is_empty() && now < known.until)
    }

    /// The tasks of known processes that can go where these were fastest, and the PU to which each goes; empty where none
    /// can. `may`: whether the tasks of a process may be moved.
    pub(super) fn arrivals(&mut self, now: u64, tasks: &[TaskRates], may: impl Fn(i32) -> bool) -> Vec<(TaskId, PuId)> {
        let steady = STEADY * self.step;
        let ready = self.all.iter().filter_map(|(&process, known)| {
            let (pinning, gain) = known.placements.get(&known.crew.len())?;
            let is_ready = !known.is_placed && known.worked == now && now + 1 >= known.since + steady && may(process);
            is_ready.then_some((process, &known.crew, pinning, *gain))
        });
        let mut arriving: Vec<_> = ready.collect();
        arriving.sort_by(|(.., one), (.., other)| other.total_cmp(one));
        // Who finds no room stays, and is then in the way of the others.
        let places = loop {
            let leaving: BTreeSet<i32> = arriving.iter().map(|&(process, ..)| process).collect();
            let mut taken = self.taken(tasks, &leaving);
            let mut places = vec![];
            let without_room = arriving.iter().position(|(_, crew, pinning, _)| {
                let there = self.arrangement(tasks, crew, pinning, &taken).unwrap_or_default();
                for (_, pu) in &there {
                    taken.extend(self.core_of(*pu).iter());
                }
                places.extend_from_slice(&there);
                there.is_empty()
            });
            match without_room {
                Some(position) => arriving.remove(position),
                None => break places,
            };
        };
        let arrived: Vec<i32> = arriving.into_iter().map(|(process, ..)| process).collect();
        for process in arrived {
            if let Some(known) = self.all.get_mut(&process) {
                known.is_placed = true;
            }
        }
        places
    }

    /// All tasks stay unpinned: the processes may go there once more, except these.
    pub(super) fn restart(&mut self, barred: &BTreeSet<i32>) {
        for (process, known) in &mut self.all {
            known.is_placed &= barred.contains(process);
        }
    }

    /// Forgets the processes that have not worked for this number of intervals.
    pub(super) fn forget(&mut self, now: u64, gone: u64) {
        self.all.retain(|_, known| now < known.worked + gone);
    }

    /// The cores on which other processes than these work.
    fn taken(&self, tasks: &[TaskRates], leaving: &BTreeSet<i32>) -> PuSet {
        let others = tasks
            .iter()
            .filter(|task| task.busy >= WORKS && !leaving.contains(&task.id.process));
        others
            .flat_map(|task| self.core_of(task.pu).iter().collect::<Vec<_>>())
            .collect()
    }

    /// The PUs of the core of this one.
    fn core_of(&self, pu: PuId) -> PuSet {
        let core = self.cores.iter().find(|core| core.contains(pu));
        core.cloned().unwrap_or_else(|| [pu].into_iter().collect())
    }

    /// Where these tasks of a process go: to this placement, or to the same one elsewhere. Not on cores that are `taken`.
    fn arrangement(
        &self,
        tasks: &[TaskRates],
        crew: &[TaskId],
        pinning: &Pinning,
        taken: &PuSet,
    ) -> Option<Vec<(TaskId, PuId)>> {
        let rates = |id: &TaskId| tasks.iter().find(|task| task.id == *id);
        let crew: Vec<&TaskRates> = crew.iter().map(rates).collect::<Option<_>>()?;
        let mut free = self.topology.allowed_pus().difference(taken);
        for task in &crew {
            free = free.intersection(&task.allowed);
        }
        let now: Vec<PuId> = crew.iter().map(|task| task.pu).collect();
        let there = elsewhere(&self.topology, pinning, &free, &now)?;
        let ids = crew.iter().map(|task| task.id);
        Some(ids.zip(there.pus().iter().copied()).collect())
    }
}
