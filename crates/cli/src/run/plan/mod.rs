//! Arguments and environment become one resolved plan before any work starts: the PUs, the policy with its options, what
//! is counted, the program's environment. All errors of arguments are found here.

use super::place::Where;
use super::policies::{Build, Built, Common, Program, Regions, Setting};
use super::{Arguments, binding, near, pages, schedule};
use crate::embedded;
use anyhow::{Context, Result, anyhow, bail};
use pinfold_core::{Metric, PageMapping, Pinning, Prefetchers, PuSet, Topology, sources};
use pinfold_linux::channel::Channel;
use pinfold_linux::claims::Claims;
use pinfold_linux::counters::{self, Availability, CounterError, Request};
use pinfold_linux::journal::Directory;
use pinfold_linux::launch::{Attach, Launch, LaunchError, PageOptions, Preload, RunningProcess, WaitingChild};
use pinfold_linux::regions::RegionTable;
use pinfold_policy::auto::Near;
use pinfold_policy::{Candidates, MetricRequest, Skip, Times, WithUserSettings};
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a first placement is made again, because another run has claimed its PUs at the same time.
const TRIES: usize = 16;

/// A resolved run.
pub(super) struct Plan {
    /// The machine, restricted to what this run may use.
    pub(super) topology: Topology,
    /// The PUs that options name; `None` where they name none.
    chosen: Option<PuSet>,
    /// The same without the PUs that other runs of pinfold have: that of which the policy makes its first placement.
    free: Topology,
    /// Notes for the user, before the program starts.
    pub(super) notes: Vec<String>,
    /// Why hardware counters cannot be used, so that only the program's own reports can be measured.
    pub(super) without_counters: Option<String>,
    common: Common,
    /// Where the user wants the program, as far as the policy compares that with other places.
    near: Option<Near>,
    /// Makes the policy.
    policy: Box<Build>,
    /// The name of the machine, where it is simulated.
    simulated: Option<String>,
    requests: Vec<Request>,
    removed_environment: Vec<OsString>,
    /// The user's page mapping, and that with which the program begins.
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
        let limits = &arguments.limits;
        let mut names_pus = limits.physcpubind.is_some() || limits.cpunodebind.is_some();
        let mut topology = restricted(topology, arguments)?;
        let mut pages = arguments.pages.mapping.mapping(&topology)?;
        let mut notes = vec![];
        let mut policy = arguments.policies.chosen()?;
        let mut compared = None;
        if !arguments.limits.near.is_empty() {
            let devices = arguments.machine.selected()?.devices()?;
            let near = near::near(topology.clone(), &devices, &arguments.limits.near)?;
            let stays = process.is_some() || arguments.changes.outlive || arguments.changes.keep_pinned;
            if !policy.compares_near() || stays || near.is_all {
                names_pus |= !near.is_all;
                topology = near.topology;
                pages = pages.or(near.pages);
                notes.push(near.note);
            } else {
                notes.push(format!(
                    "{} The program begins there, and leaves only for what is faster.",
                    near.note
                ));
                compared = Some(Near {
                    pus: near.topology.allowed_pus().clone(),
                    pages: near.pages.filter(|_| pages.is_none()),
                    what: near.devices,
                });
            }
        }
        if process.is_some() && policy.needs_agent() {
            bail!(
                "--policy {name} needs pinfold's agent inside the program, and a process that runs already has none; start the \
                 program with it: pinfold run --policy {name} -- CMD",
                name = policy.name()
            );
        }
        let mut removed_environment = vec![];
        let mut requests = vec![];
        let mut without_counters = None;
        let mut metric = match arguments.search.event.first() {
            Some(event) => MetricRequest::Named(Request::Event(event.clone()).metric_name()),
            None if arguments.search.metric == "auto" || policy.names_events(&arguments.search.metric) => {
                MetricRequest::Auto
            }
            None => MetricRequest::Named(arguments.search.metric.clone()),
        };
        let here = matches!(place, Where::Here);
        if here {
            if policy.places_threads() {
                let bound = binding::in_force(|name| match process {
                    Some(process) => process.variable(name),
                    None => env::var_os(name),
                });
                let shown: Vec<String> = bound.iter().map(|(name, value)| format!("{name}={value}")).collect();
                if !bound.is_empty() && arguments.changes.overrides {
                    removed_environment.extend(bound.iter().map(|(name, _)| OsString::from(name)));
                    notes.push(format!(
                        "{} is taken away from the program (--override).",
                        shown.join(", ")
                    ));
                } else if !bound.is_empty() {
                    policy.leave_threads();
                    let remedy = match process {
                        Some(_) => "start it without that, by `pinfold run -- CMD`, to have them placed",
                        None => "--override takes this away from the program",
                    };
                    notes.push(format!(
                        "{}: the program binds its own threads, so they are measured and left where they are; {remedy}.",
                        shown.join(", ")
                    ));
                }
            }
            (requests, metric) = requested(arguments, process, metric)?;
        }
        let prepared = policy.prepare(arguments, place)?;
        add(&mut requests, prepared.requests);
        if here && requests.is_empty() && metric == MetricRequest::Auto {
            match counters::hardware_counters() {
                Availability::Available => requests.push(Request::Event("instructions".to_owned())),
                Availability::Absent { why } | Availability::Forbidden { why } => without_counters = Some(why),
            }
        }
        let initialise = arguments.times.initialise.or(process.map(|_| Duration::ZERO));
        let common = common(arguments, &topology, metric, initialise)?;
        Ok(Self {
            free: topology.clone(),
            chosen: names_pus.then(|| topology.allowed_pus().clone()),
            topology,
            notes,
            without_counters,
            common,
            near: compared,
            policy: prepared.build,
            simulated: place.simulated().map(str::to_owned),
            requests,
            removed_environment,
            pages,
            first_pages: pages,
            prefetchers: arguments.simulated.prefetch,
        })
    }

    /// The policy for `program`, at its beginning.
    pub(super) fn build(&mut self, arguments: &Arguments, program: &Program<'_>) -> Result<Built> {
        let mut built = (self.policy)(&Setting {
            topology: &self.free,
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
            self.count_where_possible(&built.optional_requests);
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
            let Some(pinning) = built.first_pinning() else {
                return Ok(built);
            };
            let Err(taken) = claims.claim(&pinning.pus().iter().copied().collect()) else {
                return Ok(built);
            };
            if tries.next().is_some() {
                self.notes.truncate(notes);
                continue;
            }
            built.initial = None;
            self.notes.push(format!(
                "Threads begin unpinned: another pinfold (process {}) has pinned its program to CPU {}.",
                taken.by, taken.pu
            ));
            return Ok(built);
        }
    }

    /// Counts these too, where all of them can be counted. The machine lists later what it counts.
    fn count_where_possible(&mut self, optional: &[Request]) {
        let mut requests = self.requests.clone();
        add(&mut requests, optional.to_vec());
        if matches!(counters::hardware_counters(), Availability::Available) && counters::Plan::new(&requests).is_ok() {
            self.requests = requests;
        }
    }

    /// The page mapping; `None` where the user gave none.
    pub(super) fn pages(&self) -> Option<PageMapping> {
        self.pages
    }

    /// Whether the machine has the requested metric.
    pub(super) fn check_metric(&self, metrics: &[Metric]) -> Result<()> {
        Ok(self.common.metric.check(metrics)?)
    }

    /// What attaching to a process needs.
    pub(super) fn attach(
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
            plan: self.counted(arguments)?,
            pages: pages::of_running(arguments, self.pages, initialise)?,
            lasts: arguments.running.lasts,
        })
    }

    /// What is counted for each task; `None` for nothing.
    fn counted(&self, arguments: &Arguments) -> Result<Option<counters::Plan>> {
        if self.requests.is_empty() {
            return Ok(None);
        }
        let plan = counters::Plan::new(&self.requests);
        plan.map(Some)
            .map_err(|error| explained(error, &arguments.search.metric))
    }

    /// The launch of the program with everything that it needs. `initial` is where its ranks run from the first
    /// instruction on.
    pub(super) fn launch(
        &mut self,
        arguments: &Arguments,
        built: &Built,
        waiting: Option<&WaitingChild>,
        claims: Option<Claims>,
    ) -> Result<Launch> {
        let initial = built.first_pinning();
        let plan = self.counted(arguments)?;
        let channel = Channel::create().context("the program cannot report its progress")?;
        let agent = embedded::agent().and_then(|agent| {
            let preload = Preload::new(&agent).with_context(|| agent.display().to_string())?;
            Ok((agent, preload))
        });
        let (agent, preload) = match agent {
            Ok((agent, preload)) => (Some(agent), Some(preload)),
            Err(error) => {
                self.notes.push(format!("Parallel regions are not counted: {error:#}."));
                (None, None)
            }
        };
        let pages = self.page_options(arguments, initial)?;
        let inherited = |name: &str| env::var_os(name);
        let mut environment = match waiting {
            // It executes the program before pinfold follows it.
            Some(_) => channel.environment(inherited, agent.as_deref()),
            None => channel.variables(inherited, agent.as_deref()),
        };
        let regions = match built.regions {
            Regions::No => None,
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
            plan,
            channel: Some(channel),
            regions,
            pages,
        })
    }

    /// The options for the program's pages. `initial` is where its ranks run from the first instruction on.
    pub(super) fn page_options(&mut self, arguments: &Arguments, initial: Option<&Pinning>) -> Result<PageOptions> {
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

/// Adds the requests that are not in the list yet.
fn add(requests: &mut Vec<Request>, more: Vec<Request>) {
    for request in more {
        if !requests.contains(&request) {
            requests.push(request);
        }
    }
}

/// The value of `--metric` may have been meant for an event or for a metric of pinfold.
fn explained(error: CounterError, given: &str) -> anyhow::Error {
    let CounterError::UnknownEvent { name, nearest } = &error else {
        return error.into();
    };
    if name != given {
        return error.into();
    }
    let reported: Vec<&str> = sources::reported().map(|(source, _)| source.code).collect();
    let own = reported
        .iter()
        .copied()
        .filter(|own| strsim::damerau_levenshtein(own, given) <= 2);
    let near: Vec<&str> = own.chain(nearest.iter().map(String::as_str)).collect();
    let guess = match near.first() {
        Some(_) => format!("; did you mean {}?", near.join(" or ")),
        None => String::new(),
    };
    anyhow!(
        "there is no metric `{given}`{guess}; there are {}, uprobe:SYMBOL and the events that `pinfold events` lists",
        reported.join(", ")
    )
}

/// The topology without the PUs that `--physcpubind` and `--cpunodebind` exclude.
fn restricted(topology: Topology, arguments: &Arguments) -> Result<Topology> {
    let mut pus = topology.allowed_pus().clone();
    if let Some(list) = &arguments.limits.physcpubind {
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
    if let Some(list) = &arguments.limits.cpunodebind {
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
            let with_cpus = topology.nodes().iter().filter(|node| !node.pus.is_empty());
            let with_cpus: Vec<String> = with_cpus.map(|node| node.id.to_string()).collect();
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

/// The requests that count the metric, and the metric's full name.
fn requested(
    arguments: &Arguments,
    process: Option<&RunningProcess>,
    metric: MetricRequest,
) -> Result<(Vec<Request>, MetricRequest)> {
    if !arguments.search.event.is_empty() {
        return Ok((
            arguments.search.event.iter().cloned().map(Request::Event).collect(),
            metric,
        ));
    }
    let MetricRequest::Named(name) = &metric else {
        return Ok((vec![], metric));
    };
    if sources::reported().any(|(source, _)| source.code == name) {
        if process.is_some() {
            bail!(
                "--metric {name} is reported from inside the program, by what pinfold gives it at its start, and a process that \
                 runs already has none of that; compare by an event (`pinfold events`) or by uprobe:SYMBOL, or start the \
                 program with `pinfold run -- CMD`"
            );
        }
        return Ok((vec![], metric));
    }
    let request = if name.starts_with("uprobe:") {
        let file = match process {
            Some(process) => process.executable(),
            None => executable(&arguments.command[0])?,
        };
        counters::parse_uprobe(name, &file)?
    } else {
        Request::Event(name.strip_prefix("event:").unwrap_or(name).to_owned())
    };
    let metric = MetricRequest::Named(request.metric_name());
    Ok((vec![request], metric))
}

/// The file that `command` names, found as execvp(3) would find it.
pub(super) fn executable(command: &OsStr) -> Result<PathBuf, LaunchError> {
    let not_found = || LaunchError::NotFound {
        command: command.to_owned(),
    };
    let given = Path::new(command);
    if given.components().count() > 1 {
        return match given.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(not_found()),
            Ok(metadata) if metadata.is_dir() => Err(LaunchError::NotExecutable {
                command: command.to_owned(),
                why: "it is a directory".to_owned(),
            }),
            _ => Ok(given.to_path_buf()),
        };
    }
    env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .map(|directory| directory.join(given))
        .find(|file| {
            file.metadata()
                .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
        })
        .ok_or_else(not_found)
}

/// The options that all policies have in common, checked.
fn common(
    arguments: &Arguments,
    topology: &Topology,
    metric: MetricRequest,
    initialise: Option<Duration>,
) -> Result<Common> {
    let mut times = Times::new(Some(arguments.times.probe), arguments.times.warm_up, initialise);
    times.interval = arguments.times.interval.min(arguments.times.probe);
    times.check()?;
    let schedules = if !arguments.search.schedule.is_empty() {
        schedule::from_lists(&arguments.search.schedule, topology, arguments.search.threads)?
    } else if let Some(value) = env::var_os("SCHEDULE").filter(|value| !value.is_empty()) {
        schedule::from_variable(&value.to_string_lossy(), topology)?
    } else {
        vec![]
    };
    if !schedules.is_empty() {
        Candidates::Schedule(schedules.clone()).check(topology)?;
    }
    let skip = arguments.limits.skip.as_deref().map(str::parse::<Skip>);
    Ok(Common {
        times,
        metric,
        skip: skip.transpose().context("--skip")?.unwrap_or_default(),
        threads: arguments.search.threads,
        schedules,
    })
}
