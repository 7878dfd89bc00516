//! The living tasks of a program, their ranks, and the rule that decides a task's PUs. Pure: this module makes no
//! system calls.
//!
//! Ranks: a task takes the lowest free rank when it starts and frees it when it ends. When the set of tasks without
//! rank changes, all others are numbered again, without gaps, in the order of their creation.

use crate::affinity::CpuMask;
use crate::journal::Thread;
use crate::launch::Births;
use crate::procfs::TaskTimes;
use crate::requested::{ObservedMask, Requested, Restoration};
use pinfold_core::{PuId, Reason, StayCode, TaskId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One living task.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) id: TaskId,
    /// The original mask. It is restored at the end, and the task is never placed outside it.
    pub(crate) original: Arc<Requested>,
    /// The PU that pinfold has pinned it on.
    pub(crate) pinned: Option<PuId>,
    /// pinfold's previous pinning, and the time when it ended. A thread that the task created under it has that mask,
    /// and may be seen only now.
    pub(crate) before: Option<(PuId, Instant)>,
    /// The name in the journal, if the task is there.
    pub(crate) noted: Option<Thread>,
    /// Why the task is not on the PU of its rank. It is stored so that a reason is reported once.
    pub(crate) refused: Option<String>,
    /// The name at the last reading. Empty before the first.
    pub(crate) name: String,
    /// The processor time and the run delay at the last reading.
    pub(crate) times: Option<TaskTimes>,
}

/// This is longer than a new thread waits until it is seen, even on a busy machine.
const BEING_MADE: Duration = Duration::from_secs(1);

impl Task {
    /// Records a change of the mask: to one PU, or back to the original mask.
    pub(crate) fn set_pinned(&mut self, pinned: Option<PuId>) {
        if let Some(before) = self.pinned.filter(|_| self.pinned != pinned) {
            self.before = Instant::now().checked_add(BEING_MADE).map(|until| (before, until));
        }
        self.pinned = pinned;
    }

    /// The PUs that pinfold pins it on, or recently pinned it on.
    fn pins(&self) -> impl Iterator<Item = PuId> + Clone {
        let lately = self.before.filter(|&(_, until)| Instant::now() < until);
        self.pinned.into_iter().chain(lately.map(|(pu, _)| pu))
    }
}

/// One living process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    tasks: BTreeSet<u64>,
    /// The time since which its first thread is alone and its runtime may still read the number of PUs: see `machine`.
    pub(crate) alone_since: Option<Instant>,
    /// The births of its threads.
    pub(crate) births: Births,
}

/// The living tasks, by serial, by thread id and by process.
#[derive(Debug, Default)]
pub(crate) struct TaskTable {
    next_serial: u64,
    tasks: BTreeMap<u64, Task>,
    by_thread: HashMap<i32, u64>,
    processes: HashMap<i32, Process>,
    ranks: Ranks,
}

impl TaskTable {
    /// The number of tasks that have started.
    pub(crate) fn added(&self) -> u64 {
        self.next_serial
    }

    /// Adds a task that has just started. `skipped` tells whether a serial has no rank.
    pub(crate) fn add(
        &mut self,
        process: i32,
        thread: i32,
        origin: TaskOrigin,
        skipped: impl Fn(u64) -> bool,
    ) -> TaskId {
        let id = TaskId {
            serial: self.next_serial,
            process,
            thread,
        };
        self.next_serial += 1;
        self.by_thread.insert(thread, id.serial);
        self.processes.entry(process).or_default().tasks.insert(id.serial);
        self.tasks.insert(
            id.serial,
            Task {
                id,
                original: origin.original,
                pinned: origin.pinned,
                before: None,
                noted: None,
                refused: None,
                name: String::new(),
                times: None,
            },
        );
        if !skipped(id.serial) {
            self.ranks.enter(id.serial);
        }
        id
    }

    /// Removes the task of a thread that has ended.
    pub(crate) fn end(&mut self, thread: i32) -> Option<Task> {
        let serial = self.by_thread.remove(&thread)?;
        let task = self.tasks.remove(&serial)?;
        if let Some(process) = self.processes.get_mut(&task.id.process) {
            process.tasks.remove(&serial);
            if process.tasks.is_empty() {
                self.processes.remove(&task.id.process);
            }
        }
        self.ranks.leave(serial);
        Some(task)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The living tasks, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values()
    }

    /// The serials of the living tasks, the oldest first.
    pub(crate) fn serials(&self) -> Vec<u64> {
        self.tasks.keys().copied().collect()
    }

