//! Rolls back the changes of a journal.
//!
//! 1. A process is held by a pidfd. A thread is the journal's if its start time is equal. Any other task with this
//!    number is left alone.
//! 2. A thread is rolled back if its mask is the one PU that the journal records as its present or previous pinning (a
//!    kill may have come between the record and the change), or the result of a cpuset on such a mask
//!    (`ObservedMask::standing`). It gets its original mask. Any other mask was set later by the thread or by another
//!    program, and stays. Two equal readings are needed before a mask counts as foreign: while a cpuset changes, the
//!    kernel shows a mask that does not match it.
//! 3. Threads and child processes that such a process has created since then have inherited masks. A thread that is not
//!    in the journal gets the original mask of a thread of its process, or of an ancestor process. Its mask must be the
//!    one PU of that thread's pinning, or the result of a cpuset on it, and it must have started after the pinning. The
//!    pinned thread may have ended since then: the kernel's threads of its `io_uring` ring stay. An orphan that such a
//!    thread has created (`orphans`), and its children, are treated alike. This is repeated until nothing remains, and
//!    once more a little later: a thread that does not have its original mask yet may create another one.
//! 4. Bits of a register that still have pinfold's value get their original value. The other bits of the register stay,
//!    and so do bits that another program has changed since then.
//! 5. Probes of functions are removed by name.
//!
//! Limits: a thread that has set exactly pinfold's mask itself counts as pinned by pinfold. The kernel changes masks by
//! thread number. If a thread ends between the check of its start time and the change, and its number is reused in that
//! time, the new thread would be changed.
//!
//! A mask that cannot be in force yet waits (`Requested::restore`): its record stays, with the mask that the thread
//! has until then.

use super::orphans;
use super::record::{Change, MaskChange, RegisterChange, Thread};
use crate::action::Action;
use crate::affinity::CpuMask;
use crate::cpuset::Cpusets;
use crate::functions::{ProbeGroup, Tracefs};
use crate::held::Held;
use crate::prefetchers::Registers;
use crate::procfs::Procfs;
use crate::requested::{ObservedMask, Requested, Restoration};
use pinfold_core::PuId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// The roots of the machine's files.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    /// `/proc`.
    pub procfs: Procfs,
    /// `/dev/cpu`.
    pub registers: Registers,
}

/// One call, with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledBackCall {
    /// The call.
    pub action: Action,
    /// Why it failed. `None` if it succeeded or was not made.
    pub failure: Option<String>,
}

/// The result of rolling a journal back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolledBack {
    /// The calls, in order.
    pub calls: Vec<RolledBackCall>,
    /// Changes that another program has overwritten, as text. They are left alone.
    pub left_alone: Vec<String>,
    /// Files that could not be read, and why.
    pub unknown: Vec<String>,
    /// The records of restored masks that cannot be in force yet.
    waiting: Vec<MaskChange>,
}

impl RolledBack {
    /// Adds the call that restores a thread's mask, and why it failed.
    fn add_call(&mut self, process: i32, thread: i32, now: CpuMask, to: Requested, failure: Option<String>) {
        let action = Action::Mask {
            process,
            thread,
            now,
            to,
        };
        self.calls.push(RolledBackCall { action, failure });
    }

    /// The threads whose original masks cannot be in force yet.
    pub(super) fn waiting(&self) -> &[MaskChange] {
        &self.waiting
    }

    /// The number of changes that could not be rolled back.
    pub fn failed(&self) -> usize {
        self.unknown.len() + self.calls.iter().filter(|call| call.failure.is_some()).count()
    }

    /// The threads whose masks could not be restored.
    pub(super) fn failed_threads(&self) -> impl Iterator<Item = i32> + '_ {
        let failed = self.calls.iter().filter(|call| call.failure.is_some());
        failed.filter_map(|call| match call.action {
            Action::Mask { thread, .. } => Some(thread),
            Action::Register { .. } | Action::Probe { .. } => None,
        })
    }

    /// The remaining differences from the original state, as text.
    pub fn problems(&self) -> Vec<String> {
        let failures = self.calls.iter().filter_map(|call| {
            let failure = call.failure.as_ref()?;
            Some(format!("{}: {failure}", call.action))
        });
        self.left_alone
            .iter()
            .chain(&self.unknown)
            .cloned()
            .chain(failures)
            .collect()
    }
}

