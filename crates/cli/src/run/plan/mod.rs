//! Arguments and environment become one resolved plan before any work starts. All errors of arguments are found here.
//!
//! Each option has one way through it:
//!
//! 1. `area`: the PUs (`--physcpubind`, `--cpunodebind`, `--near`) and the page mapping;
//! 2. `binding`: whether the program binds its own threads (`--override`);
//! 3. `policies`: the policy, and what must be counted for it;
//! 4. `counting`: the metric and the events (`--metric`, `--event`);
//! 5. `common`: times, schedules and skipped threads, which all policies take;
//! 6. `launch`: what starting a program or attaching to one needs.

mod area;
mod common;
mod counting;
mod launch;

use super::place::Where;
use super::policies::{Build, Built, Chosen, Common, Program, Setting};
use super::{Arguments, binding, undisturbed, whole_runs};
use anyhow::{Result, bail};
use area::Area;
use common::common;
use counting::Counting;
pub(super) use counting::names_events;
use pinfold_core::{Metric, PageMapping, Prefetchers, PuSet, Topology};
use pinfold_linux::claims::Claims;
use pinfold_linux::launch::RunningProcess;
use pinfold_policy::WithUserSettings;
use pinfold_policy::auto::Near;
use pinfold_runtime::DecidesOn;
use std::ffi::OsString;
use std::time::Duration;

/// How often a first placement is made again, because another run has claimed its PUs at the same time.
const TRIES: usize = 16;

/// A resolved run.
pub(super) struct Plan {
    /// The machine, restricted to what this run may use.
    pub(super) topology: Topology,
    /// The PUs that options name; `None` if they name none.
    chosen: Option<PuSet>,
    /// The same without the PUs of other runs of pinfold. The policy makes its first placement in it.
    free: Topology,
    /// Notes for the user, before the program starts.
    pub(super) notes: Vec<String>,
    /// Whether the program stays as it is, because no placement differs from another.
    pub(super) leaves_program: bool,
    common: Common,
    /// The surroundings of a device, if the policy compares them with the whole machine.
    near: Option<Near>,
    /// Makes the policy.
    policy: Box<Build>,
    /// The name of a simulated machine.
    simulated: Option<String>,
    counting: Counting,
    removed_environment: Vec<OsString>,
    /// The user's page mapping, and the page mapping at the start of the program.
    pages: Option<PageMapping>,
    first_pages: Option<PageMapping>,
    pub(super) prefetchers: Option<Prefetchers>,
}

impl Plan {
    pub(super) fn new(arguments: &Arguments, topology: Topology, place: &Where<'_>) -> Result<Self> {
        Self::resolved(arguments, topology, place, None)
    }

    /// The plan for a process that runs already.
    pub(super) fn attached(arguments: &Arguments, topology: Topology, process: &RunningProcess) -> Result<Self> {
        Self::resolved(arguments, topology, &Where::Here, Some(process))
    }

    fn resolved(
        arguments: &Arguments,
        topology: Topology,
        place: &Where<'_>,
        process: Option<&RunningProcess>,
    ) -> Result<Self> {
        let here = matches!(place, Where::Here);
        let mut area = Area::limited(arguments, topology)?;
        let mut policy = arguments.policies.chosen()?;
        let mut notes: Vec<String> = area.go_near(arguments, &policy, process)?.into_iter().collect();
        refuse_without_agent(&policy, process)?;
        let leaves_program = here && undisturbed::is_due(arguments, &area.topology);
        if leaves_program {
            policy.leave_program();
        }
        let mut removed_environment = vec![];
        if here && policy.decides_on() != DecidesOn::Nothing {
            let bound = binding::found(arguments, process);
            if bound.stays {
                policy.leave_threads();
            }
            notes.extend(bound.note);
            removed_environment = bound.removed;
        }
        whole_runs::refuse(arguments, policy.is_default(), here && process.is_none())?;
        let prepared = policy.prepare(arguments, place)?;
        let counting = if here {
            Counting::here(arguments, process, &prepared)?
        } else {
            Counting::elsewhere(arguments, &prepared)
        };
        let initialise = arguments.times.initialise.or(process.map(|_| Duration::ZERO));
        Ok(Self {
            common: common(arguments, &area.topology, counting.metric.clone(), initialise)?,
            free: area.topology.clone(),
            chosen: area.names_pus.then(|| area.topology.allowed_pus().clone()),
            topology: area.topology,
            notes,
            leaves_program,
            near: area.compared,
            policy: prepared.build,
            simulated: place.simulated().map(str::to_owned),
            counting,
            removed_environment,
            pages: area.pages,
            first_pages: area.pages,
            prefetchers: arguments.simulated.prefetch,
        })
    }

