//! Thresholds from curves, simulated or measured, and the output of both. Pure.

use super::chart::{Chart, Line};
use super::crossing::{Crossing, GAIN, by_rate, crossing};
use super::origin::Origin;
use pinfold_core::measurement::Median;
use pinfold_policy::sam::Thresholds;
use serde_json::{Value, json};

/// The threshold of memory is this share of the rate that saturates it (SAM, section 2.2).
const BELOW_SATURATION: f64 = 0.8;

/// Why curves have no thresholds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// The gain always stays below `GAIN`.
    #[error(
        "two sharing threads on {0} never gain more than {percent:.0} % from a common last-level cache: there is no threshold \
         of coherence",
        percent = GAIN * 100.0
    )]
    NoGain(String),
    /// The gain is always above `GAIN`.
    #[error(
        "two sharing threads on {0} gain more than {percent:.0} % from a common last-level cache even if they share rarely. \
         So another difference makes them slower with two caches, such as the clocks of the cores: there is no threshold of \
         coherence",
        percent = GAIN * 100.0
    )]
    AlwaysGain(String),
    /// The events do not show sharing.
    #[error(
        "the rate of {events} hardly grows with the rate at which two threads under two last-level caches share data, so it \
         does not show sharing on {machine}: there is no threshold of coherence"
    )]
    Unrelated {
        /// The counted events.
        events: String,
        /// The machine.
        machine: String,
    },
    /// The events do not show traffic to memory.
    #[error(
        "no miss of the last-level cache was counted while {cores} cores of a package copied memory, so {events} do not show \
         them on {machine}: there is no threshold of memory"
    )]
    NoMisses {
        /// The number of copying cores.
        cores: usize,
        /// The counted events.
        events: String,
        /// The machine.
        machine: String,
    },
}

/// A figure of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The figure.
    pub value: f64,
    /// The quartiles of the repetitions; `None` for simulated figures, which have one repetition.
    pub quartiles: Option<[f64; 2]>,
}

impl From<f64> for Figure {
    fn from(value: f64) -> Self {
        Self { value, quartiles: None }
    }
}

impl From<Median> for Figure {
    fn from(middle: Median) -> Self {
        Self {
            value: middle.value,
            quartiles: Some(middle.quartiles),
        }
    }
}

/// The effect of a common last-level cache on two threads that share data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharingPoint {
    /// Instructions between two accesses to the shared data.
    pub instructions: u32,
    /// Coherence events of a thread between last-level caches, per cycle, while the threads are on separate caches.
    pub events_per_cycle: Figure,
    /// The speed with a common last-level cache divided by the speed with two, minus one.
    pub gain: Figure,
}

/// The throughput of tasks that copy on one package.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopyPoint {
    /// The number of tasks.
    pub tasks: usize,
    /// With high locality.
    pub high: Copied,
    /// With low locality.
    pub low: Copied,
}

/// The result of a copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copied {
    /// Bytes read per second, by all tasks together. The same number is written.
    pub bytes_per_second: Figure,
    /// Last-level-cache misses per cycle, as the sum over all tasks.
    pub misses_per_cycle: Figure,
}

/// Both curves of a machine.
pub struct Curves {
    /// Their origin.
    pub origin: Origin,
    /// Two threads that share data, by their rate of sharing.
    pub sharing: Vec<SharingPoint>,
    /// Tasks that copy memory, by their number; at least one point.
    pub copying: Vec<CopyPoint>,
}

