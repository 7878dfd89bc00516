//! The states of caches before pieces, kept for the configurations of one placement.

use crate::window::CacheState;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The most memory of the states of a placement with adjacent lines, and of those without, in bytes. On `gold-6142x2` a
/// state has up to 20 MiB: 5 of the caches, 14 of the directory and 1 of the translation buffers. A program has about 48
/// pieces that may be simulated.
const MOST_BYTES: usize = 384 << 20;

/// What a program has left in the caches of a machine before each of its pieces, with its threads on certain PUs.
///
/// To make a state from the program's past takes longer than most pieces. The state does not depend on page mappings
/// and on prefetchers other than that of adjacent lines, so configurations that differ only in these share it. Some
/// threads may use it at the same time.
#[derive(Default)]
pub struct PieceStates {
    states: Mutex<BTreeMap<Key, Arc<OnceLock<CacheState>>>>,
}

/// A piece, and whether adjacent lines are prefetched.
type Key = (usize, bool);

impl PieceStates {
    /// The place for the state before a piece; `None` if the memory for states is used up. `adjacent`: whether adjacent
    /// lines are prefetched.
    pub(super) fn place(&self, piece: usize, adjacent: bool) -> Option<Arc<OnceLock<CacheState>>> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (piece, adjacent);
        if let Some(state) = states.get(&key) {
            return Some(Arc::clone(state));
        }
        let alike = states.iter().filter(|((_, of), _)| *of == adjacent);
        let bytes: usize = alike.filter_map(|(_, state)| state.get()).map(CacheState::bytes).sum();
        (bytes < MOST_BYTES).then(|| Arc::clone(states.entry(key).or_default()))
    }
}
