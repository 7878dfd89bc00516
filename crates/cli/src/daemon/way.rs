//! The way in which the daemon places tasks: by masks, or by preferences in a scheduler of the kernel.

use super::config::{Config, With};
use anyhow::Result;
use pinfold_core::Topology;
use pinfold_linux::held::HeldThread;
use pinfold_scx::{Domains, MOST_SILENCE, Preference, Preferences, Scheduler, Scope, StartError, Way};
use std::io;
use std::os::fd::AsFd;

/// The scheduler that runs, if the configuration wants one; and why none runs although one was wanted. Call this while
/// the daemon has all its privileges.
///
/// # Errors
/// If the configuration wants nothing else, and it cannot run.
pub(super) fn preferences(config: &Config, machine: &Topology) -> Result<(Option<Preferences>, Option<StartError>)> {
    if config.with == With::Masks || config.dry_run {
        return Ok((None, None));
    }
    match start(config, machine) {
        Ok(preferences) => Ok((Some(preferences), None)),
        Err(error) if config.with == With::Auto => Ok((None, Some(error))),
        Err(error) => Err(anyhow::Error::new(error).context("--with scx is not possible here")),
    }
}

fn start(config: &Config, machine: &Topology) -> Result<Preferences, StartError> {
    let domains = Domains::new(machine)?;
    let scheduler = Scheduler::start(&domains, Scope::All, MOST_SILENCE)?;
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

    fn ended(&self) -> Option<String> {
        self.0.state().ended.map(|ended| ended.reason)
    }
}
