//! What earlier runs of a program have measured, from the journal of a sweep within one run.

use super::record::{WithinBegin, WithinComplete, WithinEnd, WithinIdentity, WithinRecord, WithinSubject, WithinTurn};
use super::space::WithinConfiguration;
use crate::journal::Key;
use crate::measured::MachineState;
use pinfold_core::RegionKeeps;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// The records of the journal.
#[derive(Clone, Debug, Default)]
pub struct History {
    runs: Vec<WithinBegin>,
    turns: Vec<(Key, WithinTurn)>,
    keeps: BTreeMap<WithinSubject, RegionKeeps>,
    ends: Vec<WithinEnd>,
    complete: Vec<(Key, WithinComplete)>,
}

impl History {
    /// The records of a journal.
    pub fn new(records: Vec<(Key, WithinRecord)>) -> Self {
        let mut history = Self::default();
        for (key, record) in records {
            match record {
                WithinRecord::Begin(begin) => history.runs.push(begin),
                WithinRecord::Turn(turn) => history.turns.push((key, turn)),
                WithinRecord::Keeps {
                    subject,
                    threads,
                    places,
                } => {
                    history.keeps.insert(subject, RegionKeeps { threads, places });
                }
                WithinRecord::End(end) => history.ends.push(end),
                WithinRecord::Complete(complete) => history.complete.push((key, complete)),
            }
        }
        history
    }

    /// What the measurements are of, if that is not this program on this machine.
    pub fn difference(&self, identity: &WithinIdentity) -> Option<&'static str> {
        self.runs.iter().find_map(|run| run.identity.difference(identity))
    }

    /// The runs with their numbers of threads and metrics.
    pub fn runs(&self) -> &[WithinBegin] {
        &self.runs
    }

    /// The number of measurements.
    pub fn number(&self) -> usize {
        self.turns.len()
    }

    /// The number of measurements with one of these keys.
    pub fn having(&self, keys: &BTreeSet<Key>) -> usize {
        self.turns.iter().filter(|(key, _)| keys.contains(key)).count()
    }

    /// The number of runs that have measured something.
    pub fn measuring_runs(&self) -> usize {
        let sessions: BTreeSet<u64> = self.turns.iter().map(|(_, turn)| turn.session).collect();
        sessions.len()
    }

    /// The measurements of these configurations by subject, each with the position of its configuration. `keys` has a
    /// key for each configuration in a program of `threads` threads. A measurement of a region in a configuration that
    /// the program did not let it have is left out.
    pub fn turns(
        &self,
        threads: usize,
        configurations: &[WithinConfiguration],
        keys: &[Key],
    ) -> BTreeMap<WithinSubject, Vec<(usize, &WithinTurn)>> {
        let positions: HashMap<Key, usize> = keys.iter().copied().zip(0..).collect();
        let mut turns: BTreeMap<WithinSubject, Vec<(usize, &WithinTurn)>> = BTreeMap::new();
        for (key, turn) in &self.turns {
            let Some(&position) = positions.get(key) else { continue };
            let keeps = self.keeps.get(&turn.subject).copied().unwrap_or_default();
            if !configurations[position].is_refused_by(keeps, threads) {
                turns.entry(turn.subject.clone()).or_default().push((position, turn));
            }
        }
        turns
    }

    /// How long the program lasted in the last run that it ended by itself.
    pub fn lasted(&self) -> Option<Duration> {
        let end = self.ends.iter().rev().find(|end| end.by_itself)?;
        Duration::try_from_secs_f64(end.lasted.0).ok()
    }

    /// The machine during the runs that are over.
    pub fn states(&self) -> impl Iterator<Item = &MachineState> {
        self.ends.iter().map(|end| &end.state)
    }

    /// The complete sweep whose key `key` computes.
    pub fn complete(&self, key: impl Fn(&WithinComplete) -> Option<Key>) -> Option<&WithinComplete> {
        let found = self.complete.iter().find(|(its, complete)| key(complete) == Some(*its));
        found.map(|(_, complete)| complete)
    }
}

