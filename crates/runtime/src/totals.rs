//! The rate of every metric during a part of a run, not only of the metric that decides.
//!
//! Growth is added up from sample to sample, so that a task that begins or ends between two samples counts too.

use pinfold_core::{Count, Metric, Sample};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The rate of one metric during one part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricRate {
    /// The name that `--metric` takes.
    pub name: String,
    /// Counts per second, of all tasks together; `None` if missing.
    pub rate: Option<f64>,
    /// Whether a counter was multiplexed, so that the rate is scaled from a part of the time.
    pub multiplexed: bool,
}

/// Adds up the growth of every metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    last: Option<Sample>,
    time: Duration,
    grown: Vec<Option<f64>>,
    multiplexed: Vec<bool>,
}

impl Totals {
    /// Begins a part at the last sample.
    pub fn restart(&mut self) {
        self.time = Duration::ZERO;
        self.grown.clear();
        self.multiplexed.clear();
    }

    /// Adds the growth since the previous sample.
    pub fn add(&mut self, sample: &Sample) {
        if let Some(last) = &self.last {
            let metrics = sample.program.len();
            self.grown.resize(metrics, None);
            self.multiplexed.resize(metrics, false);
            self.time += sample.at.saturating_sub(last.at);
            for metric in 0..metrics {
                let program = count(&sample.program, metric).map(|now| (now, count(&last.program, metric)));
                let tasks = sample.tasks.iter().filter_map(|task| {
                    let now = count(&task.counts, metric)?;
                    Some((now, last.task(task.id).and_then(|before| count(&before.counts, metric))))
                });
                for (now, before) in program.into_iter().chain(tasks) {
                    // A counter that is new began at zero.
                    if let Some(grown) = now.since(&before.unwrap_or(Count::exact(0))) {
                        *self.grown[metric].get_or_insert(0.0) += grown;
                        self.multiplexed[metric] |= now.multiplexed();
                    }
                }
            }
        }
        self.last = Some(sample.clone());
    }

    /// The rates since the part began.
    pub fn rates(&self, metrics: &[Metric]) -> Vec<MetricRate> {
        let seconds = self.time.as_secs_f64();
        metrics
            .iter()
            .enumerate()
            .map(|(index, metric)| MetricRate {
                name: metric.name.clone(),
                rate: self
                    .grown
                    .get(index)
                    .copied()
                    .flatten()
                    .filter(|_| seconds > 0.0)
                    .map(|grown| grown / seconds),
                multiplexed: self.multiplexed.get(index).copied().unwrap_or(false),
            })
            .collect()
    }
}

fn count(counts: &[Option<Count>], metric: usize) -> Option<Count> {
    counts.get(metric).copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{Scope, TaskId, TaskSample, sources};

    fn sample(at: u64, tasks: &[(u64, u64)]) -> Sample {
        let task = |&(serial, value): &(u64, u64)| TaskSample {
            id: TaskId {
                serial,
                process: 1,
                thread: 1,
            },
            name: String::new(),
            alive: true,
            cpu_time: None,
            run_delay: None,
            last_pu: None,
            counts: vec![Some(Count::exact(value)), None],
        };
        Sample {
            at: Duration::from_secs(at),
            tasks: tasks.iter().map(task).collect(),
            program: vec![None, None],
            regions: vec![],
        }
    }

    fn metrics() -> Vec<Metric> {
        let metric = |name: &str| Metric {
            name: name.to_owned(),
            unit: "count".to_owned(),
            source: &sources::EVENT,
            scope: Scope::Task,
        };
        vec![metric("event:a"), metric("event:b")]
    }

    #[test]
    fn a_task_that_begins_or_ends_counts_with_what_it_did() {
        let mut totals = Totals::default();
        totals.add(&sample(0, &[(0, 100)]));
        totals.restart();
        totals.add(&sample(1, &[(0, 110), (1, 5)]));
        totals.add(&sample(2, &[(1, 25)]));
        assert_eq!(totals.rates(&metrics())[0].rate, Some((10.0 + 5.0 + 20.0) / 2.0));
    }

    #[test]
    fn what_was_never_read_has_no_rate() {
        let mut totals = Totals::default();
        totals.add(&sample(0, &[(0, 1)]));
        totals.add(&sample(1, &[(0, 2)]));
        assert_eq!(totals.rates(&metrics())[1].rate, None);
    }

    #[test]
    fn a_part_begins_where_it_is_restarted() {
        let mut totals = Totals::default();
        totals.add(&sample(0, &[(0, 0)]));
        totals.add(&sample(1, &[(0, 1000)]));
        totals.restart();
        totals.add(&sample(2, &[(0, 1001)]));
        assert_eq!(totals.rates(&metrics())[0].rate, Some(1.0));
    }
}
