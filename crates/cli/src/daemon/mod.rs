//! `pinfold daemon`: places all tasks of the machine by the data that they share and the memory bandwidth that they
//! need.
//!
//! `run` reads the configuration, takes the lock of the one daemon, rolls back what a killed daemon has left, gives up
//! the privileges that it does not need, and then runs the loop of `pinfold_runtime::daemon` until a signal ends it or
//! makes it read its configuration again.

mod alike;
mod arguments;
mod config;
mod known;
mod log;
mod report;
mod server;
mod sources;
mod way;

use crate::machine::topology_here;
use crate::{behaviour, console};
use anyhow::{Context, Result, bail};
pub(crate) use arguments::Arguments;
pub(crate) use config::With;
use config::{Config, Export};
use known::Database;
use log::Log;
use pinfold_core::{Children, HostNoteCode, PlacedBy, Topology, Wake};
use pinfold_linux::functions::Probing;
use pinfold_linux::journal::{Action, Directory, FoundJournal, RolledBack, Roots};
use pinfold_linux::procfs::Procfs;
use pinfold_linux::service::{self, Instance, Listeners, OnRequest, Signals};
use pinfold_linux::watch::{Absent, Containers, Counts, ForkEvents, Watcher, WatcherOptions};
use pinfold_policy::sam::{FairMapper, Thresholds};
use pinfold_runtime::daemon::state::MachineState;
use pinfold_runtime::daemon::{Knowledge, NothingKnown, Pace, Rates, watch};
use pinfold_scx::Preferring;
use report::Reporter;
use serde_json::{Value, json};
use server::Pages;
use sources::Sources;
use std::env;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// The processes and groups that a configuration names and that do not exist.
fn absent(config: &Config) -> Vec<Absent> {
    let (procfs, mut containers) = (Procfs::default(), Containers::default());
    config
        .selection()
        .absent(&procfs, &mut containers, Path::new("/sys/fs/cgroup"))
}

/// The default socket of a daemon with these journals.
pub(crate) fn usual_socket(journals: &crate::journals::Arguments) -> PathBuf {
    journals.path().join("daemon.sock")
}

