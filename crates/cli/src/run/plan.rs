//! Arguments and environment become one resolved plan before any work starts: which PUs, which policy with which
//! options, what is counted, what the program is given. Everything that can be wrong is found here.

use crate::behaviour::{self, Learner};
use crate::embedded;

use super::{Arguments, PolicyName, SearchName, binding, pages, sam, schedule};
use anyhow::{Context, Result, anyhow, bail};
use pinfold_core::{Metric, PageMapping, Pinning, Prefetchers, PuSet, Topology};
use pinfold_linux::channel::Channel;
use pinfold_linux::counters::{self, Availability, CounterError, Request};
use pinfold_linux::journal::Directory;
use pinfold_linux::launch::{Launch, LaunchError, PageOptions};
use pinfold_policy::sam::{Sam, SamOptions};
use pinfold_policy::{
    Autopin, Candidates, Fixed, Given, HintOptions, Hints, Kept, MetricRequest, Normalised, Options, Policy,
    RuleMetric, Rules, Search, Skip, Times, Watch, candidates,
};
use pinfold_sim::model::Model;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The metrics that the program itself and the agent report.
const OWN_METRICS: [&str; 3] = ["heartbeat", "regions", "barriers"];

/// By what metrics of rules are divided.
const INSTRUCTIONS: &str = "event:instructions";

/// Where the program is going to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    Here,
    Simulated,
}

/// What is going to be done.
pub(super) struct Plan {
    /// The machine, restricted to what this run may use.
    pub(super) topology: Topology,
    /// What the user should know before the program starts.
    pub(super) notes: Vec<String>,
    /// Why there is nothing to measure by but what the program itself reports, if so.
    pub(super) without_counters: Option<String>,
    policy: PolicyName,
    options: Options,
    metric: MetricRequest,
    requests: Vec<Request>,
    removed_environment: Vec<OsString>,
    pages: Option<PageMapping>,
    pub(super) prefetchers: Option<Prefetchers>,
    /// What is known of the program; only with `--policy hints`.
    hints: Option<HintOptions>,
    /// What `--policy sam` needs of the machine, and how often it looks.
    sam: Option<(sam::Prepared, std::time::Duration)>,
}

/// What a program is known by.
pub(super) enum Identity<'a> {
    /// The binary of a command.
    Command(&'a [OsString]),
    /// A file that stands for the program, such as a recording, and the command.
    File(&'a Path, &'a [String]),
}

impl Plan {
    pub(super) fn new(arguments: &Arguments, topology: Topology, place: Where) -> Result<Self> {
        let topology = restricted(topology, arguments)?;
        let pages = arguments.mapping.mapping(&topology)?;
        let mut notes = vec![];
        let mut policy = arguments.policy;
        let mut removed_environment = vec![];
        let mut requests = vec![];
        let mut without_counters = None;
        let mut prepared = None;
        if arguments.policy != PolicyName::Sam {
            arguments.sam.refuse()?;
        }
        let mut metric = match arguments.event.first() {
            Some(event) => MetricRequest::Named(Request::Event(event.clone()).metric_name()),
            None if arguments.metric == "auto" || sam::Arguments::names_activities(policy, &arguments.metric) => {
                MetricRequest::Auto
            }
            None => MetricRequest::Named(arguments.metric.clone()),
        };
        if place == Where::Here {
            if policy != PolicyName::None {
                let bound = binding::in_force(|name| env::var_os(name));
                let shown: Vec<String> = bound.iter().map(|(name, value)| format!("{name}={value}")).collect();
                if !bound.is_empty() && arguments.overrides {
                    removed_environment.extend(bound.iter().map(|(name, _)| OsString::from(name)));
                    notes.push(format!(
                        "{} is taken away from the program (--override).",
                        shown.join(", ")
                    ));
                } else if !bound.is_empty() {
                    policy = PolicyName::None;
                    notes.push(format!(
                        "{}: the program binds its own threads, so they are measured and left where they are; --override \
                         takes this away from the program.",
                        shown.join(", ")
                    ));
                }
            }
            (requests, metric) = requested(arguments, metric)?;
            if policy == PolicyName::Sam {
                let (sam, counted) = arguments.sam.here(&arguments.metric)?;
                prepared = Some((sam, arguments.interval));
                for request in counted {
                    if !requests.contains(&request) {
                        requests.push(request);
                    }
                }
            }
            if requests.is_empty() && metric == MetricRequest::Auto {
                match counters::hardware_counters() {
                    Availability::Available => requests.push(Request::Event("instructions".to_owned())),
                    Availability::Absent { why } | Availability::Forbidden { why } => without_counters = Some(why),
                }
            }
        }
        let options = options(arguments, &topology, metric.clone())?;
        Ok(Self {
            topology,
            notes,
            without_counters,
            policy,
            options,
            metric,
            requests,
            removed_environment,
            pages,
            prefetchers: arguments.simulated.prefetch,
            hints: None,
            sam: prepared,
        })
    }

