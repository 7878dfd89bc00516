//! The events of a rate, and the rate from their counts.

use pinfold_core::Activity;
use pinfold_core::measurement::TimedRun;
use pinfold_policy::sam::{self, MapperEvents};
use serde_json::{Value, json};
use std::fmt;

/// A rate: the sum of some events minus the sum of others, per cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formula {
    /// The clock, the added and the subtracted events, each once. A thread's counts have this order.
    events: Vec<String>,
    add: Vec<usize>,
    subtract: Vec<usize>,
}

impl Formula {
    /// The rate of the events in `add` minus the events in `subtract`, per `clock`.
    pub fn new(clock: &str, add: &[&str], subtract: &[&str]) -> Self {
        let mut events = vec![clock.to_owned()];
        let mut positions = |names: &[&str]| -> Vec<usize> {
            let position = |&name: &&str| {
                events.iter().position(|one| one == name).unwrap_or_else(|| {
                    events.push(name.to_owned());
                    events.len() - 1
                })
            };
            names.iter().map(position).collect()
        };
        let (add, subtract) = (positions(add), positions(subtract));
        Self { events, add, subtract }
    }

    /// The formula of an activity. `None` if no events count it.
    pub fn of(events: &MapperEvents, activity: Activity) -> Option<Self> {
        let wanted = events.activities.iter().find(|one| one.activity == activity)?;
        let [add, subtract] =
            [&wanted.add, &wanted.subtract].map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
        Some(Self::new(&events.cycles, &add, &subtract))
    }

    /// The names of its events, each once, the clock first. A thread's counts have this order.
    pub fn events(&self) -> &[String] {
        &self.events
    }

    /// The rate of a thread. `None` if an event was not counted, or if the cycles are zero.
    fn rate(&self, counts: &[Option<f64>]) -> Option<f64> {
        let count = |position: usize| counts.get(position).copied().flatten();
        sam::rate(&self.add, &self.subtract, 0, count)
    }

    /// The rates of all threads of a run, added up.
    pub fn total(&self, run: &TimedRun) -> Option<f64> {
        run.counts.iter().map(|counts| self.rate(counts)).sum()
    }

    /// Its events, grouped by their sign.
    pub fn json(&self) -> Value {
        let names = |positions: &[usize]| -> Vec<&str> {
            let names = positions.iter().map(|&position| self.events[position].as_str());
            names.collect()
        };
        json!({ "add": names(&self.add), "subtract": names(&self.subtract), "by": self.events[0] })
    }
}

/// As a formula, such as `A + B - C per CYCLES`.
impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |positions: &[usize], between: &str| -> String {
            let names: Vec<&str> = positions
                .iter()
                .map(|&position| self.events[position].as_str())
                .collect();
            names.join(between)
        };
        write!(f, "{}", names(&self.add, " + "))?;
        if !self.subtract.is_empty() {
            write!(f, " - {}", names(&self.subtract, " - "))?;
        }
        write!(f, " per {}", self.events[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activities;
    use pinfold_sim::EventSet;

    fn formula() -> Formula {
        Formula::new("CYCLES", &["A", "B"], &["C"])
    }

    #[test]
    fn a_rate_is_per_cycle_and_none_where_a_count_is_missing() {
        let formula = formula();
        assert_eq!(formula.to_string(), "A + B - C per CYCLES");
        let all = [Some(100.0), Some(5.0), Some(7.0), Some(2.0)];
        assert_eq!(formula.rate(&all), Some(0.1));
        for missing in 0..4 {
            let mut counts = all;
            counts[missing] = None;
            assert_eq!(formula.rate(&counts), None, "{missing}");
        }
        assert_eq!(formula.rate(&[Some(0.0), Some(1.0), Some(1.0), Some(1.0)]), None);
        assert_eq!(formula.rate(&[Some(1.0), Some(1.0), Some(1.0), Some(3.0)]), Some(0.0));
    }

    #[test]
    fn every_set_that_shows_coherence_has_both_formulas_with_cycles_first() {
        let sets: Vec<EventSet> = EventSet::all()
            .into_iter()
            .filter(|set| set.metric("inter_package_coherence").is_some())
            .collect();
        assert!(!sets.is_empty());
        for set in sets {
            let events = activities::of_set(&set).unwrap();
            for activity in [Activity::InterPackageCoherence, Activity::MemoryBandwidth] {
                let formula = Formula::of(&events, activity).unwrap();
                assert_eq!(formula.events[0], events.cycles);
                assert!(
                    !formula.add.is_empty() && !formula.add.contains(&0),
                    "{}: {formula}",
                    set.name
                );
            }
        }
    }

    #[test]
    fn an_event_that_is_also_the_clock_is_counted_once() {
        let formula = Formula::new("task-clock", &["task-clock"], &[]);
        assert_eq!(formula.events, ["task-clock"]);
        assert_eq!(formula.rate(&[Some(7.0)]), Some(1.0));
    }
}
