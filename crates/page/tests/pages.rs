//! Pages of records and logs: complete, old, empty, hostile.

#[path = "../../core/tests/support/hostile.rs"]
mod hostile;

use hostile::{INPUTS, spoiled_text};
use pinfold_page::Additions;
use pinfold_page::daemon::{self, DaemonLog, LogError};
use pinfold_runtime::{PolicyKind, RunDocument};
use proptest::prelude::*;

/// Two packages of two cores; a thread that moved and ended, and one that nobody saw.
const RUN: &str = r#"{
    "version": 2, "pinfold": "1.2.3", "command": ["<script>alert(1)</script>", "a&b"], "topology": "small: 2 packages",
    "machine": "small <b>", "simulated": true, "policy": "autopin", "allowed_pus": "0-3",
    "metric": {"name": "regions", "unit": "region", "scope": "program"}, "metric_why": "the nearest to <i>progress</i>",
    "threads": 2, "candidates_why": "the pinnings that were asked for",
    "candidates": [
        {"pus": null, "rate": 80.0, "spread": 0.01, "measured": 30.0, "dropped": false},
        {"pus": [0, 2], "rate": 100.0, "spread": 0.02, "measured": 30.0, "dropped": false},
        {"pus": [0, 3], "rate": null, "spread": null, "measured": null, "dropped": false}
    ],
    "chosen": {"candidate": 1, "pus": [0, 2], "rate": 100.0, "spread": 0.02, "gain_over_first": 0.25, "gain_over_worst": 0.25,
        "at": 75.0, "code": "fastest", "why": "it is the fastest"},
    "earlier_searches": [], "rates": [{"at": 105.0, "rate": 99.0, "spread": null}],
    "notes": [{"at": 2.0, "text": "A </script> note."}],
    "refused": [{"task": {"serial": 1, "process": 7, "thread": 8}, "why": "the <task> has its own mask"}],
    "ran": 120.0, "exit_status": 3, "tasks": 2,
    "timeline": {
        "topology": {"name": "small", "objects": [
            {"kind": "machine", "os_index": null, "cache": null, "parent": null, "children": [1, 4], "pus": "0-3"},
            {"kind": "package", "os_index": 0, "cache": null, "parent": 0, "children": [2, 3], "pus": "0-1"},
            {"kind": "pu", "os_index": 0, "cache": null, "parent": 1, "children": [], "pus": "0"},
            {"kind": "pu", "os_index": 1, "cache": null, "parent": 1, "children": [], "pus": "1"},
            {"kind": "package", "os_index": 1, "cache": null, "parent": 0, "children": [5, 6], "pus": "2-3"},
            {"kind": "pu", "os_index": 2, "cache": null, "parent": 4, "children": [], "pus": "2"},
            {"kind": "pu", "os_index": 3, "cache": null, "parent": 4, "children": [], "pus": "3"}],
            "nodes": [{"id": 0, "attached_to": 1, "pus": "0-1", "memory": null, "subtype": null},
                {"id": 1, "attached_to": 4, "pus": "2-3", "memory": null, "subtype": null}],
            "distances": null, "core_kinds": [], "allowed_pus": "0-2", "allowed_nodes": [0, 1]},
        "readings": 4, "at": [10.0, 60.0, 120.0],
        "metrics": [{"name": "regions", "unit": "region", "rates": [null, 80.0, 100.0]},
            {"name": "event:<x>", "unit": "miss", "rates": [null, null, null]}],
        "tasks": [{"serial": 0, "process": 7, "thread": 7, "name": "</script><script>alert(2)</script>",
                "places": [[0, 0], [1, 2], [2, null]]},
            {"serial": 1, "process": 7, "thread": 8, "name": "worker", "places": [[0, null]]}],
        "tasks_left_out": 3,
        "nodes": [{"node": 0, "bytes": [4096, null, 8192]}, {"node": 1, "bytes": [0, null, 1048576]}],
        "configurations": [
            {"at": 0.0, "candidate": null, "pus": null, "pages": null, "prefetch": null, "regions": 0},
            {"at": 40.0, "candidate": [0, 1], "pus": [0, 2], "pages": "interleave", "prefetch": "0000", "regions": 1},
            {"at": 75.0, "candidate": [0, 1], "pus": [0, 2], "pages": null, "prefetch": null, "regions": 0}]
    }
}"#;

