//! `pinfold topo` as a user runs it.

use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// `pinfold topo` with these arguments, in an environment without hwloc's variables.
fn topo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinfold"));
    command.arg("topo").args(arguments);
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("HWLOC_") {
            command.env_remove(variable);
        }
    }
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What a run that succeeds prints; nothing goes to standard error.
fn printed(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(text(&output.stderr), "");
    assert!(output.status.success());
    text(&output.stdout)
}

/// What a run that fails says.
fn refused(mut command: Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert_eq!(status.code(), Some(125));
    assert_eq!(text(&stdout), "");
    text(&stderr)
}

fn json(command: Command) -> Value {
    serde_json::from_str(&printed(command)).unwrap()
}

const MACHINE: [&str; 2] = ["--machine", "synthetic:package:2 numa:2 l3:1 core:6 pu:1"];

#[test]
fn the_first_line_is_the_summary() {
    let text = printed(topo(&MACHINE));
    assert_eq!(
        text.lines().next(),
        Some("package:2 numa:2 l3:1 core:6 pu:1: 2 packages, 4 NUMA nodes, 4 L3 caches of 16 MiB, 24 cores, 24 PUs")
    );
}

#[test]
fn this_machine_is_shown_without_arguments() {
    let text = printed(topo(&[]));
    assert!(text.lines().next().unwrap().contains(" PU"), "{text}");
}

#[test]
fn json_has_the_whole_topology() {
    let mut command = topo(&MACHINE);
    command.arg("--json");
    let topology = json(command);
    assert_eq!(topology["allowed_pus"], "0-23");
    assert_eq!(topology["allowed_nodes"], serde_json::json!([0, 1, 2, 3]));
    assert_eq!(topology["distances"], Value::Null);
    assert_eq!(topology["core_kinds"], serde_json::json!([]));
    assert_eq!(topology["nodes"][1]["pus"], "6-11");
    assert_eq!(topology["nodes"][1]["memory"], 1 << 30);

    let package = &topology["tree"]["children"][0];
    assert_eq!(package["kind"], "package");
    assert_eq!(package["cache"], Value::Null);
    let l3 = &package["children"][1];
    assert_eq!(l3["cache"]["level"], 3);
    assert_eq!(l3["cache"]["size"], 16 << 20);
    assert_eq!(l3["nodes"], serde_json::json!([1]));
    assert_eq!(l3["children"][5]["children"][0]["os_index"], 11);
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let mut command = topo(&["--machine", "synthetic:package:8 l3:8 core:16 pu:2", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut complaint = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(complaint, "");
}

#[test]
fn an_unknown_machine_is_answered_with_what_can_be_named() {
    let message = refused(topo(&["--machine", "sythetic:core:2 pu:1"]));
    assert!(message.contains("`sythetic:core:2 pu:1`"), "{message}");
    assert!(message.contains("did you mean `synthetic:SPEC`?"), "{message}");
    assert!(message.contains("fsroot:DIR"), "{message}");
}

#[test]
fn a_bare_path_is_answered_with_the_kind_that_fits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let message = refused(topo(&["--machine", path]));
    assert!(message.contains(&format!("did you mean `fsroot:{path}`?")), "{message}");
}

#[test]
fn a_kind_without_its_operand_is_told_what_is_missing() {
    let message = refused(topo(&["--machine", "xml:"]));
    assert!(message.contains("lacks its FILE"), "{message}");
}

#[test]
fn a_bad_description_is_answered_with_a_good_one() {
    let message = refused(topo(&["--machine", "synthetic:package:2 foo:3"]));
    assert!(message.contains("`package:2 foo:3`"), "{message}");
    assert!(
        message.contains("a valid one is `package:2 l3:1 core:8 pu:2`"),
        "{message}"
    );
}

#[test]
fn an_environment_that_describes_another_machine_is_not_taken_for_this_one() {
    let mut command = topo(&[]);
    command.env("HWLOC_SYNTHETIC", "core:3 pu:1");
    let message = refused(command);
    assert!(message.contains("HWLOC_SYNTHETIC"), "{message}");
}

#[test]
fn a_described_machine_is_read_whatever_the_environment_describes() {
    let mut command = topo(&MACHINE);
    command.env("HWLOC_SYNTHETIC", "core:3 pu:1");
    assert!(printed(command).contains("24 PUs"));
}

#[test]
fn the_affinity_mask_that_we_start_with_is_what_is_allowed() {
    let all = json(topo(&["--json"]));
    let first = all["allowed_pus"].as_str().unwrap().split(['-', ',']).next().unwrap();
    let mut command = Command::new("taskset");
    command
        .args(["--cpu-list", first])
        .args([env!("CARGO_BIN_EXE_pinfold"), "topo", "--json"]);
    if command.output().is_err() {
        pinfold_testing::skip("no taskset");
        return;
    }
    assert_eq!(json(command)["allowed_pus"], first);
}

/// The captured machines, where they are at hand.
fn captures() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/topologies");
    if folder.is_dir() {
        return Some(folder);
    }
    pinfold_testing::skip(format_args!("no captured machines at {}", folder.display()));
    None
}

