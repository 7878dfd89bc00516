//! The translation of virtual addresses to the simulator's line numbers, and the NUMA nodes of pages.
//!
//! Every touched range of 2 MiB of the program's memory gets the next block of line numbers. So lines are numbered
//! densely. Within 2 MiB they are numbered as the machine's physical addresses would index its caches with transparent
//! huge pages. A page of 4 KiB gets its node when it is first touched, by the page mapping (Sánchez Barrera et al., ICS
//! 2020, section 2.1.2). The translation look-aside buffer is modelled, and its entries also make the translation fast
//! here.

use super::directory::BLOCK_SHIFT;
use super::mapping::Mapping;
use std::collections::HashMap;
use std::hash::BuildHasher;

/// Lines of a page.
pub(crate) const PAGE_LINES: u32 = 1 << PAGE_LINE_SHIFT;
const PAGE_LINE_SHIFT: u32 = 6;
/// Pages of a block.
pub(crate) const BLOCK_PAGE_SHIFT: u32 = BLOCK_SHIFT - PAGE_LINE_SHIFT;
/// The number of blocks whose numbers are found without hashing.
const RECENT: usize = 1024;
pub(crate) const UNPLACED: u8 = u8::MAX;

/// The numbers of lines: blocks of 2 MiB in the order of their first use.
#[derive(Debug)]
pub(crate) struct Blocks {
    numbers: HashMap<u64, u32>,
    /// Some of `numbers`, by the low bits of the block: the block plus one (zero is empty) and its number.
    recent: Vec<(u64, u32)>,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self {
            numbers: HashMap::new(),
            recent: vec![(0, 0); RECENT],
        }
    }

    /// Blocks that are numbered by their position in `order`.
    pub(crate) fn in_order(order: &[u64]) -> Self {
        Self {
            numbers: order.iter().copied().zip(0..).collect(),
            ..Self::new()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The blocks, in the order of their numbers.
    pub(crate) fn order(&self) -> Vec<u64> {
        let mut blocks: Vec<(u32, u64)> = self.numbers.iter().map(|(&block, &number)| (number, block)).collect();
        blocks.sort_unstable();
        blocks.into_iter().map(|(_, block)| block).collect()
    }

    /// The number of a virtual line.
    #[inline]
    pub(crate) fn line(&mut self, virtual_line: u64) -> u32 {
        if let Some(line) = self.find_recent(virtual_line) {
            return line;
        }
        let block = virtual_line >> BLOCK_SHIFT;
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(block).or_insert(next);
        self.recent[block as usize % RECENT] = (block + 1, number);
        number << BLOCK_SHIFT | Self::within(virtual_line)
    }

    /// The number of a virtual line, where its block was used recently.
    #[inline]
    fn find_recent(&self, virtual_line: u64) -> Option<u32> {
        let block = virtual_line >> BLOCK_SHIFT;
        let (there, number) = self.recent[block as usize % RECENT];
        (there == block + 1).then_some(number << BLOCK_SHIFT | Self::within(virtual_line))
    }

    /// The number of a virtual line, if its block has a number.
    fn find(&self, virtual_line: u64) -> Option<u32> {
        self.find_recent(virtual_line).or_else(|| {
            let number = self.numbers.get(&(virtual_line >> BLOCK_SHIFT))?;
            Some(number << BLOCK_SHIFT | Self::within(virtual_line))
        })
    }

    fn within(virtual_line: u64) -> u32 {
        virtual_line as u32 & ((1 << BLOCK_SHIFT) - 1)
    }
}

/// The nodes of all pages.
#[derive(Debug)]
pub(crate) struct Pages {
    mapping: Mapping,
    /// The pages that were placed earlier, independently of the mapping; empty for a new program.
    earlier: HashMap<u64, u8>,
    blocks: Blocks,
    /// By page number: the node, or `UNPLACED`.
    placed: Vec<u8>,
}

impl Pages {
    pub(crate) fn new(mapping: Mapping) -> Self {
        Self {
            mapping,
            earlier: HashMap::new(),
            blocks: Blocks::new(),
            placed: vec![],
        }
    }

    /// The pages of a program that has run for a while, without their nodes: its blocks in the order of their numbers.
    pub(crate) fn resumed(mapping: Mapping, blocks: &[u64]) -> Self {
        Self {
            mapping,
            earlier: HashMap::new(),
            blocks: Blocks::in_order(blocks),
            placed: vec![UNPLACED; blocks.len() << BLOCK_PAGE_SHIFT],
        }
    }

    /// By page number: its node, or `UNPLACED`.
    pub(crate) fn nodes(&self) -> &[u8] {
        &self.placed
    }

    /// Puts each page on its node in `nodes`, by page number. The others stay.
    pub(crate) fn put(&mut self, nodes: &[u8]) {
        for (place, &node) in self.placed.iter_mut().zip(nodes) {
            if node != UNPLACED {
                *place = node;
            }
        }
    }

    /// These pages have already been touched, and are on these nodes.
    pub(crate) fn add_placed<S: BuildHasher>(&mut self, placed: &HashMap<u64, u8, S>) {
        self.earlier = placed.iter().map(|(&page, &node)| (page, node)).collect();
    }

    /// The number of blocks of line numbers so far.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The number of line numbers so far.
    pub(crate) fn lines(&self) -> usize {
        self.blocks.len() << BLOCK_SHIFT
    }

    /// The page number of virtual page `page`, which a thread on node `node` touches.
    pub(crate) fn number(&mut self, page: u64, node: usize) -> u32 {
        let number = self.blocks.line(page << PAGE_LINE_SHIFT) >> PAGE_LINE_SHIFT;
        let pages = self.blocks.len() << BLOCK_PAGE_SHIFT;
        if self.placed.len() < pages {
            self.placed.resize(pages, UNPLACED);
        }
        if self.placed[number as usize] == UNPLACED {
            self.placed[number as usize] = self.place(page, node);
        }
        number
    }

    /// The page number of virtual page `page`, if the program has touched it.
    pub(crate) fn touched(&mut self, page: u64) -> Option<u32> {
        let number = self.blocks.find(page << PAGE_LINE_SHIFT)? >> PAGE_LINE_SHIFT;
        let place = self.placed.get_mut(number as usize)?;
        if *place == UNPLACED {
            *place = *self.earlier.get(&page)?;
        }
        Some(number)
    }

    /// A thread on `node` has touched a line. Puts its page there, where the page has no node.
    #[inline]
    pub(crate) fn place_touched(&mut self, line: u32, node: usize) {
        let place = &mut self.placed[(line >> PAGE_LINE_SHIFT) as usize];
        if *place == UNPLACED {
            *place = node as u8;
        }
    }

    /// The number of a virtual line, where its block was used recently.
    #[inline]
    pub(crate) fn find_recent(&self, virtual_line: u64) -> Option<u32> {
        self.blocks.find_recent(virtual_line)
    }

    fn place(&self, page: u64, toucher: usize) -> u8 {
        let earlier = self.earlier.get(&page).copied();
        earlier.unwrap_or_else(|| self.mapping.node(page, toucher))
    }

    /// The node of the page that contains `line`.
    #[inline]
    pub(crate) fn node_of_line(&self, line: u32) -> usize {
        self.placed[(line >> PAGE_LINE_SHIFT) as usize] as usize
    }
}

/// One core's translation look-aside buffer: set-associative with true LRU, like the caches.
#[derive(Clone, Debug)]
pub(crate) struct TranslationBuffer {
    /// Virtual page plus one (zero is empty) and page number, the last used of a set first.
    entries: Vec<(u64, u32)>,
    ways: usize,
    mask: u64,
}

impl TranslationBuffer {
    pub(crate) fn new(entries: u32, ways: u32) -> Self {
        Self {
            entries: vec![(0, 0); entries as usize],
            ways: ways as usize,
            mask: u64::from(entries / ways) - 1,
        }
    }

    /// The memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.entries.as_slice())
    }

    /// The number of virtual page `page`; `None` if the buffer does not hold it.
    #[inline]
    pub(crate) fn find(&mut self, page: u64) -> Option<u32> {
        let base = (page & self.mask) as usize * self.ways;
        let (there, number) = self.entries[base];
        if there == page + 1 {
            return Some(number);
        }
        self.find_further(page, base)
    }

    #[inline(never)]
    fn find_further(&mut self, page: u64, base: usize) -> Option<u32> {
        let set = &mut self.entries[base..base + self.ways];
        let way = set.iter().position(|&(there, _)| there == page + 1)?;
        let entry = set[way];
        put_first(&mut set[..=way], entry);
        Some(entry.1)
    }

    /// Inserts a page as the least recently used of its set, where the set has room and does not hold it.
    pub(crate) fn append(&mut self, page: u64, number: u32) {
        let base = (page & self.mask) as usize * self.ways;
        let set = &mut self.entries[base..base + self.ways];
        if let Some(entry) = set.iter_mut().find(|(there, _)| *there == 0 || *there == page + 1)
            && entry.0 == 0
        {
            *entry = (page + 1, number);
        }
    }

    /// Inserts a page that the buffer does not hold.
    pub(crate) fn insert(&mut self, page: u64, number: u32) {
        let base = (page & self.mask) as usize * self.ways;
        let set = &mut self.entries[base..base + self.ways];
        put_first(set, (page + 1, number));
    }
}

/// Moves all entries by one position, which drops the last, and puts `entry` first. A set has few entries.
#[inline]
fn put_first(set: &mut [(u64, u32)], entry: (u64, u32)) {
    for place in (1..set.len()).rev() {
        set[place] = set[place - 1];
    }
    set[0] = entry;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_keeps_the_pages_that_were_used_last() {
        let mut buffer = TranslationBuffer::new(4, 2);
        buffer.insert(0, 10);
        buffer.insert(2, 12);
        assert_eq!(buffer.find(0), Some(10));
        buffer.insert(4, 14);
        assert_eq!(
            (buffer.find(0), buffer.find(2), buffer.find(4)),
            (Some(10), None, Some(14))
        );
    }
}