/// The decision about a register.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RegisterVerdict {
    /// It is already rolled back.
    AsBefore,
    /// It is as pinfold made it, and gets this value.
    Restore(u64),
    /// Another program has changed it since.
    LeaveAlone,
}

impl MaskChange {
    /// The PUs that the thread may be pinned on: the last pinning and the one before.
    fn pins(&self) -> Vec<PuId> {
        self.replaced.into_iter().chain([self.pinned]).collect()
    }

    /// The mask that the thread is to get.
    fn restoration(&self, seen: &ObservedMask) -> Restoration {
        if let Some(meanwhile) = &self.meanwhile
            && (seen.mask == *meanwhile || seen.is_whole())
        {
            return Restoration::Mask(self.original.clone());
        }
        seen.restoration(&self.pins(), &self.original)
    }
}

/// The decision about a register with the value `now`.
fn register_verdict(change: &RegisterChange, now: u64) -> RegisterVerdict {
    let ours = now & change.bits;
    if ours == change.original {
        RegisterVerdict::AsBefore
    } else if ours == change.written || Some(ours) == change.replaced {
        RegisterVerdict::Restore(now & !change.bits | change.original)
    } else {
        RegisterVerdict::LeaveAlone
    }
}

/// Rolls back these changes. With `dry_run` it only returns the calls. With `orphans` it also looks for orphans.
pub(super) fn roll_back<'a>(
    changes: impl IntoIterator<Item = &'a Change>,
    roots: &Roots,
    dry_run: bool,
    orphans: bool,
) -> RolledBack {
    let mut masks = vec![];
    let mut rolled_back = RolledBack::default();
    for change in changes {
        match change {
            Change::Mask(change) => masks.push(change),
            Change::Register(change) => roll_back_register(change, &roots.registers, dry_run, &mut rolled_back),
            Change::Probes(group) => roll_back_probes(*group, dry_run, &mut rolled_back),
        }
    }
    RollBack::new(&masks, &roots.procfs, dry_run, &mut rolled_back).run(orphans);
    rolled_back
}

pub(super) fn roll_back_register(
    change: &RegisterChange,
    registers: &Registers,
    dry_run: bool,
    rolled_back: &mut RolledBack,
) {
    let RegisterChange { pu, register, .. } = *change;
    let now = match registers.read(pu, register) {
        Ok(now) => now,
        Err(error) => {
            rolled_back
                .unknown
                .push(format!("register {register:#x} of PU {pu}: {error}"));
            return;
        }
    };
    let to = match register_verdict(change, now) {
        RegisterVerdict::AsBefore => return,
        RegisterVerdict::Restore(to) => to,
        RegisterVerdict::LeaveAlone => {
            rolled_back.left_alone.push(format!(
                "register {register:#x} of PU {pu} is {now:#x}, a value that pinfold did not set"
            ));
            return;
        }
    };
    let failure = if dry_run {
        None
    } else {
        registers.write(pu, register, to).err()
    };
    rolled_back.calls.push(RolledBackCall {
        action: Action::Register { pu, register, now, to },
        failure: failure.map(|error| error.to_string()),
    });
}

/// Removes the probes of a group that are still defined.
fn roll_back_probes(group: ProbeGroup, dry_run: bool, rolled_back: &mut RolledBack) {
    let opened = Tracefs::open();
    let defined = opened.and_then(|tracefs| {
        let names = tracefs.defined(group);
        let names = names.map_err(|error| format!("the list of probes cannot be read ({error})"))?;
        Ok((tracefs, names))
    });
    let (mut tracefs, names) = match defined {
        Ok(defined) => defined,
        Err(why) => return rolled_back.unknown.push(format!("the probes {group}: {why}")),
    };
    for name in names {
        let failure = if dry_run { None } else { tracefs.remove(&name).err() };
        rolled_back.calls.push(RolledBackCall {
            action: Action::Probe { name },
            failure: failure.map(|error| error.to_string()),
        });
    }
}

/// This is longer than the kernel takes from copying a creator's mask to showing the new thread in `/proc`.
const BEING_MADE: Duration = Duration::from_millis(20);

/// The most readings of a mask that changes with its cpuset.
const READINGS: usize = 50;

