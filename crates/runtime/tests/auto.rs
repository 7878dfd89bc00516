//! The policy `auto`, on scripted machines.

mod common;

use common::{Log, pinning, run_policy, script, scripted};
use pinfold_core::{
    Applied, CandidatesCode, ChoiceCode, ComparedCode, Configuration, Finding, Machine, MachineError, MachineKind,
    Metric, NoteCode, ProposerCode, Sample, TaskId, Topology, Wait,
};
use pinfold_policy::KnownPlacement;
use pinfold_policy::auto::{Auto, AutoOptions, Near};
use pinfold_runtime::{Record, RecordBuilder};
use pinfold_sim::Scripted;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Four threads; `packed` is on one package, `distributed` on both.
const PACKED: &str = "0-3";
const DISTRIBUTED: &str = "0,4,1,5";

/// A program of four threads with a rate for each placement: unpinned, packed, distributed, anywhere else.
fn program(rates: [f64; 4], noise: f64, duration: f64) -> String {
    format!(
        "threads = 4\nduration = {duration:?}\nnoise = {noise:?}\n{}",
        phase(0.0, rates)
    )
}

fn phase(start: f64, [unpinned, packed, distributed, other]: [f64; 4]) -> String {
    format!(
        "[[phase]]\nstart = {start:?}\nrate = {other:?}\nunpinned = {unpinned:?}\n\
         [[phase.pinning]]\npus = \"{PACKED}\"\nrate = {packed:?}\n\
         [[phase.pinning]]\npus = \"{DISTRIBUTED}\"\nrate = {distributed:?}\n"
    )
}

fn run(script: &str) -> (Log, Record) {
    run_with(script, AutoOptions::default())
}

fn run_with(script: &str, options: AutoOptions) -> (Log, Record) {
    run_policy(script, &mut Auto::new(options))
}

/// The mean rate of the run over that of the unpinned program: what the user has in the end.
fn speed(log: &Log, unpinned: f64) -> f64 {
    let last = log.samples.last().unwrap();
    let steps: f64 = last
        .tasks
        .iter()
        .filter_map(|task| Some(task.counts[0]?.value as f64))
        .sum();
    steps / 4.0 / last.at.as_secs_f64() / unpinned
}

fn codes(log: &Log) -> Vec<ChoiceCode> {
    let code = |(_, finding): &(f64, Finding)| match finding {
        Finding::Chosen { code, .. } => Some(*code),
        _ => None,
    };
    log.findings.iter().filter_map(code).collect()
}

fn last_pinning(log: &Log) -> Option<String> {
    let (_, configuration, _) = log.applied.last().unwrap();
    configuration.pinning.as_ref().map(ToString::to_string)
}

/// The numbers of threads of the first and the last search.
fn first_and_last_threads(log: &Log) -> (usize, usize) {
    let threads = log.threads();
    (threads.first().unwrap().1, threads.last().unwrap().1)
}

#[test]
fn nothing_is_pinned_before_the_unpinned_program_is_measured() {
    let (log, _) = run(&program([100.0, 100.0, 130.0, 90.0], 0.01, 60.0));
    let first = log.applied.iter().find(|(_, configuration, _)| configuration.pins());
    let (at, ..) = first.unwrap();
    // The initialisation and four windows.
    assert!(*at > 0.5 + 4.0 * 0.2 - 1e-9, "{at}");
    let proposed = log
        .findings
        .iter()
        .find(|(_, finding)| matches!(finding, Finding::Proposed { .. }));
    assert!(proposed.unwrap().0 <= *at);
}

