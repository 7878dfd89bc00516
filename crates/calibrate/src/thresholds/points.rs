//! Points of the curves from measured runs.

use super::curves::{Copied, Figure, SharingPoint};
use super::formula::Formula;
use pinfold_core::measurement::{CopiedRuns, Median, SharedRuns, TimedRun};

/// A point of the first curve. `None` if no run was counted.
pub fn shared(instructions: u32, runs: &SharedRuns, formula: &Formula) -> Option<SharingPoint> {
    let rate = |(_, apart): &(TimedRun, TimedRun)| Some(formula.total(apart)? / apart.counts.len() as f64);
    let gains = runs
        .rounds
        .iter()
        .map(|(together, apart)| apart.seconds / together.seconds - 1.0);
    Some(SharingPoint {
        instructions,
        events_per_cycle: Median::of(runs.rounds.iter().filter_map(rate))?.into(),
        gain: Median::of(gains)?.into(),
    })
}

/// One locality of a point of the second curve. `None` if no run was counted.
pub fn copied(copied: &CopiedRuns, formula: &Formula) -> Option<Copied> {
    let bandwidth = copied.runs.iter().map(|run| copied.bytes as f64 / run.seconds);
    let misses = copied.runs.iter().filter_map(|run| formula.total(run));
    Some(Copied {
        bytes_per_second: Figure::from(Median::of(bandwidth)?),
        misses_per_cycle: Figure::from(Median::of(misses)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seconds: f64, counts: &[&[Option<f64>]]) -> TimedRun {
        TimedRun {
            seconds,
            counts: counts.iter().map(|counts| counts.to_vec()).collect(),
        }
    }

    #[test]
    fn a_point_of_the_first_curve_has_a_threads_rate_apart_and_the_gain_of_each_round() {
        let formula = Formula::new("CYCLES", &["A"], &[]);
        let together = |seconds| run(seconds, &[&[Some(1.0), Some(1.0)], &[Some(1.0), Some(1.0)]]);
        let apart = |seconds, events| run(seconds, &[&[Some(100.0), Some(events)], &[Some(100.0), Some(10.0)]]);
        let runs = SharedRuns {
            accesses: 1,
            rounds: vec![
                (together(1.0), apart(1.25, 20.0)),
                (together(2.0), apart(3.0, 30.0)),
                (together(1.0), apart(1.0, 40.0)),
            ],
        };
        let point = shared(100, &runs, &formula).unwrap();
        assert!((point.events_per_cycle.value - 0.2).abs() < 1e-12, "{point:?}");
        assert!((point.gain.value - 0.25).abs() < 1e-12, "{point:?}");
        assert!(point.gain.quartiles.is_some());
        let uncounted = SharedRuns {
            accesses: 1,
            rounds: vec![(together(1.0), run(1.0, &[&[Some(1.0), None], &[Some(1.0), Some(1.0)]]))],
        };
        assert_eq!(shared(100, &uncounted, &formula), None);
    }

    #[test]
    fn a_point_of_the_second_curve_has_the_bandwidth_and_the_rates_of_all_tasks() {
        let counts: &[&[Option<f64>]] = &[
            &[Some(10.0), Some(1.0), Some(1.0), Some(1.0)],
            &[Some(10.0), Some(2.0), Some(1.0), Some(1.0)],
        ];
        let runs = CopiedRuns {
            bytes: 1000,
            runs: vec![run(2.0, counts)],
            elsewhere: None,
        };
        let copied = copied(&runs, &Formula::new("CYCLES", &["A", "B"], &["C"])).unwrap();
        assert!((copied.bytes_per_second.value - 500.0).abs() < 1e-12);
        assert!((copied.misses_per_cycle.value - 0.3).abs() < 1e-12);
    }
}
