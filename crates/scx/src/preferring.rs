//! A host whose tasks are placed by preferences: `Host::place` lets a task prefer the last-level cache of the PU, and no
//! mask is written. Everything else is the wrapped host's, so those who decide do not know which way is used.
//!
//! The decisions name PUs. The task is shown on the PU that it was given, wherever in that cache it runs. A preference
//! ends as a pinning would: when the task was released, when it has slept for `release_after`, or when it has ended. If
//! the kernel ends the scheduler, nothing has to be undone; a note says so, and from then on either masks are used, or
//! nothing is moved.

use crate::domains::Domains;
use crate::layout::Preference;
use pinfold_core::{
    Host, HostNote, HostNoteCode, HostSample, LeftAlone, Metric, Placed, ProcessGoal, ProcessPages, PuId, Reason,
    Scheduled, StayCode, TaskId, TaskStatus, Topology, Wake,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

/// How long a task waits for a CPU of the cache that it prefers, before it runs elsewhere.
pub const PATIENCE: Duration = Duration::from_millis(2);

/// How often the scheduler is called, at least, so that it knows that pinfold lives.
pub const CALLED: Duration = Duration::from_millis(100);

/// How often the counts of the scheduler are read.
const READ: Duration = Duration::from_secs(1);

/// How long pinfold may be silent before the scheduler ends.
pub const MOST_SILENCE: Duration = Duration::from_millis(600);

/// A running scheduler.
pub trait Way {
    /// From now on a thread has this preference, or none.
    ///
    /// # Errors
    /// If the thread has ended, or the kernel refuses.
    fn prefer(&mut self, thread: i32, preference: Option<Preference>) -> io::Result<()>;

    /// Tells it that pinfold lives.
    ///
    /// # Errors
    /// If it cannot be told.
    fn call(&mut self) -> io::Result<()>;

    /// Why it has ended; `None` while it runs.
    fn ended(&self) -> Option<String>;

    /// What it has counted until `at`, in the time of `Host::now`.
    ///
    /// # Errors
    /// If it cannot be read.
    fn counted(&self, at: Duration) -> io::Result<Scheduled>;
}

/// A scheduler for a host.
pub struct Preferences {
    /// The scheduler.
    pub way: Box<dyn Way>,
    /// The last-level caches.
    pub domains: Domains,
    /// A task that has slept for this time has no preference any more.
    pub release_after: Duration,
    /// Whether tasks are pinned if the scheduler ends.
    pub masks_after: bool,
}

/// How tasks are placed.
enum Means {
    /// By their masks, which the host writes.
    Masks,
    Preferences(Preferences),
    /// The scheduler has ended, for this reason.
    Nothing(String),
}

struct Preferred {
    pu: PuId,
    worked: Duration,
}

/// A host, and the way in which its tasks are placed.
pub struct Preferring<H> {
    host: H,
    means: Means,
    preferred: BTreeMap<TaskId, Preferred>,
    /// When the scheduler's counts were read.
    read: Option<Duration>,
    /// The tasks of the last sample.
    statuses: BTreeMap<TaskId, TaskStatus>,
    notes: Vec<HostNote>,
}

impl<H: Host> Preferring<H> {
    /// A host whose tasks are placed by preferences, or by masks.
    pub fn new(host: H, preferences: Option<Preferences>) -> Self {
        Self {
            host,
            means: preferences.map_or(Means::Masks, Means::Preferences),
            preferred: BTreeMap::new(),
            read: None,
            statuses: BTreeMap::new(),
            notes: vec![],
        }
    }

    /// The wrapped host.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// The wrapped host.
    pub fn host_mut(&mut self) -> &mut H {
        &mut self.host
    }

    /// Whether tasks have preferences now.
    pub fn has_preferences(&self) -> bool {
        matches!(self.means, Means::Preferences(_))
    }

    /// Forgets all preferences.
    pub fn forget(&mut self) {
        let all: Vec<TaskId> = self.preferred.keys().copied().collect();
        for task in all {
            self.unprefer(task);
        }
    }

    /// Ends the preferences if the scheduler has ended.
    fn check(&mut self) {
        let Means::Preferences(preferences) = &mut self.means else {
            return;
        };
        let silent = preferences.way.call().err().map(|error| error.to_string());
        let Some(reason) = preferences.way.ended().or(silent) else {
            return;
        };
        let (then, means) = if preferences.masks_after {
            ("tasks are pinned from now on", Means::Masks)
        } else {
            ("nothing is moved from now on", Means::Nothing(reason.clone()))
        };
        let text = format!("the scheduler has ended ({reason}), and the kernel's own one is back: {then}");
        self.notes.push(HostNote {
            code: HostNoteCode::SchedulerEnded,
            text,
        });
        self.means = means;
        self.preferred.clear();
    }

    fn prefer(&mut self, task: TaskId, pu: PuId) -> Placed {
        let Means::Preferences(preferences) = &mut self.means else {
            return Placed::Gone;
        };
        let Some(status) = self.statuses.get(&task) else {
            return Placed::Gone;
        };
        if let Some(reason) = stays(status, pu) {
            return Placed::Refused(reason);
        }
        let Some(domain) = preferences.domains.of(pu) else {
            let why = format!("PU {pu} was added after the scheduler started");
            return Placed::Refused(Reason::new(StayCode::PuNotAllowed, why));
        };
        let preference = Preference {
            domains: 1 << domain,
            patience: PATIENCE,
        };
        match preferences.way.prefer(task.thread, Some(preference)) {
            Ok(()) => {
                let worked = self.host.now();
                self.preferred.insert(task, Preferred { pu, worked });
                Placed::Done
            }
            Err(error) if is_gone(&error) => Placed::Gone,
            Err(error) => Placed::Refused(Reason::new(StayCode::KernelRefused, error.to_string())),
        }
    }

    fn unprefer(&mut self, task: TaskId) -> Placed {
        let Means::Preferences(preferences) = &mut self.means else {
            return Placed::Done;
        };
        if self.preferred.remove(&task).is_none() {
            return Placed::Done;
        }
        match preferences.way.prefer(task.thread, None) {
            Ok(()) => Placed::Done,
            Err(error) if is_gone(&error) => Placed::Gone,
            Err(error) => Placed::Refused(Reason::new(StayCode::KernelRefused, error.to_string())),
        }
    }

    /// What the scheduler has counted, if it is time to read it again: of the tasks of this sample, and of those that
    /// ever had a preference.
    fn scheduled(&mut self, sample: &HostSample) -> Option<Scheduled> {
        let Means::Preferences(preferences) = &self.means else {
            return None;
        };
        let at = sample.sample.at;
        if self.read.is_some_and(|before| at.saturating_sub(before) < READ) {
            return None;
        }
        let mut counted = preferences.way.counted(at).ok()?;
        self.read = Some(at);
        let working: BTreeSet<i32> = sample.sample.tasks.iter().map(|task| task.id.thread).collect();
        counted
            .times
            .retain(|thread, times| !times.preferring.is_zero() || working.contains(thread));
        Some(counted)
    }

    /// Shows tasks where they were placed, and ends the preferences of those that sleep.
    fn show(&mut self, sample: &mut HostSample) {
        let (at, mut asleep) = (sample.sample.at, vec![]);
        for (task, status) in sample.sample.tasks.iter_mut().zip(&mut sample.statuses) {
            if let Some(preferred) = self.preferred.get_mut(&task.id) {
                preferred.worked = at;
                status.pinned = Some(preferred.pu);
                task.last_pu = Some(preferred.pu);
                if status.left_alone.is_some() {
                    asleep.push(task.id);
                }
            }
        }
        if let Means::Preferences(preferences) = &self.means {
            let sleeps = |one: &Preferred| at.saturating_sub(one.worked) >= preferences.release_after;
            asleep.extend(
                self.preferred
                    .iter()
                    .filter(|(_, one)| sleeps(one))
                    .map(|(&task, _)| task),
            );
        }
        for task in asleep {
            self.unprefer(task);
        }
        let tasks = sample.sample.tasks.iter().map(|task| task.id);
        self.statuses = tasks.zip(sample.statuses.iter().cloned()).collect();
    }
}

/// Why a task may not be moved to a PU; `None` if it may.
fn stays(status: &TaskStatus, pu: PuId) -> Option<Reason<StayCode>> {
    let reason = match status.left_alone {
        Some(LeftAlone::OwnMask) => (
            StayCode::OwnMask,
            "the task or another program has set its PUs".to_owned(),
        ),
        Some(LeftAlone::Forbidden) => (StayCode::Forbidden, "pinfold has no permission to move it".to_owned()),
        Some(LeftAlone::OnePu) => (StayCode::OnePu, "it may run on one PU only".to_owned()),
        Some(LeftAlone::RealTime) => (StayCode::RealTime, "it has real-time priority".to_owned()),
        None if status.allowed.contains(pu) => return None,
        None => (
            StayCode::PuNotAllowed,
            format!("PU {pu} is not in its mask {}", status.allowed),
        ),
    };
    Some(Reason::new(reason.0, reason.1))
}

/// Whether the thread has ended.
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(nix::errno::Errno::ESRCH as i32)
}

