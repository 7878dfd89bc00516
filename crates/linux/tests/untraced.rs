//! Tasks that ptrace does not report, with limited unpinned tasks, and under the daemon. `tests/test_run_untraced.py`
//! covers them under `run`.

mod common;

use common::{Workshop, allowed, eventually, plain, two_pus, watch, watching_process};
use pinfold_core::{Configuration, Host, Machine, Placed, PuId, PuSet};
use pinfold_linux::affinity::CpuMask;
use pinfold_linux::launch::Launch;
use pinfold_linux::machine::LinuxMachine;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn mask(thread: i32) -> PuSet {
    CpuMask::of_thread(thread).unwrap().to_set()
}

fn within(pus: impl IntoIterator<Item = PuId>) -> Configuration {
    Configuration {
        within: Some(pus.into_iter().collect()),
        ..Configuration::default()
    }
}

/// The program of the tests of whole programs. `None` if the threads of rings do not inherit masks.
fn ring(workshop: &Workshop) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/ring.c");
    let program = workshop.file("ring");
    let mut compiler = Command::new("cc");
    let compiled = compiler
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    assert!(compiled.unwrap().success());
    let tried = Command::new(&program).arg("inherits").output().unwrap();
    if !tried.status.success() {
        pinfold_testing::skip(String::from_utf8_lossy(&tried.stdout).trim_end());
        return None;
    }
    Some(program)
}

#[test]
fn the_thread_of_a_ring_is_limited_with_the_unpinned_tasks_and_set_free_with_them() {
    let Some([first, second]) = two_pus() else { return };
    let workshop = Workshop::new();
    let Some(program) = ring(&workshop) else { return };
    let (input, output) = (workshop.file("input"), workshop.file("output"));
    assert!(Command::new("mkfifo").arg(&input).status().unwrap().success());
    let text = format!(
        "exec {} < {} > {}",
        program.display(),
        input.display(),
        output.display()
    );
    let mut machine = LinuxMachine::launch(Launch {
        within: Some([first].into_iter().collect()),
        ..plain(["sh", "-c", &text])
    })
    .unwrap();
    let mut input = fs::File::options().write(true).open(&input).unwrap();
    writeln!(input, "ring").unwrap();
    let lines = || fs::read_to_string(&output).unwrap_or_default();
    eventually("there is a ring", || {
        lines().ends_with('\n') && lines().lines().count() == 2
    });
    let thread = lines().lines().last().unwrap().parse().unwrap();
    for configuration in [within([first]), within([second]), within([first, second])] {
        machine.apply(&configuration);
        assert_eq!(Some(mask(thread)), configuration.within);
    }
    machine.apply(&within([second]));
    machine.apply(&Configuration::default());
    assert_eq!(mask(thread), allowed());
}

#[test]
fn the_thread_of_a_ring_is_set_free_when_the_daemon_meets_it() {
    let Some([first, _]) = two_pus() else { return };
    let workshop = Workshop::new();
    let Some(program) = ring(&workshop) else { return };
    let mut program = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    let mut last_number = || -> i32 {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        line.split_whitespace().last().unwrap().parse().unwrap()
    };
    let worker = last_number();
    let mut watcher = watch(
        workshop.file("journals").as_path(),
        watching_process(program.id().cast_signed()),
    );
    eventually("the worker is met", || {
        watcher.observe();
        watcher.task_of(worker).is_some()
    });
    assert_eq!(watcher.place(watcher.task_of(worker).unwrap(), first), Placed::Done);
    writeln!(program.stdin.as_mut().unwrap(), "ring").unwrap();
    let thread = last_number();
    assert_eq!(mask(thread), [first].into_iter().collect());
    eventually("the thread is free", || {
        watcher.observe();
        mask(thread) == allowed()
    });
    assert_eq!(mask(worker), [first].into_iter().collect());
    program.kill().unwrap();
    program.wait().unwrap();
}
