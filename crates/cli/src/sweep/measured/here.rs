//! This machine and its configurations.

use super::super::Arguments;
use super::executor::Team;
use super::program::Program;
use crate::topo;
use anyhow::{Result, bail};
use pinfold_core::{Prefetcher, Prefetchers, Topology};
use pinfold_linux::memory::{SampledMachine, Sampling};
use pinfold_linux::prefetchers;
use pinfold_store::MachineKey;
use pinfold_sweep::measured::{MeasuredMachine, MeasuredPlan};
use pinfold_sweep::spaces::is_baseline;
use pinfold_sweep::{Point, SpaceMachine, Spaces};
use std::collections::BTreeMap;

/// The spaces of the command line on this machine.
pub(super) struct SpacesHere {
    machine: SpaceMachine,
    spaces: Spaces,
    /// The numbers of threads; `None` if all configurations have the program's own.
    counts: Option<Vec<usize>>,
    /// Why pages cannot be placed by who accesses them; `None` if they can.
    no_accesses: Option<String>,
}

/// The configurations, and what this machine lacks of the spaces.
pub(super) struct Configurations {
    pub(super) plan: MeasuredPlan,
    pub(super) left_out: Vec<String>,
}

impl SpacesHere {
    /// Errors: a space is unknown, or does not define configurations of this machine.
    pub(super) fn new(arguments: &Arguments, topology: &Topology) -> Result<Self> {
        let spaces = Spaces::new(&arguments.space, arguments.limit)?;
        let (known, why_not) = match prefetchers::obstacle(topology.allowed_pus()) {
            None => (&Prefetcher::ALL[..], String::new()),
            Some(error) => (&[][..], error.to_string()),
        };
        let machine = SpaceMachine::new(topology.clone(), known, why_not);
        let no_accesses = match arguments.measured.page_options {
            // Its recording has the accesses.
            Some(_) => None,
            None => SampledMachine::here().check(Sampling::default()).err(),
        };
        Ok(Self {
            counts: spaces.thread_counts(&machine)?,
            machine,
            spaces,
            no_accesses: no_accesses.map(|error| error.to_string()),
        })
    }

    pub(super) fn varies_threads(&self) -> bool {
        self.counts.is_some()
    }

    /// The most threads of a configuration; `None` if all have the program's own number.
    pub(super) fn most_threads(&self) -> Option<usize> {
        self.counts.as_ref()?.iter().copied().max()
    }

    /// All configurations. `team` says how many threads the program has, if the spaces do not.
    pub(super) fn configurations(
        &self,
        arguments: &Arguments,
        program: &Program<'_>,
        team: Team,
    ) -> Result<Configurations> {
        let counts = match (&self.counts, team) {
            (Some(counts), _) => counts.clone(),
            (None, Team::Told(threads) | Team::Seen(threads)) => vec![threads],
            (None, Team::Own) => bail!("the number of the program's threads is not known: give it with --threads N"),
        };
        let mut left_out: Vec<String> = vec![];
        let mut points: BTreeMap<usize, Vec<Point>> = BTreeMap::new();
        let mut without_accesses = 0;
        for threads in counts {
            let mut selection = self.spaces.points(&self.machine, threads)?;
            left_out.append(&mut selection.left_out);
            if self.no_accesses.is_some() {
                let before = selection.points.len();
                selection.points.retain(|point| !point.pages.needs_accesses());
                without_accesses += before - selection.points.len();
            }
            points.insert(threads, selection.points);
        }
        if let Some(why) = self.no_accesses.as_ref().filter(|_| without_accesses > 0) {
            left_out.push(format!(
                "{without_accesses} configurations with the page maps locality and balance are left out: {why}; \
                 --page-options profile=FILE.pft takes the accesses from a recording"
            ));
        }
        if points.values().all(Vec::is_empty) {
            bail!(
                "no configuration of the spaces is possible here: {}",
                left_out.join("; ")
            );
        }
        left_out.sort();
        left_out.dedup();
        let topology = self.machine.topology();
        let key = MachineKey::new(topology, None);
        let plan = MeasuredPlan::new(
            this_machine(topology, &key),
            program.identity(arguments, key)?,
            points,
            self.varies_threads(),
            |point| is_baseline(&self.machine, point),
        );
        Ok(Configurations { plan, left_out })
    }
}

/// Whether the configurations differ in their prefetchers. Otherwise the prefetchers stay as they are.
pub(super) fn sets_prefetchers(plan: &MeasuredPlan) -> bool {
    let points = plan.jobs.iter().filter_map(|job| job.point.as_ref());
    points
        .map(|point| point.prefetchers)
        .any(|prefetchers| prefetchers != Prefetchers::ALL)
}

/// This machine in a data set. Machines with the same name can differ in shape, so that the name has a part of the hash.
pub(in super::super) fn this_machine(topology: &Topology, key: &MachineKey) -> MeasuredMachine {
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
        topology: topo::json::of(topology, &[]),
        llc_bytes: sizes.sum(),
        pus: topology.allowed_pus().len(),
    }
}
