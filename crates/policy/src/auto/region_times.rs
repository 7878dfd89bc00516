//! How long parallel regions took in the windows of a candidate.

use pinfold_core::{RegionId, Sample};
use std::collections::BTreeMap;

/// A region that takes less of the time is not looked at.
const LEAST_SHARE: f64 = 0.01;

/// The executions after which a region's time counts.
pub(super) const EXECUTIONS: f64 = 5.0;

/// The executions of a region, and the time that they took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Total {
    pub(super) executions: f64,
    seconds: f64,
}

impl Total {
    /// Seconds of one execution; `None` after too few.
    fn each(self) -> Option<f64> {
        (self.executions >= EXECUTIONS).then(|| self.seconds / self.executions)
    }
}

/// The regions in the windows of a candidate.
#[derive(Clone, Debug, Default)]
pub(super) struct RegionTimes {
    /// How long these windows were together, in seconds.
    pub(super) lasted: f64,
    pub(super) regions: BTreeMap<RegionId, Total>,
}

impl RegionTimes {
    /// Adds a window.
    pub(super) fn add(&mut self, first: &Sample, last: &Sample) {
        self.lasted += last.at.saturating_sub(first.at).as_secs_f64();
        for region in &last.regions {
            let before = first.regions.iter().find(|before| before.id == region.id);
            let (executions, seconds) = before.map_or((0.0, 0.0), |before| (before.executions, before.seconds));
            let (executions, seconds) = (region.executions - executions, region.seconds - seconds);
            if executions > 0.0 && seconds > 0.0 {
                let total = self.regions.entry(region.id).or_default();
                total.executions += executions;
                total.seconds += seconds;
            }
        }
    }

    pub(super) fn each(&self, id: RegionId) -> Option<f64> {
        self.regions.get(&id)?.each()
    }

    /// The regions that matter, the longest one first, with their shares of the time.
    pub(super) fn that_matter(&self) -> Vec<(RegionId, f64)> {
        let shares = self
            .regions
            .iter()
            .map(|(&id, total)| (id, total.seconds / self.lasted));
        let mut matter: Vec<(RegionId, f64)> = shares.filter(|&(_, share)| share >= LEAST_SHARE).collect();
        matter.sort_by(|one, other| other.1.total_cmp(&one.1));
        matter
    }
}
