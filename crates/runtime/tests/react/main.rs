//! The policies that place single regions, `react` and the default one, on a simulated machine, with programs that are
//! made up: the cases of section 6 of Sánchez Barrera et al. (ICS 2020).

mod belief;

use pinfold_core::{
    Applied, Configuration, Finding, Machine, NoteCode, Pinning, ProposerCode, RegionChoice, RegionCode, RegionId,
    Sample, Wait,
};
use pinfold_policy::auto::{Auto, AutoOptions, Source};
use pinfold_policy::react::{Chooser, React, ReactModel, ReactOptions};
use pinfold_policy::{MetricRequest, Skip, Times};
use pinfold_runtime::{PolicyKind, Record, RecordBuilder, Recorder, RunDocument};
use pinfold_sim::model::builtin;
use pinfold_sim::window::{Event, EventKind, Recorded, Stream};
use pinfold_sim::{EndSwitch, Kernel, NamedProgram, Repeat, RunSettings, SimulatedMachine, SimulatedProgram};
use serde_json::json;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

const THREADS: u16 = 8;
const PAGE: u64 = 4096;
/// So much that a region is longer than 100 us.
const BLOCK: u64 = 8 << 20;

/// What the threads do in a region.
#[derive(Clone, Copy)]
enum Work {
    /// Each goes through its own block.
    OwnBlocks,
    /// All write to the same lines.
    SharedLines,
    /// No region: the first thread goes through more blocks than its caches hold, alone.
    Outside,
    /// Each goes through this number of its own lines, or all write this often to the same ones.
    Brief { own: u64, shared: u64 },
}

/// Regions in turn, of which each thread takes a share.
struct Regions {
    work: Vec<Work>,
    owners: Vec<(u64, u32)>,
}

fn block(thread: u64) -> u64 {
    (thread + 1) << 32
}

impl Regions {
    fn new(work: &[Work]) -> Arc<Self> {
        let pages = |thread: u32| (0..BLOCK / PAGE).map(move |page| (block(thread.into()) / PAGE + page, thread));
        Arc::new(Self {
            work: work.to_vec(),
            owners: (0..u32::from(THREADS)).flat_map(pages).collect(),
        })
    }
}

impl SimulatedProgram for Regions {
    fn threads(&self) -> usize {
        THREADS.into()
    }

    fn stream(&self, thread: usize) -> Box<dyn Stream + '_> {
        let thread = thread as u64;
        let mut events = vec![];
        let through = |owner: u64| (0..BLOCK / 64).map(move |line| Event::read(block(owner) + line * 64, 8, 4));
        for (place, work) in (1..).zip(&self.work) {
            if let Work::Outside = work {
                if thread == 0 {
                    events.extend((0..4).flat_map(through));
                }
                continue;
            }
            if thread == 0 {
                events.push(Event::mark(EventKind::RegionBegin, place));
                events.push(Event::mark(EventKind::Signal, place));
            } else {
                events.push(Event::mark(EventKind::Wait, place));
            }
            events.push(Event::mark(EventKind::ShareBegin, place));
            match work {
                Work::OwnBlocks => events.extend(through(thread)),
                Work::SharedLines => {
                    events.extend((0..4000).map(|turn| Event::write(64 * (turn % 4), 8, 20)));
                }
                Work::Brief { own, shared } => {
                    events.extend((0..*own).map(|line| Event::read(block(thread) + line * 64, 8, 4)));
                    events.extend((0..*shared).map(|turn| Event::write(64 * (turn % 4), 8, 1)));
                }
                Work::Outside => unreachable!("it is no region"),
            }
            events.push(Event::barrier(place, THREADS));
            if thread == 0 {
                events.push(Event::mark(EventKind::RegionEnd, place));
            }
        }
        Box::new(Recorded::new(events))
    }

    fn regions(&self) -> Option<u64> {
        let regions = self.work.iter().filter(|work| !matches!(work, Work::Outside));
        Some(regions.count() as u64)
    }

    fn page_owners(&self) -> &[(u64, u32)] {
        &self.owners
    }

    fn error(&self) -> Option<String> {
        None
    }
}

/// A configuration on a machine of four nodes with eight cores.
fn configuration(threads: usize, nodes: usize, page_map: &str, prefetch: &str) -> serde_json::Value {
    json!({"threads": threads, "nodes": nodes, "thread_map": "scatter", "page_map": page_map, "prefetch": prefetch})
}

