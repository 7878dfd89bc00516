//! Rolls back the changes of a journal.
//!
//! 1. A process is held by a pidfd, and a thread is the one of the journal if its start time is equal. Any other task
//!    with this number is left alone.
//! 2. A thread is rolled back if its mask is the one PU on which the journal says that it is or was pinned (a kill may
//!    have come between the record and the change). It gets its original mask. Any other mask was set since by the
//!    thread or by another program, and stays.
//! 3. Threads and child processes that such a process has created since have inherited masks. A thread that is not in
//!    the journal gets the original mask of a thread of its process, or of a process that it descends from, if its mask
//!    is the one PU on which that thread was pinned. So does an orphan that such a thread has created (`orphans`), with
//!    its children. This is repeated until nothing remains, and once more a little later: a thread without its original
//!    mask may create another one.
//! 4. Bits of a register that still have the value that pinfold gave them get their original value. The other bits of
//!    the register stay, and so do bits that another program has changed since.
//!
//! Limits: a thread that has set exactly the mask that pinfold gave it counts as pinned by pinfold. The kernel changes
//! masks by thread number. If a thread ends between the check of its start time and the change, and its number is
//! reused in that time, the new thread would be changed.

use super::orphans;
use super::record::{Change, MaskChange, RegisterChange};
use crate::action::Action;
use crate::affinity::CpuMask;
use crate::held::Held;
use crate::prefetchers::Registers;
use crate::procfs::Procfs;
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
    /// Why it failed; `None` where it succeeded or was not made.
    pub failure: Option<String>,
}

/// The result of rolling a journal back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolledBack {
    /// The calls, in order.
    pub calls: Vec<RolledBackCall>,
    /// What another program has changed since, and is left alone, as text.
    pub left_alone: Vec<String>,
    /// What could not be read, and why.
    pub unknown: Vec<String>,
}

impl RolledBack {
    /// Adds a thread with its present mask: the call that restores its mask, and the failure of the call, or that another program
    /// has set the mask.
    fn add_thread(
        &mut self,
        process: i32,
        thread: i32,
        now: &CpuMask,
        verdict: &Verdict<&CpuMask>,
        failure_of: impl Fn(&CpuMask) -> Option<String>,
    ) {
        if let Verdict::GiveBack(to) = *verdict {
            self.calls.push(RolledBackCall {
                failure: failure_of(to),
                action: Action::Mask {
                    process,
                    thread,
                    now: now.clone(),
                    to: to.clone(),
                },
            });
        } else {
            self.left_alone.push(format!(
                "thread {thread} of process {process} runs on {} now, which pinfold did not set",
                now.to_set()
            ));
        }
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
            Action::Register { .. } => None,
        })
    }

    /// What is not as it was before, as text.
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

/// The decision about a change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict<T> {
    /// It is already rolled back.
    AsBefore,
    /// It is as pinfold made it, and gets this back.
    GiveBack(T),
    /// Another program has changed it since.
    LeaveAlone,
}

/// For a thread whose mask is `now`.
fn mask_verdict<'a>(change: &'a MaskChange, now: &CpuMask) -> Verdict<&'a CpuMask> {
    if *now == change.original {
        return Verdict::AsBefore;
    }
    match now.only() {
        Some(pu) if pu == change.pinned || Some(pu) == change.replaced => Verdict::GiveBack(&change.original),
        _ => Verdict::LeaveAlone,
    }
}

/// For a register whose value is `now`.
fn register_verdict(change: &RegisterChange, now: u64) -> Verdict<u64> {
    let ours = now & change.bits;
    if ours == change.original {
        Verdict::AsBefore
    } else if ours == change.written || Some(ours) == change.replaced {
        Verdict::GiveBack(now & !change.bits | change.original)
    } else {
        Verdict::LeaveAlone
    }
}

