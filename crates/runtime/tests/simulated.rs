//! Policies on simulated machines, with programs that are made up.

use pinfold_core::{
    Configuration, Machine, NodeId, PageMapping, Pinning, Prefetchers, ProcessGoal, PuId, PuSet, RefusalCode, Wait,
};
use pinfold_policy::auto::{Auto, AutoOptions};
use pinfold_policy::{Autopin, Candidates, Fixed, Kept, MetricRequest, Options, Policy, Search, Skip, Times};
use pinfold_runtime::{Record, RecordBuilder, Recorder};
use pinfold_sim::model::builtin;
use pinfold_sim::window::{Event, EventKind, Recorded, Stream, synthetic};
use pinfold_sim::{
    EndSwitch, Kernel, NamedProgram, Repeat, RunSettings, SimulatedMachine, SimulatedProgram, WindowStore,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Threads of which each goes through its own memory and, now and then, adds to a word that all of them share.
struct Sharers {
    /// The last of them only waits for the others.
    last_sleeps: bool,
    threads: u16,
    own_bytes: u64,
    owners: Vec<(u64, u32)>,
}

impl Sharers {
    fn new(threads: u16, own_bytes: u64) -> Arc<Self> {
        let mut owners: Vec<(u64, u32)> = (0..u32::from(threads))
            .flat_map(|thread| (0..own_bytes / 4096).map(move |page| (base(thread) / 4096 + page, thread)))
            .collect();
        owners.sort_unstable();
        Arc::new(Self {
            last_sleeps: false,
            threads,
            own_bytes,
            owners,
        })
    }
}

fn base(thread: u32) -> u64 {
    u64::from(thread + 1) << 32
}

impl SimulatedProgram for Sharers {
    fn threads(&self) -> usize {
        usize::from(self.threads)
    }

    fn stream(&self, thread: usize) -> Box<dyn Stream + '_> {
        if self.last_sleeps && thread + 1 == self.threads() {
            return Box::new(Recorded::new(vec![Event::barrier(1, self.threads)]));
        }
        let mut own = synthetic::streaming(base(u32::try_from(thread).unwrap()), self.own_bytes, 1, 4);
        let mut events = vec![];
        let mut batch = pinfold_sim::window::Batch::default();
        while own.next_batch(&mut batch) {
            for (index, event) in batch.events.iter().enumerate() {
                events.push(*event);
                if index % 64 == 0 {
                    events.push(Event::read(1 << 20, 8, 2));
                    events.push(Event::write(1 << 20, 8, 2));
                }
            }
        }
        events.push(Event::barrier(1, self.threads));
        Box::new(Recorded::new(events))
    }

    fn regions(&self) -> Option<u64> {
        None
    }

    fn page_owners(&self) -> &[(u64, u32)] {
        &self.owners
    }

    fn error(&self) -> Option<String> {
        None
    }
}

fn pinning(list: &str) -> Pinning {
    Pinning::new(PuSet::parse_ordered(list).unwrap()).unwrap()
}

fn machine(program: Arc<dyn SimulatedProgram>, pus: Option<&str>, repeat: Repeat, seed: u64) -> SimulatedMachine {
    let model = builtin("opteron-6164x4").unwrap();
    let mut topology = model.topology();
    if let Some(pus) = pus {
        topology = topology.restricted_to(&pus.parse().unwrap()).unwrap();
    }
    let run = RunSettings {
        repeat,
        exit_status: 0,
        seed,
        noise: 0.0,
        kernel: Kernel::default(),
        numa_balancing: false,
    };
    let name = "sharers".to_owned();
    SimulatedMachine::new(model, topology, vec![NamedProgram { name, program }], run)
}

/// Contents by their names.
#[derive(Clone, Default)]
struct InMemory(Rc<RefCell<BTreeMap<String, Vec<u8>>>>);

impl WindowStore for InMemory {
    fn load(&self, name: &str) -> Option<Vec<u8>> {
        self.0.borrow().get(name).cloned()
    }

    fn store(&self, name: &str, content: &[u8]) {
        self.0.borrow_mut().insert(name.to_owned(), content.to_owned());
    }
}

