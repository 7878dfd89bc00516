//! `pinfold run` on simulated machines, and `pinfold machines`, as a user calls them.

mod common;

use common::{pinfold, plugin};
use pinfold_linux::pfm::{self, Privilege};
use pinfold_sim::EventSet;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn error_of(arguments: &[&str]) -> String {
    let output = pinfold(arguments);
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stdout));
    text(&output.stderr)
}

/// The lines, without the breaks that make them fit a terminal.
fn text(bytes: &[u8]) -> String {
    common::unwrapped(&String::from_utf8_lossy(bytes))
}

fn json(file: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// A directory with a program of three threads that ends with status 7, and a recording of it; `None`, with the reason
/// printed, where programs cannot be recorded.
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
        "--policy",
        "autopin",
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
        "--policy",
        "autopin",
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

/// Runs a recording five times, unpinned.
const FIVE_TIMES: [&str; 8] = [
    "run",
    "--machine",
    "e5-2660v2x2",
    "--policy",
    "none",
    "--repeat",
    "5",
    "-v",
];

/// Seconds that one repetition of a recording takes on the Opteron.
fn simulated_seconds(directory: &Path, file: &str) -> f64 {
    let out = directory.join("time.json");
    let options = [
        "--machine",
        "opteron-6164x4",
        "--policy",
        "none",
        "--repeat",
        "1",
        "--json",
    ];
    let output = pinfold(&[&["run"], &options[..], &[out.to_str().unwrap(), file]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    json(&out)["ran"].as_f64().unwrap()
}

#[test]
fn of_a_recording_of_a_part_the_part_is_simulated() {
    let Some((directory, program, whole)) = recorded() else {
        return;
    };
    let all = simulated_seconds(directory.path(), &whole);
    let part = directory.path().join("part.pft").display().to_string();
    for options in [
        &["--from", "20k", "--instructions", "20k"][..],
        &["--instructions", "5k", "--every", "40k"],
    ] {
        let output = pinfold(&[&["record", "-o", &part], options, &["--", &program]].concat());
        assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
        let time = simulated_seconds(directory.path(), &part);
        assert!(time > 0.0 && time < all, "{options:?}: {time} of {all}");
    }
}

#[test]
fn a_recording_of_a_part_that_never_came_is_not_simulated() {
    let Some((directory, program, _)) = recorded() else {
        return;
    };
    let none = directory.path().join("none.pft").display().to_string();
    pinfold(&["record", "-o", &none, "--from", "10G", "--", &program]);
    let error = error_of(&["run", "--machine", "clovertown", &none]);
    assert!(
        error.contains("holds no data access") && error.contains("from instruction 10000000000"),
        "{error}"
    );
}

#[test]
fn a_damaged_recording_is_simulated_as_far_as_it_goes_when_that_is_asked_for() {
    let Some((directory, _, file)) = recorded() else { return };
    let bytes = std::fs::read(&file).unwrap();
    let cut = directory.path().join("cut.pft").display().to_string();
    std::fs::write(&cut, &bytes[..bytes.len() - 10]).unwrap();
    let run = [
        "run",
        "--machine",
        "clovertown",
        "--policy",
        "none",
        "--repeat",
        "1",
        &cut,
    ];
    let error = error_of(&run);
    assert!(
        error.contains("is damaged at byte") && error.contains("--salvage"),
        "{error}"
    );
    let output = pinfold(&[&run[..], &["--salvage"]].concat());
    let shown = text(&output.stderr);
    assert!(output.status.success(), "{shown}");
    assert_eq!(shown.matches("what precedes is used").count(), 1, "{shown}");
    // Nothing is left before the first block but the header.
    std::fs::write(&cut, &bytes[..600]).unwrap();
    let error = error_of(&[&run[..], &["--salvage"]].concat());
    assert!(error.contains("holds no data access"), "{error}");
}

#[test]
fn threads_that_outnumber_the_processors_take_turns_and_that_is_said_once() {
    let Some((directory, program, _)) = recorded() else {
        return;
    };
    let crowd = directory.path().join("crowd.pft").display().to_string();
    let output = pinfold(&["record", "-o", &crowd, "--", &program, "crowd"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = pinfold(&[
        "run",
        "--machine",
        "clovertown",
        "--policy",
        "none",
        "--repeat",
        "4",
        &crowd,
    ]);
    let shown = text(&output.stderr);
    assert!(output.status.success(), "{shown}");
    assert_eq!(shown.matches("12 threads at the same time").count(), 1, "{shown}");
}

#[test]
fn a_models_bad_number_is_refused_with_its_key_its_line_and_what_would_be_right() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines/clovertown.toml");
    let good = std::fs::read_to_string(model).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mine.toml");
    for (line, replacement, key, remedy) in [
        ("frequency = ", "", "frequency", "missing"),
        (
            "frequency = ",
            "frequency = { ghz = -2.66, source = \"a slip\" }",
            "frequency",
            "give a number above 0",
        ),
        (
            "ways = { count = 16",
            "ways = { count = 15, source = \"a slip\" }",
            "cache[1].ways",
            "give ways that divide",
        ),
    ] {
        let number = good.lines().position(|text| text.starts_with(line)).unwrap() + 1;
        let bad: Vec<&str> = good
            .lines()
            .map(|text| if text.starts_with(line) { replacement } else { text })
            .collect();
        std::fs::write(&file, bad.join("\n")).unwrap();
        let error = error_of(&["run", "--machine", file.to_str().unwrap(), "a.pft"]);
        // What is missing has no line; that of its table is told.
        let place = if replacement.is_empty() {
            "mine.toml:".to_owned()
        } else {
            format!("mine.toml:{number}")
        };
        for words in [place.as_str(), key, remedy] {
            assert!(error.contains(words), "{words}: {error}");
        }
    }
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
    let error = error_of(&["run", "a.pft"]);
    assert!(error.contains("a.pft") && error.contains("--machine"), "{error}");
    let error = error_of(&["run", "--machine", "opteron-6164x4", "--outlive", "a.pft"]);
    assert!(error.contains("--outlive"), "{error}");
    for option in [&["--migrate-files"][..], &["--migrate-rate", "1GiB/s"]] {
        let arguments = [&["run", "--machine", "opteron-6164x4"], option, &["a.pft"]].concat();
        let error = error_of(&arguments);
        assert!(error.contains(option[0]) && error.contains("really runs"), "{error}");
    }
}

#[test]
fn the_kernel_of_a_simulated_machine_is_one_of_the_known_versions() {
    for command in ["run", "compare"] {
        let error = error_of(&[command, "--kernel", "7.2", "--", "true"]);
        assert!(
            error.contains("the one that runs") && error.contains("--machine"),
            "{error}"
        );
        let output = pinfold(&[command, "--machine", "epyc-7763x2", "--kernel", "5.0", "a.pft"]);
        assert!(!output.status.success());
        let error = text(&output.stderr);
        assert!(error.contains("2.6.39, 3.10, 6.1, 6.12, 7.2"), "{error}");
    }
}

#[test]
fn the_kernel_places_unpinned_threads_and_is_named() {
    let Some((directory, _, file)) = recorded() else { return };
    let out = directory.path().join("kernel.json");
    let run = |kernel: &[&str]| {
        let machine = [
            "run",
            "--machine",
            "epyc-7763x2",
            "--policy",
            "none",
            "--repeat",
            "5",
            "-v",
        ];
        let output = pinfold(&[&machine[..], kernel, &["--json", out.to_str().unwrap(), &file]].concat());
        let shown = text(&output.stderr);
        assert!(output.status.success(), "{shown}");
        (json(&out), shown)
    };
    let nodes = |record: &Value| {
        let pus = record["simulation"]["programs"][0]["pus"].as_array().unwrap();
        let nodes: Vec<u64> = pus.iter().map(|pu| pu.as_u64().unwrap() / 64).collect();
        nodes
    };
    let (default, shown) = run(&[]);
    assert_eq!(default["simulation"]["kernel"], "6.1");
    assert!(shown.contains("unpinned on a simulated Linux 6.1"), "{shown}");
    assert!(nodes(&default).iter().all(|node| *node == nodes(&default)[0]));
    let (named, _) = run(&["--kernel", "6.1"]);
    assert_eq!(named, default);
    let (early, shown) = run(&["--kernel", "2.6.39"]);
    assert_eq!(early["simulation"]["kernel"], "2.6.39");
    assert!(shown.contains("unpinned on a simulated Linux 2.6.39"), "{shown}");
    assert!(nodes(&early).contains(&0) && nodes(&early).contains(&1));
}

#[test]
fn automatic_numa_balancing_is_on_where_the_user_and_the_kernel_have_it() {
    for command in ["run", "compare"] {
        let error = error_of(&[command, "--numa-balancing", "on", "--", "true"]);
        assert!(
            error.contains("kernel.numa_balancing=1") && error.contains("--machine"),
            "{error}"
        );
    }
    let Some((directory, _, file)) = recorded() else { return };
    let out = directory.path().join("balancing.json");
    let error = error_of(
        &[
            &FIVE_TIMES[..],
            &["--kernel", "2.6.39", "--numa-balancing", "on", &file],
        ]
        .concat(),
    );
    assert!(
        error.contains("Linux 2.6.39 has none") && error.contains("later kernel"),
        "{error}"
    );
    let run = |balancing: &[&str]| {
        let output = pinfold(&[&FIVE_TIMES[..], balancing, &["--json", out.to_str().unwrap(), &file]].concat());
        let shown = text(&output.stderr);
        assert!(output.status.success(), "{shown}");
        (json(&out), shown)
    };
    let (default, shown) = run(&[]);
    assert_eq!(default["simulation"]["numa_balancing"], Value::Null);
    assert!(!shown.contains("automatic NUMA balancing"), "{shown}");
    let (off, _) = run(&["--numa-balancing", "off"]);
    assert_eq!(off, default);
    let (on, shown) = run(&["--numa-balancing", "on"]);
    assert!(on["simulation"]["numa_balancing"]["hint_faults"].is_u64());
    assert!(shown.contains("Linux 6.1 with automatic NUMA balancing"), "{shown}");
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
    let weighted = simulated("weighted.json", &["--weighted-interleave", "all"]);
    let refused = &weighted["refused"][0];
    assert!(refused["task"].is_null());
    assert!(refused["why"].as_str().unwrap().contains("interleave:0-1"), "{refused}");
    // What numactl calls it is the same.
    let remote = simulated("bound.json", &["--membind", "1"]);
    assert_eq!(remote["page_map"], "bind:1");
    assert_eq!(
        remote["ran"],
        simulated("single.json", &["--page-map", "single:1"])["ran"]
    );
    let error = error_of(&["run", "--machine", "e5-2660v2x2", "--page-map", "single:2", &file]);
    assert!(error.contains("no NUMA node 2; there are 0-1"), "{error}");
    assert_eq!(weighted["ran"], plain["ran"]);
}

#[test]
fn every_event_of_the_event_sets_is_one_of_libpfm4() {
    let library = pfm::library().unwrap();
    for set in EventSet::all() {
        let known = |pmu: &String| library.pmus().iter().any(|other| other.name == *pmu);
        for event in &set.events {
            let name = match (&set.pmu, event.code) {
                (None, _) => event.name.clone(),
                (Some(pmu), Some(code)) if !known(pmu) => format!("perf_raw::r{code:04x}"),
                (Some(pmu), _) => format!("{pmu}::{}", event.name),
            };
            match library.encode(&name, Privilege::User) {
                Err(error) => panic!("{}: {error}", set.name),
                Ok(encoding) => {
                    let differs = event.code.is_some_and(|code| code != encoding.config());
                    assert!(!differs, "{}: {} is {:x}", set.name, event.name, encoding.config());
                }
            }
        }
    }
}

#[test]
fn an_affinity_hint_is_kept_for_the_programs_threads() {
    let Some((directory, _, file)) = recorded() else { return };
    let out = directory.path().join("hint.json");
    let hinted = |hint: &str| {
        let policy = format!("hint:{hint}");
        let mut arguments = vec![
            "run",
            "--machine",
            "opteron-6164x4",
            "--policy",
            &policy,
            "--threads",
            "3",
        ];
        arguments.extend(["--repeat", "3", "--json", out.to_str().unwrap(), &file]);
        let output = pinfold(&arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        json(&out)
    };
    let packed = hinted("slp");
    assert_eq!(packed["policy"], "hint");
    assert_eq!(packed["candidates"][0]["pus"], serde_json::json!([0, 1, 2]));
    assert!(packed["candidates_why"].as_str().unwrap().contains("slp"));
    let distributed = hinted("SLP");
    assert_eq!(distributed["candidates"][0]["pus"], serde_json::json!([0, 12, 24]));
    assert_ne!(packed["ran"], distributed["ran"]);
}

#[test]
fn several_recordings_run_side_by_side_each_at_its_own_speed() {
    let Some((directory, _, file)) = recorded() else { return };
    let out = directory.path().join("mix.json");
    let output = pinfold(&[&FIVE_TIMES[..], &["--json", out.to_str().unwrap(), &file, &file]].concat());
    let shown = text(&output.stderr);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("side by side"), "{shown}");
    let record = json(&out);
    assert!(record["simulation"]["recording"].is_null());
    let programs = record["simulation"]["programs"].as_array().unwrap();
    assert_eq!(programs.len(), 2);
    for program in programs {
        assert_eq!(program["recording"], file.as_str());
        assert!(program["repetitions"].as_f64().unwrap() >= 5.0);
        let speed = program["repetitions"].as_f64().unwrap() / record["ran"].as_f64().unwrap();
        assert!((program["speed"].as_f64().unwrap() / speed - 1.0).abs() < 1e-9);
        assert!(program["events"]["instructions"].as_f64().unwrap() > 0.0);
    }
    assert_ne!(programs[0]["process"], programs[1]["process"]);
    assert_eq!(
        record["tasks"].as_u64(),
        programs.iter().map(|program| program["tasks"].as_u64()).sum()
    );
}

#[test]
fn a_policy_that_is_about_one_program_refuses_several() {
    let Some((_directory, _, file)) = recorded() else {
        return;
    };
    let error = error_of(&[
        "run",
        "--machine",
        "e5-2660v2x2",
        "--policy",
        "hints:rules",
        &file,
        &file,
    ]);
    assert!(error.contains("one program, and there are 2"), "{error}");
}
