//! One figure from many short runs: the minimum, since noise only adds time (`pinfold_core::measurement`).

use pinfold_core::measurement::Measured;
use std::time::{Duration, Instant};

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Pieces of a figure.
    pub pieces: usize,
    /// How long one figure may take; there are fewer pieces then, at least three.
    pub longest: Duration,
}

impl Effort {
    /// Does `piece` again and again, which returns the seconds that the measured part of it took.
    pub(super) fn least(self, mut piece: impl FnMut() -> f64) -> Measured {
        let begin = Instant::now();
        let mut times = vec![];
        while times.len() < 3 || (times.len() < self.pieces && begin.elapsed() < self.longest) {
            times.push(piece());
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
            pieces: 100,
            longest: Duration::ZERO,
        };
        assert_eq!(effort.least(|| 1.0).pieces, 3);
    }
}
