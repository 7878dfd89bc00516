//! Which caches hold which line: one entry for each line, found by the line's number without hashing.
//!
//! An entry has a bit for each active core (a core whose PUs run a thread) that holds the line in a private cache, a
//! bit for each active LLC domain whose LLC holds it, the core that owns it (MESI's E and M, MOESI's O), and the domain
//! whose LLC has the newest data when memory does not. Blocks have the entries of 2 MiB of the program's memory. They
//! are created at the first access; the host commits only the used part of a block.
//!
//! The real directories of the modelled machines (snoop filters, HT Assist's probe filter, an inclusive LLC's core
//! bits) drop lines when they are full; this directory never does.

use super::host;
use super::state::Scattered;

/// The state of a line. `W` words hold a bit for each core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<const W: usize> {
    /// Active cores that hold the line.
    pub(crate) cores: [u64; W],
    /// Active domains whose LLC holds the line.
    pub(crate) domains: u32,
    owner: u16,
    dirty: u8,
}

/// The number of LLC domains that fit an entry.
pub(crate) const DOMAINS: usize = 32;

impl<const W: usize> Entry<W> {
    pub(crate) const EMPTY: Self = Self {
        cores: [0; W],
        domains: 0,
        owner: 0,
        dirty: 0,
    };

    /// The core that holds the line in state E, M or O.
    #[inline]
    pub(crate) fn owner(&self) -> Option<usize> {
        (self.owner as usize).checked_sub(1)
    }

    #[inline]
    pub(crate) fn set_owner(&mut self, core: Option<usize>) {
        self.owner = core.map_or(0, |core| core as u16 + 1);
    }

    /// The domain whose LLC has the newest data, which memory does not have.
    #[inline]
    pub(crate) fn dirty(&self) -> Option<usize> {
        (self.dirty as usize).checked_sub(1)
    }

    #[inline]
    pub(crate) fn set_dirty(&mut self, domain: Option<usize>) {
        self.dirty = domain.map_or(0, |domain| domain as u8 + 1);
    }

    #[inline]
    pub(crate) fn add_core(&mut self, core: usize) {
        self.cores[core / 64] |= 1 << (core % 64);
    }

    #[inline]
    pub(crate) fn remove_core(&mut self, core: usize) {
        self.cores[core / 64] &= !(1 << (core % 64));
    }

    #[inline]
    pub(crate) fn has_core(&self, core: usize) -> bool {
        self.cores[core / 64] & 1 << (core % 64) != 0
    }

    #[inline]
    pub(crate) fn has_domain(&self, domain: usize) -> bool {
        self.domains & 1 << domain != 0
    }

    #[inline]
    pub(crate) fn add_domain(&mut self, domain: usize) {
        self.domains |= 1 << domain;
    }

    #[inline]
    pub(crate) fn remove_domain(&mut self, domain: usize) {
        self.domains &= !(1 << domain);
    }

    #[inline]
    pub(crate) fn no_core(&self) -> bool {
        self.cores.iter().all(|&word| word == 0)
    }

    /// The cores, lowest first.
    pub(crate) fn each_core(&self) -> impl Iterator<Item = usize> + use<W> {
        let words = self.cores;
        (0..W).flat_map(move |word| Bits(words[word]).map(move |bit| word * 64 + bit))
    }

    /// The domains, lowest first.
    pub(crate) fn each_domain(&self) -> impl Iterator<Item = usize> + use<W> {
        Bits(u64::from(self.domains))
    }
}

/// The set bits of a word, lowest first.
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        (self.0 != 0).then(|| {
            let bit = self.0.trailing_zeros() as usize;
            self.0 &= self.0 - 1;
            bit
        })
    }
}

/// Lines of a block: 2 MiB.
pub(crate) const BLOCK_LINES: usize = 1 << BLOCK_SHIFT;
pub(crate) const BLOCK_SHIFT: u32 = 15;

/// The most cores and domains that fit an entry of one word.
const PACKED_CORES: usize = 32;
const PACKED_DOMAINS: usize = 16;

/// Entries are kept as plain words. So a new block is zeroed memory, which the host commits only when it is used.
#[derive(Clone, Debug)]
pub(crate) struct Directory<const W: usize> {
    blocks: Vec<Vec<u64>>,
    /// Whether entries have one word: this halves the memory, so the host's caches hold twice as many entries.
    packed: bool,
}

