//! The running scheduler: start, preferences, accounts, end.

use crate::domains::{Domains, at_most};
use crate::error::StartError;
use crate::layout::{Listed, MOST_CPUS, Pair, Preference};
use pinfold_core::{PuSet, Scheduled};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The tasks that the scheduler has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All tasks with normal priority.
    All,
    /// Those with the policy `SCHED_EXT`, which children inherit. The others stay with the kernel's own scheduler, and
    /// come first where both want a CPU.
    ThoseThatAsk,
}

/// Why the scheduler ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The kernel's words.
    pub reason: String,
}

/// How the scheduler fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// `None` while it runs.
    pub ended: Option<Ended>,
    /// How many tasks CPUs took from the queues of other domains, because their patience was over.
    pub taken_elsewhere: u64,
    /// How often a task waited for more than 10 ms while a CPU that it may run on was idle for more than that.
    pub waited_beside_idle: u64,
}

/// The name of the scheduler that the kernel has loaded, in place of its own.
///
/// # Errors
/// If the kernel has no such schedulers.
pub fn other_scheduler(sys: &Path) -> Result<Option<String>, StartError> {
    let folder = sys.join("kernel/sched_ext");
    let state = fs::read_to_string(folder.join("state")).map_err(|_| StartError::NoKernelSupport)?;
    if state.trim() == "disabled" {
        return Ok(None);
    }
    let name = fs::read_to_string(folder.join("root/ops")).unwrap_or_default();
    Ok(Some(name.trim().to_owned()))
}

/// How many CPUs the machine can have, with those that can be added.
///
/// # Errors
/// If there are more than the scheduler can have.
pub fn possible_cpus(sys: &Path) -> Result<usize, StartError> {
    let list = fs::read_to_string(sys.join("devices/system/cpu/possible")).unwrap_or_default();
    let last = list.trim().parse::<PuSet>().ok().and_then(|pus| pus.iter().next_back());
    let found = last.map_or(MOST_CPUS, |pu| pu.0 as usize + 1);
    at_most("CPUs", found, MOST_CPUS)?;
    Ok(found)
}

#[cfg(not(has_scheduler))]
mod loaded {
    use super::{Domains, Duration, Listed, Pair, Preference, Scheduled, Scope, StartError, State};
    use std::convert::Infallible;
    use std::io;
    use std::os::fd::BorrowedFd;

    /// The scheduler, which this build lacks.
    #[derive(Debug)]
    pub struct Scheduler(Infallible);

    impl Scheduler {
        /// Says what this build lacks.
        pub fn start(_: &Domains, _: Scope, _: Duration) -> Result<Self, StartError> {
            Err(StartError::NotBuilt {
                missing: env!("PINFOLD_SCHEDULER_MISSING"),
            })
        }

        /// Never called.
        pub fn call(&mut self) -> io::Result<()> {
            match self.0 {}
        }

        /// Never called.
        pub fn prefer(&mut self, _: BorrowedFd<'_>, _: Option<Preference>) -> io::Result<()> {
            match self.0 {}
        }

        /// Never called.
        pub fn let_go_first(&mut self, _: BorrowedFd<'_>) -> io::Result<()> {
            match self.0 {}
        }

        /// Never called.
        pub fn state(&self) -> State {
            match self.0 {}
        }

        /// Never called.
        pub fn tasks(&self) -> io::Result<Vec<Listed>> {
            match self.0 {}
        }

        /// Never called.
        pub fn pairs(&self) -> io::Result<Vec<Pair>> {
            match self.0 {}
        }

        /// Never called.
        pub fn counted(&self, _: Duration) -> io::Result<Scheduled> {
            match self.0 {}
        }
    }
}

#[cfg(has_scheduler)]
mod loaded {
    use super::{
        Domains, Duration, Ended, Listed, Pair, Preference, Scheduled, Scope, StartError, State, other_scheduler,
        possible_cpus,
    };
    use crate::layout;
    use libbpf_rs::{ErrorKind, Iter, Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, PrintLevel};
    use nix::time::{ClockId, clock_gettime};
    use std::fmt;
    use std::io::{self, Read};
    use std::os::fd::{AsRawFd, BorrowedFd};
    use std::path::Path;
    use std::sync::Mutex;