/// The program unpinned and in two pinnings for a second each, with windows that are kept: the repetitions, and the
/// number of configurations.
fn kept(store: &InMemory, run: &[u8], program: &Arc<Sharers>) -> (f64, usize) {
    let mut machine = machine(program.clone(), None, forever(), 0);
    machine.keep_windows(Box::new(store.clone()), run);
    for list in ["0,1,2,3", "0,12,24,36"] {
        machine.wait(Duration::from_secs(1)).unwrap();
        pin(&mut machine, &pinning(list));
    }
    machine.wait(Duration::from_secs(1)).unwrap();
    (machine.programs()[0].repetitions, machine.windows())
}

#[test]
fn what_was_simulated_is_taken_from_its_store_and_gives_the_same_run() {
    let store = InMemory::default();
    let program = Sharers::new(4, MIB);
    let first = kept(&store, b"a", &program);
    assert_eq!(store.0.borrow().len(), first.1);
    assert_eq!(kept(&store, b"a", &program), first);
    assert_eq!(store.0.borrow().len(), first.1, "nothing is simulated again");
    // What is in the store decides, and what is damaged is simulated again.
    for content in store.0.borrow_mut().values_mut() {
        let mut changed: serde_json::Value = serde_json::from_slice(content).unwrap();
        changed["rates"]["programs"][0]["warm"]["seconds"] = 10.0.into();
        *content = changed.to_string().into_bytes();
    }
    assert!(kept(&store, b"a", &program).0 < first.0 / 2.0);
    for content in store.0.borrow_mut().values_mut() {
        content.truncate(1);
    }
    assert_eq!(kept(&store, b"a", &program), first);
    // Another simulator, recording, model or seed has names of its own.
    assert_eq!(kept(&store, b"b", &program), first);
    assert_eq!(store.0.borrow().len(), 2 * first.1);
}

fn forever() -> Repeat {
    Repeat::UntilAsked(EndSwitch::default())
}

fn pin(machine: &mut SimulatedMachine, pinning: &Pinning) -> usize {
    let configuration = Configuration {
        pinning: Some(pinning.clone()),
        ..Configuration::default()
    };
    machine.apply(&configuration).moved.len()
}

/// Repetitions in ten virtual seconds, pinned from the beginning.
fn pinned_rate(program: &Arc<Sharers>, pinning: &Pinning) -> f64 {
    let mut machine = machine(program.clone(), None, forever(), 0);
    pin(&mut machine, pinning);
    machine.wait(Duration::from_secs(10)).unwrap();
    machine.programs()[0].repetitions
}

/// Asks for the end at the first rate line.
struct AtFirstLine(EndSwitch);

impl Recorder for AtFirstLine {
    fn finding(&mut self, _at: Duration, finding: &pinfold_core::Finding, _record: &Record) {
        if matches!(finding, pinfold_core::Finding::Rate { .. }) {
            self.0.end();
        }
    }
}

fn run(program: &Arc<Sharers>, policy: &mut dyn Policy, seed: u64) -> Record {
    let switch = EndSwitch::default();
    let mut machine = machine(program.clone(), None, Repeat::UntilAsked(switch.clone()), seed);
    let mut record = RecordBuilder::new(&machine, policy.name());
    pinfold_runtime::run(&mut machine, policy, &mut record, &mut AtFirstLine(switch)).unwrap();
    record.finish()
}

fn autopin(candidates: &[Pinning], probe: Duration) -> Autopin {
    Autopin::new(Options {
        times: Times::new(Some(probe), None, None),
        search: Search::Exhaustive,
        candidates: Candidates::Schedule(candidates.to_vec()),
        threads: None,
        skip: Skip::default(),
        metric: MetricRequest::Auto,
        watch: None,
    })
}

fn none() -> Fixed {
    Fixed::new(Kept::Nothing, Times::default(), MetricRequest::Auto, Skip::default())
}

