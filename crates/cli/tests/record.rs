//! `pinfold record` and `pinfold trace`, with real programs under QEMU.

mod common;

use common::{pinfold, plugin};
use pinfold_sim::{RecordedProgram, SimulatedProgram};
use pinfold_trace::{Access, Batch, Event, EventKind, Recording};
use std::path::Path;
use std::process::{Command, Output};

/// The lines, without the breaks that make them fit a terminal.
fn text(bytes: &[u8]) -> String {
    common::unwrapped(&String::from_utf8_lossy(bytes))
}

/// A directory with the programs of tests/record in it; `None` where programs cannot be recorded.
fn programs() -> Option<tempfile::TempDir> {
    plugin()?;
    let directory = tempfile::tempdir().unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record");
    let compile = |flags: &[&str], source: &str, program: &str| {
        let compiled = Command::new("cc")
            .args(flags)
            .arg("-o")
            .arg(directory.path().join(program))
            .arg(sources.join(source))
            .status()
            .unwrap();
        assert!(compiled.success());
    };
    compile(&["-nostdlib", "-static", "-no-pie"], "exact.S", "exact");
    compile(&["-O1", "-pthread"], "threads.c", "dynamic");
    compile(&["-O1", "-pthread", "-static"], "threads.c", "static");
    Some(directory)
}

/// Records a program of the directory and gives back how it ended and the recording.
fn record(directory: &Path, options: &[&str], command: &[&str]) -> (Output, Recording) {
    let file = directory.join("recording.pft");
    let program = directory.join(command[0]);
    let mut arguments = vec!["record", "-o", file.to_str().unwrap()];
    arguments.extend(options);
    arguments.extend(["--", program.to_str().unwrap()]);
    arguments.extend(&command[1..]);
    let output = pinfold(&arguments);
    let recording = Recording::open(&file).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    (output, recording)
}

/// A thread's accesses and events.
fn read(recording: &Recording, thread: usize) -> (Vec<Access>, Vec<Event>) {
    let mut reader = recording.read(&recording.threads()[thread]);
    let (mut accesses, mut events) = (vec![], vec![]);
    let mut batch: Batch = Batch::default();
    while reader.next_batch(&mut batch).unwrap() {
        accesses.extend(&batch.accesses);
        events.extend(batch.events.iter().map(|(_, event)| *event));
    }
    (accesses, events)
}

