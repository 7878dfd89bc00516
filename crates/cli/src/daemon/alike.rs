//! The daemon on a machine on which no placement differs from another: it says so, and ends or waits for another
//! machine. A virtual machine may get more CPUs or NUMA nodes while it runs.

use super::log::Log;
use super::tell_manager;
use crate::machine::topology_here;
use anyhow::Result;
use pinfold_core::placement::why_all_alike;
use pinfold_core::{Topology, Wake};
use pinfold_linux::service::Signals;
use std::time::Duration;

/// How often a daemon that waits reads the machine. SIGHUP makes it do so at once.
const INTERVAL: Duration = Duration::from_secs(60);

/// The topology of this machine once its placements differ. `None` if they do not, and the daemon does not wait, or a
/// signal ends it.
pub(super) fn with_a_choice(
    topology: Topology,
    waits: bool,
    log: &mut Log,
    signals: &mut Signals,
) -> Result<Option<Topology>> {
    let Some(why) = why_all_alike(&topology) else {
        return Ok(Some(topology));
    };
    let next = if waits {
        "the daemon waits until CPUs or NUMA nodes are added"
    } else {
        "the daemon ends, and with --wait it waits until CPUs or NUMA nodes are added"
    };
    let text = format!("placement cannot matter here: {why}; {next}");
    log.event("nothing_to_gain", &[("text", text.into())]);
    tell_manager("READY=1\nSTATUS=placement cannot matter on this machine");
    let mut topology = topology;
    while waits && why_all_alike(&topology).is_some() {
        if let Wake::Stop(signal) = signals.wait(INTERVAL) {
            log.event("ended", &[("signal", signal.into())]);
            return Ok(None);
        }
        topology = topology_here(true)?;
    }
    Ok(waits.then_some(topology))
}
