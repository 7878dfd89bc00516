//! The page options of a program: its memory policy at the start, and notes for the user.

use super::arguments::Detail;
use super::moving::{self, Moving, SpelledOut};
use crate::{page_mapping, run};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use pinfold_core::memory::nodes_of_pus;
use pinfold_core::{NodeSet, PageMapping, Pinning, Topology};
use pinfold_linux::launch::PageOptions;
use pinfold_linux::memory::{Balancing, MemoryPolicy, PolicyError, SampledMachine, System};
use std::time::Duration;

/// Where pages are to be, and how they are moved.
#[derive(Args)]
#[group(skip)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) mapping: page_mapping::Arguments,

    /// How pages are moved, and how accesses are sampled for locality and balance.
    ///
    /// A list of options of `pinfold pages`, without their dashes and with commas between: migrate-rate=500MB/s,
    /// migrate-shared, migrate-files, sample-by=page-faults, sample-time=5s, profile=a.pft and others, which `pinfold
    /// pages --help` explains.
    #[arg(long, value_name = "LIST", conflicts_with_all = moving::OPTIONS)]
    page_options: Option<Moving>,

    #[command(flatten)]
    spelled_out: SpelledOut,

    /// What to do where the kernel's automatic NUMA balancing is on; on a simulated machine: whether it is on.
    #[arg(long, value_enum, default_value_t = BalancingName::Keep, value_name = "WHAT")]
    numa_balancing: BalancingName,
}

/// Why automatic NUMA balancing cannot be turned on where a program really runs.
pub(crate) const BALANCING_OF_A_REAL_MACHINE: &str = "--numa-balancing on is about the kernel of a simulated machine: \
    name a model with --machine (`pinfold machines` lists them), or leave it out; as root, `sysctl \
    kernel.numa_balancing=1` turns balancing on for all programs of a real machine";

impl Arguments {
    fn moving(&self) -> &Moving {
        self.page_options.as_ref().unwrap_or(&self.spelled_out.0)
    }

    /// The first option that was given and that is about moving pages of a program that really runs.
    pub(super) fn about_real_programs(&self) -> Option<&'static str> {
        let listed = self.page_options.as_ref().map(|_| "--page-options");
        listed.or(self.moving().given())
    }

    /// `--numa-balancing`, if it was given.
    pub(super) fn balancing(&self) -> Option<&'static str> {
        (self.numa_balancing != BalancingName::Keep).then_some("--numa-balancing")
    }

    /// Whether a simulated kernel balances.
    pub(super) fn balances(&self) -> bool {
        self.numa_balancing == BalancingName::On
    }
}

/// What to do about automatic NUMA balancing.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BalancingName {
    /// Leave the program's memory in it where the page mapping allows that; on a simulated machine the same as off.
    Keep,
    /// Turn it on in the kernel of a simulated machine, Linux 6.1 or later.
    On,
    /// Take the program's memory out of it.
    Off,
}

/// The page options of a launch; `notes` gets remarks for the user. `initial` is the first pinning of the ranks.
/// Accesses during `initialisation` are not typical of the program, and are not sampled.
pub(super) fn options(
    arguments: &run::Arguments,
    mapping: Option<PageMapping>,
    topology: &Topology,
    initial: Option<&Pinning>,
    initialisation: Duration,
    notes: &mut Vec<String>,
) -> Result<PageOptions> {
    let threads: NodeSet = match initial {
        Some(pinning) => nodes_of_pus(topology, pinning.pus().iter().copied()),
        None => nodes_of_pus(topology, topology.allowed_pus().iter()),
    };
    let options = options_for_running(arguments, mapping, initialisation)?;
    let balancing = match arguments.pages.numa_balancing {
        BalancingName::Keep | BalancingName::On => Balancing::Keep,
        BalancingName::Off => Balancing::Off,
    };
    let mut policy = MemoryPolicy::at_launch(mapping, topology, &threads, balancing)?;
    match policy.map(|policy| policy.try_out()) {
        None | Some(Ok(())) => {}
        Some(Err(error @ PolicyError::Forbidden(_))) => {
            notes.push(format!(
                "Pages come where the threads are that touch them first: {error}. What can be moved is moved later."
            ));
            policy = None;
        }
        Some(Err(error)) => return Err(error).context("the memory policy of the program"),
    }
    if System::default().numa_balancing() == Some(true) {
        notes.extend(about_balancing(mapping, balancing, policy));
    }
    Ok(PageOptions {
        mapping,
        policy,
        ..options
    })
}

