//! Validates moves for coherence: "We receive the validation of a successful migration if it produces less inter-socket
//! and more intra-socket activity after the migration" (section 4.3).
//!
//! 1. When tasks of a group are gathered, the rates of each task of the domains concerned are recorded, and these tasks
//!    are not moved for `HOLD` intervals. The first interval does not count, since caches are cold.
//! 2. If the tasks concerned make less progress on average than before, all of them go back. Otherwise a moved task
//!    goes back if its traffic between domains has neither halved nor fallen below the threshold, unless it clearly
//!    makes more progress with less traffic.
//! 3. A task that went back is not moved by this method again until its traffic is twice as high, or was below the
//!    threshold for a while, or half of the other processes' busy tasks have gone. If no move of a group helped, that
//!    holds for all of the group.
//! 4. What was moved on a guess (`faint`) goes back unless progress is higher than before.
//! 5. If a sharer went to another domain meanwhile, since the operating system places tasks that were not moved, the
//!    trial shows nothing about moves that did not help: they are tried again.
//! 6. Where moves helped, the sharers that were there are pinned there, too: otherwise the operating system parts them
//!    again, and those that were moved stay behind.
//! 7. A task that went back is placed by the operating system again, if it was before.
//! 8. If moves helped and the tasks of the group are now in several domains without traffic between these, each part is
//!    a separate group from then on.

use super::coherence::Gathering;
use super::memory::{HOLD, throughput};
use super::placement_sets::Class;
use super::round::{Cause, Round};
use super::{Activity, Excess, Move, Reason};
use pinfold_core::{PuId, TaskId};

/// Moves are rolled back if mean progress falls by more than this share: readings of 100 ms scatter. Assumed, as are
/// the next three.
const FALL: f64 = 0.03;

/// Moves on a guess stay only if mean progress rises by more than this share, since nothing else supports them.
const RISE: f64 = 0.01;

/// A task that makes this much more progress has gained by less traffic, whatever traffic remains: the last task of a
/// group may have found no room yet.
const CLEAR: f64 = 0.1;

/// A move has helped when at most this share of the traffic between domains remains.
const LEFT: f64 = 0.5;

/// The purpose of moves, which decides when they stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Traffic above the threshold: tasks stay where counters show that it has helped, unless progress is lower.
    Sharing,
    /// Traffic below it: only if progress is higher.
    FaintSharing,
}

/// What is observed of one task.
#[derive(Debug)]
struct Watched {
    id: TaskId,
    /// Its domain during the observation.
    domain: Option<usize>,
    /// Whether it has traffic between domains in the group that is gathered.
    shares: bool,
    /// The move for its own sake; `None` for other tasks.
    moved: Option<Move>,
    inter_before: f64,
    throughput_before: Option<f64>,
    inter: Mean,
    throughput: Mean,
}

impl Watched {
    fn has_helped(&self, round: &Round<'_>) -> bool {
        // What could not be observed does not count against the move.
        let left = self.inter.value().unwrap_or(0.0);
        let gain = self.throughput.value().zip(self.throughput_before);
        let gains = gain.is_some_and(|(after, before)| after > (1.0 + CLEAR) * before);
        left <= round.thresholds.coherence.max(LEFT * self.inter_before) || (gains && left < self.inter_before)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    readings: u32,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.sum += value;
            self.readings += 1;
        }
    }

    fn value(self) -> Option<f64> {
        (self.readings > 0).then(|| self.sum / f64::from(self.readings))
    }
}

/// The moves of one decision for one group.
#[derive(Debug)]
pub(super) struct Trial {
    began: u64,
    purpose: Purpose,
    /// By id.
    watched: Vec<Watched>,
}

