//! The way of the measured subjects through the configurations of a stage: each parallel region at its own pace, or the
//! whole program.
//!
//! A subject enters a configuration at one of its borders, and then
//!
//! 1. settles: `Limits::settle` passes, and `Limits::warm` executions end. An execution that had begun before the change
//!    ends in this time, and so does the first one with cold caches;
//! 2. is measured for `Limits::turn`, and until `Limits::least` executions have ended;
//! 3. enters the next configuration of the queue.
//!
//! All subjects have the same queue. A subject that is done with a configuration waits for each one that is not, as long
//! as both run in turns: so all regions of an iteration are measured in the same configuration, and each finds the
//! caches as if the whole program had it. It does not wait for a subject of another phase of the program, whose
//! executions do not end meanwhile.

use super::results::{Subject, THIS_RUN, Turn};
use pinfold_core::RegionCounts;
use std::collections::BTreeMap;
use std::time::Duration;

/// A subject that has not ended for this multiple of its usual period is in another phase of the program.
const AWAY: u32 = 4;

/// A stage does not wait for a subject that is away for this multiple of its usual period.
const LOST: u32 = 20;

/// How long a subject settles and is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The shortest time from a change to the measurement, for pinned and for unpinned threads.
    pub(super) settle: Duration,
    pub(super) settle_unpinned: Duration,
    /// The units that are not measured after a change.
    pub(super) warm: f64,
    /// The shortest measurement, and its fewest units.
    pub(super) turn: Duration,
    pub(super) least: f64,
}

/// What a subject has done since the program began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Progress {
    /// Executions of a region, or units of the program's metric.
    pub(super) units: f64,
    /// The time of these, in seconds.
    pub(super) seconds: f64,
    /// What was counted meanwhile; `None` if units are only timed.
    pub(super) counts: Option<RegionCounts>,
}

impl Progress {
    /// This much more is done.
    pub(super) fn plus(&self, units: f64, lasted: Duration) -> Self {
        Self {
            units: self.units + units,
            seconds: self.seconds + lasted.as_secs_f64(),
            counts: self.counts,
        }
    }
}

/// A subject on its way.
#[derive(Debug)]
struct Walker {
    position: usize,
    /// The time from one unit to the next.
    period: Duration,
    /// When it entered its configuration.
    entered: (Duration, Progress),
    /// When its measurement began; `None` while it settles.
    began: Option<(Duration, Progress)>,
    last: Progress,
    /// When a unit ended last.
    moved: Duration,
}

/// The subjects in one stage.
#[derive(Debug)]
pub(super) struct Walk {
    queue: Vec<usize>,
    limits: Limits,
    walkers: BTreeMap<Subject, Walker>,
    now: Duration,
}

/// The units that are done are whole numbers, apart from rounding.
const ROUNDING: f64 = 1e-9;

impl Walker {
    fn enter(&mut self, now: Duration, position: usize) {
        self.position = position;
        self.entered = (now, self.last);
        self.began = None;
        self.moved = now;
    }

    /// Whether it has ended lately, where `turn` is the length of a measurement.
    fn is_near(&self, now: Duration, turn: Duration) -> bool {
        now.saturating_sub(self.moved) <= self.period * AWAY + turn
    }

    fn has_measured(&self, now: Duration, limits: &Limits) -> bool {
        self.began.is_some_and(|(at, progress)| {
            now.saturating_sub(at) >= limits.turn && self.last.units - progress.units >= limits.least - ROUNDING
        })
    }

    /// The time until `units` more are done.
    fn takes(&self, units: f64) -> Duration {
        self.period.mul_f64(units.max(0.0))
    }
}

impl Walk {
    /// The subjects enter the first configuration of the queue. Each has done this much, and has this period.
    pub(super) fn begin(
        now: Duration,
        queue: Vec<usize>,
        limits: Limits,
        subjects: impl Iterator<Item = (Subject, Progress, Duration)>,
    ) -> Self {
        let walkers = subjects.map(|(subject, progress, period)| {
            let walker = Walker {
                position: 0,
                period,
                entered: (now, progress),
                began: None,
                last: progress,
                moved: now,
            };
            (subject, walker)
        });
        Self {
            queue,
            limits,
            walkers: walkers.collect(),
            now,
        }
    }

    /// The configuration of a subject: the last one of the queue when it is at the end.
    pub(super) fn configuration(&self, subject: Subject) -> Option<usize> {
        let walker = self.walkers.get(&subject)?;
        self.queue.get(walker.position).or(self.queue.last()).copied()
    }

