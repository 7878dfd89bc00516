//! One figure from many short runs: the minimum, since noise only adds time (`pinfold_core::measurement`).

use pinfold_core::measurement::Measured;
use std::time::{Duration, Instant};

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Runs of a figure.
    pub runs: usize,
    /// How long one figure may take; there are fewer runs then, at least three.
    pub longest: Duration,
}

impl Effort {
    /// Does `run` again and again, which returns the seconds that the measured part of it took.
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
    fn a_figure_has_at_least_three_pieces_however_long_they_take() {
        let effort = Effort {
            runs: 100,
            longest: Duration::ZERO,
        };
        assert_eq!(effort.least(|| 1.0).runs, 3);
    }
}
