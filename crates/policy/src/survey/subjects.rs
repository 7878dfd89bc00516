//! What a survey measures: the parallel regions of a program, one by one, or the whole program by its metric.
//!
//! A region is measured if it takes a part of the time that matters, and is long enough for a change of its threads.
//! Other regions run as the one that takes most of the time.

use super::results::Subject;
use super::walk::{Limits, Progress};
use crate::program::observed_program::ObservedProgram;
use pinfold_core::{Metric, RegionId, Sample};
use std::collections::BTreeMap;
use std::time::Duration;

/// A region with a smaller share of the time in all regions is not measured.
const LEAST_SHARE: f64 = 0.01;

/// A region needs this number of executions while the program is observed, or it does not repeat.
const LEAST_EXECUTIONS: f64 = 3.0;

/// A region whose executions are shorter, in seconds, is not placed by itself: a change of its threads costs up to 10 us
/// (`make bench`), and in ten times that it can gain little more.
const SHORTEST: f64 = 1e-4;

/// The program has no period that is known. Its units are waited for as long as if it had this one.
const PERIOD_OF_PROGRAM: Duration = Duration::from_secs(1);

/// The measurement of a region. The execution that runs at a change and the first one after it are not measured.
const OF_REGIONS: Limits = Limits {
    settle: Duration::from_millis(20),
    settle_unpinned: Duration::from_millis(100),
    warm: 2.0,
    turn: Duration::from_millis(100),
    least: 1.0,
};

/// The measurement of the whole program. With ten units, whole numbers of them add 4 % to the scatter.
const OF_PROGRAM: Limits = Limits {
    settle: Duration::from_millis(100),
    settle_unpinned: Duration::from_millis(200),
    warm: 0.0,
    turn: Duration::from_millis(250),
    least: 10.0,
};

/// What is measured.
#[derive(Debug)]
pub(super) enum Subjects {
    /// The whole program, which has done this much.
    Program(Progress),
    /// These regions with their periods, and others that run as the longest of them.
    Regions {
        longest: RegionId,
        measured: BTreeMap<RegionId, Duration>,
        others: Vec<RegionId>,
    },
}

impl Subjects {
    /// The regions that repeat, between two samples; `None` if no region can be measured.
    pub(super) fn regions(first: &Sample, last: &Sample) -> Option<Self> {
        let lasted = last.at.saturating_sub(first.at).as_secs_f64();
        let grown: Vec<(RegionId, f64, f64)> = last
            .regions
            .iter()
            .map(|region| {
                let before = first.regions.iter().find(|before| before.id == region.id);
                let (executions, seconds) = before.map_or((0.0, 0.0), |before| (before.executions, before.seconds));
                (region.id, region.executions - executions, region.seconds - seconds)
            })
            .filter(|&(_, executions, seconds)| executions > 0.0 && seconds > 0.0)
            .collect();
        let all: f64 = grown.iter().map(|&(.., seconds)| seconds).sum();
        let matters = |&&(_, executions, seconds): &&(RegionId, f64, f64)| {
            executions >= LEAST_EXECUTIONS && seconds >= LEAST_SHARE * all && seconds >= SHORTEST * executions
        };
        let measured: BTreeMap<RegionId, Duration> = grown
            .iter()
            .filter(matters)
            .map(|&(id, executions, _)| (id, Duration::from_secs_f64(lasted / executions)))
            .collect();
        let longest = grown.iter().filter(|(id, ..)| measured.contains_key(id));
        let &(longest, ..) = longest.max_by(|one, other| one.2.total_cmp(&other.2))?;
        let others = grown.iter().map(|&(id, ..)| id).filter(|id| !measured.contains_key(id));
        Some(Self::Regions {
            longest,
            others: others.collect(),
            measured,
        })
    }

    /// Whether a region has ended between two samples that may repeat, and that would be measured then.
    pub(super) fn may_come(first: &Sample, last: &Sample) -> bool {
        last.regions.iter().any(|region| {
            let before = first.regions.iter().find(|before| before.id == region.id);
            let (executions, seconds) = before.map_or((0.0, 0.0), |before| (before.executions, before.seconds));
            let (executions, seconds) = (region.executions - executions, region.seconds - seconds);
            executions > 0.0 && executions < LEAST_EXECUTIONS && seconds >= SHORTEST * executions
        })
    }

    /// A name for users; `metric` belongs to a program that is measured as a whole.
    pub(super) fn described(&self, metric: Option<&Metric>) -> String {
        match self {
            Self::Program(_) => format!(
                "the program, by the metric {}",
                metric.map_or("none", |metric| metric.name.as_str())
            ),
            Self::Regions { measured, .. } => match measured.len() {
                1 => "1 parallel region".to_owned(),
                number => format!("{number} parallel regions"),
            },
        }
    }

    /// How long they are measured.
    pub(super) fn limits(&self) -> Limits {
        match self {
            Self::Program(_) => OF_PROGRAM,
            Self::Regions { .. } => OF_REGIONS,
        }
    }

