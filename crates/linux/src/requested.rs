//! The mask of a task as it was requested. The kernel does not show it.
//!
//! The kernel shows the current mask: the requested mask, cut to the current cpuset and, in `sched_getaffinity`, to the
//! online CPUs. If such a mask is written back, it counts as requested. Then CPUs that a growing cpuset adds, or that
//! come online, no longer reach the task. So pinfold keeps a mask as `Requested`:
//!
//! - `Unset`, if the mask has all CPUs that the task's cpuset allows. It is restored as all CPUs, which the kernel
//!   always cuts to the current cpuset.
//! - `Cpus`, if it has fewer. The bits of offline CPUs belong to it.
//!
//! Since Linux 6.2 the kernel remembers the mask that was last set. A cpuset that allows none of its CPUs replaces it,
//! and it returns when the cpuset grows. So a current mask that is not pinfold's does not prove that another program
//! has set one: `ObservedMask::standing` distinguishes the cases. Before Linux 6.2 each change of a cpuset forgets the
//! mask.
//!
//! Limits: a mask that has all CPUs of the cpuset counts as unset, even if someone has set it. If the cpuset cuts a
//! mask, only the remaining CPUs are seen.

use crate::affinity::CpuMask;
use crate::cpuset::{Allowed, Cpusets};
use pinfold_core::PuId;
use std::fmt;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The most repetitions of a reading or a call that a change of a cpuset has disturbed.
const TRIES: usize = 20;

/// This is longer than the kernel takes from changing a cpuset to changing the masks of its tasks.
const CHANGING: Duration = Duration::from_millis(2);

/// This is longer than the kernel takes from bringing a CPU online to putting it into the root cpuset, even if it is
/// busy.
const LATE: Duration = Duration::from_secs(1);

/// The time that a reading is valid for other threads of the process with the same mask. Threads are created in bursts.
const RECENT: Duration = Duration::from_millis(100);

/// A requested mask.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Requested {
    /// No one has set one. The task may use all CPUs that its cpuset allows.
    Unset,
    /// These CPUs.
    Cpus(CpuMask),
}

/// The mask of a task at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedMask {
    /// The mask, including offline CPUs.
    pub(crate) mask: CpuMask,
    /// The mask that the task would have if no one had set one.
    pub(crate) allowed: Allowed,
    /// All CPUs that the kernel could ever have.
    possible: CpuMask,
    /// Whether the kernel remembers the mask that was last set.
    remembers: bool,
}

/// The relation of a mask to pinfold's pinning of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The task is pinned there.
    InForce,
    /// The cpuset or hotplug has removed the PU. The task has all remaining CPUs, and may be pinned again when the PU
    /// returns.
    Cut,
    /// The task has all CPUs that its cpuset allows, including the PU: the pinning is forgotten.
    Gone,
    /// Another program or the task itself has set the mask.
    Foreign,
}

/// The mask to restore for a task that pinfold has pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Restoration {
    /// None: its mask is the same as without pinfold.
    Nothing,
    /// This mask.
    Mask(Requested),
    /// None: another program has set its mask.
    Foreign,
}

impl Requested {
    /// The requested mask of `task`.
    ///
    /// While a cpuset changes, the kernel briefly shows the new cpuset and the old mask. So a mask that seems to be set
    /// is read again until it stays the same.
    ///
    /// # Errors
    ///
    /// `NotFound` for a task that has ended.
    pub(crate) fn read(task: i32, cpusets: &Cpusets) -> io::Result<Self> {
        Ok(ObservedMask::settled(task, cpusets, ObservedMask::is_unset)?.requested())
    }

    /// Whether it has this PU.
    pub fn has(&self, pu: PuId) -> bool {
        match self {
            Self::Unset => true,
            Self::Cpus(cpus) => cpus.contains(pu),
        }
    }

    /// The CPUs of `cpus` that it has.
    pub(crate) fn among(&self, cpus: &CpuMask) -> CpuMask {
        match self {
            Self::Unset => cpus.clone(),
            Self::Cpus(own) => own.intersection(cpus),
        }
    }

    /// Whether the kernel derives this mask from it.
    pub(crate) fn explains(&self, seen: &ObservedMask) -> bool {
        let own = self.among(&seen.allowed.now);
        if own.is_empty() {
            return seen.is_whole();
        }
        seen.mask.intersection(&seen.allowed.now) == own
    }

