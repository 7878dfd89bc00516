//! The sections of a record that only some policies fill.
//!
//! Findings that several policies share have a section each. A finding that only one policy has (`PolicyFinding`) is an
//! entry of `findings`, and needs no change here.

use super::{
    Comparison, Forecast, HintSample, Proposal, Regions, TimedBelief, TimedComparison, TimedFinding, TimedMove,
};
use pinfold_core::Finding;
use serde::{Deserialize, Serialize};

/// The sections that only some policies fill.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyRecord {
    /// Why no placement differs from another on the machine, so that nothing was measured; absent where they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nothing_to_gain: Option<String>,
    /// The samples for learned rules; absent without them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<HintSample>,
    /// The forecast of a placement model; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forecast: Option<Forecast>,
    /// The configurations of parallel regions; absent before they were chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regions: Option<Regions>,
    /// Each move of a single task; absent without moves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<TimedMove>,
    /// The comparisons of these moves with the unpinned program; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mapping_comparisons: Vec<TimedComparison>,
    /// The proposed candidates; absent without proposals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proposals: Vec<Proposal>,
    /// The candidates that were compared in turns; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// What was believed of trials before and after them; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beliefs: Vec<TimedBelief>,
    /// The findings that only one policy has; absent without any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<TimedFinding>,
}

impl PolicyRecord {
    /// Adds a finding at this time to its section, if it has one here.
    pub(super) fn add(&mut self, at: f64, finding: Finding) {
        match finding {
            Finding::NothingToGain { why } => self.nothing_to_gain = Some(why),
            Finding::Sampled {
                hint,
                pus,
                threads,
                lasts,
                rate,
                observed,
                says,
                code,
                why,
            } => self.samples.push(HintSample {
                at,
                hint,
                pus,
                threads,
                lasted: lasts.as_secs_f64(),
                rate,
                observed,
                says,
                code,
                why,
            }),
            Finding::Forecast {
                observed,
                strategies,
                code,
                why,
            } => {
                self.forecast = Some(Forecast {
                    at,
                    observed,
                    strategies,
                    code,
                    why,
                });
            }
            Finding::RegionsChosen {
                pages,
                gain,
                program,
                regions,
            } => {
                // Without any, the program has left the placements of its regions.
                self.regions = (!regions.is_empty()).then_some(Regions {
                    at,
                    pages,
                    gain,
                    program,
                    choices: regions,
                });
            }
            Finding::Moved(moved) => self.moves.push(TimedMove { at, moved }),
            Finding::MappingCompared(comparison) => {
                self.mapping_comparisons.push(TimedComparison { at, comparison });
            }
            Finding::Own(finding) => self.findings.push(TimedFinding { at, finding }),
            _ => {}
        }
    }
}