/// Regions in which threads wait for each other's lines get the first configuration, others the second.
fn model(few: &serde_json::Value, many: &serde_json::Value) -> ReactModel {
    let profiles = [
        configuration(2, 1, "local", "0000"),
        configuration(8, 4, "locality", "0000"),
    ];
    let features = json!([
        {"profile": 0, "counter": "Power", "least": 0.0, "greatest": 1000.0},
        {"profile": 1, "counter": "CPI", "least": 0.0, "greatest": 1000.0}
    ]);
    let tree = json!([[1, 4.0, 1, 2], [1], [0]]);
    with_tree(&json!(profiles), &features, &json!([few, many]), &tree)
}

/// Each region gets this one.
fn same_for_all(configuration: &serde_json::Value) -> ReactModel {
    let only = json!([configuration]);
    with_tree(&only, &json!([]), &only, &json!([[0]]))
}

fn with_tree(
    profiles: &serde_json::Value,
    features: &serde_json::Value,
    outputs: &serde_json::Value,
    tree: &serde_json::Value,
) -> ReactModel {
    let document = json!({
        "react_model": 3, "machine": "e5-4650x4", "counted_on": "e5-4650x4",
        "trained": {"simulated": true, "machines": ["e5-4650x4"], "programs": [], "rows": 0, "learner": "by hand"},
        "score": {"nested": 0.0, "low": 0.0, "high": 0.0, "control": 0.0, "inside": 0.0, "seeds": 1},
        "baseline": configuration(32, 4, "locality", "0000"),
        "profiles": profiles, "features": features, "outputs": outputs, "tree": tree
    });
    document.to_string().parse().unwrap()
}

fn machine(program: Arc<dyn SimulatedProgram>, repeat: Repeat) -> SimulatedMachine {
    let mut model = builtin("e5-4650x4").unwrap();
    // A thread is as fast beside others as alone on its package, and prefetchers do not hold back: so the regions of these
    // tests want what their names say.
    (model.core.turbo, model.memory.queueing) = (None, None);
    let prefetch = &mut model.prefetch;
    (prefetch.streamer_busy_distance, prefetch.streamer_l2_below) = (None, None);
    (prefetch.llc_in_flight, prefetch.adjacent_below, prefetch.l1_below) = (None, None, None);
    let topology = model.topology();
    let run = RunSettings {
        repeat,
        exit_status: 0,
        seed: 0,
        noise: 0.0,
        kernel: Kernel::default(),
        numa_balancing: false,
    };
    let name = "regions".to_owned();
    SimulatedMachine::new(model, topology, vec![NamedProgram { name, program }], run)
}

/// Ends the program at the first rate after the choice, and keeps where threads were requested to run.
struct Ending {
    switch: EndSwitch,
    requested: Vec<Option<Pinning>>,
}

impl Recorder for Ending {
    fn applied(&mut self, _at: Duration, configuration: &Configuration, _applied: &Applied) {
        self.requested.push(configuration.pinning.clone());
    }

    fn finding(&mut self, _at: Duration, finding: &Finding, _record: &Record) {
        if matches!(finding, Finding::Rate { .. }) {
            self.switch.end();
        }
    }
}

fn run(work: &[Work], model: ReactModel) -> (Record, SimulatedMachine) {
    let (record, machine, _) = run_with_requests(work, model);
    (record, machine)
}

fn options(chooser: Chooser) -> ReactOptions {
    ReactOptions {
        times: Times::new(Some(Duration::from_secs(2)), None, Some(Duration::from_millis(200))),
        metric: MetricRequest::Auto,
        skip: Skip::default(),
        chooser,
    }
}

/// The same, with where threads were requested to run.
fn run_with_requests(work: &[Work], model: ReactModel) -> (Record, SimulatedMachine, Vec<Option<Pinning>>) {
    run_until_chosen(work, Chooser::Model(model))
}

fn run_until_chosen(work: &[Work], chooser: Chooser) -> (Record, SimulatedMachine, Vec<Option<Pinning>>) {
    let switch = EndSwitch::default();
    let mut machine = machine(Regions::new(work), Repeat::UntilAsked(switch.clone()));
    let mut policy = React::new(options(chooser));
    let mut record = RecordBuilder::new(&machine, "react");
    let mut ending = Ending {
        switch,
        requested: vec![],
    };
    pinfold_runtime::run(&mut machine, &mut policy, &mut record, &mut ending).unwrap();
    (record.finish(), machine, ending.requested)
}

fn choice(record: &Record, region: u64) -> &RegionChoice {
    let regions = record.by_policy.regions.as_ref().expect("regions were configured");
    regions
        .choices
        .iter()
        .find(|one| one.region == RegionId(region))
        .unwrap()
}

