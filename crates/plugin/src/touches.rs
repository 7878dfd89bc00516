//! The pages that the recorded program has touched. They let the first touch of a page be recorded outside windows too.
//!
//! The kernel places a page on the node of the thread that touches it first. If a recording has a window, this thread
//! has often initialised the data before the window. Outside windows, the plugin therefore looks up the page of each
//! access in a bitmap that all threads share: one bit per page, in leaves of 1 GiB that are allocated when they are
//! first needed. A thread waits for another only while a leaf is allocated. A page that the program unmaps or discards
//! is new when it is touched again.
//!
//! A thread collects adjacent pages into one range, and the range becomes one event.
//!
//! Inside windows the bitmap is not changed: accesses are recorded there, and a reader of the recording sees the first
//! touch. A page that was first touched in a window is reported again when it is touched after the window; the position
//! of the event shows which came first.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages of 4 KiB, the smallest size of x86-64.
const PAGE_SHIFT: u32 = 12;
pub(crate) const PAGE_BYTES: u64 = 1 << PAGE_SHIFT;
/// The number of pages in a leaf: 1 GiB.
const LEAF_PAGES: usize = 1 << 18;
const WORDS: usize = LEAF_PAGES / 64;
/// User space of x86-64 without five-level paging has 2^47 bytes.
const LEAVES: usize = 1 << (47 - 30);

type Leaf = Box<[AtomicU64]>;

/// A set of pages that threads change without a lock.
struct PageSet {
    leaves: [OnceLock<Leaf>; LEAVES],
}

impl PageSet {
    #[expect(clippy::large_stack_arrays, reason = "sets of pages are static")]
    const fn new() -> Self {
        Self {
            leaves: [const { OnceLock::new() }; LEAVES],
        }
    }

    /// Adds a page. Returns whether it was new. A page above user space is never new.
    #[inline]
    fn insert(&self, page: u64) -> bool {
        let Some(leaf) = self.leaves.get(page as usize / LEAF_PAGES) else {
            return false;
        };
        let leaf = leaf.get_or_init(|| (0..WORDS).map(|_| AtomicU64::new(0)).collect());
        let (word, bit) = position(page);
        let word = &leaf[word];
        // Most pages are in the set: a load leaves their cache line shared.
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Whether the page is in the set.
    fn contains(&self, page: u64) -> bool {
        let (word, bit) = position(page);
        self.leaf(page)
            .is_some_and(|leaf| leaf[word].load(Ordering::Relaxed) & bit != 0)
    }

    /// Removes the pages that overlap these addresses.
    fn remove(&self, addresses: Range<u64>) {
        let end = addresses.end.div_ceil(PAGE_BYTES).min((LEAVES * LEAF_PAGES) as u64);
        let mut page = addresses.start >> PAGE_SHIFT;
        while page < end {
            match self.leaf(page) {
                None => page = (page / LEAF_PAGES as u64 + 1) * LEAF_PAGES as u64,
                Some(leaf) => {
                    let (word, bit) = position(page);
                    if bit == 1 && end - page >= 64 {
                        leaf[word].store(0, Ordering::Relaxed);
                        page += 64;
                    } else {
                        leaf[word].fetch_and(!bit, Ordering::Relaxed);
                        page += 1;
                    }
                }
            }
        }
    }

    fn leaf(&self, page: u64) -> Option<&Leaf> {
        self.leaves.get(page as usize / LEAF_PAGES)?.get()
    }
}

/// The word of a page in its leaf, and its bit there.
fn position(page: u64) -> (usize, u64) {
    let page = page as usize % LEAF_PAGES;
    (page / 64, 1 << (page % 64))
}

/// Pages that the program has touched outside windows.
static TOUCHED: PageSet = PageSet::new();

/// The program has unmapped or discarded these addresses.
pub(crate) fn forget(address: u64, length: u64) {
    TOUCHED.remove(address..address.saturating_add(length));
}

/// Whether the page was touched, and not unmapped or discarded since.
pub(crate) fn is_touched(page: u64) -> bool {
    TOUCHED.contains(page)
}

/// Adjacent pages that a thread touched first, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touches {
    pub(crate) pages: u64,
    pub(crate) first: u64,
    /// The number of events of all threads when the first of these pages was touched.
    pub(crate) since: u64,
}

