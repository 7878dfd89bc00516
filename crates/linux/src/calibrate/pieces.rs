//! One figure from many short measurements, on a machine that does other things as well.
//!
//! What disturbs a measurement (interrupts, other programs, a hypervisor that gives the processor to somebody else) makes
//! it longer and never shorter. So a time is the least of many pieces, each short enough that some of them are left in
//! peace, and the spread is told with it: how much longer the middle one of them was. Ratios and rates can be disturbed
//! either way; of them it is the middle one (`Middle`).

use std::time::{Duration, Instant};

/// A figure, and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The figure of the piece that was disturbed least.
    pub value: f64,
    /// By which share the middle piece's figure differs from it.
    pub spread: f64,
    /// How many pieces there were.
    pub pieces: usize,
}

impl Measured {
    /// Of the times of pieces: the least. `None` without any.
    pub fn least(times: &[f64]) -> Option<Self> {
        let mut times = times.to_vec();
        times.sort_unstable_by(f64::total_cmp);
        let (&least, middle) = (times.first()?, times[times.len() / 2]);
        Some(Self {
            value: least,
            spread: middle / least - 1.0,
            pieces: times.len(),
        })
    }

    /// The same figure in another unit.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            ..self
        }
    }

    /// Where this is the time of something that happens `amount` times: how much of it a second.
    pub fn rate(self, amount: f64) -> Self {
        Self {
            value: amount / self.value,
            ..self
        }
    }
}

/// The middle of figures that disturbance makes too large or too small, such as ratios and rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Middle {
    /// The median.
    pub value: f64,
    /// The quartiles: half of the figures are between them.
    pub quartiles: [f64; 2],
}

impl Middle {
    /// Of these figures; `None` without any.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_unstable_by(f64::total_cmp);
        let last = figures.len().checked_sub(1)?;
        // Between two figures where the place is between two.
        let at = |quarter: usize| {
            let (whole, rest) = (quarter * last / 4, (quarter * last % 4) as f64 / 4.0);
            let next = figures[(whole + 1).min(last)];
            figures[whole] + rest * (next - figures[whole])
        };
        Some(Self {
            value: at(2),
            quartiles: [at(1), at(3)],
        })
    }
}

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
    fn the_least_time_counts_and_the_middle_one_tells_the_spread() {
        let measured = Measured::least(&[12.0, 10.0, 50.0]).unwrap();
        assert_eq!((measured.value, measured.pieces), (10.0, 3));
        assert!((measured.spread - 0.2).abs() < 1e-12);
        assert_eq!(Measured::least(&[]), None);
    }

    #[test]
    fn the_middle_is_the_median_with_the_quartiles_around_it() {
        let middle = Middle::of([5.0, 1.0, 3.0, 2.0, 4.0]).unwrap();
        assert_eq!((middle.value, middle.quartiles), (3.0, [2.0, 4.0]));
        let middle = Middle::of([1.0, 2.0]).unwrap();
        assert_eq!((middle.value, middle.quartiles), (1.5, [1.25, 1.75]));
        let middle = Middle::of([7.0]).unwrap();
        assert_eq!((middle.value, middle.quartiles), (7.0, [7.0, 7.0]));
        assert_eq!(Middle::of([]), None);
    }

    #[test]
    fn a_figure_has_at_least_three_pieces_however_long_they_take() {
        let effort = Effort {
            pieces: 100,
            longest: Duration::ZERO,
        };
        assert_eq!(effort.least(|| 1.0).pieces, 3);
    }
}
