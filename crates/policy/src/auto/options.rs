//! The options of `auto`.

use super::placement::Placement;
use super::proposals::Proposal;
use crate::classify::{MachinePeaks, PlacementModel};
use crate::known::KnownPlacement;
use crate::program::metric_choice::MetricRequest;
use crate::program::times::Times;
use crate::program::working_tasks::Skip;
use crate::rules::Rules;
use crate::sam::{MapperEvents, Thresholds};
use pinfold_core::{PageMapping, ProposerCode, PuSet};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl KnownPlacement {
    /// Where threads and pages are.
    pub(super) fn placement(&self) -> Placement {
        Placement {
            pinning: self.pinning.clone(),
            pages: self.pages,
            ..Placement::default()
        }
    }
}

/// Where the user wants the program to be. It begins there, and leaves only for what is faster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near {
    /// The PUs that are near.
    pub pus: PuSet,
    /// Where pages belong then; `None` where they are left to the operating system.
    pub pages: Option<PageMapping>,
    /// What they are near, for the user.
    pub what: String,
}

impl Near {
    /// Where threads and pages are.
    pub(super) fn placement(&self) -> Placement {
        Placement {
            within: Some(self.pus.clone()),
            pages: self.pages,
            ..Placement::default()
        }
    }
}

/// How long windows are. They follow from the metric: these are limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoTimes {
    /// The program's initialisation, in whose later half the metric is chosen.
    pub initialise: Duration,
    /// How long threads and caches settle after a change, at least.
    pub settle: Duration,
    /// The shortest window.
    pub shortest: Duration,
    /// The longest window.
    pub longest: Duration,
    /// The time from one rate line to the next.
    pub line: Duration,
    /// The interval between two readings.
    pub interval: Duration,
}

impl Default for AutoTimes {
    fn default() -> Self {
        Self {
            initialise: Duration::from_millis(500),
            settle: Duration::from_millis(100),
            shortest: Duration::from_millis(200),
            longest: Duration::from_secs(5),
            line: Duration::from_secs(30),
            interval: Duration::from_millis(100),
        }
    }
}

impl AutoTimes {
    /// The times of the opening. A metric is of use if it counts enough in the longest window.
    pub(super) fn opening(&self) -> Times {
        Times {
            initialise: self.initialise,
            probe: self.longest,
            warm_up: self.settle,
            interval: self.interval,
        }
    }
}

/// Who proposes placements, besides the behaviour database, rules and the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// What is counted: SAM's mapper moves single threads, and pages may be on too few nodes.
    Counts,
    /// The placements with a name, and those of the topology that differ most.
    Topology,
    /// The neighbourhood of the best one.
    Neighbours,
    /// The times of parallel regions: each where it was fastest.
    Regions,
}

/// The options of `auto`.
#[derive(Clone, Debug, Default)]
pub struct AutoOptions {
    /// The limits of windows.
    pub times: AutoTimes,
    /// The metric by which placements are compared.
    pub metric: MetricRequest,
    /// The tasks that are left alone.
    pub skip: Skip,
    /// The number of threads, where it was given.
    pub threads: Option<usize>,
    /// Whether it may move pages. If not, the user has placed them.
    pub moves_pages: bool,
    /// Who is not asked.
    pub left_out: BTreeSet<Source>,
    /// Where the user wants the program; `None` where that was not said.
    pub near: Option<Near>,
    /// What is known of the program, by number of threads.
    pub known: BTreeMap<usize, KnownPlacement>,
    /// Learned rules for affinity hints.
    pub rules: Option<Rules>,
    /// A model of placement.
    pub model: Option<PlacementModel>,
    /// What the machine can carry, for the model.
    pub peaks: MachinePeaks,
    /// The events of the activities that SAM and the model see; `None` where they cannot be counted.
    pub events: Option<MapperEvents>,
    /// The thresholds of SAM's mapper; `None` where it is not asked.
    pub thresholds: Option<Thresholds>,
}

impl AutoOptions {
    /// Whether a source is asked.
    pub(super) fn asks(&self, source: Source) -> bool {
        !self.left_out.contains(&source)
    }

    /// The placement in which the program starts: that of the expected earlier run, else the one that the user wants.
    pub(super) fn first_placement(&self) -> Placement {
        let known = self.expected().map(KnownPlacement::placement);
        known.unwrap_or_else(|| self.requested_placement())
    }

    /// The placement that the user wants; without such a wish the unpinned program.
    pub(super) fn requested_placement(&self) -> Placement {
        self.near.as_ref().map(Near::placement).unwrap_or_default()
    }

    /// The same as a proposal; `None` without such a wish.
    pub(super) fn requested(&self) -> Option<Proposal> {
        let near = self.near.as_ref()?;
        Some(Proposal {
            placement: near.placement(),
            by: ProposerCode::User,
            gain: None,
            why: format!("the user wants the program near {}", near.what),
        })
    }

    /// The earlier run with the expected number of threads: the given number, or the only one that is known.
    pub fn expected(&self) -> Option<&KnownPlacement> {
        let mut known = self.known.iter();
        let expected = match (self.threads, known.next(), known.next()) {
            (Some(threads), ..) => self.known.get(&threads),
            (None, Some((_, only)), None) => Some(only),
            _ => None,
        };
        expected.filter(|known| !known.other_build)
    }
}
