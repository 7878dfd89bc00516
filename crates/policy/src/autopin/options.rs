//! The user's options of a search, and their check for a machine.

use crate::comparison::change::Watch;
use crate::program::metric_choice::MetricRequest;
use crate::program::times::{Times, TimesError};
use crate::program::working_tasks::Skip;
use pinfold_core::placement::different;
use pinfold_core::{CandidatesCode, Pinning, PuId, PuSet, Topology};

/// How candidates are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Search {
    /// Each candidate gets its full time, as in the paper.
    #[default]
    Exhaustive,
    /// All candidates are screened. Those that lost against the best are dropped; the others are compared as in the
    /// paper until they lose.
    Racing,
}

/// Which pinnings are tried.
#[derive(Clone, Debug)]
pub enum Candidates {
    /// These, in this order.
    Schedule(Vec<Pinning>),
    /// The unpinned program, and pinnings from the topology for the number of working threads.
    Topology {
        /// The largest number of pinnings.
        most: usize,
    },
}

impl Candidates {
    /// The placement at the beginning: the first pinning that the user names; without one, the program is unpinned
    /// until something is measured.
    pub fn first_pinning(&self) -> Option<Pinning> {
        match self {
            Self::Schedule(pinnings) => pinnings.first().cloned(),
            Self::Topology { .. } => None,
        }
    }

    /// The candidates for this number of threads, and their source as code and text. `None` is the unpinned program.
    pub(super) fn pinnings(
        &self,
        topology: &Topology,
        threads: usize,
    ) -> (Vec<Option<Pinning>>, CandidatesCode, &'static str) {
        let most = match self {
            Self::Schedule(pinnings) => {
                let pinnings = pinnings.iter().cloned().map(Some).collect();
                return (pinnings, CandidatesCode::Schedule, "the pinnings that were asked for");
            }
            Self::Topology { most } => *most,
        };
        let pinnings = different::from_topology(topology, threads, most);
        if pinnings.len() == 1 && most > 1 {
            let why = "threads stay where the operating system runs them, since on this topology no pinning differs from another";
            return (vec![None], CandidatesCode::NoDifference, why);
        }
        let why =
            "unpinned, as the operating system runs threads, and pinnings from the topology, the most different first";
        let pinnings = std::iter::once(None).chain(pinnings.into_iter().map(Some));
        (pinnings.collect(), CandidatesCode::Topology, why)
    }

    /// Whether there is a pinning to try, and each can be tried on this machine.
    pub fn check(&self, topology: &Topology) -> Result<(), OptionsError> {
        let pinnings = match self {
            Self::Schedule(pinnings) if pinnings.is_empty() => return Err(OptionsError::NoCandidate),
            Self::Topology { most: 0 } => return Err(OptionsError::NoCandidate),
            Self::Topology { .. } => return Ok(()),
            Self::Schedule(pinnings) => pinnings,
        };
        let allowed = topology.allowed_pus();
        for pinning in pinnings {
            if let Some(&pu) = pinning.pus().iter().find(|&&pu| !allowed.contains(pu)) {
                return Err(OptionsError::NotAllowed {
                    pinning: pinning.clone(),
                    pu,
                    exists: topology.object(topology.root()).pus.contains(pu),
                    allowed: allowed.clone(),
                });
            }
        }
        Ok(())
    }
}

/// The options of a search.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long each step takes.
    pub times: Times,
    /// How candidates are compared.
    pub search: Search,
    /// Which pinnings are tried.
    pub candidates: Candidates,
    /// The number of threads of the candidates; `None` for the number of working threads.
    pub threads: Option<usize>,
    /// The tasks that always are left alone.
    pub skip: Skip,
    /// The metric that decides.
    pub metric: MetricRequest,
    /// When to search again; `None` for never, as in the paper.
    pub watch: Option<Watch>,
}

/// Why options allow no search.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OptionsError {
    /// The times do not fit together.
    #[error(transparent)]
    Times(#[from] TimesError),
    /// The schedule is empty, or no candidate may be made from the topology.
    #[error("there is no pinning to try; name at least one pinning, or allow at least one candidate")]
    NoCandidate,
    /// A pinning uses a PU that does not exist or is not allowed.
    #[error("the pinning {pinning} uses CPU {pu}, which {}; the CPUs that may be used are {allowed}", not_ours(*.exists))]
    NotAllowed {
        /// The pinning.
        pinning: Pinning,
        /// The PU.
        pu: PuId,
        /// Whether the machine has it.
        exists: bool,
        /// The PUs that are allowed.
        allowed: PuSet,
    },
    /// The fall after which to search again is not a share.
    #[error("{0} is not a share of the chosen rate; give a share between 0 and 1, such as 0.1")]
    Fall(f64),
}

fn not_ours(exists: bool) -> &'static str {
    if exists {
        "this process may not use"
    } else {
        "this machine does not have"
    }
}

impl Options {
    /// Whether a search is possible on this machine.
    pub fn check(&self, topology: &Topology) -> Result<(), OptionsError> {
        self.times.check()?;
        if let Some(watch) = self.watch
            && !(watch.fall > 0.0 && watch.fall < 1.0)
        {
            return Err(OptionsError::Fall(watch.fall));
        }
        self.candidates.check(topology)
    }
}
