//! The affinity mask of a thread, and the two system calls that read and set it.
//!
//! `libc::cpu_set_t` ends at 1024 PUs; these masks are as long as the kernel's.

use pinfold_core::{PuId, PuSet};
use std::io;
use std::sync::OnceLock;

/// A set of PUs as a bit mask in words of 64 PUs. It has no empty words at its end, so equal sets are equal masks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct CpuMask(Vec<u64>);

const WORD_BITS: usize = u64::BITS as usize;

impl CpuMask {
    /// The mask of one PU.
    pub fn single(pu: PuId) -> Self {
        [pu].into_iter().collect()
    }

    /// The mask of these words. The first word holds PUs 0 to 63.
    pub fn from_words(mut words: Vec<u64>) -> Self {
        while words.last() == Some(&0) {
            words.pop();
        }
        Self(words)
    }

    /// The words. The last word is not empty.
    pub fn words(&self) -> &[u64] {
        &self.0
    }

    /// Whether `pu` is in the mask.
    pub fn contains(&self, pu: PuId) -> bool {
        let pu = pu.0 as usize;
        self.0
            .get(pu / WORD_BITS)
            .is_some_and(|word| word >> (pu % WORD_BITS) & 1 == 1)
    }

    /// Whether no PU is in the mask.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The PUs of both masks.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self::from_words(self.0.iter().zip(&other.0).map(|(one, other)| one & other).collect())
    }

    /// The PUs that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let others = other.0.iter().chain(std::iter::repeat(&0));
        Self::from_words(self.0.iter().zip(others).map(|(one, other)| one & !other).collect())
    }

    /// The PUs of either mask.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (longer, shorter) = if self.0.len() < other.0.len() {
            (other, self)
        } else {
            (self, other)
        };
        let mut words = longer.0.clone();
        for (word, other) in words.iter_mut().zip(&shorter.0) {
            *word |= other;
        }
        Self(words)
    }

    /// Whether every PU of `other` is in this mask.
    pub fn is_superset(&self, other: &Self) -> bool {
        other
            .0
            .iter()
            .enumerate()
            .all(|(index, word)| word & !self.0.get(index).copied().unwrap_or(0) == 0)
    }

    /// The only PU of the mask. `None` for an empty mask and for several PUs.
    pub fn only(&self) -> Option<PuId> {
        let bits: u32 = self.0.iter().map(|word| word.count_ones()).sum();
        (bits == 1).then(|| self.pus().next()).flatten()
    }

    /// The PUs, lowest first.
    pub fn pus(&self) -> impl Iterator<Item = PuId> + '_ {
        (0..u32::try_from(self.0.len() * WORD_BITS).unwrap_or(u32::MAX))
            .map(PuId)
            .filter(|&pu| self.contains(pu))
    }

    /// The same PUs as a set.
    pub fn to_set(&self) -> PuSet {
        self.pus().collect()
    }

    /// Reads the mask of thread `thread`; 0 is the calling thread.
    pub fn of_thread(thread: i32) -> io::Result<Self> {
        let mut words = vec![0u64; kernel_words()];
        // SAFETY: the kernel writes at most this number of bytes, and the buffer is as long.
        let written = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                thread,
                size_of_val(words.as_slice()),
                words.as_mut_ptr(),
            )
        };
        if written < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self::from_words(words))
    }

    /// Sets this mask for thread `thread`; 0 is the calling thread. The kernel removes PUs that the thread's cpuset
    /// does not allow.
    ///
    /// # Errors
    ///
    /// `ESRCH` for a thread that has ended, `EINVAL` when the cpuset allows none of the PUs, `EPERM` when the thread
    /// belongs to another user.
    pub fn give_to(&self, thread: i32) -> io::Result<()> {
        // SAFETY: the kernel reads this number of bytes from a buffer of that length, and keeps no pointer.
        let result = unsafe {
            libc::syscall(
                libc::SYS_sched_setaffinity,
                thread,
                size_of_val(self.0.as_slice()),
                self.0.as_ptr(),
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

impl FromIterator<PuId> for CpuMask {
    fn from_iter<I: IntoIterator<Item = PuId>>(pus: I) -> Self {
        let mut words = vec![];
        for pu in pus {
            let pu = pu.0 as usize;
            if words.len() <= pu / WORD_BITS {
                words.resize(pu / WORD_BITS + 1, 0);
            }
            words[pu / WORD_BITS] |= 1 << (pu % WORD_BITS);
        }
        Self::from_words(words)
    }
}

impl From<&PuSet> for CpuMask {
    fn from(set: &PuSet) -> Self {
        set.iter().collect()
    }
}

/// The number of words of the kernel's masks. The kernel refuses shorter buffers, and does not report the length
/// elsewhere.
pub(crate) fn kernel_words() -> usize {
    static WORDS: OnceLock<usize> = OnceLock::new();
    *WORDS.get_or_init(|| {
        let mut words = 16;
        loop {
            let mut mask = vec![0u64; words];
            // SAFETY: as in `of_thread`.
            let written = unsafe {
                libc::syscall(
                    libc::SYS_sched_getaffinity,
                    0,
                    size_of_val(mask.as_slice()),
                    mask.as_mut_ptr(),
                )
            };
            // No kernel is built for more than 2^20 PUs. The limit ends the loop if the call is forbidden.
            if written > 0 || words * WORD_BITS >= 1 << 20 {
                return words;
            }
            words *= 2;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sets() -> impl Strategy<Value = PuSet> {
        proptest::collection::btree_set(0u32..400, 0..20).prop_map(|pus| pus.into_iter().map(PuId).collect())
    }

    proptest! {
        #[test]
        fn a_mask_is_the_set_it_was_made_of(set in sets()) {
            prop_assert_eq!(CpuMask::from(&set).to_set(), set);
        }

        #[test]
        fn inclusion_of_masks_is_inclusion_of_sets(one in sets(), other in sets(), both in any::<bool>()) {
            let one = if both { one.iter().chain(other.iter()).collect() } else { one };
            prop_assert_eq!(CpuMask::from(&one).is_superset(&CpuMask::from(&other)), other.is_subset(&one));
        }

        #[test]
        fn operations_of_masks_are_those_of_sets(one in sets(), other in sets()) {
            let (this, that) = (CpuMask::from(&one), CpuMask::from(&other));
            prop_assert_eq!(this.intersection(&that).to_set(), one.intersection(&other));
            prop_assert_eq!(this.difference(&that).to_set(), one.difference(&other));
            prop_assert_eq!(this.union(&that).to_set(), one.iter().chain(other.iter()).collect());
        }

        #[test]
        fn the_only_pu_is_that_of_a_set_of_one(set in sets()) {
            let only = if set.len() == 1 { set.first() } else { None };
            prop_assert_eq!(CpuMask::from(&set).only(), only);
        }
    }

    #[test]
    fn a_thread_gets_the_mask_that_it_is_given() {
        std::thread::spawn(|| {
            let before = CpuMask::of_thread(0).unwrap();
            let first = CpuMask::single(before.pus().next().unwrap());
            first.give_to(0).unwrap();
            assert_eq!(CpuMask::of_thread(0).unwrap(), first);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_mask_without_an_allowed_pu_is_refused() {
        let error = CpuMask::default().give_to(0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