#[cfg(test)]
mod tests {
    use super::super::space::WithinSpace;
    use super::*;
    use crate::journal::Exact;
    use crate::spaces::SpaceMachine;
    use crate::{CodePlace, measured};
    use pinfold_core::RegionId;
    use pinfold_sim::model::builtin;

    fn identity() -> WithinIdentity {
        WithinIdentity {
            machine: "2-ab".to_owned(),
            program: "xxh3:1".to_owned(),
            command: "solver input".to_owned(),
            context: vec!["in /home".to_owned()],
        }
    }

    fn configurations() -> Vec<WithinConfiguration> {
        let space = WithinSpace {
            names: vec!["threads".to_owned()],
            limit: None,
            machine: SpaceMachine::of_model(&builtin("e5-4650x4").unwrap()),
            no_accesses: None,
        };
        space.configurations(2).unwrap().configurations
    }

    fn code(offset: u64) -> WithinSubject {
        WithinSubject::Code(CodePlace {
            object: "solver".to_owned(),
            offset,
        })
    }

    fn turn(subject: WithinSubject, session: u64) -> WithinRecord {
        WithinRecord::Turn(WithinTurn {
            session,
            subject,
            region: Some(RegionId(session)),
            at: Exact(1.0),
            units: Exact(2.0),
            seconds: Exact(0.1),
            counts: None,
        })
    }

    #[test]
    fn measurements_are_found_by_the_code_of_their_region_and_their_configuration() {
        let all = configurations();
        let keys: Vec<Key> = all.iter().map(|one| identity().key(2, None, one)).collect();
        let of_other_threads = identity().key(3, None, &all[1]);
        let history = History::new(vec![
            (keys[1], turn(code(16), 1)),
            (keys[0], turn(code(16), 2)),
            (keys[1], turn(code(32), 2)),
            (of_other_threads, turn(code(32), 2)),
            (keys[1], turn(WithinSubject::Program, 2)),
        ]);
        let found = history.turns(2, &all, &keys);
        let positions = |subject: &WithinSubject| found[subject].iter().map(|one| one.0).collect::<Vec<usize>>();
        assert_eq!((positions(&code(16)), positions(&code(32))), (vec![1, 0], vec![1]));
        assert_eq!((history.number(), history.measuring_runs()), (5, 2));
    }

    #[test]
    fn what_a_region_could_not_have_is_not_used() {
        let all = configurations();
        let keys: Vec<Key> = all.iter().map(|one| identity().key(2, None, one)).collect();
        let keeps = WithinRecord::Keeps {
            subject: code(16),
            threads: false,
            places: true,
        };
        let history = History::new(vec![
            (keys[0], turn(code(16), 1)),
            (keys[1], turn(code(16), 1)),
            (identity().own_key(), keeps),
        ]);
        let found = history.turns(2, &all, &keys);
        assert_eq!(found[&code(16)].iter().map(|one| one.0).collect::<Vec<usize>>(), [0]);
    }

    #[test]
    fn each_part_of_the_identity_and_of_the_configuration_matters() {
        let all = configurations();
        let mut others = vec![identity(); 4];
        others[0].machine.push('x');
        others[1].program.push('x');
        others[2].command.push('x');
        others[3].context.clear();
        for other in &others {
            assert!(identity().difference(other).is_some());
            assert_ne!(identity().key(2, None, &all[0]), other.key(2, None, &all[0]));
        }
        assert_eq!(identity().difference(&identity()), None);
        let keys = [
            identity().key(2, None, &all[0]),
            identity().key(3, None, &all[0]),
            identity().key(2, Some("io"), &all[0]),
            identity().key(2, None, &all[1]),
            identity().own_key(),
        ];
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
    }

    #[test]
    fn the_length_of_a_run_is_that_of_the_last_one_which_the_program_ended() {
        let end = |lasted, by_itself| {
            let end = WithinEnd {
                session: 1,
                lasted: Exact(lasted),
                by_itself,
                state: measured::MachineState::default(),
            };
            (Key(1), WithinRecord::End(end))
        };
        let history = History::new(vec![end(10.0, true), end(12.0, true), end(3.0, false)]);
        assert_eq!(history.lasted(), Some(Duration::from_secs(12)));
        assert_eq!(History::default().lasted(), None);
    }
}