    /// Sets it for `task`, without checking the result.
    ///
    /// # Errors
    ///
    /// The errors of `CpuMask::apply_to`. A change of the cpuset during the call is not an error.
    pub(crate) fn apply_to(&self, task: i32, cpusets: &Cpusets) -> io::Result<()> {
        let mask = self.among(cpusets.possible());
        let mut given = mask.apply_to(task);
        for _ in 0..TRIES {
            match &given {
                // The kernel refuses a mask if the cpuset changes during the call.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    let now = cpusets.now(task);
                    if mask.intersection(&now).is_empty() {
                        break;
                    }
                    given = mask.apply_to(task);
                }
                _ => break,
            }
        }
        given
    }

    /// Restores it for a task that pinfold has pinned, and confirms that it is in force. If it cannot be in force yet,
    /// returns the mask that the task has until then. There are two cases:
    ///
    /// - The cpuset allows none of its CPUs. Then the task gets all CPUs until the cpuset allows one.
    /// - Some of its CPUs are offline, and the kernel is older than Linux 6.2, so it forgets them.
    ///
    /// A CPU that has just come online is waited for.
    ///
    /// # Errors
    ///
    /// The errors of `CpuMask::apply_to`.
    pub(crate) fn restore(&self, task: i32, cpusets: &Cpusets) -> io::Result<Option<CpuMask>> {
        let mut seen = None;
        let mut late_since = None;
        let mut tries = 0;
        while tries < TRIES {
            let waits = match self.apply_to(task, cpusets) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    Self::Unset.apply_to(task, cpusets)?;
                    true
                }
                given => {
                    given?;
                    false
                }
            };
            let Ok(now) = ObservedMask::once(task, cpusets) else {
                // The task has ended.
                return Ok(None);
            };
            if waits {
                return Ok(Some(now.mask));
            }
            if !self.explains(&now) {
                // The cpuset has changed, and the call has set the CPUs that the old one allowed.
                tries += 1;
                if seen.replace(now.clone()) == Some(now) {
                    sleep(CHANGING);
                }
                continue;
            }
            if self.lacks_offline(&now, cpusets) {
                return Ok(Some(now.mask));
            }
            let late = self.among(&now.allowed.late);
            if now.mask.is_superset(&late) || cpusets.are_in_partitions(&late) {
                return Ok(None);
            }
            if late_since.get_or_insert_with(Instant::now).elapsed() > LATE {
                cpusets.add_to_partitions(&late);
                return Ok(None);
            }
            sleep(CHANGING);
        }
        Ok(None)
    }

    /// Whether a mask lacks CPUs that it would have if they were online.
    fn lacks_offline(&self, seen: &ObservedMask, cpusets: &Cpusets) -> bool {
        if seen.allowed.mask == seen.allowed.now {
            return false;
        }
        let offline = cpusets.offline().intersection(&seen.allowed.mask);
        !seen.mask.is_superset(&self.among(&offline))
    }
}

/// The text for messages.
impl fmt::Display for Requested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset => f.write_str("all"),
            Self::Cpus(cpus) => cpus.to_set().fmt(f),
        }
    }
}

impl ObservedMask {
    /// Reads the mask of `task`, and the cpuset before and after it.
    ///
    /// # Errors
    ///
    /// `NotFound` for a task that has ended.
    pub(crate) fn once(task: i32, cpusets: &Cpusets) -> io::Result<Self> {
        let mut allowed = cpusets.allowed(task)?;
        let mut mask = cpusets.procfs().mask(task)?;
        for _ in 0..TRIES {
            let after = cpusets.allowed(task)?;
            if after == allowed {
                break;
            }
            allowed = after;
            mask = cpusets.procfs().mask(task)?;
        }
        Ok(Self {
            mask,
            allowed,
            possible: cpusets.possible().clone(),
            remembers: cpusets.remembers_masks(),
        })
    }

    /// Like `once`, repeated until two readings agree or one `is_clear`.
    pub(crate) fn settled(task: i32, cpusets: &Cpusets, is_clear: impl Fn(&Self) -> bool) -> io::Result<Self> {
        let mut seen = Self::once(task, cpusets)?;
        for _ in 0..TRIES {
            if is_clear(&seen) {
                break;
            }
            sleep(CHANGING);
            let again = Self::once(task, cpusets)?;
            if again == seen {
                break;
            }
            seen = again;
        }
        Ok(seen)
    }

