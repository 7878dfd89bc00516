//! One set-associative cache: tags and flags in one flat array.
//!
//! A way is one 32-bit word: the flags in the low bits, and above them the tag plus one, so that an empty way is zero.
//! The ways of a set are ordered by their use, the last used first. A hit moves its word to the front; an insertion
//! shifts the set by one and evicts the last word. This is true LRU without time stamps, and a set of 16 ways is one
//! line of the host's cache.

use super::host::{self, position};
use super::state::Sparse;

/// The line is newer than the copies in the outer levels.
pub(crate) const DIRTY: u32 = 1;
/// The core may write the line without a request: MESI's E and M.
pub(crate) const WRITABLE: u32 = 2;
/// The prefetcher that brought the line, plus one. Zero once the line was used, or when it came on demand.
pub(crate) const PREFETCH: u32 = 0b111 << PREFETCH_SHIFT;
pub(crate) const PREFETCH_SHIFT: u32 = 2;
const TAG_SHIFT: u32 = 5;
const FLAGS: u32 = (1 << TAG_SHIFT) - 1;

/// An evicted line with its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub(crate) line: u32,
    pub(crate) flags: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Cache {
    words: Vec<u32>,
    ways: usize,
    sets: u32,
    /// The shift that replaces a division by `sets`, where `sets` is a power of two.
    shift: Option<u32>,
}

impl Cache {
    /// A cache of `lines` lines; `lines` is a multiple of `ways`.
    pub(crate) fn new(lines: u64, ways: u32) -> Self {
        let sets = u32::try_from(lines / u64::from(ways)).expect("a cache has fewer than 2^32 sets");
        Self {
            words: vec![0; sets as usize * ways as usize],
            ways: ways as usize,
            sets,
            shift: sets.is_power_of_two().then(|| sets.trailing_zeros()),
        }
    }

    /// The highest line that the words' tags can hold.
    pub(crate) fn highest_line(&self) -> u32 {
        let tags = (1u64 << (32 - TAG_SHIFT)) - 1;
        u32::try_from(tags * u64::from(self.sets) - 1).unwrap_or(u32::MAX)
    }

    /// The position of the line's set, the number of the set, and the line's tag.
    #[inline]
    fn place(&self, line: u32) -> (usize, u32, u32) {
        let (set, tag) = match self.shift {
            Some(shift) => (line & (self.sets - 1), line >> shift),
            None => (line % self.sets, line / self.sets),
        };
        (set as usize * self.ways, set, (tag + 1) << TAG_SHIFT)
    }

    /// The line of a word in a set.
    #[inline]
    fn line(&self, set: u32, word: u32) -> u32 {
        let tag = (word >> TAG_SHIFT) - 1;
        match self.shift {
            Some(shift) => tag << shift | set,
            None => tag * self.sets + set,
        }
    }

    /// The flags of `line`, which becomes the last used; `None` if the cache does not hold it.
    #[inline]
    pub(crate) fn touch(&mut self, line: u32) -> Option<&mut u32> {
        let (base, _, tag) = self.place(line);
        if self.words[base] & !FLAGS != tag && !self.bring_forward(base, tag) {
            return None;
        }
        Some(&mut self.words[base])
    }

    /// Moves the word with this tag to the front of its set. It is not the first. Returns whether it exists.
    #[inline(never)]
    fn bring_forward(&mut self, base: usize, tag: u32) -> bool {
        let set = &mut self.words[base..base + self.ways];
        let Some(way) = position(set, !FLAGS, tag) else {
            return false;
        };
        let word = set[way];
        shift(&mut set[..=way]);
        set[0] = word;
        true
    }

    /// The flags of `line`, without a change of its age.
    #[inline]
    pub(crate) fn peek(&mut self, line: u32) -> Option<&mut u32> {
        let (base, _, tag) = self.place(line);
        let set = &mut self.words[base..base + self.ways];
        position(set, !FLAGS, tag).map(|way| &mut set[way])
    }

    /// Prefetches the set of `line` into the host's caches.
    #[inline]
    pub(crate) fn host_prefetch(&self, line: u32) {
        let (base, ..) = self.place(line);
        // Sixteen words are one line of the host's cache.
        for way in (0..self.ways).step_by(16) {
            host::prefetch(&self.words[base + way]);
        }
        host::prefetch(&self.words[base + self.ways - 1]);
    }

    /// The line that an insertion of `line` would evict.
    #[inline]
    pub(crate) fn candidate(&self, line: u32) -> Option<u32> {
        let (base, set, _) = self.place(line);
        let last = self.words[base + self.ways - 1];
        (last != 0).then(|| self.line(set, last))
    }

    /// Whether the cache holds `line`.
    #[inline]
    pub(crate) fn holds(&self, line: u32) -> bool {
        let (base, _, tag) = self.place(line);
        position(&self.words[base..base + self.ways], !FLAGS, tag).is_some()
    }

