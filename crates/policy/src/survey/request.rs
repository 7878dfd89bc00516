//! What a survey requests of the machine.

use super::configuration::SurveyConfiguration;
use super::results::Subject;
use super::schedule::Stage;
use pinfold_core::{Configuration, PageMapping, Pinning, Prefetchers, RegionConfiguration, RegionId, TaskId};
use std::collections::BTreeSet;

/// Makes the requests.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// By rank: the last PUs of the unpinned program before the survey.
    home: Option<Pinning>,
    /// Whether pages were ever mapped, so that they have to go back.
    mapped: bool,
    /// What the last request did with threads.
    threads: Threads,
    /// Whether the machine has refused to set prefetchers.
    keeps_prefetchers: bool,
}

/// What a request does with threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Threads {
    #[default]
    Unpinned,
    Pinned,
    /// They are at home, and are unpinned next.
    Returning,
}

/// The configurations of the subjects at one time.
pub(super) struct Placed<'a> {
    /// The configuration of what is not measured by itself.
    pub(super) leader: &'a SurveyConfiguration,
    /// The configuration of each region.
    pub(super) regions: Vec<(RegionId, &'a SurveyConfiguration)>,
    pub(super) stage: &'a Stage,
    /// The number of threads that have ranks.
    pub(super) working: usize,
    pub(super) left_alone: BTreeSet<TaskId>,
}

impl Requests {
    /// The unpinned program ran here.
    pub(super) fn note_home(&mut self, home: Option<Pinning>) {
        self.home = home;
    }

    /// The machine cannot set prefetchers.
    pub(super) fn keep_prefetchers(&mut self) {
        self.keeps_prefetchers = true;
    }

    /// Whether threads are at home for a moment, before they are unpinned.
    pub(super) fn are_returning(&self) -> bool {
        self.threads == Threads::Returning
    }

    /// What subjects with these configurations need.
    pub(super) fn of(&mut self, placed: Placed<'_>) -> Configuration {
        let Placed {
            leader,
            regions,
            stage,
            working,
            left_alone,
        } = placed;
        self.mapped |= stage.pages.mapping.is_some();
        let prefetchers = stage.prefetchers.filter(|_| !self.keeps_prefetchers);
        let region = |configuration: &SurveyConfiguration| RegionConfiguration {
            pinning: configuration.pinning.clone(),
            threads: configuration.threads.filter(|&threads| threads != working),
            prefetchers,
        };
        let wanted = Configuration {
            pinning: leader.base(working),
            left_alone,
            pages: stage.pages.mapping.or(self.first_touch()),
            prefetchers,
            regions: regions.into_iter().map(|(id, one)| (id, region(one))).collect(),
            ..Configuration::default()
        };
        self.by_way_of_home(wanted)
    }

    /// The program as it was before the survey.
    pub(super) fn back(&self, left_alone: BTreeSet<TaskId>) -> Configuration {
        Configuration {
            left_alone,
            pages: self.first_touch(),
            ..Configuration::default()
        }
    }

    /// First touch, once pages were mapped otherwise.
    fn first_touch(&self) -> Option<PageMapping> {
        self.mapped.then_some(PageMapping::FirstTouch)
    }

    /// Before all threads are unpinned they return to the PUs of the unpinned program, because the operating system
    /// would leave them on the PUs of the last configuration.
    fn by_way_of_home(&mut self, wanted: Configuration) -> Configuration {
        let home = self
            .home
            .clone()
            .filter(|_| self.threads == Threads::Pinned && !wanted.pins());
        let Some(home) = home else {
            self.threads = if wanted.pins() {
                Threads::Pinned
            } else {
                Threads::Unpinned
            };
            return wanted;
        };
        self.threads = Threads::Returning;
        let at_home = |region: &RegionConfiguration| RegionConfiguration {
            pinning: Some(home.clone()),
            ..region.clone()
        };
        Configuration {
            regions: wanted
                .regions
                .iter()
                .map(|(&id, region)| (id, at_home(region)))
                .collect(),
            pinning: Some(home.clone()),
            ..wanted
        }
    }
}

/// Whether a configuration needs a setting of the prefetchers that differs from the usual one, all on.
pub(super) fn sets_prefetchers(configuration: &SurveyConfiguration) -> bool {
    configuration
        .prefetchers
        .is_some_and(|setting| setting != Prefetchers::ALL)
}

/// The configuration of each region, by the subject whose configuration it gets.
pub(super) fn by_region<'a>(
    placed: Vec<(RegionId, Subject)>,
    configuration: impl Fn(Subject) -> Option<&'a SurveyConfiguration>,
) -> Vec<(RegionId, &'a SurveyConfiguration)> {
    let of = |(id, subject)| Some((id, configuration(subject)?));
    placed.into_iter().filter_map(of).collect()
}