#[test]
fn a_placement_that_is_faster_is_found_within_seconds_and_kept() {
    let (log, record) = run(&program([1000.0, 1000.0, 1300.0, 900.0], 0.01, 60.0));
    assert_eq!(last_pinning(&log).as_deref(), Some(DISTRIBUTED));
    let faster = log.findings.iter().find(|(_, finding)| {
        matches!(
            finding,
            Finding::Compared {
                code: ComparedCode::Faster,
                ..
            }
        )
    });
    assert!(faster.unwrap().0 < 5.0, "{faster:?}");
    assert!(codes(&log).contains(&ChoiceCode::FasterInTurns));
    let chosen = record.search.chosen.unwrap();
    assert!((chosen.gain_over_first.unwrap() - 0.3).abs() < 0.03, "{chosen:?}");
    assert!(speed(&log, 1000.0) > 1.25, "{}", speed(&log, 1000.0));
}

#[test]
fn where_nothing_is_faster_nothing_is_pinned_and_little_is_lost() {
    for (duration, share) in [(10.0, 0.97), (60.0, 0.99), (600.0, 0.99)] {
        for slow in [0.95, 0.7, 0.3] {
            let slower = 1000.0 * slow;
            let (log, record) = run(&program([1000.0, slower, slower, slower], 0.02, duration));
            assert!(record.search.chosen.is_none_or(|chosen| chosen.pus.is_none()));
            let speed = speed(&log, 1000.0);
            assert!(speed > share - 0.002, "{duration} s, others at {slow}: {speed}");
        }
    }
}

#[test]
fn equal_placements_are_not_kept() {
    let (log, record) = run(&program([1000.0; 4], 0.03, 120.0));
    assert_eq!(last_pinning(&log), None);
    assert_eq!(record.search.chosen.unwrap().code, ChoiceCode::NoPinningBetter);
}

#[test]
fn a_program_of_three_seconds_gets_a_sentence() {
    let (log, record) = run(&program([1000.0, 400.0, 400.0, 400.0], 0.02, 3.0));
    let early = record.program.ended_early.unwrap();
    assert!(early.why.contains("ended before"), "{early:?}");
    // One window of another placement, and the time in which threads settle there.
    assert!(speed(&log, 1000.0) > 0.93, "{}", speed(&log, 1000.0));
}

#[test]
fn a_program_whose_metric_counts_rarely_takes_longer_windows() {
    let (log, _) = run(&program([3.0, 3.0, 4.5, 2.9], 0.01, 600.0));
    assert_eq!(last_pinning(&log).as_deref(), Some(DISTRIBUTED));
    assert!(speed(&log, 3.0) > 1.3, "{}", speed(&log, 3.0));
}

#[test]
fn a_known_program_starts_where_it_was_fastest_and_is_searched_again_if_it_is_slower_than_then() {
    let known = |rate| AutoOptions {
        known: BTreeMap::from([(
            4,
            KnownPlacement {
                pages: None,
                pinning: Some(pinning(DISTRIBUTED)),
                metric: "scripted".to_owned(),
                rate,
                gain: 0.3,
                other_build: false,
            },
        )]),
        ..AutoOptions::default()
    };
    let script = program([1000.0, 1000.0, 1300.0, 900.0], 0.01, 20.0);
    let (log, record) = run_with(&script, known(1300.0));
    assert_eq!(record.search.chosen.unwrap().code, ChoiceCode::KnownProgram);
    assert!(speed(&log, 1000.0) > 1.295, "{}", speed(&log, 1000.0));

    let changed = program([1000.0, 1000.0, 800.0, 900.0], 0.01, 60.0);
    let (log, _) = run_with(&changed, known(1300.0));
    let again = |(_, finding): &(f64, Finding)| {
        matches!(
            finding,
            Finding::Note {
                code: NoteCode::SearchAgain,
                ..
            }
        )
    };
    assert!(log.findings.iter().any(again));
    assert_eq!(last_pinning(&log), None);
}

