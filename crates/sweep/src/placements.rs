//! The states of caches of the placements that were simulated last, for the configurations that follow.

use pinfold_core::Pinning;
use pinfold_sim::sampled::PieceStates;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Placements whose states are kept. The configurations of a placement follow each other in a space, so workers that
/// each take the next one are at two placements at most, unless they are more than its configurations.
const MOST: usize = 2;

/// The placements that were simulated last, the newest first.
#[derive(Default)]
pub(crate) struct Placements {
    latest: Mutex<VecDeque<(Placement, Arc<PieceStates>)>>,
}

/// The threads of a program on a machine.
#[derive(Clone, PartialEq)]
pub(crate) struct Placement {
    /// The position of the machine in the plan.
    pub(crate) machine: usize,
    /// The position of the program in the plan.
    pub(crate) program: usize,
    pub(crate) pinning: Pinning,
}

impl Placements {
    /// The states of a placement, which are new if it is not among the latest.
    pub(crate) fn states(&self, placement: Placement) -> Arc<PieceStates> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let found = latest.iter().position(|(known, _)| *known == placement);
        let entry = found.and_then(|place| latest.remove(place));
        let entry = entry.unwrap_or_else(|| (placement, Arc::default()));
        let states = Arc::clone(&entry.1);
        latest.push_front(entry);
        latest.truncate(MOST);
        states
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::PuId;

    fn placement(program: usize, pu: u32) -> Placement {
        Placement {
            machine: 0,
            program,
            pinning: Pinning::new(vec![PuId(pu)]).unwrap(),
        }
    }

    #[test]
    fn the_placements_that_were_used_last_keep_their_states() {
        let placements = Placements::default();
        let first = placements.states(placement(0, 0));
        let second = placements.states(placement(0, 1));
        assert!(Arc::ptr_eq(&first, &placements.states(placement(0, 0))));
        let other_program = placements.states(placement(1, 0));
        assert!(!Arc::ptr_eq(&first, &other_program));
        assert!(Arc::ptr_eq(&first, &placements.states(placement(0, 0))));
        assert!(!Arc::ptr_eq(&second, &placements.states(placement(0, 1))));
    }
}
