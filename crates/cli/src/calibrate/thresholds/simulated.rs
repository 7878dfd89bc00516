//! The curves of a simulated machine.

use super::curves::{Copied, CopyPoint, Curves, SharingPoint};
use super::origin::Origin;
use anyhow::{Result, bail};
use pinfold_sim::model::Model;
use pinfold_sim::thresholds::{self, copying, sharing};

pub(super) fn measure(model: &Model, say: impl Fn(&str)) -> Result<Curves> {
    say("two threads that share data, near each other and apart");
    let Some(sharing) = sharing(model)? else {
        bail!(
            "{} has one last-level cache, or one a core, so that no place is nearer than another: there is no \
             threshold of coherence, and nothing for SAM to do",
            model.name
        );
    };
    say("tasks that copy memory, from one to all cores of a package");
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
