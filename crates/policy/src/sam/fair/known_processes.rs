//! Processes whose programs are known from earlier runs, and their moves to the placements that were fastest.
//!
//! ```text
//!   begins to work     answer from the       as many tasks work          moves to the
//!   (newcomer)    -->  behaviour      -->    for `STEADY` steps     -->  known placement
//!                      database              as in a placement
//! ```
//!
//! 1. A process that begins to work is a newcomer once. The owner of the behaviour database answers with the known
//!    placements of its program. Its tasks stay until then. At the start of the daemon all processes are newcomers, and
//!    no task moves before the known processes do.
//! 2. The tasks of a known process stay while their number is that of no known placement, for at most `PATIENCE` steps.
//!    Then the mapper moves them like other tasks, until their number fits.
//! 3. The process goes to the known placement, or to an equal one elsewhere on the machine (`Symmetries`), if no other
//!    process works on these cores. Several processes can go at once and make room for each other, the one with the
//!    largest gain first. A process without room is tried again while none of its tasks was moved.
//! 4. The comparison of all moves (`fair`) shows what the placement is worth beside the other processes.
//! 5. Pages go with the process if the daemon may move pages: they follow its tasks or are interleaved, as in the
//!    earlier run. If the tasks were unpinned and the pages interleaved, only the pages move.
//!
//! Limits: a placement with another page mapping is left out. Other processes in the same package are not considered.

use super::super::rates::TaskRates;
use super::super::{Move, Reason};
use super::clock::Clock;
use super::processes::WORKS;
use crate::known::KnownPlacement;
use pinfold_core::placement::Symmetries;
use pinfold_core::{ObjectKind, PageMapping, Pinning, ProcessGoal, PuId, PuSet, TaskId, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// The tasks of a known process wait this number of steps until as many work as are known. Assumed: the first three
/// seconds, in which a program reads its input.
const PATIENCE: u64 = 30;

/// The same tasks must work for this number of steps.
const STEADY: u64 = 3;

/// The placement in which a program was fastest.
#[derive(Clone, Debug)]
struct Known {
    /// `None` if the operating system placed the tasks, and only the pages moved.
    pinning: Option<Pinning>,
    /// `None` if the pages stayed.
    pages: Option<ProcessGoal>,
    gain: f64,
}

/// A process that works, or has worked.
#[derive(Clone, Debug, Default)]
struct KnownProcess {
    /// Whether the answer for its program has come.
    is_answered: bool,
    /// By number of threads. Empty if no placement is known.
    placements: BTreeMap<usize, Known>,
    /// Its tasks stay before this interval.
    until: u64,
    /// The working tasks, by id, and the interval since which these tasks work.
    crew: Vec<TaskId>,
    since: u64,
    /// Whether it went to a known placement.
    is_placed: bool,
    /// The last interval in which it worked.
    worked: u64,
}

impl KnownProcess {
    /// Whether it may still go to a known placement.
    fn may_arrive(&self) -> bool {
        !self.is_placed && (!self.is_answered || !self.placements.is_empty())
    }
}

/// Known processes that go to their placements.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    moves: Vec<Move>,
    pages: BTreeMap<i32, ProcessGoal>,
}

impl Arrivals {
    /// Whether no process goes.
    pub(super) fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.pages.is_empty()
    }

    /// The moves of tasks.
    pub(super) fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// The processes whose pages move, and where to.
    pub(super) fn pages(&self) -> &BTreeMap<i32, ProcessGoal> {
        &self.pages
    }

    /// The same without the pages of processes that are not `movable`.
    pub(super) fn with_pages_of(mut self, movable: impl Fn(i32) -> bool) -> Self {
        self.pages.retain(|&process, _| movable(process));
        self
    }
}

/// All processes that work, or have worked.
#[derive(Debug)]
pub(super) struct KnownProcesses {
    symmetries: Symmetries,
    /// The PUs that may be used.
    allowed: PuSet,
    /// By PU: the PUs of its core. A PU outside any core is its own core.
    cores: BTreeMap<PuId, PuSet>,
    /// Whether pages may be moved.
    moves_pages: bool,
    all: BTreeMap<i32, KnownProcess>,
    newcomers: Vec<i32>,
    /// The first interval in which a process worked.
    began: Option<u64>,
}

impl KnownProcesses {
    pub(super) fn new(topology: &Topology, moves_pages: bool) -> Self {
        let cores = topology.objects_of(ObjectKind::Core).map(|(_, core)| &core.pus);
        Self {
            symmetries: Symmetries::new(topology),
            allowed: topology.allowed_pus().clone(),
            cores: cores
                .flat_map(|core| core.iter().map(|pu| (pu, core.clone())))
                .collect(),
            moves_pages,
            all: BTreeMap::new(),
            newcomers: vec![],
            began: None,
        }
    }

    /// Notes the tasks that work in this interval.
    pub(super) fn see(&mut self, clock: &Clock, tasks: &[TaskRates]) {
        let now = clock.now();
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
                KnownProcess {
                    until: now + clock.steps(STEADY),
                    ..KnownProcess::default()
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

    /// Notes the known placements of a process's program, by number of threads.
    pub(super) fn note(&mut self, clock: &Clock, process: i32, placements: &BTreeMap<usize, KnownPlacement>) {
        let Some(known) = self.all.get_mut(&process) else {
            return;
        };
        let usable = placements.iter().filter_map(|(&threads, placement)| {
            let pages = match placement.pages {
                // Pages followed the threads in the earlier run.
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
        known.until = clock.now() + clock.steps(PATIENCE);
    }

    /// Whether the tasks of this process stay, because it may go to a known placement soon.
    pub(super) fn are_awaited(&self, clock: &Clock, process: i32) -> bool {
        let now = clock.now();
        let since_all = self.began.map_or(0, |began| now - began);
        if since_all < clock.steps(STEADY) && self.all.values().any(KnownProcess::may_arrive) {
            return true;
        }
        let known = self.all.get(&process);
        known.is_some_and(|known| known.may_arrive() && now < known.until)
    }

    /// The known processes that can go to their placements now. `may`: whether the tasks of a process may be moved.
    pub(super) fn arrivals(&mut self, clock: &Clock, tasks: &[TaskRates], may: impl Fn(i32) -> bool) -> Arrivals {
        let (now, steady) = (clock.now(), clock.steps(STEADY));
        let ready = self.all.iter().filter_map(|(&process, known)| {
            let placement = known.placements.get(&known.crew.len())?;
            let is_ready = !known.is_placed && known.worked == now && now + 1 >= known.since + steady && may(process);
            is_ready.then_some((process, &known.crew, placement))
        });
        let listed: BTreeMap<TaskId, &TaskRates> = tasks.iter().map(|task| (task.id, task)).collect();
        let mut arriving: Vec<_> = ready.collect();
        arriving.sort_by(|(.., one), (.., other)| other.gain.total_cmp(&one.gain));
        // A process without room stays, and then takes room from the others.
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

    /// All tasks are unpinned again: processes that are not barred may go to their placements once more.
    pub(super) fn restart(&mut self, is_barred: impl Fn(i32) -> bool) {
        for (&process, known) in &mut self.all {
            known.is_placed &= is_barred(process);
        }
    }

    /// Forgets the processes that have not worked for this number of intervals.
    pub(super) fn forget(&mut self, now: u64, gone: u64) {
        self.all.retain(|_, known| now < known.worked + gone);
    }

    /// The cores of working processes that are not `leaving`.
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

    /// The moves of a process's tasks to this placement, or to an equal one, on cores that are not `taken`.
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

/// The move of a task to its PU in a known placement.
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