#[test]
fn another_build_is_a_proposal_and_not_believed() {
    let options = AutoOptions {
        known: BTreeMap::from([(
            4,
            KnownPlacement {
                pages: None,
                pinning: Some(pinning(PACKED)),
                metric: "scripted".to_owned(),
                rate: 2000.0,
                gain: 1.0,
                other_build: true,
            },
        )]),
        ..AutoOptions::default()
    };
    let (log, _) = run_with(&program([1000.0, 700.0, 1300.0, 900.0], 0.01, 60.0), options);
    let first = log.findings.iter().find_map(|(_, finding)| match finding {
        Finding::Proposed { by, gain, .. } => Some((*by, *gain)),
        _ => None,
    });
    assert_eq!(first, Some((ProposerCode::OtherBuild, Some(1.0))));
    assert_eq!(last_pinning(&log).as_deref(), Some(DISTRIBUTED));
}

#[test]
fn a_phase_that_comes_back_gets_its_placement_at_once() {
    let (one, other) = ([1000.0, 1500.0, 1000.0, 900.0], [600.0, 400.0, 900.0, 500.0]);
    let phases: String = (0..10u32)
        .map(|number| phase(f64::from(number) * 100.0, if number % 2 == 0 { one } else { other }))
        .collect();
    let (log, _) = run(&format!("threads = 4\nduration = 1000.0\nnoise = 0.01\n{phases}"));
    let recognised = log.findings.iter().filter(|(_, finding)| {
        matches!(
            finding,
            Finding::Chosen {
                code: ChoiceCode::KnownPhase,
                ..
            }
        )
    });
    assert!(recognised.count() >= 3, "{:?}", log.notes());
    // Both phases in their best placement: 1500 and 900, of 800 on average unpinned.
    let speed = speed(&log, 800.0);
    assert!(speed > 1.3, "{speed}");
}

#[test]
fn in_phases_too_short_for_a_search_the_placement_stays_that_was_best_before() {
    let rates = |times: f64| [1000.0, 1500.0, 100.0, 100.0].map(|rate| rate * times);
    for length in [12.0, 15.0, 18.0, 22.0] {
        let short: String = (0..20u32)
            .map(|number| {
                let start = 80.0 + f64::from(number) * length;
                phase(start, rates(if number % 2 == 0 { 1.5 } else { 0.7 }))
            })
            .collect();
        let (log, _) = run(&format!(
            "threads = 4\nduration = {:?}\nnoise = 0.01\n{}{short}",
            80.0 + 20.0 * length,
            phase(0.0, rates(1.0))
        ));
        let notes = log.notes();
        assert!(notes.iter().any(|note| note.contains("another phase")), "{notes:?}");
        assert!(
            !notes.iter().any(|note| note.contains("goes to unpinned")),
            "{length} s: {notes:?}"
        );
    }
}

#[test]
fn a_single_dip_begins_no_search() {
    let dip = format!(
        "{}{}",
        phase(50.0, [500.0; 4]),
        phase(51.0, [1000.0, 1000.0, 1300.0, 900.0])
    );
    let script = program([1000.0, 1000.0, 1300.0, 900.0], 0.01, 120.0);
    let (log, _) = run(&(script + &dip));
    assert!(
        !log.notes().iter().any(|note| note.contains("another phase")),
        "{:?}",
        log.notes()
    );
}

/// A run of a program of four threads that shall be near a device, which is on the first package. These are the rates
/// of its unpinned threads there and on the whole machine, and of pinned ones.
fn run_near(near: f64, whole: f64, pinned: f64) -> (Log, Record) {
    run_near_in_phases(&near_phase(0.0, near, whole, pinned))
}

fn near_phase(start: f64, near: f64, whole: f64, pinned: f64) -> String {
    format!("[[phase]]\nstart = {start:?}\nrate = {pinned:?}\nunpinned = {whole:?}\nlimited = {near:?}\n")
}

