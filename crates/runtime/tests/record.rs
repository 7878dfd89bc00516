//! The file of a run: read back by the types that wrote it, and explained.

#[path = "../../core/tests/support/hostile.rs"]
mod hostile;

use hostile::{INPUTS, spoiled_text};
use pinfold_core::{BrokenOffCode, ChoiceCode, NoteCode, PlacedBy, Prefetchers, PuId, Reason, RegionId, Tried};
use pinfold_runtime::{NumaBalancing, PolicyKind, RunDocument, SimulatedProgram, Simulation};
use proptest::prelude::*;

const RECORD: &str = r#"{
    "command": ["app", "--fast"], "topology": "small: 2 packages", "machine": "small", "simulated": false,
    "policy": "autopin", "metric": {"name": "regions", "unit": "region", "scope": "program"},
    "metric_why": "the nearest to the program's own progress", "threads": 2,
    "candidates_why": "the pinnings that were asked for",
    "candidates": [
        {"pus": [0, 1], "rate": 80.0, "spread": 0.01, "measured": 30.0, "dropped": false},
        {"pus": [0, 2], "rate": 100.0, "spread": 0.02, "measured": 30.0, "dropped": false},
        {"pus": [0, 3], "rate": 60.0, "spread": 0.02, "measured": 1.5, "dropped": true}
    ],
    "chosen": {"candidate": 1, "gain_over_first": 0.25, "gain_over_worst": 0.6667, "at": 75.0},
    "earlier_searches": [], "rates": [{"at": 105.0, "rate": 99.0, "spread": null}, {"at": 120.5, "rate": null, "spread": null}],
    "notes": [{"at": 2.0, "text": "A note."}], "refused": [{"task": null, "why": "pages stay where they are"}],
    "page_samples": [{"at": 11.0, "lasted": 3.0, "samples": 90, "pages": 4, "lost": 2, "ran": 3.0, "in_faults": 0.15},
        {"at": 21.0, "lasted": 3.0, "samples": 80, "pages": 5, "lost": 0, "ran": 3.0, "taken": 100,
        "events": ["cpu/mem-loads/", "cpu/mem-stores/"], "throttled": 7, "sample_cost": 0.0003}],
    "page_profiles": [{"at": 5.0, "recording": "a.pft", "threads": 2, "accesses": 100, "matched": 90, "pages": 7, "areas": 3,
        "unmatched": [{"area": "[heap]", "bytes": 8192, "accesses": 10, "why": "not_mapped"}]}],
    "page_moves": [{"at": 12.0, "goal": "after their threads", "processes": 1, "moved": {"pages": 3, "bytes": 12288},
        "in_place": {"pages": 1, "bytes": 4096}, "left": [{"why": "busy", "errno": "EBUSY", "node": null, "pages": 2,
        "bytes": 8192, "text": "the kernel could not take them out of use"}], "lasted": 0.1, "broken_off": null}],
    "ended_early": {"best": 1, "rate": 99.5, "why": "the second search was not done"}, "ran": 120.5, "exit_status": 0
}"#;

#[test]
fn a_file_is_read_back_by_the_types_that_wrote_it() {
    let document = RunDocument {
        version: Some(RunDocument::VERSION),
        pinfold: "1.2.3".to_owned(),
        allowed_pus: "0-3".to_owned(),
        page_map: Some("bind:0-1".parse().unwrap()),
        with: Some(PlacedBy::Scx),
        own_cpu_time: Some(0.25),
        simulation: Some(simulation()),
        ..RunDocument::read(RECORD).unwrap()
    };
    let written = serde_json::to_string_pretty(&document).unwrap();
    let read = RunDocument::read(&written).unwrap();
    assert_eq!(read, document);
    assert_eq!(serde_json::to_string_pretty(&read).unwrap(), written);
    assert!(written.starts_with("{\n  \"version\": 2,"), "{written}");
}

fn simulation() -> Simulation {
    let program = SimulatedProgram {
        recording: Some("a.pft".into()),
        name: "app".to_owned(),
        process: 1,
        tasks: 2,
        pus: Some(vec![PuId(3), PuId(0)]),
        repetitions: 0.1 + 0.2,
        speed: None,
        paused: 0.0,
        unrecorded_wait_share: Some(0.1 + 0.2),
        events: [("cycles".to_owned(), 1.0 / 3.0)].into(),
    };
    Simulation {
        model: "small".to_owned(),
        recording: None,
        repeat: "auto".to_owned(),
        repetitions: 7.5,
        seed: u64::MAX,
        noise: 0.05,
        kernel: "7.2".to_owned(),
        numa_balancing: Some(NumaBalancing {
            scans: 3,
            hint_faults: 120,
            pages_moved: 40,
            tasks_moved: 1,
        }),
        page_map: None,
        prefetch: Some(Prefetchers::NONE),
        windows: 3,
        paused: 0.25,
        programs: vec![program],
    }
}

