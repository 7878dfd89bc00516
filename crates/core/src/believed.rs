//! What was expected of a trial, what it measured, and what is expected after it.

use crate::RegionId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The number of standard deviations on each side of the mean within which 95 % of normal numbers are.
pub const WITHIN_95: f64 = 1.96;

/// A trial of a configuration that a belief has an expectation of. All times are over the time of the other
/// configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BelievedTrial {
    /// What was tried.
    #[serde(flatten)]
    pub tried: Tried,
    /// What was expected before the trial.
    pub before: ExpectedTime,
    /// What the trial measured.
    pub measured: f64,
    /// Its standard error.
    pub error: f64,
    /// What is expected after the trial.
    pub after: ExpectedTime,
}

/// A configuration that was tried, and the other one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Tried {
    /// A candidate.
    Candidate {
        /// Position in the list of candidates.
        candidate: usize,
        /// Position of the other one; `None` for the unpinned program.
        with: Option<usize>,
    },
    /// A parallel region, compared with its time in the unpinned program.
    Region {
        /// Which region.
        region: RegionId,
        /// Its configuration, in words.
        configuration: String,
    },
}

/// An expected time over another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpectedTime {
    /// The most probable time.
    pub time: f64,
    /// The lower end of the interval that has the time with a probability of 95 %.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The chance that the time is below one.
    pub faster: f64,
}

/// `0.61 of the time (95 %: 0.30 to 1.22)`.
impl fmt::Display for ExpectedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, low, high, .. } = self;
        write!(f, "{time:.2} of the time (95 %: {low:.2} to {high:.2})")
    }
}

/// Whole sentences. Candidates are counted from one, as everywhere for people.
impl fmt::Display for BelievedTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tried,
            before,
            measured,
            error,
            after,
        } = self;
        match tried {
            Tried::Candidate { candidate, with } => {
                let candidate = candidate.saturating_add(1);
                write!(f, "Candidate {candidate} was expected to take {before} ")?;
                match with {
                    None => write!(f, "unpinned")?,
                    Some(with) => write!(f, "in candidate {}", with.saturating_add(1))?,
                }
                write!(f, ", and took {measured:.2} of it. Now {after} are expected.")
            }
            Tried::Region { region, configuration } => write!(
                f,
                "Region {region}: {configuration}: it was expected to take {before} of the unpinned program, and to be faster \
                 with a chance of {:.0} %. The trial measured {measured:.2} ± {:.2}. Now it is expected to take {after}.",
                100.0 * before.faster,
                WITHIN_95 * error
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json, to_value};

    fn expected(time: f64, factor: f64, faster: f64) -> ExpectedTime {
        ExpectedTime {
            time,
            low: time / factor,
            high: time * factor,
            faster,
        }
    }

    fn trial(tried: Tried) -> BelievedTrial {
        BelievedTrial {
            tried,
            before: expected(0.8, 1.6, 0.85),
            measured: 0.71,
            error: 0.01,
            after: expected(0.71, 1.02, 1.0),
        }
    }

    #[test]
    fn a_trial_of_a_candidate_is_a_sentence_in_which_candidates_are_counted_from_one() {
        let unpinned = trial(Tried::Candidate {
            candidate: 3,
            with: None,
        });
        assert_eq!(
            unpinned.to_string(),
            "Candidate 4 was expected to take 0.80 of the time (95 %: 0.50 to 1.28) unpinned, and took 0.71 of it. Now 0.71 of \
             the time (95 %: 0.70 to 0.72) are expected."
        );
        let other = trial(Tried::Candidate {
            candidate: 3,
            with: Some(2),
        });
        assert!(other.to_string().contains(") in candidate 3, and took 0.71 of it."));
    }

    #[test]
    fn a_trial_of_a_region_is_a_sentence_with_its_configuration_and_the_chance_that_it_is_faster() {
        let region = trial(Tried::Region {
            region: RegionId(0x40),
            configuration: "threads on 50 % of the cores".to_owned(),
        });
        assert_eq!(
            region.to_string(),
            "Region 0x40: threads on 50 % of the cores: it was expected to take 0.80 of the time (95 %: 0.50 to 1.28) of the \
             unpinned program, and to be faster with a chance of 85 %. The trial measured 0.71 ± 0.02. Now it is expected to take \
             0.71 of the time (95 %: 0.70 to 0.72)."
        );
    }

    #[test]
    fn a_trial_is_read_as_it_was_written() {
        let region = Tried::Region {
            region: RegionId(64),
            configuration: "compact".to_owned(),
        };
        let [unpinned, other] = [None, Some(0)].map(|with| Tried::Candidate { candidate: 1, with });
        for tried in [region, unpinned, other] {
            let trial = trial(tried);
            assert_eq!(from_value::<BelievedTrial>(to_value(&trial).unwrap()).unwrap(), trial);
        }
        let written = to_value(trial(Tried::Candidate {
            candidate: 1,
            with: None,
        }));
        let written = written.unwrap();
        assert_eq!((&written["candidate"], &written["with"]), (&json!(1), &json!(null)));
    }
}