    /// With `--policy sam`: finds out what a model counts.
    pub(super) fn count_on(&mut self, arguments: &Arguments, model: &Model) -> Result<()> {
        if self.policy == PolicyName::Sam {
            self.sam = Some((arguments.sam.simulated(model)?, arguments.interval));
        }
        Ok(())
    }

    /// Opens the behaviour database for `--policy hints`, and finds out what it knows of the program.
    /// `simulated` is the name of a machine that is.
    pub(super) fn learn(
        &mut self,
        arguments: &Arguments,
        identity: &Identity<'_>,
        simulated: Option<&str>,
    ) -> Result<Learner> {
        if arguments.policy != PolicyName::Hints {
            if arguments.rules.is_some() {
                bail!("--rules is for --policy hints; add that, or leave --rules out");
            }
            if arguments.observe.is_some() {
                bail!("--observe is for --policy hints; add that, or leave --observe out");
            }
            return Ok(Learner::default());
        }
        // A program that binds its own threads is left to that, and nothing is learned.
        if self.policy != PolicyName::Hints {
            return Ok(Learner::default());
        }
        let machine = behaviour::machine(&self.topology, simulated)?;
        let key = match identity {
            Identity::File(file, command) => behaviour::program_key(file, command, machine)?,
            Identity::Command(command) => {
                let file = executable(&command[0])?;
                behaviour::program_key(&file, &super::words(command), machine)?
            }
        };
        let rules = behaviour::read_rules(arguments.rules.as_deref(), &arguments.behaviour.rules_path()?)?;
        let (mut store, note) = arguments.behaviour.open()?;
        self.notes.extend(note);
        let options = HintOptions {
            times: self.options.times,
            metric: self.metric.clone(),
            skip: self.options.skip.clone(),
            threads: self.options.threads,
            observe: arguments.observe.and_then(|observe| observe.0),
            known: behaviour::known(&mut store, &key, rules.as_ref())?,
            rules: rules.as_ref().map(|learned| learned.rules.clone()),
        };
        options.check()?;
        if let (Some(rules), None) = (&options.rules, simulated) {
            self.count_for(rules);
        }
        if options.rules.is_none() {
            self.notes.push(format!(
                "There are no learned rules in `{}`, so a program that is not known stays where it is observed. `pinfold db rebuild` makes \
                 rules of what was observed; --rules names others.",
                arguments.behaviour.rules_path()?.display()
            ));
        }
        self.hints = Some(options);
        Ok(Learner::new(store, key, rules.as_ref()))
    }

    /// Has the events counted that rules look at, where they can be counted here.
    fn count_for(&mut self, rules: &Rules) {
        let event = |name: &str| {
            name.strip_prefix("event:")
                .map(|event| Request::Event(event.to_owned()))
        };
        let mut requests = self.requests.clone();
        for request in looked_at(rules).into_iter().filter_map(event) {
            if !requests.contains(&request) {
                requests.push(request);
            }
        }
        // What cannot be counted is told when it is known what the machine counts.
        if matches!(counters::hardware_counters(), Availability::Available) && counters::Plan::new(&requests).is_ok() {
            self.requests = requests;
        }
    }

    /// What the user should know of rules that look at what is not counted.
    pub(super) fn about_rules(&self, metrics: &[Metric]) -> Option<String> {
        let rules = self.hints.as_ref()?.rules.as_ref()?;
        let counted = |name: &str| !name.starts_with("event:") || metrics.iter().any(|metric| metric.name == name);
        let lacking: Vec<&str> = looked_at(rules).into_iter().filter(|name| !counted(name)).collect();
        (!lacking.is_empty()).then(|| {
            format!(
                "The rules look at {}, which is not counted here; they were made for {}. A condition on it never holds.",
                lacking.join(" and "),
                rules.trained().machines.join(", ")
            )
        })
    }

    /// Where pages are to be; `None` where nobody said.
    pub(super) fn pages(&self) -> Option<PageMapping> {
        self.pages
    }

    /// Whether the machine has the metric that was asked for.
    pub(super) fn check_metric(&self, metrics: &[Metric]) -> Result<()> {
        Ok(self.metric.check(metrics)?)
    }