impl Trial {
    /// The trial of tasks that these moves, among others, have just moved.
    pub(super) fn new(round: &Round<'_>, gathering: &Gathering, moves: &[Move], purpose: Purpose) -> Self {
        let mut concerned = vec![false; round.shape.domains.len()];
        let domain = |pu: PuId| {
            round
                .shape
                .position(pu)
                .map(|position| round.shape.places[position].domain)
        };
        for domain in moves
            .iter()
            .flat_map(|made| [domain(made.from), domain(made.to)])
            .flatten()
        {
            concerned[domain] = true;
        }
        let states = round.sets.states().iter().enumerate();
        let watched = states.filter(|&(task, state)| {
            state.class != Class::Idle && round.place(task).is_some_and(|place| concerned[place.domain])
        });
        let mut watched: Vec<Watched> = watched
            .map(|(task, state)| {
                let remembered = &round.memory.tasks()[task];
                Watched {
                    id: remembered.id(),
                    domain: round.place(task).map(|place| place.domain),
                    shares: false,
                    moved: None,
                    inter_before: remembered.inter().unwrap_or(state.inter),
                    throughput_before: remembered.throughput(),
                    inter: Mean::default(),
                    throughput: Mean::default(),
                }
            })
            .collect();
        let id = |task: usize| round.memory.tasks()[task].id();
        for &task in &gathering.sharers {
            if let Ok(index) = watched.binary_search_by_key(&id(task), |one| one.id) {
                watched[index].shares = true;
            }
        }
        for &task in &gathering.movers {
            let made = moves.iter().find(|made| made.task == id(task));
            if let (Some(made), Ok(index)) = (made, watched.binary_search_by_key(&id(task), |one| one.id)) {
                watched[index].moved = Some(*made);
            }
        }
        Self {
            began: round.now,
            purpose,
            watched,
        }
    }

    /// The tasks that are not moved until it is over.
    pub(super) fn held(&self) -> impl Iterator<Item = TaskId> {
        let held = self.watched.iter().filter(|one| one.shares || one.moved.is_some());
        held.map(|one| one.id)
    }

    /// Records an interval; whether it was the last.
    pub(super) fn observe(&mut self, round: &Round<'_>) -> bool {
        if round.now > self.began + 1 {
            let mut tasks = round.memory.tasks().iter().enumerate().peekable();
            for one in &mut self.watched {
                while tasks.next_if(|(_, task)| task.id() < one.id).is_some() {}
                if let Some((index, _)) = tasks.next_if(|(_, task)| task.id() == one.id) {
                    let rates = &round.tasks[round.sets.states()[index].input];
                    one.inter.add(rates.inter);
                    one.throughput.add(throughput(rates));
                }
            }
        }
        round.now >= self.began + HOLD
    }

    /// Ends the trial: rolls back what did not help, and learns from what did.
    pub(super) fn conclude(&self, round: &mut Round<'_>) {
        // Its sharers were not together as intended, so that the trial shows nothing of what that is worth.
        let disturbed = self.is_disturbed(round);
        let worse = self.is_worse();
        let mut helped = false;
        for one in &self.watched {
            let Some(made) = one.moved else { continue };
            let helps = !worse && one.has_helped(round);
            helped |= helps;
            if !helps {
                if !disturbed {
                    Self::give_up(round, one);
                }
                Self::roll_back(round, one, &made);
            }
        }
        if helped {
            self.keep_together(round);
            if round.options.learn_groups {
                self.split(round);
            }
        } else if !disturbed {
            for one in self.watched.iter().filter(|one| one.shares && one.moved.is_none()) {
                Self::give_up(round, one);
            }
        }
    }

    /// Pins the sharers that were not moved to their PUs, so that the operating system does not part them from the
    /// sharers that were moved.
    fn keep_together(&self, round: &mut Round<'_>) {
        let movers = || self.watched.iter().filter(|one| one.moved.is_some());
        for one in self.watched.iter().filter(|one| one.shares && one.moved.is_none()) {
            let Some(task) = round.memory.index_of(one.id) else {
                continue;
            };
            let with_movers = movers().any(|mover| mover.domain == one.domain);
            let there = round.place(task).is_some_and(|place| Some(place.domain) == one.domain);
            if with_movers && there && !round.memory.tasks()[task].is_placed() {
                let cause = Cause {
                    reason: Reason::Keep,
                    excess: Excess {
                        activity: Activity::InterPackageCoherence,
                        value: one.inter_before,
                        threshold: round.thresholds.coherence,
                    },
                };
                round.keep(task, cause);
            }
        }
    }