/// The regions of a sample after a second without a policy.
fn after_a_second(work: &[Work]) -> Sample {
    let mut machine = machine(Regions::new(work), Repeat::UntilAsked(EndSwitch::default()));
    assert_eq!(machine.wait(Duration::from_secs(1)).unwrap(), Wait::Elapsed);
    machine.observe()
}

#[test]
fn a_simulated_machine_tells_regions_apart() {
    let sample = after_a_second(&[Work::OwnBlocks, Work::SharedLines]);
    let [own, shared] = sample.regions.as_slice() else {
        panic!("{:?}", sample.regions);
    };
    assert_eq!((own.id, shared.id), (RegionId(1), RegionId(2)));
    assert!((own.executions - shared.executions).abs() < 1e-6 && own.executions > 10.0);
    let all = own.seconds + shared.seconds;
    assert!(all > 0.9 && all < 1.000_1, "regions fill the program: {all}");
    let bytes = |region: &pinfold_core::RegionSample| region.counts.unwrap().l2.unwrap().misses / region.executions;
    assert!(bytes(own) > 10.0 * bytes(shared), "{own:?} {shared:?}");
}

#[test]
fn regions_that_want_different_numbers_of_threads_get_them_and_the_program_is_faster() {
    let model = model(
        &configuration(2, 1, "single", "0000"),
        &configuration(8, 4, "single", "0000"),
    );
    let (record, _) = run(&[Work::OwnBlocks, Work::SharedLines], model);
    let shared = choice(&record, 2);
    assert_eq!(
        (shared.threads, shared.code),
        (Some(2), RegionCode::Forecast),
        "{record:?}"
    );
    assert_eq!(shared.pus.as_ref().unwrap().pus().len(), 2);
    let (before, after) = (shared.before.unwrap(), shared.after.unwrap());
    assert!(after < 0.8 * before, "{before} {after}");
    let regions = record.by_policy.regions.as_ref().unwrap();
    assert!(regions.gain.unwrap() > 0.0, "{regions:?}");
    assert_ne!(choice(&record, 1).threads, Some(2), "{regions:?}");
}

/// The default policy with these regions, many times over: its record, and how many seconds the program ran.
fn run_auto(work: &[Work], left_out: &[Source]) -> (Record, f64) {
    let repeat = Repeat::Times(NonZeroU64::new(150_000).unwrap());
    let mut machine = machine(Regions::new(work), repeat);
    let options = AutoOptions {
        left_out: left_out.iter().copied().collect(),
        ..AutoOptions::default()
    };
    let mut record = RecordBuilder::new(&machine, "auto");
    pinfold_runtime::run(&mut machine, &mut Auto::new(options), &mut record, &mut ()).unwrap();
    let ran = machine.now().as_secs_f64();
    (record.finish(), ran)
}

#[test]
fn the_default_policy_gives_a_region_the_place_in_which_it_was_fastest_and_the_program_is_faster() {
    let work = [Work::OwnBlocks, Work::SharedLines];
    let (alike, slow) = run_auto(&work, &[Source::Regions]);
    assert_eq!(alike.by_policy.regions, None);
    let (record, fast) = run_auto(&work, &[]);
    assert!(fast < 0.9 * slow, "{slow} {fast}");
    let shared = choice(&record, 2);
    assert_eq!(shared.code, RegionCode::FastestTried, "{record:?}");
    assert!(shared.after.unwrap() < 0.5 * shared.before.unwrap(), "{shared:?}");
    let chosen = record.search.chosen.as_ref().unwrap();
    let kept = &record.search.candidates[chosen.candidate];
    let own = kept.regions.iter().find(|own| own.region == RegionId(2)).unwrap();
    assert_ne!(own.pus, kept.pus, "{kept:?}");
    assert!(kept.to_string().ends_with("region elsewhere"), "{kept}");
    let proposed = record.by_policy.proposals.iter();
    assert!(proposed.into_iter().any(|one| one.by == ProposerCode::Regions));
}

#[test]
fn regions_that_want_the_same_have_no_places_of_their_own() {
    let (record, _) = run_auto(&[Work::SharedLines, Work::SharedLines], &[]);
    assert_eq!(record.by_policy.regions, None);
    assert!(record.search.candidates.iter().all(|one| one.regions.is_empty()));
}

#[test]
fn all_regions_get_one_profiled_configuration_where_they_are_faster_in_it_than_in_the_forecast_ones() {
    let wrong = configuration(8, 4, "single", "1111");
    let (record, _) = run(&[Work::SharedLines], model(&wrong, &wrong));
    let only = choice(&record, 1);
    assert_eq!((only.code, only.threads), (RegionCode::Uniform, Some(2)), "{record:?}");
    assert!(only.after.unwrap() < 0.8 * only.before.unwrap(), "{only:?}");
}