/// The masks that new threads of a process may have inherited.
#[derive(Clone, Default)]
struct Pinnings {
    /// The PUs that its threads were pinned on, with their original masks.
    pins: BTreeMap<PuId, Requested>,
    /// The masks that its threads have until their original ones can be in force.
    meanwhile: Vec<(CpuMask, Requested)>,
    /// The time when its first thread was pinned, in clock ticks since boot. `None` if no thread was pinned.
    since: Option<u64>,
}

impl Pinnings {
    fn add(&mut self, change: &MaskChange) {
        for pu in change.pins() {
            self.pins.insert(pu, change.original.clone());
        }
        self.meanwhile
            .extend(change.meanwhile.clone().map(|mask| (mask, change.original.clone())));
        self.since = Some(self.since.map_or(change.since, |since| since.min(change.since)));
    }

    /// Whether a thread that may now run on these PUs may have inherited one of the masks.
    fn may_have_made(&self, usable: &CpuMask) -> bool {
        usable.only().is_some() || !self.meanwhile.is_empty() || self.pins.keys().any(|&pu| !usable.contains(pu))
    }

    /// The mask that a thread outside the journal is to get.
    fn restoration(&self, seen: &ObservedMask) -> Restoration {
        let meanwhile = self.meanwhile.iter().find(|(mask, _)| *mask == seen.mask);
        if let Some((_, original)) = meanwhile.filter(|_| !seen.is_whole()) {
            return Restoration::Mask(original.clone());
        }
        match self.inherited(seen) {
            Some((pu, original)) => seen.restoration(&[pu], original),
            None => Restoration::Nothing,
        }
    }

    /// The pinning that a thread's mask comes from, directly or through a cpuset.
    fn inherited(&self, seen: &ObservedMask) -> Option<(PuId, &Requested)> {
        seen.inherited(self.pins.iter().map(|(&pu, original)| (pu, original)))
    }
}

/// The roll-back of a journal's masks.
struct RollBack<'a> {
    changes: &'a [&'a MaskChange],
    cpusets: Cpusets,
    dry_run: bool,
    /// The processes of the journal.
    processes: BTreeMap<i32, Held>,
    /// The orphans of pinned threads, with their start times.
    adopted: BTreeMap<i32, (u64, Pinnings)>,
    /// Threads that already had a call. A failed call would fail again, and a cpuset may reduce a mask to its old
    /// value.
    called: BTreeSet<i32>,
    /// Threads with a mask that seems foreign, as last read, and the number of readings.
    doubts: HashMap<i32, (ObservedMask, usize)>,
    rolled_back: &'a mut RolledBack,
}

