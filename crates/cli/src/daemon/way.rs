//! The way in which the daemon places tasks: by masks, or by preferences in a scheduler of the kernel.

use super::config::{Config, MetricName, With};
use anyhow::{Result, bail};
use pinfold_core::{Scheduled, Topology};
use pinfold_linux::held::HeldThread;
use pinfold_scx::{Domains, MOST_SILENCE, Preference, Preferences, Scheduler, Scope, StartError, Way};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// The scheduler that runs, if the configuration wants one; and why none runs although one was wanted. Call this while
/// the daemon has all its privileges.
///
/// # Errors
/// If the configuration wants nothing else, and it cannot run.
pub(super) fn preferences(config: &Config, machine: &Topology) -> Result<(Option<Preferences>, Option<StartError>)> {
    if config.with == With::Masks || config.dry_run {
        return needs_no_scheduler(config).map(|()| (None, None));
    }
    match start(config, machine) {
        Ok(preferences) => Ok((Some(preferences), None)),
        Err(error) if config.with == With::Auto => needs_no_scheduler(config).map(|()| (None, Some(error))),
        Err(error) => Err(anyhow::Error::new(error).context("--with scx is not possible here")),
    }
}

/// # Errors
/// If the metric is counted by the scheduler.
fn needs_no_scheduler(config: &Config) -> Result<()> {
    if config.metric == MetricName::Wakeups {
        bail!(
            "--metric wakeups is counted by the scheduler that --with scx loads, and none is loaded: add --with scx, \
             without --dry-run, or use --metric sharing"
        );
    }
    Ok(())
}

fn start(config: &Config, machine: &Topology) -> Result<Preferences, StartError> {
    let domains = Domains::new(machine)?;
    let mut scheduler = Scheduler::start(&domains, Scope::All, MOST_SILENCE)?;
    // Without it the scheduler works as well, on a machine that is not too busy.
    let own = i32::try_from(std::process::id()).map_err(io::Error::other);
    let _ = own.and_then(|own| scheduler.let_go_first(HeldThread::new(own)?.as_fd()));
    Ok(Preferences {
        way: Box::new(Kernel(scheduler)),
        domains,
        release_after: config.release_after.0,
        masks_after: config.with == With::Auto,
    })
}

/// The scheduler in the kernel.
struct Kernel(Scheduler);

impl Way for Kernel {
    fn prefer(&mut self, thread: i32, preference: Option<Preference>) -> io::Result<()> {
        self.0.prefer(HeldThread::new(thread)?.as_fd(), preference)
    }

    fn call(&mut self) -> io::Result<()> {
        self.0.call()
    }

    fn counted(&self, at: Duration) -> io::Result<Scheduled> {
        self.0.counted(at)
    }

    fn ended(&self) -> Option<String> {
        self.0.state().ended.map(|ended| ended.reason)
    }
}
