//! What the next run of a program does.
//!
//! A run in an area is unpinned if it takes much longer than the incumbent's: the area is slow, or the work is another
//! one, for which the area was not measured.

use super::Candidate;
use super::area::Area;
use super::history::{BUDGET, History};
use super::work::{BASELINE, Challenger, Due, Work};
use std::time::Duration;

/// The wall time of the shortest runs that are placed: below it the start of processes decides, and pinfold's own.
pub const SHORTEST: Duration = Duration::from_millis(50);

/// A run in an area that is tried is unpinned after this multiple of the incumbent's time; one in an area that is kept
/// after the second. Times that scatter more allow more: this many standard deviations, and at most a multiple.
const STOP_TRIAL: f64 = 1.25;
const STOP_KEPT: f64 = 2.0;
const STOP_DEVIATIONS: f64 = 3.0;
const STOP_MOST: f64 = 3.0;

/// A placement of whole runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The area.
    pub area: Area,
    /// A run that takes longer is unpinned after this time.
    pub stop_after: Duration,
    /// Why the area is kept; `None` for an area that is tried.
    pub gained: Option<Gained>,
}

/// The area that is kept, compared with the unpinned program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gained {
    /// How many times as fast it is.
    pub times: f64,
    /// The standard error of that.
    pub error: f64,
    /// The number of turns.
    pub turns: usize,
    /// The expected runs per second.
    pub rate: f64,
}

/// What the next run does, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Its placement; `None` for an unpinned run.
    pub place: Option<Place>,
    /// Why, in words: one clause or several.
    pub why: String,
}

impl History {
    /// What the next run does, on a machine with these areas.
    pub fn plan(&self, candidates: &[Candidate]) -> Plan {
        let unpinned = |why: String| Plan { place: None, why };
        if self.was_searched() {
            return unpinned("the program is measured and placed while it runs".to_owned());
        }
        let Some(work) = self.expected_work() else {
            return unpinned("this is the first run".to_owned());
        };
        if self.is_varied() {
            return unpinned(
                "nothing is tried, because the CPU time differs from run to run: each run does another work".to_owned(),
            );
        }
        let (Some(expected), Some(baseline)) = (work.expected(), work.times(None)) else {
            return unpinned("unpinned runs are measured first".to_owned());
        };
        if baseline.expected() < SHORTEST.as_secs_f64() {
            return unpinned(format!("runs below {} ms are not placed", SHORTEST.as_millis()));
        }
        if work.baseline() < BASELINE {
            return unpinned(format!(
                "{BASELINE} unpinned runs are measured first, and there are {}",
                work.baseline()
            ));
        }
        let due = work.due(candidates, self.unknown());
        if let Due::Challenger(area, rate) = due {
            // A run that takes too long is unpinned. What it has done until then is less than a whole run.
            let loss = (expected / rate - expected).clamp(0.0, stop(STOP_TRIAL, work) * expected);
            if loss <= self.left() {
                return Self::trial(work, area, expected);
            }
            let missing = (loss - self.left()) / (BUDGET * expected);
            let why = format!(
                "{} waits for about {:.0} more runs: trials may cost 1 % of the time of all runs",
                name_of_trial(area),
                missing.ceil().max(1.0)
            );
            return self.kept(work, &why);
        }
        let why = match due {
            Due::Turn(area) => format!("{} is compared with it in turns", name(area)),
            _ => String::new(),
        };
        self.kept(work, &why)
    }

    fn trial(work: &Work, area: Option<Area>, expected: f64) -> Plan {
        let turns = work.challenger(area).map_or(0, Challenger::turns);
        let against = name(work.incumbent());
        let why = match area {
            Some(area) => format!("{area} is tried in turns with {against}; complete turns so far: {turns}"),
            None => format!("{against} is compared with the unpinned program again"),
        };
        let place = area.map(|area| Place {
            area,
            stop_after: Duration::from_secs_f64(stop(STOP_TRIAL, work) * expected),
            gained: None,
        });
        Plan { place, why }
    }

    /// The fastest placement so far; `more` says what is planned besides.
    fn kept(&self, work: &Work, more: &str) -> Plan {
        let more = if more.is_empty() {
            String::new()
        } else {
            format!("; {more}")
        };
        let Some(area) = work.incumbent() else {
            let why = match work.placements().count() {
                0 | 1 if more.is_empty() => {
                    format!(
                        "no area of this machine holds the {:.1} CPUs that it keeps busy",
                        work.width()
                    )
                }
                0 | 1 => "nothing was tried yet".to_owned(),
                _ => "nothing was faster than unpinned so far".to_owned(),
            };
            return Plan {
                place: None,
                why: why + &more,
            };
        };
        let (times, error) = work.confirmed().gain.times();
        let turns = work.confirmed().turns;
        let slowest = self.slowest_in(area);
        Plan {
            place: Some(Place {
                area,
                stop_after: Duration::from_secs_f64(stop(STOP_KEPT, work) * slowest),
                gained: Some(Gained {
                    times,
                    error,
                    turns,
                    rate: work.expected().map_or(0.0, f64::recip),
                }),
            }),
            why: format!("in {area} it is {times:.3} ± {error:.3} times as fast as unpinned, in {turns} turns{more}"),
        }
    }
}

/// The multiple of the expected time after which a run is unpinned.
fn stop(usual: f64, work: &Work) -> f64 {
    let noise = work.noise().map_or(0.0, |noise| (STOP_DEVIATIONS * noise).exp());
    noise.clamp(usual, STOP_MOST)
}

/// The name of a placement.
fn name(area: Option<Area>) -> String {
    area.map_or_else(|| "the unpinned program".to_owned(), |area| area.to_string())
}

fn name_of_trial(area: Option<Area>) -> String {
    match area {
        Some(area) => format!("a trial of {area}"),
        None => "the comparison with the unpinned program".to_owned(),
    }
}
