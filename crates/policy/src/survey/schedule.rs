//! The order of a survey.
//!
//! 1. A pass visits each place of the pages once. The order is random in the first pass and reversed in each that
//!    follows, so a steady drift cancels out, and the pages stay where they are between two passes.
//! 2. At one place the prefetchers have each of their settings once, in random order: a stage for each.
//! 3. A stage goes through its configurations in random order. If pages have several places, it does so twice, because
//!    pages move seldom then.
//! 4. A later pass leaves out configurations that are known well enough. The references are in every pass.
//! 5. If earlier runs of the program were measured, the first pass begins with the references. They show how much faster
//!    this run is, so that everything after them counts even if the program ends soon.

use super::configuration::{PagePlaces, SurveyConfiguration};
use pinfold_core::random::Random;
use pinfold_core::{Prefetchers, Topology};
use std::collections::VecDeque;

/// The rounds of a stage, if pages have several places.
const ROUNDS_OF_A_VISIT: usize = 2;

/// A part of a pass in which neither pages move nor prefetchers change.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stage {
    /// The configurations, in the order of their turns.
    pub(super) queue: Vec<usize>,
    /// The places of the pages.
    pub(super) pages: PagePlaces,
    /// The prefetchers; `None` leaves them as they are.
    pub(super) prefetchers: Option<Prefetchers>,
}

/// The configurations that have their pages at the same places.
#[derive(Debug)]
struct Group {
    pages: PagePlaces,
    members: Vec<usize>,
}

/// The order of a survey.
#[derive(Debug)]
pub(super) struct Schedule {
    groups: Vec<Group>,
    prefetchers: Vec<Option<Prefetchers>>,
    /// The configurations of every pass.
    references: Vec<usize>,
    random: Random,
    /// Whether the next pass begins with the references.
    references_first: bool,
    passes: usize,
}

impl Schedule {
    /// The order of these configurations of a program with `working` ranks.
    pub(super) fn new(
        configurations: &[SurveyConfiguration],
        references: &[usize],
        topology: &Topology,
        working: usize,
        seed: u64,
    ) -> Self {
        let mut groups: Vec<Group> = vec![];
        for (number, configuration) in configurations.iter().enumerate() {
            let pages = configuration.page_places(topology, working);
            match groups.iter_mut().find(|group| group.pages == pages) {
                Some(group) => group.members.push(number),
                None => groups.push(Group {
                    pages,
                    members: vec![number],
                }),
            }
        }
        let mut random = Random::new(seed);
        random.shuffle(&mut groups);
        Self {
            groups,
            prefetchers: configurations.iter().map(|one| one.prefetchers).collect(),
            references: references.to_vec(),
            random,
            references_first: false,
            passes: 0,
        }
    }

    /// The next pass begins with the references.
    pub(super) fn begin_with_references(&mut self) {
        self.references_first = true;
    }

    /// How many places the pages have.
    pub(super) fn places(&self) -> usize {
        self.groups.len()
    }

    /// How often a pass measures each configuration.
    pub(super) fn rounds(&self) -> usize {
        if self.groups.len() > 1 { ROUNDS_OF_A_VISIT } else { 1 }
    }