impl Curves {
    /// The thresholds of the curves.
    ///
    /// # Errors
    ///
    /// A curve that does not cross its threshold.
    pub fn thresholds(&self) -> Result<Thresholds, ThresholdError> {
        let machine = self.origin.machine().to_owned();
        let coherence = match crossing(self.gains()) {
            Crossing::At(rate) => rate,
            Crossing::Never => return Err(ThresholdError::NoGain(machine)),
            Crossing::Always => return Err(ThresholdError::AlwaysGain(machine)),
            Crossing::Unrelated => {
                let events = self.origin.coherence_events();
                return Err(ThresholdError::Unrelated { events, machine });
            }
        };
        let saturated = self.copying.last().expect("a package has a core");
        let [high, low] = [saturated.high, saturated.low].map(|copied| copied.misses_per_cycle.value);
        let package_memory = BELOW_SATURATION * high.min(low);
        if package_memory <= 0.0 {
            return Err(ThresholdError::NoMisses {
                cores: saturated.tasks,
                events: self.origin.memory_events(),
                machine,
            });
        }
        Ok(Thresholds {
            source: self.origin.source(),
            coherence,
            remote: coherence,
            memory: package_memory / saturated.tasks as f64,
            package_memory,
        })
    }

    /// Both curves in lines for a terminal. Values above a threshold are marked if thresholds are given.
    pub fn drawn(&self, thresholds: Option<&Thresholds>) -> Vec<String> {
        let mark = |above: bool| if above { '#' } else { '-' };
        let mut lines = vec![format!(
            "coherence events per {}   gain under one last-level cache",
            self.origin.clock().name()
        )];
        let gains = self.sharing.iter().map(|point| point.gain.value);
        let most = gains.fold(GAIN, f64::max);
        lines.extend(self.sharing.iter().map(|point| {
            let (rate, gain) = (point.events_per_cycle.value, point.gain);
            let above = thresholds.is_some_and(|thresholds| rate >= thresholds.coherence);
            let bar = bar(gain.value / most, mark(above));
            let line = format!(
                "  {rate:>10.1e}  {:>+7.1} %{}  {bar}",
                gain.value * 100.0,
                between(gain, 100.0)
            );
            line.trim_end().to_owned()
        }));
        lines.push(format!(
            "tasks   LLC misses per {}, high and low locality",
            self.origin.clock().name()
        ));
        let misses = |point: &CopyPoint| [point.high, point.low].map(|copied| copied.misses_per_cycle.value);
        let most = self.copying.iter().flat_map(misses).fold(0.0, f64::max);
        for point in &self.copying {
            for (name, copied) in [("high", point.high), ("low", point.low)] {
                let misses = copied.misses_per_cycle.value;
                let above = thresholds.is_some_and(|thresholds| misses > thresholds.package_memory);
                lines.push(format!(
                    "  {:>3}  {name:<4}  {misses:>8.4}  {:>6.1} GB/s{}  {}",
                    point.tasks,
                    copied.bytes_per_second.value / 1e9,
                    between(copied.bytes_per_second, 1e-9),
                    bar(misses / most, mark(above))
                ));
            }
        }
        if thresholds.is_some() {
            lines.push("# is above the threshold".to_owned());
            lines.extend(self.certainty());
        }
        lines
    }

    /// Both curves as charts.
    pub fn charts(&self, thresholds: Option<&Thresholds>) -> Vec<Chart> {
        let origin = self.origin.title();
        let clock = self.origin.clock().name();
        let copied = |pick: fn(&CopyPoint) -> f64| {
            let points = self.copying.iter();
            points.map(|point| (point.tasks as f64, pick(point))).collect()
        };
        let mark = |value: fn(&Thresholds) -> f64| thresholds.map(|all| (value(all), "threshold".to_owned()));
        // A logarithmic axis has no position for zero.
        let counted = by_rate(self.gains()).into_iter();
        vec![
            Chart {
                title: format!("Two sharing threads under one last-level cache, {origin}"),
                x: format!("coherence events between last-level caches, per {clock} and thread"),
                y: "speed-up".to_owned(),
                logarithmic: true,
                lines: vec![Line {
                    name: "speed-up".to_owned(),
                    points: counted.map(|(rate, gain)| (rate, 1.0 + gain)).collect(),
                }],
                vertical: mark(|thresholds| thresholds.coherence),
                horizontal: Some((1.0 + GAIN, "+5 %".to_owned())),
            },
            Chart {
                title: format!("Copying tasks in one package, {origin}"),
                x: "tasks".to_owned(),
                y: format!("LLC misses per {clock}"),
                logarithmic: false,
                lines: vec![
                    Line {
                        name: "high locality".to_owned(),
                        points: copied(|point| point.high.misses_per_cycle.value),
                    },
                    Line {
                        name: "low locality".to_owned(),
                        points: copied(|point| point.low.misses_per_cycle.value),
                    },
                ],
                vertical: None,
                horizontal: mark(|thresholds| thresholds.package_memory),
            },
        ]
    }

