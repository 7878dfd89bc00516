//! The times of a search.

use std::time::Duration;

/// How long each step takes, after section 3 of autopin's paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The program's initialisation, during which nothing is compared: `i` in the paper.
    pub initialise: Duration,
    /// How long each candidate is measured, and the time from one rate line to the next: `t` in the paper.
    pub probe: Duration,
    /// How long threads and caches settle after each re-pinning: `w` in the paper.
    pub warm_up: Duration,
    /// The interval between two readings of the counts. Several readings give a rate its spread.
    pub interval: Duration,
}

/// Why times allow no search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimesError {
    /// The interval is zero.
    #[error("the interval between two readings is zero; give a longer one, such as 100ms")]
    NoInterval,
    /// A probe ends before it has a reading.
    #[error("a probe of {probe:?} ends before the first reading, after {interval:?}; probe longer or read more often")]
    ShortProbe {
        /// The probe.
        probe: Duration,
        /// The interval.
        interval: Duration,
    },
}

impl Times {
    /// The times that the user gives, with the paper's defaults for the others: `t` = 30 s, `w` = `t` / 2, `i` = `w`.
    pub fn new(probe: Option<Duration>, warm_up: Option<Duration>, initialise: Option<Duration>) -> Self {
        let probe = probe.unwrap_or(Duration::from_secs(30));
        let warm_up = warm_up.unwrap_or(probe / 2);
        Self {
            initialise: initialise.unwrap_or(warm_up),
            probe,
            warm_up,
            interval: Duration::from_millis(100),
        }
    }

    /// Whether a search is possible with them.
    pub fn check(&self) -> Result<(), TimesError> {
        if self.interval.is_zero() {
            return Err(TimesError::NoInterval);
        }
        if self.probe < self.interval {
            return Err(TimesError::ShortProbe {
                probe: self.probe,
                interval: self.interval,
            });
        }
        Ok(())
    }
}

impl Default for Times {
    fn default() -> Self {
        Self::new(None, None, None)
    }
}

/// Advice for a program that ended after `ran`, before all candidates were measured. A search of eight candidates takes
/// about 13 probes with their warm-ups.
pub(crate) fn remedy(ran: Duration) -> String {
    let fitting = Duration::from_millis(u64::try_from(ran.as_millis() / 20).unwrap_or(u64::MAX));
    let shorter = match fitting.as_millis() {
        0..50 => String::new(),
        milliseconds @ ..1000 => format!(", or measure for shorter times: -t {}ms", milliseconds / 50 * 50),
        milliseconds => format!(", or measure for shorter times: -t {}s", milliseconds / 1000),
    };
    format!("Run it for longer{shorter}.")
}

/// The time until the next reading, `reading` from now, if the window ends at `ends`. A rest that is too short for
/// another reading is added to the last one.
pub(crate) fn wait(now: Duration, ends: Duration, reading: Duration) -> Duration {
    let rest = ends.saturating_sub(now);
    if rest < reading * 3 / 2 { rest } else { reading }
}