    const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pinfold.bpf.o"));

    /// What libbpf said while the scheduler was loaded.
    static SAID: Mutex<String> = Mutex::new(String::new());
    /// How much of that is kept, and how much of its end is shown.
    const KEPT: usize = 1 << 20;
    const SHOWN: usize = 2_000;
    /// How libbpf heads the verifier's log.
    const VERIFIER_LOG: &str = "PROG LOAD LOG";

    /// The running scheduler. It ends when this is dropped.
    pub struct Scheduler {
        link: Option<Link>,
        tasks: Link,
        call: MapHandle,
        status: MapHandle,
        preferences: MapHandle,
        wakeups: MapHandle,
        // The programs and maps, which the links use.
        _object: Object,
    }

    impl fmt::Debug for Scheduler {
        fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            to.debug_struct("Scheduler")
                .field("state", &self.state())
                .finish_non_exhaustive()
        }
    }

    impl Scheduler {
        /// Starts the scheduler for these tasks on this machine, which has these domains. It ends itself if it is not
        /// called for `most_silence`.
        ///
        /// # Errors
        /// If the kernel cannot or does not run it, or runs another one.
        pub fn start(domains: &Domains, scope: Scope, most_silence: Duration) -> Result<Self, StartError> {
            if let Some(name) = other_scheduler(Path::new("/sys"))? {
                return Err(StartError::OtherScheduler(name));
            }
            let cpus = possible_cpus(Path::new("/sys"))?;
            let before = libbpf_rs::set_print(Some((PrintLevel::Info, keep)));
            SAID.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
            let started = load(&layout::settings(domains, cpus, most_silence), scope);
            libbpf_rs::set_print(before);
            started.map_err(|error| refused(&error))
        }

        /// Tells the scheduler that the loader lives.
        pub fn call(&mut self) -> io::Result<()> {
            let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
            let now = u64::try_from(Duration::from(now).as_nanos()).unwrap_or(u64::MAX);
            update(&self.call, &0_u32.to_ne_bytes(), &now.to_ne_bytes())
        }

        /// From now on a thread, held by a descriptor (`PIDFD_THREAD`), prefers these domains, or none.
        pub fn prefer(&mut self, thread: BorrowedFd<'_>, preference: Option<Preference>) -> io::Result<()> {
            let key = thread.as_raw_fd().to_ne_bytes();
            match preference {
                Some(preference) => update(&self.preferences, &key, &layout::preference(&preference)),
                None => match self.preferences.delete(&key) {
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                    done => done.map_err(io_error),
                },
            }
        }

        /// From now on a thread, held by a descriptor (`PIDFD_THREAD`), comes first in its queue. That is for the loader,
        /// which must call in time on the busiest machine.
        pub fn let_go_first(&mut self, thread: BorrowedFd<'_>) -> io::Result<()> {
            let key = thread.as_raw_fd().to_ne_bytes();
            update(&self.preferences, &key, &layout::first_in_queues())
        }

        /// How the scheduler fares.
        pub fn state(&self) -> State {
            let bytes = self.status.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok().flatten();
            let status = bytes.and_then(|bytes| layout::status(&bytes));
            State {
                taken_elsewhere: status.as_ref().map_or(0, |status| status.taken_elsewhere),
                waited_beside_idle: status.as_ref().map_or(0, |status| status.waited_beside_idle),
                ended: status
                    .filter(|status| status.exit_kind != 0)
                    .map(|status| Ended { reason: status.reason }),
            }
        }

        /// All tasks, and where their time went.
        pub fn tasks(&self) -> io::Result<Vec<Listed>> {
            let mut bytes = vec![];
            Iter::new(&self.tasks).map_err(io_error)?.read_to_end(&mut bytes)?;
            Ok(layout::listed(&bytes))
        }

        /// Who woke whom, and how often, in no order. Pairs that were not seen for long are forgotten.
        pub fn pairs(&self) -> io::Result<Vec<Pair>> {
            let read = self.wakeups.lookup_batch(4_096, MapFlags::ANY, MapFlags::ANY);
            Ok(read
                .map_err(io_error)?
                .filter_map(|(key, value)| layout::pair(&key, &value))
                .collect())
        }

        /// All that was counted until `at`.
        pub fn counted(&self, at: Duration) -> io::Result<Scheduled> {
            let state = self.state();
            let times = self.tasks()?.into_iter().map(|one| (one.thread, one.times));
            let pairs = self.pairs()?.into_iter();
            Ok(Scheduled {
                at,
                times: times.collect(),
                wakeups: pairs.map(|pair| ((pair.waker, pair.wakee), pair.count)).collect(),
                taken_elsewhere: state.taken_elsewhere,
                waited_beside_idle: state.waited_beside_idle,
            })
        }
    }

    impl Drop for Scheduler {
        fn drop(&mut self) {
            // Before its maps, so that no task is scheduled without them.
            self.link.take();
        }
    }

    /// The names of the operations for a scope, and for the other one.
    fn operations(scope: Scope) -> [&'static str; 2] {
        match scope {
            Scope::All => ["pinfold", "pinfold_some"],
            Scope::ThoseThatAsk => ["pinfold_some", "pinfold"],
        }
    }

    fn load(settings: &[u8], scope: Scope) -> libbpf_rs::Result<Scheduler> {
        let [wanted, other] = operations(scope);
        let mut open = ObjectBuilder::default().name("pinfold")?.open_memory(OBJECT)?;
        let place = open.maps_mut().find(|map| map.name() == ".rodata.settings");
        place.ok_or_else(missing)?.set_initial_value(settings)?;
        let unused = open.maps_mut().find(|map| map.name() == other);
        unused.ok_or_else(missing)?.set_autocreate(false)?;
        let mut object = open.load()?;
        let handle = |name: &str| {
            let map = object.maps().find(|map| map.name() == name).ok_or_else(missing)?;
            MapHandle::try_from(&map)
        };
        let (call, status) = (handle(".data.call")?, handle(".data.status")?);
        let (preferences, wakeups) = (handle("preferences")?, handle("wakeups")?);
        let listing = object
            .progs_mut()
            .find(|program| program.name() == "list_tasks")
            .ok_or_else(missing)?;
        let tasks = listing.attach()?;
        let mut scheduler = object.maps_mut().find(|map| map.name() == wanted).ok_or_else(missing)?;
        let link = scheduler.attach_struct_ops()?;
        Ok(Scheduler {
            link: Some(link),
            tasks,
            call,
            status,
            preferences,
            wakeups,
            _object: object,
        })
    }

    fn missing() -> libbpf_rs::Error {
        libbpf_rs::Error::from(io::Error::other("a part of the scheduler is missing in the binary"))
    }

    #[expect(clippy::needless_pass_by_value, reason = "libbpf-rs wants a function of this type")]
    fn keep(_: PrintLevel, text: String) {
        let mut said = SAID.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if said.len() < KEPT {
            said.push_str(&text);
        }
    }

    fn refused(error: &libbpf_rs::Error) -> StartError {
        let said = SAID.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // The verifier's refusal has the same number as a missing permission, and a log.
        if error.kind() == ErrorKind::PermissionDenied && !said.contains(VERIFIER_LOG) {
            return StartError::Forbidden;
        }
        let from = said.char_indices().rev().nth(SHOWN).map_or(0, |(place, _)| place);
        StartError::Refused(format!("{error}\n{}", &said[from..]))
    }

    fn update(map: &MapHandle, key: &[u8], value: &[u8]) -> io::Result<()> {
        map.update(key, value, MapFlags::ANY).map_err(io_error)
    }

    fn io_error(error: libbpf_rs::Error) -> io::Error {
        io::Error::other(error)
    }
}

pub use loaded::Scheduler;