    /// Both curves and their thresholds. Missing thresholds are null.
    pub fn json(&self, thresholds: Option<&Thresholds>) -> Value {
        let copied = |copied: Copied| {
            json!({
                "bytes_per_second": copied.bytes_per_second.value,
                "misses_per_cycle": copied.misses_per_cycle.value,
                "quartiles": quartiles(&[
                    ("bytes_per_second", copied.bytes_per_second),
                    ("misses_per_cycle", copied.misses_per_cycle),
                ]),
            })
        };
        let mut value = self.origin.json();
        value["thresholds"] = json!(thresholds);
        value["coherence_between"] = json!(self.coherence_between());
        value["sharing"] = self
            .sharing
            .iter()
            .map(|point| {
                json!({
                    "instructions": point.instructions,
                    "events_per_cycle": point.events_per_cycle.value,
                    "gain": point.gain.value,
                    "quartiles": quartiles(&[("events_per_cycle", point.events_per_cycle), ("gain", point.gain)]),
                })
            })
            .collect();
        value["copying"] = self
            .copying
            .iter()
            .map(|point| json!({ "tasks": point.tasks, "high": copied(point.high), "low": copied(point.low) }))
            .collect();
        value
    }

    /// Rate and gain of each point.
    fn gains(&self) -> impl Iterator<Item = (f64, f64)> {
        let points = self.sharing.iter();
        points.map(|point| (point.events_per_cycle.value, point.gain.value))
    }

    /// The range of the threshold of coherence, by the quartiles of the gains. `None` for simulated curves, and for
    /// curves that do not cross it at one of the quartiles.
    fn coherence_between(&self) -> Option<[f64; 2]> {
        let at = |quartile: usize| {
            let points = self.sharing.iter();
            let gains: Option<Vec<(f64, f64)>> = points
                .map(|point| Some((point.events_per_cycle.value, point.gain.quartiles?[quartile])))
                .collect();
            match crossing(gains?.into_iter()) {
                Crossing::At(rate) => Some(rate),
                Crossing::Never | Crossing::Always | Crossing::Unrelated => None,
            }
        };
        // A curve with greater gains crosses it earlier.
        Some([at(1)?, at(0)?])
    }

    /// The precision of the threshold of coherence. `None` for a simulated one.
    fn certainty(&self) -> Option<String> {
        self.sharing.first()?.gain.quartiles?;
        let range = self.coherence_between().map_or_else(
            || {
                "not within the quartiles of the rounds, which differ too much: measure again on an idle machine"
                    .to_owned()
            },
            |[low, high]| format!("between {low:.1e} and {high:.1e}, by the quartiles of the rounds"),
        );
        Some(format!("threshold of coherence: {range}"))
    }
}

/// The quartiles by name. Null if any figure was simulated.
fn quartiles(figures: &[(&str, Figure)]) -> Value {
    let known = figures
        .iter()
        .map(|(name, figure)| Some(((*name).to_owned(), json!(figure.quartiles?))));
    known
        .collect::<Option<serde_json::Map<String, Value>>>()
        .map_or(Value::Null, Value::Object)
}

/// The quartiles in another unit, with the width of a column.
fn between(figure: Figure, scale: f64) -> String {
    figure.quartiles.map_or(String::new(), |[low, high]| {
        let text = format!("({:.1} to {:.1})", low * scale, high * scale);
        format!("  {text:<16}")
    })
}