fn run_near_in_phases(phases: &str) -> (Log, Record) {
    let script = format!("threads = 4\nduration = 120.0\nnoise = 0.005\n{phases}");
    let near = Near {
        pus: "0-3".parse().unwrap(),
        pages: None,
        what: "cuda:0".to_owned(),
    };
    let options = AutoOptions {
        near: Some(near),
        ..AutoOptions::default()
    };
    run_with(&script, options)
}

/// The limit and the pinning that were applied last.
fn last_place(log: &Log) -> (Option<String>, Option<String>) {
    let (_, configuration, _) = log.applied.last().unwrap();
    let within = configuration.within.as_ref().map(ToString::to_string);
    (within, last_pinning(log))
}

#[test]
fn a_program_begins_near_its_device_and_stays_where_nothing_is_faster() {
    for whole in [1000.0, 900.0, 500.0] {
        let (log, record) = run_near(1000.0, whole, 800.0);
        let (at, first, _) = &log.applied[0];
        assert!(*at < 1e-9 && first.within == Some("0-3".parse().unwrap()), "{first:?}");
        assert_eq!(last_place(&log), (Some("0-3".to_owned()), None), "{whole}");
        let chosen = record.search.chosen.as_ref().unwrap();
        assert_eq!(
            (chosen.code, chosen.within.clone()),
            (ChoiceCode::Requested, Some("0-3".parse().unwrap()))
        );
        let gain = chosen.gain_over_first.unwrap();
        assert!(((1.0 + gain) * whole / 1000.0 - 1.0).abs() < 0.03, "{whole}: {gain}");
        assert!(speed(&log, 1000.0) > 0.985, "{whole}: {}", speed(&log, 1000.0));
    }
}

#[test]
fn a_program_leaves_its_device_for_the_whole_machine_where_that_is_faster() {
    let (log, record) = run_near(500.0, 1000.0, 400.0);
    assert_eq!(last_place(&log), (None, None));
    assert!(record.search.chosen.as_ref().unwrap().within.is_none());
    let compared = log.findings.iter().find_map(|(at, finding)| match finding {
        Finding::Compared {
            candidate, with, code, ..
        } => Some((*at, *candidate, *with, *code)),
        _ => None,
    });
    let (at, candidate, with, code) = compared.unwrap();
    assert_eq!((candidate, with, code), (0, 1, ComparedCode::Faster));
    assert!(at < 10.0, "{at}");
    assert!(speed(&log, 1000.0) > 0.95, "{}", speed(&log, 1000.0));
}

#[test]
fn in_a_new_phase_the_device_remains_what_the_user_wants() {
    let phases = [(0.0, 1.0), (50.0, 0.5)];
    let phases = phases.map(|(start, times)| near_phase(start, times * 1000.0, times * 900.0, times * 800.0));
    let (log, record) = run_near_in_phases(&phases.concat());
    let notes = log.notes();
    assert!(notes.iter().any(|note| note.contains("another phase")), "{notes:?}");
    assert_eq!(record.search.chosen.as_ref().unwrap().code, ChoiceCode::Requested);
    let first_of_last_search = log.findings.iter().fold(None, |first, (_, finding)| match finding {
        Finding::CandidatesChosen { .. } => None,
        Finding::Compared { candidate, with, .. } => first.or(Some((*candidate, *with))),
        _ => first,
    });
    assert_eq!(
        first_of_last_search,
        Some((0, 1)),
        "it is compared with the whole machine again"
    );
}

#[test]
fn near_a_device_pinned_threads_are_tried_too() {
    let (log, _) = run_near(1000.0, 700.0, 1300.0);
    let (within, pinning) = last_place(&log);
    assert!(within.is_none() && pinning.is_some(), "{pinning:?}");
}

#[test]
fn a_program_that_goes_idle_for_a_minute_is_left_as_it_is() {
    let idle = "[[phase]]\nstart = 30.0\nrate = 0.0\nidle = true\n".to_owned();
    let awake = phase(90.0, [1000.0, 1000.0, 1300.0, 900.0]);
    let script = program([1000.0, 1000.0, 1300.0, 900.0], 0.01, 150.0);
    let (log, _) = run(&(script + &idle + &awake));
    assert_eq!(last_pinning(&log).as_deref(), Some(DISTRIBUTED));
}

