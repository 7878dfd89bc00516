//! This machine and its configurations.

use super::super::Arguments;
use super::executor::Team;
use super::program::Program;
use anyhow::{Result, bail};
use pinfold_core::hint::AffinityHint;
use pinfold_core::placement::{Placements, different};
use pinfold_core::{NodeId, PageMapping, Pinning, Prefetchers, ThreadMap, Topology, map_threads};
use pinfold_sim::sweep::Point;
use pinfold_sim::window::WindowConfiguration;
use pinfold_store::MachineKey;
use pinfold_sweep::measured::{MeasuredMachine, MeasuredPlan};
use std::collections::{BTreeMap, BTreeSet};

/// The spaces of the command line on this machine.
pub(super) struct Spaces<'a> {
    arguments: &'a Arguments,
    topology: &'a Topology,
}

impl<'a> Spaces<'a> {
    pub(super) fn new(arguments: &'a Arguments, topology: &'a Topology) -> Result<Self> {
        for name in &arguments.space {
            if !["threads", "hints"].contains(&name.as_str()) {
                bail!("--space {name} is not measured here yet");
            }
        }
        Ok(Self { arguments, topology })
    }

    pub(super) fn varies_threads(&self) -> bool {
        false
    }

    pub(super) fn most_threads(&self) -> Result<Option<usize>> {
        Ok(None)
    }

    pub(super) fn left_out(&self) -> Vec<String> {
        vec![]
    }

    /// All configurations.
    pub(super) fn plan(&self, program: &Program<'_>, team: Team) -> Result<MeasuredPlan> {
        let threads = match team {
            Team::Told(threads) | Team::Seen(threads) => threads,
            Team::Own => bail!("the number of threads is not known"),
        };
        let key = MachineKey::new(self.topology, None);
        let mut points = vec![];
        let placed = threads.min(self.topology.allowed_pus().len());
        for name in &self.arguments.space {
            let pinnings: Vec<Pinning> = match (name.as_str(), self.arguments.limit) {
                ("hints", _) => AffinityHint::ALL
                    .iter()
                    .map(|hint| hint.pinning(self.topology, placed))
                    .collect::<Result<_, _>>()?,
                (_, Some(limit)) => different::most_different(self.topology, threads, limit),
                (_, None) => Placements::new(self.topology, placed)?.iter().collect(),
            };
            for pinning in pinnings {
                let point = self.point(threads, pinning);
                if !points.contains(&point) {
                    points.push(point);
                }
            }
        }
        Ok(MeasuredPlan::new(
            machine(self.topology, &key),
            program.identity(self.arguments, key)?,
            BTreeMap::from([(threads, points)]),
            self.varies_threads(),
            |_, _| false,
        ))
    }

    fn point(&self, threads: usize, pinning: Pinning) -> Point {
        let node = |rank: usize| -> Option<NodeId> {
            let pu = pinning.pu(rank);
            self.topology
                .nodes()
                .iter()
                .find(|node| node.pus.contains(pu))
                .map(|node| node.id)
        };
        let num_nodes = (0..threads).filter_map(node).collect::<BTreeSet<_>>().len().max(1);
        let thread_map = ThreadMap::ALL
            .into_iter()
            .find(|&map| map_threads(self.topology, threads, num_nodes, map).as_ref() == Some(&pinning));
        Point {
            configuration: WindowConfiguration {
                pinning,
                pages: PageMapping::FirstTouch,
                prefetchers: Prefetchers::ALL,
            },
            num_nodes,
            threads_per_core: 1,
            thread_map,
        }
    }
}

/// Whether the configurations differ in their prefetchers. Otherwise the prefetchers stay as they are.
pub(super) fn sets_prefetchers(plan: &MeasuredPlan) -> bool {
    let points = plan.jobs.iter().filter_map(|job| job.point.as_ref());
    points
        .map(|point| point.configuration.prefetchers)
        .any(|prefetchers| prefetchers != Prefetchers::ALL)
}

/// This machine in a data set. Machines with the same name can differ in shape, so that the name has a part of the hash.
fn machine(topology: &Topology, key: &MachineKey) -> MeasuredMachine {
    let hash = key.fingerprint.rsplit('-').next().unwrap_or_default();
    let sizes = topology
        .llc_domains()
        .into_iter()
        .map(|domain| topology.object(domain).cache.and_then(|cache| cache.size));
    MeasuredMachine {
        name: format!(
            "{}-{}",
            key.name.replace(char::is_whitespace, "-"),
            &hash[..hash.len().min(8)]
        ),
        fingerprint: key.fingerprint.clone(),
        topology: serde_json::to_value(topology).unwrap_or_default(),
        llc_bytes: sizes.sum(),
        pus: topology.allowed_pus().len(),
    }
}