impl<'a> RollBack<'a> {
    fn new(changes: &'a [&'a MaskChange], procfs: &Procfs, dry_run: bool, rolled_back: &'a mut RolledBack) -> Self {
        let mut processes: BTreeMap<i32, Held> = BTreeMap::new();
        for process in changes.iter().map(|change| change.thread.process) {
            if let Some(held) = Held::new(process) {
                processes.entry(process).or_insert(held);
            }
        }
        Self {
            changes,
            cpusets: Cpusets::new(procfs.clone(), "/sys"),
            dry_run,
            processes,
            adopted: BTreeMap::new(),
            called: BTreeSet::new(),
            doubts: HashMap::new(),
            rolled_back,
        }
    }

    fn run(mut self, orphans: bool) {
        let procfs = self.cpusets.procfs().clone();
        let mut confirmed = false;
        loop {
            let (pinned, mut pinnings) = living(self.changes, &self.processes, &procfs);
            if orphans {
                find_orphans(self.changes, &self.cpusets, &mut self.adopted);
            }
            for (&process, (_, of_creator)) in &self.adopted {
                pinnings.entry(process).or_insert_with(|| of_creator.clone());
            }
            let before = self.rolled_back.calls.len();
            let mut doubtful = false;
            for_each_thread(pinnings, &procfs, |process, thread, pinnings| {
                doubtful |= self.look_at(process, thread, pinned.get(&thread).copied(), pinnings);
            });
            let has_called = self.rolled_back.calls.len() > before;
            if self.dry_run && !doubtful {
                return;
            }
            if has_called {
                confirmed = false;
            } else if !doubtful
                && (self.rolled_back.calls.is_empty() || self.dry_run || std::mem::replace(&mut confirmed, true))
            {
                return;
            }
            if !has_called || doubtful {
                // The creator's mask may have been restored while the kernel created a thread with the old one.
                std::thread::sleep(BEING_MADE);
            }
        }
    }

    /// Rolls back the mask of a thread. Returns whether the thread has to be checked again.
    fn look_at(&mut self, process: i32, thread: i32, change: Option<&MaskChange>, pinnings: &Pinnings) -> bool {
        if self.called.contains(&thread) {
            return false;
        }
        let Ok(usable) = CpuMask::read(thread) else {
            return false;
        };
        if change.is_none() && !(pinnings.may_have_made(&usable) && self.is_younger(process, thread, pinnings)) {
            return false;
        }
        let Ok(seen) = ObservedMask::once(thread, &self.cpusets) else {
            return false;
        };
        let restoration = change.map_or_else(|| pinnings.restoration(&seen), |change| change.restoration(&seen));
        match restoration {
            Restoration::Nothing => false,
            Restoration::Mask(to) => {
                self.called.insert(thread);
                let failure = self.give(process, thread, &to, change, pinnings, &seen);
                self.rolled_back.add_call(process, thread, seen.mask, to, failure);
                false
            }
            Restoration::Foreign => self.doubt(process, thread, change, seen),
        }
    }

    /// Whether a thread started after the pinnings, so that it may have inherited one.
    fn is_younger(&self, process: i32, thread: i32, pinnings: &Pinnings) -> bool {
        let stat = self.cpusets.procfs().stat(process, thread);
        stat.zip(pinnings.since)
            .is_some_and(|(stat, since)| stat.start >= since)
    }

    /// Handles a mask that seems foreign. Returns whether another reading has to confirm that.
    fn doubt(&mut self, process: i32, thread: i32, change: Option<&MaskChange>, seen: ObservedMask) -> bool {
        let (last, readings) = match self.doubts.remove(&thread) {
            Some((last, readings)) => (Some(last), readings + 1),
            None => (None, 1),
        };
        if last.as_ref() == Some(&seen) {
            self.called.insert(thread);
            self.rolled_back.left_alone.push(format!(
                "thread {thread} of process {process} runs on {}, which pinfold did not set",
                seen.mask.to_set()
            ));
            return false;
        }
        if readings < READINGS {
            self.doubts.insert(thread, (seen, readings));
            return true;
        }
        self.called.insert(thread);
        if let Some(change) = change {
            let why = "its cpuset keeps changing, so its mask cannot be distinguished from another program's";
            let to = change.original.clone();
            self.rolled_back
                .add_call(process, thread, seen.mask, to, Some(why.to_owned()));
        }
        false
    }

    /// Restores the mask of a thread. Returns why that failed, unless the thread has ended.
    fn give(
        &mut self,
        process: i32,
        thread: i32,
        to: &Requested,
        change: Option<&MaskChange>,
        pinnings: &Pinnings,
        seen: &ObservedMask,
    ) -> Option<String> {
        if self.dry_run {
            return None;
        }
        let meanwhile = match to.restore(thread, &self.cpusets) {
            Ok(meanwhile) => meanwhile?,
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return None,
            Err(error) => return Some(error.to_string()),
        };
        let why = format!(
            "it has {} until it can run on the others, and stays in the journal",
            meanwhile.to_set()
        );
        let record = match change {
            Some(change) => Some(MaskChange::clone(change)),
            None => self.record_of_child(process, thread, to, pinnings, seen),
        };
        self.rolled_back.waiting.extend(record.map(|record| MaskChange {
            original: to.clone(),
            meanwhile: Some(meanwhile),
            ..record
        }));
        Some(why)
    }

    /// A record for a thread that is not in the journal.
    fn record_of_child(
        &self,
        process: i32,
        thread: i32,
        original: &Requested,
        pinnings: &Pinnings,
        seen: &ObservedMask,
    ) -> Option<MaskChange> {
        let procfs = self.cpusets.procfs();
        let start = procfs.stat(process, thread)?.start;
        let (&any, _) = pinnings.pins.first_key_value()?;
        Some(MaskChange {
            thread: Thread { process, thread, start },
            original: original.clone(),
            replaced: None,
            pinned: pinnings.inherited(seen).map_or(any, |(pu, _)| pu),
            since: start,
            groups: procfs.groups_checksum(process),
            meanwhile: None,
        })
    }
}

