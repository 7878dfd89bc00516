//! `ics20`: the configurations of Sánchez Barrera et al. (ICS 2020). They differ in the number of threads too.

use super::Space;
use pinfold_sim::sweep::ics20;

pub(super) const SPACE: Space = Space {
    name: "ics20",
    about: "numbers of threads, nodes, thread maps, page mappings and all prefetcher settings, from a recording of the program \
            with each number of threads: a quarter, a half and all of the cores",
    limited: false,
    thread_counts: Some(|model| Ok(ics20::thread_counts(model)?.to_vec())),
    points: |request| Ok(ics20::points(request.model, request.threads)?),
};
