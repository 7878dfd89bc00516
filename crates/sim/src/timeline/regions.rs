//! Parallel regions in the time line: the growth of each in a repetition, and the places that a policy requests for
//! their threads.

use crate::model::Model;
use crate::window::{RegionPlace, RegionPlaces, RegionTotals};
use pinfold_core::{Prefetchers, PuId, RegionCounts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What was counted of one region, or is counted in one repetition.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct RegionGrowth {
    pub(crate) executions: f64,
    pub(crate) seconds: f64,
    pub(crate) counts: RegionCounts,
}

impl Default for RegionGrowth {
    /// A region that has not ended yet.
    fn default() -> Self {
        Self {
            executions: 0.0,
            seconds: 0.0,
            counts: RegionCounts::ZERO,
        }
    }
}

impl RegionGrowth {
    fn of(totals: &RegionTotals, model: &Model) -> Self {
        Self {
            executions: totals.executions as f64,
            seconds: totals.seconds,
            counts: totals.counts(model),
        }
    }

    /// `self + factor * growth`.
    pub(crate) fn plus(&self, factor: f64, growth: &Self) -> Self {
        Self {
            executions: self.executions + factor * growth.executions,
            seconds: self.seconds + factor * growth.seconds,
            counts: self.counts.plus(factor, &growth.counts),
        }
    }
}

/// What a repetition adds to each region: the totals at its end less those at its begin, shared by the `repetitions`
/// that lie between.
pub(crate) fn growths(
    until: &BTreeMap<u64, RegionTotals>,
    from: &BTreeMap<u64, RegionTotals>,
    repetitions: f64,
    model: &Model,
) -> BTreeMap<u64, RegionGrowth> {
    let growth = |(&region, totals): (&u64, &RegionTotals)| {
        let mut all = RegionGrowth::of(totals, model);
        if let Some(before) = from.get(&region) {
            all = all.plus(-1.0, &RegionGrowth::of(before, model));
        }
        (region, RegionGrowth::default().plus(repetitions.recip(), &all))
    };
    until.iter().map(growth).collect()
}

/// A policy's request for one region: the PUs of its threads, and the prefetchers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegionRequest {
    /// By task: its PU; `None` if the scheduler has it.
    pub(crate) pins: Vec<Option<PuId>>,
    /// `None` for the program's setting.
    pub(crate) prefetchers: Option<Prefetchers>,
}

/// The places of the requested regions for a window with tasks at `assignment`, and `prefetchers` on outside regions.
pub(crate) fn places(
    requested: &BTreeMap<u64, RegionRequest>,
    assignment: &[Option<PuId>],
    prefetchers: Prefetchers,
) -> RegionPlaces {
    let place = |request: &RegionRequest| RegionPlace {
        pus: request
            .pins
            .iter()
            .zip(assignment)
            .filter_map(|(pin, present)| pin.or(*present))
            .collect(),
        prefetchers: request.prefetchers.unwrap_or(prefetchers),
    };
    requested
        .iter()
        .map(|(&region, request)| (region, place(request)))
        .filter(|(_, place)| {
            place.prefetchers != prefetchers || place.pus.iter().map(Some).ne(assignment.iter().flatten().map(Some))
        })
        .collect()
}