#[test]
fn every_access_of_a_program_whose_accesses_are_known_is_recorded() {
    let Some(directory) = programs() else { return };
    let (output, recording) = record(directory.path(), &[], &["exact"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(recording.threads().len(), 1);
    let (accesses, _) = read(&recording, 0);
    let count = |size: u8, write: bool| accesses.iter().filter(|a| (a.size, a.write) == (size, write)).count();
    assert_eq!((count(8, false), count(8, true)), (1001, 0));
    assert_eq!((count(4, false), count(4, true)), (0, 1000));
    assert_eq!((count(2, false), count(2, true)), (1001, 1000));
    assert_eq!((count(1, false), count(1, true)), (1005, 5));
    assert_eq!((count(16, false), count(16, true)), (1, 1));
    assert_eq!(accesses.len(), 1001 + 1000 + 1001 + 1000 + 1005 + 5 + 2);
    // The program's order: the loop's reads of 8 bytes are 16 bytes and seven instructions apart.
    let reads: Vec<_> = accesses.iter().filter(|a| a.size == 8).take(1000).collect();
    assert!(
        reads
            .windows(2)
            .all(|pair| pair[1].address == pair[0].address + 16 && pair[1].pc == pair[0].pc)
    );
    let instructions: u32 = accesses.iter().skip(1).take(5).map(|access| access.instructions).sum();
    assert_eq!(instructions, 7);
    let instructions = recording.threads()[0].instructions();
    assert!(
        (2 + 7000 + 14..=2 + 7000 + 15).contains(&instructions),
        "{instructions}"
    );
}

#[test]
fn the_accesses_of_each_thread_and_its_place_among_the_others_are_recorded() {
    let Some(directory) = programs() else { return };
    for program in ["dynamic", "static"] {
        let (output, recording) = record(directory.path(), &[], &[program]);
        assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
        let threads = recording.threads();
        assert_eq!(threads.len(), 3);
        let parents: Vec<_> = threads.iter().map(|thread| thread.parent).collect();
        assert_eq!(parents, [None, Some(0), Some(0)]);
        assert!(threads.iter().all(|thread| thread.kernel_id.is_some()));
        let base = 0x1000_0000_0000;
        for thread in 0..3 {
            let (accesses, events) = read(&recording, thread);
            let written: Vec<_> = accesses
                .iter()
                .filter(|a| a.write && a.address >> 40 == base >> 40)
                .collect();
            let expected = (0..4096).map(|i| base + (thread as u64 * 4096 + i) * 8);
            assert!(
                written.iter().map(|a| a.address).eq(expected),
                "{} writes",
                written.len()
            );
            assert!(written.iter().all(|a| a.size == 8));
            let read = accesses
                .iter()
                .filter(|a| !a.write && a.address >> 40 == base >> 40)
                .count();
            assert_eq!(read, if thread == 0 { 3 * 4096 } else { 0 });
            assert!(matches!(events[0].kind, EventKind::ThreadBegin { .. }));
            assert!(events.windows(2).all(|pair| pair[0].sequence < pair[1].sequence));
            if thread > 0 {
                let EventKind::ThreadEnd { futex } = events.last().unwrap().kind else {
                    panic!("{events:?}")
                };
                assert_ne!(futex, 0);
            }
        }
        let (_, events) = read(&recording, 0);
        let creations = events
            .iter()
            .filter(|event| matches!(event.kind, EventKind::ThreadCreate { .. }))
            .count();
        assert_eq!(creations, 2);
    }
}

#[test]
fn threads_that_come_and_go_are_told_apart() {
    let Some(directory) = programs() else { return };
    let (output, recording) = record(directory.path(), &[], &["dynamic", "many"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(recording.threads().len(), 601);
}

#[test]
fn of_a_program_that_forks_the_first_process_is_recorded_and_that_is_said() {
    let Some(directory) = programs() else { return };
    let (output, recording) = record(directory.path(), &[], &["dynamic", "fork"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("only its first one is recorded"));
    let (accesses, _) = read(&recording, 0);
    assert_eq!(
        accesses.iter().filter(|a| a.write && a.address >> 40 == 0x10).count(),
        4096
    );
}

#[test]
fn what_a_program_did_before_it_crashed_is_kept() {
    let Some(directory) = programs() else { return };
    let (output, recording) = record(directory.path(), &[], &["dynamic", "crash"]);
    assert_eq!(output.status.code(), Some(128 + 11));
    assert!(
        text(&output.stderr).contains("killed by signal 11"),
        "{}",
        text(&output.stderr)
    );
    let (accesses, _) = read(&recording, 0);
    assert_eq!(
        accesses.iter().filter(|a| !a.write && a.address >> 40 == 0x10).count(),
        3 * 4096
    );
}

#[test]
fn a_window_of_instructions_keeps_the_rest_out() {
    let Some(directory) = programs() else { return };
    let (_, all) = record(directory.path(), &[], &["exact"]);
    let (_, window) = record(directory.path(), &["--from", "2k", "--instructions", "2k"], &["exact"]);
    let (counted, all) = (window.threads()[0].instructions(), all.threads()[0].instructions());
    assert!(counted >= 4000 && counted < all, "{counted} of {all}");
    let accesses = window.threads()[0].accesses();
    // Five accesses in seven instructions, for 2000 instructions, to 1000 instructions at both ends.
    assert!((5 * 1000 / 7..=5 * 3000 / 7).contains(&accesses), "{accesses}");
    let (_, events) = read(&window, 0);
    let bounds = events
        .iter()
        .filter(|e| matches!(e.kind, EventKind::WindowBegin {} | EventKind::WindowEnd {}));
    assert_eq!(bounds.count(), 2);
    let (_, repeated) = record(directory.path(), &["--instructions", "1k", "--every", "3k"], &["exact"]);
    let (_, events) = read(&repeated, 0);
    assert!(
        events
            .iter()
            .filter(|e| matches!(e.kind, EventKind::WindowBegin {}))
            .count()
            > 1
    );
}

#[test]
fn nothing_is_counted_after_the_last_window() {
    let Some(directory) = programs() else { return };
    let (_, whole) = record(directory.path(), &[], &["dynamic"]);
    let (output, window) = record(
        directory.path(),
        &["--from", "5k", "--instructions", "20k"],
        &["dynamic"],
    );
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let instructions = |recording: &Recording| -> u64 {
        let threads = recording.threads().iter();
        threads.map(pinfold_trace::Thread::instructions).sum()
    };
    assert!(
        (25_000..instructions(&whole) / 2).contains(&instructions(&window)),
        "{}",
        instructions(&window)
    );
    // The window ends, and the threads that begin later are there.
    assert_eq!(count(&window, |kind| matches!(kind, EventKind::WindowEnd {})), 1);
    assert_eq!(window.threads().len(), whole.threads().len());
    assert_eq!(count(&window, |kind| matches!(kind, EventKind::ThreadEnd { .. })), 2);
}

#[test]
fn a_program_is_ended_after_its_window() {
    let Some(directory) = programs() else { return };
    let options = ["--from", "5k", "--instructions", "20k", "--stop"];
    let (output, window) = record(directory.path(), &options, &["dynamic"]);
    // The program itself would end with 7. pinfold reports nothing, because the recording is complete.
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
    assert_eq!(count(&window, |kind| matches!(kind, EventKind::WindowEnd {})), 1);
    assert_eq!(count(&window, |kind| matches!(kind, EventKind::ThreadEnd { .. })), 0);
}

#[test]
fn a_window_that_is_never_reached_is_reported() {
    let Some(directory) = programs() else { return };
    let (output, recording) = record(directory.path(), &["--from", "1G"], &["exact"]);
    let instructions = recording.threads()[0].instructions();
    let expected = format!("the program ended after {instructions} instructions, before the window of --from");
    assert!(text(&output.stderr).contains(&expected), "{}", text(&output.stderr));
}

/// Compiles and records regions.c; `None`, with the reason printed, where that cannot be done.
fn record_regions(directory: &Path, compiler: &str, options: &[&str]) -> Option<Recording> {
    record_openmp(directory, "regions", compiler, options).map(|(_, recording)| recording)
}

/// Compiles and records an OpenMP program; `None`, with the reason printed, where that cannot be done.
fn record_openmp(directory: &Path, name: &str, compiler: &str, options: &[&str]) -> Option<(Output, Recording)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = directory.join(name);
    let compiled = Command::new(compiler)
        .args(["-O1", "-fopenmp", "-o"])
        .arg(&program)
        .arg(root.join(format!("crates/cli/tests/record/{name}.c")))
        .output();
    if !compiled.is_ok_and(|output| output.status.success()) {
        pinfold_testing::skip(format_args!("{compiler} does not compile OpenMP programs here"));
        return None;
    }
    let built = Command::new("make").arg("-C").arg(root.join("agent")).output().unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    let (output, recording) = record(directory, options, &[name]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    Some((output, recording))
}

fn count(recording: &Recording, wanted: fn(&EventKind) -> bool) -> usize {
    let threads = 0..recording.threads().len();
    threads
        .map(|thread| {
            read(recording, thread)
                .1
                .iter()
                .filter(|event| wanted(&event.kind))
                .count()
        })
        .sum()
}

#[test]
fn parallel_regions_are_marked() {
    let Some(directory) = programs() else { return };
    for compiler in ["gcc", "clang"] {
        let Some(recording) = record_regions(directory.path(), compiler, &[]) else {
            continue;
        };
        assert_eq!(recording.threads().len(), 2);
        assert_eq!(
            count(&recording, |kind| matches!(kind, EventKind::RegionBegin { .. })),
            4
        );
        assert_eq!(count(&recording, |kind| matches!(kind, EventKind::RegionEnd { .. })), 4);
        // Each of two threads has a share in each of four executions.
        assert_eq!(count(&recording, |kind| matches!(kind, EventKind::WorkBegin { .. })), 8);
        // Two barriers that two threads pass three times, at least: runtimes may tell more.
        assert!(count(&recording, |kind| matches!(kind, EventKind::BarrierEnd {})) >= 12);
        let file = directory.path().join("recording.pft");
        let output = pinfold(&["trace", "info", "--json", file.to_str().unwrap()]);
        let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let executions: Vec<_> = info["regions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|region| region["executions"].as_u64().unwrap())
            .collect();
        assert_eq!(executions, [3, 1]);
    }
}

#[test]
fn one_region_of_a_program_is_recorded_alone() {
    let Some(directory) = programs() else { return };
    for (options, executions) in [
        (["--region", "0", "--every", "1"], 3),
        (["--region", "0", "--every", "2"], 2),
    ] {
        let Some(recording) = record_regions(directory.path(), "gcc", &options) else {
            return;
        };
        let (_, events) = read(&recording, 0);
        let windows = events
            .iter()
            .filter(|event| matches!(event.kind, EventKind::WindowBegin {}))
            .count();
        assert_eq!(windows, executions);
        // The loop's write is made 500 times in each execution; the other region's loop would be a second one.
        let (accesses, _) = read(&recording, 0);
        let mut writes = std::collections::HashMap::new();
        for access in accesses.iter().filter(|access| access.write) {
            *writes.entry(access.pc).or_insert(0) += 1;
        }
        let loops: Vec<usize> = writes.into_values().filter(|count| *count >= 500).collect();
        assert_eq!(loops, [500 * executions]);
    }
}

/// By array of `first_touch.c`, the threads that own the pages of its first half and of its second one.
fn owners(output: &Output, recording: Recording) -> Vec<[Vec<u32>; 2]> {
    const HALF: u64 = 32;
    let program = RecordedProgram::new(recording).unwrap();
    let owners = program.page_owners();
    let half = |page: u64| {
        let pages = page..page + HALF;
        let mut of: Vec<u32> = owners
            .iter()
            .filter(|(page, _)| pages.contains(page))
            .map(|&(_, thread)| thread)
            .collect();
        assert_eq!(of.len() as u64, HALF, "each page of the half has an owner");
        of.dedup();
        of
    };
    let addresses = text(&output.stdout);
    let arrays = addresses
        .split_whitespace()
        .map(|address| u64::from_str_radix(address, 16).unwrap() / 4096);
    arrays.map(|page| [half(page), half(page + HALF)]).collect()
}

#[test]
fn a_page_belongs_to_the_thread_that_touched_it_first_before_the_window() {
    let Some(directory) = programs() else { return };
    let [first, second] = [vec![0], vec![1]];
    // serial, parallel, file, again, moved
    let wanted = [
        [first.clone(), first.clone()],
        [first.clone(), second.clone()],
        [first.clone(), first.clone()],
        [second.clone(), second],
        [first.clone(), first],
    ];
    let Some((output, recording)) = record_openmp(directory.path(), "first_touch", "gcc", &["--region", "1"]) else {
        return;
    };
    assert!(recording.knows_first_touches());
    assert_eq!(owners(&output, recording), wanted);
}

#[test]
fn a_region_is_named_by_its_function_or_by_the_one_that_it_is_in() {
    let Some(directory) = programs() else { return };
    for (compiler, name, executions) in [
        ("gcc", "main", 4),
        ("gcc", "main._omp_fn.0", 3),
        ("gcc", "main._omp_fn.1", 1),
        ("clang", "main", 4),
    ] {
        let Some(recording) = record_regions(directory.path(), compiler, &["--region", name]) else {
            continue;
        };
        let (_, events) = read(&recording, 0);
        let windows = events
            .iter()
            .filter(|event| matches!(event.kind, EventKind::WindowBegin {}))
            .count();
        assert_eq!(windows, executions, "{compiler} {name}");
    }
}

#[test]
fn regions_are_shown_with_the_names_of_their_functions_as_long_as_the_program_is_the_same() {
    let Some(directory) = programs() else { return };
    if record_regions(directory.path(), "gcc", &[]).is_none() {
        return;
    }
    let file = directory.path().join("recording.pft");
    let names = || -> Vec<serde_json::Value> {
        let output = pinfold(&["trace", "info", "--json", file.to_str().unwrap()]);
        let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let regions = info["regions"].as_array().unwrap();
        regions.iter().map(|region| region["function"].clone()).collect()
    };
    assert_eq!(names(), ["main._omp_fn.0", "main._omp_fn.1"]);
    std::fs::write(directory.path().join("regions"), "another program").unwrap();
    assert_eq!(names(), [serde_json::Value::Null, serde_json::Value::Null]);
}

#[test]
fn a_region_that_is_not_there_is_refused_with_the_nearest_names_and_one_that_never_began_is_told() {
    let Some(directory) = programs() else { return };
    if record_regions(directory.path(), "gcc", &["--region", "7"]).is_none() {
        return;
    }
    let program = directory.path().join("regions").display().to_string();
    let file = directory.path().join("recording.pft").display().to_string();
    let unknown = pinfold(&["record", "-o", &file, "--region", "main._omp_fn.7", "--", &program]);
    assert_eq!(unknown.status.code(), Some(125));
    let said = text(&unknown.stderr);
    assert!(said.contains("did you mean main._omp_fn.0"), "{said}");
    let never = pinfold(&["record", "-o", &file, "--region", "_init", "--", &program]);
    let said = text(&never.stderr);
    assert!(
        said.contains("never began") && said.contains("main._omp_fn.0, main._omp_fn.1"),
        "{said}"
    );
    let script = directory.path().join("script").display().to_string();
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    let named = format!("{script}:main");
    let no_elf = pinfold(&["record", "-o", &file, "--region", &named, "--", &program]);
    assert!(
        text(&no_elf.stderr).contains("it is a script"),
        "{}",
        text(&no_elf.stderr)
    );
}

#[test]
fn misses_of_a_program_whose_accesses_are_known_are_those_that_follow_from_them() {
    let Some(directory) = programs() else { return };
    record(directory.path(), &[], &["static"]);
    let file = directory.path().join("recording.pft");
    let misses =
        |options: &[&str]| -> Output { pinfold(&[&["trace", "misses", file.to_str().unwrap()], options].concat()) };
    // A thread's first 4096 words are 512 lines that nobody has; its stack and the C library come on top.
    let output = misses(&["--level", "4k,4,64", "--level", "1M,16,64", "--thread", "1", "--json"]);
    let counted: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let thread = &counted["threads"][0];
    assert_eq!(
        (counted["threads"].as_array().unwrap().len(), &thread["number"]),
        (1, &1.into())
    );
    for level in [0, 1] {
        let missed = thread["levels"][level]["write_misses"].as_u64().unwrap();
        assert!((512..560).contains(&missed), "{missed}");
    }
    let reached = |kind: &str| thread["levels"][1][kind].as_u64();
    assert_eq!(reached("reads"), thread["levels"][0]["read_misses"].as_u64());
    assert_eq!(reached("writes"), thread["levels"][0]["write_misses"].as_u64());
    // The levels of a machine, as a table.
    let table = text(&misses(&["--machine", "clovertown"]).stdout);
    assert_eq!(table.lines().count(), 1 + 3 * 2, "{table}");
    assert!(table.contains("32 KiB") && table.contains("4 MiB"), "{table}");
    let missing = misses(&["--level", "4k,4,64", "--thread", "9"]);
    assert!(text(&missing.stderr).contains("has no thread 9: there are 0, 1, 2"));
}

#[test]
fn a_script_is_run_by_its_interpreter() {
    let Some(directory) = programs() else { return };
    let script = directory.path().join("script");
    std::fs::write(&script, "#!/bin/sh -e\necho \"$0\" \"$@\"\nexit 5\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (output, recording) = record(directory.path(), &[], &["script", "one", "two words"]);
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(text(&output.stdout), format!("{} one two words\n", script.display()));
    assert_eq!(recording.header().program, "/bin/sh");
}

#[test]
fn what_cannot_be_recorded_is_named() {
    let Some(directory) = programs() else { return };
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let recording = path("recording.pft");
    let refused = |program: &str, status: i32, words: &str| {
        let output = pinfold(&["record", "-o", &recording, "--", program]);
        assert_eq!(output.status.code(), Some(status));
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    };
    refused("no-such-program-anywhere", 127, "command not found");
    refused(&path("no-such-file"), 127, "not found");
    refused(directory.path().to_str().unwrap(), 126, "not executable");
    let executable = |name: &str, content: &[u8], mode: u32| {
        std::fs::write(path(name), content).unwrap();
        std::fs::set_permissions(path(name), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    let mut elf = std::fs::read(path("exact")).unwrap();
    executable("set-uid", &elf, 0o4755);
    refused(&path("set-uid"), 126, "set-uid");
    elf[18] = 183;
    executable("foreign", &elf, 0o755);
    refused(&path("foreign"), 126, "AArch64");
    executable("text", b"no program", 0o755);
    refused(&path("text"), 126, "neither an ELF file nor a script");
}

#[test]
fn info_and_metrics_tell_threads_footprint_and_communication() {
    let Some(directory) = programs() else { return };
    record(directory.path(), &[], &["static"]);
    let file = directory.path().join("recording.pft");
    let json = |question: &str| -> serde_json::Value {
        let output = pinfold(&["trace", question, file.to_str().unwrap(), "--json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let info = json("info");
    assert_eq!(info["threads"].as_array().unwrap().len(), 3);
    assert!(info["threads"][1]["writes"].as_u64().unwrap() >= 4096);
    // Thread 0 reads the 512 lines that each of the others wrote.
    assert!(info["written_shared_lines"].as_u64().unwrap() >= 1024);
    let metrics = json("metrics");
    for writer in [1, 2] {
        let lines = metrics["communication"][writer][0].as_u64().unwrap();
        assert!((512..600).contains(&lines), "{lines}");
    }
    // The loops' strides of 8 bytes: 3 * 4096 writes and as many reads.
    assert!(metrics["strides"][4].as_u64().unwrap() >= 6 * 4096 - 4);
    let table = pinfold(&["trace", "info", file.to_str().unwrap()]);
    assert!(text(&table.stdout).contains("of 3 threads"), "{}", text(&table.stdout));
}

#[test]
fn a_damaged_recording_is_refused_and_read_when_that_is_asked_for() {
    let Some(directory) = programs() else { return };
    let (_, recording) = record(directory.path(), &[], &["exact"]);
    let file = directory.path().join("recording.pft");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.truncate(bytes.len() - 3);
    std::fs::write(&file, bytes).unwrap();
    let refused = pinfold(&["trace", "info", file.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(
        text(&refused.stderr).contains("is damaged at byte"),
        "{}",
        text(&refused.stderr)
    );
    let read = pinfold(&["trace", "info", "--salvage", "--json", file.to_str().unwrap()]);
    let info: serde_json::Value = serde_json::from_slice(&read.stdout).unwrap();
    assert_eq!(info["threads"][0]["accesses"], recording.threads()[0].accesses());
}