const LOG: &str = r#"{"time":"2026-01-02T03:04:05.000Z","event":"started","pinfold":"1.2.3","process":9,"machine":"old"}
{"time":"2026-01-02T03:05:05.000Z","event":"started","pinfold":"1.2.3","process":9,"machine":"<small>","pus":"0-1","interval":0.1,"metric":"sharing","dry_run":true,"capabilities":"","children":"at_birth"}
{"time":"2026-01-02T03:05:05.001Z","event":"machine","name":"small","packages":[{"index":0,"nodes":[0],"cores":[{"index":0,"pus":[0]},{"index":1,"pus":[1]}]}]}
{"time":"2026-01-02T03:05:06.000Z","event":"state","tasks":[{"process":7,"thread":8,"name":"<script>","pu":1,"pinned":1,"allowed":"0-1","left_alone":null,"busy":0.5,"rates":{"remote_dram":null},"last_move":null}],"totals":{"watched":3,"working":1,"pinned":1,"left_alone":{},"moves":[],"intervals":9,"intervals_skipped":0,"work_seconds":0.1,"met":3,"ended":0,"freed":0,"changed_by_others":0,"not_counted":0,"not_movable":0,"processor_seconds":0.2,"log_lines_lost":0,"reloads":0,"reloads_refused":0}}
{"time":"2026-01-02T03:05:07.000Z","event":"move","process":7,"thread":8,"from":0,"to":1,"reason":"coherence","activity":"intra_package_coherence","value":1.0,"threshold":0.25,"outcome":"shown"}
{"time":"2026-01-02T03:05:07.500Z","event":"of a later pinfold","text":"something & else"}
{"time":"2026-01-02T03:05:08.000Z","event":"mo
{"time":"2026-01-02T03:05:15.000Z","event":"ended","signal":15}
"#;

fn page(text: &str) -> String {
    let policy = PolicyKind {
        does: Some("tries <pinnings>"),
        ..PolicyKind::default()
    };
    pinfold_page::run(&RunDocument::read(text).unwrap(), policy, &Additions::default())
}

fn assert_has(page: &str, texts: &[&str]) {
    for text in texts {
        assert!(page.contains(text), "no {text:?}");
    }
}

#[test]
fn a_page_has_the_machine_the_decisions_the_candidates_and_the_reasons() {
    let page = page(RUN);
    assert_has(
        &page,
        &[
            "Package 1, NUMA node 1",
            "Kept: candidate 2, CPUs 0,2 by rank, +25.0 % over the first candidate.",
            "pages interleave, prefetchers 0000, 1 region with settings of its own",
            "1.25 ×",
            "Kept: #2 spread: 0,2.",
            "#3 nodes 0, 1",
            "thread 0",
            "not measured",
            "node 1<tspan class=\"wide\"> 1.0\u{a0}MiB",
            "Not drawn: 3 more of the program's threads.",
            "one for 4 readings",
            "Nothing on this page was measured",
            "not allowed to the program",
        ],
    );
    // The last moment with a thread on a CPU: the program had not ended.
    assert_has(
        &page,
        &[
            r#"value="1" step="1""#,
            r#"data-pu="2"><span>2</span><span class="thread">T0</span>"#,
        ],
    );
}

#[test]
fn applying_a_kept_configuration_is_no_second_decision() {
    assert_eq!(
        page(RUN).matches("At 75").count() + page(RUN).matches(">75.0 s<").count(),
        1
    );
}

#[test]
fn texts_of_a_record_are_never_elements() {
    let page = page(RUN);
    // The data for the script, and the script.
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script").count(), 2);
    for text in ["<b>", "<i>", "<task>", "<x>", "<pinnings>", "alert(1)</script"] {
        assert!(!page.contains(text), "{text}");
    }
    assert_has(
        &page,
        &[
            "&lt;script&gt;alert(1)&lt;/script&gt; a&amp;b",
            "A &lt;/script&gt; note.",
        ],
    );
}

#[test]
fn the_policy_for_contents_allows_nothing_but_the_own_style_and_script() {
    let page = page(RUN);
    assert_has(
        &page,
        &["default-src 'none'; style-src 'sha256-", "script-src 'sha256-"],
    );
    for outside in [
        "http://", "https://", "src=\"", "@import", "url(", " style=", " onclick",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_record_of_an_older_pinfold_says_what_it_lacks() {
    let mut old: serde_json::Value = serde_json::from_str(RUN).unwrap();
    old.as_object_mut().unwrap().remove("timeline");
    let page = page(&old.to_string());
    assert_has(
        &page,
        &[
            "an older pinfold wrote it",
            "after the choice",
            "The record has no counters",
            "What was tried",
        ],
    );
    assert!(!page.contains("id=\"moment\""));
}

/// 256 threads that are elsewhere at each of 301 points, on 256 CPUs, with 60 counters.
#[test]
fn the_largest_record_gives_a_page_below_a_mebibyte() {
    let mut record: serde_json::Value = serde_json::from_str(RUN).unwrap();
    let line = record["timeline"].as_object_mut().unwrap();
    let (points, pus) = (301, 256);
    let mut objects = vec![serde_json::json!({"kind": "machine", "parent": null})];
    objects.extend((0..pus).map(|pu| serde_json::json!({"kind": "pu", "os_index": pu, "parent": 0})));
    line["topology"]["objects"] = objects.into();
    line["topology"]["allowed_pus"] = "0-255".into();
    line["topology"]["nodes"] = serde_json::json!([]);
    line["at"] = (0..points).map(|point| f64::from(point) * 2.0).collect();
    let rates: Vec<f64> = (0..points).map(|point| 1e9 + f64::from(point % 7) * 1e8).collect();
    let metrics =
        (0..60).map(|number| serde_json::json!({"name": format!("event:{number}"), "unit": "event", "rates": rates}));
    line["metrics"] = metrics.collect();
    let tasks = (0..256).map(|task| {
        let places: Vec<(i32, i32)> = (0..points)
            .map(|point| (point, (task * 31 + point * 17) % pus))
            .collect();
        serde_json::json!({"serial": task, "process": 7, "thread": task, "name": "worker", "places": places})
    });
    line["tasks"] = tasks.collect();
    record["ran"] = 600.0.into();
    let page = page(&record.to_string());
    assert!(page.len() < 1 << 20, "{}", page.len());
    assert_has(&page, &["Threads change their places so often"]);
}

#[test]
fn an_empty_record_is_a_page_too() {
    let page = page(r#"{"policy": "none", "candidates": []}"#);
    assert_has(
        &page,
        &[
            "A run on an unknown machine",
            "No rate was measured",
            "Nothing was decided",
            "Nothing was chosen",
        ],
    );
    assert!(!page.contains("simulated</span>"));
}

#[test]
fn a_program_that_ended_early_says_so() {
    let mut early: serde_json::Value = serde_json::from_str(RUN).unwrap();
    early["chosen"] = serde_json::Value::Null;
    early["ended_early"] = serde_json::json!({"best": 0, "rate": 80.0, "why": "the second candidate was not measured"});
    let page = page(&early.to_string());
    assert_has(
        &page,
        &["The program ended before the search did: the second candidate was not measured."],
    );
}

#[test]
fn a_machine_without_a_choice_of_placements_has_nothing_to_gain() {
    let page = page(r#"{"policy": "auto", "candidates": [], "nothing_to_gain": "it has one CPU"}"#);
    assert_has(
        &page,
        &[
            "Placement cannot matter on this machine: it has one CPU.",
            "There is nothing to gain.",
        ],
    );
}

#[test]
fn two_runs_have_a_verdict_or_the_reason_against_one() {
    let first = RunDocument::read(RUN).unwrap();
    let page = |second: &RunDocument| {
        let runs = [("a.json", &first), ("<b>.json", second)];
        pinfold_page::two_runs(runs.map(|(name, document)| pinfold_page::NamedRun { name, document }))
    };
    let mut second = first.clone();
    second.record.search.candidates[1].rate = Some(150.0);
    let faster = page(&second);
    // The kept candidates are compared: the runs are simulated, and do not say how often they repeated the program.
    assert_has(
        &faster,
        &[
            "<p class=\"big\">&lt;b&gt;.json</p>",
            "1.50 ×",
            "by rate of the kept placement",
            "What differs",
        ],
    );
    assert_eq!(faster.matches("<script").count(), 1);
    let ids: Vec<&str> = faster
        .split(" id=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let different: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(ids.len(), different.len(), "{ids:?}");
    second.record.machine = "large".to_owned();
    assert_has(
        &page(&second),
        &["They ran on different machines, small &lt;b&gt; and large."],
    );
    second.record.simulated = false;
    assert_has(
        &page(&second),
        &["One run was simulated, and the other one measured.", "Not compared"],
    );
    second.command = vec!["other".to_owned()];
    assert_has(&page(&second), &["They are runs of different programs", "No answer"]);
    second = RunDocument::read(r#"{"policy": "none", "candidates": []}"#).unwrap();
    assert_has(&page(&second), &["No answer"]);
}

#[test]
fn additions_are_drawn_with_their_sources() {
    let mut record: serde_json::Value = serde_json::from_str(RUN).unwrap();
    record["timeline"]["metrics"][1] =
        serde_json::json!({"name": "event:instructions", "unit": "instruction", "rates": [1e9, 1e9, 2e9]});
    record["timeline"]["traffic"] = serde_json::json!([
        {"node": 0, "rates": [1e8, 2e8, null]},
        {"node": 1, "rates": [1e8, 1e8, 3e8]}
    ]);
    let additions = Additions {
        left_out: Some("A <part> is left out.".to_owned()),
        exchanges: Some(pinfold_page::Exchanges {
            counted: "Lines of <x>.pft.".to_owned(),
            unit: "line",
            pairs: vec![vec![0, 3], vec![1, 0]],
        }),
        ceilings: Some(pinfold_page::Ceilings {
            source: "the model small".to_owned(),
            instructions: 8e9,
            node_bandwidth: 1e10,
            nodes: 2,
        }),
    };
    let document = RunDocument::read(&record.to_string()).unwrap();
    let page = pinfold_page::run(&document, PolicyKind::default(), &additions);
    assert_has(
        &page,
        &[
            "Lines of &lt;x&gt;.pft.",
            "T0 and T1</th><td class=\"number\">4</td>",
            "all 2 nodes: 20 GB/s",
            "Ceilings are those of the model small",
            "Memory bandwidth by node",
            "A &lt;part&gt; is left out.",
        ],
    );
    let without = pinfold_page::run(&document, PolicyKind::default(), &Additions::default());
    assert!(!without.contains("What limits it") && !without.contains("Who shares with whom"));
}

/// A trial of a candidate against the unpinned program, one against that candidate, and one of a parallel region.
const BELIEFS: &str = r#"[
    {"at": 30.0, "search": 0, "candidate": 1, "with": null, "before": {"time": 0.8, "low": 0.4, "high": 1.6, "faster": 0.74},
        "measured": 0.5, "error": 0.01, "after": {"time": 0.51, "low": 0.49, "high": 0.53, "faster": 1.0}},
    {"at": 60.0, "search": 0, "candidate": 2, "with": 1, "before": {"time": 1.0, "low": 0.9, "high": 1.11, "faster": 0.5},
        "measured": 1.05, "error": 0.01, "after": {"time": 1.05, "low": 1.04, "high": 1.06, "faster": 0.0}},
    {"at": 90.0, "search": 0, "region": 64, "configuration": "<compact>", "before": {"time": 1e-300, "low": 0.0, "high": 9e99,
        "faster": 0.5}, "measured": -1.0, "error": 0.0, "after": {"time": 1.0, "low": 3.0, "high": 2.0, "faster": 0.5}}]"#;

fn with_beliefs(beliefs: &str) -> String {
    RUN.replacen('{', &format!("{{ \"beliefs\": {beliefs},"), 1)
}

#[test]
fn what_was_expected_of_trials_is_drawn_and_listed() {
    let page = page(&with_beliefs(BELIEFS));
    assert_eq!(page.matches("<g class=\"trial\">").count(), 3);
    assert_has(
        &page,
        &[
            "What was expected",
            "<title id=\"beliefs-t\">Expected and measured times of 3 trials</title>",
            "#2 took 0.50 of the time of unpinned; #3 took 1.05 of the time of #2; R1 took -1.00 of the time of unpinned. ",
            "<title>Candidate 2 was expected to take 0.80 of the time (95 %: 0.40 to 1.60) unpinned, and took 0.50 of it. ",
            "<th class=\"words\" scope=\"row\">#2 spread: 0,2</th><td>unpinned</td><td class=\"number\">0.80</td>\
             <td class=\"number\">0.40 to 1.60</td><td class=\"number\">0.50</td><td class=\"number\">0.51</td>\
             <td class=\"number\">0.49 to 0.53</td>",
            "<th class=\"words\" scope=\"row\">R1, region 0x40: &lt;compact&gt;</th>",
            "<tspan class=\"wide\"> of #2</tspan>",
        ],
    );
}

#[test]
fn a_drawing_of_trials_has_one_beside_what_is_faster_and_what_is_slower() {
    let beliefs: serde_json::Value = serde_json::from_str(BELIEFS).unwrap();
    let page = page(&with_beliefs(&serde_json::json!([beliefs[0], beliefs[1]]).to_string()));
    let places = |before: &str| -> Vec<f64> {
        let found = page.split(before).skip(1).filter_map(|rest| rest.split('%').next());
        found.map(|text| text.parse().unwrap()).collect()
    };
    let one = places("<line class=\"ceiling\" x1=\"")[0];
    let dots = places("<circle class=\"measured\" cx=\"");
    assert!(dots[0] < one && one < dots[1], "{dots:?} {one}");
    // From 0.4 to 1.6, with as much room on both sides.
    let [before, _] = places("<rect class=\"before\" x=\"")[..] else {
        panic!()
    };
    let share = (0.5f64 / 0.4).ln() / (1.6f64 / 0.4).ln();
    assert!(
        (dots[0] - before - share * (100.0 - 2.0 * before)).abs() < 0.02,
        "{dots:?} {before}"
    );
}

#[test]
fn many_trials_are_drawn_in_part_and_listed_in_whole() {
    let beliefs: serde_json::Value = serde_json::from_str(BELIEFS).unwrap();
    let many = serde_json::json!(vec![beliefs[1].clone(); 45]);
    let page = page(&with_beliefs(&many.to_string()));
    assert_eq!(page.matches("<g class=\"trial\">").count(), 40);
    assert_eq!(page.matches("<td class=\"number\">0.90 to 1.11</td>").count(), 45);
    assert_has(&page, &["5 more are in the table."]);
}

#[test]
fn an_older_record_has_what_was_expected_among_its_notes_and_no_drawing() {
    let note = r#"{"at": 2.0, "code": "belief", "text": "Candidate 1 was expected."}, {"at": 2.0,"#;
    let page = page(&RUN.replace(r#"{"at": 2.0,"#, note));
    assert_has(&page, &["Candidate 1 was expected.", "A &lt;/script&gt; note."]);
    assert!(!page.contains("id=\"beliefs"));
}

#[test]
fn sampled_accesses_of_a_real_run_show_who_shares_pages() {
    let mut record: serde_json::Value = serde_json::from_str(RUN).unwrap();
    record["page_samples"] = serde_json::json!([{"at": 5.0, "by": ["numa_hints"],
        "shared": [{"threads": [7, 8], "accesses": 12}, {"threads": [8, 99], "accesses": 3}]}]);
    let page = page(&record.to_string());
    assert_has(
        &page,
        &[
            "from samples by automatic NUMA balancing",
            "T0 and T1</th><td class=\"number\">12</td>",
        ],
    );
}

#[test]
fn no_two_candidates_have_the_same_name() {
    let mut record: serde_json::Value = serde_json::from_str(RUN).unwrap();
    let candidate = record["candidates"][1].clone();
    record["candidates"] = vec![candidate; 20].into();
    record["earlier_searches"] = serde_json::json!([{"candidates": record["candidates"], "chosen": null}]);
    let page = page(&record.to_string());
    let names = page.split("<h3>#").skip(1).filter_map(|rest| rest.split('<').next());
    let names: Vec<&str> = names.collect();
    let different: std::collections::BTreeSet<&&str> = names.iter().collect();
    assert_eq!((names.len(), different.len()), (40, 40), "{names:?}");
    assert!(names.contains(&"2.7 spread"), "{names:?}");
}

#[test]
fn a_log_is_drawn_from_its_last_daemon_on() {
    let log = DaemonLog::read(LOG).unwrap();
    let page = daemon::page(&log);
    assert_has(
        &page,
        &[
            "pinfold daemon on &lt;small&gt;",
            "dry run",
            "In 10.0 s the daemon decided 1 move and made 0.",
            "it shares data with other threads",
            "intra package coherence 1, threshold 0.25",
            "something &amp; else",
            "1 earlier daemon,",
            "Not readable: 1 line.",
            "by signal 15",
        ],
    );
    assert_eq!(page.matches("<script").count(), 2);
}

#[test]
fn a_log_with_a_scheduler_shows_where_tasks_ran_and_who_wakes_whom() {
    assert!(!daemon::page(&DaemonLog::read(LOG).unwrap()).contains("The scheduler in the kernel"));
    let scheduler = serde_json::json!({
        "taken_elsewhere": 3, "waited_beside_idle": 0, "preferring_seconds": 8.0, "preferred_seconds": 7.9,
        "waited_seconds": 1.0, "longest_wait": 0.02, "migrations": 4,
        "pairs": [{"threads": [9999, 12345], "per_second": 250.4}], "pairs_found": 7,
    });
    let with_scheduler = |line: &str| {
        let mut event: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        if event["event"] == "state" {
            event["scheduler"] = scheduler.clone();
            return event.to_string();
        }
        line.to_owned()
    };
    let lines: Vec<String> = LOG.lines().map(with_scheduler).collect();
    let page = daemon::page(&DaemonLog::read(&lines.join("\n")).unwrap());
    assert_has(
        &page,
        &[
            "The scheduler in the kernel",
            "98.8 %",
            "12345",
            ">250<",
            "In all: 7 pairs.",
        ],
    );
}

#[test]
fn a_log_without_states_says_how_to_get_them() {
    let lines: Vec<&str> = LOG.lines().filter(|line| !line.contains("\"state\"")).collect();
    let page = daemon::page(&DaemonLog::read(&lines.join("\n")).unwrap());
    assert_has(&page, &["--log-state", "0 → 1"]);
}

#[test]
fn a_file_that_is_no_log_is_refused_with_the_remedy() {
    let logfmt = "time=2026-01-02T03:04:05.000Z event=started pinfold=1.2.3\n";
    assert!(DaemonLog::is_log(logfmt) && DaemonLog::is_log(LOG) && !DaemonLog::is_log(RUN));
    assert_eq!(DaemonLog::read(logfmt), Err(LogError::Logfmt));
    assert!(LogError::Logfmt.to_string().contains("--log-format json"));
    assert_eq!(DaemonLog::read("{}"), Err(LogError::NoLog));
    assert_eq!(DaemonLog::read(""), Err(LogError::NoLog));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(INPUTS / 8))]

    #[test]
    fn a_damaged_record_is_drawn_or_refused(text in spoiled_text(&[RUN, &with_beliefs(BELIEFS)])) {
        if let Ok(document) = RunDocument::read(&text) {
            let page = pinfold_page::run(&document, PolicyKind::default(), &Additions::default());
            prop_assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
        }
    }

    #[test]
    fn a_damaged_log_is_drawn_or_refused(text in spoiled_text(&[LOG])) {
        if let Ok(log) = DaemonLog::read(&text) {
            let page = daemon::page(&log);
            prop_assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
        }
    }
}
