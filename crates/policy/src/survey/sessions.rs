//! Measurements of several runs of the program.
//!
//! A run may be faster as a whole than another one: another day, a cooler processor. The configurations that two runs
//! share show by how much (`drift`). Without a shared one, directly or by way of further runs, the times of two runs
//! cannot be compared. Then the measurements of the larger group of runs count, and the others wait until a later run
//! links them: each pass has the references.

use super::results::Turn;
use std::collections::BTreeSet;

/// Runs that are linked.
#[derive(Default)]
struct Group {
    sessions: BTreeSet<u64>,
    configurations: BTreeSet<usize>,
    measurements: usize,
}

impl Group {
    fn joined(mut self, other: Self) -> Self {
        self.sessions.extend(other.sessions);
        self.configurations.extend(other.configurations);
        self.measurements += other.measurements;
        self
    }
}

/// The measurements of a subject that can be compared with each other.
pub(super) fn linked(turns: &[Turn]) -> Vec<Turn> {
    let all: BTreeSet<u64> = turns.iter().map(|turn| turn.session).collect();
    let mut groups: Vec<Group> = vec![];
    for session in all {
        let its: Vec<&Turn> = turns.iter().filter(|turn| turn.session == session).collect();
        let one = Group {
            sessions: BTreeSet::from([session]),
            configurations: its.iter().map(|turn| turn.configuration).collect(),
            measurements: its.len(),
        };
        let (near, far): (Vec<Group>, Vec<Group>) = groups
            .into_iter()
            .partition(|group| !group.configurations.is_disjoint(&one.configurations));
        groups = far;
        groups.push(near.into_iter().fold(one, Group::joined));
    }
    let largest = groups
        .into_iter()
        .max_by_key(|group| group.measurements)
        .unwrap_or_default();
    let is_in = |turn: &&Turn| largest.sessions.contains(&turn.session);
    turns.iter().filter(is_in).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::super::results::Subject;
    use super::*;
    use std::time::Duration;

    fn turns(measured: &[(u64, usize)]) -> Vec<Turn> {
        let turn = |&(session, configuration): &(u64, usize)| Turn {
            subject: Subject::Program,
            configuration,
            session,
            at: Duration::ZERO,
            units: 1.0,
            seconds: 1.0,
            counts: None,
        };
        measured.iter().map(turn).collect()
    }

    #[test]
    fn runs_that_share_a_configuration_are_compared_also_by_way_of_a_third_one() {
        let all = turns(&[(1, 0), (1, 1), (2, 2), (3, 2), (3, 1)]);
        assert_eq!(linked(&all), all);
    }

    #[test]
    fn of_runs_that_share_nothing_the_larger_one_counts() {
        let all = turns(&[(1, 0), (2, 1), (2, 2)]);
        assert_eq!(linked(&all), all[1..]);
        assert!(linked(&[]).is_empty());
    }
}
