//! An engine that begins in the middle of an execution, and its counts of a piece.

use super::Engine;
use crate::model::Prefetcher;
use crate::window::configuration::WindowConfiguration;
use crate::window::directory::BLOCK_LINES;
use crate::window::mapping::Mapping;
use crate::window::options::WindowError;
use crate::window::pages::{PAGE_LINES, Pages};
use crate::window::piece::{PieceResult, Running};
use crate::window::state::CacheState;
use std::sync::OnceLock;

impl<const W: usize> Engine<'_, W> {
    /// Puts the machine into the state that a running program has left.
    pub(super) fn resume(
        &mut self,
        configuration: &WindowConfiguration,
        running: &Running<'_>,
    ) -> Result<(), WindowError> {
        if running.blocks.len() > self.settings[0].most_blocks {
            return Err(self.too_much_memory());
        }
        let nodes: Vec<usize> = self
            .threads
            .iter()
            .map(|thread| self.system.topology.node_of_core(self.pus[thread.pu].core))
            .collect();
        let mapping = Mapping::new(self.model, configuration.pages, None, &nodes);
        self.system.pages = Pages::resumed(mapping, running.blocks);
        for _ in running.blocks {
            self.system.directory.add_block();
        }
        if let Some(state) = running.state.and_then(OnceLock::get) {
            self.put(state);
        } else {
            let cores: Vec<usize> = self.threads.iter().map(|thread| self.pus[thread.pu].core).collect();
            let adjacent = self.settings[0].prefetchers[Prefetcher::Adjacent as usize];
            self.system.restore(running.past, &cores, adjacent);
            self.restore_translations(running, &cores);
            if let Some(kept) = running.state {
                kept.get_or_init(|| self.state());
            }
        }
        self.system.pages.put(running.placed);
        Ok(())
    }

    /// What the past has left, before pages are put on their nodes.
    fn state(&self) -> CacheState {
        CacheState {
            caches: self.system.caches.state(),
            directory: self.system.directory.state(),
            translations: self.cores.iter().map(|core| core.translations.clone()).collect(),
            touchers: self.system.pages.nodes().to_vec(),
        }
    }

    /// Puts the machine, whose caches are empty, into a kept state.
    fn put(&mut self, state: &CacheState) {
        self.system.caches.put(&state.caches);
        self.system.directory.put(&state.directory);
        for (core, translations) in self.cores.iter_mut().zip(&state.translations) {
            core.translations.clone_from(translations);
        }
        self.system.pages.put(&state.touchers);
    }

    /// Fills the translation buffers of the cores with the pages that their threads used last.
    fn restore_translations(&mut self, running: &Running<'_>, cores: &[usize]) {
        let block_lines = BLOCK_LINES as u64;
        // A buffer is full after a few times as many touches of other pages as it has entries.
        let mut left: Vec<u32> = self
            .cores
            .iter()
            .map(|_| self.model.tlb.entries.value().0 * FULL_AFTER)
            .collect();
        let mut last: Vec<u64> = vec![u64::MAX; cores.len()];
        for touch in running.past.iter().copied().flatten() {
            let core = cores[usize::from(touch.thread)];
            if left[core] == 0 {
                if left.iter().all(|&left| left == 0) {
                    break;
                }
                continue;
            }
            let (block, within) = (touch.line as usize / BLOCK_LINES, u64::from(touch.line) % block_lines);
            let page = (running.blocks[block] * block_lines + within) / u64::from(PAGE_LINES);
            if last[usize::from(touch.thread)] != page {
                last[usize::from(touch.thread)] = page;
                left[core] -= 1;
                self.cores[core].translations.append(page, touch.line / PAGE_LINES);
            }
        }
    }

    /// What was counted.
    pub(super) fn piece(self) -> PieceResult {
        PieceResult {
            threads: self.counted(),
            released: self.teams.iter().map(|team| team.released).sum(),
            regions: self.regions.totals,
        }
    }
}

/// See `restore_translations`.
const FULL_AFTER: u32 = 16;
