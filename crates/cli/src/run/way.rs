//! The way in which the program's threads are placed: by masks, or by preferences in a scheduler of the kernel.

use super::Arguments;
use super::policies::{Built, Regions};
use crate::daemon::With;
use anyhow::{Error, Result, anyhow};
use pinfold_core::{PuSet, Topology};
use pinfold_linux::held::HeldThread;
use pinfold_linux::launch::{Preferring, Scheduler, is_normal_here};
use pinfold_scx::{CALLED, Domains, MOST_SILENCE, PATIENCE, Preference, Scope};
use std::io;
use std::os::fd::AsFd;

/// What the user reads of a run with preferences. All later lines speak of pinned threads.
const HOW: &str = "Threads are placed by a scheduler in the kernel: where one would be pinned to a CPU, it prefers the \
                   last-level cache of this CPU, and no mask is set.";

/// The scheduler for the program's threads if the user wants one and it runs now, and a note for the user.
///
/// # Errors
/// The user wants nothing else, and it cannot run.
pub(super) fn start(
    arguments: &Arguments,
    built: &Built,
    machine: &Topology,
) -> Result<(Option<Preferring>, Option<String>)> {
    let with = arguments.changes.with;
    let why_not = if arguments.running.pid.is_some() {
        Some("a process that runs already cannot be given to it: start the program with pinfold")
    } else if arguments.changes.keep_pinned {
        Some("preferences end with pinfold, and nothing can be kept (--keep-pinned)")
    } else if built.regions == Regions::Needed {
        Some("the policy places parallel regions, whose threads the agent pins by masks")
    } else if !is_normal_here() {
        Some(
            "the program inherits pinfold's scheduling policy, and only SCHED_OTHER can be replaced: start pinfold without chrt",
        )
    } else {
        None
    };
    let started = || match why_not {
        Some(why) => Err(anyhow!(why)),
        None => load(machine, with == With::Auto).map_err(Error::new),
    };
    match with {
        With::Masks => Ok((None, None)),
        With::Scx => match started() {
            Ok(preferring) => Ok((Some(preferring), Some(HOW.to_owned()))),
            Err(why) => Err(why.context("--with scx is not possible here, and --with auto would use masks")),
        },
        With::Auto => Ok(match started() {
            Ok(preferring) => (Some(preferring), Some(HOW.to_owned())),
            Err(why) => (
                None,
                Some(format!(
                    "Threads are placed by masks, because --with scx is not possible here: {why}."
                )),
            ),
        }),
    }
}

fn load(machine: &Topology, masks_after: bool) -> Result<Preferring, pinfold_scx::StartError> {
    let domains = Domains::new(machine)?;
    let scheduler = pinfold_scx::Scheduler::start(&domains, Scope::ThoseThatAsk, MOST_SILENCE)?;
    Ok(Preferring {
        scheduler: Box::new(Kernel { scheduler, domains }),
        called: CALLED,
        masks_after,
    })
}

/// The scheduler in the kernel.
struct Kernel {
    scheduler: pinfold_scx::Scheduler,
    domains: Domains,
}

impl Scheduler for Kernel {
    fn prefer(&mut self, thread: i32, pus: Option<&PuSet>) -> io::Result<()> {
        let preference = pus.and_then(|pus| preference(&self.domains, pus));
        self.scheduler.prefer(HeldThread::new(thread)?.as_fd(), preference)
    }

    fn call(&mut self) -> Result<(), String> {
        let called = self.scheduler.call();
        match self.scheduler.state().ended {
            Some(ended) => Err(ended.reason),
            None => called.map_err(|error| error.to_string()),
        }
    }
}

/// The preference for the caches of these PUs; `None` if they have none.
fn preference(domains: &Domains, pus: &PuSet) -> Option<Preference> {
    let domains = domains.bits(pus);
    (domains != 0).then_some(Preference {
        domains,
        patience: PATIENCE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_sim::model;

    #[test]
    fn a_set_of_pus_becomes_the_preference_for_all_of_their_caches() {
        let machine = model::builtin("e5-4650x4").unwrap().topology();
        let domains = Domains::new(&machine).unwrap();
        let bits = |pus: &str| preference(&domains, &pus.parse().unwrap()).map(|preference| preference.domains);
        let first = |domain: usize| domains.pus(domain).unwrap().first().unwrap();
        let of = |wanted: &[usize]| {
            wanted
                .iter()
                .map(|&domain| first(domain).to_string())
                .collect::<Vec<_>>()
                .join(",")
        };
        assert_eq!(bits(&of(&[2])), Some(0b100));
        assert_eq!(bits(&of(&[0, 3])), Some(0b1001));
        assert_eq!(bits("4000"), None);
    }
}