/// The page options of a process that runs already: its memory policy stays.
pub(super) fn options_for_running(
    arguments: &run::Arguments,
    mapping: Option<PageMapping>,
    initialisation: Duration,
) -> Result<PageOptions> {
    let moving = arguments.pages.moving();
    let sampling = moving.sampling.sampling(mapping)?;
    let profile = moving.sampling.profile()?;
    if let Some(mapping) = mapping.filter(|mapping| mapping.needs_accesses() && profile.is_none()) {
        SampledMachine::here()
            .check(sampling)
            .with_context(|| format!("--page-map {mapping}"))?;
    }
    Ok(PageOptions {
        system: System::default(),
        mapping: None,
        policy: None,
        selection: moving.migration.selection(arguments.changes.overrides)?,
        rate: moving.migration.rate(),
        sampling,
        profile,
        sampled_from: initialisation,
        progress: Some(page_mapping::progress(arguments.reports.detail() < Detail::Changes)),
    })
}

/// The effect of automatic NUMA balancing, which is on, on the program's pages; `None` if the user set neither.
fn about_balancing(mapping: Option<PageMapping>, balancing: Balancing, policy: Option<MemoryPolicy>) -> Option<String> {
    if mapping.is_none() && balancing == Balancing::Keep {
        return None;
    }
    let text = match (policy, balancing) {
        (Some(policy), _) if policy.is_outside_balancing() => {
            "Automatic NUMA balancing is on in this kernel, and leaves the program's memory alone because of the memory policy \
             that the program begins with; memory for which the program sets the default policy again is balanced."
        }
        (_, Balancing::Keep) => {
            "Automatic NUMA balancing is on in this kernel and may move pages again; --numa-balancing off takes the program's \
             memory out of it."
        }
        (_, Balancing::Off) => {
            "Automatic NUMA balancing is on in this kernel, and the program's memory cannot be taken out of it without a memory \
             policy; as root, `sysctl kernel.numa_balancing=0` turns it off for the whole machine."
        }
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{NodeId, NumaNode, ObjectKind, PuId, TopologyBuilder};

    fn about(mapping: Option<PageMapping>, balancing: Balancing) -> Option<String> {
        let mut builder = TopologyBuilder::new("one node");
        let package = builder.object(builder.root(), ObjectKind::Package, Some(0));
        builder.pu(package, PuId(0));
        builder.node(NumaNode {
            id: NodeId(0),
            attached_to: package,
            pus: [PuId(0)].into_iter().collect(),
            memory: Some(1 << 30),
            subtype: None,
        });
        let topology = builder.build(&[PuId(0)].into_iter().collect(), &[NodeId(0)]).unwrap();
        let policy = MemoryPolicy::at_launch(mapping, &topology, &NodeId(0).into(), balancing).unwrap();
        about_balancing(mapping, balancing, policy)
    }

    #[test]
    fn a_user_of_a_mapping_is_warned_of_balancing() {
        assert_eq!(about(None, Balancing::Keep), None);
        let first_touch = about(Some(PageMapping::FirstTouch), Balancing::Keep).unwrap();
        assert!(first_touch.contains("--numa-balancing off"), "{first_touch}");
        for (mapping, balancing) in [
            (Some(PageMapping::Interleave), Balancing::Keep),
            (Some(PageMapping::Local), Balancing::Keep),
            (Some(PageMapping::FirstTouch), Balancing::Off),
            (None, Balancing::Off),
        ] {
            let text = about(mapping, balancing).unwrap();
            assert!(text.contains("leaves the program's memory alone"), "{text}");
        }
    }
}
