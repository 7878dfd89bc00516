//! What a user can say of the search of `autopin`, and what of it makes no sense on a machine.

use crate::metric_choice::MetricRequest;
use crate::times::{Times, TimesError};
use crate::watch::Watch;
use crate::working_tasks::Skip;
use pinfold_core::{Pinning, PuId, PuSet, Topology};

/// How candidates are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Search {
    /// Each gets its full time, as in the paper.
    #[default]
    Exhaustive,
    /// All are looked at shortly; those that have lost against the best of them are dropped, and the others compared as
    /// in the paper until they have lost.
    Racing,
}

/// Which pinnings are tried.
#[derive(Clone, Debug)]
pub enum Candidates {
    /// These, in this order.
    Schedule(Vec<Pinning>),
    /// Every thread left to the operating system, and pinnings made from the machine's shape for the number of threads that work.
    Topology {
        /// No more pinnings than so many.
        most: usize,
    },
}

impl Candidates {
    /// Where ranks run from the beginning: on the first of the pinnings that the user names, else wherever the operating system
    /// puts them, until something is measured.
    pub fn first_pinning(&self) -> Option<Pinning> {
        match self {
            Self::Schedule(pinnings) => pinnings.first().cloned(),
            Self::Topology { .. } => None,
        }
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

/// What a user can say of a search.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long each step takes.
    pub times: Times,
    /// How candidates are compared.
    pub search: Search,
    /// Which pinnings are tried.
    pub candidates: Candidates,
    /// The number of threads to make candidates for; `None` to count those that work.
    pub threads: Option<usize>,
    /// The tasks to leave alone whatever they do.
    pub skip: Skip,
    /// The metric that decides.
    pub metric: MetricRequest,
    /// When to search again; `None` for never, as in the paper.
    pub watch: Option<Watch>,
}

/// Options with which no search can be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OptionsError {
    /// The times do not fit together.
    #[error(transparent)]
    Times(#[from] TimesError),
    /// The schedule is empty, or no candidate may be made from the topology.
    #[error("there is no pinning to try; name at least one, or allow for at least one")]
    NoCandidate,
    /// A pinning uses a PU that does not exist or that we may not use.
    #[error("the pinning {pinning} uses CPU {pu}, which {}; the CPUs that may be used are {allowed}", not_ours(*.exists))]
    NotAllowed {
        /// The pinning.
        pinning: Pinning,
        /// The PU.
        pu: PuId,
        /// Whether the machine has it.
        exists: bool,
        /// The PUs that may be used.
        allowed: PuSet,
    },
    /// The fall after which to search again is not a share.
    #[error("a fall by {0} of the chosen rate cannot be watched for; give a share between 0 and 1, such as 0.1")]
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
    /// Whether a search can be made of them on this machine.
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
