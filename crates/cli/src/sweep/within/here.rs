//! The launch of the program of a sweep within one run, on this machine.

use super::super::Arguments;
use crate::run::binding;
use crate::{embedded, page_mapping, recorded};
use anyhow::{Context, Result};
use pinfold_core::{NodeId, Prefetcher, PuSet, Topology, sources};
use pinfold_linux::channel::Channel;
use pinfold_linux::counters::{self, Availability, Request};
use pinfold_linux::journal::Directory;
use pinfold_linux::launch::{Counted, Launch, PageOptions, Preload};
use pinfold_linux::machine::LinuxMachine;
use pinfold_linux::machine_state::{self, MachineReading};
use pinfold_linux::memory::{SampledMachine, Sampling};
use pinfold_linux::regions::RegionTable;
use pinfold_linux::{prefetchers, processor_time};
use pinfold_policy::MetricRequest;
use pinfold_sweep::measured::MachineState;
use pinfold_sweep::within::WithinSpace;
use pinfold_sweep::{Exact, SpaceMachine};
use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::time::Duration;

/// What is counted of the program.
pub(super) struct Counting {
    /// The metric of a program that is measured as a whole.
    pub(super) metric: MetricRequest,
    requests: Vec<Request>,
    finds_functions: bool,
}

impl Counting {
    /// For the metric that the user names.
    pub(super) fn new(metric: &str) -> Self {
        if metric == "auto" {
            let counts = matches!(counters::hardware_counters(), Availability::Available);
            return Self {
                metric: MetricRequest::Auto,
                requests: counts
                    .then(|| Request::Event("instructions".to_owned()))
                    .into_iter()
                    .collect(),
                finds_functions: true,
            };
        }
        let is_reported = sources::reported().any(|(source, _)| source.code == metric)
            || metric == sources::IO.code
            || metric == sources::FUNCTION.code;
        let request = Request::Event(metric.strip_prefix("event:").unwrap_or(metric).to_owned());
        Self {
            finds_functions: metric == sources::FUNCTION.code,
            metric: MetricRequest::Named(if is_reported {
                metric.to_owned()
            } else {
                request.metric_name()
            }),
            requests: if is_reported { vec![] } else { vec![request] },
        }
    }
}

/// The spaces of the command line on this machine.
pub(super) fn space(arguments: &Arguments, topology: &Topology) -> WithinSpace {
    let (known, why_not) = match prefetchers::obstacle(topology.allowed_pus()) {
        None => (&Prefetcher::ALL[..], String::new()),
        Some(error) => (&[][..], error.to_string()),
    };
    WithinSpace {
        names: arguments.space.clone(),
        limit: arguments.limit,
        machine: SpaceMachine::new(topology.clone(), known, why_not),
        no_accesses: SampledMachine::here()
            .check(Sampling::default())
            .err()
            .map(|error| error.to_string()),
    }
}

/// Starts the program. `notes` gets remarks for the user.
pub(super) fn launch(
    arguments: &Arguments,
    counting: &Counting,
    space: &WithinSpace,
    notes: &mut Vec<String>,
) -> Result<LinuxMachine> {
    let within = &arguments.within;
    let channel = Channel::create().context("the program cannot report its progress")?;
    let agent = embedded::agent()?;
    let mpi = embedded::mpi()?;
    let preload = Preload::new(&agent, mpi.as_deref()).with_context(|| agent.display().to_string())?;
    let regions = RegionTable::create(false).context("the program cannot report its parallel regions")?;
    let mut environment = channel.variables(|name| env::var_os(name), Some(&agent));
    environment.push(regions.environment());
    environment.extend(recorded::threads_wanted(arguments.threads.or(space.most_threads()?)));
    let bound = binding::in_force(|name| env::var_os(name));
    if !bound.is_empty() {
        let bound: Vec<String> = bound.iter().map(|(name, value)| format!("{name}={value}")).collect();
        notes.push(format!(
            "{} would bind the program's threads, and is taken out of its environment.",
            bound.join(" and ")
        ));
    }
    let plan = if counting.requests.is_empty() {
        None
    } else {
        Some(counters::Plan::new(&counting.requests)?)
    };
    let journals = arguments.measured.journals.path();
    let mut machine = LinuxMachine::launch(Launch {
        command: arguments.command.clone(),
        waiting: None,
        environment,
        preload: Some(preload),
        removed_environment: bound.into_iter().map(|(name, _)| OsString::from(name)).collect(),
        topology: space.machine.topology().clone(),
        chosen: None,
        initial: None,
        within: None,
        grace: within.initialise,
        skipped: BTreeSet::new(),
        outlive: false,
        keep_pinned: false,
        preferring: None,
        claims: within.claims.open_for_this_run(notes),
        // Only prefetchers outlive pinfold. Without a journal they stay as they are.
        journal: Directory::new(&journals).ok(),
        journals: Some(journals),
        counted: Counted {
            plan,
            channel: Some(channel),
            io: counting.metric == MetricRequest::Auto || counting.metric.is_named(sources::IO.code),
        },
        regions: Some(regions),
        pages: PageOptions {
            sampled_from: within.initialise,
            progress: Some(page_mapping::progress(true)),
            ..PageOptions::default()
        },
    })?;
    machine.find_region_code();
    machine.measure_energy();
    if counting.finds_functions {
        machine.find_functions();
    }
    Ok(machine)
}

/// The machine while a program runs.
pub(super) struct Watched {
    before: MachineReading,
    used: Option<Duration>,
    free: Option<Vec<u64>>,
}

impl Watched {
    /// The program runs from now on.
    pub(super) fn begin(nodes: &[NodeId]) -> Self {
        Self {
            before: MachineReading::now(),
            used: used(),
            free: machine_state::free_memory(nodes),
        }
    }

    /// The state until now, when the program has ended.
    pub(super) fn state(self, pus: &PuSet) -> MachineState {
        let interval = self.before.until_now();
        let own = used().zip(self.used).map(|(now, before)| now.saturating_sub(before));
        let others = |(busy, own): (f64, Duration)| Exact((busy - own.as_secs_f64() / interval.seconds).max(0.0));
        MachineState {
            load_of_others: interval.busy.zip(own).map(others),
            steal_share: interval.stolen.map(Exact),
            frequency_hz: machine_state::frequency(pus).map(Exact),
            throttled: interval.throttled,
            free_memory_bytes: self.free,
        }
    }
}

/// The processor time of this process and of its former children.
fn used() -> Option<Duration> {
    let own = processor_time::this_process().ok()?.total();
    Some(own + processor_time::reaped_children().ok()?.total())
}