    pub(crate) fn get_mut(&mut self, serial: u64) -> Option<&mut Task> {
        self.tasks.get_mut(&serial)
    }

    /// The task of a thread.
    pub(crate) fn find_thread(&self, thread: i32) -> Option<&Task> {
        self.tasks.get(self.by_thread.get(&thread)?)
    }

    pub(crate) fn process_mut(&mut self, process: i32) -> Option<&mut Process> {
        self.processes.get_mut(&process)
    }

    pub(crate) fn has_process(&self, process: i32) -> bool {
        self.processes.contains_key(&process)
    }

    /// The living processes.
    pub(crate) fn processes(&self) -> impl Iterator<Item = i32> + '_ {
        self.processes.keys().copied()
    }

    /// The tasks of one process, the oldest first.
    pub(crate) fn tasks_of(&self, process: i32) -> impl Iterator<Item = &Task> {
        self.processes
            .get(&process)
            .into_iter()
            .flat_map(|process| &process.tasks)
            .filter_map(|serial| self.tasks.get(serial))
    }

    /// The PUs that tasks of a process are or were recently pinned on, with the original masks of these tasks.
    pub(crate) fn pins_of(&self, process: i32) -> impl Iterator<Item = (PuId, Arc<Requested>)> + '_ {
        self.tasks_of(process)
            .flat_map(|task| task.pins().map(|pu| (pu, Arc::clone(&task.original))))
    }

    /// The rank of a task. `None` for a task that is left alone.
    pub(crate) fn rank(&self, serial: u64) -> Option<usize> {
        self.ranks.get(serial)
    }

    /// Numbers all tasks again, except for those that `left_alone` selects.
    pub(crate) fn number_again(&mut self, left_alone: impl Fn(TaskId) -> bool) {
        self.ranks = Ranks::default();
        for task in self.tasks.values().filter(|task| !left_alone(task.id)) {
            self.ranks.enter(task.id.serial);
        }
    }

    /// The time since which this task is its process's first thread and alone. `None` if it is not.
    pub(crate) fn alone_since(&self, id: TaskId) -> Option<Instant> {
        let process = self.processes.get(&id.process).filter(|_| id.thread == id.process)?;
        process.alone_since
    }

    /// Records that the process has created another thread. Returns the serial of its first thread if that was alone
    /// until now.
    pub(crate) fn not_alone(&mut self, process: i32) -> Option<u64> {
        let state = self.processes.get_mut(&process)?;
        state.alone_since.take()?;
        self.by_thread.get(&process).copied()
    }

    /// The origin of a task that starts in `process`, or was created by it, and can run on `usable`. `look` reads its
    /// mask. If pinfold has recently pinned a task of that process to exactly that mask, or if a cpuset derives that
    /// mask from the pinning, the new task inherited the pinning and has that task's original mask. Otherwise the
    /// program has set the mask, unless the agent may have pinned a thread to it (`by_agent`): then the new task has
    /// the original mask of the process's oldest task. `None` for a task that has ended.
    pub(crate) fn origin_of_new_task(
        &self,
        process: i32,
        usable: &CpuMask,
        by_agent: bool,
        look: impl FnOnce() -> Option<ObservedMask>,
    ) -> Option<TaskOrigin> {
        let inherited = |pu: PuId, original: Arc<Requested>| {
            let pinned = Some(pu);
            Some(TaskOrigin { original, pinned })
        };
        if let Some((pu, original)) = self.pins_of(process).find(|&(pu, _)| usable.only() == Some(pu)) {
            return inherited(pu, original);
        }
        let oldest = self.tasks_of(process).next().filter(|_| by_agent);
        if let (Some(oldest), Some(pu)) = (oldest, usable.only())
            && oldest.original.has(pu)
        {
            return inherited(pu, Arc::clone(&oldest.original));
        }
        let seen = look()?;
        let cut = self.pins_of(process).filter(|&(pu, _)| !usable.contains(pu));
        let pins: Vec<(PuId, Arc<Requested>)> = cut.collect();
        if let Some((pu, original)) = seen.inherited(pins.iter().map(|(pu, original)| (*pu, &**original))) {
            return inherited(pu, Arc::new(original.clone()));
        }
        let requested = seen.requested();
        // All tasks with equal masks share one, which keeps two thousand of them small.
        let shared = self.tasks_of(process).find(|task| *task.original == requested);
        Some(TaskOrigin {
            original: shared.map_or_else(|| Arc::new(requested), |task| Arc::clone(&task.original)),
            pinned: None,
        })
    }
}

