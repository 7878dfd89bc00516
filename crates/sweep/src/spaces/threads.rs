//! `threads`: all placements of the threads.

use super::{Request, Space};
use anyhow::{Result, bail};
use num_bigint::BigUint;
use pinfold_core::Pinning;
use pinfold_core::placement::Placements;
use pinfold_core::placement::different;

pub(super) const SPACE: Space = Space {
    name: "threads",
    about: "all placements of the threads",
    limited: true,
    thread_counts: None,
    points: |request| {
        let placements = placements(request)?;
        Ok(request.pinned(placements))
    },
};

/// More placements than this need a limit: twice the largest space of `AutoFinity`, 1941.
const MOST_PLACEMENTS: u32 = 4096;

/// All placements, or at most `limit` of them, chosen for the largest differences. Threads that outnumber PUs take
/// turns.
fn placements(request: &Request<'_>) -> Result<Vec<Pinning>> {
    let (topology, threads) = (request.machine().topology(), request.threads());
    let placements = Placements::new(topology, threads.min(topology.allowed_pus().len()))?;
    let count = placements.count();
    match request.limit {
        Some(limit) if count > BigUint::from(limit) => Ok(different::most_different(topology, threads, limit)),
        None if count > BigUint::from(MOST_PLACEMENTS) => bail!(
            "{threads} threads have {count} placements on {}, more than the {MOST_PLACEMENTS} that are swept without asking: \
             --limit N takes the N most different ones",
            topology.name()
        ),
        _ => Ok(placements.iter().collect()),
    }
}
