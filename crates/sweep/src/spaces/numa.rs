//! `numa` and `numa+prefetch`: nodes, thread maps and page mappings, alone and with all prefetcher settings.

use super::Space;
use pinfold_sim::sweep::space;

pub(super) const NUMA: Space = Space {
    name: "numa",
    about: "nodes, thread maps and page mappings",
    limited: false,
    thread_counts: None,
    points: |request| Ok(space::numa(request.model, request.threads)),
};

pub(super) const NUMA_AND_PREFETCH: Space = Space {
    name: "numa+prefetch",
    about: "the configurations of numa with all prefetcher settings, with the recording's number of threads",
    limited: false,
    thread_counts: None,
    points: |request| Ok(space::numa_and_prefetch(request.model, request.threads)),
};
