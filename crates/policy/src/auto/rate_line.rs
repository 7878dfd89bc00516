//! The line with the rate that is reported every 30 s after the choice.

use crate::program::meter::Measurement;
use pinfold_core::statistics::Reading;
use std::time::Duration;

/// The rates of the windows since the last line.
#[derive(Debug, Default)]
pub(super) struct RateLine {
    readings: Vec<Reading>,
    began: Duration,
}

impl RateLine {
    /// Drops the readings. The next line begins at `at`.
    pub(super) fn restart(&mut self, at: Duration) {
        self.readings.clear();
        self.began = at;
    }

    /// Adds the rate of a window.
    pub(super) fn add(&mut self, at: Duration, rate: f64) {
        self.readings.push(Reading {
            at: at.as_secs_f64(),
            rate,
        });
    }

    /// The mean rate over `interval`; `None` before that time is over.
    pub(super) fn take(&mut self, at: Duration, interval: Duration) -> Option<Measurement> {
        if at < self.began + interval {
            return None;
        }
        let readings = std::mem::take(&mut self.readings);
        let number = readings.len() as f64;
        let rate = (!readings.is_empty()).then(|| readings.iter().map(|one| one.rate).sum::<f64>() / number);
        self.began = at;
        Some(Measurement::from_readings(readings, rate))
    }
}
