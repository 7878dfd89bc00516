//! What is printed: a reader that goes away is no error, a disk that is full is one, and a report is written in any
//! case.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

const MACHINE: [&str; 2] = ["--machine", "synthetic:package:2 l3:1 core:2 pu:1"];

/// A recording of a thread that accesses nothing, written to this folder.
fn recording(folder: &Path) -> String {
    let path = folder.join("program.pft");
    let header = pinfold_trace::Header {
        recorder: "a test".to_owned(),
        architecture: "x86_64".to_owned(),
        page_size: 4096,
        command: vec!["program".to_owned()],
        program: "/bin/program".to_owned(),
        window: None,
    };
    let mut bytes = vec![];
    pinfold_trace::Writer::header(&mut bytes, &header).unwrap();
    bytes.extend(pinfold_trace::Writer::thread(0, 1, pinfold_trace::NO_PARENT));
    bytes.extend(pinfold_trace::Writer::end());
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A record of a run, written to this folder.
fn record(folder: &Path) -> String {
    let path = folder.join("run.json");
    fs::write(&path, r#"{"policy": "first_touch", "candidates": []}"#).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Commands that print an answer, each with its arguments.
fn answers(folder: &Path) -> Vec<Vec<String>> {
    let recording = recording(folder);
    let record = record(folder);
    let database = folder.join("behaviour.db").display().to_string();
    let ours = std::process::id().to_string();
    let commands: [&[&str]; 20] = [
        &["--help"],
        &["run", "--help"],
        &["--version"],
        &["topo", MACHINE[0], MACHINE[1]],
        &["topo", "--json", MACHINE[0], MACHINE[1]],
        &["placements", "--threads", "2", MACHINE[0], MACHINE[1]],
        &["machines"],
        &["events", "--all", "cycles"],
        &["explain", &record],
        &["trace", "info", &recording],
        &["trace", "info", "--json", &recording],
        &["trace", "metrics", &recording],
        &["trace", "metrics", "--json", &recording],
        &["trace", "metrics", "--paper", "denoyelle", &recording],
        &["trace", "metrics", "--paper", "denoyelle", "--json", &recording],
        &["trace", "misses", "--level", "32k,8,64", &recording],
        &["trace", "misses", "--level", "32k,8,64", "--json", &recording],
        &["pages", &ours],
        &["run", "--dry-run", "--db", &database, "--", "true"],
        &["daemon", "--check-config"],
    ];
    commands
        .iter()
        .map(|command| command.iter().map(|word| (*word).to_owned()).collect())
        .collect()
}

fn pinfold(arguments: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinfold"));
    command.args(arguments);
    command
}

/// Runs a command whose standard output is a pipe that nobody reads: what it says on standard error and whether it
/// succeeds.
fn unread(mut command: Command) -> (String, bool) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (said, child.wait().unwrap().success())
}

#[test]
fn a_reader_that_has_gone_is_no_error_of_any_command() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in answers(folder.path()) {
        let (said, success) = unread(pinfold(&arguments));
        assert!(success && said.is_empty(), "{arguments:?}: {said}");
    }
}

#[test]
fn a_full_disk_is_an_error_of_every_command_and_names_the_output() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in answers(folder.path()) {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = pinfold(&arguments).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.starts_with("pinfold: standard output: No space left on device"),
            "{arguments:?}: {said}"
        );
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
}

#[test]
fn the_report_of_pages_is_written_where_nobody_reads_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let arguments = [
        "pages",
        &std::process::id().to_string(),
        "--json",
        report.to_str().unwrap(),
    ]
    .map(str::to_owned);
    let (said, success) = unread(pinfold(&arguments));
    assert!(success, "{said}");
    let document: serde_json::Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    assert_eq!(document["process"], std::process::id());
}

#[test]
fn a_message_that_nobody_can_read_does_not_change_the_exit_status() {
    let arguments = ["topo", "--machine", "nosuch"].map(str::to_owned);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert_eq!(pinfold(&arguments).stderr(full).status().unwrap().code(), Some(125));
}
