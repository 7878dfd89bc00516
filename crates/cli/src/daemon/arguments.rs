//! The command line of `pinfold daemon`. Options that belong together are one structure.

use super::config::{
    Cgroup, Config, Except, Log as LogConfig, LogFormat, Loopback, MetricName, ProcessNumber, Rate, Time, USUAL,
    UserName, With,
};
use crate::behaviour;
use anyhow::Result;
use clap::Args;
use std::path::{Path, PathBuf};

/// Watch the tasks of this machine, bring those that share data together, and spread those that need memory.
///
/// Without a list all tasks are watched; with lists, the tasks that any of them names. When the daemon ends, all tasks
/// may run again where they could before. Options override the configuration, which SIGHUP makes the daemon read again.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pinfold daemon --dry-run
      what would be moved on this machine
  pinfold daemon --user root --cgroup /system.slice/postgresql.service
      the tasks of a user, and of a service
  pinfold daemon --cgroup container:web --cgroup 'pod:shop/*'
      the tasks of a container, and of all pods of a namespace
  pinfold daemon --metric sharing
      on a machine without hardware counters: threads of a process are assumed to share data")]
pub(crate) struct Arguments {
    /// The configuration [default: /etc/pinfold/daemon.toml, if it is there].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Check the configuration, and end.
    #[arg(long)]
    pub(super) check_config: bool,

    /// Read tasks and decide moves this often [default: 100ms].
    #[arg(long, value_name = "TIME")]
    interval: Option<Time>,

    /// How pinfold finds the threads that share data [default: counters].
    ///
    /// It is one of: counters, sharing (the threads of a process are assumed to share; no counters needed),
    /// sharing:EVENT (weighed by an event), wakeups (which task wakes which, as the scheduler of --with scx counts it),
    /// or events of the kernel that stand for activities, such as memory_bandwidth=page-faults, and for progress. With
    /// this option the daemon also runs on a machine on which no placement differs from another.
    #[arg(long, value_name = "METRIC")]
    pub(super) metric: Option<MetricName>,

    /// On a machine on which no placement differs from another: wait until CPUs or NUMA nodes are added, instead of
    /// ending.
    #[arg(long)]
    pub(super) wait: bool,

    /// Decide and log, and move nothing.
    #[arg(long)]
    dry_run: bool,

    /// How tasks are placed [default: masks].
    #[arg(long, value_enum, value_name = "WAY", hide_default_value = true)]
    with: Option<With>,

    // A heading holds for what follows.
    #[command(flatten, next_help_heading = "Which tasks are watched")]
    tasks: Tasks,

    #[command(flatten, next_help_heading = "Thresholds")]
    rates: Thresholds,

    #[command(flatten, next_help_heading = "Log")]
    log: Log,

    #[command(flatten, next_help_heading = "Where the daemon answers")]
    export: Export,

    #[command(flatten, next_help_heading = "Files")]
    pub(super) journals: crate::journals::Arguments,

    #[command(flatten)]
    behaviour: crate::behaviour::Arguments,
}

/// Which tasks are watched.
#[derive(Args)]
#[group(skip)]
struct Tasks {
    /// Watch the processes of this control group and of those below it, or of a container. This option and the next
    /// four can be repeated.
    ///
    /// It is a path, such as /user.slice, or container:NAME, container:ID (at least 6 digits), pod:NAMESPACE/NAME,
    /// pod:UID, or unit:NAME for a unit of systemd. Names are patterns of the shell.
    #[arg(long, value_name = "PATH|KIND:NAME")]
    cgroup: Vec<Cgroup>,

    /// Watch the processes of this user.
    #[arg(long, value_name = "NAME|UID")]
    user: Vec<UserName>,

    /// Watch this process, and those that it starts.
    #[arg(short, long = "pid", visible_alias = "process", value_name = "PID")]
    processes: Vec<ProcessNumber>,

    /// Watch processes of this name; as a pattern of the shell.
    #[arg(long, value_name = "PATTERN")]
    name: Vec<String>,

