//! The order of runs, and the number of runs of each variant.

/// The number of rounds. In a round each variant runs once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// Rounds before the measured ones.
    pub warm_up: usize,
    /// The minimum of measured rounds.
    pub least: usize,
    /// The maximum of measured rounds; `None` for no limit.
    pub most: Option<usize>,
    /// Between the minimum and the maximum, rounds continue until the total time of all runs reaches this, in seconds.
    pub time: f64,
}

/// The next run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The position of the variant.
    pub variant: usize,
    /// The number of the measured round, from 1; `None` in a warm-up round.
    pub round: Option<usize>,
}

/// The order of runs: all variants in turns, round by round.
#[derive(Clone, Debug)]
pub struct Turns {
    variants: usize,
    extent: Extent,
    /// The number of runs that have started.
    begun: usize,
}

impl Turns {
    /// The turns of this many variants.
    pub fn new(variants: usize, extent: Extent) -> Self {
        Self {
            variants,
            extent,
            begun: 0,
        }
    }

    /// Returns the next run; `None` after the last one. `spent` is the total time of all measured runs so far, in
    /// seconds.
    pub fn next(&mut self, spent: f64) -> Option<Turn> {
        let round = self.begun.checked_div(self.variants)?;
        let variant = self.begun % self.variants;
        let measured = round.checked_sub(self.extent.warm_up);
        if variant == 0 && measured.is_some_and(|measured| !self.goes_on(measured, spent)) {
            return None;
        }
        self.begun += 1;
        Some(Turn {
            variant,
            round: measured.map(|measured| measured + 1),
        })
    }

    /// Whether another round follows after this many measured rounds.
    fn goes_on(&self, measured: usize, spent: f64) -> bool {
        let Extent { least, most, time, .. } = self.extent;
        measured < least || (spent < time && most.is_none_or(|most| measured < most))
    }

    /// The expected number of all runs.
    pub fn foreseen(&self, spent: f64) -> usize {
        let Extent {
            warm_up,
            least,
            most,
            time,
        } = self.extent;
        let measured = (self.begun / self.variants.max(1)).saturating_sub(warm_up);
        let by_time = if measured > 0 && spent > 0.0 {
            let rounds = (time * measured as f64 / spent).ceil();
            // The conversion keeps within the range of the type.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
            let rounds = rounds as usize;
            rounds.min(most.unwrap_or(usize::MAX))
        } else {
            least
        };
        let rounds = warm_up.saturating_add(by_time.max(least).max(measured));
        rounds.saturating_mul(self.variants).max(self.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The variants in the order in which they run, if each run takes this time.
    fn order(variants: usize, extent: Extent, takes: f64) -> Vec<(usize, Option<usize>)> {
        let mut turns = Turns::new(variants, extent);
        let (mut order, mut spent) = (vec![], 0.0);
        while let Some(turn) = turns.next(spent) {
            order.push((turn.variant, turn.round));
            if turn.round.is_some() {
                spent += takes;
            }
        }
        order
    }

    #[test]
    fn variants_run_in_turns_after_the_warm_up() {
        let extent = Extent {
            warm_up: 1,
            least: 2,
            most: Some(2),
            time: 0.0,
        };
        let rounds = [None, Some(1), Some(2)];
        let expected: Vec<_> = rounds
            .iter()
            .flat_map(|&round| [(0, round), (1, round), (2, round)])
            .collect();
        assert_eq!(order(3, extent, 1.0), expected);
    }

    #[test]
    fn short_runs_go_on_until_the_time_is_reached_or_the_limit() {
        let extent = Extent {
            warm_up: 0,
            least: 2,
            most: None,
            time: 3.0,
        };
        assert_eq!(order(2, extent, 10.0).len(), 4);
        assert_eq!(order(2, extent, 0.25).len(), 12);
        let most = Some(4);
        assert_eq!(order(2, Extent { most, ..extent }, 0.25).len(), 8);
    }

    #[test]
    fn no_variants_have_no_turns() {
        let extent = Extent {
            warm_up: 0,
            least: 2,
            most: None,
            time: 3.0,
        };
        assert_eq!(order(0, extent, 1.0), []);
    }

    proptest! {
        #[test]
        fn each_variant_runs_equally_often_and_the_end_is_foreseen(
            variants in 1usize..6, warm_up in 0usize..3, least in 1usize..8, time in 0.0f64..5.0, takes in 0.1f64..3.0,
        ) {
            let extent = Extent { warm_up, least, most: None, time };
            let order = order(variants, extent, takes);
            for variant in 0..variants {
                let runs = order.iter().filter(|(of, round)| *of == variant && round.is_some()).count();
                prop_assert!(runs >= least);
                prop_assert_eq!(runs * variants, order.len() - warm_up * variants);
            }
            let mut turns = Turns::new(variants, extent);
            let mut spent = 0.0;
            while let Some(turn) = turns.next(spent) {
                prop_assert!(turns.foreseen(spent) >= turns.begun);
                spent += if turn.round.is_some() { takes } else { 0.0 };
            }
            prop_assert_eq!(turns.foreseen(spent), order.len());
        }
    }
}