    /// Whether the operating system, or another program, has moved a sharer to another domain meanwhile.
    fn is_disturbed(&self, round: &Round<'_>) -> bool {
        self.watched.iter().filter(|one| one.shares).any(|one| {
            let task = round.memory.index_of(one.id);
            let place = task.and_then(|task| round.place(task));
            place.is_some_and(|place| Some(place.domain) != one.domain)
        })
    }

    /// Whether progress is too low for the moves to stay.
    fn is_worse(&self) -> bool {
        let change = self.change();
        match self.purpose {
            Purpose::Sharing => change.is_some_and(|change| change < 1.0 - FALL),
            Purpose::FaintSharing => change.is_none_or(|change| change < 1.0 + RISE),
        }
    }

    /// The progress of the tasks concerned relative to their progress before, on average.
    fn change(&self) -> Option<f64> {
        let mut change = Mean::default();
        for one in &self.watched {
            let before = one.throughput_before.filter(|&before| before > 0.0);
            change.add(one.throughput.value().zip(before).map(|(after, before)| after / before));
        }
        change.value()
    }

    /// The tasks of the group that have no traffic and are in the same domain become a group of their own, if there are
    /// such tasks elsewhere.
    fn split(&self, round: &mut Round<'_>) {
        let mut settled: Vec<Vec<usize>> = vec![vec![]; round.shape.domains.len()];
        for one in self.watched.iter().filter(|one| one.shares) {
            if let Some(task) = round.memory.index_of(one.id)
                && let Some(place) = round.place(task)
                && round.sets.states()[task].class == Class::Intra
                && round.sets.states()[task].inter <= round.quiet_below()
            {
                settled[place.domain].push(task);
            }
        }
        settled.retain(|tasks| tasks.len() > 1);
        if settled.len() > 1 {
            for tasks in settled {
                let group = round.memory.new_group();
                for task in tasks {
                    round.memory.task_mut(task).join(group);
                }
            }
        }
    }

    /// The task is not moved by this method again until its traffic changes.
    fn give_up(round: &mut Round<'_>, one: &Watched) {
        if let Some(task) = round.memory.index_of(one.id) {
            let inter = one.inter.value().unwrap_or(0.0).max(one.inter_before);
            round.memory.task_mut(task).note_failure(inter);
        }
    }

    /// The task goes back: to its PU if that is idle or if the one that made room for it is still there, else to an
    /// idle PU beside it. A task that has moved since, or whose rates are unknown, stays.
    fn roll_back(round: &mut Round<'_>, one: &Watched, made: &Move) {
        let known = |round: &Round<'_>, task: usize| {
            let state = round.sets.states()[task];
            state.free && state.class != Class::Unknown
        };
        let (Some(task), Some(back)) = (round.memory.index_of(one.id), round.shape.position(made.from)) else {
            return;
        };
        let allowed = &round.tasks[round.sets.states()[task].input].allowed;
        let there = round.place(task).is_some_and(|place| place.pu == made.to);
        if !known(round, task) || !there || !allowed.contains(made.from) {
            return;
        }
        let cause = Cause {
            reason: Reason::RollBack,
            excess: Excess {
                activity: Activity::InterPackageCoherence,
                value: one.inter.value().unwrap_or(0.0),
                threshold: round.thresholds.coherence.max(LEFT * one.inter_before),
            },
        };
        if round.sets.tasks_on(back) == 0 {
            return round.move_to(task, back, cause);
        }
        let partner = made.swapped_with.and_then(|partner| round.memory.index_of(partner));
        if let Some(partner) = partner.filter(|&partner| known(round, partner))
            && round.sets.states()[partner].position == Some(back)
            && round.sets.fit(round.shape, round.tasks, task, partner)
        {
            return round.swap(task, partner, cause, false);
        }
        let cell = [round.shape.places[back].cell];
        round.move_to_idle(task, &cell, cause);
    }
}