    /// Inserts `line`, which the cache does not hold, as the last used. Returns the evicted line.
    #[inline]
    pub(crate) fn insert(&mut self, line: u32, flags: u32) -> Option<Evicted> {
        let (base, number, tag) = self.place(line);
        let ways = self.ways;
        let set = &mut self.words[base..base + ways];
        let last = set[ways - 1];
        shift(set);
        set[0] = tag | flags;
        (last != 0).then(|| Evicted {
            line: self.line(number, last),
            flags: last & FLAGS,
        })
    }

    /// The contents, for `put`.
    pub(crate) fn state(&self) -> Sparse {
        Sparse::of(&self.words)
    }

    /// Fills the empty cache with the contents of one of the same geometry.
    pub(crate) fn put(&mut self, state: &Sparse) {
        state.copy_to(&mut self.words);
    }

    /// The number of lines that fit.
    pub(crate) fn capacity(&self) -> usize {
        self.words.len()
    }

    /// Inserts `line`, which the cache does not hold, as the least recently used of its set. Returns whether there was
    /// room.
    #[inline]
    pub(crate) fn append(&mut self, line: u32, flags: u32) -> bool {
        let (base, _, tag) = self.place(line);
        let set = &mut self.words[base..base + self.ways];
        if set[self.ways - 1] != 0 {
            return false;
        }
        let Some(way) = position(set, u32::MAX, 0) else {
            return false;
        };
        set[way] = tag | flags;
        true
    }

    /// Removes `line`. Returns its flags.
    #[inline]
    pub(crate) fn remove(&mut self, line: u32) -> Option<u32> {
        let (base, _, tag) = self.place(line);
        let set = &mut self.words[base..base + self.ways];
        let way = position(set, !FLAGS, tag)?;
        let flags = set[way] & FLAGS;
        set.copy_within(way + 1.., way);
        set[self.ways - 1] = 0;
        Some(flags)
    }

    /// All lines in the cache, with their flags.
    #[cfg(test)]
    pub(crate) fn contents(&self) -> Vec<(u32, u32)> {
        let mut contents = vec![];
        for (index, &word) in self.words.iter().enumerate() {
            if word != 0 {
                let set = (index / self.ways) as u32;
                contents.push((self.line(set, word), word & FLAGS));
            }
        }
        contents
    }
}

/// Moves all words by one position. The first word stays at the front, too.
#[inline]
fn shift(set: &mut [u32]) {
    let last = set.len() - 1;
    if last < FEW {
        for way in (0..last).rev() {
            set[way + 1] = set[way];
        }
    } else {
        set.copy_within(0..last, 1);
    }
}

/// Up to this number of words, a loop that moves single words is faster than the C library.
const FEW: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_least_recently_used_line_of_the_set_goes() {
        let mut cache = Cache::new(8, 2);
        assert_eq!(cache.insert(0, 0), None);
        assert_eq!(cache.insert(4, DIRTY), None);
        assert!(cache.touch(0).is_some());
        assert_eq!(cache.insert(8, 0), Some(Evicted { line: 4, flags: DIRTY }));
        assert!(cache.holds(0) && cache.holds(8) && !cache.holds(4));
    }

    #[test]
    fn looking_without_touching_leaves_the_age_as_it_was() {
        let mut cache = Cache::new(2, 2);
        cache.insert(0, 0);
        cache.insert(1, 0);
        assert!(cache.peek(0).is_some());
        assert_eq!(cache.insert(2, 0).map(|evicted| evicted.line), Some(0));
    }

    proptest! {
        /// Compared with a simple LRU: one vector for each set.
        #[test]
        fn a_cache_is_a_list_a_set(
            lines in proptest::collection::vec(0u32..200, 1..400),
            ways in 1u32..9,
            sets in 1u64..13,
        ) {
            let mut cache = Cache::new(sets * u64::from(ways), ways);
            let mut plain: Vec<Vec<u32>> = vec![vec![]; sets as usize];
            for line in lines {
                let set = &mut plain[(u64::from(line) % sets) as usize];
                let hit = set.iter().position(|&there| there == line);
                prop_assert_eq!(cache.holds(line), hit.is_some());
                if let Some(way) = hit {
                    set.remove(way);
                    prop_assert!(cache.touch(line).is_some());
                } else {
                    let evicted = cache.insert(line, 0).map(|evicted| evicted.line);
                    let expected = if set.len() == ways as usize { set.pop() } else { None };
                    prop_assert_eq!(evicted, expected);
                }
                set.insert(0, line);
            }
        }

        #[test]
        fn a_line_that_is_taken_out_is_gone_and_the_others_stay(ways in 1u32..9, which in 0u32..8) {
            let mut cache = Cache::new(u64::from(ways), ways);
            for line in 0..ways {
                cache.insert(line, 0);
            }
            let which = which % ways;
            prop_assert_eq!(cache.remove(which), Some(0));
            let mut left: Vec<u32> = cache.contents().iter().map(|&(line, _)| line).collect();
            left.sort_unstable();
            let expected: Vec<u32> = (0..ways).filter(|&line| line != which).collect();
            prop_assert_eq!(left, expected);
        }
    }
}