#[test]
fn without_a_metric_nothing_is_changed() {
    let script = format!(
        "{}[[metric]]\nname = \"regions\"\nunit = \"region\"\nsource = \"regions\"\nscope = \"program\"\nper_step = 0.0\n",
        program([1000.0, 1000.0, 1300.0, 900.0], 0.01, 30.0)
    );
    let (log, record) = run(&script);
    assert!(log.applied.iter().all(|(_, configuration, _)| !configuration.pins()));
    assert_eq!(record.search.chosen, None);
}

#[test]
fn a_metric_that_stops_during_the_search_leaves_the_program_unpinned_or_where_it_was_faster() {
    let script = format!(
        "{}[[metric]]\nname = \"regions\"\nunit = \"region\"\nsource = \"regions\"\nscope = \"program\"\n\
         missing = [[2.5, 60.0]]\n",
        program([1000.0, 500.0, 500.0, 500.0], 0.01, 60.0)
    );
    let (log, _) = run(&script);
    assert_eq!(last_pinning(&log), None);
    let pinned = 60.0 - log.seconds_unpinned();
    assert!(pinned < 1.0, "{pinned}");
}

#[test]
fn a_program_with_more_threads_later_is_searched_again_for_them() {
    let script = program([1000.0, 1000.0, 1300.0, 900.0], 0.01, 120.0)
        + "[[thread]]\nbegins = 40.0\n[[thread]]\nbegins = 40.0\n";
    let (log, _) = run(&script);
    assert_eq!(first_and_last_threads(&log), (4, 6));
}

#[test]
fn a_program_with_fewer_threads_later_is_searched_again_for_them() {
    let script = program([1000.0, 1000.0, 1300.0, 900.0], 0.01, 120.0)
        + "[[thread]]\nbegins = 0.0\nends = 40.0\n[[thread]]\nbegins = 0.0\nends = 40.0\n";
    let (log, _) = run(&script);
    assert_eq!(first_and_last_threads(&log), (6, 4));
    assert_eq!(last_pinning(&log).as_deref(), Some(DISTRIBUTED));
}

/// A scripted machine on which the threads that were created last do hardly anything while the program is pinned: in
/// every second second less than a hundredth of what the busiest does.
struct Uneven {
    machine: Scripted,
    is_pinned: bool,
    used: BTreeMap<TaskId, (Duration, Duration)>,
}

impl Machine for Uneven {
    fn topology(&self) -> &Topology {
        self.machine.topology()
    }

    fn kind(&self) -> MachineKind {
        MachineKind::Simulated
    }

    fn metrics(&self) -> &[Metric] {
        self.machine.metrics()
    }

    fn observe(&mut self) -> Sample {
        let mut sample = self.machine.observe();
        let share = if sample.at.as_secs().is_multiple_of(2) {
            0.006
        } else {
            0.014
        };
        for task in &mut sample.tasks {
            let now = task.cpu_time.unwrap();
            let (before, shown) = self.used.entry(task.id).or_default();
            let starves = self.is_pinned && task.id.serial >= 2;
            *shown += now.saturating_sub(*before).mul_f64(if starves { share } else { 1.0 });
            *before = now;
            task.cpu_time = Some(*shown);
        }
        sample
    }

    fn apply(&mut self, configuration: &Configuration) -> Applied {
        self.is_pinned = configuration.pinning.is_some();
        self.machine.apply(configuration)
    }

    fn now(&self) -> Duration {
        self.machine.now()
    }

    fn wait(&mut self, duration: Duration) -> Result<Wait, MachineError> {
        self.machine.wait(duration)
    }
}

