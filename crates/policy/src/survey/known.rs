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

/// A configuration that needs more measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// The fewest measurements that a subject has of it.
    pub(super) has: usize,
    /// The number of further ones that are probably needed.
    pub(super) needs: usize,
    /// Whether more may be needed, because the scatter is not known.
    pub(super) is_least: bool,
}

impl Due {
    /// The need of a subject with this result; `None` if the result is good enough.
    fn of(measured: Option<&Measured>, options: &SurveyOptions) -> Option<Self> {
        let (fewest, most) = options.rounds;
        let has = measured.map_or(0, |one| one.measurements);
        let error = measured.and_then(|one| one.error);
        if has >= most || (has >= fewest && error.is_some_and(|error| error <= options.interval)) {
            return None;
        }
        // The error falls with the square root of the number of measurements.
        let wanted = error.map(|error| has as f64 * (error / options.interval).powi(2));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small positive number, at most `most`"
        )]
        let wanted = wanted.map_or(fewest, |wanted| wanted.ceil().min(most as f64) as usize);
        Some(Self {
            has,
            needs: wanted.max(fewest).max(has + 1) - has,
            is_least: error.is_none() && fewest < most,
        })
    }

    fn joined(self, other: Self) -> Self {
        Self {
            has: self.has.min(other.has),
            needs: self.needs.max(other.needs),
            is_least: self.is_least || other.is_least,
        }
    }
}

/// The configurations that have fewer measurements than others that are due; all if they have the same number.
pub(super) fn behind(due: &BTreeMap<usize, Due>) -> BTreeSet<usize> {
    let most = due.values().map(|one| one.has).max().unwrap_or(0);
    let fewer: BTreeSet<usize> = due
        .iter()
        .filter(|(_, one)| one.has < most)
        .map(|(&one, _)| one)
        .collect();
    if fewer.is_empty() {
        due.keys().copied().collect()
    } else {
        fewer
    }
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
    pub(super) fn due(&self, results: &Results, options: &SurveyOptions) -> BTreeMap<usize, Due> {
        let mut due: BTreeMap<usize, Due> = BTreeMap::new();
        for &subject in &self.subjects {
            let measured: BTreeMap<usize, Measured> = results
                .of(subject)
                .0
                .into_iter()
                .map(|one| (one.configuration, one))
                .collect();
            let all = 0..self.configurations.len();
            for one in all.filter(|&one| self.can_have(subject, one)) {
                if let Some(of_subject) = Due::of(measured.get(&one), options) {
                    let entry = due.entry(one).or_insert(of_subject);
                    *entry = entry.joined(of_subject);
                }
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MetricRequest, Skip, Times};

    fn options() -> SurveyOptions {
        SurveyOptions {
            times: Times::default(),
            metric: MetricRequest::Auto,
            skip: Skip::default(),
            threads: None,
            by: super::super::By::Auto,
            interval: 0.02,
            rounds: (3, 12),
            limit: None,
            lasted: None,
            seed: 0,
        }
    }

    fn due(measurements: usize, error: Option<f64>) -> Option<Due> {
        let measured = Measured {
            subject: Subject::Program,
            configuration: 0,
            seconds: 1.0,
            error,
            spread: None,
            measurements,
            counts: None,
        };
        Due::of((measurements > 0).then_some(&measured), &options())
    }

    #[test]
    fn what_is_needed_follows_from_the_scatter_once_it_is_known() {
        let least = |has, needs| {
            Some(Due {
                has,
                needs,
                is_least: true,
            })
        };
        assert_eq!((due(0, None), due(1, None)), (least(0, 3), least(1, 2)));
        assert_eq!((due(3, Some(0.02)), due(12, Some(0.5))), (None, None));
        let needs = |has, error| due(has, Some(error)).map(|due| due.needs);
        // Twice the interval needs four times the measurements, and never more than the most.
        assert_eq!(
            (needs(3, 0.03), needs(3, 0.2), needs(2, 0.01)),
            (Some(4), Some(9), Some(1))
        );
    }

    #[test]
    fn what_has_fewer_measurements_than_the_rest_is_behind() {
        let of = |has: &[usize]| {
            let due = has.iter().map(|&has| Due {
                has,
                needs: 1,
                is_least: false,
            });
            behind(&due.enumerate().collect()).into_iter().collect::<Vec<usize>>()
        };
        assert_eq!(
            (of(&[1, 0, 1, 0]), of(&[2, 2]), of(&[])),
            (vec![1, 3], vec![0, 1], vec![])
        );
    }
}
