//! The clock of a package's cores by the number of active ones.
//!
//! A processor raises the clock of its cores while few of them are active. Vendors list the highest clocks in bins, and
//! a model has the bins of its processor as steps, in the order of their cores:
//!
//! ```toml
//! turbo = { cores_ghz = [[2, 3.7], [4, 3.5], [16, 3.3]], source = "the processor's specification update" }
//! ```
//!
//! Up to two active cores of a package run at 3.7 GHz, three and four at 3.5, more at 3.3.

use super::{Count, Frequency, Quantity, RawValue};
use serde::Serialize;

/// The clock of the cores of a package while at most this number of them is active.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TurboStep {
    /// Active cores.
    pub cores: u32,
    /// Their clock.
    #[serde(rename = "hertz")]
    pub clock: Frequency,
}

/// The clocks of a package's cores, those of few active cores first.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Turbo(Vec<TurboStep>);

impl Turbo {
    /// The steps, of which there is at least one.
    pub fn steps(&self) -> &[TurboStep] {
        &self.0
    }

    /// The clock of the cores of a package when `active` of them are active. The last step holds for any larger number.
    pub fn clock(&self, active: usize) -> Frequency {
        let step = self.0.iter().find(|step| active <= step.cores as usize);
        step.unwrap_or(&self.0[self.0.len() - 1]).clock
    }

    /// Why these cannot be the clocks of packages of `cores` cores with the clock `base`.
    pub(super) fn fault(&self, cores: u32, base: Frequency) -> Option<String> {
        let ghz = |clock: Frequency| clock.0 / 1e9;
        for pair in self.0.windows(2) {
            let [first, second] = [pair[0], pair[1]];
            if second.cores <= first.cores {
                return Some(format!(
                    "the step of {} cores follows the one of {}: order the steps by ascending cores, each number once",
                    second.cores, first.cores
                ));
            }
            if second.clock >= first.clock {
                return Some(format!(
                    "{} GHz with {} active cores is not below the {} GHz with {}: give descending clocks, and one step \
                     for all numbers of cores with the same clock",
                    ghz(second.clock),
                    second.cores,
                    ghz(first.clock),
                    first.cores
                ));
            }
        }
        let last = self.0[self.0.len() - 1];
        if last.cores != cores {
            return Some(format!(
                "the last step is of {} active cores, and a package has {cores}: end with the clock of all {cores}",
                last.cores
            ));
        }
        (last.clock < base).then(|| {
            format!(
                "{} GHz with all cores active is below the {} GHz of core.frequency: give clocks that are not below it",
                ghz(last.clock),
                ghz(base)
            )
        })
    }
}

impl Quantity for Turbo {
    const UNITS: &'static [&'static str] = &["cores_ghz"];

    fn from_raw(_unit: &str, raw: RawValue) -> Result<Self, String> {
        match raw {
            RawValue::Pairs(pairs) if !pairs.is_empty() => {
                pairs.into_iter().map(step).collect::<Result<_, _>>().map(Self)
            }
            _ => Err("give pairs of active cores and GHz, such as [[2, 3.7], [16, 3.3]]".to_owned()),
        }
    }
}

fn step([cores, ghz]: [f64; 2]) -> Result<TurboStep, String> {
    Ok(TurboStep {
        cores: Count::from_raw("count", RawValue::Number(cores))?.0,
        clock: Frequency::from_raw("ghz", RawValue::Number(ghz))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turbo(pairs: &[[f64; 2]]) -> Turbo {
        Turbo::from_raw("cores_ghz", RawValue::Pairs(pairs.to_vec())).unwrap()
    }

    #[test]
    fn a_step_holds_up_to_its_cores() {
        let turbo = turbo(&[[2.0, 3.7], [4.0, 3.5], [16.0, 3.3]]);
        let clocks = [0, 1, 2, 3, 4, 5, 16].map(|active| turbo.clock(active));
        assert_eq!(clocks, [3.7e9, 3.7e9, 3.7e9, 3.5e9, 3.5e9, 3.3e9, 3.3e9].map(Frequency));
    }

    #[test]
    fn steps_that_are_not_clocks_of_the_package_are_refused_with_the_remedy() {
        let base = Frequency(2.6e9);
        let fault = |pairs: &[[f64; 2]]| turbo(pairs).fault(16, base);
        assert_eq!(fault(&[[2.0, 3.7], [16.0, 3.3]]), None);
        assert_eq!(fault(&[[16.0, 2.6]]), None);
        let refused = [
            (vec![[4.0, 3.7], [2.0, 3.5], [16.0, 3.3]], "ascending cores"),
            (vec![[2.0, 3.3], [16.0, 3.7]], "descending clocks"),
            (vec![[2.0, 3.3], [16.0, 3.3]], "one step for all numbers of cores"),
            (vec![[2.0, 3.7], [12.0, 3.3]], "end with the clock of all 16"),
            (vec![[2.0, 3.7], [18.0, 3.3]], "end with the clock of all 16"),
            (vec![[2.0, 3.7], [16.0, 2.5]], "below the 2.6 GHz of core.frequency"),
        ];
        for (pairs, remedy) in refused {
            let why = fault(&pairs).unwrap();
            assert!(why.contains(remedy), "{why}");
        }
    }
}