#[test]
fn autopin_keeps_the_pinning_under_which_the_window_is_quickest() {
    let program = Sharers::new(4, 64 << 10);
    let candidates = ["0,12,24,36", "0-3", "0,1,12,13"].map(pinning);
    let rates = candidates.each_ref().map(|candidate| pinned_rate(&program, candidate));
    let best = (0..3).max_by(|&a, &b| rates[a].total_cmp(&rates[b])).unwrap();
    let record = run(&program, &mut autopin(&candidates, Duration::from_secs(30)), 0);
    assert_eq!(record.search.chosen.unwrap().candidate, best, "{rates:?}");
    assert!(record.simulated);
}

#[test]
fn ten_virtual_minutes_of_autopin_need_one_window_a_candidate() {
    let program = Sharers::new(2, 16 << 10);
    let candidates: Vec<Pinning> = (1..9).map(|other| pinning(&format!("0,{}", 5 * other))).collect();
    let switch = EndSwitch::default();
    let mut machine = machine(program, None, Repeat::UntilAsked(switch.clone()), 0);
    let mut policy = autopin(&candidates, Duration::from_secs(50));
    let mut record = RecordBuilder::new(&machine, policy.name());
    pinfold_runtime::run(&mut machine, &mut policy, &mut record, &mut AtFirstLine(switch)).unwrap();
    let ran = record.record().program.ran;
    assert!(ran.unwrap() > 600.0, "{ran:?}");
    assert_eq!(machine.windows(), candidates.len());
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let program = Sharers::new(4, 16 << 10);
    let bytes = |seed| serde_json::to_string(&run(&program, &mut none(), seed)).unwrap();
    assert_eq!(bytes(7), bytes(7));
}

#[test]
fn without_a_policy_the_seed_decides_and_the_best_pinning_is_at_least_as_good() {
    let program = Sharers::new(4, 64 << 10);
    let rates: Vec<f64> = (0..6)
        .map(|seed| run(&program, &mut none(), seed).rates[0].rate.unwrap())
        .collect();
    assert!(
        rates.iter().any(|rate| (rate / rates[0] - 1.0).abs() > 1e-6),
        "{rates:?}"
    );
    let average = rates.iter().sum::<f64>() / rates.len() as f64;
    let best = pinned_rate(&program, &pinning("0-3")) / 10.0;
    assert!(best >= average, "{best} {rates:?}");
}

#[test]
fn threads_that_move_run_with_cold_caches_and_wait_for_their_pages() {
    let program = Sharers::new(2, MIB);
    let here = pinning("0,1");
    let mut still = machine(program.clone(), None, forever(), 0);
    let mut moving = machine(program.clone(), None, forever(), 0);
    let mut inside = machine(program, None, forever(), 0);
    for (machine, there) in [
        (&mut still, &here),
        (&mut moving, &pinning("12,13")),
        (&mut inside, &pinning("2,3")),
    ] {
        pin(machine, &here);
        for step in 0..20 {
            machine.wait(Duration::from_millis(100)).unwrap();
            pin(machine, if step % 2 == 0 { there } else { &here });
        }
    }
    assert_eq!(still.programs()[0].paused, Duration::ZERO);
    assert_eq!(inside.programs()[0].paused, Duration::ZERO);
    // Twenty times 256 pages, each of which takes at least as long as the fastest link needs for it.
    let least = 20.0 * 256.0 * 4096.0 / 12.5e9;
    assert!(
        moving.programs()[0].paused.as_secs_f64() > least,
        "{:?}",
        moving.programs()[0].paused
    );
    assert!(inside.programs()[0].repetitions < still.programs()[0].repetitions);
    assert!(moving.programs()[0].repetitions < inside.programs()[0].repetitions);
}

#[test]
fn a_program_ends_after_the_repetitions_that_were_asked_for() {
    let mut machine = machine(
        Sharers::new(2, 4096),
        None,
        Repeat::Times(NonZeroU64::new(3).unwrap()),
        0,
    );
    assert_eq!(machine.wait(Duration::from_secs(100)).unwrap(), Wait::Ended(0));
    assert!((machine.programs()[0].repetitions - 3.0).abs() < 1e-12);
    assert!(machine.now() < Duration::from_secs(1));
    let sample = machine.observe();
    assert_eq!(sample.program[0].unwrap().value, 3);
    assert!(sample.tasks.iter().all(|task| !task.alive));
}