#[test]
fn a_file_from_before_there_were_versions_is_read_as_far_as_it_goes() {
    let read = RunDocument::read(RECORD).unwrap();
    assert_eq!((read.version, read.record.program.tasks), (None, 0));
    assert_eq!(read.record.search.candidates.len(), 3);
}

#[test]
fn a_file_of_a_later_format_is_refused_with_its_version_and_the_pinfold_that_reads_it() {
    let later = RECORD.replacen('{', r#"{"version": 3, "pinfold": "9.8.7","#, 1);
    let refused = RunDocument::read(&later).unwrap_err().to_string();
    for words in ["version 3 of the format", "versions up to 2", "pinfold 9.8.7"] {
        assert!(refused.contains(words), "{refused}");
    }
}

#[test]
fn a_reason_without_a_known_code_is_read_as_unknown() {
    let read = RunDocument::read(RECORD).unwrap().record;
    assert_eq!(
        (read.metric_reason.metric_code, read.notes[0].code),
        (None, NoteCode::Unknown)
    );
    let later = RECORD.replace(r#""text": "A note.""#, r#""code": "of_tomorrow", "text": "A note.""#);
    let read = RunDocument::read(&later).unwrap().record;
    assert_eq!(
        (read.notes[0].code, read.notes[0].text.as_str()),
        (NoteCode::Unknown, "A note.")
    );
}

#[test]
fn a_reason_of_version_1_is_read_with_its_text_and_without_a_code() {
    let text = RECORD.replace(r#""broken_off": null"#, r#""broken_off": "the program has ended""#);
    let read = RunDocument::read(&text).unwrap().record;
    let broken_off = Reason::new(BrokenOffCode::Unknown, "the program has ended");
    assert_eq!(read.pages.page_moves[0].moves.broken_off, Some(broken_off));
    let chosen = read.search.chosen.unwrap();
    assert_eq!((chosen.code, chosen.why), (ChoiceCode::Unknown, None));
}

#[test]
fn what_was_believed_of_a_trial_is_read_back_and_explained_in_the_order_of_time() {
    let expected = |time: f64| {
        format!(
            r#"{{"time": {time}, "low": {}, "high": {}, "faster": 0.5}}"#,
            time / 2.0,
            time * 2.0
        )
    };
    let trial = |at: f64, tried: &str| {
        let (before, after) = (expected(0.8), expected(0.7));
        format!(
            r#"{{"at": {at}, "search": 0, {tried}, "before": {before}, "measured": 0.6, "error": 0.01, "after": {after}}}"#
        )
    };
    let candidate = trial(2.0, r#""candidate": 1, "with": 0"#);
    let region = trial(3.0, r#""region": 64, "configuration": "compact""#);
    let later = r#""notes": [{"at": 2.5, "code": "belief", "text": "Of an older pinfold."}, "#;
    let text = RECORD
        .replacen('{', &format!(r#"{{"beliefs": [{candidate}, {region}],"#), 1)
        .replace(r#""notes": ["#, later);
    let document = RunDocument::read(&text).unwrap();
    let tried: Vec<&Tried> = document
        .record
        .by_policy
        .beliefs
        .iter()
        .map(|one| &one.trial.tried)
        .collect();
    let [candidate, region] = [
        Tried::Candidate {
            candidate: 1,
            with: Some(0),
        },
        Tried::Region {
            region: RegionId(64),
            configuration: "compact".to_owned(),
        },
    ];
    assert_eq!(tried, [&candidate, &region]);
    let again = RunDocument::read(&serde_json::to_string(&document).unwrap()).unwrap();
    assert_eq!(again, document);
    let said = document.explanation(PolicyKind::default());
    let places = [
        "At 2 s: Candidate 2 was expected to take 0.80 of the time (95 %: 0.40 to 1.60) in candidate 1, and took 0.60 of it.",
        "At 2 s: A note.",
        "At 2.5 s: Of an older pinfold.",
        "At 3 s: Region 0x40: compact: it was expected to take 0.80 of the time",
    ]
    .map(|words| said.find(words).unwrap_or_else(|| panic!("no {words:?} in {said}")));
    assert!(places.is_sorted(), "{said}");
}

#[test]
fn the_explanation_says_how_threads_were_placed_if_not_by_masks() {
    let said = |with| {
        let document = RunDocument {
            with,
            ..RunDocument::read(RECORD).unwrap()
        };
        let text = document.explanation(PolicyKind::default());
        text.contains("placed by a scheduler in the kernel")
    };
    assert_eq!(
        [Some(PlacedBy::Scx), Some(PlacedBy::Masks), None].map(said),
        [true, false, false]
    );
}

#[test]
fn every_decision_is_explained_with_its_reason() {
    let text = RunDocument::read(RECORD).unwrap().explanation(PolicyKind {
        does: Some("tries pinnings"),
        ..PolicyKind::default()
    });
    for words in [
        "Policy: `autopin`, which tries pinnings.",
        "`app --fast` ran on small: 2 packages.",
        "Metric: regions, in regions per second, of the whole program: the nearest to the program's own progress.",
        "2 threads had ranks.",
        "3 candidates: the pinnings that were asked for.",
        "1. rank by rank on CPUs 0,1: 80 regions per second over 30 s, spread 1.0 %; 20.0 % lower than the best",
        "2. rank by rank on CPUs 0,2: 100 regions per second over 30 s, spread 2.0 %; the best",
        "dropped early, because it was worse with 99 % confidence (40.0 % lower than the best)",
        "The choice, at 75 s: candidate 2: 25.0 % higher than the first candidate, the program's first placement, 66.7 % higher \
         than the worst.",
        "Effect: after the choice the mean rate was 99 regions per second, 1.0 % lower than the rate in its probe.",
        "At 11 s accesses had been sampled for 3 s: 90 samples of 4 pages, 2 more were lost; page faults took 5.0 % of the \
         threads' time.",
        "At 5 s 90 of the 100 accesses in a.pft were brought to 7 pages.\n  10 to [heap] were not: the running program",
        "At 21 s accesses had been sampled for 3 s: 80 samples of 5 pages by cpu/mem-loads/ and cpu/mem-stores/, and the \
         kernel throttled them 7 times; sampling took about 1.0 % of the threads' time.",
        "At 12 s pages were to be after their threads: 3 pages (12 KiB) moved, 1 page (4 KiB) were there already.",
        "2 pages stayed: The kernel could not take them out of use.",
        "Ended early: The second search was not done. The best so far was candidate 2.",
        "Refused: Pages stay where they are.",
        "At 2 s: A note.",
        "The program ran 120.5 s and ended with status 0.",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
}

#[test]
fn a_choice_is_compared_with_the_program_as_it_was_unpinned() {
    let unpinned = RECORD.replacen("[0, 1]", "null", 1);
    let text = RunDocument::read(&unpinned).unwrap().explanation(PolicyKind::default());
    assert!(
        text.contains("1. unpinned, placed by the operating system: 80 regions per second"),
        "{text}"
    );
    assert!(text.contains("25.0 % higher than unpinned"), "{text}");
    let back = unpinned.replace(
        r#""candidate": 1, "gain_over_first": 0.25"#,
        r#""candidate": 0, "gain_over_first": 0.0"#,
    );
    let text = RunDocument::read(&back).unwrap().explanation(PolicyKind::default());
    assert!(
        text.contains("no pinning was better beyond the noise, so nothing was pinned"),
        "{text}"
    );
}

#[test]
fn what_was_not_measured_is_said_to_be_missing() {
    let text = RunDocument::read(
        r#"{"policy": "none", "candidates": [], "simulated": true, "metric_why": "no source counted"}"#,
    )
    .unwrap()
    .explanation(PolicyKind::default());
    assert!(text.contains("Nothing was measured: no source counted."), "{text}");
    assert!(text.contains("No pinning was tried."), "{text}");
    assert!(text.contains("was simulated, not run"), "{text}");
}

#[test]
fn what_is_no_record_is_refused_with_the_command_that_makes_one() {
    for (text, words) in [
        ("{", "this is no JSON"),
        ("[1]", "pinfold run --json FILE"),
        (r#"{"policy": "x", "candidates": 3}"#, "another version"),
    ] {
        let Err(error) = RunDocument::read(text) else {
            panic!("{text} is taken for a record");
        };
        assert!(format!("{error:#}").contains(words), "{error:#}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(INPUTS))]

    #[test]
    fn a_record_is_explained_or_refused(text in spoiled_text(&[RECORD])) {
        if let Ok(run) = RunDocument::read(&text) {
            prop_assert!(!run.explanation(PolicyKind::default()).is_empty());
        }
    }
}
