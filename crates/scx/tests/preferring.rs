//! A host whose tasks have preferences, on a host and a scheduler that record what they are asked.

use pinfold_core::{
    Host, HostNoteCode, HostSample, LeftAlone, Metric, Placed, ProcessGoal, ProcessPages, PuId, PuSet, Sample,
    Scheduled, StayCode, TaskId, TaskSample, TaskStatus, TaskTimes, Topology, Wake,
};
use pinfold_linux::topology::{self, Source};
use pinfold_scx::{CALLED, Domains, Preference, Preferences, Preferring, Way};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const RELEASE_AFTER: Duration = Duration::from_secs(10);
const ONE: TaskId = TaskId {
    serial: 0,
    process: 10,
    thread: 11,
};

/// What the scheduler was asked, and how it fares.
#[derive(Default)]
struct Asked {
    preferences: BTreeMap<i32, u64>,
    calls: usize,
    readings: usize,
    ended: Option<&'static str>,
    error: Option<i32>,
}

struct Recorded(Rc<RefCell<Asked>>);

impl Way for Recorded {
    fn prefer(&mut self, thread: i32, preference: Option<Preference>) -> io::Result<()> {
        let mut asked = self.0.borrow_mut();
        if let Some(error) = asked.error {
            return Err(io::Error::from_raw_os_error(error));
        }
        match preference {
            Some(preference) => asked.preferences.insert(thread, preference.domains),
            None => asked.preferences.remove(&thread),
        };
        Ok(())
    }

    fn call(&mut self) -> io::Result<()> {
        self.0.borrow_mut().calls += 1;
        Ok(())
    }

    fn counted(&self, at: Duration) -> io::Result<Scheduled> {
        self.0.borrow_mut().readings += 1;
        let preferring = |milliseconds| TaskTimes {
            preferring: Duration::from_millis(milliseconds),
            ..TaskTimes::default()
        };
        Ok(Scheduled {
            at,
            times: BTreeMap::from([(ONE.thread, preferring(0)), (800, preferring(5)), (801, preferring(0))]),
            wakeups: BTreeMap::from([((11, 12), 7)]),
            ..Scheduled::default()
        })
    }

    fn ended(&self) -> Option<String> {
        self.0.borrow().ended.map(str::to_owned)
    }
}

/// A host with one task, which records pinnings.
struct Fake {
    topology: Topology,
    now: Duration,
    task: Option<TaskStatus>,
    pinned: Vec<PuId>,
}

impl Host for Fake {
    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn metrics(&self) -> &[Metric] {
        &[]
    }

    fn observe(&mut self) -> HostSample {
        let tasks = self.task.iter().map(|_| TaskSample {
            id: ONE,
            name: "worker".to_owned(),
            alive: true,
            cpu_time: None,
            run_delay: None,
            last_pu: Some(PuId(0)),
            counts: vec![],
        });
        HostSample {
            sample: Sample {
                at: self.now,
                tasks: tasks.collect(),
                ..Sample::default()
            },
            statuses: self.task.iter().cloned().collect(),
            ..HostSample::default()
        }
    }

    fn place(&mut self, _: TaskId, pu: PuId) -> Placed {
        self.pinned.push(pu);
        Placed::Done
    }

    fn release(&mut self, _: TaskId) -> Placed {
        Placed::Done
    }

    fn follow(&mut self, _: &BTreeMap<i32, ProcessGoal>) {}

    fn count_functions(&mut self, _: &BTreeMap<i32, Vec<TaskId>>) {}

    fn are_pages_under_way(&self) -> bool {
        false
    }

    fn take_page_moves(&mut self) -> Vec<ProcessPages> {
        vec![]
    }

