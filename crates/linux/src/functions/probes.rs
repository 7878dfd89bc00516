//! Probes at the entries of functions: defined in tracefs, counted by perf events.
//!
//! 1. tracefs is taken where it is mounted, or mounted for this process alone, without a mount point.
//! 2. A line in `uprobe_events` defines a probe by file and offset (Documentation/trace/uprobetracer.rst). A definition
//!    alone changes nothing.
//! 3. An event of this probe (`PERF_TYPE_TRACEPOINT`) is opened for each thread. The first one puts a breakpoint at the
//!    function's entry in that thread's process. Threads and processes that these threads create are counted with them
//!    (`inherit`).
//! 4. When the last event of a probe is closed, the kernel removes the breakpoint. It does so, too, when pinfold is
//!    killed. The definition stays then, and a guard removes it.
//!
//! The PMU `uprobe`, which counts functions that the user names, needs no tracefs. But each of its events is a probe of
//! its own: with 64 threads a call of the function takes 24 us instead of 2, and to close each event 0.08 s. And it
//! cannot follow new threads without stopping them.
//!
//! Limits: to open the first event of a probe takes 10 to 30 ms, and to close the last one 50 to 100 ms, in which the
//! kernel waits for all CPUs. The program goes on meanwhile.

use crate::functions::probes::sys::PERF_TYPE_TRACEPOINT;
use crate::guard::{Duty, Guard};
use crate::perf_event::{self, EventScope};
use crate::pfm::{self, sys};
use crate::service::keep_only_what_is_needed;
use nix::errno::Errno;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The most probes of one process.
pub(super) const MOST: usize = 33;

/// Where tracefs usually is.
const MOUNTED: &str = "/sys/kernel/tracing";

/// How often pinfold or its guard tries to remove definitions, and how long it waits in between.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// tracefs.
pub(crate) struct Tracefs {
    root: PathBuf,
    /// Keeps a mount without a mount point alive.
    _mount: Option<OwnedFd>,
    control: File,
}

impl Tracefs {
    /// Fails if probes may not be defined; the error is a clause for the user.
    pub(crate) fn open() -> Result<Self, String> {
        let refused = |error: io::Error| {
            format!("probes of functions need root and tracefs, the kernel's file system for tracing ({error})")
        };
        let control = |root: &Path| {
            let file = root.join("uprobe_events");
            OpenOptions::new().append(true).open(file)
        };
        let mounted = PathBuf::from(MOUNTED);
        if let Ok(control) = control(&mounted) {
            return Ok(Self {
                root: mounted,
                _mount: None,
                control,
            });
        }
        let mount = mount().map_err(|error| refused(error.into()))?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        let control = control(&root).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                "this kernel was built without probes of functions (CONFIG_UPROBE_EVENTS)".to_owned()
            }
            _ => refused(error),
        })?;
        Ok(Self {
            root,
            _mount: Some(mount),
            control,
        })
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        self.control.write_all(line.as_bytes())
    }

    /// The probes of a group, as `GROUP/NAME`.
    pub(crate) fn defined(&self, group: ProbeGroup) -> io::Result<Vec<String>> {
        // `p:GROUP/NAME FILE:OFFSET`
        let text = fs::read_to_string(self.root.join("uprobe_events"))?;
        let first = text.lines().filter_map(|line| line.split(' ').next()?.split_once(':'));
        let own = first.filter(|(_, name)| name.split('/').next() == Some(&group.to_string()));
        Ok(own.map(|(_, name)| name.to_owned()).collect())
    }

    /// Removes a probe, while the kernel may still be closing its events.
    pub(crate) fn remove(&mut self, name: &str) -> io::Result<()> {
        for _ in 0..ATTEMPTS {
            match self.write(&format!("-:{name}\n")) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => thread::sleep(PAUSE),
                // Its guard may have removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                removed => return removed,
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }
}

/// Mounts tracefs without a mount point.
fn mount() -> Result<OwnedFd, Errno> {
    const CREATE: libc::c_uint = 6;
    let descriptor = |result: libc::c_long| -> Result<OwnedFd, Errno> {
        let descriptor = i32::try_from(Errno::result(result)?).map_err(|_| Errno::EMFILE)?;
        // SAFETY: the kernel has just created this descriptor, and it belongs to no one else.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    };
    // SAFETY: the name is a terminated string. Both flags are close-on-exec (FSOPEN_CLOEXEC, FSMOUNT_CLOEXEC).
    let context = descriptor(unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), 1) })?;
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: FSCONFIG_CMD_CREATE takes no key and no value.
    let created = unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), CREATE, none, none, 0) };
    Errno::result(created)?;
    // SAFETY: a plain system call on an own descriptor.
    descriptor(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1, 0) })
}

/// The group of the definitions of one pinfold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeGroup {
    /// The process.
    pub process: u32,
    /// When it began to probe, in nanoseconds since 1970: process numbers repeat in containers.
    pub began: u128,
}

impl fmt::Display for ProbeGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pinfold_{}_{:x}", self.process, self.began)
    }
}

impl ProbeGroup {
    fn own() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            process: process::id(),
            began: now.as_nanos(),
        }
    }

    /// Removes all definitions. The kernel may still be closing the events of a process that was killed. Returns
    /// whether it has removed all.
    fn remove_all(self, control: &mut File) -> bool {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                thread::sleep(PAUSE);
            }
            let busy = (0..MOST).filter(|&slot| {
                let removed = control.write_all(format!("-:{self}/{}\n", name(slot)).as_bytes());
                removed.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
            });
            if busy.count() == 0 {
                return true;
            }
        }
        false
    }
}

/// Removes all definitions after the death of pinfold.
struct Removal {
    group: ProbeGroup,
}

