//! `pinfold run` on simulated machines, and `pinfold machines`, as a user calls them.

mod common;

use common::plugin;
use pinfold_linux::pfm::{self, Privilege};
use pinfold_sim::EventSet;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn pinfold(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinfold"));
    for variable in ["SCHEDULE", "OMP_NUM_THREADS"] {
        command.env_remove(variable);
    }
    if let Some(plugin) = plugin() {
        command.env("PINFOLD_PLUGIN", plugin);
    }
    command.args(arguments).output().unwrap()
}

fn error_of(arguments: &[&str]) -> String {
    let output = pinfold(arguments);
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stdout));
    text(&output.stderr)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(file: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// A directory with a program of three threads that ends with status 7, and a recording of it; `None`, with the reason printed, where programs
/// cannot be recorded.
fn recorded() -> Option<(tempfile::TempDir, String, String)> {
    plugin()?;
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("threads").display().to_string();
    let file = directory.path().join("threads.pft").display().to_string();
    let compiled = Command::new("cc")
        .args(["-O1", "-pthread", "-o", &program])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/threads.c"))
        .status()
        .unwrap();
    assert!(compiled.success());
    let output = pinfold(&["record", "-o", &file, "--", &program]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    Some((directory, program, file))
}

#[test]
fn a_program_is_recorded_and_placed_on_a_machine_that_is_not_here() {
    let Some((directory, program, _)) = recorded() else {
        return;
    };
    let out = directory.path().join("out.json");
    let kept = directory.path().join("kept.pft");
    let output = pinfold(&[
        "run",
        "--machine",
        "opteron-6164x4",
        "--threads",
        "2",
        "--keep-recording",
        kept.to_str().unwrap(),
        "--json",
        out.to_str().unwrap(),
        "--",
        &program,
    ]);
    let shown = text(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{shown}");
    assert!(shown.contains("simulated: opteron-6164x4"), "{shown}");
    let record = json(&out);
    assert_eq!(record["simulated"], true);
    assert_eq!(record["machine"], "opteron-6164x4");
    assert_eq!(record["command"][0], program.as_str());
    assert_eq!(record["simulation"]["repeat"], "auto");
    let candidates = record["candidates"].as_array().unwrap();
    let rate = |candidate: &Value| candidate["rate"].as_f64().unwrap();
    let best = candidates.iter().map(rate).fold(0.0, f64::max);
    assert!(candidates.len() > 1 && best > 0.0);
    assert!((rate(&record["chosen"]) - best).abs() < 1e-9 * best);
    assert_eq!(record["rates"].as_array().unwrap().len(), 1);
    // What was kept is what was run.
    let again = directory.path().join("again.json");
    let output = pinfold(&[
        "run",
        "--machine",
        "opteron-6164x4",
        "--threads",
        "2",
        "--json",
        again.to_str().unwrap(),
        kept.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(json(&again)["candidates"], record["candidates"]);
}

#[test]
fn the_same_recording_and_seed_give_the_same_bytes() {
    let Some((directory, _, file)) = recorded() else { return };
    let bytes = |name: &str, seed: &str| {
        let out = directory.path().join(name);
        let arguments = [
            "run",
            "--machine",
            "e5-2660v2x2",
            "--policy",
            "none",
            "--seed",
            seed,
            "--json",
        ];
        let output = pinfold(&[&arguments[..], &[out.to_str().unwrap(), &file]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        std::fs::read(out).unwrap()
    };
    assert_eq!(bytes("one.json", "3"), bytes("two.json", "3"));
}

#[test]
fn a_number_of_repetitions_is_what_the_program_does() {
    let Some((directory, _, file)) = recorded() else { return };
    let out = directory.path().join("out.json");
    let output = pinfold(&[
        "run",
        "--machine",
        "e5-4650x4",
        "--policy",
        "none",
        "--repeat",
        "3",
        "--json",
        out.to_str().unwrap(),
        &file,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(json(&out)["simulation"]["repetitions"], 3.0);
}

#[test]
fn all_models_are_listed_with_their_shapes_and_how_well_they_are_known() {
    let output = pinfold(&["machines", "--json"]);
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let opteron = list
        .as_array()
        .unwrap()
        .iter()
        .find(|model| model["name"] == "opteron-6164x4")
        .unwrap();
    assert_eq!(
        (&opteron["nodes"], &opteron["pus"]),
        (&Value::from(8), &Value::from(48))
    );
    assert!(opteron["sourced"].as_u64().unwrap() > 0 && opteron["assumed"].as_u64().unwrap() > 0);
}

#[test]
fn a_models_numbers_are_printed_with_their_sources() {
    let shown = text(&pinfold(&["machines", "opteron-6164x4"]).stdout);
    let line = shown.lines().find(|line| line.starts_with("core.frequency")).unwrap();
    assert!(line.contains("1700000000") && line.contains("specification"), "{line}");
    assert!(
        shown
            .lines()
            .any(|line| line.starts_with("link[1].bandwidth") && line.contains("assumed: ")),
        "{shown}"
    );
}

#[test]
fn a_model_has_a_topology_and_placements() {
    let shown = text(&pinfold(&["topo", "--machine", "opteron-6164x4"]).stdout);
    assert!(shown.contains("8 NUMA nodes") && shown.contains("48 PUs"), "{shown}");
    let count = text(&pinfold(&["placements", "--machine", "opteron-6164x4", "--threads", "1", "--count"]).stdout);
    assert_eq!(count.trim(), "1");
}

#[test]
fn an_unknown_model_gets_the_nearest_name_and_a_broken_one_its_line() {
    for command in [
        &["machines", "opteron-6164"][..],
        &["topo", "--machine", "opteron-6164"],
    ] {
        let error = error_of(command);
        assert!(error.contains("did you mean `opteron-6164x4`?"), "{error}");
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mine.toml");
    std::fs::write(&file, "name = \"mine\"\n").unwrap();
    let error = error_of(&["topo", "--machine", file.to_str().unwrap()]);
    assert!(error.contains("mine.toml:1"), "{error}");
}

#[test]
fn what_is_about_a_simulated_machine_is_refused_elsewhere() {
    for (option, name) in [("--seed", "--seed"), ("--repeat", "--repeat")] {
        let error = error_of(&["run", option, "1", "--", "true"]);
        assert!(error.contains(name) && error.contains("--machine"), "{error}");
    }
    for (option, value) in [("--page-map", "interleave"), ("--prefetch", "1111")] {
        let error = error_of(&["run", option, value, "--", "true"]);
        assert!(error.contains(option) && error.contains("--machine"), "{error}");
    }
    let error = error_of(&["run", "a.pft"]);
    assert!(error.contains("a.pft") && error.contains("--machine"), "{error}");
    let error = error_of(&["run", "--machine", "opteron-6164x4", "--outlive", "a.pft"]);
    assert!(error.contains("--outlive"), "{error}");
}

#[test]
fn pages_and_prefetchers_are_as_they_were_given() {
    let Some((directory, _, file)) = recorded() else { return };
    let simulated = |name: &str, given: &[&str]| {
        let out = directory.path().join(name);
        let mut arguments = vec![
            "run",
            "--machine",
            "e5-2660v2x2",
            "--policy",
            "fixed",
            "--schedule",
            "0,1,2",
        ];
        arguments.extend(["--repeat", "3", "--json", out.to_str().unwrap()]);
        arguments.extend(given);
        arguments.push(&file);
        let output = pinfold(&arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        json(&out)
    };
    let plain = simulated("plain.json", &[]);
    let given = simulated("given.json", &["--page-map", "remote", "--prefetch", "1011"]);
    assert!(plain["simulation"]["page_map"].is_null());
    assert_eq!(given["simulation"]["page_map"], "remote");
    assert_eq!(given["simulation"]["prefetch"], "1011");
    assert!(given["ran"].as_f64() > plain["ran"].as_f64());
    let missing = simulated("missing.json", &["--page-map", "single:2"]);
    let refused = &missing["refused"][0];
    assert!(refused["task"].is_null());
    assert!(refused["why"].as_str().unwrap().contains("no NUMA node 2"));
    assert_eq!(missing["ran"], plain["ran"]);
}

#[test]
fn every_event_of_the_event_sets_is_one_of_libpfm4() {
    let library = pfm::library().unwrap();
    for set in EventSet::all() {
        for event in &set.events {
            let name = match &set.pmu {
                Some(pmu) => format!("{pmu}::{}", event.name),
                None => event.name.clone(),
            };
            if let Err(error) = library.encode(&name, Privilege::User) {
                panic!("{}: {error}", set.name);
            }
        }
    }
}