/// The origin of a task.
#[derive(Clone, Debug)]
pub(crate) struct TaskOrigin {
    /// The original mask.
    pub(crate) original: Arc<Requested>,
    /// The pinning by pinfold that it inherited.
    pub(crate) pinned: Option<PuId>,
}

impl TaskOrigin {
    /// The origin of the program's first task.
    pub(crate) fn first(original: Requested) -> Self {
        Self {
            original: Arc::new(original),
            pinned: None,
        }
    }
}

/// The ranks in use. Each rank below `end` is either held or in `free`.
#[derive(Debug, Default)]
struct Ranks {
    held: HashMap<u64, usize>,
    free: BTreeSet<usize>,
    end: usize,
}

impl Ranks {
    fn enter(&mut self, serial: u64) {
        let rank = self.free.pop_first().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        });
        self.held.insert(serial, rank);
    }

    fn leave(&mut self, serial: u64) {
        if let Some(rank) = self.held.remove(&serial) {
            self.free.insert(rank);
        }
    }

    fn get(&self, serial: u64) -> Option<usize> {
        self.held.get(&serial).copied()
    }
}

/// The decision about a task's mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The mask is as it should be.
    Keep,
    /// Pin the task on this PU.
    Pin(PuId),
    /// Set this mask: the task's original one, unless the kernel has forgotten that even without pinfold.
    Restore(Requested),
    /// The mask cannot be as requested, for this reason.
    Refuse(Reason<StayCode>),
}

