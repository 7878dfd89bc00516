//! The unpinned program of a table: the row that shows how the program runs before a policy changes anything.
//!
//! In this order:
//!
//! 1. a row that was measured with unpinned threads;
//! 2. the row that the table marks as its baseline;
//! 3. an assumption: the most threads with a core each, on the most nodes, `scatter`, with first touch and all
//!    prefetchers on. Without first touch the pages are those of the next mapping that was measured (`PAGES`).
//!
//! The user can give the number of threads.

use super::measured::Key;
use super::pages::{self, SINGLE};
use super::placement::Placement;
use super::program::{TableError, TableProgram};
use pinfold_core::{PageMapping, PageMapping as Map, Prefetchers, ThreadMap, UnpinnedSource};

/// The pages of the unpinned program, the most likely first.
const PAGES: [PageMapping; 7] = [
    Map::FirstTouch,
    Map::Local,
    Map::Locality,
    Map::Interleave,
    Map::Balance,
    SINGLE,
    Map::Remote,
];

impl TableProgram {
    /// The configuration of the unpinned program, with this number of threads if one is given.
    pub(super) fn unpinned(&self, threads: Option<usize>) -> Result<(Key, UnpinnedSource), TableError> {
        let fits = |key: &Key| threads.is_none_or(|threads| self.threads(key.placement) == threads);
        let keys: Vec<Key> = self.complete().filter(fits).collect();
        let is_unpinned = |key: &&Key| matches!(self.placement_at(key.placement), Placement::Unpinned(_));
        let measured: Vec<Key> = keys.iter().filter(is_unpinned).copied().collect();
        let marked: Vec<Key> = keys.iter().filter(|key| self.marked.contains(key)).copied().collect();
        let found = [
            (measured, UnpinnedSource::Measured),
            (marked, UnpinnedSource::Baseline),
            (keys, UnpinnedSource::Assumed),
        ];
        let best = found
            .into_iter()
            .find_map(|(keys, source)| Some((keys.into_iter().rev().max_by_key(|key| self.likelihood(key))?, source)));
        best.ok_or_else(|| {
            let counts: Vec<String> = self.thread_counts().iter().map(ToString::to_string).collect();
            TableError::NoConfiguration {
                program: self.command.clone(),
                threads: threads.map_or_else(String::new, |threads| format!(" with {threads} threads")),
                known: counts.join(", "),
            }
        })
    }

    /// How likely an operating system places a program so; a greater value is more likely.
    fn likelihood(&self, key: &Key) -> impl Ord + use<> {
        let layout = match self.placement_at(key.placement) {
            Placement::Layout(layout) => Some(*layout),
            Placement::Pinned(pinning) => self.places.layout(pinning.pus()).ok(),
            Placement::Unpinned(_) => None,
        };
        let alone = layout.is_none_or(|layout| layout.per_core == 1);
        let spread = layout.map(|layout| (layout.nodes, layout.map == ThreadMap::Scatter));
        let pages = PAGES
            .iter()
            .position(|&pages| pages == key.pages)
            .unwrap_or(PAGES.len());
        let pages = PAGES.len() - pages;
        let prefetchers = key.prefetchers == Prefetchers::ALL;
        (alone, self.threads(key.placement), spread, pages, prefetchers)
    }

    /// A configuration in words.
    pub(super) fn text(&self, key: &Key) -> String {
        format!(
            "{}, with pages {} and prefetchers {}",
            self.placement_at(key.placement),
            pages::name(key.pages),
            key.prefetchers
        )
    }
}
