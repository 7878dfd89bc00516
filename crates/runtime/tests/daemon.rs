//! The daemon's loop on a machine that is made up: what becomes of moves, whatever tasks, clocks and counters do.

use pinfold_core::container::Container;
use pinfold_core::function::{FoundFunction, FunctionSearch};
use pinfold_core::memory::PageMoves;
use pinfold_core::{
    Host, HostNote, HostNoteCode, HostSample, MappingCode, MappingComparison, Metric, NodeId, NumaNode, ObjectKind,
    Pinning, Placed, ProcessFunction, ProcessGoal, ProcessPages, ProgressCode, PuId, PuSet, Reason, RefusalCode,
    Sample, StayCode, TaskId, TaskSample, TaskStatus, Topology, TopologyBuilder, Wake,
};
use pinfold_policy::KnownPlacement;
use pinfold_policy::sam::{FairMapper, MapperOptions, Move, TaskRates, Thresholds};
use pinfold_runtime::daemon::{
    Knowledge, KnownProcess, NothingKnown, Outcome, Pace, ProgressBy, Rates, Report, Sharing, Tick, watch,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(100);

/// Two packages of four cores.
fn pair() -> Topology {
    pair_of(4)
}

/// Two packages of this number of cores.
fn pair_of(cores: u32) -> Topology {
    let mut builder = TopologyBuilder::new("pair");
    let root = builder.root();
    for package in 0..2 {
        let object = builder.object(root, ObjectKind::Package, Some(package));
        for core in 0..cores {
            let core_object = builder.object(object, ObjectKind::Core, Some(core));
            builder.pu(core_object, PuId(package * cores + core));
        }
        builder.node(NumaNode {
            id: NodeId(package),
            attached_to: object,
            pus: (cores * package..cores * (package + 1)).map(PuId).collect(),
            memory: Some(1 << 30),
            subtype: None,
        });
    }
    builder.build_all().unwrap()
}

/// One task of the machine.
#[derive(Clone)]
struct Task {
    id: TaskId,
    pu: PuId,
    pinned: Option<PuId>,
    /// What is said when it is to be placed.
    answer: Placed,
}

/// A machine on which tasks work all the time.
struct Fake {
    topology: Topology,
    tasks: Vec<Task>,
    now: Duration,
    /// How long each wait really takes, in turn; the interval once they are used up.
    waits: Vec<Duration>,
    ticks: usize,
    last: usize,
    /// What happened, in words.
    calls: Vec<String>,
    /// The processes whose pages follow, as last told, and for how many readings they are under way.
    followed: Rc<RefCell<BTreeMap<i32, ProcessGoal>>>,
    under_way: usize,
    /// What became of pages.
    page_moves: Vec<ProcessPages>,
    /// Whether pages cannot be moved.
    keeps_pages: bool,
    /// Which call of `place` is refused, counted from 1.
    refused: Option<usize>,
    /// The bytes of each process so far, and how many it moves in an interval, with its tasks together or not.
    bytes: BTreeMap<i32, u64>,
    moves_bytes: Option<fn(i32, bool) -> u64>,
    /// How often the function of a process is called in an interval; `None` if functions are not found.
    function_calls: Option<fn(i32, bool) -> u64>,
    /// The functions that are looked for or counted, with the intervals since then and the calls.
    functions: BTreeMap<i32, (usize, u64)>,
    /// The most functions that were looked for at one time.
    most_searches: usize,
}

/// The intervals that a search for a function takes.
const SEARCH: usize = 30;

impl Fake {
    /// Tasks given as process and PU.
    fn new(tasks: &[(i32, u32)], last: usize) -> Self {
        let tasks = (0..).zip(tasks).map(|(serial, &(process, pu))| Task {
            id: TaskId {
                serial,
                process,
                thread: process * 100 + i32::try_from(serial).unwrap(),
            },
            pu: PuId(pu),
            pinned: None,
            answer: Placed::Done,
        });
        Self {
            topology: pair(),
            tasks: tasks.collect(),
            now: Duration::ZERO,
            waits: vec![],
            ticks: 0,
            last,
            calls: vec![],
            followed: Rc::default(),
            under_way: 0,
            page_moves: vec![],
            keeps_pages: false,
            refused: None,
            bytes: BTreeMap::new(),
            moves_bytes: None,
            function_calls: None,
            functions: BTreeMap::new(),
            most_searches: 0,
        }
    }

    /// The functions after another interval; `None` if functions are not found.
    fn count_calls(&mut self) -> Option<BTreeMap<i32, ProcessFunction>> {
        let calls = self.function_calls?;
        for (process, packages) in packages(self) {
            if let Some((since, so_far)) = self.functions.get_mut(&process) {
                *since += 1;
                *so_far += calls(process, packages.iter().all(|package| *package == packages[0]));
            }
        }
        let searches = self.functions.values().filter(|(since, _)| *since < SEARCH).count();
        self.most_searches = self.most_searches.max(searches);
        let read = |&(since, calls): &(usize, u64)| ProcessFunction {
            search: if since < SEARCH {
                FunctionSearch::Running
            } else {
                FunctionSearch::Found(function())
            },
            calls: (since >= SEARCH).then_some(calls),
        };
        Some(
            self.functions
                .iter()
                .map(|(&process, one)| (process, read(one)))
                .collect(),
        )
    }

    fn places(&self) -> Vec<u32> {
        self.tasks.iter().map(|task| task.pu.0).collect()
    }
}

impl Host for Fake {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn metrics(&self) -> &[Metric] {
        &[]
    }

    fn observe(&mut self) -> HostSample {
        if let Some(bytes) = self.moves_bytes {
            for (process, packages) in packages(self) {
                let together = packages.iter().all(|package| *package == packages[0]);
                *self.bytes.entry(process).or_default() += bytes(process, together);
            }
        }
        let all: Arc<PuSet> = Arc::new(self.topology.allowed_pus().clone());
        let functions = self.count_calls();
        let tasks = self.tasks.iter().map(|task| TaskSample {
            id: task.id,
            name: "task".to_owned(),
            alive: true,
            cpu_time: Some(self.now),
            run_delay: None,
            last_pu: Some(task.pu),
            counts: vec![],
        });
        HostSample {
            functions,
            bytes: self.bytes.clone(),
            sample: Sample {
                at: self.now,
                tasks: tasks.collect(),
                ..Sample::default()
            },
            statuses: self
                .tasks
                .iter()
                .map(|task| TaskStatus {
                    allowed: Arc::clone(&all),
                    pinned: task.pinned,
                    left_alone: None,
                    busy: Some(1.0),
                    container: None,
                })
                .collect(),
            scheduled: None,
            watched: self.tasks.len(),
        }
    }

    fn place(&mut self, id: TaskId, pu: PuId) -> Placed {
        self.calls.push(format!("{} to {pu}", id.serial));
        if self.refused == Some(self.calls.len()) {
            return Placed::Refused(Reason::new(StayCode::OwnMask, "its own mask"));
        }
        let task = self.tasks.iter_mut().find(|task| task.id == id).unwrap();
        if task.answer == Placed::Done {
            task.pu = pu;
            task.pinned = Some(pu);
        }
        task.answer.clone()
    }

    fn release(&mut self, id: TaskId) -> Placed {
        self.calls.push(format!("{} released", id.serial));
        let task = self.tasks.iter_mut().find(|task| task.id == id);
        task.map_or(Placed::Gone, |task| {
            task.pinned = None;
            Placed::Done
        })
    }

    fn follow(&mut self, processes: &BTreeMap<i32, ProcessGoal>) {
        let before = self.followed.borrow().clone();
        let concerned: BTreeSet<i32> = before.keys().chain(processes.keys()).copied().collect();
        for process in concerned {
            let goal = processes.get(&process);
            if before.get(&process) == goal {
                continue;
            }
            let whereto = goal.map_or_else(|| PageMoves::BACK.to_owned(), ProcessGoal::to_string);
            self.calls.push(format!("pages of {process} {whereto}"));
            self.under_way = 3;
            self.page_moves.push(ProcessPages {
                process,
                result: if self.keeps_pages {
                    Err(Reason::new(RefusalCode::Pages, "they stay"))
                } else {
                    Ok(PageMoves::default())
                },
            });
        }
        self.followed.borrow_mut().clone_from(processes);
    }

    fn count_functions(&mut self, processes: &BTreeMap<i32, Vec<TaskId>>) {
        self.functions.retain(|process, _| processes.contains_key(process));
        for &process in processes.keys() {
            self.functions.entry(process).or_default();
        }
    }

    fn are_pages_under_way(&self) -> bool {
        self.under_way > 0
    }

    fn take_page_moves(&mut self) -> Vec<ProcessPages> {
        self.under_way = self.under_way.saturating_sub(1);
        std::mem::take(&mut self.page_moves)
    }

    fn take_notes(&mut self) -> Vec<HostNote> {
        vec![]
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn wait(&mut self, until: Duration) -> Wake {
        self.ticks += 1;
        if self.ticks == self.last {
            return Wake::Stop(15);
        }
        self.now = match self.waits.get(self.ticks - 1) {
            Some(&wait) => self.now + wait,
            None => until.max(self.now),
        };
        Wake::Elapsed
    }
}

/// What the loop told.
#[derive(Default)]
struct Heard {
    outcomes: Vec<(u64, Outcome)>,
    comparisons: Vec<MappingComparison>,
    skipped: Vec<bool>,
    withdrawn: Vec<bool>,
    pages: Vec<ProcessPages>,
    followed: Vec<Vec<i32>>,
    known: Vec<KnownProcess>,
    /// Process and code.
    progress: Vec<(i32, ProgressCode)>,
    notes: Vec<HostNote>,
}

impl Report<Fake> for Heard {
    fn note(&mut self, note: &HostNote) {
        self.notes.push(note.clone());
    }

    fn moved(&mut self, _: Duration, one: &Move, outcome: &Outcome, _: Option<&Container>) {
        self.outcomes.push((one.task.serial, outcome.clone()));
    }

    fn compared(&mut self, _: Duration, comparison: MappingComparison) {
        self.comparisons.push(comparison);
    }

    fn progress(&mut self, _: Duration, process: i32, by: &ProgressBy) {
        self.progress.push((process, by.code()));
    }

    fn known(&mut self, _: Duration, known: &KnownProcess) {
        self.known.push(known.clone());
    }

    fn pages(&mut self, _: Duration, pages: &ProcessPages) {
        self.pages.push(pages.clone());
    }

    fn tick(&mut self, _: &Fake, tick: &Tick<'_>) {
        self.skipped.push(tick.skipped);
        self.withdrawn.push(tick.withdrawn);
        self.followed.push(tick.followed.keys().copied().collect());
    }
}

fn thresholds() -> Thresholds {
    Thresholds {
        coherence: 0.25,
        ..Thresholds::paper()
    }
}

fn go(fake: &mut Fake, dry_run: bool) -> Heard {
    go_by(fake, &mut Sharing::equal(), dry_run)
}

fn go_by(fake: &mut Fake, rates: &mut dyn Rates, dry_run: bool) -> Heard {
    go_knowing(fake, rates, &mut NothingKnown::default(), dry_run)
}

fn go_knowing(fake: &mut Fake, rates: &mut dyn Rates, knowledge: &mut dyn Knowledge, dry_run: bool) -> Heard {
    let mut mapper = FairMapper::new(&fake.topology.clone(), thresholds(), MapperOptions::default(), INTERVAL);
    let mut heard = Heard::default();
    let pace = Pace {
        interval: INTERVAL,
        dry_run,
    };
    let wake = watch(fake, rates, &mut mapper, knowledge, &mut heard, pace);
    assert_eq!(wake, Wake::Stop(15));
    heard
}

/// Which processes have tasks in which package.
fn packages(fake: &Fake) -> BTreeMap<i32, Vec<u32>> {
    let mut packages: BTreeMap<i32, Vec<u32>> = BTreeMap::new();
    for task in &fake.tasks {
        packages.entry(task.id.process).or_default().push(task.pu.0 / 4);
    }
    packages
}

#[test]
fn threads_of_a_process_are_brought_together_and_stay() {
    let mut fake = Fake::new(&[(1, 0), (1, 4), (1, 1), (1, 5)], 50);
    go(&mut fake, false);
    let together = &packages(&fake)[&1];
    assert!(
        together.iter().all(|package| package == &together[0]),
        "{:?}",
        fake.places()
    );
    let calls = fake.calls.len();
    fake.ticks = 0;
    go(&mut fake, false);
    assert_eq!(fake.calls.len(), calls, "they were moved again");
}

/// The package of each task of two programs with four threads each, on four PUs: in each way in which four threads are
/// in each package.
fn two_programs_with_twice_as_many_threads_as_pus() -> impl Iterator<Item = Vec<(i32, u32)>> {
    let halves = (0u32..1 << 8).filter(|set| set.count_ones() == 4);
    halves.map(|set| {
        let mut used = [0, 0];
        (0..8)
            .map(|task: usize| {
                let package = set >> task & 1;
                let pu = 2 * package + used[package as usize] % 2;
                used[package as usize] += 1;
                (1 + i32::from(task >= 4), pu)
            })
            .collect()
    })
}

#[test]
fn two_programs_with_more_threads_than_pus_each_come_together_and_then_nothing_moves() {
    for tasks in two_programs_with_twice_as_many_threads_as_pus() {
        let mut fake = Fake::new(&tasks, 200);
        fake.topology = pair_of(2);
        go(&mut fake, false);
        let mut packages: BTreeMap<i32, BTreeSet<u32>> = BTreeMap::new();
        for task in &fake.tasks {
            packages.entry(task.id.process).or_default().insert(task.pu.0 / 2);
        }
        assert!(
            packages.values().all(|packages| packages.len() == 1),
            "{tasks:?}: {:?}",
            fake.places()
        );
        // Each task is pinned once: it moves, or stays with those that came.
        assert!(fake.calls.len() <= tasks.len(), "{tasks:?}: {:?}", fake.calls);
    }
}

#[test]
fn nothing_is_moved_in_a_dry_run() {
    let mut fake = Fake::new(&[(1, 0), (1, 4)], 5);
    let heard = go(&mut fake, true);
    assert_eq!((fake.places(), fake.calls.len()), (vec![0, 4], 0));
    assert!(!heard.outcomes.is_empty());
    assert!(heard.outcomes.iter().all(|(_, outcome)| *outcome == Outcome::Shown));
}

#[test]
fn a_stretch_that_is_far_too_long_or_too_short_decides_nothing() {
    for odd in [Duration::from_secs(60), Duration::ZERO] {
        let mut fake = Fake::new(&[(1, 0), (1, 4)], 2);
        fake.waits = vec![odd];
        let heard = go(&mut fake, false);
        assert_eq!((fake.calls.len(), heard.skipped), (0, vec![false, true]));
    }
    let mut fake = Fake::new(&[(1, 0), (1, 4)], 2);
    let heard = go(&mut fake, false);
    assert_eq!((fake.calls.len(), heard.skipped), (1, vec![false, false]));
}

#[test]
fn a_task_that_has_ended_by_the_time_it_is_moved_is_told_as_gone() {
    let mut fake = Fake::new(&[(1, 0), (1, 4)], 2);
    for task in &mut fake.tasks {
        task.answer = Placed::Gone;
    }
    let heard = go(&mut fake, false);
    assert_eq!(heard.outcomes.len(), 1);
    assert_eq!(heard.outcomes[0].1, Outcome::Gone);
}

/// Two processes, each with a pair of threads on both packages, and no idle core: sharers can only come together by
/// swaps.
fn full(last: usize) -> Fake {
    let tasks = [(1, 0), (1, 4), (1, 1), (1, 5), (2, 2), (3, 3), (4, 6), (5, 7)];
    Fake::new(&tasks, last)
}

/// The rates of a machine without counters, changed.
struct Changed<F = fn(&mut [TaskRates])>(F);

impl<F: FnMut(&mut [TaskRates])> Rates for Changed<F> {
    fn rates(
        &mut self,
        topology: &Topology,
        metrics: &[Metric],
        before: &HostSample,
        now: &HostSample,
    ) -> Vec<TaskRates> {
        let mut rates = Sharing::equal().rates(topology, metrics, before, now);
        (self.0)(&mut rates);
        rates
    }
}

/// Rates of a machine that knows of every task that it needs no memory, so that any can make room.
const UNDEMANDING: Changed = Changed(|rates| {
    for task in rates {
        (task.memory, task.remote) = (Some(0.0), Some(0.0));
    }
});

/// Rates of a machine whose counters have stopped.
const STOPPED: Changed = Changed(|rates| {
    for task in rates {
        (task.inter, task.intra) = (None, None);
    }
});

#[test]
fn both_halves_of_a_swap_are_made() {
    let mut fake = full(30);
    let heard = go_by(&mut fake, &mut { UNDEMANDING }, false);
    assert!(
        heard.outcomes.iter().all(|(_, outcome)| *outcome == Outcome::Made),
        "{heard:?}",
        heard = heard.outcomes
    );
    let together = &packages(&fake)[&1];
    assert!(
        together.iter().all(|package| package == &together[0]),
        "{:?}",
        fake.places()
    );
    let mut places = fake.places();
    places.sort_unstable();
    assert_eq!(places, (0..8).collect::<Vec<_>>(), "two tasks share a core");
}

#[test]
fn a_task_goes_back_when_the_one_that_it_was_to_be_swapped_with_stays() {
    let mut fake = full(2);
    fake.refused = Some(2);
    let heard = go_by(&mut fake, &mut { UNDEMANDING }, false);
    let [(first, Outcome::PartnerStays), (second, Outcome::Refused(_)), ..] = &heard.outcomes[..] else {
        panic!("{:?}", heard.outcomes);
    };
    assert!(fake.calls[0].starts_with(&format!("{first} to")) && fake.calls[1].starts_with(&format!("{second} to")));
    assert_eq!(fake.calls[2], format!("{first} released"));
}

#[test]
fn the_other_half_of_a_swap_is_not_tried_when_the_first_stays() {
    let mut fake = full(2);
    fake.refused = Some(1);
    let heard = go_by(&mut fake, &mut { UNDEMANDING }, false);
    let [(first, Outcome::Refused(_)), (second, Outcome::PartnerStays), ..] = &heard.outcomes[..] else {
        panic!("{:?}", heard.outcomes);
    };
    assert!(fake.calls[0].starts_with(&format!("{first} to")));
    assert!(
        !fake.calls.iter().any(|call| call.starts_with(&format!("{second} "))),
        "{:?}",
        fake.calls
    );
}

#[test]
fn counters_that_stop_counting_move_nothing() {
    let mut fake = Fake::new(&[(1, 0), (1, 4)], 20);
    go_by(&mut fake, &mut { STOPPED }, false);
    assert_eq!(fake.calls.len(), 0);
}

#[test]
fn ticks_come_at_multiples_of_the_interval_and_are_not_made_up_for() {
    let mut fake = Fake::new(&[], 4);
    // The second tick is late by two and a half intervals.
    fake.waits = vec![INTERVAL * 7 / 2];
    go(&mut fake, false);
    assert_eq!(fake.now, INTERVAL * 7 / 2 + INTERVAL * 2);
}

/// Rates of two processes: the first makes half as much progress again when its tasks are together, and the second one
/// then makes half as much.
const PAID: Changed = Changed(|rates| {
    let together = rates.iter().all(|task| task.inter == Some(0.0));
    for task in rates {
        let with = if task.id.process == 1 { 1.5 } else { 0.5 };
        task.progress = Some(if together { with } else { 1.0 });
    }
});

#[test]
fn moves_for_which_another_process_pays_are_withdrawn_and_that_is_reported() {
    let mut fake = Fake::new(&[(1, 0), (1, 4), (2, 1)], 60);
    let heard = go_by(&mut fake, &mut { PAID }, false);
    let [comparison] = &heard.comparisons[..] else {
        panic!("{:?}", heard.comparisons);
    };
    assert_eq!(comparison.outcome, MappingCode::Slower);
    let slowest = comparison.slowest().unwrap();
    assert!(slowest.process == 2 && (slowest.gain + 0.5).abs() < 0.01, "{slowest:?}");
    assert!(comparison.pause > Some(10.0), "{comparison}");
    assert_eq!(fake.places(), [0, 4, 1]);
    assert!(fake.tasks.iter().all(|task| task.pinned.is_none()), "{:?}", fake.calls);
    assert!(!heard.outcomes.is_empty(), "it was tried");
    assert_eq!((heard.withdrawn[0], heard.withdrawn[59]), (false, true));
}

#[test]
fn without_counters_moves_that_slow_a_flow_are_withdrawn_and_those_that_speed_it_up_stay() {
    for (faster_together, outcome, ticks) in [(false, MappingCode::Slower, 120), (true, MappingCode::Kept, 1000)] {
        let mut fake = Fake::new(&[(1, 0), (1, 4), (2, 1)], ticks);
        fake.moves_bytes = Some(if faster_together {
            |process, together| if process == 1 && together { 1500 } else { 1000 }
        } else {
            |process, together| if process == 1 && together { 500 } else { 1000 }
        });
        let heard = go(&mut fake, false);
        let outcomes: Vec<MappingCode> = heard.comparisons.iter().map(|one| one.outcome).collect();
        assert_eq!(outcomes.first(), Some(&outcome));
        let packages = &packages(&fake)[&1];
        assert_eq!(packages[0] == packages[1], faster_together, "{packages:?}");
        assert!(!heard.outcomes.is_empty(), "it was tried");
    }
}

fn function() -> FoundFunction {
    FoundFunction {
        name: "step".to_owned(),
        file: "solver".to_owned(),
        calls_per_second: 100.0,
        threads: 2,
        spread: 0.1,
        cost: 0.001,
    }
}

#[test]
fn without_bytes_the_calls_of_a_function_show_whether_moves_help() {
    for (faster_together, outcome, ticks) in [(false, MappingCode::Slower, 160), (true, MappingCode::Kept, 1000)] {
        let mut fake = Fake::new(&[(1, 0), (1, 4), (2, 1)], ticks);
        fake.function_calls = Some(if faster_together {
            |_, together| if together { 150 } else { 100 }
        } else {
            |_, together| if together { 50 } else { 100 }
        });
        let heard = go(&mut fake, false);
        let outcomes: Vec<MappingCode> = heard.comparisons.iter().map(|one| one.outcome).collect();
        assert_eq!(outcomes.first(), Some(&outcome));
        let packages = &packages(&fake)[&1];
        assert_eq!(packages[0] == packages[1], faster_together, "{packages:?}");
        assert_eq!(heard.progress, [(1, ProgressCode::Function)]);
        assert!(
            heard.outcomes.iter().all(|(serial, _)| *serial < 2),
            "only the measured one is moved"
        );
    }
}

#[test]
fn a_process_stays_until_its_function_was_looked_for() {
    let mut fake = Fake::new(&[(1, 0), (1, 4)], SEARCH);
    fake.function_calls = Some(|_, _| 100);
    let heard = go(&mut fake, false);
    assert_eq!(heard.outcomes, []);
    assert_eq!(fake.functions.len(), 1);
}

#[test]
fn functions_are_looked_for_one_at_a_time_and_no_more_than_eight_are_counted() {
    let tasks: Vec<(i32, u32)> = (1..=12).flat_map(|process| [(process, 0), (process, 4)]).collect();
    let mut fake = Fake::new(&tasks, 12 * (SEARCH + 5));
    fake.function_calls = Some(|_, _| 100);
    let heard = go(&mut fake, false);
    assert_eq!((fake.most_searches, fake.functions.len()), (1, 8));
    assert_eq!(heard.progress.len(), 8);
}

#[test]
fn no_function_is_looked_for_by_a_dry_run_or_of_a_process_with_a_flow_or_with_one_task() {
    let mut fake = Fake::new(&[(1, 0), (1, 4), (2, 1)], 100);
    fake.function_calls = Some(|_, _| 100);
    fake.moves_bytes = Some(|_, _| 1000);
    assert_eq!(
        go(&mut fake, false).progress,
        [(1, ProgressCode::Bytes), (2, ProgressCode::Bytes)]
    );
    assert!(fake.functions.is_empty());
    let mut fake = Fake::new(&[(1, 0), (1, 4)], 100);
    fake.function_calls = Some(|_, _| 100);
    go(&mut fake, true);
    assert!(fake.functions.is_empty());
}

/// Rates of a process that makes less progress when its tasks are together, unless its pages follow them. Then it makes
/// more.
fn away_from_pages(followed: Rc<RefCell<BTreeMap<i32, ProcessGoal>>>) -> Changed<impl FnMut(&mut [TaskRates])> {
    Changed(move |rates: &mut [TaskRates]| {
        let together = rates.iter().all(|task| task.inter == Some(0.0));
        let progress = match (together, followed.borrow().contains_key(&1)) {
            (false, _) => 1.0,
            (true, false) => 0.8,
            (true, true) => 1.2,
        };
        for task in rates {
            task.progress = Some(progress);
        }
    })
}

#[test]
fn pages_follow_tasks_that_were_moved_away_from_them() {
    let mut fake = Fake::new(&[(1, 0), (1, 4)], 100);
    let mut rates = away_from_pages(Rc::clone(&fake.followed));
    let heard = go_by(&mut fake, &mut rates, false);

    let outcomes: Vec<MappingCode> = heard.comparisons.iter().map(|one| one.outcome).collect();
    assert_eq!(outcomes, [MappingCode::Kept]);
    assert_eq!(*fake.followed.borrow(), BTreeMap::from([(1, ProcessGoal::Tasks)]));
    assert_eq!(heard.followed.last(), Some(&vec![1]));
    let moves = fake.calls.iter().filter(|call| call.starts_with("pages")).count();
    assert_eq!(heard.pages.len(), moves, "each is reported");
    // In turns, and at last where the tasks are.
    assert!(moves >= 3 && moves % 2 == 1, "{:?}", fake.calls);
}

#[test]
fn pages_that_cannot_be_moved_are_asked_for_once() {
    let mut fake = Fake::new(&[(1, 0), (1, 4)], 2000);
    fake.keeps_pages = true;
    // Nothing follows, whatever is asked for.
    let heard = go_by(&mut fake, &mut away_from_pages(Rc::default()), false);

    let outcomes: Vec<MappingCode> = heard.comparisons.iter().map(|one| one.outcome).collect();
    assert_eq!(outcomes, [MappingCode::Slower]);
    let asked = fake
        .calls
        .iter()
        .filter(|call| *call == "pages of 1 after their threads")
        .count();
    assert_eq!((asked, fake.places()), (1, vec![0, 4]));
}

#[test]
fn in_a_dry_run_no_page_follows() {
    let mut fake = Fake::new(&[(1, 0), (1, 4)], 100);
    let mut rates = away_from_pages(Rc::default());
    go_by(&mut fake, &mut rates, true);
    assert_eq!(fake.calls, Vec::<String>::new());
}

/// Knows that the program of one process was fastest on two packages, and takes two intervals to find out.
#[derive(Default)]
struct Slow {
    process: i32,
    asked: Vec<i32>,
    waits: usize,
}

impl Knowledge for Slow {
    fn ask(&mut self, process: i32) {
        self.asked.push(process);
        self.waits = 2;
    }

    fn take(&mut self) -> Vec<KnownProcess> {
        if !self.asked.contains(&self.process) || self.waits == 0 {
            return vec![];
        }
        self.waits -= 1;
        if self.waits > 0 {
            return vec![];
        }
        let placement = KnownPlacement {
            pinning: Pinning::new(vec![PuId(7), PuId(3)]),
            pages: None,
            metric: "instructions".to_owned(),
            rate: 1.0,
            gain: 0.5,
            other_build: true,
        };
        vec![KnownProcess {
            process: self.process,
            program: "solver".to_owned(),
            placements: BTreeMap::from([(2, placement)]),
        }]
    }

    fn take_notes(&mut self) -> Vec<HostNote> {
        vec![HostNote {
            code: HostNoteCode::NothingKnown,
            text: "It is read.".to_owned(),
        }]
    }
}

/// Rates of processes that share nothing and make progress, and of which the first makes more on two packages.
fn faster_apart(rates: &mut [TaskRates]) {
    let of_first = rates.iter().filter(|task| task.id.process == 1);
    let packages: BTreeSet<u32> = of_first.map(|task| task.pu.0 / 4).collect();
    for task in rates {
        let is_there = task.id.process == 1 && packages.len() == 2;
        (task.inter, task.intra) = (Some(0.0), Some(0.0));
        (task.memory, task.remote) = (Some(0.0), Some(0.0));
        task.progress = Some(if is_there { 1.5 } else { 1.0 });
    }
}

#[test]
fn a_process_whose_program_is_known_goes_where_that_was_fastest_and_stays() {
    let mut fake = Fake::new(&[(1, 0), (1, 1), (2, 4)], 3000);
    let mut knowledge = Slow {
        process: 1,
        ..Slow::default()
    };
    let heard = go_knowing(&mut fake, &mut Changed(faster_apart), &mut knowledge, false);
    assert_eq!(knowledge.asked, [1, 2], "each is asked about once");
    assert_eq!(heard.known.len(), 1);
    assert_eq!(heard.notes.len(), 3000);

    let outcomes: Vec<MappingCode> = heard.comparisons.iter().map(|one| one.outcome).collect();
    assert!(!outcomes.is_empty() && outcomes.iter().all(|&outcome| outcome == MappingCode::Kept));
    assert_eq!(packages(&fake), BTreeMap::from([(1, vec![1, 0]), (2, vec![1])]));
}

#[test]
fn in_a_dry_run_nobody_is_asked_about() {
    let mut fake = Fake::new(&[(1, 0), (1, 1)], 20);
    let mut knowledge = Slow {
        process: 1,
        ..Slow::default()
    };
    let mut mapper = FairMapper::new(&fake.topology.clone(), thresholds(), MapperOptions::PAPER, INTERVAL);
    let pace = Pace {
        interval: INTERVAL,
        dry_run: true,
    };
    let mut heard = Heard::default();
    watch(
        &mut fake,
        &mut Changed(faster_apart),
        &mut mapper,
        &mut knowledge,
        &mut heard,
        pace,
    );
    assert_eq!((knowledge.asked.len(), fake.calls.len()), (0, 0));
}
