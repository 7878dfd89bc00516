//! What starting a program, or attaching to one, needs.

use super::super::policies::{Built, Regions};
use super::super::{Arguments, pages};
use super::Plan;
use crate::embedded;
use anyhow::{Context, Result};
use pinfold_core::Pinning;
use pinfold_linux::channel::Channel;
use pinfold_linux::claims::Claims;
use pinfold_linux::journal::Directory;
use pinfold_linux::launch::{Attach, Counted, Launch, PageOptions, Preferring, Preload, RunningProcess, WaitingChild};
use pinfold_linux::regions::RegionTable;
use std::env;

impl Plan {
    /// What attaching to a process needs.
    pub(in super::super) fn attach(
        &mut self,
        arguments: &Arguments,
        built: &Built,
        process: RunningProcess,
        journal: Directory,
        claims: Option<Claims>,
    ) -> Result<Attach> {
        let initialise = self.common.times.initialise;
        Ok(Attach {
            process,
            topology: self.topology.clone(),
            initial: built.first_pinning().cloned(),
            grace: initialise,
            skipped: self.common.skip.serials().clone(),
            claims,
            journal,
            counted: Counted {
                plan: self.counting.plan(arguments)?,
                channel: None,
                io: self.counting.io(),
            },
            pages: pages::options_for_running(arguments, self.pages, initialise)?,
            lasts: arguments.running.lasts,
        })
    }

    /// The launch of the program with everything that it needs. `initial` is where its ranks run from the first
    /// instruction on, `preferring` the scheduler in which its threads have preferences.
    pub(in super::super) fn launch(
        &mut self,
        arguments: &Arguments,
        built: &Built,
        waiting: Option<&WaitingChild>,
        claims: Option<Claims>,
        preferring: Option<Preferring>,
    ) -> Result<Launch> {
        let initial = built.first_pinning();
        let plan = self.counting.plan(arguments)?;
        let channel = Channel::create().context("the program cannot report its progress")?;
        let libraries = embedded::agent().and_then(|agent| {
            let mpi = embedded::mpi()?;
            let preload = Preload::new(&agent, mpi.as_deref()).with_context(|| agent.display().to_string())?;
            Ok((Some(agent), mpi, Some(preload)))
        });
        let (agent, mpi, preload) = libraries.unwrap_or_else(|error| {
            let note = format!("Parallel regions and MPI calls are not counted: {error:#}.");
            self.notes.push(note);
            (None, None, None)
        });
        let pages = self.page_options(arguments, initial)?;
        let inherited = |name: &str| env::var_os(name);
        let mut environment = match waiting {
            // It executes the program before pinfold follows it.
            Some(_) => channel.environment(inherited, agent.as_deref(), mpi.as_deref()),
            None => channel.variables(inherited, agent.as_deref()),
        };
        let regions = match built.regions {
            Regions::No => None,
            // The agent would place their threads by masks.
            _ if preferring.is_some() => None,
            // The program is placed as a whole then.
            Regions::Optional => RegionTable::create(true).ok(),
            Regions::Needed => {
                Some(RegionTable::create(false).context("the program cannot report its parallel regions")?)
            }
        };
        environment.extend(regions.as_ref().map(RegionTable::environment));
        Ok(Launch {
            command: arguments.command.clone(),
            waiting: waiting.cloned(),
            claims,
            preferring,
            environment,
            preload,
            removed_environment: self.removed_environment.clone(),
            topology: self.topology.clone(),
            chosen: self.chosen.clone(),
            initial: initial.cloned(),
            within: built.within.clone(),
            grace: self.common.times.initialise,
            skipped: self.common.skip.serials().clone(),
            outlive: arguments.changes.outlive,
            keep_pinned: arguments.changes.keep_pinned,
            // What ends with the program needs no journal.
            journal: if arguments.changes.outlive || arguments.changes.keep_pinned || self.prefetchers.is_some() {
                Some(Directory::new(&arguments.journals.path())?)
            } else if built.regions == Regions::Needed {
                // Without a journal the prefetchers stay as they are, and the rest is optimised.
                Directory::new(&arguments.journals.path()).ok()
            } else {
                None
            },
            journals: Some(arguments.journals.path()),
            counted: Counted {
                plan,
                channel: Some(channel),
                io: self.counting.io(),
            },
            regions,
            pages,
        })
    }

    /// The options for the program's pages. `initial` is where its ranks run from the first instruction on.
    pub(in super::super) fn page_options(
        &mut self,
        arguments: &Arguments,
        initial: Option<&Pinning>,
    ) -> Result<PageOptions> {
        pages::options(
            arguments,
            self.first_pages,
            &self.topology,
            initial,
            self.common.times.initialise,
            &mut self.notes,
        )
    }
}
