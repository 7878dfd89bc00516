//! `pinfold calibrate` as a user calls it. What is measured depends on the machine; that it becomes a model does not.
//! Thresholds of the machine at hand are tested in the emulated one, which has several last-level caches
//! (`tests/guest/test_thresholds.py`).

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn pinfold(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pinfold"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_measured_model_is_one_that_other_commands_take() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let arguments = [
        "calibrate",
        "--model",
        "--quick",
        "-o",
        "mine.toml",
        "--json",
        "mine.json",
    ];
    let calibrated = pinfold(&arguments, directory);
    if said(&calibrated).contains("only machines whose") || said(&calibrated).contains("write one by hand") {
        pinfold_testing::skip(format_args!("this machine has no regular shape: {}", said(&calibrated)));
        return;
    }
    assert!(calibrated.status.success(), "{}", said(&calibrated));
    assert!(said(&calibrated).contains("measuring the core"));

    let shown = pinfold(&["machines", "mine.toml"], directory);
    assert!(shown.status.success(), "{}", said(&shown));
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.starts_with("mine: "), "{text}");
    let origin = |line: &str| {
        ["measured: ", "reported ", "assumed", "the first level"]
            .iter()
            .any(|word| line.contains(word))
    };
    for line in text
        .lines()
        .filter(|line| line.contains("core.") || line.contains("cache[") || line.contains("memory."))
    {
        assert!(origin(line), "{line}");
    }
    let topology = pinfold(&["topo", "--machine", "mine.toml"], directory);
    assert!(topology.status.success(), "{}", said(&topology));

    let json: serde_json::Value = serde_json::from_slice(&fs::read(directory.join("mine.json")).unwrap()).unwrap();
    assert!(json["frequency"]["value"].as_f64().unwrap() > 0.0);
    assert!(!json["latency_curve"].as_array().unwrap().is_empty());
}

#[test]
fn what_cannot_be_written_is_told_before_anything_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    for (file, remedy) in [
        ("nowhere/mine.toml", "cannot be written"),
        ("mine.txt", "call it mine.toml"),
    ] {
        let output = pinfold(&["calibrate", "--model", "-o", file], directory.path());
        assert_eq!(output.status.code(), Some(125));
        assert!(said(&output).contains(remedy), "{}", said(&output));
        assert!(!said(&output).contains("measuring"), "{}", said(&output));
    }
}

#[test]
fn a_killed_calibration_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let simulated = ["--thresholds", "--machine", "e5-2660v2x2", "--plot", "t.svg"];
    for mode in [&["--model"][..], &simulated] {
        let mut calibration = Command::new(env!("CARGO_BIN_EXE_pinfold"))
            .arg("calibrate")
            .args(mode)
            .args(["-o", "t.toml", "--json", "t.json"])
            .current_dir(directory.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(calibration.stderr.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        calibration.kill().unwrap();
        calibration.wait().unwrap();
        assert!(line.contains("measuring") || line.contains("simulated"), "{line}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "{mode:?}");
    }
}

#[test]
fn without_saying_what_nothing_is_calibrated() {
    let output = pinfold(&["calibrate"], Path::new("."));
    assert_eq!(output.status.code(), Some(125));
    assert!(said(&output).contains("--model"), "{}", said(&output));
}

/// A number of a TOML file of one level.
fn number(text: &str, key: &str) -> f64 {
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{key} = ")))
        .unwrap();
    line.split_once(" = ").unwrap().1.parse().unwrap()
}

#[test]
fn thresholds_of_the_simulated_machine_of_sam_are_near_the_papers() {
    let directory = tempfile::tempdir().unwrap();
    let machine = [
        "--machine",
        "e5-2660v2x2",
        "-o",
        "t.toml",
        "--plot",
        "t.svg",
        "--json",
        "t.json",
    ];
    let output = pinfold(
        &[&["calibrate", "--thresholds"], &machine[..]].concat(),
        directory.path(),
    );
    assert!(output.status.success(), "{}", said(&output));
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    let text = read("t.toml");
    // Sections 2.1 and 2.2: 2.5e-4 coherence events of a thread, and 0.034 LLC misses of a package, a cycle.
    for (key, paper) in [("coherence", 2.5e-4), ("package_memory", 0.034)] {
        let ratio = number(&text, key) / paper;
        assert!(0.5 < ratio && ratio < 2.0, "{key}: {ratio} of the paper's");
    }
    assert!(said(&output).contains("simulated: e5-2660v2x2"), "{}", said(&output));
    assert!(read("t.svg").contains("threshold"));
    let json: serde_json::Value = serde_json::from_str(&read("t.json")).unwrap();
    assert_eq!(json["simulated"], true);
    assert_eq!(
        json["sharing"][0]["quartiles"],
        serde_json::Value::Null,
        "nothing was repeated"
    );
    assert_eq!(json["copying"].as_array().unwrap().last().unwrap()["tasks"], 10);
    let coherence = json["thresholds"]["coherence"].as_f64().unwrap();
    assert!((coherence / number(&text, "coherence") - 1.0).abs() < 1e-3);
}

#[test]
fn what_only_one_of_the_two_has_is_refused_with_the_other() {
    for arguments in [
        &["--model", "--plot", "t.svg"][..],
        &["--model", "--metric", "memory_bandwidth=task-clock"],
        &[
            "--thresholds",
            "--machine",
            "e5-2660v2x2",
            "--metric",
            "memory_bandwidth=task-clock",
        ],
    ] {
        let output = pinfold(&[&["calibrate"], arguments].concat(), Path::new("."));
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        assert!(said(&output).contains("cannot be used with"), "{}", said(&output));
    }
}

#[test]
fn a_refusal_leaves_files_as_they_were() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("old.json"), "kept").unwrap();
    let metric = ["--metric", "memory_bandwidth=task-clock"];
    let files = ["-o", "new.toml", "--json", "old.json", "--plot", "new.svg"];
    let output = pinfold(
        &[&["calibrate", "--thresholds"], &metric[..], &files].concat(),
        directory.path(),
    );
    assert_eq!(output.status.code(), Some(125));
    let names: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["old.json"]);
    assert_eq!(fs::read_to_string(directory.path().join("old.json")).unwrap(), "kept");
}

#[test]
fn thresholds_that_cannot_be_measured_are_refused_with_what_is_lacking() {
    for (arguments, says) in [
        (&["--thresholds"][..], "name a model of its kind with --machine"),
        (
            &["--thresholds", "--machine", "synthetic:package:2 core:2 pu:1"],
            "only its shape is known",
        ),
        (
            &["--thresholds", "--machine", "e5-2660v2x2", "--plot", "t.png"],
            "call it t.svg",
        ),
        (&["--model", "--machine", "e5-2660v2x2"], "leave --machine out"),
        (
            &["--thresholds", "--metric", "inter_package_coherence=task-clock"],
            "no event stands for memory_bandwidth",
        ),
        (
            &["--thresholds", "--metric", "sharing=task-clock"],
            "there is no activity `sharing`",
        ),
        (
            &["--thresholds", "--machine", "e5-2660v2x2", "--quick"],
            "--quick is for this machine",
        ),
    ] {
        let output = pinfold(&[&["calibrate"], arguments].concat(), Path::new("."));
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        assert!(said(&output).contains(says), "{arguments:?}: {}", said(&output));
    }
}