/// The changes of living threads, by thread, and the pinnings of living processes, by process. If a process started
/// before one of its threads was pinned, it is the journal's process, even after that thread's end.
fn living<'a>(
    changes: &[&'a MaskChange],
    processes: &BTreeMap<i32, Held>,
    procfs: &Procfs,
) -> (HashMap<i32, &'a MaskChange>, BTreeMap<i32, Pinnings>) {
    let mut pinned = HashMap::new();
    let mut pinnings: BTreeMap<i32, Pinnings> = BTreeMap::new();
    for &change in changes {
        let thread = change.thread;
        if !processes.get(&thread.process).is_some_and(Held::lives) {
            continue;
        }
        let start = |number| procfs.stat(thread.process, number).map(|stat| stat.start);
        let lives = start(thread.thread) == Some(thread.start);
        if lives {
            pinned.insert(thread.thread, change);
        }
        if lives || start(thread.process).is_some_and(|start| start <= change.since) {
            pinnings.entry(thread.process).or_default().add(change);
        }
    }
    (pinned, pinnings)
}

/// Calls `act` for each thread of these processes and of their descendants. A descendant has the pinnings of its
/// ancestor.
fn for_each_thread(pinnings: BTreeMap<i32, Pinnings>, procfs: &Procfs, mut act: impl FnMut(i32, i32, &Pinnings)) {
    let mut seen: BTreeSet<i32> = pinnings.keys().copied().collect();
    let mut todo: Vec<(i32, Pinnings)> = pinnings.into_iter().collect();
    while let Some((process, pinnings)) = todo.pop() {
        for thread in procfs.threads(process) {
            for child in procfs.children(process, thread) {
                if seen.insert(child) {
                    todo.push((child, pinnings.clone()));
                }
            }
            act(process, thread, &pinnings);
        }
    }
}

