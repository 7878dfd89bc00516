//! Memory for measurements: mapped separately, in pages of a chosen size, and chains of addresses through it.

use super::CalibrationError;
use pinfold_core::{NodeId, digits};
use std::num::NonZeroUsize;
use std::ptr::NonNull;

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// Bytes of a small page.
pub(super) const PAGE: usize = 4096;

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// The size of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pages {
    /// 2 MiB if the kernel has them: TLB misses are very rare.
    Huge,
    /// 4 KiB, the default of programs.
    Small,
}

/// Zeroed memory, on the node of the thread that touched it first.
pub(super) struct Memory {
    base: NonNull<u8>,
    bytes: usize,
    mapped: (NonNull<u8>, usize),
}

// SAFETY: the value owns the memory, and any thread may use it.
unsafe impl Send for Memory {}
// SAFETY: all access through a shared reference is by volatile reads and writes of whole words within the memory. A
// word that one thread reads while another writes it is either ignored or ordered by atomics.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps `bytes`, rounded up to whole pages, and touches all of it.
    pub(super) fn new(bytes: usize, pages: Pages) -> Result<Self, CalibrationError> {
        let bytes = bytes.next_multiple_of(PAGE);
        // Huge pages start at multiples of their size.
        let length = bytes + HUGE;
        let refused = |error: nix::Error| CalibrationError::Memory {
            bytes: bytes as u64,
            error: error.into(),
        };
        // SAFETY: an anonymous mapping at an address that the kernel chooses touches no existing memory.
        let start = unsafe {
            nix::sys::mman::mmap_anonymous(
                None,
                NonZeroUsize::new(length).unwrap_or(NonZeroUsize::MIN),
                nix::sys::mman::ProtFlags::PROT_READ | nix::sys::mman::ProtFlags::PROT_WRITE,
                nix::sys::mman::MapFlags::MAP_PRIVATE,
            )
        }
        .map_err(refused)?
        .cast::<u8>();
        let offset = start.as_ptr().align_offset(HUGE);
        let advice = match pages {
            Pages::Huge => nix::sys::mman::MmapAdvise::MADV_HUGEPAGE,
            Pages::Small => nix::sys::mman::MmapAdvise::MADV_NOHUGEPAGE,
        };
        // A kernel without huge pages refuses the advice. Then the measurement uses small pages.
        // SAFETY: the range is the new mapping, and the advice changes no content.
        let _ = unsafe { nix::sys::mman::madvise(start.cast(), length, advice) };
        // SAFETY: the offset is below `HUGE`, and the mapping is longer than `bytes` by `HUGE`.
        let base = unsafe { start.add(offset) };
        let memory = Self {
            base,
            bytes,
            mapped: (start, length),
        };
        for place in (0..bytes).step_by(PAGE) {
            memory.write(place, 0);
        }
        Ok(memory)
    }

    /// The share of the memory that the kernel keeps in huge pages. `None` if the kernel does not report it.
    pub(super) fn huge_share(&self) -> Option<f64> {
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let address = self.base.as_ptr() as usize;
        let mut inside = false;
        for line in maps.lines() {
            let first = line.split_whitespace().next()?;
            if let Some((begin, end)) = first.split_once('-') {
                let (begin, end): (usize, usize) = (digits::hexadecimal(begin)?, digits::hexadecimal(end)?);
                inside = (begin..end).contains(&address);
            } else if inside && first == "AnonHugePages:" {
                let kilobytes: u64 = digits::decimal(line.split_whitespace().nth(1)?)?;
                return Some((kilobytes as f64 * 1024.0 / self.bytes as f64).min(1.0));
            }
        }
        None
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of the byte at offset `place`.
    pub(super) fn address(&self, place: usize) -> *mut u8 {
        assert!(place < self.bytes, "within the memory");
        // SAFETY: the assertion above checks it.
        unsafe { self.base.as_ptr().add(place) }
    }

    /// Stores a word at offset `place`, a multiple of eight.
    pub(super) fn write(&self, place: usize, word: usize) {
        assert!(place.is_multiple_of(8), "words are aligned");
        #[expect(clippy::cast_ptr_alignment, reason = "just checked; the memory begins with a page")]
        let address = self.address(place).cast::<usize>();
        // SAFETY: `address` checked that the first byte is within the memory. The memory's length and the place are
        // multiples of eight, so the whole word is within it.
        unsafe { address.write_volatile(word) }
    }

    /// The word at offset `place`, a multiple of eight.
    #[cfg(test)]
    pub(super) fn word(&self, place: usize) -> usize {
        assert!(place.is_multiple_of(8), "words are aligned");
        #[expect(clippy::cast_ptr_alignment, reason = "just checked; the memory begins with a page")]
        let address = self.address(place).cast::<usize>();
        // SAFETY: as in `write`.
        unsafe { address.read_volatile() }
    }

    /// The share of the memory that is on none of `nodes`, by one page in each 2 MiB. `None` if the kernel does not
    /// report it.
    pub(super) fn share_elsewhere(&self, nodes: &[NodeId]) -> Option<f64> {
        let pages: Vec<*mut u8> = (0..self.bytes).step_by(HUGE).map(|place| self.address(place)).collect();
        let mut on = vec![-1i32; pages.len()];
        // SAFETY: no target nodes are given, so the kernel only writes the node of each page into `on`, which is long
        // enough.
        let result = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0,
                pages.len(),
                pages.as_ptr(),
                std::ptr::null::<i32>(),
                on.as_mut_ptr(),
                0,
            )
        };
        let there: Vec<u32> = on.iter().filter_map(|&node| u32::try_from(node).ok()).collect();
        if result < 0 || there.is_empty() {
            return None;
        }
        let elsewhere = there.iter().filter(|&&node| !nodes.contains(&NodeId(node))).count();
        Some(elsewhere as f64 / there.len() as f64)
    }

    /// Writes a closed chain: each place holds the address of the next one, and the last place the address of the
    /// first. Places are multiples of eight. Returns the chain at its start.
    pub(super) fn chain(&self, places: &[usize]) -> Chain<'_> {
        for (&place, &next) in places.iter().zip(places.iter().cycle().skip(1)) {
            self.write(place, self.address(next) as usize);
        }
        Chain {
            memory: self,
            at: self.address(places[0]) as usize,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let (start, length) = self.mapped;
        // SAFETY: `new` made the mapping, and no reference to it is left.
        let _ = unsafe { nix::sys::mman::munmap(start.cast(), length) };
    }
}