    /// Do not watch processes of this name; or of a control group or container, as --cgroup names them.
    #[arg(long, value_name = "PATTERN|KIND:NAME")]
    except: Vec<Except>,
}

/// Above which rates an activity is a bottleneck.
#[derive(Args)]
#[group(skip)]
struct Thresholds {
    /// Thresholds that `pinfold calibrate --thresholds` wrote.
    #[arg(long, value_name = "FILE")]
    thresholds: Option<PathBuf>,

    /// The rate of coherence events above which a task counts as sharing: events per unhalted cycle; with
    /// sharing:EVENT, per second of processor time.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    threshold: Option<Rate>,
}

/// Where the log goes.
#[derive(Args)]
#[group(skip)]
struct Log {
    /// Write the log to this file instead of standard error.
    #[arg(id = "log", long = "log", value_name = "FILE")]
    file: Option<PathBuf>,

    /// The form of a line of the log.
    #[arg(id = "log_format", long = "log-format", value_enum, value_name = "FORMAT")]
    format: Option<LogFormat>,

    /// Write the state into the log this often, for `pinfold report`. It needs the format json.
    #[arg(id = "log_state", long = "log-state", value_name = "TIME")]
    state: Option<Time>,
}

/// Where the daemon answers.
#[derive(Args)]
#[group(skip)]
struct Export {
    /// Answer `pinfold top` and Prometheus on this Unix socket [default: daemon.sock beside the journals].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Answer on this address of this machine as well, such as 127.0.0.1:9798.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Loopback>,
}

fn rate(text: &str) -> Result<Rate, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.map(Rate).ok_or_else(|| "write a rate above zero".to_owned())
}

impl Arguments {
    /// Whether the lists of tasks are from the command line.
    pub(super) fn names_tasks(&self) -> bool {
        !self.tasks.cgroup.is_empty()
            || !self.tasks.user.is_empty()
            || !self.tasks.processes.is_empty()
            || !self.tasks.name.is_empty()
    }

    /// The behaviour database; `None` if the user wants none, or names none and has no place for one.
    pub(super) fn database(&self, config: &Config) -> Option<PathBuf> {
        match (&config.db, self.behaviour.is_named()) {
            (Some(file), false) => behaviour::named(file),
            _ => self.behaviour.file().ok().flatten(),
        }
    }

    /// The configuration of the file. The options of the command line replace its keys.
    pub(super) fn config(&self) -> Result<Config> {
        let usual = Path::new(USUAL);
        let mut config = match &self.config {
            Some(file) => Config::read(file)?,
            None if usual.exists() => Config::read(usual)?,
            None => Config::default(),
        };
        if self.names_tasks() {
            config.tasks.cgroups.clone_from(&self.tasks.cgroup);
            config.tasks.users.clone_from(&self.tasks.user);
            config.tasks.processes.clone_from(&self.tasks.processes);
            config.tasks.names.clone_from(&self.tasks.name);
        }
        config.tasks.except.extend(self.tasks.except.iter().cloned());
        if let Some(interval) = self.interval {
            config.interval = interval;
        }
        if let Some(metric) = &self.metric {
            config.metric.clone_from(metric);
        }
        if self.rates.thresholds.is_some() {
            config.thresholds.file.clone_from(&self.rates.thresholds);
        }
        if self.rates.threshold.is_some() {
            config.thresholds.coherence = self.rates.threshold;
        }
        config.dry_run |= self.dry_run;
        if let Some(with) = self.with {
            config.with = with;
        }
        config.log = LogConfig {
            format: self.log.format.unwrap_or(config.log.format),
            file: self.log.file.clone().or(config.log.file),
            state: self.log.state.or(config.log.state),
        };
        config.log.check()?;
        if self.export.socket.is_some() {
            config.export.socket.clone_from(&self.export.socket);
        }
        if self.export.listen.is_some() {
            config.export.listen = self.export.listen;
        }
        Ok(config)
    }
}
