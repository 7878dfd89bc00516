//! The daemon's loop on any `Host`: observe, decide, move, and repeat.
//!
//! 1. The tasks are read in each interval.
//! 2. The time between two samples may be much longer or shorter than the interval: the machine slept, the process was
//!    stopped, or the clock jumped. Then nothing is decided, and the sample only begins the next interval.
//! 3. `Rates` makes rates of two samples, and the mapper makes moves of rates.
//! 4. Moves are made in their order. A swap moves both tasks or none: if the second task stays, the first goes back.
//! 5. `FairMapper` compares its moves with the unpinned machine. What it found is reported.
//! 6. When a process begins to work, `Knowledge` is asked for placements of its program, which the mapper gets.
//! 7. Where no counter shows the progress of processes, `Rates` chooses what does. If it is a function, the host finds
//!    and counts it.
//! 8. The mapper also names processes whose pages move, with their nodes. Nothing is measured while pages move.
//!
//! `run` has the loop of one program. The loop of a program applies configurations, and a policy says how long to wait.
//! The loop of the daemon has a fixed interval and moves single tasks that other programs started. Both use the same
//! data, such as `Sample`.

mod counter_rates;
pub mod exposition;
mod flows;
mod functions;
mod history;
mod pair_rates;
mod progress;
mod scheduling;
mod sharing;
pub mod state;
mod wakeups;

pub use counter_rates::CounterRates;
pub use history::History;
pub use progress::ProgressBy;
pub use sharing::Sharing;
pub use wakeups::Wakeups;

use pinfold_core::container::Container;
use pinfold_core::{
    Host, HostNote, HostSample, MappingComparison, Metric, OutcomeCode, Placed, ProcessGoal, ProcessPages, Reason,
    StayCode, TaskId, TaskStatus, Topology, Wake,
};
use pinfold_policy::KnownPlacement;
use pinfold_policy::sam::{FairMapper, Move, TaskRates};
use progress::ProgressHistory;
use std::collections::BTreeMap;
use std::time::Duration;

/// A source of the rates of tasks.
pub trait Rates {
    /// The rates of each task between two samples; a task without known rates is not listed.
    fn rates(
        &mut self,
        topology: &Topology,
        metrics: &[Metric],
        before: &HostSample,
        now: &HostSample,
    ) -> Vec<TaskRates>;

    /// What the progress of each process is measured by. A process for which that is not decided yet is missing, and so
    /// are all if progress needs no choice.
    fn progress(&self) -> &BTreeMap<i32, ProgressBy> {
        const NONE: &BTreeMap<i32, ProgressBy> = &BTreeMap::new();
        NONE
    }

    /// The processes whose functions are to be counted, for `Host::count_functions`.
    fn functions(&self) -> &BTreeMap<i32, Vec<TaskId>> {
        const NONE: &BTreeMap<i32, Vec<TaskId>> = &BTreeMap::new();
        NONE
    }
}

/// Knows the programs of processes from earlier runs.
pub trait Knowledge {
    /// Asks for the program of a process. The answer comes later, since files have to be read for it.
    fn ask(&mut self, process: i32);

    /// The answers since the last call. The answer for an unknown process has no placements.
    fn take(&mut self) -> Vec<KnownProcess>;

    /// Notes for an administrator; each note is returned once.
    fn take_notes(&mut self) -> Vec<HostNote>;
}

/// What is known of the program of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownProcess {
    /// Its number.
    pub process: i32,
    /// The name of the program; empty if the program is unknown.
    pub program: String,
    /// The fastest placement for each number of threads; empty if the program is unknown.
    pub placements: BTreeMap<usize, KnownPlacement>,
}

impl KnownProcess {
    /// Nothing.
    pub fn nothing(process: i32) -> Self {
        Self {
            process,
            program: String::new(),
            placements: BTreeMap::new(),
        }
    }
}

/// No program is known. That is said at once, so that no process waits for it.
#[derive(Clone, Debug, Default)]
pub struct NothingKnown {
    asked: Vec<i32>,
}

impl Knowledge for NothingKnown {
    fn ask(&mut self, process: i32) {
        self.asked.push(process);
    }

    fn take(&mut self) -> Vec<KnownProcess> {
        self.asked.drain(..).map(KnownProcess::nothing).collect()
    }

    fn take_notes(&mut self) -> Vec<HostNote> {
        vec![]
    }
}

/// Receives the events of the daemon.
pub trait Report<H> {
    /// A note for the administrator.
    fn note(&mut self, note: &HostNote);

    /// A move of a task in this container, or in none, was made, or not.
    fn moved(&mut self, at: Duration, one: &Move, outcome: &Outcome, container: Option<&Container>);

    /// The moves were compared with the unpinned machine.
    fn compared(&mut self, at: Duration, comparison: MappingComparison);

    /// The progress of a process is measured by something else than before.
    fn progress(&mut self, at: Duration, process: i32, by: &ProgressBy);

    /// The program of a process is known.
    fn known(&mut self, at: Duration, known: &KnownProcess);

    /// Pages of a process were moved, or not.
    fn pages(&mut self, at: Duration, pages: &ProcessPages);