/// The sockets of the daemon's answers.
fn listeners(export: &Export, journals: &crate::journals::Arguments) -> Result<Listeners> {
    let socket = export.socket.clone().unwrap_or_else(|| usual_socket(journals));
    let port = export.listen.map(|address| address.0);
    Ok(Listeners::open(&socket, export.mode.0, port)?)
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let config = arguments.config()?;
    let thresholds = config.thresholds()?;
    let absent = absent(&config);
    // A process or a group of the file may appear later, as a batch system's group does. One of the command line must
    // exist.
    if let Some(first) = absent.first()
        && arguments.names_tasks()
    {
        bail!("{first}");
    }
    if arguments.check_config {
        console::print("the configuration is right\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    // No thread may be started before this.
    let mut signals = Signals::take().context("signals cannot be taken")?;
    service::raise_descriptor_limit();
    let directory = Directory::new(&arguments.journals.path())?;
    let _only = Instance::claim(&arguments.journals.path())?;
    let mut log = Log::open(&config.log)?;
    let mut topology = topology_here(false)?;
    roll_back_what_was_left(&directory, &mut log)?;
    if arguments.metric.is_none() {
        let Some(found) = alike::with_a_choice(topology, arguments.wait, &mut log, &mut signals)? else {
            tell_manager("STOPPING=1");
            return Ok(ExitCode::SUCCESS);
        };
        topology = found;
    }
    let listeners = listeners(&config.export, &arguments.journals)?;
    let forks = ForkEvents::open(topology.allowed_pus());
    let probing = probing(&config);
    let (preferences, no_scheduler) = way::preferences(&config, &topology)?;
    let left = service::keep_only_what_is_needed(hides_processes() || config.moves_pages() || config.counts_bytes())?;
    let sources = Sources::of(&config)?;
    let (probing, no_functions) = match probing {
        Ok(probing) => (probing, None),
        Err(why) => (None, Some(why)),
    };
    let watcher = watcher(&config, &topology, (sources.counts, probing), &directory, signals)?;
    let mut host = Preferring::new(watcher, preferences);
    let at_birth = forks.and_then(|events| host.host_mut().free_children_at_birth(events));
    let states = Arc::new(OnRequest::default());
    let _server = listeners
        .serve(Arc::new(Pages::new(Arc::clone(&states), config.interval.0)))
        .context("no thread can be started to answer `pinfold top`")?;
    let mut fields = about(&config, &topology, &left);
    fields.push(("with", placed_by(&host).name().into()));
    log_start(&mut log, &fields, at_birth, &absent);
    if let Some(why) = no_scheduler {
        let text = format!("tasks are pinned, because they cannot have preferences: {why}");
        log_note(&mut log, HostNoteCode::NoScheduler, &text);
    }
    if let Some(why) = no_functions {
        log_note(&mut log, HostNoteCode::NoFunctions, &why);
    }
    let machine = MachineState::new(&topology);
    let mut daemon = Daemon {
        rates: sources.rates,
        mapper: mapper(&topology, &thresholds, &config),
        report: Reporter::new(log, states, machine, config.clone(), thresholds),
        knowledge: knowledge(arguments, &config, &topology),
        config,
        topology,
    };
    daemon.report.log_machine();
    tell_manager("READY=1");
    let signal = daemon.go_on(arguments, &mut host);
    tell_manager("STOPPING=1");
    let rolled_back = host.host_mut().end();
    daemon.report_rolled_back(&rolled_back);
    daemon.report.log.event("ended", &[("signal", signal.into())]);
    Ok(ExitCode::SUCCESS)
}

/// The right to probe functions, which the daemon cannot get later; `None` if none are looked for. The error is a
/// sentence for the log.
fn probing(config: &Config) -> Result<Option<Probing>, String> {
    if !config.finds_functions() {
        return Ok(None);
    }
    let refused = |why: String| format!("no calls of functions show the progress of processes: {why}");
    Probing::prepare().map(Some).map_err(refused)
}

/// How tasks are placed now.
fn placed_by(host: &Preferring<Watcher>) -> PlacedBy {
    if host.has_preferences() {
        PlacedBy::Scx
    } else {
        PlacedBy::Masks
    }
}

fn watcher(
    config: &Config,
    topology: &Topology,
    (counts, probing): (Counts, Option<Probing>),
    directory: &Directory,
    signals: Signals,
) -> Result<Watcher> {
    let watching = WatcherOptions {
        topology: topology.clone(),
        selection: config.selection(),
        counts,
        probing,
        release_after: config.release_after.0,
        pages: config.page_limits(),
    };
    Ok(Watcher::new(watching, directory, signals)?)
}

fn knowledge(arguments: &Arguments, config: &Config, topology: &Topology) -> Box<dyn Knowledge> {
    match arguments.database(config) {
        Some(file) => {
            let machine = pinfold_store::MachineKey::new(topology, None);
            Box::new(Database::new(file, machine, behaviour::all_pus(topology).clone()))
        }
        None => Box::new(NothingKnown::default()),
    }
}

fn mapper(topology: &Topology, thresholds: &Thresholds, config: &Config) -> FairMapper {
    FairMapper::new(topology, thresholds.clone(), config.mapper_options(), config.interval.0)
}

/// Logs that the daemon has started, and its missing privileges and counters.
fn log_start(log: &mut Log, about: &[(&'static str, Value)], at_birth: Result<(), impl Display>, absent: &[Absent]) {
    let mut fields = about.to_vec();
    let children = at_birth.as_ref().map_or(Children::WhenMet, |()| Children::AtBirth);
    fields.push(("children", children.name().into()));
    log.event("started", &fields);
    if let Err(error) = at_birth {
        let text = format!(
            "a child of a pinned task may run on its creator's PU until it is met, an interval after its birth: {error}"
        );
        log_note(log, HostNoteCode::ChildrenWhenMet, &text);
    }
    for named in absent {
        log.event("not_there", &[("text", named.to_string().into())]);
    }
}

fn log_note(log: &mut Log, code: HostNoteCode, text: &str) {
    log.event("note", &[("code", code.name().into()), ("text", text.into())]);
}

/// The daemon while it runs.
struct Daemon {
    config: Config,
    topology: Topology,
    rates: Box<dyn Rates>,
    mapper: FairMapper,
    knowledge: Box<dyn Knowledge>,
    report: Reporter,
}

impl Daemon {
    /// Runs the loop until a signal ends it; the result is the number of the signal.
    fn go_on(&mut self, arguments: &Arguments, host: &mut Preferring<Watcher>) -> i32 {
        loop {
            let pace = Pace {
                interval: self.config.interval.0,
                dry_run: self.config.dry_run,
            };
            let wake = watch(
                host,
                self.rates.as_mut(),
                &mut self.mapper,
                self.knowledge.as_mut(),
                &mut self.report,
                pace,
            );
            match wake {
                Wake::Stop(signal) => return signal,
                Wake::Reload => self.reload(arguments, host),
                Wake::Elapsed => {}
            }
        }
    }

    /// Reads the configuration again. A configuration with an error is refused as a whole.
    fn reload(&mut self, arguments: &Arguments, host: &mut Preferring<Watcher>) {
        tell_manager("RELOADING=1");
        match self.try_reload(arguments, host) {
            Ok(()) => {
                self.report.reloads += 1;
                self.report
                    .log
                    .event("reloaded", &about(&self.config, &self.topology, &[]));
            }
            Err(error) => {
                self.report.reloads_refused += 1;
                let text = format!("{}; the configuration stays as it was", console::whole(&error));
                self.report.log.event("reload_refused", &[("text", text.into())]);
            }
        }
        tell_manager("READY=1");
    }

    fn try_reload(&mut self, arguments: &Arguments, host: &mut Preferring<Watcher>) -> Result<()> {
        let config = arguments.config()?;
        if config.export != self.config.export {
            bail!("[export] can only be changed by a new start of the daemon");
        }
        if config.db != self.config.db {
            bail!("`db` can only be changed by a new start of the daemon");
        }
        if config.with != self.config.with {
            bail!("`with` can only be changed by a new start of the daemon");
        }
        let thresholds = config.thresholds()?;
        let sources = Sources::of(&config)?;
        // The last step that can fail. The file is opened again in any case, since it may have been rotated.
        let log = Log::open(&config.log)?;
        self.report.log.replace(log);
        let same = config.selection() == self.config.selection()
            && config.metric == self.config.metric
            && config.functions == self.config.functions
            && config.release_after == self.config.release_after
            && config.dry_run == self.config.dry_run
            && config.mapper == self.config.mapper
            && config.interval == self.config.interval
            && thresholds == *self.mapper.thresholds();
        if !same {
            host.forget();
            let rolled_back = host
                .host_mut()
                .reconfigure(config.selection(), sources.counts, config.release_after.0);
            self.report_rolled_back(&rolled_back);
            self.rates = sources.rates;
            // A new mapper takes the current places of tasks for the operating system's choice, so none may be pinned.
            self.mapper = mapper(&self.topology, &thresholds, &config);
        }
        if config.finds_functions() && !self.config.finds_functions() && !host.host().may_probe() {
            let text = "no calls of functions show the progress of processes: the daemon began without the right to \
                        probe them; restart it";
            log_note(&mut self.report.log, HostNoteCode::NoFunctions, text);
        }
        host.host_mut().limit_pages(config.page_limits());
        self.report.reconfigure(config.clone(), thresholds);
        self.config = config;
        Ok(())
    }

    fn report_rolled_back(&mut self, rolled_back: &RolledBack) {
        report_rolled_back(&mut self.report.log, rolled_back);
    }
}

fn report_rolled_back(log: &mut Log, rolled_back: &RolledBack) {
    let made = rolled_back.calls.iter().filter(|call| call.failure.is_none());
    let masks = made.filter(|call| matches!(call.action, Action::Mask { .. }));
    log.event("undone", &[("masks", masks.count().into())]);
    for problem in rolled_back.problems() {
        log.event("not_undone", &[("text", problem.into())]);
    }
}

/// Rolls back what a killed daemon, or another pinfold, has left. It is not taken over, because the knowledge about the
/// tasks is lost.
fn roll_back_what_was_left(directory: &Directory, log: &mut Log) -> Result<()> {
    for found in directory.survey()? {
        let left = match found {
            FoundJournal::Left(left) => left,
            FoundJournal::Elsewhere(file, elsewhere) => {
                let file = file.display().to_string();
                let text = format!("it is left alone: {elsewhere}");
                log.event("left_elsewhere", &[("journal", file.into()), ("text", text.into())]);
                continue;
            }
            FoundJournal::Running(_) | FoundJournal::Unreadable(..) | FoundJournal::NotOurs(..) => continue,
        };
        if left.kept() {
            continue;
        }
        let rolled_back = left.roll_back(&Roots::default(), false);
        let file = left.path().display().to_string();
        log.event("found_left", &[("journal", file.into())]);
        report_rolled_back(log, &rolled_back);
        if rolled_back.failed() == 0 {
            left.settle()?;
        }
    }
    Ok(())
}

/// Whether /proc is mounted so that it shows users only their own processes.
fn hides_processes() -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let hides = |option: &str| option.starts_with("hidepid=") && !matches!(option, "hidepid=0" | "hidepid=off");
        words.get(1) == Some(&"/proc") && words.get(3).is_some_and(|options| options.split(',').any(hides))
    })
}

/// Notifies the service manager, if there is one.
fn tell_manager(state: &str) {
    if let Some(socket) = env::var_os("NOTIFY_SOCKET") {
        // A manager that does not answer does not end the daemon.
        let _ = service::notify(&socket, state);
    }
}

/// The fields of the log for a configuration.
fn about(config: &Config, topology: &Topology, capabilities: &[&str]) -> Vec<(&'static str, Value)> {
    vec![
        ("pinfold", env!("CARGO_PKG_VERSION").into()),
        ("process", std::process::id().into()),
        ("machine", topology.name().into()),
        ("pus", topology.allowed_pus().to_string().into()),
        ("interval", json!(config.interval.0.as_secs_f64())),
        ("metric", config.metric.to_string().into()),
        ("dry_run", config.dry_run.into()),
        ("capabilities", capabilities.join(",").into()),
    ]
}