#[test]
fn pages_that_regions_want_at_different_places_are_placed_once_for_the_whole_program() {
    let model = model(
        &configuration(2, 1, "local", "0000"),
        &configuration(8, 4, "locality", "0000"),
    );
    let (record, _) = run(&[Work::OwnBlocks, Work::SharedLines], model);
    let told: Vec<&str> = record.notes.iter().map(|note| note.text.as_str()).collect();
    assert!(
        told.iter()
            .any(|text| text.contains("want their pages at different places")),
        "{told:?}"
    );
    assert!(
        told.iter().any(|text| text.contains("The pages of the least stay")),
        "{told:?}"
    );
    let regions = record.by_policy.regions.as_ref().unwrap();
    assert!(regions.pages.is_some() && regions.gain.unwrap() > 0.0, "{regions:?}");
}

#[test]
fn nothing_stays_where_nothing_is_faster() {
    let slow = || configuration(1, 1, "local", "1111");
    let (record, mut machine, requested) = run_with_requests(&[Work::OwnBlocks], model(&slow(), &slow()));
    let only = choice(&record, 1);
    assert_eq!(
        (only.code, only.threads, &only.pus),
        (RegionCode::NotFaster, None, &None)
    );
    assert_eq!(record.by_policy.regions.as_ref().unwrap().pages, None);
    let sample = machine.observe();
    assert!(sample.tasks.iter().all(|task| task.last_pu.is_some()));
    // Threads return to where the operating system had placed them, and are let go there.
    let [.., home, None] = &requested[..] else {
        panic!("{requested:?}");
    };
    let first = after_a_second(&[Work::OwnBlocks]).tasks;
    let first = first.iter().filter_map(|task| task.last_pu).collect();
    assert_eq!(home, &Pinning::new(first));
    assert!(
        record.notes.iter().any(|note| note.text.contains("nothing is pinned")),
        "{:?}",
        record.notes
    );
}

#[test]
fn regions_that_are_faster_go_back_where_the_whole_program_is_slower() {
    // The threads of the region are faster on one node. What the first thread does outside of it misses its pages
    // there.
    let model = same_for_all(&configuration(2, 1, "remote", "1111"));
    let (record, _, requested) = run_with_requests(&[Work::SharedLines, Work::Outside], model);
    let regions = record.by_policy.regions.as_ref().unwrap();
    let program = regions.program.expect("the whole program was compared");
    assert!(regions.gain.unwrap() > 0.2 && program.gain < -0.1, "{regions:?}");
    assert_eq!(regions.kept(), 0, "{regions:?}");
    assert_eq!((choice(&record, 1).code, regions.pages), (RegionCode::NotFaster, None));
    assert_eq!(requested.last(), Some(&None), "nothing is pinned: {requested:?}");
    let note = record
        .notes
        .iter()
        .find(|note| note.code == NoteCode::RolledBack)
        .unwrap();
    assert!(note.text.contains("the whole program was 0."), "{note:?}");
    let document = RunDocument {
        record: record.clone(),
        ..RunDocument::default()
    };
    let explained = document.explanation(PolicyKind::default());
    assert!(
        explained.contains("no region has a configuration of its own"),
        "{explained}"
    );
    assert!(explained.contains("The whole program ran 0."), "{explained}");
}

#[test]
fn what_is_kept_makes_the_whole_program_faster_and_the_record_says_by_how_much() {
    let model = same_for_all(&configuration(2, 1, "single", "0000"));
    let (record, _) = run(&[Work::SharedLines, Work::Outside], model);
    let regions = record.by_policy.regions.as_ref().unwrap();
    assert_eq!(regions.kept(), 1, "{record:?}");
    let (program, of_regions) = (regions.program.unwrap().gain, regions.gain.unwrap());
    assert!(
        0.0 < program && program < of_regions,
        "the rest is as fast as before: {regions:?}"
    );
}

#[test]
fn more_threads_than_were_recorded_are_refused_with_the_remedy() {
    let many = || configuration(16, 4, "locality", "0000");
    let (record, _) = run(&[Work::OwnBlocks, Work::SharedLines], model(&many(), &many()));
    let why: Vec<&str> = record.refused.iter().map(|refusal| refusal.why.as_str()).collect();
    assert!(
        why.iter()
            .any(|why| why.contains("keeps its 8 threads") && why.contains("record the program with 16")),
        "{why:?}"
    );
}