#[test]
fn more_threads_than_pus_take_turns_and_the_user_hears_of_it_once() {
    let program = Sharers::new(6, 4096);
    let mut crowded = machine(program.clone(), Some("0,1"), forever(), 0);
    let mut free = machine(program, None, forever(), 0);
    let mut notes = vec![];
    for machine in [&mut free, &mut crowded] {
        for _ in 0..3 {
            machine.wait(Duration::from_secs(1)).unwrap();
            notes.extend(machine.take_notes());
        }
    }
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].contains("6 threads") && notes[0].contains("2 CPUs"),
        "{}",
        notes[0]
    );
    let seconds = |machine: &mut SimulatedMachine| {
        let tasks = machine.observe().tasks;
        tasks
            .iter()
            .map(|task| task.cpu_time.unwrap().as_secs_f64())
            .sum::<f64>()
    };
    // Two PUs for three seconds.
    assert!(seconds(&mut crowded) <= 6.001 && seconds(&mut free) > 6.0);
    let used: PuSet = crowded.observe().tasks.iter().filter_map(|task| task.last_pu).collect();
    assert_eq!(used.to_string(), "0-1");
}

#[test]
fn tasks_that_nobody_pinned_get_cores_of_their_own_in_different_packages_first() {
    for seed in 0..8 {
        let mut machine = machine(Sharers::new(4, 4096), None, forever(), seed);
        machine.wait(Duration::from_millis(1)).unwrap();
        let packages: PuSet = machine
            .observe()
            .tasks
            .iter()
            .map(|task| PuId(task.last_pu.unwrap().0 / 12))
            .collect();
        assert_eq!(packages.to_string(), "0-3", "seed {seed}");
    }
}

#[test]
fn counters_are_those_of_the_threads_and_of_no_one_else() {
    let program = Sharers::new(2, 4096);
    let mut machine = machine(program.clone(), None, Repeat::Times(NonZeroU64::new(5).unwrap()), 0);
    machine.wait(Duration::from_secs(100)).unwrap();
    let instructions = machine
        .metrics()
        .iter()
        .position(|metric| metric.name == "event:instructions")
        .unwrap();
    let mut stream = program.stream(0);
    let mut batch = pinfold_sim::window::Batch::default();
    let mut expected = 0;
    while stream.next_batch(&mut batch) {
        let counted = batch.events.iter().filter(|event| event.kind != EventKind::Barrier);
        expected += counted.map(|event| u64::from(event.instructions)).sum::<u64>();
    }
    for task in machine.observe().tasks {
        assert_eq!(task.counts[instructions].unwrap().value, 5 * expected);
    }
}

#[test]
fn a_task_that_sleeps_is_left_where_it_is() {
    let program = Arc::new(Sharers {
        last_sleeps: true,
        threads: 3,
        own_bytes: 4096,
        owners: vec![],
    });
    let mut machine = machine(program, None, forever(), 0);
    let helper = machine.observe().tasks[2].id;
    let configuration = Configuration {
        pinning: Some(pinning("0,1")),
        left_alone: [helper].into(),
        ..Configuration::default()
    };
    machine.apply(&configuration);
    machine.wait(Duration::from_secs(3600)).unwrap();
    assert_eq!(machine.windows(), 1);
    assert!(machine.observe().tasks[2].cpu_time.unwrap() < Duration::from_secs(36));
}

/// Two threads of node 0 that stream through more than their caches hold.
fn streaming_machine() -> (SimulatedMachine, Configuration) {
    let program = Sharers::new(2, 8 * MIB);
    let configuration = Configuration {
        pinning: Some(pinning("0,1")),
        ..Configuration::default()
    };
    (machine(program, None, forever(), 0), configuration)
}

/// Repetitions in ten virtual seconds under `configuration`, which is in force from the beginning.
fn rate_under(configuration: &Configuration) -> f64 {
    let (mut machine, _) = streaming_machine();
    assert!(machine.apply(configuration).refused.is_empty());
    machine.wait(Duration::from_secs(10)).unwrap();
    assert_eq!(machine.programs()[0].paused, Duration::ZERO);
    machine.programs()[0].repetitions
}

