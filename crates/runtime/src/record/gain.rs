//! What a choice is worth, compared with the unpinned program.

use super::{Candidate, Comparison, Record, Search};
use pinfold_core::Pinning;
use std::fmt;

/// How many times as fast one placement is as another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// The ratio of the rates.
    pub ratio: f64,
    /// Its standard error; `None` if the standard error of one of the rates is unknown.
    pub error: Option<f64>,
}

impl Gain {
    /// That of `rate` over `baseline`, each a rate with its standard error; `None` for a baseline that is not positive.
    /// To first order the relative variance of a ratio is the sum of the relative variances (NIST/SEMATECH e-Handbook
    /// of Statistical Methods, 2.5.5.3).
    pub fn new(rate: (f64, Option<f64>), baseline: (f64, Option<f64>)) -> Option<Self> {
        if baseline.0 <= 0.0 || rate.0 < 0.0 {
            return None;
        }
        let ratio = rate.0 / baseline.0;
        let relative = |(rate, error): (f64, Option<f64>)| Some(error? / rate).filter(|share| share.is_finite());
        let error = relative(rate)
            .zip(relative(baseline))
            .map(|(one, other)| ratio * one.hypot(other));
        Some(Self { ratio, error })
    }
}

/// `1.34 ± 0.02 times`, with a third decimal if two would show the error as zero.
impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(error) = self.error else {
            return write!(f, "{:.2} times", self.ratio);
        };
        let decimals = if (0.0005..0.005).contains(&error) { 3 } else { 2 };
        write!(f, "{:.decimals$} ± {error:.decimals$} times", self.ratio)
    }
}

impl Record {
    /// The gain of the chosen placement over the unpinned program, by the first of these that exists: their last
    /// comparison in turns; the product of the comparisons that lead from the unpinned program to the chosen one; the
    /// two rates. `None` as for a search.
    pub fn gain_over_unpinned(&self) -> Option<Gain> {
        let chosen = self.search.chosen.as_ref()?.candidate;
        if self.search.candidates.get(chosen)?.not_pinned.is_some() {
            return None;
        }
        let in_turns = self.in_turns(chosen, true).or_else(|| self.in_turns(chosen, false));
        in_turns.or_else(|| self.search.gain_over_unpinned())
    }

    /// The placement that the policy kept from the start: its only candidate. `None` for a policy that chose, or could
    /// not.
    pub fn kept_from_start(&self) -> Option<&Candidate> {
        match &self.search.candidates[..] {
            [only] if only.pus.is_some() && self.program.ended_early.is_none() => Some(only),
            _ => None,
        }
    }

    /// The gain of a candidate over the unpinned program by comparisons in turns, the last ones. `direct`: by one
    /// alone. Relative variances of independent factors add up.
    fn in_turns(&self, candidate: usize, direct: bool) -> Option<Gain> {
        let last = self.earlier_searches.len();
        let unpinned = |place: usize| self.search.candidates.get(place).is_some_and(Candidate::is_left_alone);
        let mut gain = Gain {
            ratio: 1.0,
            error: Some(0.0),
        };
        let mut place = candidate;
        // No candidate comes twice in a row of comparisons.
        for _ in 0..self.search.candidates.len() {
            let of_place = |one: &&Comparison| {
                one.search == last && one.candidate == place && one.gain.is_some() && (!direct || unpinned(one.with))
            };
            let compared = self.by_policy.comparisons.iter().rev().find(of_place)?;
            let factor = 1.0 + compared.gain?;
            let relative = gain
                .error
                .zip(compared.error)
                .map(|(one, other)| (one / gain.ratio).hypot(other / factor));
            let ratio = gain.ratio * factor;
            gain = Gain {
                ratio,
                error: relative.map(|relative| relative * ratio),
            };
            place = compared.with;
            if unpinned(place) {
                return Some(gain);
            }
        }
        None
    }
}

impl Candidate {
    /// The PU of each rank, where threads were pinned when it was applied last.
    pub fn placed(&self) -> Option<&Pinning> {
        self.pus.as_ref().filter(|_| self.not_pinned.is_none())
    }

    /// Whether threads and pages stay as the operating system places them.
    pub fn is_left_alone(&self) -> bool {
        self.pus.is_none() && self.within.is_none() && self.pages.is_none() && self.regions.is_empty()
    }
}