    /// The requested mask.
    pub(crate) fn requested(&self) -> Requested {
        if self.is_unset() {
            Requested::Unset
        } else {
            Requested::Cpus(self.mask.clone())
        }
    }

    /// Whether the task can run on all CPUs that its cpuset allows.
    pub(crate) fn is_whole(&self) -> bool {
        self.mask.is_superset(&self.allowed.now)
    }

    /// Whether the mask equals the mask that the task would have if no one had set one.
    pub(crate) fn is_unset(&self) -> bool {
        self.mask.is_superset(&self.allowed.mask)
    }

    /// The relation of the mask to `pins`, the PUs that pinfold may have pinned the task on last.
    pub(crate) fn standing(&self, pins: &[PuId]) -> Standing {
        if self.mask.only().is_some_and(|pu| pins.contains(&pu)) {
            Standing::InForce
        } else if !self.is_whole() {
            Standing::Foreign
        } else if pins.iter().all(|&pu| self.allowed.now.contains(pu)) {
            Standing::Gone
        } else {
            Standing::Cut
        }
    }

    /// The pinning that a task may have inherited from a pinned task, and the mask to restore. The task's mask is that
    /// PU, or the result of a cpuset on it. In the latter case a task that has inherited nothing has the same mask. It
    /// must not become narrower, so it gets all CPUs, which changes nothing for it.
    pub(crate) fn inherited<'a>(
        &self,
        pins: impl Iterator<Item = (PuId, &'a Requested)>,
    ) -> Option<(PuId, &'a Requested)> {
        let mut cut = None;
        for (pu, original) in pins {
            match self.standing(&[pu]) {
                Standing::InForce => return Some((pu, original)),
                Standing::Cut => cut = cut.or(Some((pu, &Requested::Unset))),
                Standing::Gone | Standing::Foreign => {}
            }
        }
        cut
    }

    /// The mask to restore if pinfold has pinned the task on one of `pins`, and its mask was `original`.
    pub(crate) fn restoration(&self, pins: &[PuId], original: &Requested) -> Restoration {
        let standing = self.standing(pins);
        match (standing, original) {
            (Standing::Foreign, _) => Restoration::Foreign,
            (Standing::InForce, Requested::Cpus(cpus)) if *cpus == self.mask => Restoration::Nothing,
            (Standing::InForce, _) => Restoration::Mask(original.clone()),
            (Standing::Cut, Requested::Cpus(_)) if self.remembers => Restoration::Mask(original.clone()),
            // If all CPUs are set, including offline ones, nothing has to be remembered.
            _ if self.mask.is_superset(&self.possible) => Restoration::Nothing,
            _ => Restoration::Mask(Requested::Unset),
        }
    }
}

/// Reads the masks of a program's threads.
#[derive(Debug, Default)]
pub(crate) struct MaskReader {
    cpusets: Cpusets,
    recent: Option<Recent>,
}

/// A reading.
#[derive(Debug)]
struct Recent {
    process: i32,
    /// The CPUs that the thread could run on.
    usable: CpuMask,
    seen: ObservedMask,
    at: Instant,
}

impl MaskReader {
    pub(crate) fn cpusets(&self) -> &Cpusets {
        &self.cpusets
    }