    fn take_notes(&mut self) -> Vec<pinfold_core::HostNote> {
        vec![]
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn wait(&mut self, until: Duration) -> Wake {
        self.now = until;
        Wake::Elapsed
    }
}

fn free() -> TaskStatus {
    TaskStatus {
        allowed: Arc::new("0-7".parse::<PuSet>().unwrap()),
        pinned: None,
        left_alone: None,
        busy: Some(1.0),
        container: None,
    }
}

/// A machine of four caches with two CPUs each, one task, and a scheduler.
fn preferring(masks_after: bool) -> (Preferring<Fake>, Rc<RefCell<Asked>>) {
    let topology = topology::read(&Source::Synthetic("package:4 l3:1 core:2 pu:1".to_owned())).unwrap();
    let asked = Rc::new(RefCell::new(Asked::default()));
    let preferences = Preferences {
        way: Box::new(Recorded(Rc::clone(&asked))),
        domains: Domains::new(&topology).unwrap(),
        release_after: RELEASE_AFTER,
        masks_after,
    };
    let fake = Fake {
        topology,
        now: Duration::ZERO,
        task: Some(free()),
        pinned: vec![],
    };
    let mut host = Preferring::new(fake, Some(preferences));
    host.observe();
    (host, asked)
}

#[test]
fn a_placed_task_prefers_the_cache_of_the_pu_and_is_shown_there() {
    let (mut host, asked) = preferring(false);
    assert_eq!(host.place(ONE, PuId(5)), Placed::Done);
    assert_eq!(asked.borrow().preferences, BTreeMap::from([(11, 0b100)]));
    let sample = host.observe();
    assert_eq!(sample.statuses[0].pinned, Some(PuId(5)));
    assert_eq!(sample.sample.tasks[0].last_pu, Some(PuId(5)));
    assert!(host.host().pinned.is_empty(), "no mask is set");
    assert_eq!(host.release(ONE), Placed::Done);
    assert!(asked.borrow().preferences.is_empty());
    assert_eq!(host.observe().statuses[0].pinned, None);
}

#[test]
fn a_task_that_is_left_alone_gets_no_preference_and_loses_one() {
    let (mut host, asked) = preferring(false);
    let refused = |placed: Placed| match placed {
        Placed::Refused(reason) => reason.code,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(host.place(ONE, PuId(8))), StayCode::PuNotAllowed);
    host.place(ONE, PuId(1));
    host.host_mut().task = Some(TaskStatus {
        left_alone: Some(LeftAlone::RealTime),
        ..free()
    });
    host.observe();
    assert!(asked.borrow().preferences.is_empty());
    assert_eq!(refused(host.place(ONE, PuId(1))), StayCode::RealTime);
    assert!(asked.borrow().preferences.is_empty());
}

#[test]
fn a_sleeping_task_loses_its_preference_after_a_while() {
    let (mut host, asked) = preferring(false);
    host.place(ONE, PuId(1));
    host.host_mut().task = None;
    host.host_mut().now = RELEASE_AFTER / 2;
    host.observe();
    assert_eq!(asked.borrow().preferences.len(), 1);
    host.host_mut().now = RELEASE_AFTER * 2;
    host.observe();
    assert!(asked.borrow().preferences.is_empty());
}

#[test]
fn an_ended_task_and_a_refusing_kernel_are_told_apart() {
    let (mut host, asked) = preferring(false);
    asked.borrow_mut().error = Some(3);
    assert_eq!(host.place(ONE, PuId(1)), Placed::Gone);
    asked.borrow_mut().error = Some(12);
    assert!(matches!(host.place(ONE, PuId(1)), Placed::Refused(reason) if reason.code == StayCode::KernelRefused));
    assert_eq!(host.observe().statuses[0].pinned, None);
}

#[test]
fn what_the_scheduler_counted_is_read_once_a_second_of_tasks_that_matter() {
    let (mut host, asked) = preferring(false);
    assert_eq!(asked.borrow().readings, 1);
    host.host_mut().now = Duration::from_millis(900);
    assert_eq!(host.observe().scheduled, None);
    host.host_mut().now = Duration::from_secs(1);
    let counted = host.observe().scheduled.unwrap();
    assert_eq!(counted.wakeups, BTreeMap::from([((11, 12), 7)]));
    assert_eq!((counted.at, asked.borrow().readings), (Duration::from_secs(1), 2));
    assert!(counted.times.keys().eq(&[ONE.thread, 800]), "{counted:?}");
}

#[test]
fn the_scheduler_is_called_while_the_loop_waits() {
    let (mut host, asked) = preferring(false);
    let before = asked.borrow().calls;
    assert_eq!(host.wait(CALLED * 5), Wake::Elapsed);
    assert_eq!(host.now(), CALLED * 5);
    assert!(asked.borrow().calls >= before + 4);
}

#[test]
fn an_ended_scheduler_is_noted_once_and_nothing_is_moved_or_masks_are_set() {
    for masks_after in [false, true] {
        let (mut host, asked) = preferring(masks_after);
        host.place(ONE, PuId(1));
        asked.borrow_mut().ended = Some("runnable task stall");
        let sample = host.observe();
        assert_eq!(sample.statuses[0].pinned, None);
        assert!(!host.has_preferences());
        let notes = host.take_notes();
        assert_eq!(notes.len(), 1);
        assert_eq!(notes[0].code, HostNoteCode::SchedulerEnded);
        assert!(notes[0].text.contains("runnable task stall"), "{}", notes[0].text);
        host.observe();
        assert!(host.take_notes().is_empty());
        let placed = host.place(ONE, PuId(1));
        if masks_after {
            assert_eq!((placed, &host.host().pinned[..]), (Placed::Done, &[PuId(1)][..]));
        } else {
            assert!(matches!(placed, Placed::Refused(_)), "{placed:?}");
            assert!(host.host().pinned.is_empty());
        }
    }
}

#[test]
fn without_preferences_everything_is_the_wrapped_hosts() {
    let (host, _) = preferring(false);
    let topology = host.topology().clone();
    let mut host = Preferring::new(
        Fake {
            topology,
            now: Duration::ZERO,
            task: Some(free()),
            pinned: vec![],
        },
        None,
    );
    assert_eq!(host.place(ONE, PuId(3)), Placed::Done);
    assert_eq!(host.host().pinned, [PuId(3)]);
    assert_eq!(host.wait(Duration::from_secs(60)), Wake::Elapsed);
}
