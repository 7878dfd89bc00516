//! Finds a function whose calls show the progress of a running program, and counts them.
//!
//! `pinfold_core::function` has the rules. `search` follows them with the kernel's help: `sampler` samples stacks,
//! `areas` and `starts` find the functions there (`stacks`), `jit` names code without a file, `probes` counts calls, and
//! `cost` measures what a counted call costs. `counters` does this for several subjects: one launched program, or many
//! processes.

pub(crate) mod areas;
mod cost;
mod counters;
mod jit;
mod probes;
mod sampler;
mod search;
mod stacks;
mod starts;

pub(crate) use counters::{FunctionCounters, SearchRequest};
pub(crate) use probes::{ProbeGroup, Tracefs};

use crate::procfs::Procfs;
use probes::Definitions;
use std::time::Duration;

/// Why no function can be found, as a clause for the user; `None` if probes are allowed.
pub fn obstacle() -> Option<String> {
    Tracefs::open().err()
}

/// The time that the kernel takes for a counted call of a function. Fails if functions cannot be probed; the error is a
/// clause for the user.
pub fn cost_of_a_call() -> Result<Duration, String> {
    cost::of_a_call(&Procfs::default(), &mut Definitions::new()?)
}

/// The right to define probes. It outlives the privileges that are needed to get it.
pub struct Probing(Definitions);

impl Probing {
    /// Opens the kernel's list of probes, and starts a guard that removes pinfold's from it. Call it before
    /// capabilities are dropped. Fails if functions cannot be probed; the error is a clause for the user.
    pub fn prepare() -> Result<Self, String> {
        Definitions::new().map(Self)
    }

    /// The group that all probes will belong to.
    pub(crate) fn group(&self) -> ProbeGroup {
        self.0.group()
    }
}
