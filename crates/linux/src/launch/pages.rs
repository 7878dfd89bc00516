//! Places and moves the pages of the followed program.
//!
//! 1. The program starts with a memory policy (`exec`), so that pages are placed at first touch.
//! 2. When a configuration is applied, the pages in memory are moved. A page mapping decides their places, in each
//!    process whose mapping or whose threads' node has changed. When first touch replaces a mapping, the pages that the
//!    mapping moved return (`pinfold_core::memory::Origins`). Without a mapping, pages follow threads that changed
//!    their node (`pinfold_core::memory::Following`), if that is worth its cost (`check_cost`).
//! 3. A page mapping that needs the accesses moves nothing before the initialisation is over. Then it first samples the
//!    accesses of the processes whose accesses are not known, or takes them from a recording (`accesses`).
//!
//! `apply` returns when the pages are in their places, so that the next measurement includes them. Meanwhile the
//! program runs and is followed. It may end, which ends the migration. A process is reaped only between two calls that
//! use its number.
//!
//! Known limits: a process whose first thread has ended keeps its pages. Pages that are touched after a page mapping
//! has changed are placed by the first mapping's policy.

use super::accesses::ProgramAccesses;
use super::followed_process::FollowedProcess;
use super::{Ranked, Shared};
use crate::memory::{
    Areas, Calls, Goal, Limits, MemoryPolicy, SampledMachine, Sampling, System, Target, memory_by_node, move_pages,
    move_pages_patiently, page_size,
};
use pinfold_core::memory::{
    ASSUMED_COPY_RATE, Following, MemoryArea, Origins, PageGoal, PageMoves, PinnedTask, RecordedProfile, Selection,
    check_cost, node_of_pu, nodes_of_pus, spread,
};
use pinfold_core::{
    Applied, BrokenOffCode, Configuration, NodeId, NodeSet, PageMapping, ProcessGoal, Reason, Refusal, RefusalCode,
    Topology,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The copy rate is measured in moves of at least this many bytes.
const MEASURABLE: u64 = 16 << 20;

/// The shortest time between two readings of the program's memory by node.
const READ_AGAIN: Duration = Duration::from_millis(500);

/// Readings of the memory by node take at most one part in this number of the time, because the process cannot map
/// memory during a reading.
const READING_SHARE: u32 = 500;

/// The placement of a program's pages.
#[derive(Default)]
pub struct PageOptions {
    /// The system that the program runs on.
    pub system: System,
    /// The page mapping that corresponds to `policy`.
    pub mapping: Option<PageMapping>,
    /// The memory policy that the program starts with. `None` for the inherited policy.
    pub policy: Option<MemoryPolicy>,
    /// The memory that is moved in addition to the program's private memory.
    pub selection: Selection,
    /// The largest rate in bytes per second.
    pub rate: Option<f64>,
    /// Called with the number of processed bytes, and of all bytes.
    pub progress: Option<Box<dyn FnMut(u64, u64) + Send>>,
    /// The sampling of accesses, for a mapping that needs them.
    pub sampling: Sampling,
    /// The accesses of another run, instead of samples.
    pub profile: Option<Arc<RecordedProfile>>,
    /// The time of the program's initialisation. After it accesses are representative.
    pub sampled_from: Duration,
}

/// The pages of the program.
pub(crate) struct ProgramPages {
    options: PageOptions,
    page_size: u64,
    following: Following,
    /// The goals of the processes in the last configuration that had such goals.
    followed: BTreeMap<i32, ProcessGoal>,
    /// The last goal of each process's pages.
    applied: BTreeMap<i32, (PageMapping, Goal)>,
    /// The places of each process's pages before its first goal.
    origins: BTreeMap<i32, Origins>,
    accesses: ProgramAccesses,
    /// The rate of the last unlimited migration, in bytes per second.
    measured: Option<f64>,
    /// Mappings whose restriction to existing pages was already reported.
    reported: Vec<PageMapping>,
    /// Whether the time of sampling was already reported.
    reported_sampling: bool,
    /// Whether a migration that would take too long was already reported.
    reported_too_long: bool,
    /// The time when the memory by node may be read again.
    read_again: Option<Instant>,
}

impl ProgramPages {
    pub(super) fn new(options: PageOptions) -> Self {
        Self {
            options,
            page_size: page_size(),
            following: Following::default(),
            followed: BTreeMap::new(),
            applied: BTreeMap::new(),
            origins: BTreeMap::new(),
            accesses: ProgramAccesses::default(),
            measured: None,
            reported: vec![],
            reported_sampling: false,
            reported_too_long: false,
            read_again: None,
        }
    }

    /// Moves pages to their places under `configuration`. `ranked` are the tasks before and after its pinning was
    /// applied.
    pub(crate) fn apply(
        &mut self,
        shared: &Shared,
        topology: &Topology,
        configuration: &Configuration,
        ranked: [&[Ranked]; 2],
        applied: &mut Applied,
    ) {
        let lives: BTreeSet<i32> = shared.lock().program.processes().into_iter().collect();
        self.following.retain(|process| lives.contains(&process));
        self.applied.retain(|process, _| lives.contains(process));
        self.origins.retain(|process, _| lives.contains(process));
        self.accesses.retain(&lives);
        let mut goals = vec![];
        let mut following = vec![];
        if configuration.pages.is_some_and(PageMapping::needs_accesses) && !self.know_accesses(shared, &lives, applied)
        {
            return;
        }
        for &process in &lives {
            match self.goal(process, topology, configuration, ranked[1]) {
                Ok(Some((mapping, goal))) => {
                    if self.is_new(process, mapping, &goal, applied) {
                        goals.push((process, mapping, goal));
                    }
                }
                Ok(None) => {
                    if configuration
                        .pages
                        .is_none_or(|mapping| mapping == PageMapping::FirstTouch)
                    {
                        self.go_back(shared, process, applied);
                    }
                    following.push(process);
                }
                Err(refusal) if applied.refused.contains(&refusal) => {}
                Err(refusal) => applied.refused.push(refusal),
            }
        }
        let within = match configuration.pages {
            Some(_) => configuration.mapping_within,
            None => configuration.following_within,
        };
        self.move_to(shared, goals, within, applied);
        if let Some(followed) = &configuration.followed {
            let before = std::mem::replace(&mut self.followed, followed.clone());
            // The threads of a process that is not followed any more have their old places again, at least briefly.
            following.retain(|process| followed.contains_key(process) || before.contains_key(process));
        }
        let tasks = ranked.map(|ranked| pinned_tasks(topology, ranked));
        self.follow(shared, &following, &tasks, configuration.following_within, applied);
    }

    /// The memory of all processes on each node. `None` if none can be read, or if the last reading was too short ago:
    /// another one would exceed `READING_SHARE`.
    pub(crate) fn memory_by_node(&mut self, shared: &Shared) -> Option<BTreeMap<NodeId, u64>> {
        let began = Instant::now();
        if self.read_again.is_some_and(|again| began < again) {
            return None;
        }
        let processes: BTreeSet<i32> = shared.lock().program.processes().into_iter().collect();
        let mut sum: Option<BTreeMap<NodeId, u64>> = None;
        for process in processes {
            let mut read = None;
            let target = FollowedProcess { shared, process };
            let procfs = self.options.system.procfs();
            // A process that has ended has no memory.
            let _ = target.held(&mut |process| read = memory_by_node(procfs, process, self.page_size));
            for (node, bytes) in read.into_iter().flatten() {
                *sum.get_or_insert_default().entry(node).or_default() += bytes;
            }
        }
        let took = began.elapsed();
        self.read_again = Some(began + READ_AGAIN.max(took * READING_SHARE));
        sum
    }

    /// Moves all pages back that a page mapping has moved.
    pub(super) fn all_back(&mut self, shared: &Shared, applied: &mut Applied) {
        let processes: Vec<i32> = self.applied.keys().copied().collect();
        for process in processes {
            self.go_back(shared, process, applied);
        }
    }

    /// Finds the accesses of these processes. Returns whether they are available. Before the end of the initialisation
    /// it reports when they will be, and no page is to be moved yet.
    fn know_accesses(&mut self, shared: &Shared, processes: &BTreeSet<i32>, applied: &mut Applied) -> bool {
        let began = shared.lock().began;
        if began.is_none_or(|began| began.elapsed() < self.options.sampled_from) {
            if !std::mem::replace(&mut self.reported_sampling, true) {
                let then = match &self.options.profile {
                    Some(profile) => format!("the accesses in {} are mapped to its addresses", profile.recording),
                    None => format!("its accesses are sampled for {:?}", self.options.sampling.lasts),
                };
                shared.lock().program.note(format!(
                    "Pages are placed when the program has initialised, after {:?} (-i): then {then}.",
                    self.options.sampled_from
                ));
            }
            return false;
        }
        let unknown = processes.iter().filter(|&&process| !self.accesses.knows(process));
        let unknown: Vec<(i32, Vec<MemoryArea>)> = unknown
            .filter_map(|&process| Some((process, self.areas(shared, process, applied)?)))
            .collect();
        if let Some(profile) = self.options.profile.clone() {
            for (process, areas) in &unknown {
                let recorded = self.accesses.recorded(
                    shared,
                    *process,
                    areas,
                    self.options.system.procfs(),
                    self.page_size,
                    &profile,
                );
                match recorded {
                    Ok(profiled) => applied.profiled.extend(profiled),
                    Err(error) => applied.refused.push(refusal(&error)),
                }
            }
        } else if !unknown.is_empty() {
            let machine = SampledMachine::new(self.options.system.clone(), self.page_size);
            let (sampled, errors) = self.accesses.sample(shared, &unknown, &machine, self.options.sampling);
            if sampled.as_ref().is_some_and(|sampled| sampled.samples == 0) {
                applied.refused.push(refusal(&format_args!(
                    "no memory access was sampled within {:?}, perhaps because the program idles; --sample-time \
                     samples longer",
                    self.options.sampling.lasts
                )));
            }
            applied.sampled = sampled;
            for error in errors {
                let refusal = refusal(&error);
                if !applied.refused.contains(&refusal) {
                    applied.refused.push(refusal);
                }
            }
        }
        true
    }

    /// The places of a process's pages under the configuration. `None` if they stay at first touch.
    fn goal(
        &self,
        process: i32,
        topology: &Topology,
        configuration: &Configuration,
        ranked: &[Ranked],
    ) -> Result<Option<(PageMapping, Goal)>, Refusal> {
        let own = configuration
            .followed
            .as_ref()
            .and_then(|followed| followed.get(&process));
        let mapping = match own {
            Some(ProcessGoal::Interleave) => Some(PageMapping::Interleave),
            Some(ProcessGoal::Tasks) | None => configuration.pages,
        };
        let Some(mapping) = mapping else {
            return Ok(None);
        };
        if mapping.needs_accesses() {
            let places = self.accesses.places(process, mapping, topology, ranked);
            return Ok(places.map(|places| (mapping, Goal::ByAccesses(places))));
        }
        let threads: NodeSet = match &configuration.pinning {
            Some(pinning) => {
                let its = ranked.iter().filter(|(id, ..)| id.process == process);
                nodes_of_pus(topology, its.map(|&(_, rank, _)| pinning.pu(rank)))
            }
            None => nodes_of_pus(topology, topology.allowed_pus().iter()),
        };
        if mapping == PageMapping::Remote && threads.is_empty() {
            return Ok(None);
        }
        let weight = |node| self.options.system.weight(node);
        spread(mapping, topology, &threads, weight)
            .map(|spread| spread.map(|spread| (mapping, Goal::ByAddress(spread))))
            .map_err(|why| refusal(&why))
    }

    /// Whether some pages of the process may have other places than `goal`.
    fn is_new(&self, process: i32, mapping: PageMapping, goal: &Goal, applied: &Applied) -> bool {
        let follows_threads = matches!(mapping, PageMapping::Local | PageMapping::Remote);
        if follows_threads && applied.moved.iter().any(|task| task.process == process) {
            return true;
        }
        match self.applied.get(&process) {
            Some((before, at)) => (*before, at) != (mapping, goal),
            // A process starts with the policy of the mapping that the program was launched with. Under the policy of
            // `local`, a page is on the node of its thread. The places under `remote` depend on the threads.
            None => {
                mapping == PageMapping::Remote
                    || mapping.needs_accesses()
                    || self.options.policy.is_none()
                    || self.options.mapping != Some(mapping)
            }
        }
    }

    /// Moves the pages of processes to the places of a mapping. Moves nothing if all of their memory would take longer
    /// than `within`.
    fn move_to(
        &mut self,
        shared: &Shared,
        goals: Vec<(i32, PageMapping, Goal)>,
        within: Option<Duration>,
        applied: &mut Applied,
    ) {
        if goals.is_empty() {
            return;
        }
        let goals: Vec<_> = goals
            .into_iter()
            .map(|goal| (self.areas(shared, goal.0, applied), goal))
            .collect();
        let areas = goals.iter().filter_map(|(areas, _)| areas.as_ref()).flatten();
        let bytes = areas.map(MemoryArea::resident_bytes).sum();
        if let Err(too_long) = check_cost(bytes, self.copy_rate(), within) {
            let takes = too_long.takes;
            let seconds = takes.as_secs_f64();
            applied.refused.push(Refusal::for_pages(
                takes,
                format!("pages stay where they are: moving {bytes} bytes would take about {seconds:.1} s"),
            ));
            return;
        }
        for (areas, (process, mapping, mut goal)) in goals {
            if self.options.mapping != Some(mapping) && !self.reported.contains(&mapping) {
                self.reported.push(mapping);
                shared.lock().program.note(format!(
                    "The page mapping {mapping} moves the pages that are in memory. The memory policy that the program \
                     started with places the pages that it touches later."
                ));
            }
            let Some(areas) = areas else {
                continue;
            };
            self.following.forget(process);
            let moves = moving(
                &mut self.options,
                self.page_size,
                &FollowedProcess { shared, process },
                &areas,
                &mut self.origins.entry(process).or_default().noting(&mut goal),
                MigrationReason::Mapped(mapping),
                applied,
            );
            // After an interruption the moved pages return.
            let interrupted = |reason: &Reason<BrokenOffCode>| reason.code == BrokenOffCode::Interrupted;
            if moves.broken_off.as_ref().is_none_or(interrupted) {
                self.applied.insert(process, (mapping, goal));
            }
            self.measure(moves);
        }
    }

    /// Moves the pages of a process back to their places before a mapping moved them. Busy pages are retried, because
    /// no page must stay moved.
    fn go_back(&mut self, shared: &Shared, process: i32, applied: &mut Applied) {
        let (Some((_, put)), Some(origins)) = (self.applied.remove(&process), self.origins.remove(&process)) else {
            return;
        };
        if origins.is_empty() {
            return;
        }
        let Some(areas) = self.areas(shared, process, applied) else {
            return;
        };
        let moves = moving(
            &mut self.options,
            self.page_size,
            &FollowedProcess { shared, process },
            &areas,
            &mut origins.back(&put),
            MigrationReason::Back,
            applied,
        );
        self.measure(moves);
    }

    /// Moves pages after threads that have changed their node.
    fn follow(
        &mut self,
        shared: &Shared,
        processes: &[i32],
        [before, after]: &[Vec<PinnedTask>; 2],
        within: Option<Duration>,
        applied: &mut Applied,
    ) {
        let mut unsettled = vec![];
        let mut bytes = 0;
        for &process in processes {
            if self.following.followed(process, before, after).is_settled() {
                continue;
            }
            let Some(areas) = self.areas(shared, process, applied) else {
                continue;
            };
            if !MemoryArea::are_touched_first(&areas) {
                continue;
            }
            let policy = MemoryArea::process_policy(&areas);
            let movable: Vec<MemoryArea> = areas
                .iter()
                .filter(|area| self.options.selection.is_all(area, policy))
                .cloned()
                .collect();
            bytes += self.following.followed(process, before, after).bytes(&movable);
            unsettled.push((process, areas));
        }
        if bytes == 0 {
            return;
        }
        if let Err(too_long) = check_cost(bytes, self.copy_rate(), within) {
            // The number of bytes differs each time, so one note suffices.
            if !std::mem::replace(&mut self.reported_too_long, true) {
                applied
                    .refused
                    .push(Refusal::for_machine(RefusalCode::Pages, too_long.to_string()));
            }
            return;
        }
        for (process, areas) in unsettled {
            let mut goal = self.following.followed(process, before, after);
            let moves = moving(
                &mut self.options,
                self.page_size,
                &FollowedProcess { shared, process },
                &areas,
                &mut goal,
                MigrationReason::Following,
                applied,
            );
            self.measure(moves);
        }
    }

    /// The areas of a process. If they cannot be read, adds a refusal and returns `None`. `None` also if the process
    /// has ended.
    fn areas(&self, shared: &Shared, process: i32, applied: &mut Applied) -> Option<Vec<MemoryArea>> {
        let target = FollowedProcess { shared, process };
        match Areas::read_held(&target, self.options.system.procfs(), self.page_size).ok()? {
            Ok(areas) => Some(areas.into()),
            Err(error) => {
                let refusal = refusal(&error);
                if !applied.refused.contains(&refusal) {
                    applied.refused.push(refusal);
                }
                None
            }
        }
    }

    /// The bytes per second of a page migration.
    fn copy_rate(&self) -> f64 {
        let rate = self.measured.unwrap_or(ASSUMED_COPY_RATE);
        self.options.rate.map_or(rate, |limit| limit.min(rate))
    }

    fn measure(&mut self, moves: &PageMoves) {
        if self.options.rate.is_none() && moves.moved.bytes >= MEASURABLE {
            self.measured = moves.rate();
        }
    }
}

/// The reason for a migration.
#[derive(Clone, Copy)]
enum MigrationReason {
    /// A page mapping decides the places.
    Mapped(PageMapping),
    /// The pages follow their threads.
    Following,
    /// The pages return to their old places.
    Back,
}

impl MigrationReason {
    /// The name of the goal.
    fn towards(self) -> String {
        match self {
            Self::Mapped(mapping) => mapping.to_string(),
            Self::Following => PageMoves::AFTER_THREADS.to_owned(),
            Self::Back => PageMoves::BACK.to_owned(),
        }
    }
}

/// Moves the pages of one process to `goal`, and adds the result to `applied`.
fn moving<'a>(
    options: &mut PageOptions,
    page_size: u64,
    target: &FollowedProcess,
    areas: &[MemoryArea],
    goal: &mut dyn PageGoal,
    reason: MigrationReason,
    applied: &'a mut Applied,
) -> &'a PageMoves {
    let moves = applied
        .pages
        .get_or_insert_with(|| PageMoves::towards(reason.towards()));
    let mut calls = Calls::new(target, options.system.procfs(), page_size);
    let limits = Limits {
        selection: options.selection,
        rate: options.rate,
        page_size,
    };
    let progress = &mut |done, of| {
        if let Some(progress) = &mut options.progress {
            progress(done, of);
        }
    };
    let mover = if let MigrationReason::Back = reason {
        move_pages_patiently
    } else {
        move_pages
    };
    mover(&mut calls, areas, goal, limits, moves, progress);
    moves
}

/// Reports why pages stay at their places.
fn refusal(why: &dyn fmt::Display) -> Refusal {
    Refusal::for_machine(RefusalCode::Pages, format!("pages stay where they are: {why}"))
}

/// The ranked tasks with the nodes of their PUs.
fn pinned_tasks(topology: &Topology, ranked: &[Ranked]) -> Vec<PinnedTask> {
    let task = |&(id, _, pu): &Ranked| PinnedTask {
        id,
        node: pu.and_then(|pu| node_of_pu(topology, pu)),
    };
    ranked.iter().map(task).collect()
}