#[test]
#[expect(clippy::float_cmp, reason = "the same simulation gives the same bits")]
fn pages_are_where_the_configuration_wants_them() {
    let (_, local) = streaming_machine();
    let with = |pages| Configuration {
        pages: Some(pages),
        ..local.clone()
    };
    let rate = rate_under(&local);
    for same in [
        PageMapping::FirstTouch,
        PageMapping::Local,
        PageMapping::Locality,
        PageMapping::Single(NodeId(0)),
    ] {
        assert_eq!(rate_under(&with(same)), rate, "{same}");
    }
    for slower in [PageMapping::Remote, PageMapping::Single(NodeId(7))] {
        assert!(rate_under(&with(slower)) < 0.9 * rate, "{slower}");
    }
    // More memory controllers serve them, and most of these are far away.
    for other in [PageMapping::Interleave, PageMapping::Balance] {
        assert_ne!(rate_under(&with(other)), rate, "{other}");
    }
}

#[test]
fn pages_stay_where_following_their_threads_would_take_too_long() {
    let far = Some(pinning("12,13"));
    for (within, follow) in [(Duration::ZERO, false), (Duration::from_secs(10), true)] {
        let (mut machine, mut configuration) = streaming_machine();
        machine.apply(&configuration);
        machine.wait(Duration::from_secs(1)).unwrap();
        configuration.pinning.clone_from(&far);
        configuration.following_within = Some(within);
        let applied = machine.apply(&configuration);
        machine.wait(Duration::from_secs(1)).unwrap();
        let paused = machine.programs()[0].paused;
        assert_eq!(paused > Duration::ZERO, follow, "{within:?}");
        // What is reported is what the program has paid.
        assert_eq!(applied.pages.map(|moves| moves.lasted), follow.then_some(paused));
    }
}

#[test]
fn pages_of_one_process_are_interleaved_and_go_back() {
    let (mut machine, mut configuration) = streaming_machine();
    machine.apply(&configuration);
    machine.wait(Duration::from_secs(1)).unwrap();
    let before = machine.memory_by_node();
    let process = machine.observe().tasks[0].id.process;

    configuration.following_within = Some(Duration::from_secs(10));
    configuration.followed = Some(BTreeMap::from([(process, ProcessGoal::Interleave)]));
    let applied = machine.apply(&configuration);
    machine.wait(Duration::from_secs(1)).unwrap();
    let moves = applied.pages.unwrap();
    assert_eq!(
        (moves.goal.as_str(), moves.lasted),
        ("interleave", machine.programs()[0].paused)
    );
    let sizes: Vec<u64> = machine.memory_by_node().unwrap().into_values().collect();
    let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
    assert!(sizes.len() > 1 && most - least <= 4096, "{sizes:?}");

    configuration.followed = Some(BTreeMap::new());
    let applied = machine.apply(&configuration);
    machine.wait(Duration::from_secs(1)).unwrap();
    assert_eq!(applied.pages.unwrap().goal, "back to where they were");
    assert_eq!(machine.memory_by_node(), before);
}

#[test]
fn pages_stay_where_moving_them_to_another_mapping_would_take_too_long_and_that_is_said() {
    for (within, moves) in [
        (Some(Duration::from_micros(10)), false),
        (Some(Duration::from_secs(10)), true),
        (None, true),
    ] {
        let (mut machine, mut configuration) = streaming_machine();
        machine.apply(&configuration);
        machine.wait(Duration::from_secs(1)).unwrap();
        let before = machine.memory_by_node();
        configuration.pages = Some(PageMapping::Interleave);
        configuration.mapping_within = within;
        let applied = machine.apply(&configuration);
        let codes: Vec<RefusalCode> = applied.refused.iter().map(|refusal| refusal.code).collect();
        assert_eq!(codes.contains(&RefusalCode::PagesTooLong), !moves, "{codes:?}");
        assert_eq!(machine.programs()[0].paused > Duration::ZERO, moves);
        assert_eq!(machine.memory_by_node() != before, moves);
        // What is reported is what the program has paid.
        let lasted = applied.pages.map(|moves| moves.lasted);
        assert_eq!(lasted, moves.then_some(machine.programs()[0].paused));
    }
}

