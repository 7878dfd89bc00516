//! Tasks that ptrace does not report, where unpinned tasks are limited. `tests/test_run_untraced.py` shows what happens
//! to them where tasks are pinned.

mod common;

use common::{Workshop, allowed, eventually, plain, two_pus};
use pinfold_core::{Configuration, Machine, PuId, PuSet};
use pinfold_linux::affinity::CpuMask;
use pinfold_linux::launch::Launch;
use pinfold_linux::machine::LinuxMachine;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn mask(thread: i32) -> PuSet {
    CpuMask::of_thread(thread).unwrap().to_set()
}

fn within(pus: impl IntoIterator<Item = PuId>) -> Configuration {
    Configuration {
        within: Some(pus.into_iter().collect()),
        ..Configuration::default()
    }
}

/// The program of the tests of whole programs; `None` where the threads of rings do not inherit masks.
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
