//! `pinfold calibrate --model` as a user calls it. What is measured depends on the machine; that it becomes a model does not.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

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
        eprintln!("skipped: this machine has no regular shape: {}", said(&calibrated));
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
fn without_saying_what_nothing_is_calibrated() {
    let output = pinfold(&["calibrate"], Path::new("."));
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("--model"), "{}", said(&output));
}
