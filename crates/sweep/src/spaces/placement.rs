//! `placement`: the four strategies of Denoyelle et al.

use super::Space;
use pinfold_sim::sweep::space;

pub(super) const SPACE: Space = Space {
    name: "placement",
    about: "compact and scatter over all nodes, each with first touch and interleave",
    limited: false,
    thread_counts: None,
    points: |request| Ok(space::placement(request.model, request.threads)),
};