/// A copied machine, unpacked into memory where there is such a file system.
fn unpacked(archive: &Path) -> Option<(tempfile::TempDir, String)> {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap());
    let status = Command::new("tar")
        .arg("-xjf")
        .arg(archive)
        .arg("-C")
        .arg(folder.path())
        .status();
    if !status.is_ok_and(|status| status.success()) {
        pinfold_testing::skip(format_args!("cannot unpack {}; needs tar and bzip2", archive.display()));
        return None;
    }
    let root = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap();
    let machine = format!("fsroot:{}", root.path().display());
    Some((folder, machine))
}

/// That the tree and the matrix stay within the columns that a terminal has. The summary may be longer.
fn assert_fits(machine: &str) {
    let text = printed(topo(&["--machine", machine]));
    for line in text.lines().skip(1) {
        assert!(line.chars().count() <= 100, "{machine}: {line}");
    }
}

#[test]
fn every_captured_machine_fits_on_a_terminal() {
    let Some(folder) = captures() else { return };
    let files = |kind: &str| {
        let entries = std::fs::read_dir(folder.join(kind)).unwrap();
        entries.map(|entry| entry.unwrap().path())
    };
    for file in files("xml") {
        assert_fits(&format!("xml:{}", file.display()));
    }
    for archive in files("sysfs") {
        let Some((_folder, machine)) = unpacked(&archive) else {
            return;
        };
        assert_fits(&machine);
    }
}

#[test]
fn what_a_cgroup_forbids_is_in_brackets() {
    let Some(folder) = captures() else { return };
    let Some((_folder, machine)) = unpacked(&folder.join("sysfs/32amd64-4s2n4c-cgroup2.tar.bz2")) else {
        return;
    };
    let text = printed(topo(&["--machine", &machine]));
    assert!(text.contains("node 1 (16 GiB): 4-5 [6-7]"), "{text}");
    assert!(text.contains("[node 7] (16 GiB): [28-31]"), "{text}");
    assert!(text.contains("[brackets] may not be used"), "{text}");
}

#[test]
fn the_kinds_of_cores_of_a_hybrid_machine_are_listed() {
    let Some(folder) = captures() else { return };
    let Some((_folder, machine)) = unpacked(&folder.join("sysfs/20em64t-hybrid-1p6c2t+2ca4co1t.tar.bz2")) else {
        return;
    };
    let text = printed(topo(&["--machine", &machine]));
    assert!(text.contains("14 cores of 2 kinds"), "{text}");
    assert!(
        text.contains("FrequencyMaxMHz 3900, FrequencyBaseMHz 1400: 12-19"),
        "{text}"
    );
}

#[test]
fn the_memory_of_gpus_is_shown_where_hwloc_is_told_to_keep_it() {
    let Some(folder) = captures() else { return };
    let Some((_folder, machine)) = unpacked(&folder.join("sysfs/nvidiagpunumanodes.tar.bz2")) else {
        return;
    };
    let mut command = topo(&["--machine", &machine]);
    command.env("HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES", "1");
    assert!(printed(command).contains("node 255 (GPUMemory, 15 GiB)"));
    let mut command = topo(&["--machine", &machine, "--json"]);
    command.env("HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES", "1");
    let topology = json(command);
    let gpu = &topology["nodes"][7];
    assert_eq!(
        (&gpu["id"], &gpu["kind"], &gpu["pus"]),
        (&255.into(), &"gpu".into(), &"".into())
    );
    assert_eq!(topology["nodes"][0]["kind"], Value::Null);
}

#[test]
fn a_description_at_which_hwloc_crashes_is_an_error_with_the_remedy() {
    // An attribute's name is misspelt, and the file is cut off: hwloc 2.9 ends with signal 11, or with an error where
    // its plugins are installed, which read XML by libxml2.
    let text = r#"<topology version="3.0">
  <object type="Machine" os_index="0" cpuset="0x000000ff" compeete_cpuset="0x000000ff" allowed_cpuset="0x000000ff"
    nodeset="0x00000001" complete_nodeset="0x00000001" allowed_nodeset="0x00000001">
    <object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001"/>
"#;
    let file = tempfile::Builder::new().suffix(".xml").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let machine = format!("xml:{}", file.path().display());
    let error = refused(topo(&["--machine", &machine]));
    let named = error.contains(&file.path().display().to_string());
    assert!(named && error.contains("lstopo"), "{error}");
}

#[test]
fn a_description_that_is_larger_than_any_machine_is_an_error() {
    let error = refused(topo(&["--machine", "synthetic:package:1000 core:1000 pu:1000"]));
    assert!(
        error.contains("synthetic:package:1000") && error.contains("oversized"),
        "{error}"
    );
}