#[test]
fn threads_that_a_placement_leaves_without_work_keep_their_ranks_and_begin_no_search() {
    let script = script(&program([1000.0, 1000.0, 1300.0, 900.0], 0.01, 600.0));
    let mut machine = Uneven {
        machine: scripted(&script),
        is_pinned: false,
        used: BTreeMap::new(),
    };
    let (mut log, mut builder) = (Log::default(), RecordBuilder::new(&machine, "auto"));
    let mut policy = Auto::new(AutoOptions::default());
    pinfold_runtime::run(&mut machine, &mut policy, &mut builder, &mut log).unwrap();
    assert_eq!(log.threads().len(), 1, "{:?}", log.threads());
    assert!(
        log.applied
            .iter()
            .all(|(_, configuration, _)| configuration.left_alone.is_empty())
    );
    assert_eq!(last_pinning(&log).as_deref(), Some(DISTRIBUTED));
}

/// Why each list of candidates was made.
fn candidates_codes(log: &Log) -> Vec<CandidatesCode> {
    let code = |(_, finding): &(f64, Finding)| match finding {
        Finding::CandidatesChosen { code, .. } => Some(*code),
        _ => None,
    };
    log.findings.iter().filter_map(code).collect()
}

#[test]
fn threads_that_come_back_get_what_was_best_for_them_without_a_search() {
    let extra = |begins: f64| format!("[[thread]]\nbegins = {begins:?}\nends = {:?}\n", begins + 100.0);
    let text = program([1000.0, 1000.0, 1300.0, 900.0], 0.01, 700.0);
    let (head, phases) = text.split_once("[[phase]]").unwrap();
    let (log, record) = run(&format!("{head}{}{}[[phase]]{phases}", extra(100.0), extra(400.0)));
    let known = CandidatesCode::KnownThreads;
    let proposals = CandidatesCode::Proposals;
    assert_eq!(candidates_codes(&log), [proposals, proposals, known, known, known]);
    let threads: Vec<usize> = log.threads().iter().map(|&(_, threads)| threads).collect();
    assert_eq!(threads, [4, 5, 4, 5, 4]);
    assert_eq!(last_pinning(&log).as_deref(), Some(DISTRIBUTED));
    assert_eq!(record.search.chosen.unwrap().code, ChoiceCode::KnownThreads);
}

#[test]
fn a_program_that_has_another_number_of_threads_each_minute_is_searched_a_few_times_an_hour_and_a_line_says_so() {
    let mut threads = String::new();
    for minute in 1..=12 {
        write!(threads, "[[thread]]\nbegins = {:?}\n", 60.0 * f64::from(minute)).unwrap();
    }
    let text = program([1000.0, 900.0, 900.0, 900.0], 0.01, 900.0);
    let (head, phases) = text.split_once("[[phase]]").unwrap();
    let (log, record) = run(&format!("{head}{threads}[[phase]]{phases}"));
    let searches = candidates_codes(&log)
        .into_iter()
        .filter(|code| *code == CandidatesCode::Proposals);
    assert_eq!(searches.count(), 8);
    assert!(
        log.notes()
            .iter()
            .any(|note| note.contains("searches have begun within an hour"))
    );
    assert_eq!(record.search.chosen.unwrap().code, ChoiceCode::SearchLimit);
    assert_eq!(last_pinning(&log), None);
}

#[test]
fn a_program_that_ends_in_any_step_gets_a_choice_or_a_sentence_and_loses_little() {
    for tenths in (1..150).step_by(3) {
        let duration = f64::from(tenths) / 10.0;
        let (log, record) = run(&program([1000.0, 700.0, 1300.0, 700.0], 0.01, duration));
        let said = record.search.chosen.is_some() || record.program.ended_early.is_some();
        assert!(said, "{duration} s: neither a choice nor a sentence");
        assert!(speed(&log, 1000.0) > 0.93, "{duration} s: {}", speed(&log, 1000.0));
    }
}
