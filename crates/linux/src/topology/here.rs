//! The topology of this machine, read by a separate process (`isolated`): unexpected content of `/sys` may end that
//! process, and its output is summarised in one sentence.

use super::{ReadError, Source, isolated, kernel_root, sysfs};
use crate::affinity::CpuMask;
use pinfold_core::{Device, Topology};
use std::process::Command;

/// This machine.
#[derive(Debug)]
pub struct Here {
    /// The topology.
    pub topology: Topology,
    /// A note for the user on the way that it was read.
    pub note: Option<String>,
}

/// Reads this machine with a command that writes the `answer`. Call it from the process's first thread, like `read_by`.
///
/// # Errors
///
/// The environment makes hwloc describe another machine, or no PU may be used. A failure of hwloc is not an error.
pub fn here(reader: &mut Command) -> Result<Here, ReadError> {
    let mask = CpuMask::of_thread(0).map_err(ReadError::NoAffinity)?;
    let read: isolated::Read<Topology> = match isolated::read(reader, &Source::Live) {
        Ok(read) => read,
        Err(error) if error.is_of_hwloc() => {
            let root = kernel_root(&Source::Live).unwrap_or_default();
            return Ok(Here {
                topology: sysfs::read(&root, &mask.to_set())?,
                note: Some(format!(
                    "hwloc fails on this machine ({}), so its topology is what /sys/devices/system/cpu lists, without NUMA \
                     nodes.",
                    failure(&error)
                )),
            });
        }
        Err(error) => return Err(error),
    };
    let note = read.has_messages.then(|| about_messages(&read.what));
    Ok(Here {
        topology: read.what,
        note,
    })
}

/// Reads the devices of this machine with a command that writes the `answer`. Empty if hwloc fails.
///
/// # Errors
///
/// The environment makes hwloc describe another machine.
pub fn devices_here(reader: &mut Command) -> Result<Vec<Device>, ReadError> {
    match isolated::read_by(reader, &Source::Live) {
        Err(error) if error.is_of_hwloc() => Ok(vec![]),
        read => read,
    }
}

/// hwloc's failure in a few words.
fn failure(error: &ReadError) -> String {
    match error {
        ReadError::Ended { how, .. } => format!("it {how}"),
        ReadError::Reader { source, .. } => format!("its process failed: {source}"),
        other => other.to_string(),
    }
}

/// The cause of hwloc's messages.
fn about_messages(topology: &Topology) -> String {
    let cut = topology.nodes().iter().filter(|node| topology.is_cut(node));
    let cut: Vec<String> = cut.map(|node| node.id.to_string()).collect();
    if cut.is_empty() {
        return "hwloc finds contradictions in the system's description of its packages, caches and NUMA nodes, and \
                leaves some of them out; `lstopo` prints its message."
            .to_owned();
    }
    format!(
        "NUMA nodes {} cut across packages or caches, so hwloc finds no place for them in the tree; their CPUs are those of \
         /sys/devices/system/node.",
        cut.join(", ")
    )
}
