//! Thread maps on models.

use crate::model::Model;
use pinfold_core::{Pinning, ThreadMap};

/// `pinfold_core::map_threads` on a model.
pub fn map_threads(model: &Model, threads: usize, nodes: usize, map: ThreadMap) -> Option<Pinning> {
    pinfold_core::map_threads(&model.topology(), threads, nodes, map)
}
