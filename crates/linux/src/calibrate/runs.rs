//! One figure from many short runs: the minimum, because noise only adds time (`pinfold_core::measurement`).

use pinfold_core::measurement::Measured;
use std::time::{Duration, Instant};

/// The runs of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Runs of a figure.
    pub runs: usize,
    /// The time limit of one figure. It shortens the series, to no fewer than three runs.
    pub longest: Duration,
}

impl Effort {
    /// Repeats `run`, which returns the seconds of its measured part.
    pub(super) fn least(self, mut run: impl FnMut() -> f64) -> Measured {
        let begin = Instant::now();
        let mut times = vec![];
        while times.len() < 3 || (times.len() < self.runs && begin.elapsed() < self.longest) {
            times.push(run());
        }
        Measured::least(&times).expect("there are at least three")
    }
}

/// The seconds that `work` takes.
pub(super) fn seconds(work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_at_least_three_runs_after_the_time_limit() {
        let effort = Effort {
            runs: 100,
            longest: Duration::ZERO,
        };
        assert_eq!(effort.least(|| 1.0).runs, 3);
    }
}