/// Where threads and pages are: `0-7`, or `unpinned with pages interleave`.
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Pinning::text_of_place(
            self.pus.as_ref(),
            self.within.as_ref(),
            self.pages,
            self.regions.len(),
        ))
    }
}

impl Search {
    /// The gain of the chosen placement over the unpinned program. `None` if the program is left alone, or if this
    /// search did not measure the unpinned program.
    pub fn gain_over_unpinned(&self) -> Option<Gain> {
        let measured = |candidate: &Candidate| Some((candidate.rate?, candidate.error));
        let chosen = self.candidates.get(self.chosen.as_ref()?.candidate)?;
        if chosen.is_left_alone() || chosen.not_pinned.is_some() {
            return None;
        }
        Gain::new(measured(chosen)?, measured(self.unpinned()?)?)
    }

    /// The unpinned program among the candidates.
    pub fn unpinned(&self) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.is_left_alone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(rate: (f64, Option<f64>), baseline: (f64, Option<f64>)) -> String {
        Gain::new(rate, baseline).unwrap().to_string()
    }

    #[test]
    fn the_error_comes_from_both_rates() {
        // sqrt(0.03^2 + 0.04^2) = 0.05 of 1.5.
        let gain = Gain::new((150.0, Some(4.5)), (100.0, Some(4.0))).unwrap();
        assert!((gain.error.unwrap() - 0.075).abs() < 1e-12, "{gain:?}");
        assert_eq!(gain.to_string(), "1.50 ± 0.08 times");
    }

    #[test]
    fn an_unknown_error_is_not_made_up() {
        assert_eq!(text((134.0, Some(2.0)), (100.0, Some(1.0))), "1.34 ± 0.02 times");
        assert_eq!(text((134.0, Some(0.1)), (100.0, Some(0.1))), "1.340 ± 0.002 times");
        assert_eq!(text((134.0, None), (100.0, Some(0.1))), "1.34 times");
    }

    #[test]
    fn what_ran_in_turns_is_compared_by_its_turns() {
        let candidate = |pus: Option<u32>, rate| crate::Candidate {
            pus: pus.and_then(|pu| pinfold_core::Pinning::new(vec![pinfold_core::PuId(pu)])),
            within: None,
            rate: Some(rate),
            spread: None,
            error: None,
            pages: None,
            regions: vec![],
            measured: None,
            dropped: false,
            not_pinned: None,
            metrics: vec![],
        };
        let mut record = Record {
            search: Search {
                candidates: vec![candidate(None, 100.0), candidate(Some(1), 120.0)],
                chosen: Some(crate::Chosen {
                    candidate: 1,
                    pus: pinfold_core::Pinning::new(vec![pinfold_core::PuId(1)]),
                    within: None,
                    rate: Some(120.0),
                    spread: None,
                    gain_over_first: None,
                    gain_over_worst: None,
                    at: 1.0,
                    code: pinfold_core::ChoiceCode::FasterInTurns,
                    why: None,
                }),
                ..Search::default()
            },
            ..Record::default()
        };
        assert_eq!(record.gain_over_unpinned().unwrap().to_string(), "1.20 times");
        record.by_policy.comparisons.push(crate::Comparison {
            at: 1.0,
            search: 0,
            candidate: 1,
            with: 0,
            gain: Some(0.3),
            error: Some(0.02),
            turns: 3,
            code: pinfold_core::ComparedCode::Faster,
        });
        assert_eq!(record.gain_over_unpinned().unwrap().to_string(), "1.30 ± 0.02 times");
        // Another one was faster than that: 1.3 * 1.5, with relative errors 0.0154 and 0.02.
        record.search.candidates.push(candidate(Some(2), 190.0));
        record.search.chosen.as_mut().unwrap().candidate = 2;
        let with_first = record.by_policy.comparisons[0].clone();
        record.by_policy.comparisons.push(crate::Comparison {
            candidate: 2,
            with: 1,
            gain: Some(0.5),
            error: Some(0.03),
            ..with_first
        });
        assert_eq!(record.gain_over_unpinned().unwrap().to_string(), "1.95 ± 0.05 times");
    }

    #[test]
    fn there_is_no_gain_over_nothing() {
        assert_eq!(Gain::new((1.0, None), (0.0, None)), None);
    }
}
