//! How long parallel regions took in the windows of a candidate.

use pinfold_core::{RegionId, Sample};
use std::collections::BTreeMap;

/// A region with a smaller share of the time is not looked at.
const LEAST_SHARE: f64 = 0.01;

/// A region's time counts after this many executions.
pub(super) const EXECUTIONS: f64 = 5.0;

/// The executions of a region, and the time that they took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Total {
    executions: f64,
    seconds: f64,
}

impl Total {
    /// Seconds of one execution; `None` after too few.
    fn mean(self) -> Option<f64> {
        (self.executions >= EXECUTIONS).then(|| self.seconds / self.executions)
    }
}

/// The regions in the windows of a candidate.
#[derive(Clone, Debug, Default)]
pub(super) struct RegionTimes {
    /// The length of all windows, in seconds.
    lasted: f64,
    regions: BTreeMap<RegionId, Total>,
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

    /// Whether there was a window.
    pub(super) fn has_windows(&self) -> bool {
        self.lasted > 0.0
    }

    /// Seconds of one execution of a region; `None` after too few.
    pub(super) fn mean(&self, id: RegionId) -> Option<f64> {
        self.regions.get(&id)?.mean()
    }

    /// The regions with a share of the time that is worth a look, the longest one first, with these shares.
    pub(super) fn longest(&self) -> Vec<(RegionId, f64)> {
        let shares = self
            .regions
            .iter()
            .map(|(&id, total)| (id, total.seconds / self.lasted));
        let mut longest: Vec<(RegionId, f64)> = shares.filter(|&(_, share)| share >= LEAST_SHARE).collect();
        longest.sort_by(|one, other| other.1.total_cmp(&one.1));
        longest
    }
}