/// The pages of an access or of a range of memory. Empty for an empty range.
pub(crate) fn pages_of(address: u64, bytes: u64) -> Range<u64> {
    let end = address.saturating_add(bytes).div_ceil(PAGE_BYTES);
    address >> PAGE_SHIFT..end
}

/// The pages that one thread touches first: a range that may still grow.
#[derive(Debug, Default)]
pub(crate) struct Toucher {
    open: Option<Touches>,
}

impl Toucher {
    /// The thread touches a page. Returns the previous range if it has ended. `now` returns the number of events of all
    /// threads.
    #[inline]
    pub(crate) fn touch(&mut self, page: u64, now: impl FnOnce() -> u64) -> Option<Touches> {
        if TOUCHED.insert(page) {
            self.add(page, now)
        } else {
            None
        }
    }

    #[cold]
    fn add(&mut self, page: u64, now: impl FnOnce() -> u64) -> Option<Touches> {
        if let Some(open) = &mut self.open
            && open.first + open.pages == page
        {
            open.pages += 1;
            return None;
        }
        self.open.replace(Touches {
            pages: 1,
            first: page,
            since: now(),
        })
    }

    /// Ends and returns the open range.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Touches> {
        self.open.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each test uses a separate gibibyte.
    static SET: PageSet = PageSet::new();

    #[test]
    fn a_page_is_new_once_until_it_is_removed() {
        assert!(SET.insert(5) && !SET.insert(5) && SET.contains(5));
        assert!(!SET.contains(5 + LEAF_PAGES as u64) && SET.insert(5 + LEAF_PAGES as u64));
        SET.remove(5 * PAGE_BYTES..5 * PAGE_BYTES + 1);
        assert!(SET.insert(5) && !SET.insert(5 + LEAF_PAGES as u64));
    }

    #[test]
    fn a_range_that_is_removed_ends_where_it_ends() {
        let all = 2 * LEAF_PAGES as u64..2 * LEAF_PAGES as u64 + 1000;
        for page in all.clone() {
            SET.insert(page);
        }
        SET.remove((all.start + 10) * PAGE_BYTES..(all.start + 900) * PAGE_BYTES);
        let new: Vec<u64> = all.clone().filter(|&page| SET.insert(page)).collect();
        assert_eq!(new, (all.start + 10..all.start + 900).collect::<Vec<u64>>());
    }

    #[test]
    fn an_address_outside_user_space_is_never_new() {
        let page = u64::MAX >> PAGE_SHIFT;
        SET.remove(u64::MAX - 8192..u64::MAX);
        assert!(!SET.insert(page) && !SET.contains(page));
    }

    #[test]
    fn pages_that_adjoin_become_one_range_with_the_position_of_the_first() {
        let range = |first, pages, since| Some(Touches { pages, first, since });
        let mut toucher = Toucher::default();
        for (page, now) in [(7, 3), (8, 4), (9, 6)] {
            assert_eq!(toucher.add(page, || now), None);
        }
        assert_eq!(toucher.add(20, || 9), range(7, 3, 3));
        assert_eq!(toucher.add(21, || 10), None);
        assert_eq!(toucher.take(), range(20, 2, 9));
        assert_eq!(toucher.take(), None);
    }

    #[test]
    fn an_access_across_a_border_lies_in_both_pages_and_an_empty_one_in_none() {
        assert_eq!(pages_of(PAGE_BYTES - 4, 8), 0..2);
        assert_eq!(pages_of(PAGE_BYTES, 8), 1..2);
        assert!(pages_of(PAGE_BYTES, 0).is_empty());
    }
}