/// Decides about a task that can run on the PUs of `current`. It should run on `wanted`, or else have its original
/// mask. `look` reads its mask if the PUs do not decide.
///
/// If a mask is not pinfold's, nor the result of a cpuset on pinfold's, nor as wide as the original, the task has
/// chosen it: it stays. A mask as wide as the original was not chosen: a runtime has reset it at the start of the
/// thread (LLVM's OpenMP runtime does so). A task never gets a PU outside its original mask.
pub(crate) fn decide(
    task: &Task,
    current: &CpuMask,
    wanted: Option<PuId>,
    look: impl FnOnce() -> Option<ObservedMask>,
) -> Verdict {
    let in_force = task.pinned.is_some() && current.only() == task.pinned;
    match wanted {
        Some(pu) if !task.original.has(pu) => {
            let why = format!("PU {pu} is not among the task's allowed PUs, {}", task.original);
            return Verdict::Refuse(Reason::new(StayCode::PuNotAllowed, why));
        }
        Some(pu) if current.only() == Some(pu) => return Verdict::Keep,
        Some(pu) if in_force => return Verdict::Pin(pu),
        None if task.pinned.is_none() => return Verdict::Keep,
        None if in_force && *task.original == Requested::Cpus(current.clone()) => return Verdict::Keep,
        None if in_force => return Verdict::Restore(Requested::clone(&task.original)),
        _ => {}
    }
    // A task that has ended has no mask.
    let Some(seen) = look() else { return Verdict::Keep };
    let is_reset = seen.mask.is_superset(&task.original.among(&seen.allowed.now));
    let restoration = match task.pinned {
        Some(pinned) => seen.restoration(&[pinned], &task.original),
        None => Restoration::Nothing,
    };
    match (wanted, restoration) {
        (Some(pu), Restoration::Mask(to)) => {
            if seen.allowed.now.contains(pu) {
                Verdict::Pin(pu)
            } else {
                Verdict::Restore(to)
            }
        }
        (Some(pu), _) if is_reset => Verdict::Pin(pu),
        (Some(_), _) => {
            let why = format!(
                "its PUs are {}, which pinfold did not set: the task itself or another program has set them",
                seen.mask.to_set()
            );
            Verdict::Refuse(Reason::new(StayCode::MaskChanged, why))
        }
        (None, Restoration::Mask(to)) => Verdict::Restore(to),
        (None, _) => Verdict::Keep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requested::tests::{mask, seen};
    use proptest::prelude::*;

    fn cpus(pus: &str) -> Requested {
        Requested::Cpus(mask(pus))
    }

    /// The decision about a task with the mask `current` and a cpuset of four PUs.
    fn decide(task: &Task, current: &CpuMask, wanted: Option<PuId>) -> Verdict {
        decide_within("0-3", task, current, wanted)
    }

    fn decide_within(cpuset: &str, task: &Task, current: &CpuMask, wanted: Option<PuId>) -> Verdict {
        let look = || Some(seen(&current.to_set().to_string(), cpuset, cpuset));
        super::decide(task, current, wanted, look)
    }

    fn task(original: &str, pinned: Option<u32>) -> Task {
        Task {
            id: TaskId {
                serial: 0,
                process: 1,
                thread: 1,
            },
            original: Arc::new(cpus(original)),
            pinned: pinned.map(PuId),
            before: None,
            noted: None,
            refused: None,
            name: String::new(),
            times: None,
        }
    }

    fn add(table: &mut TaskTable, thread: i32) -> TaskId {
        table.add(1, thread, TaskOrigin::first(cpus("0-3")), |_| false)
    }

    fn ranks(table: &TaskTable) -> Vec<(i32, Option<usize>)> {
        table
            .iter()
            .map(|task| (task.id.thread, table.rank(task.id.serial)))
            .collect()
    }

    #[test]
    fn ranks_follow_the_order_of_creation() {
        let mut table = TaskTable::default();
        for thread in [30, 10, 20] {
            add(&mut table, thread);
        }
        assert_eq!(ranks(&table), [(30, Some(0)), (10, Some(1)), (20, Some(2))]);
    }

    #[test]
    fn a_new_task_takes_the_lowest_free_rank() {
        let mut table = TaskTable::default();
        for thread in 1..=4 {
            add(&mut table, thread);
        }
        table.end(3);
        table.end(2);
        add(&mut table, 5);
        assert_eq!(ranks(&table), [(1, Some(0)), (4, Some(3)), (5, Some(1))]);
    }

    #[test]
    fn leaving_a_task_alone_closes_the_gap() {
        let mut table = TaskTable::default();
        for thread in 1..=3 {
            add(&mut table, thread);
        }
        table.number_again(|id| id.thread == 2);
        assert_eq!(ranks(&table), [(1, Some(0)), (2, None), (3, Some(1))]);
        add(&mut table, 4);
        assert_eq!(table.rank(3), Some(2));
    }

    #[test]
    fn a_skipped_task_takes_no_rank_at_its_creation() {
        let mut table = TaskTable::default();
        for thread in 1..=3 {
            table.add(1, thread, TaskOrigin::first(cpus("0")), |serial| serial == 1);
        }
        assert_eq!(ranks(&table), [(1, Some(0)), (2, None), (3, Some(1))]);
    }

    #[test]
    fn a_thread_id_that_is_used_again_is_another_task() {
        let mut table = TaskTable::default();
        let first = add(&mut table, 7);
        table.end(7);
        let second = add(&mut table, 7);
        assert_ne!(first, second);
        assert_eq!(table.find_thread(7).unwrap().id, second);
    }

    /// The origin of a task that process 1 has created with this mask, in a cpuset of these PUs.
    fn origin(table: &TaskTable, inherited: &str, cpuset: &str, by_agent: bool) -> (Requested, Option<PuId>) {
        let look = || Some(seen(inherited, cpuset, cpuset));
        let origin = table.origin_of_new_task(1, &mask(inherited), by_agent, look).unwrap();
        (Requested::clone(&origin.original), origin.pinned)
    }

    #[test]
    fn a_new_task_has_its_creators_original_mask() {
        let mut table = TaskTable::default();
        let id = add(&mut table, 1);
        table.get_mut(id.serial).unwrap().pinned = Some(PuId(2));
        assert_eq!(origin(&table, "2", "0-3", false), (cpus("0-3"), Some(PuId(2))));
        // A thread that was created before its creator was moved may be seen shortly after the move.
        table.get_mut(id.serial).unwrap().set_pinned(None);
        assert_eq!(origin(&table, "2", "0-3", false), (cpus("0-3"), Some(PuId(2))));
        // The program has chosen a mask that pinfold did not set.
        assert_eq!(origin(&table, "1", "0-3", false), (cpus("1"), None));
        // The agent may have set it.
        assert_eq!(origin(&table, "1", "0-3", true), (cpus("0-3"), Some(PuId(1))));
    }

    #[test]
    fn a_new_task_inherits_a_pinning_that_a_cpuset_has_cut() {
        let mut table = TaskTable::default();
        let id = add(&mut table, 1);
        assert_eq!(origin(&table, "0-1", "0-1", false), (Requested::Unset, None));
        table.get_mut(id.serial).unwrap().pinned = Some(PuId(2));
        // A task that has inherited nothing has the same mask, and does not become narrower.
        assert_eq!(origin(&table, "0-1", "0-1", false), (Requested::Unset, Some(PuId(2))));
        assert_eq!(origin(&table, "0", "0-1", false), (cpus("0"), None));
    }

    #[test]
    fn a_pinned_task_is_unpinned_when_its_cpuset_removes_its_pu() {
        let pinned = task("0-3", Some(2));
        for wanted in [None, Some(PuId(2))] {
            let verdict = decide_within("0-1", &pinned, &mask("0-1"), wanted);
            assert_eq!(verdict, Verdict::Restore(cpus("0-3")));
        }
        assert_eq!(
            decide_within("0-1", &pinned, &mask("0-1"), Some(PuId(1))),
            Verdict::Pin(PuId(1))
        );
    }

    #[test]
    fn a_mask_that_a_runtime_resets_is_pinned_again_and_an_own_mask_is_not() {
        let pinned = task("0-3", Some(1));
        assert_eq!(decide(&pinned, &mask("0-3"), Some(PuId(1))), Verdict::Pin(PuId(1)));
        let Verdict::Refuse(reason) = decide(&pinned, &mask("2-3"), Some(PuId(1))) else {
            panic!("the program's own mask was not respected");
        };
        assert_eq!(reason.code, StayCode::MaskChanged);
        assert!(reason.why.contains("2-3"), "{reason:?}");
    }

    #[test]
    fn a_mask_that_the_task_has_set_is_not_changed() {
        assert_eq!(decide(&task("0-3", Some(1)), &mask("2"), None), Verdict::Keep);
        assert_eq!(
            decide(&task("0-3", Some(1)), &mask("1"), None),
            Verdict::Restore(cpus("0-3"))
        );
    }

    #[test]
    fn a_pu_outside_the_original_mask_is_refused_by_name() {
        let Verdict::Refuse(reason) = decide(&task("0-1", None), &mask("0-1"), Some(PuId(5))) else {
            panic!("pinned outside the original mask");
        };
        assert_eq!(reason.code, StayCode::PuNotAllowed);
        assert!(reason.why.contains("PU 5") && reason.why.contains("0-1"), "{reason:?}");
    }

    fn masks() -> impl Strategy<Value = CpuMask> {
        proptest::collection::btree_set(0u32..4, 1..5).prop_map(|pus| pus.into_iter().map(PuId).collect())
    }

    proptest! {
        #[test]
        fn ranks_are_distinct_and_the_lowest_free_one_is_taken(
            steps in proptest::collection::vec((any::<bool>(), 0i32..12), 0..80)
        ) {
            let mut table = TaskTable::default();
            for (starts, thread) in steps {
                if !starts {
                    table.end(thread);
                } else if table.find_thread(thread).is_none() {
                    let held: BTreeSet<usize> = ranks(&table).into_iter().filter_map(|(_, rank)| rank).collect();
                    let lowest = (0..=held.len()).find(|rank| !held.contains(rank));
                    let id = add(&mut table, thread);
                    prop_assert_eq!(table.rank(id.serial), lowest);
                }
                let mut held: Vec<usize> = ranks(&table).into_iter().filter_map(|(_, rank)| rank).collect();
                let tasks = held.len();
                held.sort_unstable();
                held.dedup();
                prop_assert_eq!(held.len(), tasks);
            }
        }

        #[test]
        fn nothing_is_pinned_outside_the_original_mask(
            original in masks(), current in masks(), pinned in proptest::option::of(0u32..4), wanted in 0u32..4
        ) {
            let mut task = task("0", pinned);
            task.original = Arc::new(Requested::Cpus(original.clone()));
            if let Verdict::Pin(pu) = decide(&task, &current, Some(PuId(wanted))) {
                prop_assert!(pu == PuId(wanted) && original.contains(pu));
            }
        }

        #[test]
        fn a_repeated_decision_keeps_the_mask(
            original in masks(), current in masks(), pinned in proptest::option::of(0u32..4),
            wanted in proptest::option::of(0u32..4)
        ) {
            let mut task = task("0", pinned);
            task.original = Arc::new(Requested::Cpus(original.clone()));
            let wanted = wanted.map(PuId);
            let after = match decide(&task, &current, wanted) {
                Verdict::Pin(pu) => {
                    task.pinned = Some(pu);
                    CpuMask::single(pu)
                }
                Verdict::Restore(to) => {
                    task.pinned = None;
                    to.among(&mask("0-3"))
                }
                Verdict::Keep | Verdict::Refuse(_) => return Ok(()),
            };
            prop_assert_eq!(decide(&task, &after, wanted), Verdict::Keep);
        }
    }
}
