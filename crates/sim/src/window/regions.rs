//! What changes at the borders of parallel regions: the PUs of a team's threads, and the prefetchers.
//!
//! Threads change their PUs when they begin their share of a region (`EventKind::ShareBegin`), and the prefetchers
//! change when the region begins. Both stay until the next region that wants something else. A thread that changes its
//! PU pays for the system call and the switch, and finds the caches there as they are. The thread that begins the
//! region pays for a change of the prefetchers.

use super::configuration::working;
use super::placement::Placement;
use super::time::{Ticks, ticks};
use crate::model::Model;
use pinfold_core::{Prefetchers, PuId};
use std::collections::BTreeMap;
use std::time::Duration;

/// The time to write the prefetcher register of one core, which the kernel interrupts for it. Assumed.
const REGISTER_WRITE: Duration = Duration::from_micros(2);

/// One region's own placement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RegionPlace {
    /// By thread: its PU.
    pub pus: Vec<PuId>,
    /// The prefetchers that are on, on all cores.
    pub prefetchers: Prefetchers,
}

/// The regions that do not run as the window's configuration says.
pub type RegionPlaces = BTreeMap<u64, RegionPlace>;

/// What one region wants, in the engine's numbers.
struct Wanted {
    /// By thread: its PU.
    pus: Vec<usize>,
    prefetchers: [bool; 4],
}

/// What regions want of an engine.
pub(super) struct RegionPlan {
    regions: BTreeMap<u64, Wanted>,
    /// What the other regions want.
    others: Wanted,
    /// The time that a change of the prefetchers takes.
    pub(super) write: Ticks,
}

impl RegionPlan {
    /// The plan of a window whose `placement` contains all PUs of `places`; `base` are the PUs of its threads, and
    /// `prefetchers` its configuration's.
    pub(super) fn new(
        model: &Model,
        placement: &Placement,
        base: &[usize],
        prefetchers: Prefetchers,
        places: &RegionPlaces,
    ) -> Self {
        let wanted = |place: &RegionPlace| Wanted {
            pus: base
                .iter()
                .enumerate()
                .map(|(thread, &base)| {
                    let pu = place.pus.get(thread);
                    pu.and_then(|&pu| placement.position(model, pu)).unwrap_or(base)
                })
                .collect(),
            prefetchers: working(place.prefetchers, model),
        };
        let cores = model.cores() as f64;
        Self {
            regions: places.iter().map(|(&region, place)| (region, wanted(place))).collect(),
            others: Wanted {
                pus: base.to_vec(),
                prefetchers: working(prefetchers, model),
            },
            write: ticks(REGISTER_WRITE.as_secs_f64() * cores * model.frequency().0),
        }
    }

    fn wanted(&self, region: u64) -> &Wanted {
        self.regions.get(&region).unwrap_or(&self.others)
    }

    /// The PU of a thread in a region.
    pub(super) fn pu(&self, region: u64, thread: usize) -> usize {
        self.wanted(region).pus[thread]
    }

    /// The prefetchers that work in a region.
    pub(super) fn prefetchers(&self, region: u64) -> [bool; 4] {
        self.wanted(region).prefetchers
    }
}