/// Rolls back these changes, or only returns the calls for it. With `orphans` it also looks for orphans.
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
        }
    }
    roll_back_masks(&masks, &roots.procfs, dry_run, orphans, &mut rolled_back);
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
        Verdict::AsBefore => return,
        Verdict::GiveBack(to) => to,
        Verdict::LeaveAlone => {
            rolled_back.left_alone.push(format!(
                "register {register:#x} of PU {pu} is {now:#x} now, which pinfold did not set"
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

/// Longer than the kernel takes from copying a creator's mask to showing the new thread in `/proc`.
const BEING_MADE: Duration = Duration::from_millis(20);

/// How new threads of a process are recognised: the PUs on which its threads were pinned, with their original masks.
type Pinnings = BTreeMap<PuId, CpuMask>;

fn roll_back_masks(
    changes: &[&MaskChange],
    procfs: &Procfs,
    dry_run: bool,
    orphans: bool,
    rolled_back: &mut RolledBack,
) {
    let mut processes: BTreeMap<i32, Held> = BTreeMap::new();
    for process in changes.iter().map(|change| change.thread.process) {
        if let Some(held) = Held::new(process) {
            processes.entry(process).or_insert(held);
        }
    }
    let mut looked_at = BTreeSet::new();
    let mut adopted: BTreeMap<i32, (u64, Pinnings)> = BTreeMap::new();
    let mut confirmed = false;
    loop {
        let (pinned, mut pinnings) = living(changes, &processes, procfs);
        if orphans {
            find_orphans(changes, procfs, &mut adopted);
        }
        for (&process, (_, of_creator)) in &adopted {
            pinnings.entry(process).or_insert_with(|| of_creator.clone());
        }
        let before = rolled_back.calls.len();
        for_each_thread(pinnings, procfs, |process, thread, pinnings| {
            let Ok(now) = CpuMask::of_thread(thread) else { return };
            let verdict = match pinned.get(&thread) {
                Some(change) => mask_verdict(change, &now),
                None => match now.only().and_then(|pu| pinnings.get(&pu)) {
                    Some(original) if *original != now => Verdict::GiveBack(original),
                    _ => Verdict::AsBefore,
                },
            };
            // Once each: a failed call would fail again, and a cpuset may reduce a mask to what it was.
            if verdict != Verdict::AsBefore && looked_at.insert(thread) {
                let failure_of = |to: &CpuMask| if dry_run { None } else { give(to, thread) };
                rolled_back.add_thread(process, thread, &now, &verdict, failure_of);
            }
        });
        if dry_run {
            return;
        }
        if rolled_back.calls.len() > before {
            confirmed = false;
        } else if rolled_back.calls.is_empty() || std::mem::replace(&mut confirmed, true) {
            return;
        } else {
            // Its creator's mask may have been restored while the kernel created a thread with the old one.
            std::thread::sleep(BEING_MADE);
        }
    }
}

/// The changes of threads that live, by thread, and their pinnings, by process.
fn living<'a>(
    changes: &[&'a MaskChange],
    processes: &BTreeMap<i32, Held>,
    procfs: &Procfs,
) -> (HashMap<i32, &'a MaskChange>, BTreeMap<i32, Pinnings>) {
    let mut pinned = HashMap::new();
    let mut pinnings: BTreeMap<i32, Pinnings> = BTreeMap::new();
    for &change in changes {
        let thread = change.thread;
        let is_there = processes.get(&thread.process).is_some_and(Held::lives)
            && procfs
                .stat(thread.process, thread.thread)
                .is_some_and(|stat| stat.start == thread.start);
        if is_there {
            pinned.insert(thread.thread, change);
            let pinnings = pinnings.entry(thread.process).or_default();
            for pu in change.replaced.into_iter().chain([change.pinned]) {
                pinnings.insert(pu, change.original.clone());
            }
        }
    }
    (pinned, pinnings)
}

/// Calls `act` for each thread of these processes and of their descendants. A descendant has the pinnings of its ancestor.
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

/// Adds the orphans of pinned threads that have one of their masks, with their start times, and removes those that have
/// ended. An orphan stays after its mask was restored: it may be creating others at that moment.
fn find_orphans(changes: &[&MaskChange], procfs: &Procfs, adopted: &mut BTreeMap<i32, (u64, Pinnings)>) {
    let start = |process| procfs.stat(process, process).map(|stat| stat.start);
    adopted.retain(|&process, &mut (begun, _)| start(process) == Some(begun));
    for process in procfs.processes() {
        if let Some(pu) = CpuMask::of_thread(process).ok().and_then(|mask| mask.only())
            && let Some(stat) = procfs.stat(process, process)
            && let Some(pinnings) = orphans::pinnings(changes.iter().copied(), procfs, process, &stat)
            && pinnings.contains_key(&pu)
        {
            let pinnings = pinnings.into_iter().map(|(pu, original)| (pu, original.clone()));
            adopted.insert(process, (stat.start, pinnings.collect()));
        }
    }
}

/// Sets the mask of a thread; returns why that failed, unless the thread has ended.
fn give(mask: &CpuMask, thread: i32) -> Option<String> {
    let error = mask.give_to(thread).err()?;
    match error.raw_os_error() {
        Some(libc::ESRCH) => None,
        Some(libc::EINVAL) => Some(format!("its cpuset allows none of the PUs {}", mask.to_set())),
        _ => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::record::{Thread, tests::changes};
    use proptest::prelude::*;
    use std::fs;

    fn mask(pus: &[u32]) -> CpuMask {
        pus.iter().copied().map(PuId).collect()
    }

    proptest! {
        #[test]
        fn a_mask_is_given_back_exactly_where_it_is_one_that_pinfold_set(
            change in changes(), now in proptest::collection::btree_set(0u32..700, 1..4)
        ) {
            let Change::Mask(change) = change else { return Ok(()) };
            for now in [now.into_iter().map(PuId).collect(), CpuMask::single(change.pinned), change.original.clone()] {
                let ours = [Some(change.pinned), change.replaced].map(|pu| pu.map(CpuMask::single)).contains(&Some(now.clone()));
                let expected = if now == change.original {
                    Verdict::AsBefore
                } else if ours {
                    Verdict::GiveBack(&change.original)
                } else {
                    Verdict::LeaveAlone
                };
                prop_assert_eq!(mask_verdict(&change, &now), expected);
            }
        }

        #[test]
        fn of_a_register_only_the_bits_that_pinfold_set_come_back(
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
                Verdict::GiveBack(to) => prop_assert_eq!((to & bits, to & !bits), (original & bits, others & !bits)),
                verdict => {
                    prop_assert_eq!(verdict, Verdict::AsBefore);
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
        assert_eq!(register_verdict(&change, 0x12), Verdict::GiveBack(0x10));
        assert_eq!(register_verdict(&change, 0x11), Verdict::GiveBack(0x10));
        assert_eq!(register_verdict(&change, 0x14), Verdict::LeaveAlone);
    }

    /// A `/proc` in which this process's first thread has another start time: its number was reused later.
    #[test]
    fn a_thread_with_another_start_time_is_not_touched() {
        let process = std::process::id().cast_signed();
        let real = Procfs::default().stat(process, process).unwrap();
        let now = CpuMask::of_thread(process).unwrap();
        let change = |start| {
            Change::Mask(MaskChange {
                thread: Thread {
                    process,
                    thread: process,
                    start,
                },
                original: mask(&[600]),
                replaced: None,
                pinned: now.pus().next().unwrap(),
                since: 0,
                groups: None,
            })
        };
        let rolled_back = roll_back(&[change(real.start + 1)], &Roots::default(), true, true);
        assert_eq!(rolled_back, RolledBack::default());
        // With its own start time it would be changed, or reported: the record is about this thread.
        let rolled_back = roll_back(&[change(real.start)], &Roots::default(), true, true);
        assert!(!rolled_back.calls.is_empty() || !rolled_back.left_alone.is_empty());
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
