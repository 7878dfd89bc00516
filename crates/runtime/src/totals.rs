//! The rate of every metric during a part of a run, not only of the metric that decides.
//!
//! Growth is added up from sample to sample, so that a task that begins or ends between two samples counts too. A count
//! that is missing in a sample leaves a gap. The next count has the growth over the gap, and its rate is over that time.

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
    /// The last sample; a count that is missing there is the last one that was read.
    last: Option<Sample>,
    metrics: Vec<Total>,
}

/// What is known of one metric.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Total {
    /// The growth in this part, and the time of that growth.
    grown: Option<f64>,
    time: Duration,
    /// The time since the last reading.
    unread: Duration,
    multiplexed: bool,
}

impl Totals {
    /// Begins a part at the last sample.
    pub fn restart(&mut self) {
        for total in &mut self.metrics {
            *total = Total {
                unread: total.unread,
                ..Total::default()
            };
        }
    }

    /// Adds the growth since the previous sample.
    pub fn add(&mut self, sample: &Sample) {
        let mut sample = sample.clone();
        if let Some(last) = &self.last {
            let passed = sample.at.saturating_sub(last.at);
            self.metrics.resize(sample.program.len(), Total::default());
            for (metric, total) in self.metrics.iter_mut().enumerate() {
                total.unread += passed;
                let program = count(&sample.program, metric).map(|now| (now, count(&last.program, metric)));
                let tasks = sample.tasks.iter().filter_map(|task| {
                    let now = count(&task.counts, metric)?;
                    Some((now, last.task(task.id).and_then(|before| count(&before.counts, metric))))
                });
                for (now, before) in program.into_iter().chain(tasks) {
                    // A counter that is new began at zero.
                    if let Some(grown) = now.since(&before.unwrap_or(Count::exact(0))) {
                        *total.grown.get_or_insert(0.0) += grown;
                        total.multiplexed |= now.multiplexed();
                        total.time += std::mem::take(&mut total.unread);
                    }
                }
            }
            keep_missing(&mut sample.program, &last.program);
            for task in &mut sample.tasks {
                if let Some(before) = last.task(task.id) {
                    keep_missing(&mut task.counts, &before.counts);
                }
            }
        }
        self.last = Some(sample);
    }

    /// The rates since the part began.
    pub fn rates(&self, metrics: &[Metric]) -> Vec<MetricRate> {
        metrics
            .iter()
            .enumerate()
            .map(|(index, metric)| {
                let total = self.metrics.get(index).copied().unwrap_or_default();
                let seconds = total.time.as_secs_f64();
                MetricRate {
                    name: metric.name.clone(),
                    rate: total.grown.filter(|_| seconds > 0.0).map(|grown| grown / seconds),
                    multiplexed: total.multiplexed,
                }
            })
            .collect()
    }
}

/// Puts the counts of before where there is none now.
fn keep_missing(now: &mut [Option<Count>], before: &[Option<Count>]) {
    for (now, before) in now.iter_mut().zip(before) {
        *now = now.or(*before);
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
            ..Sample::default()
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
    fn a_count_after_a_gap_is_over_the_whole_gap() {
        let program = |at: u64, value: Option<u64>| Sample {
            program: vec![value.map(Count::exact), None],
            ..sample(at, &[])
        };
        let mut totals = Totals::default();
        totals.add(&program(0, Some(1000)));
        totals.add(&program(1, Some(1010)));
        totals.restart();
        totals.add(&program(2, None));
        assert_eq!(totals.rates(&metrics())[0].rate, None);
        totals.restart();
        totals.add(&program(3, Some(1050)));
        assert_eq!(totals.rates(&metrics())[0].rate, Some(20.0));
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