    /// A tick is over.
    fn tick(&mut self, host: &H, tick: &Tick<'_>);
}

/// What one tick of the loop saw.
#[derive(Clone, Copy, Debug)]
pub struct Tick<'a> {
    /// The tasks that work.
    pub sample: &'a HostSample,
    /// Their rates since the previous interval; empty if unknown.
    pub rates: &'a [TaskRates],
    /// Whether the time since the previous reading was too long or too short to decide.
    pub skipped: bool,
    /// Whether the mapper's moves are withdrawn, for a turn of a comparison or because they did not help.
    pub withdrawn: bool,
    /// What the progress of each process is measured by.
    pub progress: &'a BTreeMap<i32, ProgressBy>,
    /// The processes whose pages are to be elsewhere, and where.
    pub followed: &'a BTreeMap<i32, ProcessGoal>,
    /// The duration of the tick, from the start of the reading to the end of the last move.
    pub took: Duration,
}

/// What became of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The task is there.
    Made,
    /// A dry run moves nothing.
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

    /// Why the task stays; `None` if no move was refused.
    pub fn refused(&self) -> Option<&Reason<StayCode>> {
        match self {
            Self::Refused(reason) => Some(reason),
            Self::Made | Self::Shown | Self::Gone | Self::PartnerStays => None,
        }
    }
}

/// The timing of the loop.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How often tasks are read and moves decided.
    pub interval: Duration,
    /// Decide, and move nothing.
    pub dry_run: bool,
}

/// The time between two samples may be longer or shorter than the interval by this factor.
const UNUSUAL: u32 = 10;

/// Watches and moves tasks until the host wakes the loop for another reason than the time, and returns the reason.
pub fn watch<H: Host>(
    host: &mut H,
    rates: &mut dyn Rates,
    mapper: &mut FairMapper,
    knowledge: &mut dyn Knowledge,
    report: &mut impl Report<H>,
    pace: Pace,
) -> Wake {
    let mut before: Option<HostSample> = None;
    let mut progress = ProgressHistory::default();
    let mut next = host.now();
    loop {
        let began = host.now();
        let sample = host.observe();
        let usual = before
            .as_ref()
            .filter(|before| is_usual(before, &sample, pace.interval));
        let skipped = before.is_some() && usual.is_none();
        let known = usual.map_or_else(Vec::new, |before| {
            rates.rates(host.topology(), host.metrics(), before, &sample)
        });
        for change in progress.changes(rates.progress()) {
            if change.is_other_unit {
                mapper.note_other_unit(change.process);
            }
            if change.is_news {
                report.progress(sample.sample.at, change.process, &rates.progress()[&change.process]);
            }
        }
        if host.are_pages_under_way() {
            mapper.note_pages_under_way();
        }
        for known in knowledge.take() {
            mapper.note_known(known.process, &known.placements);
            if !known.placements.is_empty() {
                report.known(sample.sample.at, &known);
            }
        }
        // Without rates the mapper forgets nothing and moves nothing.
        let moves = if usual.is_some() {
            mapper.decide(&known).to_vec()
        } else {
            vec![]
        };
        if usual.is_some() && !pace.dry_run {
            for &task in mapper.released() {
                // A task that cannot be released has ended, or another program has changed its mask.
                let _ = host.release(task);
            }
        }
        make(host, report, &sample, &moves, pace.dry_run);
        for process in mapper.take_newcomers() {
            knowledge.ask(process);
        }
        if !pace.dry_run {
            host.follow(mapper.followed());
            host.count_functions(rates.functions());
        }
        for pages in host.take_page_moves() {
            if pages.result.is_err() {
                mapper.note_pages_stay(pages.process);
            }
            report.pages(sample.sample.at, &pages);
        }
        if let Some(comparison) = mapper.take_comparison() {
            report.compared(sample.sample.at, comparison);
        }
        for note in host.take_notes().into_iter().chain(knowledge.take_notes()) {
            report.note(&note);
        }
        let tick = Tick {
            sample: &sample,
            rates: &known,
            skipped,
            withdrawn: mapper.is_unpinned(),
            progress: rates.progress(),
            followed: mapper.followed(),
            took: host.now().saturating_sub(began),
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

/// Whether the time between two samples is about as long as the interval.
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
        report.moved(at, one, &first, status(sample, one.task).and_then(container_of));
        if let (Some(partner), Some(second)) = (partner, &second) {
            report.moved(at, partner, second, status(sample, partner.task).and_then(container_of));
        }
    }
}

/// The status of a task at the last reading.
fn status(sample: &HostSample, task: TaskId) -> Option<&TaskStatus> {
    let position = sample.sample.tasks.iter().position(|one| one.id == task)?;
    sample.statuses.get(position)
}

fn container_of(status: &TaskStatus) -> Option<&Container> {
    status.container.as_deref()
}

fn place<H: Host>(host: &mut H, one: &Move) -> Outcome {
    match host.place(one.task, one.to) {
        Placed::Done => Outcome::Made,
        Placed::Gone => Outcome::Gone,
        Placed::Refused(reason) => Outcome::Refused(reason),
    }
}

/// Moves both tasks or none. A task that has ended leaves its PU free.
fn swap<H: Host>(host: &mut H, sample: &HostSample, one: &Move, partner: &Move) -> (Outcome, Outcome) {
    let first = place(host, one);
    if let Outcome::Refused(_) = first {
        return (first, Outcome::PartnerStays);
    }
    let second = place(host, partner);
    if let (Outcome::Refused(_), Outcome::Made) = (&second, &first) {
        let pinned = status(sample, one.task).and_then(|status| status.pinned);
        // If this fails, the task has ended, or another program has changed its mask.
        let _ = match pinned {
            Some(pu) => host.place(one.task, pu),
            None => host.release(one.task),
        };
        return (Outcome::PartnerStays, second);
    }
    (first, second)
}