impl<const W: usize> Directory<W> {
    /// A directory for these numbers of active cores and active domains.
    pub(crate) fn new(cores: usize, domains: usize) -> Self {
        Self {
            blocks: vec![],
            packed: cores <= PACKED_CORES && domains <= PACKED_DOMAINS,
        }
    }

    fn entry_words(&self) -> usize {
        if self.packed { 1 } else { W + 1 }
    }

    /// Adds a block after the others.
    pub(crate) fn add_block(&mut self) {
        self.blocks.push(vec![0; BLOCK_LINES * self.entry_words()]);
    }

    /// The entries of each block, for `put`.
    pub(crate) fn state(&self) -> Vec<Scattered> {
        self.blocks.iter().map(|block| Scattered::of(block)).collect()
    }

    /// Fills the empty directory with the entries of one for the same cores and domains, with the same blocks.
    pub(crate) fn put(&mut self, state: &[Scattered]) {
        for (block, entries) in self.blocks.iter_mut().zip(state) {
            entries.copy_to(block);
        }
    }

    /// Prefetches the line's entry into the host's caches.
    #[inline]
    pub(crate) fn host_prefetch(&self, line: u32) {
        let at = (line as usize & (BLOCK_LINES - 1)) * self.entry_words();
        host::prefetch(&self.blocks[(line >> BLOCK_SHIFT) as usize][at]);
    }

    #[inline]
    pub(crate) fn get(&self, line: u32) -> Entry<W> {
        let block = &self.blocks[(line >> BLOCK_SHIFT) as usize];
        let at = line as usize & (BLOCK_LINES - 1);
        let mut cores = [0; W];
        if self.packed {
            let word = block[at];
            cores[0] = word & 0xffff_ffff;
            return Entry {
                cores,
                domains: (word >> 32) as u32 & 0xffff,
                owner: (word >> 48) as u16 & 0xff,
                dirty: (word >> 56) as u8,
            };
        }
        let words = &block[at * (W + 1)..][..=W];
        cores.copy_from_slice(&words[..W]);
        let rest = words[W];
        Entry {
            cores,
            domains: rest as u32,
            owner: (rest >> 32) as u16,
            dirty: (rest >> 48) as u8,
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, line: u32, entry: Entry<W>) {
        let block = &mut self.blocks[(line >> BLOCK_SHIFT) as usize];
        let at = line as usize & (BLOCK_LINES - 1);
        let (domains, owner, dirty) = (u64::from(entry.domains), u64::from(entry.owner), u64::from(entry.dirty));
        if self.packed {
            block[at] = entry.cores[0] | domains << 32 | owner << 48 | dirty << 56;
            return;
        }
        let words = &mut block[at * (W + 1)..][..=W];
        words[..W].copy_from_slice(&entry.cores);
        words[W] = domains | owner << 32 | dirty << 48;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry with the highest of these cores and domains is read as it was written, and its neighbour does not
    /// change.
    fn keeps<const W: usize>(cores: usize, domains: usize) {
        let mut directory = Directory::<W>::new(cores, domains);
        directory.add_block();
        directory.add_block();
        let mut entry = Entry::EMPTY;
        entry.add_core(3);
        entry.add_core(cores - 1);
        entry.add_domain(domains - 1);
        entry.set_owner(Some(cores - 1));
        entry.set_dirty(Some(domains - 1));
        let line = BLOCK_LINES as u32 + 7;
        directory.set(line, entry);
        assert_eq!(directory.get(line), entry);
        assert_eq!(directory.get(line - 1), Entry::EMPTY);
        assert_eq!(directory.get(line + 1), Entry::EMPTY);
        assert_eq!(directory.get(line).each_core().collect::<Vec<_>>(), [3, cores - 1]);
    }

    #[test]
    fn an_entry_of_any_size_is_read_as_it_was_written() {
        keeps::<1>(PACKED_CORES, PACKED_DOMAINS);
        keeps::<1>(PACKED_CORES + 1, PACKED_DOMAINS);
        keeps::<1>(PACKED_CORES, PACKED_DOMAINS + 1);
        keeps::<1>(64, DOMAINS);
        keeps::<2>(128, DOMAINS);
    }
}