/// What `auto` does with a program, where it may move pages.
fn auto_on(program: &Arc<Sharers>) -> Record {
    let options = AutoOptions {
        moves_pages: true,
        ..AutoOptions::default()
    };
    let switch = EndSwitch::default();
    // A PU of each package, so that only pages make a difference.
    let pus = Some("0,12,24,36");
    let mut machine = machine(program.clone(), pus, Repeat::UntilAsked(switch.clone()), 0);
    let mut policy = Auto::new(options);
    let mut record = RecordBuilder::new(&machine, policy.name());
    pinfold_runtime::run(&mut machine, &mut policy, &mut record, &mut AtFirstLine(switch)).unwrap();
    record.finish()
}

#[test]
fn auto_moves_no_page_back_and_forth_where_each_thread_has_its_own() {
    let program = Sharers::new(4, 2 * MIB);
    let record = auto_on(&program);
    let chosen = record.search.chosen.as_ref().unwrap();
    assert_eq!(record.search.candidates[chosen.candidate].pages, None);
    let moved: Duration = record.pages.page_moves.iter().map(|one| one.moves.lasted).sum();
    let share = moved.as_secs_f64() / record.program.ran.unwrap();
    assert!(share < 0.01, "{share}");
}

#[test]
fn pages_that_are_moved_while_the_program_runs_cost_time_once() {
    let (mut machine, mut configuration) = streaming_machine();
    machine.apply(&configuration);
    machine.wait(Duration::from_secs(1)).unwrap();
    configuration.pages = Some(PageMapping::Interleave);
    machine.apply(&configuration);
    let paused = machine.programs()[0].paused;
    // Seven of eight pages of 8 MiB move, and a page takes no less than 4 us.
    assert!(paused > Duration::from_micros(4 * 7 * 256), "{paused:?}");
    machine.apply(&configuration);
    assert_eq!(machine.programs()[0].paused, paused);
    // The mapping does not depend on where threads are.
    configuration.pinning = Some(pinning("6,7"));
    machine.apply(&configuration);
    assert_eq!(machine.programs()[0].paused, paused);
    // Nobody says anything: they stay.
    configuration.pages = None;
    machine.apply(&configuration);
    assert_eq!(machine.programs()[0].paused, paused);
}

#[test]
fn prefetchers_that_are_off_bring_nothing() {
    let (_, on) = streaming_machine();
    let off = Configuration {
        prefetchers: Some(Prefetchers::NONE),
        ..on.clone()
    };
    assert!(rate_under(&off) < 0.9 * rate_under(&on));
}

#[test]
#[expect(clippy::float_cmp, reason = "the same simulation gives the same bits")]
fn a_node_that_is_not_there_is_refused_and_pages_stay() {
    let (mut machine, mut configuration) = streaming_machine();
    configuration.pages = Some(PageMapping::Single(NodeId(8)));
    let refused = machine.apply(&configuration).refused;
    assert_eq!(refused.len(), 1);
    assert!(refused[0].task.is_none() && refused[0].why.contains("no NUMA node 8"));
    machine.wait(Duration::from_secs(10)).unwrap();
    configuration.pages = None;
    assert_eq!(machine.programs()[0].repetitions, rate_under(&configuration));
}

#[test]
fn the_memory_of_the_pages_carries_the_traffic() {
    let (mut machine, configuration) = streaming_machine();
    machine.apply(&configuration);
    machine.wait(Duration::from_secs(1)).unwrap();
    let first = machine.memory_traffic().unwrap();
    machine.wait(Duration::from_secs(1)).unwrap();
    let second = machine.memory_traffic().unwrap();
    let holds = machine.memory_by_node().unwrap();
    for (node, bytes) in &second {
        let grown = bytes - first[node];
        assert_eq!(
            grown > 0.0,
            holds.get(node).is_some_and(|&held| held > 0),
            "{node}: {grown}"
        );
    }
}