    /// The mask of a thread of `process` that can run on `usable`. If `settled`, a mask with less than the cpuset
    /// allows is read until it is stable. Otherwise it may be transient.
    ///
    /// # Errors
    ///
    /// `NotFound` for a thread that has ended.
    pub(crate) fn read(
        &mut self,
        process: i32,
        thread: i32,
        usable: &CpuMask,
        settled: bool,
    ) -> io::Result<ObservedMask> {
        let holds =
            |recent: &&Recent| recent.process == process && recent.usable == *usable && recent.at.elapsed() < RECENT;
        if let Some(recent) = self.recent.as_ref().filter(holds) {
            return Ok(recent.seen.clone());
        }
        let seen = if settled {
            ObservedMask::settled(thread, &self.cpusets, ObservedMask::is_whole)?
        } else {
            ObservedMask::once(thread, &self.cpusets)?
        };
        if settled || seen.is_whole() {
            self.recent = Some(Recent {
                process,
                usable: usable.clone(),
                seen: seen.clone(),
                at: Instant::now(),
            });
        }
        Ok(seen)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cpuset::tests::machine;
    use proptest::prelude::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    pub(crate) fn mask(pus: &str) -> CpuMask {
        CpuMask::from(&pus.parse().unwrap())
    }

    /// A mask on a machine of four CPUs, in a group that allows `now`. `unset` is the mask that the task would have
    /// if no one had set one.
    pub(crate) fn seen(mask_now: &str, now: &str, unset: &str) -> ObservedMask {
        ObservedMask {
            mask: mask(mask_now),
            allowed: Allowed {
                now: mask(now),
                mask: mask(unset),
                late: CpuMask::default(),
            },
            possible: mask("0-3"),
            remembers: true,
        }
    }

    fn older(seen: ObservedMask) -> ObservedMask {
        ObservedMask {
            remembers: false,
            ..seen
        }
    }

    fn cpus(pus: &str) -> Requested {
        Requested::Cpus(mask(pus))
    }

    const PIN: &[PuId] = &[PuId(1)];

    #[test]
    fn a_mask_of_all_cpus_of_the_cpuset_counts_as_unset() {
        assert_eq!(seen("0-1", "0-1", "0-1").requested(), Requested::Unset);
        // The mask was read before the cpuset shrank.
        assert_eq!(seen("0-3", "0-1", "0-1").requested(), Requested::Unset);
        assert_eq!(seen("0", "0-1", "0-1").requested(), cpus("0"));
    }

    #[test]
    fn a_mask_without_offline_cpus_counts_as_set_if_no_cpuset_removes_them() {
        assert_eq!(seen("0-1", "0-1", "0-3").requested(), cpus("0-1"));
        assert_eq!(seen("0-3", "0-1", "0-3").requested(), Requested::Unset);
    }

    #[test]
    fn a_pinning_that_a_cpuset_cut_is_not_another_programs_mask() {
        assert_eq!(seen("1", "0-1", "0-1").standing(PIN), Standing::InForce);
        assert_eq!(seen("0", "0", "0").standing(PIN), Standing::Cut);
        assert_eq!(seen("0-1", "0-1", "0-1").standing(PIN), Standing::Gone);
        assert_eq!(seen("0", "0-1", "0-1").standing(PIN), Standing::Foreign);
    }

    #[test]
    fn a_set_mask_is_restored_if_the_kernel_would_have_remembered_it() {
        let cut = seen("0", "0", "0");
        assert_eq!(cut.restoration(PIN, &cpus("0-1")), Restoration::Mask(cpus("0-1")));
        assert_eq!(
            cut.restoration(PIN, &Requested::Unset),
            Restoration::Mask(Requested::Unset)
        );
        // An older kernel has forgotten the mask when the cpuset changed, as it does without pinfold.
        assert_eq!(
            older(cut).restoration(PIN, &cpus("0-1")),
            Restoration::Mask(Requested::Unset)
        );
    }

    #[test]
    fn writing_a_mask_again_keeps_offline_cpus() {
        // Hotplug has removed CPU 1, and the kernel has set all CPUs.
        let fallen_back = older(seen("0-3", "0,2-3", "0-3"));
        assert_eq!(fallen_back.restoration(PIN, &Requested::Unset), Restoration::Nothing);
    }

    /// A `/proc` with a task with this mask, in a group with these CPUs.
    fn task(mask: &str, group: &str) -> (tempfile::TempDir, Cpusets) {
        let status = format!("Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t{mask}");
        machine(
            "0-3",
            "0-3",
            &[
                (
                    "proc/self/mountinfo",
                    "30 1 0:1 / {sys}/fs/cgroup rw - cgroup2 cgroup2 rw",
                ),
                ("proc/7/cgroup", "0::/a"),
                ("proc/7/status", &status),
                ("sys/fs/cgroup/a/cpuset.cpus.effective", group),
                ("sys/fs/cgroup/a/cpuset.cpus", group),
            ],
        )
    }

    #[test]
    fn the_mask_of_a_task_is_read_with_its_cpuset() {
        for (mask, group, expected) in [("0-1", "0-1", Requested::Unset), ("0-1", "0-2", cpus("0-1"))] {
            let (_root, cpusets) = task(mask, group);
            assert_eq!(Requested::read(7, &cpusets).unwrap(), expected);
        }
        let (_root, cpusets) = task("0", "0");
        assert_eq!(
            Requested::read(8, &cpusets).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    /// A thread of the first group whose CPU 3 came online before the kernel put it into effect.
    fn with_a_late_cpu(own: i32) -> (tempfile::TempDir, Cpusets) {
        let status = "Name:\tx\nCpus_allowed:\t7\nCpus_allowed_list:\t0-2";
        machine(
            "0-3",
            "0-3",
            &[
                (
                    "proc/self/mountinfo",
                    "30 1 0:1 / {sys}/fs/cgroup rw - cgroup2 cgroup2 rw",
                ),
                (&format!("proc/{own}/cgroup"), "0::/"),
                (&format!("proc/{own}/status"), status),
                ("sys/fs/cgroup/cpuset.cpus.effective", "0-2"),
            ],
        )
    }

    #[test]
    fn a_mask_is_restored_again_when_a_new_online_cpu_takes_effect() {
        std::thread::spawn(|| {
            // SAFETY: a plain system call.
            let own = unsafe { libc::gettid() };
            let (root, cpusets) = with_a_late_cpu(own);
            let in_effect = Arc::new(AtomicBool::new(false));
            let kernel = std::thread::spawn({
                let (root, in_effect) = (root.path().to_owned(), in_effect.clone());
                move || {
                    sleep(CHANGING);
                    in_effect.store(true, Ordering::SeqCst);
                    let status = "Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\n";
                    std::fs::write(root.join(format!("proc/{own}/status")), status).unwrap();
                    std::fs::write(root.join("sys/fs/cgroup/cpuset.cpus.effective"), "0-3\n").unwrap();
                }
            });
            assert_eq!(Requested::Unset.restore(own, &cpusets).unwrap(), None);
            assert!(in_effect.load(Ordering::SeqCst));
            kernel.join().unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn waiting_for_the_cpus_of_a_partition_ends() {
        std::thread::spawn(|| {
            // SAFETY: a plain system call.
            let own = unsafe { libc::gettid() };
            let (_root, cpusets) = with_a_late_cpu(own);
            assert_eq!(Requested::Unset.restore(own, &cpusets).unwrap(), None);
            assert!(cpusets.are_in_partitions(&mask("3")));
            assert!(!cpusets.are_in_partitions(&mask("2-3")));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_restored_mask_is_in_force() {
        std::thread::spawn(|| {
            let cpusets = Cpusets::default();
            // SAFETY: a plain system call.
            let own = unsafe { libc::gettid() };
            let before = Requested::read(own, &cpusets).unwrap();
            let usable = CpuMask::read(0).unwrap();
            CpuMask::single(usable.pus().next().unwrap()).apply_to(0).unwrap();
            assert_eq!(before.restore(own, &cpusets).unwrap(), None);
            assert_eq!(Requested::read(own, &cpusets).unwrap(), before);
            assert_eq!(CpuMask::read(0).unwrap(), usable);
        })
        .join()
        .unwrap();
    }

    fn sets() -> impl Strategy<Value = CpuMask> {
        proptest::collection::btree_set(0u32..4, 1..5).prop_map(|pus| pus.into_iter().map(PuId).collect())
    }

    proptest! {
        #[test]
        fn a_requested_mask_explains_the_kernels_result(asked in sets(), now in sets(), is_unset: bool) {
            let asked = if is_unset { Requested::Unset } else { Requested::Cpus(asked) };
            let made = asked.among(&now);
            let mask = if made.is_empty() { now.clone() } else { made };
            let allowed = Allowed { mask: now.clone(), now, late: CpuMask::default() };
            let seen = ObservedMask { mask, allowed, possible: mask_of_all(), remembers: true };
            prop_assert!(asked.explains(&seen));
        }

        #[test]
        fn a_pinned_tasks_mask_is_restored_after_any_cpuset_change(
            pin in 0u32..4, now in sets(), remembers: bool
        ) {
            let pins = [PuId(pin)];
            let pinned = CpuMask::single(PuId(pin)).intersection(&now);
            let mask = if pinned.is_empty() { now.clone() } else { pinned };
            let allowed = Allowed { mask: now.clone(), now, late: CpuMask::default() };
            let seen = ObservedMask { mask, allowed, possible: mask_of_all(), remembers };
            prop_assert_eq!(seen.restoration(&pins, &Requested::Unset), Restoration::Mask(Requested::Unset));
        }
    }

    fn mask_of_all() -> CpuMask {
        mask("0-3")
    }
}
