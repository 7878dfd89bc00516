//! What a history says of its works, for people.

use super::area::Area;
use super::times::Times;
use super::work::{State, Work};
use crate::comparison::turns::Gain;
use serde::Serialize;

/// What is known of the runs that do the same work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkSummary {
    /// The CPU seconds of an unpinned run; `None` without one.
    pub cpu: Option<f64>,
    /// The placement that is used; `None` for unpinned.
    pub used: Option<Area>,
    /// The placements, in the order of their first runs.
    pub placements: Vec<PlacementSummary>,
}

/// What is known of a placement for one work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacementSummary {
    /// The area; `None` for unpinned.
    pub area: Option<Area>,
    /// The number of measured runs.
    pub runs: u32,
    /// The mean of their wall times, in seconds.
    pub wall: f64,
    /// Its sample standard deviation; `None` for one run.
    pub deviation: Option<f64>,
    /// The CPU time of a run, in seconds.
    pub cpu: f64,
    /// How many times as fast as unpinned it is, and the standard error; `None` if it was not compared with that.
    pub gain: Option<(f64, f64)>,
    /// What the comparison said: `open`, `faster`, `not_faster`, `not_known` or `stopped`; `None` without one.
    pub state: Option<&'static str>,
}

impl WorkSummary {
    pub(super) fn of(work: &Work) -> Self {
        let placement = |(area, times): (Option<Area>, Times)| {
            let challenger = work.challenger(area).filter(|_| area.is_some());
            let confirmed = work.confirmed().gain;
            let gain = if area.is_some() && area == work.incumbent() {
                Some(confirmed)
            } else {
                challenger.and_then(|one| one.gain)
            };
            PlacementSummary {
                area,
                runs: times.runs(),
                wall: times.mean(),
                deviation: times.deviation(),
                cpu: times.log_cpu().exp(),
                gain: gain.map(Gain::times),
                state: challenger.map(|one| match one.state {
                    State::Open => "open",
                    State::Faster => "faster",
                    State::NotFaster => "not_faster",
                    State::NotKnown => "not_known",
                    State::Stopped => "stopped",
                }),
            }
        };
        Self {
            cpu: work.times(None).map(|times| times.log_cpu().exp()),
            used: work.incumbent(),
            placements: work.placements().map(placement).collect(),
        }
    }
}
