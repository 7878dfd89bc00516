//! What is known of the configurations of a survey: which of them each subject can have, and which need more
//! measurements.

use super::configuration::SurveyConfiguration;
use super::options::SurveyOptions;
use super::results::{Measured, Results, Subject};
use pinfold_core::{RegionKeeps, Sample};
use std::collections::{BTreeMap, BTreeSet};

/// The configurations, and the subjects that they are measured for.
#[derive(Debug, Default)]
pub(super) struct Known {
    configurations: Vec<SurveyConfiguration>,
    /// The number of threads that they are for.
    threads: usize,
    subjects: Vec<Subject>,
    /// By configuration: why it is left out.
    left_out: BTreeMap<usize, String>,
    /// What the program does not let the survey change of a region.
    keeps: BTreeMap<Subject, RegionKeeps>,
}

impl Known {
    /// Nothing is left out yet.
    pub(super) fn new(configurations: Vec<SurveyConfiguration>, threads: usize, subjects: Vec<Subject>) -> Self {
        Self {
            configurations,
            threads,
            subjects,
            ..Self::default()
        }
    }

    pub(super) fn configurations(&self) -> &[SurveyConfiguration] {
        &self.configurations
    }

    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    pub(super) fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    pub(super) fn left_out(&self) -> &BTreeMap<usize, String> {
        &self.left_out
    }

    /// The number of configurations that are not left out.
    pub(super) fn number(&self) -> usize {
        self.configurations.len() - self.left_out.len()
    }

    pub(super) fn is_unpinned(&self, configuration: usize) -> bool {
        self.configurations[configuration].pinning.is_none()
    }

    /// Leaves a configuration out. The first reason is kept.
    pub(super) fn leave_out(&mut self, configuration: usize, why: &str) {
        self.left_out.entry(configuration).or_insert_with(|| why.to_owned());
    }

    /// Reads what regions keep. Returns the subjects for which that is new.
    pub(super) fn note_kept(&mut self, sample: &Sample) -> Vec<Subject> {
        let regions = sample.regions.iter();
        let changed = regions.filter_map(|region| {
            let subject = Subject::Region(region.id);
            let before = self.keeps.insert(subject, region.keeps).unwrap_or_default();
            (before != region.keeps).then_some(subject)
        });
        changed.collect()
    }

    /// Whether a subject can have a configuration.
    pub(super) fn can_have(&self, subject: Subject, number: usize) -> bool {
        let one = &self.configurations[number];
        let keeps = self.keeps.get(&subject).copied().unwrap_or_default();
        let other_threads = one.threads.is_some_and(|threads| threads != self.threads);
        let cannot = keeps.threads && other_threads || keeps.places && one.pinning.is_some();
        !cannot && !self.left_out.contains_key(&number)
    }

    /// The configurations that some subject needs more measurements of.
    pub(super) fn due(&self, results: &Results, options: &SurveyOptions) -> BTreeSet<usize> {
        let (fewest, most) = options.rounds;
        let mut due = BTreeSet::new();
        for &subject in &self.subjects {
            let (measured, _) = results.of(subject);
            let is_known = |one: usize| {
                let known = measured.iter().find(|known| known.configuration == one);
                known.is_some_and(|known| {
                    let is_precise = known.error.is_some_and(|error| error <= options.interval);
                    known.measurements >= most || (known.measurements >= fewest && is_precise)
                })
            };
            let all = 0..self.configurations.len();
            due.extend(all.filter(|&one| self.can_have(subject, one) && !is_known(one)));
        }
        due
    }

    /// The number of configurations with a good enough result for each subject that can have it.
    pub(super) fn measured_for_all(&self, measured: &[Measured], is_enough: impl Fn(&Measured) -> bool) -> usize {
        let mut subjects: BTreeMap<usize, usize> = BTreeMap::new();
        for measured in measured.iter().filter(|one| is_enough(one)) {
            *subjects.entry(measured.configuration).or_default() += 1;
        }
        self.complete(&subjects)
    }

    /// The number of configurations in which all subjects that can have it are measured; `subjects` has the number of
    /// measured ones by configuration.
    pub(super) fn complete(&self, subjects: &BTreeMap<usize, usize>) -> usize {
        let of = |configuration: usize| {
            let all = self.subjects.iter();
            all.filter(|&&subject| self.can_have(subject, configuration)).count()
        };
        let is_whole = |(&configuration, &number): (&usize, &usize)| number > 0 && number >= of(configuration);
        subjects.iter().filter(|&one| is_whole(one)).count()
    }
}