    /// The subject that decides for what is not measured by itself.
    pub(super) fn leader(&self) -> Subject {
        match self {
            Self::Program(_) => Subject::Program,
            Self::Regions { longest, .. } => Subject::Region(*longest),
        }
    }

    /// The measured subjects with their periods.
    pub(super) fn measured(&self) -> Vec<(Subject, Duration)> {
        match self {
            Self::Program(_) => vec![(Subject::Program, PERIOD_OF_PROGRAM)],
            Self::Regions { measured, .. } => {
                let regions = measured.iter();
                regions.map(|(&id, &period)| (Subject::Region(id), period)).collect()
            }
        }
    }

    /// The regions that get configurations, each with the subject whose configuration it gets.
    pub(super) fn placed(&self) -> Vec<(RegionId, Subject)> {
        match self {
            Self::Program(_) => vec![],
            Self::Regions {
                longest,
                measured,
                others,
            } => {
                let own = measured.keys().map(|&id| (id, Subject::Region(id)));
                own.chain(others.iter().map(|&id| (id, Subject::Region(*longest))))
                    .collect()
            }
        }
    }

    /// The regions that are not measured.
    pub(super) fn others(&self) -> &[RegionId] {
        match self {
            Self::Program(_) => &[],
            Self::Regions { others, .. } => others,
        }
    }

    /// What each subject has done until a sample. Regions that have appeared since run as the longest one.
    pub(super) fn progress(&mut self, sample: &Sample, program: &mut ObservedProgram) -> BTreeMap<Subject, Progress> {
        match self {
            Self::Program(done) => {
                let lasted = program.measurement().over;
                if !lasted.is_zero() {
                    *done = Progress {
                        counts: sample.machine,
                        ..done.plus(program.counts(), lasted)
                    };
                    program.drop_readings();
                }
                BTreeMap::from([(Subject::Program, *done)])
            }
            Self::Regions { measured, others, .. } => {
                let mut progress = BTreeMap::new();
                for region in &sample.regions {
                    if measured.contains_key(&region.id) {
                        let done = Progress {
                            units: region.executions,
                            seconds: region.seconds,
                            counts: region.counts,
                        };
                        progress.insert(Subject::Region(region.id), done);
                    } else if !others.contains(&region.id) {
                        others.push(region.id);
                    }
                }
                progress
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{RegionKeeps, RegionSample};

    fn sample(at: u64, regions: &[(u64, f64, f64)]) -> Sample {
        let region = |&(id, executions, seconds): &(u64, f64, f64)| RegionSample {
            id: RegionId(id),
            executions,
            seconds,
            counts: None,
            keeps: RegionKeeps::default(),
        };
        Sample {
            at: Duration::from_secs(at),
            regions: regions.iter().map(region).collect(),
            ..Sample::default()
        }
    }

    #[test]
    fn regions_that_repeat_and_are_long_enough_are_measured_and_others_run_as_the_longest() {
        let first = sample(1, &[(1, 10.0, 5.0)]);
        let last = sample(
            3,
            &[
                (1, 20.0, 6.0),
                (2, 4.0, 0.5),
                (3, 1.0, 0.3),
                (4, 1e5, 0.2),
                (5, 4.0, 0.001),
            ],
        );
        let mut subjects = Subjects::regions(&first, &last).unwrap();
        let region = |id| Subject::Region(RegionId(id));
        assert_eq!(
            subjects.measured(),
            [
                (region(1), Duration::from_millis(200)),
                (region(2), Duration::from_millis(500))
            ]
        );
        assert_eq!(
            (subjects.leader(), subjects.others()),
            (region(1), &[3, 4, 5].map(RegionId)[..])
        );
        let late = sample(4, &[(1, 21.0, 6.1), (6, 1.0, 0.1)]);
        let mut program = ObservedProgram::new(
            crate::Times::default(),
            crate::MetricRequest::Auto,
            crate::Skip::default(),
        );
        assert_eq!(
            subjects.progress(&late, &mut program)[&region(1)].units.to_bits(),
            21f64.to_bits()
        );
        assert_eq!(subjects.placed().last(), Some(&(RegionId(6), region(1))));
    }

    #[test]
    fn a_region_that_has_ended_too_few_times_may_come() {
        let first = sample(0, &[]);
        assert!(Subjects::may_come(&first, &sample(2, &[(1, 2.0, 1.9)])));
        assert!(!Subjects::may_come(&first, &sample(2, &[])));
        assert!(
            !Subjects::may_come(&first, &sample(2, &[(1, 1e5, 0.2)])),
            "it is too short"
        );
    }

    #[test]
    fn a_region_of_the_programs_start_does_not_come_again() {
        let begun = sample(1, &[(1, 1.0, 0.5)]);
        assert!(!Subjects::may_come(&begun, &sample(2, &[(1, 1.0, 0.5)])));
    }

    #[test]
    fn a_program_without_regions_that_repeat_has_none_to_measure() {
        assert!(Subjects::regions(&sample(0, &[]), &sample(2, &[(1, 1.0, 1.9)])).is_none());
        assert!(Subjects::regions(&sample(0, &[]), &sample(2, &[])).is_none());
    }
}