impl<H: Host> Host for Preferring<H> {
    fn topology(&self) -> &Topology {
        self.host.topology()
    }

    fn metrics(&self) -> &[Metric] {
        self.host.metrics()
    }

    fn observe(&mut self) -> HostSample {
        self.check();
        let mut sample = self.host.observe();
        if !matches!(self.means, Means::Masks) {
            self.show(&mut sample);
        }
        sample.scheduled = self.scheduled(&sample);
        sample
    }

    fn place(&mut self, task: TaskId, pu: PuId) -> Placed {
        match &self.means {
            Means::Masks => self.host.place(task, pu),
            Means::Preferences(_) => self.prefer(task, pu),
            Means::Nothing(reason) => {
                let why = format!("the scheduler has ended: {reason}");
                Placed::Refused(Reason::new(StayCode::KernelRefused, why))
            }
        }
    }

    fn release(&mut self, task: TaskId) -> Placed {
        match &self.means {
            Means::Masks => self.host.release(task),
            Means::Preferences(_) => self.unprefer(task),
            Means::Nothing(_) => Placed::Done,
        }
    }

    fn follow(&mut self, processes: &BTreeMap<i32, ProcessGoal>) {
        self.host.follow(processes);
    }

    fn count_functions(&mut self, processes: &BTreeMap<i32, Vec<TaskId>>) {
        self.host.count_functions(processes);
    }

    fn are_pages_under_way(&self) -> bool {
        self.host.are_pages_under_way()
    }

    fn take_page_moves(&mut self) -> Vec<ProcessPages> {
        self.host.take_page_moves()
    }

    fn take_notes(&mut self) -> Vec<HostNote> {
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(self.host.take_notes());
        notes
    }

    fn now(&self) -> Duration {
        self.host.now()
    }

    fn wait(&mut self, until: Duration) -> Wake {
        loop {
            let next = if self.has_preferences() {
                until.min(self.host.now() + CALLED)
            } else {
                until
            };
            match self.host.wait(next) {
                Wake::Elapsed if next < until => self.check(),
                wake => return wake,
            }
        }
    }
}
