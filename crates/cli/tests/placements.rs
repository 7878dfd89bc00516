//! `pinfold placements` as a user calls it.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

const OPTERON: &str = "synthetic:package:4 numa:2 l3:1 core:6 pu:1";
const EPYC: &str = "synthetic:package:2 l3:12 core:8 pu:2";

fn pinfold(machine: &str, threads: &str, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinfold"));
    command
        .args(["placements", "--machine", machine, "--threads", threads])
        .args(options);
    command
}

fn text(output: &[u8]) -> String {
    String::from_utf8(output.to_vec()).unwrap()
}

fn printed(machine: &str, threads: &str, options: &[&str]) -> String {
    let output: Output = pinfold(machine, threads, options).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn placements_of_the_opteron_are_counted() {
    for (threads, count) in [("4", "11\n"), ("8", "80\n"), ("16", "912\n"), ("24", "1979\n")] {
        assert_eq!(printed(OPTERON, threads, &["--count"]), count);
    }
}

#[test]
fn a_large_machine_is_counted_without_enumeration() {
    let machine = "synthetic:package:2 l3:12 core:8 pu:1";
    assert_eq!(printed(machine, "64", &["--count"]), "38580711\n");
}

#[test]
fn a_line_has_the_cpu_list_and_the_loads_by_package_and_cache() {
    let lines = printed("synthetic:package:2 l3:2 core:2 pu:1", "2", &[]);
    assert_eq!(lines, "0,1\t2 0 | 0 0\n0,2\t1 1 | 0 0\n0,4\t1 0 | 1 0\n");
}

#[test]
fn the_limit_cuts_the_list_and_not_the_count() {
    let json: Value = serde_json::from_str(&printed(OPTERON, "8", &["--json", "--limit", "2"])).unwrap();
    assert_eq!(json["count"], 80);
    assert_eq!(json["threads"], 8);
    assert!(json["machine"].is_string());
    let placements = json["placements"].as_array().unwrap();
    assert_eq!(placements.len(), 2);
    assert_eq!(placements[0]["pus"], serde_json::json!([0, 1, 2, 3, 4, 5, 6, 7]));
    assert_eq!(
        placements[0]["llc_loads"],
        serde_json::json!([[6, 2], [0, 0], [0, 0], [0, 0]])
    );
}

#[test]
fn json_of_a_count_has_no_list_and_a_huge_count_is_a_string() {
    let machine = "synthetic:package:8 l3:16 core:8 pu:2";
    let json: Value = serde_json::from_str(&printed(machine, "1024", &["--json", "--count"])).unwrap();
    let count = json["count"].as_str().unwrap();
    assert!(
        count.len() > 20 && count.bytes().all(|digit| digit.is_ascii_digit()),
        "{count}"
    );
    assert!(json.get("placements").is_none());
}

#[test]
fn a_reader_that_goes_away_ends_the_list_quietly() {
    let mut child = pinfold(EPYC, "96", &[])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert!(line.starts_with("0-95\t"), "{line}");
    drop(reader);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn thread_counts_that_do_not_fit_are_refused_with_what_fits() {
    let output = pinfold(OPTERON, "49", &["--count"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let error = text(&output.stderr);
    assert!(error.contains("49 threads") && error.contains("at most 48"), "{error}");

    let output = pinfold(OPTERON, "0", &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let error = text(&output.stderr);
    assert!(
        error.contains("'0' for '--threads <N>'") && error.contains("from 1 to"),
        "{error}"
    );
}

#[test]
fn a_hint_leads_to_one_placement() {
    let lines = printed(OPTERON, "8", &["--hint", "SlP"]);
    assert_eq!(lines, "0-4,12,24,36\t5 0 | 1 0 | 1 0 | 1 0\n");
    let json: Value = serde_json::from_str(&printed(OPTERON, "8", &["--hint", "slp", "--json"])).unwrap();
    assert_eq!(json["hint"], "slp");
    assert_eq!(json["placements"].as_array().unwrap().len(), 1);
    assert_eq!(
        json["placements"][0]["pus"],
        serde_json::json!([0, 1, 2, 3, 4, 5, 6, 7])
    );
}

#[test]
fn what_is_no_hint_is_refused() {
    let output = pinfold(OPTERON, "8", &["--hint", "packed"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("`packed` is no affinity hint"));
}

#[test]
fn leeway_tells_the_hints_of_each_placement() {
    let lines = printed(OPTERON, "6", &["--leeway", "1"]);
    let hints = |loads: &str| {
        let line = lines
            .lines()
            .find(|line| line.split('\t').nth(1) == Some(loads))
            .unwrap();
        line.split('\t').nth(2).unwrap().to_owned()
    };
    assert_eq!(hints("6 0 | 0 0 | 0 0 | 0 0"), "slp slP Slp");
    assert_eq!(hints("5 0 | 1 0 | 0 0 | 0 0"), "slp slP Slp");
    assert_eq!(hints("4 0 | 2 0 | 0 0 | 0 0"), "-");
    let json: Value = serde_json::from_str(&printed(OPTERON, "6", &["--leeway", "0", "--json"])).unwrap();
    assert_eq!(json["leeway"], 0);
    assert_eq!(json["placements"][0]["hints"], serde_json::json!(["slp", "slP", "Slp"]));
}
