//! Starts the scheduler for some seconds, lets threads prefer domains, and prints where the time of tasks went and who woke whom.
//!
//! `schedule SECONDS [THREAD=DOMAIN]...`

#![expect(clippy::disallowed_macros, reason = "a program that prints a list")]

use pinfold_linux::held::HeldThread;
use pinfold_linux::topology::{self, Source};
use pinfold_scx::{Domains, Preference, Scheduler, Scope};
use std::error::Error;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const SILENCE: Duration = Duration::from_millis(600);
const STEP: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_millis(2);

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let duration = Duration::from_secs_f64(words.next().ok_or("no duration")?.parse()?);
    let domains = Domains::new(&topology::read(&Source::Live)?)?;
    let mut scheduler = Scheduler::start(&domains, Scope::All, SILENCE)?;
    for word in words {
        let (thread, domain) = word.split_once('=').ok_or("no domain")?;
        let preference = Preference {
            domains: 1 << domain.parse::<u32>()?,
            patience: PATIENCE,
        };
        scheduler.prefer(HeldThread::new(thread.parse()?)?.as_fd(), Some(preference))?;
    }
    let began = Instant::now();
    while began.elapsed() < duration && scheduler.state().ended.is_none() {
        scheduler.call()?;
        std::thread::sleep(STEP);
    }
    println!("{:?}", scheduler.state());
    for task in scheduler.tasks()? {
        if !task.times.ran.is_zero() {
            println!("{task:?}");
        }
    }
    for pair in scheduler.pairs()? {
        println!("{pair:?}");
    }
    Ok(())
}