    /// The policy for `program`, at its beginning.
    pub(super) fn build(&mut self, arguments: &Arguments, program: &Program<'_>) -> Result<Built> {
        let mut built = (self.policy)(&Setting {
            topology: &self.free,
            machine: &self.topology,
            simulated: self.simulated.as_deref(),
            common: &self.common,
            near: self.near.as_ref(),
            pages: self.pages,
            program,
            arguments,
        })?;
        self.notes.append(&mut built.notes);
        self.first_pages = self.pages.or(built.first_pages);
        if self.simulated.is_none() {
            self.counting.add_where_possible(&built.optional_requests);
        }
        built.policy = Box::new(WithUserSettings::new(
            built.policy,
            self.pages,
            self.prefetchers,
            Some(self.common.times.warm_up),
        ));
        Ok(built)
    }

    /// The policy for `program`, whose first placement is on PUs that no other run of pinfold has. They are claimed.
    pub(super) fn build_beside(
        &mut self,
        arguments: &Arguments,
        program: &Program<'_>,
        claims: Option<&Claims>,
    ) -> Result<Built> {
        let Some(claims) = claims else {
            return self.build(arguments, program);
        };
        let (notes, mut tries) = (self.notes.len(), 0..TRIES);
        loop {
            let (taken, unknown) = claims.taken();
            let free = self.topology.allowed_pus().difference(&taken);
            self.free = self
                .topology
                .clone()
                .restricted_to(&free)
                .unwrap_or_else(|_| self.topology.clone());
            self.notes.extend(unknown);
            let mut built = self.build(arguments, program)?;
            let Some(wanted) = built.claimed() else {
                return Ok(built);
            };
            let Err(taken) = claims.claim(&wanted) else {
                return Ok(built);
            };
            if tries.next().is_some() {
                self.notes.truncate(notes);
                continue;
            }
            if built.initial.take().is_none() {
                return Ok(built);
            }
            self.notes.push(format!(
                "Threads begin unpinned: another pinfold (process {}) has pinned its program to CPU {}.",
                taken.by, taken.pu
            ));
            return Ok(built);
        }
    }

    /// Whether a function that shows progress may be looked for.
    pub(super) fn finds_functions(&self) -> bool {
        self.counting.finds_functions
    }

    /// Why hardware counters cannot be used, so that only the program's own reports can be measured.
    pub(super) fn without_counters(&self) -> Option<&str> {
        self.counting.without_counters.as_deref()
    }

    /// The page mapping; `None` if the user gave none.
    pub(super) fn pages(&self) -> Option<PageMapping> {
        self.pages
    }

    /// Whether the machine has the requested metric.
    pub(super) fn check_metric(&self, metrics: &[Metric]) -> Result<()> {
        if whole_runs::are_requested(&self.common.metric) {
            return Ok(());
        }
        Ok(self.common.metric.check(metrics)?)
    }
}

/// A policy of parallel regions needs the agent, which only a program has that pinfold starts.
fn refuse_without_agent(policy: &Chosen<'_>, process: Option<&RunningProcess>) -> Result<()> {
    if process.is_some() && policy.decides_on() == DecidesOn::Regions {
        bail!(
            "--policy {name} needs pinfold's agent inside the program, and a process that runs already has none; start the \
             program with it: pinfold run --policy {name} -- CMD",
            name = policy.name()
        );
    }
    Ok(())
}