impl Duty for Removal {
    fn open(&self) -> Option<File> {
        let control = Tracefs::open().ok().map(|tracefs| tracefs.control);
        // What the guard does with the open file needs no capability. Without this it still works.
        let _ = keep_only_what_is_needed(false);
        control
    }

    fn roll_back(self, file: Option<File>) {
        if let Some(mut control) = file {
            self.group.remove_all(&mut control);
        }
    }
}

/// The name of a definition in its group.
fn name(slot: usize) -> String {
    format!("f{slot}")
}

/// The definitions of this process.
pub(super) struct Definitions {
    tracefs: Tracefs,
    group: ProbeGroup,
    used: [bool; MOST],
    /// `None` while the definitions are dropped.
    guard: Option<Guard>,
}

/// A probe, and its events by thread.
pub(super) struct Probe {
    slot: usize,
    /// The number of its events' kind.
    kind: u64,
    events: Vec<(i32, File)>,
}

impl Definitions {
    /// No probe yet. Fails if probes may not be defined; the error is a clause for the user.
    pub(super) fn new() -> Result<Self, String> {
        let tracefs = Tracefs::open()?;
        let group = ProbeGroup::own();
        let guard =
            Guard::start(Removal { group }).map_err(|error| format!("no guard of the probes can start ({error})"))?;
        Ok(Self {
            tracefs,
            group,
            used: [false; MOST],
            guard: Some(guard),
        })
    }

    /// The group of all definitions.
    pub(super) fn group(&self) -> ProbeGroup {
        self.group
    }

    /// Removes all definitions, whose events are being closed, and ends the guard. Returns whether the kernel has
    /// removed all. If not, the guard goes on.
    pub(super) fn remove_all(mut self) -> bool {
        let removed = !self.used.contains(&true) || self.group.remove_all(&mut self.tracefs.control);
        if removed {
            self.used = [false; MOST];
        }
        removed
    }

    /// Defines a probe at an offset of a file. Fails where the kernel accepts no breakpoint, or if too many probes are
    /// defined.
    pub(super) fn define(&mut self, file: &File, offset: u64) -> io::Result<Probe> {
        let slot = self.used.iter().position(|used| !used);
        let slot = slot.ok_or_else(|| io::Error::other("too many probes"))?;
        let (group, name, file) = (self.group, name(slot), file.as_raw_fd());
        let line = format!("p:{group}/{name} /proc/self/fd/{file}:{offset:#x}\n");
        self.tracefs.write(&line)?;
        self.used[slot] = true;
        let id = self.tracefs.root.join(format!("events/{group}/{name}/id"));
        let kind = fs::read_to_string(id).and_then(|text| {
            let number = pinfold_core::digits::decimal(text.trim());
            number.ok_or_else(|| io::Error::other("the number of an event is none"))
        });
        let probe = |kind| Probe {
            slot,
            kind,
            events: vec![],
        };
        kind.map(probe).inspect_err(|_| self.remove(probe(0)))
    }

    /// Closes a probe's events and removes its definition.
    pub(super) fn remove(&mut self, probe: Probe) {
        let slot = probe.slot;
        drop(probe);
        if self
            .tracefs
            .write(&format!("-:{}/{}\n", self.group, name(slot)))
            .is_ok()
        {
            self.used[slot] = false;
        }
    }
}

/// Closes the events of probes without waiting for the kernel: a child has them, too, and is the last to close them.
pub(super) fn leave(probes: Vec<Probe>) {
    let events = probes.iter().flat_map(|probe| &probe.events);
    let mut descriptors: Vec<i32> = events.map(|(_, event)| event.as_raw_fd()).collect();
    if descriptors.is_empty() {
        return;
    }
    descriptors.sort_unstable();
    close_in_child(&descriptors);
    drop(probes);
}

/// Leaves definitions that were not removed to the guard.
impl Drop for Definitions {
    fn drop(&mut self) {
        let remain = self.used.contains(&true);
        if let Some(guard) = self.guard.take().filter(|_| remain) {
            guard.take_over();
        }
    }
}

/// Forks a child that has these files only, and ends. The kernel closes them with it.
fn close_in_child(descriptors: &[i32]) {
    // SAFETY: the child makes plain system calls only, allocates nothing and never returns.
    if unsafe { libc::fork() } != 0 {
        return;
    }
    let mut from = 0;
    for &kept in descriptors.iter().chain([&i32::MAX]) {
        if from < kept {
            // SAFETY: closes files of the child. Linux before 5.9 lacks this call; the files are then closed at its
            // end, with the others.
            unsafe { libc::syscall(libc::SYS_close_range, from, kept - 1, 0) };
        }
        from = kept.saturating_add(1);
    }
    // SAFETY: ends the child without the exit handlers of its parent.
    unsafe { libc::_exit(0) }
}

impl Probe {
    /// Counts the calls of this thread, and of all threads and processes that it creates from now on.
    pub(super) fn count(&mut self, thread: i32) -> Result<(), Errno> {
        let mut attributes = pfm::empty_attributes();
        attributes.type_ = PERF_TYPE_TRACEPOINT;
        attributes.config = self.kind;
        attributes.set_inherit(1);
        let event = perf_event::open(&attributes, EventScope::Thread(thread), None)?;
        self.events.push((thread, event.into()));
        Ok(())
    }

    /// The calls so far, by thread, in the order of `count`.
    pub(super) fn calls(&self) -> impl Iterator<Item = (i32, u64)> {
        self.events.iter().filter_map(|(thread, event)| {
            let mut bytes = [0; size_of::<u64>()];
            let mut event: &File = event;
            let read = event.read(&mut bytes).ok()?;
            (read == bytes.len()).then(|| (*thread, u64::from_ne_bytes(bytes)))
        })
    }
}
