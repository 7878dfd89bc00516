//! The options of `auto`.

use super::placement::Placement;
use super::proposals::Proposal;
use crate::belief::Belief;
use crate::classify::{MachinePeaks, PlacementModel};
use crate::known::KnownPlacement;
use crate::program::metric_choice::MetricRequest;
use crate::program::times::Times;
use crate::program::working_tasks::Skip;
use crate::rules::Rules;
use crate::sam::{MapperEvents, Thresholds};
use pinfold_core::{PageMapping, ProposerCode, PuSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

impl KnownPlacement {
    /// The placement of threads and pages.
    pub(super) fn placement(&self) -> Placement {
        Placement {
            pinning: self.pinning.clone(),
            pages: self.pages,
            ..Placement::default()
        }
    }
}

/// A device that the user wants the program near. The program starts there, and leaves only for a faster placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near {
    /// The PUs that are near.
    pub pus: PuSet,
    /// The mapping of its pages; `None` leaves them to the operating system.
    pub pages: Option<PageMapping>,
    /// The device, as the user named it.
    pub what: String,
}

impl Near {
    /// The placement of threads and pages.
    pub(super) fn placement(&self) -> Placement {
        Placement {
            within: Some(self.pus.clone()),
            pages: self.pages,
            ..Placement::default()
        }
    }
}

/// The limits of windows, whose lengths follow from the metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoTimes {
    /// The program's initialisation. The metric is chosen in its later half.
    pub initialise: Duration,
    /// Threads and caches settle at least this long after a change.
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
    /// The times of the initialisation. A metric is useful if it counts enough in the longest window.
    pub(super) fn opening(&self) -> Times {
        Times {
            initialise: self.initialise,
            probe: self.longest,
            warm_up: self.settle,
            interval: self.interval,
        }
    }
}

/// The sources of proposals, besides the behaviour database, rules and the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Counts: SAM's mapper moves single threads, and pages may be on too few nodes.
    Counts,
    /// The named placements, and the placements of the topology that differ most.
    Topology,
    /// The placements near the best one.
    Neighbours,
    /// The times of parallel regions: some may run elsewhere than the rest.
    Regions,
}

/// Which placements are tried, besides the unpinned program. Other policies are views of `auto`: the same belief, turns
/// and budget, with fewer candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Space {
    /// All that the sources propose: `auto`.
    #[default]
    Everything,
    /// The placements of the affinity hints: `hints`.
    Hints,
    /// The strategies of threads and pages: `classify`.
    Strategies,
}

impl Space {
    /// The policy's name.
    pub(super) fn policy(self) -> &'static str {
        match self {
            Self::Everything => "auto",
            Self::Hints => "hints",
            Self::Strategies => "classify",
        }
    }
}

/// The options of `auto` and its views.
#[derive(Clone, Debug, Default)]
pub struct AutoOptions {
    /// The placements that are tried.
    pub space: Space,
    /// The limits of windows.
    pub times: AutoTimes,
    /// The metric that compares placements.
    pub metric: MetricRequest,
    /// The tasks that are not placed.
    pub skip: Skip,
    /// The number of threads, if the user gave it.
    pub threads: Option<usize>,
    /// Whether pages may move. If not, the user has placed them.
    pub moves_pages: bool,
    /// The sources that are not asked.
    pub left_out: BTreeSet<Source>,
    /// The device that the user wants the program near; `None` without such a wish.
    pub near: Option<Near>,
    /// Earlier runs of the program, by number of threads.
    pub known: BTreeMap<usize, KnownPlacement>,
    /// What was learned from other programs.
    pub learned: Learned,
    /// The counts of SAM's mapper and of the model.
    pub counts: CountOptions,
}

/// What was learned from other programs.
#[derive(Clone, Debug)]
pub struct Learned {
    /// The belief, which says what is tried first.
    pub belief: Arc<Belief>,
    /// Rules for affinity hints.
    pub rules: Option<Rules>,
    /// The placement model.
    pub model: Option<PlacementModel>,
}

impl Default for Learned {
    /// Nothing.
    fn default() -> Self {
        Self {
            belief: Arc::new(Belief::ignorant()),
            rules: None,
            model: None,
        }
    }
}

/// The counts of SAM's mapper and of the placement model.
#[derive(Clone, Debug, Default)]
pub struct CountOptions {
    /// The events; `None` if they cannot be counted.
    pub events: Option<MapperEvents>,
    /// The thresholds of SAM's mapper; `None` if it is not asked.
    pub thresholds: Option<Thresholds>,
    /// The highest rates of the machine, for the model.
    pub peaks: MachinePeaks,
}

impl AutoOptions {
    /// Whether a source is asked.
    pub(super) fn asks(&self, source: Source) -> bool {
        self.space == Space::Everything && !self.left_out.contains(&source)
    }

    /// The placement at the start of the program: from the expected earlier run, else the one that the user wants.
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