    /// The stages of the next pass. It measures the configurations that are `due`, and the references; no stage if none
    /// is due.
    pub(super) fn pass(&mut self, due: impl Fn(usize) -> bool) -> VecDeque<Stage> {
        let rounds = self.rounds();
        if !(0..self.prefetchers.len()).any(&due) {
            return VecDeque::new();
        }
        if self.passes > 0 {
            self.groups.reverse();
        }
        self.passes += 1;
        let references_first = std::mem::take(&mut self.references_first);
        if references_first {
            let has_none = |group: &Group| !group.members.iter().any(|one| self.references.contains(one));
            self.groups.sort_by_key(has_none);
        }
        let mut stages = VecDeque::new();
        for group in &self.groups {
            let is_in = |one: &&usize| due(**one) || self.references.contains(one);
            let members: Vec<usize> = group.members.iter().filter(is_in).copied().collect();
            let mut settings: Vec<Option<Prefetchers>> = vec![];
            for &member in &members {
                if !settings.contains(&self.prefetchers[member]) {
                    settings.push(self.prefetchers[member]);
                }
            }
            self.random.shuffle(&mut settings);
            if references_first {
                let of_references: Vec<Option<Prefetchers>> =
                    self.references.iter().map(|&one| self.prefetchers[one]).collect();
                settings.sort_by_key(|setting| !of_references.contains(setting));
            }
            for setting in settings {
                let of_setting = members.iter().filter(|&&one| self.prefetchers[one] == setting);
                let mut round: Vec<usize> = of_setting.copied().collect();
                let mut queue = vec![];
                for _ in 0..rounds {
                    self.random.shuffle(&mut round);
                    if references_first {
                        round.sort_by_key(|one| !self.references.contains(one));
                    }
                    queue.extend(&round);
                }
                stages.push_back(Stage {
                    queue,
                    pages: group.pages.clone(),
                    prefetchers: setting,
                });
            }
        }
        stages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::synthetic;
    use pinfold_core::{PageMapping, Pinning, PuId};
    use proptest::prelude::*;

    fn pinned(pus: &[u32], pages: Option<PageMapping>, prefetchers: Option<&str>) -> SurveyConfiguration {
        SurveyConfiguration {
            threads: None,
            pinning: Pinning::new(pus.iter().copied().map(PuId).collect()),
            pages,
            prefetchers: prefetchers.map(|text| text.parse().unwrap()),
        }
    }

    fn visited(stages: &VecDeque<Stage>) -> Vec<usize> {
        stages.iter().flat_map(|stage| stage.queue.clone()).collect()
    }

    #[test]
    fn pages_move_once_for_each_of_their_places_in_a_pass_and_not_between_two_passes() {
        let topology = synthetic("package:2 numa:1 core:2 pu:1");
        let interleave = Some(PageMapping::Interleave);
        let configurations = [
            SurveyConfiguration::default(),
            pinned(&[0, 1], None, None),
            pinned(&[1, 0], None, None),
            pinned(&[0, 2], None, None),
            pinned(&[0, 2], interleave, None),
            pinned(&[0, 1], interleave, None),
        ];
        let mut schedule = Schedule::new(&configurations, &[0], &topology, 2, 1);
        // Unpinned; both threads on the first node; one on each; interleaved.
        assert_eq!((schedule.places(), schedule.rounds()), (4, 2));
        let first = schedule.pass(|_| true);
        let second = schedule.pass(|_| true);
        assert_eq!(first.len(), 4);
        assert_eq!(first.back().unwrap().pages, second.front().unwrap().pages);
        let mut all = visited(&first);
        all.sort_unstable();
        assert_eq!(all, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
        let third = schedule.pass(|one| one == 3);
        let mut all = visited(&third);
        all.sort_unstable();
        assert_eq!(all, [0, 0, 3, 3], "the reference and what is due");
    }

    #[test]
    fn on_one_node_all_configurations_are_one_stage() {
        let topology = synthetic("core:2 pu:1");
        let configurations = [SurveyConfiguration::default(), pinned(&[0, 1], None, None)];
        let mut schedule = Schedule::new(&configurations, &[0], &topology, 2, 1);
        assert_eq!((schedule.places(), schedule.pass(|_| true).len()), (1, 1));
        assert_eq!(schedule.pass(|_| false), VecDeque::new(), "nothing is due");
    }

    #[test]
    fn a_pass_that_begins_with_the_references_has_them_first_and_the_next_one_where_chance_puts_them() {
        let topology = synthetic("package:2 numa:1 core:2 pu:1");
        let mut configurations = vec![SurveyConfiguration::default()];
        configurations.extend(
            [0, 2].iter().flat_map(|&first| {
                [(0, 1), (1, 0)].map(|(one, other)| pinned(&[first + one, first + other], None, None))
            }),
        );
        let mut all_first = true;
        for seed in 0..8 {
            let mut schedule = Schedule::new(&configurations, &[3], &topology, 2, seed);
            schedule.begin_with_references();
            assert_eq!(visited(&schedule.pass(|_| true))[0], 3, "{seed}");
            all_first &= visited(&schedule.pass(|_| true))[0] == 3;
        }
        assert!(!all_first);
    }

    proptest! {
        #[test]
        fn a_pass_has_each_due_configuration_in_each_of_its_rounds_and_each_setting_of_prefetchers_once(
            seed in any::<u64>(),
            chosen in proptest::collection::vec((0usize..4, 0usize..3, 0usize..3), 1..20),
            due in proptest::collection::vec(any::<bool>(), 20),
        ) {
            let topology = synthetic("package:2 numa:1 core:2 pu:1");
            let pinnings: [&[u32]; 4] = [&[0, 1], &[1, 0], &[0, 2], &[2, 3]];
            let mappings = [None, Some(PageMapping::Interleave), Some(PageMapping::Local)];
            let settings = [None, Some("0000"), Some("1111")];
            let configurations: Vec<SurveyConfiguration> = chosen
                .into_iter()
                .map(|(pinning, mapping, setting)| pinned(pinnings[pinning], mappings[mapping], settings[setting]))
                .collect();
            let mut schedule = Schedule::new(&configurations, &[0], &topology, 2, seed);
            let stages = schedule.pass(|one| due[one]);
            let visited = visited(&stages);
            let any_due = due[..configurations.len()].iter().any(|&due| due);
            for (one, &due) in due[..configurations.len()].iter().enumerate() {
                let wanted = any_due && (due || one == 0);
                let times = visited.iter().filter(|&&other| other == one).count();
                prop_assert_eq!(times, if wanted { schedule.rounds() } else { 0 });
            }
            let stages: Vec<Stage> = stages.into_iter().collect();
            for (number, stage) in stages.iter().enumerate() {
                let mut earlier = stages[..number].iter();
                prop_assert!(earlier.all(|other| (&other.pages, other.prefetchers) != (&stage.pages, stage.prefetchers)));
                for &one in &stage.queue {
                    prop_assert_eq!(configurations[one].prefetchers, stage.prefetchers);
                    prop_assert_eq!(&configurations[one].page_places(&topology, 2), &stage.pages);
                }
            }
        }
    }
}
