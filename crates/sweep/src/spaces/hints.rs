//! `hints`: the placements of the eight affinity hints, including packed and distributed.

use super::Space;
use pinfold_core::hint::AffinityHint;
use pinfold_core::placement::PlacementError;
use pinfold_core::{Pinning, Topology};

pub(super) const SPACE: Space = Space {
    name: "hints",
    about: "the placements of the eight affinity hints, including packed and distributed",
    limited: false,
    thread_counts: None,
    points: |request| {
        let placements = hinted(request.machine().topology(), request.threads())?;
        Ok(request.pinned(placements))
    },
};

/// The placement of each affinity hint; several may be equal. Threads that outnumber PUs take turns.
fn hinted(topology: &Topology, threads: usize) -> Result<Vec<Pinning>, PlacementError> {
    let placed = threads.min(topology.allowed_pus().len());
    AffinityHint::ALL
        .iter()
        .map(|hint| hint.pinning(topology, placed))
        .collect()
}
