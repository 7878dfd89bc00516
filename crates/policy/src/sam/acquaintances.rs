//! Processes whose programs are known from earlier runs, and when they go where they were fastest.
//!
//! 1. A process that begins to work is a newcomer once. Whoever has the behaviour database says what is known of it. Its
//!    tasks stay until then. When the daemon begins, all processes are newcomers, and none moves before the known ones.
//! 2. While a known process has not as many working tasks as in a known placement, its tasks stay where they are, for at
//!    most `PATIENCE`. After that they are moved like any others, until it has as many.
//! 3. It goes to the known placement, or to the same one elsewhere on the machine (`Symmetries`), if no other
//!    process works on these cores. Several go at once and make room for each other, the one with the largest gain first.
//!    Who finds no room is tried again as long as none of its tasks were moved.
//! 4. What it is worth beside the other processes of the machine is found by the comparison of all moves (`fair`).
//! 5. Its pages go with it, where the daemon may move pages: they follow its tasks, as in that run, or are interleaved
//!    again. The latter also where its tasks were unpinned; these then stay where they are.
//!
//! Limits: a placement with another page mapping is not followed. Who works in the same package is not asked about.

use super::progress::WORKS;
use super::rates::TaskRates;
use super::{Move, Reason};
use crate::known::KnownPlacement;
use pinfold_core::placement::Symmetries;
use pinfold_core::{ObjectKind, PageMapping, Pinning, ProcessGoal, PuId, PuSet, TaskId, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// For this number of steps the tasks of a known process stay, until as many work as are known. Assumed: the first three
/// seconds, in which a program reads its input.
const PATIENCE: u64 = 30;

/// For this number of steps the same tasks must have worked.
const STEADY: u64 = 3;

/// Where a program was fastest.
#[derive(Clone, Debug)]
struct Known {
    /// `None` where only its pages are elsewhere, and the operating system places its tasks.
    pinning: Option<Pinning>,
    /// `None` where its pages stay where they are.
    pages: Option<ProcessGoal>,
    gain: f64,
}

/// A process that works, or has.
#[derive(Clone, Debug, Default)]
struct Acquaintance {
    /// Whether it was said what is known of it.
    is_answered: bool,
    /// By number of threads: where it was fastest. Empty where nothing is known.
    placements: BTreeMap<usize, Known>,
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

/// What becomes of known processes that go where they were fastest.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// The moves of their tasks.
    pub(super) moves: Vec<Move>,
    /// Where their pages are to be, of those whose pages do not stay.
    pub(super) pages: BTreeMap<i32, ProcessGoal>,
}

impl Acquaintance {
    /// Whether it is not where it was fastest, as far as is known.
    fn may_arrive(&self) -> bool {
        !self.is_placed && (!self.is_answered || !self.placements.is_empty())
    }
}

impl Arrivals {
    /// Whether none goes.
    pub(super) fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.pages.is_empty()
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Acquaintances {
    symmetries: Symmetries,
    /// The PUs that may be used.
    allowed: PuSet,
    /// By PU: those of its core. A PU outside any core is a core of its own.
    cores: BTreeMap<PuId, PuSet>,
    /// The intervals of a step.
    step: u64,
    /// Whether pages may be moved.
    moves_pages: bool,
    all: BTreeMap<i32, Acquaintance>,
    newcomers: Vec<i32>,
    /// When the first process worked.
    began: Option<u64>,
}

impl Acquaintances {
    pub(super) fn new(topology: &Topology, step: u64, moves_pages: bool) -> Self {
        let cores = topology.objects_of(ObjectKind::Core).map(|(_, core)| &core.pus);
        Self {
            symmetries: Symmetries::new(topology),
            allowed: topology.allowed_pus().clone(),
            cores: cores
                .flat_map(|core| core.iter().map(|pu| (pu, core.clone())))
                .collect(),
            step,
            moves_pages,
            all: BTreeMap::new(),
            newcomers: vec![],
            began: None,
        }
    }

    /// Notes who works in this interval.
    pub(super) fn see(&mut self, now: u64, tasks: &[TaskRates]) {
        let mut crews: BTreeMap<i32, Vec<TaskId>> = BTreeMap::new();
        for task in tasks.iter().filter(|task| task.busy >= WORKS) {
            crews.entry(task.id.process).or_default().push(task.id);
        }
        if !crews.is_empty() {
            self.began.get_or_insert(now);
        }
        for (process, mut crew) in crews {
            crew.sort_unstable();
            let newcomers = &mut self.newcomers;
            let known = self.all.entry(process).or_insert_with(|| {
                newcomers.push(process);
                Acquaintance {
                    until: now + STEADY * self.step,
                    ..Acquaintance::default()
                }
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
            let pages = match placement.pages {
                // In that run they followed its threads.
                None if self.moves_pages && placement.pinning.is_some() => Some(ProcessGoal::Tasks),
                None | Some(PageMapping::FirstTouch | PageMapping::Local) => None,
                Some(PageMapping::Interleave) if self.moves_pages => Some(ProcessGoal::Interleave),
                Some(_) => return None,
            };
            let (pinning, gain) = (placement.pinning.clone(), placement.gain);
            let is_whole = match &pinning {
                Some(pinning) => pinning.pus().len() == threads,
                None => pages.is_some(),
            };
            (is_whole && gain > 0.0).then_some((threads, Known { pinning, pages, gain }))
        });
        known.is_answered = true;
        known.placements = usable.collect();
        known.until = now + PATIENCE * self.step;
    }

    /// Whether the tasks of this process stay, because it may go to a known placement soon.
    pub(super) fn is_awaited(&self, now: u64, process: i32) -> bool {
        let since_all = self.began.map_or(0, |began| now - began);
        if since_all < STEADY * self.step && self.all.values().any(Acquaintance::may_arrive) {
            return true;
        }
        let known = self.all.get(&process);
        known.is_some_and(|known| known.may_arrive() && now < known.until)
    }

    /// The known processes that can go where they were fastest. `may`: whether the tasks of a process may be moved.
    pub(super) fn arrivals(&mut self, now: u64, tasks: &[TaskRates], may: impl Fn(i32) -> bool) -> Arrivals {
        let steady = STEADY * self.step;
        let ready = self.all.iter().filter_map(|(&process, known)| {
            let placement = known.placements.get(&known.crew.len())?;
            let is_ready = !known.is_placed && known.worked == now && now + 1 >= known.since + steady && may(process);
            is_ready.then_some((process, &known.crew, placement))
        });
        let listed: BTreeMap<TaskId, &TaskRates> = tasks.iter().map(|task| (task.id, task)).collect();
        let mut arriving: Vec<_> = ready.collect();
        arriving.sort_by(|(.., one), (.., other)| other.gain.total_cmp(&one.gain));
        // Who finds no room stays, and is then in the way of the others.
        let moves = loop {
            let moving = arriving.iter().filter(|(.., placement)| placement.pinning.is_some());
            let leaving: BTreeSet<i32> = moving.map(|&(process, ..)| process).collect();
            let mut taken = self.taken(tasks, &leaving);
            let mut moves = vec![];
            let without_room = arriving.iter().position(|(_, crew, placement)| {
                let Some(pinning) = &placement.pinning else {
                    return false;
                };
                let there = self.moves_to(pinning, crew, &listed, &taken).unwrap_or_default();
                taken.extend(there.iter().flat_map(|made| self.core_of(made.to)));
                moves.extend_from_slice(&there);
                there.is_empty()
            });
            match without_room {
                Some(position) => arriving.remove(position),
                None => break moves,
            };
        };
        let arrived: Vec<i32> = arriving.iter().map(|&(process, ..)| process).collect();
        let pages = arriving
            .iter()
            .filter_map(|(process, _, placement)| Some((*process, placement.pages?)))
            .collect();
        for process in arrived {
            if let Some(known) = self.all.get_mut(&process) {
                known.is_placed = true;
            }
        }
        Arrivals { moves, pages }
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
        others.flat_map(|task| self.core_of(task.pu)).collect()
    }

    /// This PU, and the others of its core.
    fn core_of(&self, pu: PuId) -> impl Iterator<Item = PuId> {
        let others = self.cores.get(&pu).into_iter().flat_map(PuSet::iter);
        others.chain([pu])
    }

    /// The moves of these tasks of a process to this placement, or to the same one elsewhere, but not to cores that are
    /// `taken`.
    fn moves_to(
        &self,
        pinning: &Pinning,
        crew: &[TaskId],
        listed: &BTreeMap<TaskId, &TaskRates>,
        taken: &PuSet,
    ) -> Option<Vec<Move>> {
        let crew: Vec<&TaskRates> = crew.iter().map(|id| listed.get(id).copied()).collect::<Option<_>>()?;
        let mut free = self.allowed.difference(taken);
        for task in &crew {
            free = free.intersection(&task.allowed);
        }
        let now: Vec<PuId> = crew.iter().map(|task| task.pu).collect();
        let there = self.symmetries.elsewhere(pinning, &free, &now)?;
        let places = crew.iter().zip(there.pus());
        Some(places.map(|(task, &to)| arrival(task, to)).collect())
    }
}

/// The move of a task to its known place.
fn arrival(task: &TaskRates, to: PuId) -> Move {
    Move {
        task: task.id,
        from: task.pu,
        to,
        reason: Reason::Known,
        makes_room: false,
        reluctant: false,
        excess: None,
        swapped_with: None,
    }
}