/// A bar of up to forty characters.
fn bar(share: f64, mark: char) -> String {
    const WIDTH: usize = 40;
    let marks = (1..=WIDTH).filter(|&place| place as f64 <= share * WIDTH as f64 + 0.5);
    marks.map(|_| mark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(pairs: &[(f64, f64)]) -> Vec<SharingPoint> {
        let point = |&(rate, gain): &(f64, f64)| SharingPoint {
            instructions: 0,
            events_per_cycle: rate.into(),
            gain: gain.into(),
        };
        pairs.iter().map(point).collect()
    }

    fn curves(sharing: &[(f64, f64)], misses: [f64; 2]) -> Curves {
        let [high, low] = misses.map(|misses| Copied {
            bytes_per_second: 1e9.into(),
            misses_per_cycle: misses.into(),
        });
        Curves {
            origin: Origin::Simulated {
                machine: "mine".to_owned(),
            },
            sharing: points(sharing),
            copying: vec![CopyPoint { tasks: 4, high, low }],
        }
    }

    const RISING: [(f64, f64); 4] = [(1e-5, 0.0), (1e-4, 0.02), (1e-2, 0.08), (2e-2, 0.2)];

    #[test]
    fn a_curve_that_does_not_pass_five_percent_says_why() {
        for (sharing, says) in [
            (&[(0.0, 0.0), (1e-5, 0.0), (1e-4, 0.04)][..], "never gain more than 5 %"),
            (&[(0.0, 0.0), (1e-5, 0.1), (1e-4, 0.2)], "even if they share rarely"),
            (&[(1e-4, 0.0), (1e-4, 0.3)], "hardly grows with the rate at which"),
        ] {
            let error = curves(sharing, [0.1, 0.1]).thresholds().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn the_threshold_of_memory_is_a_fifth_below_the_lower_curve_and_each_task_has_its_share() {
        let thresholds = curves(&RISING, [0.5, 0.4]).thresholds().unwrap();
        assert!((thresholds.package_memory - 0.32).abs() < 1e-12);
        assert!((thresholds.memory - 0.08).abs() < 1e-12);
        let error = curves(&RISING, [0.5, 0.0]).thresholds().unwrap_err().to_string();
        assert!(
            error.contains("no miss of the last-level cache was counted while 4 cores"),
            "{error}"
        );
    }

    #[test]
    fn curves_without_thresholds_are_also_shown() {
        let curves = curves(&[(0.0, 0.0), (1e-4, 0.01)], [0.5, 0.4]);
        assert!(curves.thresholds().is_err());
        assert!(curves.drawn(None).iter().all(|line| !line.contains('#')));
        assert_eq!(curves.json(None)["thresholds"], Value::Null);
        assert_eq!(curves.charts(None)[0].lines[0].points, [(1e-4, 1.01)]);
    }

    #[test]
    fn the_range_of_a_threshold_is_from_the_quartiles() {
        let mut curves = curves(&RISING, [0.5, 0.4]);
        assert_eq!(
            (curves.coherence_between(), curves.certainty()),
            (None, None),
            "it is simulated"
        );
        let around = |curves: &mut Curves, width: f64| {
            for point in &mut curves.sharing {
                point.gain.quartiles = Some([point.gain.value - width, point.gain.value + width]);
            }
        };
        around(&mut curves, 0.01);
        let [low, high] = curves.coherence_between().unwrap();
        let threshold = curves.thresholds().unwrap().coherence;
        assert!(low < threshold && threshold < high, "{low} {threshold} {high}");
        assert!(curves.certainty().unwrap().contains("between"));
        around(&mut curves, 0.06);
        assert_eq!(curves.coherence_between(), None, "the upper quartiles are always above");
        assert!(curves.certainty().unwrap().contains("measure again"));
    }

    #[test]
    fn quartiles_are_null_for_a_single_repetition() {
        let simulated = Figure::from(1.0);
        let measured = Figure {
            value: 1.0,
            quartiles: Some([0.5, 1.5]),
        };
        assert_eq!(quartiles(&[("a", simulated)]), Value::Null);
        assert_eq!(quartiles(&[("a", measured)]), json!({ "a": [0.5, 1.5] }));
        assert_eq!(between(simulated, 100.0), "");
        assert_eq!(between(measured, 100.0).trim(), "(50.0 to 150.0)");
    }
}
