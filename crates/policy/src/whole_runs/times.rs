//! What the runs of one program took in one placement.

use serde::{Deserialize, Serialize};

/// The share of the newest run in the expected times, after as many runs as its inverse: programs, inputs and machines
/// change slowly.
pub(super) const NEWEST: f64 = 0.125;

/// Wall times and CPU times. Times are in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Times {
    runs: u32,
    wall: f64,
    squares: f64,
    /// The natural logarithms of the expected times.
    recent_wall: f64,
    recent_cpu: f64,
}

impl Times {
    pub(super) fn add(&mut self, wall: f64, cpu: f64) {
        self.runs = self.runs.saturating_add(1);
        let share = NEWEST.max(1.0 / f64::from(self.runs));
        let before = self.wall / f64::from(self.runs.saturating_sub(1).max(1));
        self.wall += wall;
        let after = self.wall / f64::from(self.runs);
        if self.runs > 1 {
            self.squares += (wall - before) * (wall - after);
        }
        self.recent_wall += share * (wall.ln() - self.recent_wall);
        self.recent_cpu += share * (cpu.ln() - self.recent_cpu);
    }

    pub(super) fn runs(self) -> u32 {
        self.runs
    }

    /// The mean wall time of all runs.
    pub(super) fn mean(self) -> f64 {
        self.wall / f64::from(self.runs.max(1))
    }

    /// Its sample standard deviation; `None` for fewer than two runs.
    pub(super) fn deviation(self) -> Option<f64> {
        (self.runs > 1).then(|| (self.squares / f64::from(self.runs - 1)).max(0.0).sqrt())
    }

    /// The wall time of the next run.
    pub(super) fn expected(self) -> f64 {
        self.recent_wall.exp()
    }

    /// The CPU time of the next run, as logarithm.
    pub(super) fn log_cpu(self) -> f64 {
        self.recent_cpu
    }

    /// The mean number of busy PUs.
    pub(super) fn width(self) -> f64 {
        (self.recent_cpu - self.recent_wall).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_has_all_runs_and_the_expected_time_follows_the_newest() {
        let mut times = Times::default();
        assert_eq!(times.deviation(), None);
        for _ in 0..100 {
            times.add(1.0, 2.0);
        }
        for _ in 0..100 {
            times.add(3.0, 6.0);
        }
        assert!((times.mean() - 2.0).abs() < 1e-9);
        assert!(
            times
                .deviation()
                .is_some_and(|deviation| (deviation - 1.0025).abs() < 1e-3)
        );
        assert!((times.expected() - 3.0).abs() < 1e-4);
        assert!((times.width() - 2.0).abs() < 1e-9);
    }
}
