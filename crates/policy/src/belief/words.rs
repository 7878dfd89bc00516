//! A belief in words: its origin, the expectations before and after each trial, and the reason for the next trial.

use super::normal::chance_below;
use super::posterior::{Believed, Lesson};
use super::prior::{Belief, Prior};
use super::worth::{Next, Worth};
use pinfold_core::{BelievedTrial, ExpectedTime, Tried, WITHIN_95};
use std::fmt;

/// The number of configurations that the words of a belief name.
const NAMED: usize = 5;

impl Believed {
    /// The expected time over the time in the baseline, or in the other configuration.
    pub fn time(&self) -> f64 {
        self.mean.exp()
    }

    /// The interval that has this time with a probability of 95 %.
    pub fn interval(&self) -> (f64, f64) {
        let width = WITHIN_95 * self.variance.sqrt();
        ((self.mean - width).exp(), (self.mean + width).exp())
    }

    /// The chance that it is below one.
    pub fn chance_of_faster(&self) -> f64 {
        let deviation = self.variance.sqrt();
        if deviation > 0.0 {
            chance_below(-self.mean / deviation)
        } else {
            f64::from(u8::from(self.mean < 0.0))
        }
    }

    /// The same for a finding.
    pub fn expected(&self) -> ExpectedTime {
        let (low, high) = self.interval();
        ExpectedTime {
            time: self.time(),
            low,
            high,
            faster: self.chance_of_faster(),
        }
    }
}

/// `0.61 of the time (95 %: 0.30 to 1.22)`.
impl fmt::Display for Believed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expected().fmt(f)
    }
}

impl Lesson {
    /// The expectation before the trial, its result, and the expectation after it. `tried` is what the trial compared.
    pub fn finding(&self, tried: Tried) -> BelievedTrial {
        let measured = self.trial.log.exp();
        BelievedTrial {
            tried,
            before: self.before.expected(),
            measured,
            error: self.trial.variance.sqrt() * measured,
            after: self.after.expected(),
        }
    }
}

impl Next {
    /// The reason for the next trial, or for none. `prior` has the configurations.
    pub fn in_words(&self, prior: &Prior) -> String {
        let point = |of: usize| &prior.points()[of];
        match *self {
            Self::Try(of, worth) => format!("Next is {}: it {worth}.", point(of)),
            Self::Wait { of, worth, lacks } => format!(
                "Next is {}: it {worth}. The trial waits, because it would exceed what trials may lose now by {lacks:.2} s.",
                point(of)
            ),
            Self::Enough(Some((of, worth))) => format!("No trial is worth its cost. The one of {} {worth}.", point(of)),
            Self::Enough(None) => "No further configuration can be tried.".to_owned(),
        }
    }
}

/// `is expected to save 1.20 s, and to lose 0.10 s in a trial of 0.35 s`.
impl fmt::Display for Worth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "is expected to save {:.2} s, and to lose {:.2} s in a trial of {:.2} s",
            self.saves, self.loses, self.lasts
        )
    }
}

/// A text of several lines.
impl fmt::Display for Belief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "A belief about configurations, learned from {}.", self.origin)?;
        writeln!(
            f,
            "It lists {} configurations. For each it has the expected time over the time in the baseline, and its uncertainty. \
             Each trial of a program changes what is expected of all configurations.",
            self.points.len()
        )?;
        let prior = self.over(
            self.points.clone(),
            self.origin.machines.first().map_or("", String::as_str),
        );
        let believed = |of: usize| Believed {
            mean: prior.mean()[of],
            variance: prior.covariance(of, of),
        };
        let mut order: Vec<usize> = (0..self.points.len()).collect();
        order.sort_by(|&one, &other| prior.mean()[one].total_cmp(&prior.mean()[other]));
        writeln!(f, "\nBefore any trial these are expected to be the fastest:")?;
        for of in order.into_iter().take(NAMED) {
            writeln!(f, "  {}: {}", self.points[of], believed(of))?;
        }
        writeln!(
            f,
            "\nOther configurations are expected to be like the listed ones that are most similar. On a machine that is not among \
             {}, each time has a further standard deviation of {:.0} %.",
            self.origin.machines.join(", "),
            100.0 * self.doubt.sqrt()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{COST, account, belief, first_is_baseline, trial, view};
    use super::super::worth::{Account, next};
    use super::*;
    use pinfold_core::RegionId;

    #[test]
    fn a_trial_is_a_finding_with_what_was_believed_before_and_after() {
        let mut posterior = first_is_baseline(&belief());
        let lesson = posterior.learn(trial(1, -0.7)).unwrap();
        let finding = lesson.finding(Tried::Region {
            region: RegionId(1),
            configuration: "compact".to_owned(),
        });
        let text = finding.to_string();
        for part in [
            "it was expected to take 0.61 of the time (95 %: 0.",
            "and to be faster with a chance of 8",
            "The trial measured 0.50 ± 0.01. Now it is expected to take 0.50 of the time (95 %: 0.49 to 0.51).",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(lesson.after.variance < lesson.before.variance);
        let BelievedTrial { before, after, .. } = finding;
        assert!(
            before.low < after.low && after.high < before.high,
            "{before:?} {after:?}"
        );
        assert!(before.faster < after.faster, "{before:?} {after:?}");
    }

    #[test]
    fn a_decision_is_told_with_what_it_is_expected_to_save_and_to_lose() {
        let posterior = first_is_baseline(&belief());
        let told = |account: Account| next(&[view(&posterior)], |_| Some(COST), account).in_words(posterior.prior());
        let text = told(account(100.0));
        assert!(text.starts_with("Next is threads on 50 % of the cores"), "{text}");
        assert!(text.contains("s in a trial of 0.35 s"), "{text}");
        assert!(
            told(Account {
                may_lose: -100.0,
                ..account(100.0)
            })
            .contains("The trial waits")
        );
        assert!(told(account(1e-3)).starts_with("No trial is worth its cost. The one of threads on 50 %"));
        let none = next(&[view(&posterior)], |_| None, account(1.0)).in_words(posterior.prior());
        assert_eq!(none, "No further configuration can be tried.");
    }

    #[test]
    fn a_belief_is_printed_with_its_origin_and_what_it_expects() {
        let text = belief().to_string();
        for part in [
            "learned from 6 rows of 3 programs on known, which are simulated (learner: by hand)",
            "It lists 2 configurations",
            "  threads on 50 % of the cores and 50 % of the nodes, compact, with pages locality and prefetchers 0000: 0.61 of the \
             time (95 %: ",
            "On a machine that is not among known, each time has a further standard deviation of 22 %.",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn what_is_certain_is_faster_or_not() {
        let certain = |mean| Believed { mean, variance: 0.0 };
        assert_eq!(certain(-0.1).chance_of_faster().to_bits(), 1f64.to_bits());
        assert_eq!(certain(0.1).chance_of_faster().to_bits(), 0f64.to_bits());
    }
}