/// Adds the orphans of pinned threads that have one of their masks, or the result of a cpuset on one, with their start
/// times. Removes the orphans that have ended. An orphan stays after its mask was restored, because it may be creating
/// others at that time.
fn find_orphans(changes: &[&MaskChange], cpusets: &Cpusets, adopted: &mut BTreeMap<i32, (u64, Pinnings)>) {
    let procfs = cpusets.procfs();
    let start = |process| procfs.stat(process, process).map(|stat| stat.start);
    adopted.retain(|&process, &mut (started, _)| start(process) == Some(started));
    let mut of_all = Pinnings::default();
    for change in changes {
        of_all.add(change);
    }
    for process in procfs.processes() {
        if CpuMask::read(process).is_ok_and(|usable| of_all.may_have_made(&usable))
            && let Some(stat) = procfs.stat(process, process)
            && let Some(of_creators) = orphans::pinnings(changes.iter().copied(), procfs, process, &stat)
            && let Ok(seen) = ObservedMask::once(process, cpusets)
        {
            let pins = of_creators.into_iter();
            let pinnings = Pinnings {
                pins: pins.map(|(pu, original)| (pu, original.clone())).collect(),
                meanwhile: vec![],
                since: Some(stat.start),
            };
            if pinnings.inherited(&seen).is_some() {
                adopted.insert(process, (stat.start, pinnings));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::record::tests::changes;
    use crate::requested::tests::{mask, seen};
    use pinfold_core::PuSet;
    use proptest::prelude::*;
    use std::fs;

    proptest! {
        #[test]
        fn a_mask_is_restored_exactly_if_pinfold_has_set_it(
            change in changes(), now in proptest::collection::btree_set(0u32..4, 1..4)
        ) {
            let Change::Mask(change) = change else { return Ok(()) };
            let change = MaskChange { pinned: PuId(1), replaced: Some(PuId(2)), meanwhile: None, ..change };
            let now: PuSet = now.into_iter().map(PuId).collect();
            let seen = seen(&now.to_string(), "0-3", "0-3");
            let expected = match (seen.mask.only(), now.len()) {
                (Some(PuId(1 | 2)), _) if change.original == Requested::Cpus(seen.mask.clone()) => Restoration::Nothing,
                (Some(PuId(1 | 2)), _) => Restoration::Mask(change.original.clone()),
                (_, 4) => Restoration::Nothing,
                _ => Restoration::Foreign,
            };
            prop_assert_eq!(change.restoration(&seen), expected);
        }

        #[test]
        fn only_the_bits_that_pinfold_set_are_rolled_back(
            bits: u64, original: u64, written: u64, others: u64
        ) {
            let change = RegisterChange {
                pu: PuId(0),
                register: 0x1a4,
                bits,
                original: original & bits,
                replaced: None,
                written: written & bits,
            };
            let now = others & !bits | written & bits;
            match register_verdict(&change, now) {
                RegisterVerdict::Restore(to) => {
                    prop_assert_eq!((to & bits, to & !bits), (original & bits, others & !bits));
                }
                verdict => {
                    prop_assert_eq!(verdict, RegisterVerdict::AsBefore);
                    prop_assert_eq!(written & bits, original & bits);
                }
            }
        }
    }

    #[test]
    fn a_register_that_another_program_has_set_stays() {
        let change = RegisterChange {
            pu: PuId(0),
            register: 0x1a4,
            bits: 15,
            original: 0,
            replaced: Some(1),
            written: 2,
        };
        assert_eq!(register_verdict(&change, 0x12), RegisterVerdict::Restore(0x10));
        assert_eq!(register_verdict(&change, 0x11), RegisterVerdict::Restore(0x10));
        assert_eq!(register_verdict(&change, 0x14), RegisterVerdict::LeaveAlone);
    }

    /// A `/proc` that shows another start time for this process's first thread: its number was reused later.
    #[test]
    fn a_thread_with_another_start_time_is_not_touched() {
        let process = std::process::id().cast_signed();
        let real = Procfs::default().stat(process, process).unwrap();
        let change = |start| {
            Change::Mask(MaskChange {
                thread: Thread {
                    process,
                    thread: process,
                    start,
                },
                original: Requested::Cpus(mask("600")),
                replaced: None,
                // A cpuset seems to have removed this PU.
                pinned: PuId(600),
                // All other threads of this process are older.
                since: u64::MAX,
                groups: None,
                meanwhile: None,
            })
        };
        let rolled_back = roll_back(&[change(real.start + 1)], &Roots::default(), true, true);
        assert_eq!(rolled_back, RolledBack::default());
        // With the thread's own start time it would be changed: the record is about this thread.
        let rolled_back = roll_back(&[change(real.start)], &Roots::default(), true, true);
        let is_about_it =
            |call: &RolledBackCall| matches!(call.action, Action::Mask { thread, .. } if thread == process);
        assert!(rolled_back.calls.iter().any(is_about_it), "{rolled_back:?}");
    }

    #[test]
    fn a_register_of_a_pu_without_a_device_is_reported_as_not_rolled_back() {
        let devices = tempfile::tempdir().unwrap();
        let roots = Roots {
            registers: Registers::new(devices.path()),
            ..Roots::default()
        };
        let change = RegisterChange {
            pu: PuId(3),
            register: 0x1a4,
            bits: 15,
            original: 0,
            replaced: None,
            written: 15,
        };
        let rolled_back = roll_back(&[Change::Register(change)], &roots, false, true);
        assert_eq!(rolled_back.failed(), 1);
        assert!(rolled_back.problems()[0].contains("PU 3"), "{rolled_back:?}");
        fs::create_dir(devices.path().join("3")).unwrap();
        fs::write(devices.path().join("3/msr"), [0x0f; 0x1b0]).unwrap();
        let rolled_back = roll_back(&[Change::Register(change)], &roots, true, true);
        assert_eq!(
            rolled_back.calls[0].action.to_string(),
            "pwrite(/dev/cpu/3/msr, 0xf0f0f0f0f0f0f00, 0x1a4)"
        );
        assert_eq!(roots.registers.read(PuId(3), 0x1a4).unwrap(), 0x0f0f_0f0f_0f0f_0f0f);
        roll_back(&[Change::Register(change)], &roots, false, true);
        assert_eq!(roots.registers.read(PuId(3), 0x1a4).unwrap(), 0x0f0f_0f0f_0f0f_0f00);
    }
}