    /// The policy, at its beginning.
    pub(super) fn policy(&self) -> Box<dyn Policy> {
        let policy: Box<dyn Policy> = match (self.kept(), &self.hints, &self.sam) {
            (_, _, Some((sam, interval))) => Box::new(Sam::new(SamOptions {
                interval: *interval,
                thresholds: sam.thresholds.clone(),
                mapper: sam.mapper,
                pages_follow: sam.pages_follow,
                events: sam.events.clone(),
                times: self.options.times,
                metric: self.metric.clone(),
                skip: self.options.skip.clone(),
            })),
            (None, None, None) => Box::new(Autopin::new(self.options.clone())),
            (None, Some(hints), None) => Box::new(Hints::new(hints.clone())),
            (Some(kept), _, None) => Box::new(Fixed::new(
                kept,
                self.options.times,
                self.metric.clone(),
                self.options.skip.clone(),
            )),
        };
        Box::new(Given::new(
            policy,
            self.pages,
            self.prefetchers,
            Some(self.options.times.warm_up),
        ))
    }

    /// The program with everything that it needs, once.
    pub(super) fn launch(&mut self, arguments: &Arguments) -> Result<Launch> {
        let plan = if self.requests.is_empty() {
            None
        } else {
            Some(counters::Plan::new(&self.requests).map_err(|error| explained(error, &arguments.metric))?)
        };
        let channel = Channel::create().context("the program cannot report its progress")?;
        let agent = match embedded::agent() {
            Ok(agent) => Some(agent),
            Err(error) => {
                self.notes.push(format!("Parallel regions are not counted: {error:#}."));
                None
            }
        };
        let pages = self.page_options(arguments)?;
        Ok(Launch {
            command: arguments.command.clone(),
            environment: channel.environment(|name: &str| env::var_os(name), agent.as_deref()),
            removed_environment: self.removed_environment.clone(),
            topology: self.topology.clone(),
            initial: self.initial(),
            grace: self.options.times.initialise,
            skipped: self.options.skip.serials().clone(),
            outlive: arguments.outlive,
            keep_pinned: arguments.keep_pinned,
            // What ends with the program needs no journal.
            journal: if arguments.outlive || arguments.keep_pinned || self.prefetchers.is_some() {
                Some(Directory::new(&arguments.journals.path())?)
            } else {
                None
            },
            plan,
            channel: Some(channel),
            pages,
        })
    }

    /// What is to be done about the program's pages.
    pub(super) fn page_options(&mut self, arguments: &Arguments) -> Result<PageOptions> {
        let initial = self.initial();
        let initialisation = self.options.times.initialise;
        pages::options(
            arguments,
            self.pages,
            &self.topology,
            initial.as_ref(),
            initialisation,
            &mut self.notes,
        )
    }

    /// Where ranks run from the beginning, where anybody decides that.
    pub(super) fn initial(&self) -> Option<Pinning> {
        match (self.kept(), &self.hints) {
            (None, None) => self.options.candidates.first_pinning(),
            (None, Some(hints)) => hints.first_pinning(&self.topology),
            (Some(kept), _) => kept.first_pinning(&self.topology),
        }
    }

    /// What is kept for the whole run, by a policy that does.
    fn kept(&self) -> Option<Kept> {
        match self.policy {
            PolicyName::Autopin | PolicyName::Hints => None,
            PolicyName::Fixed => {
                let first = self.options.candidates.first_pinning();
                let first = first.or_else(|| Pinning::new(candidates::distributed(&self.topology)));
                Some(first.map_or(Kept::Nothing, Kept::Pinning))
            }
            PolicyName::Hint(hint) => Some(Kept::Hint {
                hint,
                threads: self.options.threads,
            }),
            // SAM leaves threads to the operating system until it moves them.
            PolicyName::None | PolicyName::Sam => Some(Kept::Nothing),
        }
    }

    /// What is pinned from the beginning, and why; `None` where nothing is.
    pub(super) fn about_pinning(&self) -> Option<String> {
        let pinning = self.initial()?;
        let pus: PuSet = pinning.pus().iter().copied().collect();
        let why = match (self.policy, &self.hints) {
            (_, Some(hints)) => match hints.expected() {
                Some(known) => known.why.clone(),
                None => "--observe asks for it".to_owned(),
            },
            (PolicyName::Hint(hint), _) => format!("--policy hint:{hint} asks for it"),
            (PolicyName::Fixed, _) => "--policy fixed asks for it".to_owned(),
            _ => "it is the first of the pinnings that were asked for".to_owned(),
        };
        Some(format!(
            "threads are pinned from the start, each to one of the CPUs {pus}: {why}"
        ))
    }
}

/// The metrics that rules look at, and that they are divided by.
fn looked_at(rules: &Rules) -> Vec<&str> {
    let mut names: Vec<&str> = rules.metrics().iter().map(|metric| metric.name.as_str()).collect();
    let divided = |metric: &RuleMetric| metric.normalised == Normalised::PerInstruction;
    if rules.metrics().iter().any(divided) && !names.contains(&INSTRUCTIONS) {
        names.push(INSTRUCTIONS);
    }
    names
}