    /// Whether all subjects are at the end of the queue, except for those that do not run in this part of the program.
    pub(super) fn is_over(&self) -> bool {
        let is_lost = |walker: &Walker| {
            let away = self.now.saturating_sub(walker.moved);
            away > walker.period * LOST + self.limits.turn
        };
        self.walkers
            .values()
            .all(|walker| walker.position >= self.queue.len() || is_lost(walker))
    }

    /// Reads what each subject has done. Returns the measurements that are over. Their subjects have entered the next
    /// configurations.
    pub(super) fn read(
        &mut self,
        now: Duration,
        progress: &BTreeMap<Subject, Progress>,
        is_unpinned: impl Fn(usize) -> bool,
    ) -> Vec<Turn> {
        self.now = now;
        for (subject, walker) in &mut self.walkers {
            let Some(&progress) = progress.get(subject) else {
                continue;
            };
            if progress.units > walker.last.units {
                walker.moved = now;
            }
            walker.last = progress;
            let unpinned = self.queue.get(walker.position).is_some_and(|&one| is_unpinned(one));
            let settle = if unpinned {
                self.limits.settle_unpinned
            } else {
                self.limits.settle
            };
            let (entered, then) = walker.entered;
            let is_settled =
                now.saturating_sub(entered) >= settle && progress.units - then.units >= self.limits.warm - ROUNDING;
            if walker.began.is_none() && is_settled {
                walker.began = Some((now, progress));
            }
        }
        let done: Vec<Subject> = self
            .walkers
            .iter()
            .filter(|(subject, walker)| self.may_leave(**subject, walker))
            .map(|(&subject, _)| subject)
            .collect();
        done.into_iter().filter_map(|subject| self.leave(subject)).collect()
    }

    /// Whether a subject has measured its configuration, and no other one that runs in turns with it needs more time.
    fn may_leave(&self, subject: Subject, walker: &Walker) -> bool {
        let waits_for = |(other, behind): (&Subject, &Walker)| {
            *other != subject
                && behind.position <= walker.position
                && behind.is_near(self.now, self.limits.turn)
                && !(behind.position == walker.position && behind.has_measured(self.now, &self.limits))
        };
        walker.position < self.queue.len()
            && walker.has_measured(self.now, &self.limits)
            && !self.walkers.iter().any(waits_for)
    }

    /// A subject enters the next configuration. Returns its measurement.
    fn leave(&mut self, subject: Subject) -> Option<Turn> {
        let walker = self.walkers.get_mut(&subject)?;
        let (at, before) = walker.began?;
        let configuration = self.queue[walker.position];
        let counts = walker.last.counts.zip(before.counts);
        let turn = Turn {
            subject,
            configuration,
            session: THIS_RUN,
            at: (at + self.now) / 2,
            units: walker.last.units - before.units,
            seconds: walker.last.seconds - before.seconds,
            counts: counts.map(|(last, before)| last.plus(-1.0, &before)),
        };
        walker.enter(self.now, walker.position + 1);
        Some(turn)
    }

    /// A configuration cannot be measured. The subjects that are in it enter the next one, and all others pass over it.
    pub(super) fn leave_out(&mut self, configuration: usize) {
        for walker in self.walkers.values_mut() {
            if self.queue.get(walker.position) == Some(&configuration) {
                walker.enter(self.now, walker.position);
            }
            let before = self.queue[..walker.position.min(self.queue.len())].iter();
            walker.position -= before.filter(|&&one| one == configuration).count();
        }
        self.queue.retain(|&one| one != configuration);
    }

    /// All measurements begin again, because something else has changed.
    pub(super) fn restart(&mut self) {
        for walker in self.walkers.values_mut() {
            walker.enter(self.now, walker.position);
        }
    }

    /// The time until the next subject can begin or end its measurement.
    pub(super) fn next(&self, is_unpinned: impl Fn(usize) -> bool) -> Duration {
        let walkers = self.walkers.values();
        let due = walkers
            .filter(|walker| walker.position < self.queue.len())
            .map(|walker| {
                let (since, units, waits) = match walker.began {
                    None => {
                        let unpinned = is_unpinned(self.queue[walker.position]);
                        let settle = if unpinned {
                            self.limits.settle_unpinned
                        } else {
                            self.limits.settle
                        };
                        let (at, before) = walker.entered;
                        (at, self.limits.warm - (walker.last.units - before.units), settle)
                    }
                    Some((at, before)) => (
                        at,
                        self.limits.least - (walker.last.units - before.units),
                        self.limits.turn,
                    ),
                };
                walker.takes(units).max((since + waits).saturating_sub(self.now))
            });
        due.min().unwrap_or_default()
    }
}
