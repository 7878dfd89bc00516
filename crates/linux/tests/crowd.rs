//! Two thousand short threads and two thousand short processes: nothing is lost, nothing leaks. The test has a separate
//! process, because it counts the open files of the process.

mod common;

use common::{Workshop, allowed, pinned, run};
use pinfold_core::PuId;
use pinfold_linux::counters::{Plan, Request};
use std::fs;

const CROWD: usize = 2000;

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn no_thread_of_many_is_lost_and_nothing_leaks() {
    let workshop = Workshop::new();
    let program = workshop.program("crowd");
    let pus: Vec<PuId> = allowed().iter().collect();
    for kind in ["t", "p"] {
        let before = open_files();
        let mut launch = pinned([program.as_os_str(), kind.as_ref(), CROWD.to_string().as_ref()], &pus);
        launch.counted.plan = Plan::new(&[Request::Event("page-faults".to_owned())]).ok();
        let counted = launch.counted.plan.is_some();
        let (status, sample) = run(launch);
        assert_eq!((status, sample.tasks.len()), (0, CROWD + 1));
        for task in &sample.tasks {
            assert!(!task.alive && task.cpu_time.is_some(), "{task:?}");
            assert_eq!(task.id.thread == task.id.process, kind == "p" || task.id.serial == 0);
            assert_eq!(task.counts.first().is_some_and(Option::is_some), counted, "{task:?}");
        }
        assert_eq!(open_files(), before);
    }
}