/// A closed chain of addresses in memory, and the current position.
pub(super) struct Chain<'m> {
    memory: &'m Memory,
    at: usize,
}

impl Chain<'_> {
    /// Follows the chain for this many dependent loads.
    pub(super) fn follow(&mut self, loads: usize) {
        let mut at = self.at;
        for _ in 0..loads / 8 {
            for _ in 0..8 {
                // SAFETY: `chain` wrote only addresses of words within the memory, which outlives this value.
                at = unsafe { (at as *const usize).read_volatile() };
            }
        }
        debug_assert!(at >= self.memory.base.as_ptr() as usize, "within the memory");
        self.at = std::hint::black_box(at);
    }

    /// Follows several independent chains at once.
    pub(super) fn follow_together<const N: usize>(chains: &mut [Self; N], loads: usize) {
        let mut at: [usize; N] = std::array::from_fn(|chain| chains[chain].at);
        for _ in 0..loads {
            for at in &mut at {
                // SAFETY: as in `follow`.
                *at = unsafe { (*at as *const usize).read_volatile() };
            }
        }
        for (chain, at) in chains.iter_mut().zip(at) {
            chain.at = std::hint::black_box(at);
        }
    }
}

/// Shuffles places into the same order each time (Fisher and Yates, with Vigna's splitmix64 as the generator).
pub(super) fn shuffled(mut places: Vec<usize>) -> Vec<usize> {
    let mut state = 0x5eed_u64;
    let mut random = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    for last in (1..places.len()).rev() {
        #[expect(clippy::cast_possible_truncation, reason = "less than the number of places")]
        let other = (random() % (last as u64 + 1)) as usize;
        places.swap(last, other);
    }
    places
}

/// The first word of each line of the first `bytes`, in random order.
pub(super) fn lines(bytes: usize) -> Vec<usize> {
    shuffled((0..bytes / LINE).map(|line| line * LINE).collect())
}

/// One word of each of this many small pages, in random order. Neighbours use different lines of their pages, so that
/// they are distributed over the sets of a cache.
pub(super) fn one_line_a_page(pages: usize) -> Vec<usize> {
    let within = |page: usize| (page.wrapping_mul(0x9e37_79b9) >> 7) % (PAGE / LINE) * LINE;
    shuffled((0..pages).map(|page| page * PAGE + within(page)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_shuffled_list_has_the_same_places_in_another_order() {
        let places = lines(64 << 10);
        assert!(!places.is_sorted());
        let sorted: BTreeSet<usize> = places.into_iter().collect();
        assert!(sorted.into_iter().eq((0..1024).map(|line| line * LINE)));
    }

    #[test]
    fn memory_is_on_some_node_or_the_kernel_does_not_tell() {
        let memory = Memory::new(4 * PAGE, Pages::Small).unwrap();
        let every: Vec<NodeId> = (0..1024).map(NodeId).collect();
        if memory.share_elsewhere(&[]).is_some() {
            assert_eq!(memory.share_elsewhere(&[]), Some(1.0));
            assert_eq!(memory.share_elsewhere(&every), Some(0.0));
        }
    }

    #[test]
    fn a_chain_visits_every_place_and_closes() {
        let memory = Memory::new(4 * PAGE, Pages::Small).unwrap();
        let places = one_line_a_page(4);
        assert!(places.iter().map(|place| place / PAGE).collect::<BTreeSet<_>>().len() == 4);
        let mut chain = memory.chain(&lines(8 * LINE));
        let begin = chain.at;
        chain.follow(8);
        assert_eq!(chain.at, begin);
    }
}
