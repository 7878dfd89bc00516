//! The daemon's loop: observe, decide, move, and again; on any `Host`.
//!
//! 1. The tasks are read, every interval.
//! 2. A stretch that is much longer or shorter than the interval (the machine slept, the process was stopped, the clock
//!    jumped) says nothing of what tasks do: its sample only begins the next stretch.
//! 3. What each did between two samples becomes rates (`Rates`), rates become moves (the mapper).
//! 4. Moves are made in their order. Of a swap both halves are made or none: where the second task stays, the first goes back.
//!
//! `run` has the loop of one program; what both share is the data, `Sample` above all. A program's loop applies configurations
//! and asks a policy how long to wait; a daemon's has a fixed tick and moves single tasks that others have begun.

mod counted;
pub mod exposition;
mod history;
mod sharing;
pub mod state;

pub use counted::Counted;
pub use history::History;
pub use sharing::Sharing;

use pinfold_core::{Host, HostNote, HostSample, Metric, OutcomeCode, Placed, Reason, StayCode, Topology, Wake};
use pinfold_policy::sam::{Mapper, Move, TaskRates};
use std::time::Duration;

/// What the rates of tasks are made of.
pub trait Rates {
    /// What each task did between two samples; tasks of which that is not known are not listed.
    fn rates(
        &mut self,
        topology: &Topology,
        metrics: &[Metric],
        before: &HostSample,
        now: &HostSample,
    ) -> Vec<TaskRates>;
}

/// Who hears of what the daemon does.
pub trait Report<H> {
    /// Something that an administrator should read.
    fn note(&mut self, note: &HostNote);

    /// A move was made, or not.
    fn moved(&mut self, at: Duration, one: &Move, outcome: &Outcome);

    /// A tick is over.
    fn tick(&mut self, host: &H, tick: &Tick<'_>);
}

/// What one tick of the loop saw.
#[derive(Clone, Copy, Debug)]
pub struct Tick<'a> {
    /// The tasks that work.
    pub sample: &'a HostSample,
    /// What they did since the tick before; empty where that is not known.
    pub rates: &'a [TaskRates],
    /// Whether the stretch since the tick before was so long or short that it was left out.
    pub skipped: bool,
    /// What the tick took, from the begin of the reading to the end of the last move.
    pub took: Duration,
}

/// What became of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The task is there.
    Made,
    /// Nothing is really moved: the user only wants to know.
    Shown,
    /// The task has ended.
    Gone,
    /// The task stays, for this reason.
    Refused(Reason<StayCode>),
    /// The task stays, or went back, because the one that it was to be swapped with stays.
    PartnerStays,
}

impl Outcome {
    /// The code in JSON and metrics.
    pub fn code(&self) -> OutcomeCode {
        match self {
            Self::Made => OutcomeCode::Made,
            Self::Shown => OutcomeCode::Shown,
            Self::Gone => OutcomeCode::Gone,
            Self::Refused(_) => OutcomeCode::Refused,
            Self::PartnerStays => OutcomeCode::PartnerStays,
        }
    }

    /// Why the task stays; `None` where nothing was refused.
    pub fn refused(&self) -> Option<&Reason<StayCode>> {
        match self {
            Self::Refused(reason) => Some(reason),
            Self::Made | Self::Shown | Self::Gone | Self::PartnerStays => None,
        }
    }
}

/// How the loop goes.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How often tasks are read and moves decided.
    pub interval: Duration,
    /// Decide, and move nothing.
    pub dry_run: bool,
}

/// A stretch may be longer or shorter than the interval by this factor.
const UNUSUAL: u32 = 10;

/// Watches and moves tasks until something is wanted of us, and returns what.
pub fn watch<H: Host>(
    host: &mut H,
    rates: &mut dyn Rates,
    mapper: &mut Mapper,
    report: &mut impl Report<H>,
    pace: Pace,
) -> Wake {
    let mut before: Option<HostSample> = None;
    let mut next = host.now();
    loop {
        let begin = host.now();
        let sample = host.observe();
        let told = before
            .as_ref()
            .filter(|before| is_usual(before, &sample, pace.interval));
        let skipped = before.is_some() && told.is_none();
        let known = told.map_or_else(Vec::new, |before| {
            rates.rates(host.topology(), host.metrics(), before, &sample)
        });
        // Without anything that is known the mapper forgets nothing and moves nothing.
        let moves = if told.is_some() {
            mapper.decide(&known).to_vec()
        } else {
            vec![]
        };
        make(host, report, &sample, &moves, pace.dry_run);
        for note in host.take_notes() {
            report.note(&note);
        }
        let tick = Tick {
            sample: &sample,
            rates: &known,
            skipped,
            took: host.now().saturating_sub(begin),
        };
        report.tick(host, &tick);
        before = Some(sample);
        next = next_tick(next, host.now(), pace.interval);
        match host.wait(next) {
            Wake::Elapsed => {}
            wanted => return wanted,
        }
    }
}

/// Whether the stretch between two samples is about as long as it should be.
fn is_usual(before: &HostSample, now: &HostSample, interval: Duration) -> bool {
    let stretch = now.sample.at.checked_sub(before.sample.at);
    stretch.is_some_and(|stretch| stretch <= interval * UNUSUAL && stretch >= interval / UNUSUAL)
}

/// When the next tick is: at the next multiple of the interval that is not over, so that ticks do not drift.
fn next_tick(last: Duration, now: Duration, interval: Duration) -> Duration {
    let next = last + interval;
    if next > now { next } else { now + interval }
}

/// Makes the moves in their order.
fn make<H: Host>(host: &mut H, report: &mut impl Report<H>, sample: &HostSample, moves: &[Move], dry_run: bool) {
    let at = sample.sample.at;
    let mut rest = moves;
    while let Some((one, others)) = rest.split_first() {
        let partner = others.first().filter(|other| one.swapped_with == Some(other.task));
        rest = if partner.is_some() { &others[1..] } else { others };
        let (first, second) = match (dry_run, partner) {
            (true, partner) => (Outcome::Shown, partner.map(|_| Outcome::Shown)),
            (false, None) => (place(host, one), None),
            (false, Some(partner)) => {
                let (first, second) = swap(host, sample, one, partner);
                (first, Some(second))
            }
        };
        report.moved(at, one, &first);
        if let (Some(partner), Some(second)) = (partner, &second) {
            report.moved(at, partner, second);
        }
    }
}

fn place<H: Host>(host: &mut H, one: &Move) -> Outcome {
    match host.place(one.task, one.to) {
        Placed::Done => Outcome::Made,
        Placed::Gone => Outcome::Gone,
        Placed::Refused(reason) => Outcome::Refused(reason),
    }
}

/// Both go, or none does. One that has ended has made room by that.
fn swap<H: Host>(host: &mut H, sample: &HostSample, one: &Move, partner: &Move) -> (Outcome, Outcome) {
    let first = place(host, one);
    if let Outcome::Refused(_) = first {
        return (first, Outcome::PartnerStays);
    }
    let second = place(host, partner);
    if let (Outcome::Refused(_), Outcome::Made) = (&second, &first) {
        let position = sample.sample.tasks.iter().position(|task| task.id == one.task);
        let pinned = position.and_then(|position| sample.statuses[position].pinned);
        // Where that fails it has ended, or is somebody else's by now.
        let _ = match pinned {
            Some(pu) => host.place(one.task, pu),
            None => host.release(one.task),
        };
        return (Outcome::PartnerStays, second);
    }
    (first, second)
}
