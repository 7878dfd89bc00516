//! The PUs that a run may use, and the page mapping: `--physcpubind`, `--cpunodebind`, `--near` and the options of
//! pages.

use super::super::policies::Chosen;
use super::super::{Arguments, near};
use anyhow::{Context, Result, anyhow, bail};
use pinfold_core::{PageMapping, PuSet, Topology};
use pinfold_linux::launch::RunningProcess;
use pinfold_policy::auto::Near;

/// The list that limits nothing, as numactl takes it.
const ALL: &str = "all";

/// Where the program may run, and where its pages belong.
pub(super) struct Area {
    /// The machine, restricted to the PUs that this run may use.
    pub(super) topology: Topology,
    /// Whether options name the PUs.
    pub(super) names_pus: bool,
    /// The user's page mapping.
    pub(super) pages: Option<PageMapping>,
    /// The surroundings of a device, if the policy compares them with the whole machine.
    pub(super) compared: Option<Near>,
}

impl Area {
    /// The area without the PUs that `--physcpubind` and `--cpunodebind` exclude.
    pub(super) fn limited(arguments: &Arguments, topology: Topology) -> Result<Self> {
        let limits = &arguments.limits;
        let topology = restricted(topology, arguments)?;
        Ok(Self {
            pages: arguments.pages.mapping.mapping(&topology)?,
            topology,
            names_pus: limits.physcpubind.is_some() || limits.cpunodebind.is_some(),
            compared: None,
        })
    }

    /// Applies `--near`, and returns a note for the user. The default policy compares the surroundings of the device
    /// with the whole machine. To any other policy, and if the placement outlives the run, they are a limit.
    pub(super) fn go_near(
        &mut self,
        arguments: &Arguments,
        policy: &Chosen<'_>,
        process: Option<&RunningProcess>,
    ) -> Result<Option<String>> {
        if arguments.limits.near.is_empty() {
            return Ok(None);
        }
        let devices = arguments.machine.selected()?.devices()?;
        let near = near::near(self.topology.clone(), &devices, &arguments.limits.near)?;
        let stays = process.is_some() || arguments.changes.outlive || arguments.changes.keep_pinned;
        if !policy.is_default() || stays || near.is_all {
            self.names_pus |= !near.is_all;
            self.topology = near.topology;
            self.pages = self.pages.or(near.pages);
            return Ok(Some(near.note));
        }
        self.compared = Some(Near {
            pus: near.topology.allowed_pus().clone(),
            pages: near.pages.filter(|_| self.pages.is_none()),
            what: near.devices,
        });
        Ok(Some(format!(
            "{} The program begins there, and leaves only for what is faster.",
            near.note
        )))
    }
}

/// The topology without the PUs that `--physcpubind` and `--cpunodebind` exclude.
fn restricted(topology: Topology, arguments: &Arguments) -> Result<Topology> {
    let mut pus = topology.allowed_pus().clone();
    if let Some(list) = arguments.limits.physcpubind.as_ref().filter(|list| *list != ALL) {
        let asked: PuSet = list.parse().context("--physcpubind")?;
        let lacking = asked.difference(topology.allowed_pus());
        if !lacking.is_empty() {
            bail!("--physcpubind {list}: CPU {lacking} does not exist or is not allowed; allowed are {pus}");
        }
        if asked.is_empty() {
            bail!("--physcpubind `{list}` names no CPU; allowed are {pus}");
        }
        pus = pus.intersection(&asked);
    }
    if let Some(list) = arguments.limits.cpunodebind.as_ref().filter(|list| *list != ALL) {
        let numbers: PuSet = list.parse().context("--cpunodebind")?;
        if topology.nodes().is_empty() {
            bail!("--cpunodebind {list}: no NUMA node of this machine is known; --physcpubind names CPUs");
        }
        if numbers.is_empty() {
            bail!(
                "--cpunodebind `{list}` names no NUMA node; there are {}",
                nodes(&topology)
            );
        }
        let mut local = PuSet::new();
        for number in numbers.iter() {
            let node = topology
                .nodes()
                .iter()
                .find(|node| node.id.0 == number.0)
                .ok_or_else(|| {
                    let known = nodes(&topology);
                    anyhow!("--cpunodebind {list}: there is no NUMA node {number}; there are {known}")
                })?;
            local.extend(node.pus.iter());
        }
        if local.is_empty() {
            let with_cpus: Vec<String> = topology.nodes_with_pus().map(|node| node.id.to_string()).collect();
            bail!(
                "--cpunodebind {list}: this NUMA node has memory and no CPUs; {} have CPUs, and --membind {list} takes its \
                 memory",
                with_cpus.join(", ")
            );
        }
        pus = pus.intersection(&local);
    }
    topology
        .restricted_to(&pus)
        .context("--physcpubind and --cpunodebind leave nothing to run on; name allowed CPUs or nodes")
}

/// The numbers of the NUMA nodes.
fn nodes(topology: &Topology) -> String {
    let numbers: Vec<String> = topology.nodes().iter().map(|node| node.id.to_string()).collect();
    numbers.join(", ")
}
