//! The curves of a simulated machine.

use super::curves::{Copied, CopyPoint, Curves, SharingPoint};
use super::origin::Origin;
use pinfold_sim::model::Model;
use pinfold_sim::thresholds::{self, copying, sharing};
use pinfold_sim::window::WindowError;

/// Why a simulated machine has no curves.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The distance between two PUs makes no difference.
    #[error(
        "{0} has one last-level cache, or one per core, so all distances are alike: there is no threshold of \
         coherence, and nothing for SAM to do"
    )]
    OneDomain(String),
    /// The microbenchmark cannot be simulated.
    #[error(transparent)]
    Machine(#[from] WindowError),
}

/// Simulates both microbenchmarks. `progress` gets the name of each before it begins.
pub fn simulate(model: &Model, progress: impl Fn(&str)) -> Result<Curves, SimulationError> {
    progress("two threads that share data, with one last-level cache and with two");
    let Some(sharing) = sharing(model)? else {
        return Err(SimulationError::OneDomain(model.name.clone()));
    };
    progress("tasks that copy memory, from one to all cores of a package");
    let copied = |copied: thresholds::Copied| Copied {
        bytes_per_second: copied.bytes_per_second.into(),
        misses_per_cycle: copied.misses_per_cycle.into(),
    };
    Ok(Curves {
        origin: Origin::Simulated {
            machine: model.name.clone(),
        },
        sharing: sharing
            .into_iter()
            .map(|point| SharingPoint {
                instructions: point.instructions,
                events_per_cycle: point.events_per_cycle.into(),
                gain: point.gain.into(),
            })
            .collect(),
        copying: copying(model)?
            .into_iter()
            .map(|point| CopyPoint {
                tasks: point.tasks,
                high: copied(point.high),
                low: copied(point.low),
            })
            .collect(),
    })
}
