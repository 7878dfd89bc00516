//! `pinfold events` as a user has it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

fn pinfold() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pinfold"))
}

fn events(arguments: &[&str]) -> Output {
    pinfold().arg("events").args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn own_metrics_come_before_the_kernels_events() {
    let output = events(&[]);
    assert!(output.status.success(), "{output:?}");
    let text = stdout(&output);
    let own = text.find("uprobe:SYMBOL").unwrap();
    let kernel = text.find("PERF_COUNT_SW_TASK_CLOCK, TASK-CLOCK").unwrap();
    assert!(own < kernel, "{text}");
}

#[test]
fn a_pattern_is_sought_in_names_unit_masks_and_descriptions() {
    for pattern in ["task-CLOCK", "perf::perf_count_sw_task"] {
        assert!(
            stdout(&events(&[pattern])).contains("PERF_COUNT_SW_TASK_CLOCK"),
            "{pattern}"
        );
    }
    for pattern in ["prefetch", "l1 DATA cache"] {
        assert!(
            stdout(&events(&[pattern])).contains("PERF_COUNT_HW_CACHE_L1D"),
            "{pattern}"
        );
    }
    let heartbeat = stdout(&events(&["heartbeat"]));
    assert!(
        heartbeat.contains("heartbeat") && !heartbeat.contains("TASK_CLOCK"),
        "{heartbeat}"
    );
}

#[test]
fn a_pattern_that_matches_nothing_is_answered_with_the_nearest_names() {
    let output = events(&["page-fautls"]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("PAGE-FAULTS"), "{message}");
}

#[test]
fn the_events_of_absent_processors_are_listed_on_demand() {
    let text = stdout(&events(&["--all", "REMOTE_DRAM"]));
    assert!(text.contains("ivb_ep: Intel Ivy Bridge EP"), "{text}");
}

#[test]
fn the_json_carries_what_the_list_shows() {
    let listing: serde_json::Value = serde_json::from_slice(&events(&["--json", "task-clock"]).stdout).unwrap();
    let event = &listing["pmus"][0]["events"][0];
    assert_eq!(event["name"], "PERF_COUNT_SW_TASK_CLOCK");
    assert_eq!(event["aliases"][0], "TASK-CLOCK");
    assert!(event["can_be_counted"].is_boolean());
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = pinfold()
        .args(["events", "--all", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut String::new()).unwrap();
    drop(reader);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}
