//! The potential of a placement, which each gathering lowers.
//!
//! Groups compete for domains. Moves that gather one group can part another one, whose moves would part the first one
//! again, and so on for ever. So the moves for a group are made on a working copy, which has the moves for the groups
//! before (`coherence`). They stay if they lower the potential. Its parts, an earlier one before all later ones:
//!
//! 1. `apart`: pairs of sharers of one group in different domains. This is the sharing across domains.
//! 2. `parted`: sharers of one group that follow each other by rank, in different domains. This is what sorting lowers.
//! 3. `crowd`: busy tasks on a PU, without the first one of each PU. This is the load.
//!
//! The parts are whole numbers that are not negative, so moves come to an end while groups stay the same. The moves of
//! the other two steps (`remote`, `bandwidth`) raise no part: they move no sharer, and put no busy task on the PU of
//! another. A move that is rolled back (`trial`) raises it: measurements did not show the promised effect.
//!
//! Pairs are counted and not weighed by their traffic. Rates scatter from one interval to the next, and two groups
//! would then take each other's place whenever the one that had less traffic has more.
//!
//! Limits: no count says which two tasks share, so each pair of a group counts as one.

use super::Move;
use super::groups::Groups;
use super::placement_sets::Class;
use super::round::Round;
use std::collections::{BTreeMap, BTreeSet};

/// How moves change the potential. Changes are ordered by the parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Change {
    apart: i64,
    parted: i64,
    crowd: i64,
}

impl Change {
    /// Whether the potential is lower after the moves.
    pub(super) fn lowers(self) -> bool {
        self < Self::default()
    }

    /// By moves that were the last ones made. `groups` are as they were before these moves.
    pub(super) fn by(round: &Round<'_>, groups: &Groups, moves: &[Move]) -> Self {
        let domains = Domains::of(round, moves);
        Self {
            apart: domains.apart(groups),
            parted: domains.parted(round, groups),
            crowd: crowd(round, moves),
        }
    }
}

/// By task that was moved: the old domain and the new one.
struct Domains(BTreeMap<usize, [usize; 2]>);

impl Domains {
    fn of(round: &Round<'_>, moves: &[Move]) -> Self {
        let domain = |pu| Some(round.shape.places[round.shape.position(pu)?].domain);
        let of = |made: &Move| {
            let task = round.memory.index_of(made.task)?;
            Some((task, [domain(made.from)?, domain(made.to)?]))
        };
        Self(moves.iter().filter_map(of).collect())
    }

    fn apart(&self, groups: &Groups) -> i64 {
        // By group and domain: how many sharers come.
        let mut coming: BTreeMap<(usize, usize), i64> = BTreeMap::new();
        for (&task, &[from, to]) in &self.0 {
            if let Some(group) = groups.group_of(task) {
                *coming.entry((group, from)).or_default() -= 1;
                *coming.entry((group, to)).or_default() += 1;
            }
        }
        let together = coming.iter().map(|(&(group, domain), coming)| {
            let before = whole(groups.list()[group].sharers[domain]);
            pairs(before + coming) - pairs(before)
        });
        -together.sum::<i64>()
    }

    fn parted(&self, round: &Round<'_>, groups: &Groups) -> i64 {
        let mut neighbours = BTreeSet::new();
        for &task in self.0.keys() {
            let Some(group) = groups.group_of(task) else { continue };
            let members = &groups.list()[group].members;
            if let Ok(rank) = members.binary_search(&task) {
                let pair = |first: usize| Some((*members.get(first)?, *members.get(first + 1)?));
                neighbours.extend(rank.checked_sub(1).and_then(pair));
                neighbours.extend(pair(rank));
            }
        }
        let changes = neighbours.into_iter().filter_map(|(one, other)| {
            let ([before, after], [other_before, other_after]) = (self.at(round, one)?, self.at(round, other)?);
            Some(i64::from(after != other_after) - i64::from(before != other_before))
        });
        changes.sum()
    }

    /// The domains of a task before and after the moves.
    fn at(&self, round: &Round<'_>, task: usize) -> Option<[usize; 2]> {
        let stays = || round.place(task).map(|place| [place.domain; 2]);
        self.0.get(&task).copied().or_else(stays)
    }
}

fn crowd(round: &Round<'_>, moves: &[Move]) -> i64 {
    // By PU: how many busy tasks came.
    let mut came: BTreeMap<usize, i64> = BTreeMap::new();
    for made in moves {
        let task = round.memory.index_of(made.task);
        let busy = task.is_some_and(|task| round.sets.states()[task].class != Class::Idle);
        if let (true, Some(from), Some(to)) = (busy, round.shape.position(made.from), round.shape.position(made.to)) {
            *came.entry(from).or_default() -= 1;
            *came.entry(to).or_default() += 1;
        }
    }
    let more_than_one = |tasks: i64| (tasks - 1).max(0);
    let changes = came.iter().map(|(&position, came)| {
        let now = i64::from(round.sets.tasks_on(position));
        more_than_one(now) - more_than_one(now - came)
    });
    changes.sum()
}

/// The pairs of this number of tasks.
fn pairs(tasks: i64) -> i64 {
    tasks * (tasks - 1) / 2
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
