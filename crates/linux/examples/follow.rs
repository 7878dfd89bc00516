//! A minimal launcher: runs a program, follows it, and prints on standard error which tasks it saw.
//!
//!     follow [--pin LIST] [--every MILLISECONDS] [--outlive DIRECTORY] [--keep] [--quiet] -- COMMAND [ARGUMENT]...
//!
//! `--pin` pins the ranks to these PUs, `--every` sets the interval between observations, `--outlive` lets the program
//! go on when this process is killed, with a journal in a directory; `--keep` leaves the rest of the program pinned at
//! its end, `--quiet` prints nothing.
//! The exit status is the program's.

#![expect(clippy::disallowed_macros, reason = "an example prints what it shows")]

use pinfold_core::{Machine, Pinning, PuSet, TaskId, TopologyBuilder, Wait};
use pinfold_linux::affinity::CpuMask;
use pinfold_linux::journal::Directory;
use pinfold_linux::launch::{Counted, Launch, PageOptions};
use pinfold_linux::machine::LinuxMachine;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let mut value = || arguments.next().and_then(|text| text.into_string().ok());
    let (mut initial, mut every) = (None, Duration::from_millis(100));
    let (mut journal, mut keep_pinned, mut quiet) = (None, false, false);
    while let Some(option) = value() {
        match option.as_str() {
            "--pin" => {
                let list = value().expect("--pin takes a CPU list");
                initial = Pinning::new(PuSet::parse_ordered(&list).expect("a CPU list"));
            }
            "--every" => {
                let milliseconds = value().and_then(|text| text.parse().ok());
                every = Duration::from_millis(milliseconds.expect("--every takes milliseconds"));
            }
            "--outlive" => {
                let directory = value().expect("--outlive takes a directory");
                journal = Some(Directory::new(Path::new(&directory)).expect("a directory for the journal"));
            }
            "--keep" => keep_pinned = true,
            "--quiet" => quiet = true,
            "--" => break,
            other => panic!("{other} is not an option; the command comes after --"),
        }
    }

    let mut topology = TopologyBuilder::new("this machine");
    let allowed = CpuMask::read(0).expect("the allowed PUs").to_set();
    for pu in allowed.iter() {
        let root = topology.root();
        topology.pu(root, pu);
    }
    let launched = LinuxMachine::launch(Launch {
        waiting: None,
        preferring: None,
        claims: None,
        command: arguments.collect(),
        environment: vec![],
        preload: None,
        removed_environment: vec![],
        topology: topology.build_all().expect("an allowed PU"),
        chosen: None,
        within: None,
        initial,
        grace: Duration::from_secs(1),
        skipped: [].into(),
        outlive: journal.is_some(),
        keep_pinned,
        journal,
        journals: None,
        counted: Counted::default(),
        regions: None,
        pages: PageOptions::default(),
    });
    let mut machine = match launched {
        Ok(machine) => machine,
        Err(error) => {
            eprintln!("follow: {error}");
            return exit_code(error.exit_status());
        }
    };

    let mut seen: BTreeMap<TaskId, String> = BTreeMap::new();
    let status = loop {
        let wait = machine.wait(every);
        seen.extend(machine.observe().tasks.into_iter().map(|task| (task.id, task.name)));
        match wait {
            Ok(Wait::Elapsed | Wait::Left) => {}
            Ok(Wait::Ended(status)) => break status,
            Err(error) => {
                eprintln!("follow: {error}");
                return ExitCode::FAILURE;
            }
        }
    };
    if !quiet {
        for (id, name) in &seen {
            eprintln!("{:>5} {name:<15} {id}", id.serial);
        }
        eprintln!(
            "{} tasks in {:.3} s",
            machine.tasks_started(),
            machine.now().as_secs_f64()
        );
    }
    exit_code(status)
}

fn exit_code(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX))
}