/// What was given to `--metric` may have been meant for an event or for one of our own metrics.
fn explained(error: CounterError, given: &str) -> anyhow::Error {
    let CounterError::UnknownEvent { name, nearest } = &error else {
        return error.into();
    };
    if name != given {
        return error.into();
    }
    let own = OWN_METRICS
        .iter()
        .filter(|own| strsim::damerau_levenshtein(own, given) <= 2);
    let near: Vec<&str> = own.copied().chain(nearest.iter().map(String::as_str)).collect();
    let guess = match near.first() {
        Some(_) => format!("; did you mean {}?", near.join(" or ")),
        None => String::new(),
    };
    anyhow!(
        "there is no metric `{given}`{guess}; there are {}, uprobe:SYMBOL and the events that `pinfold events` lists",
        OWN_METRICS.join(", ")
    )
}

/// The topology without the PUs that `--physcpubind` and `--cpunodebind` exclude.
fn restricted(topology: Topology, arguments: &Arguments) -> Result<Topology> {
    let mut pus = topology.allowed_pus().clone();
    if let Some(list) = &arguments.physcpubind {
        let asked: PuSet = list.parse().context("--physcpubind")?;
        let lacking = asked.difference(topology.allowed_pus());
        if !lacking.is_empty() {
            bail!("--physcpubind {list}: CPU {lacking} does not exist or is not ours; ours are {pus}");
        }
        if asked.is_empty() {
            bail!("--physcpubind `{list}` names no CPU; ours are {pus}");
        }
        pus = pus.intersection(&asked);
    }
    if let Some(list) = &arguments.cpunodebind {
        let numbers: PuSet = list.parse().context("--cpunodebind")?;
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
        pus = pus.intersection(&local);
    }
    topology
        .restricted_to(&pus)
        .context("--physcpubind and --cpunodebind leave nothing to run on; name CPUs or nodes that are ours")
}

/// The numbers of the NUMA nodes.
fn nodes(topology: &Topology) -> String {
    let numbers: Vec<String> = topology.nodes().iter().map(|node| node.id.to_string()).collect();
    numbers.join(", ")
}

/// What must be counted for each task so that the metric can be had, and the metric's full name.
fn requested(arguments: &Arguments, metric: MetricRequest) -> Result<(Vec<Request>, MetricRequest)> {
    if !arguments.event.is_empty() {
        return Ok((arguments.event.iter().cloned().map(Request::Event).collect(), metric));
    }
    let MetricRequest::Named(name) = &metric else {
        return Ok((vec![], metric));
    };
    if OWN_METRICS.contains(&name.as_str()) {
        return Ok((vec![], metric));
    }
    let request = if name.starts_with("uprobe:") {
        counters::parse_uprobe(name, &executable(&arguments.command[0])?)?
    } else {
        Request::Event(name.strip_prefix("event:").unwrap_or(name).to_owned())
    };
    let metric = MetricRequest::Named(request.metric_name());
    Ok((vec![request], metric))
}

/// The file that `command` names, found as execvp(3) would find it.
fn executable(command: &OsStr) -> Result<PathBuf, LaunchError> {
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

/// The options of the search, checked.
fn options(arguments: &Arguments, topology: &Topology, metric: MetricRequest) -> Result<Options> {
    let mut times = Times::new(Some(arguments.probe), arguments.warm_up, arguments.initialise);
    times.interval = arguments.interval.min(arguments.probe);
    let schedules = if !arguments.schedule.is_empty() {
        schedule::from_lists(&arguments.schedule, topology)?
    } else if let Some(value) = env::var_os("SCHEDULE").filter(|value| !value.is_empty()) {
        schedule::from_variable(&value.to_string_lossy(), topology)?
    } else {
        vec![]
    };
    let options = Options {
        times,
        search: match arguments.search {
            SearchName::Exhaustive => Search::Exhaustive,
            SearchName::Racing => Search::Racing,
        },
        candidates: if schedules.is_empty() {
            Candidates::Topology {
                most: arguments.candidates,
            }
        } else {
            Candidates::Schedule(schedules)
        },
        threads: arguments.threads,
        skip: arguments
            .skip
            .as_deref()
            .map(str::parse::<Skip>)
            .transpose()
            .context("--skip")?
            .unwrap_or_default(),
        metric,
        watch: (arguments.search_again != 0.0).then(|| Watch {
            fall: arguments.search_again,
            ..Watch::default()
        }),
    };
    options.check(topology)?;
    Ok(options)
}
