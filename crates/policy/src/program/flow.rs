//! Whether a flow through the program shows its progress.
//!
//! The bytes that a program reads and writes grow with its progress if the program sets the pace: a compressor that
//! reads a file. If its clients, a disk or the other end of a pipe set the pace, a better placement changes what the
//! program spends on a byte, and not the number of bytes.
//!
//! - **Pace.** A program sets the pace if it would be faster with faster processors. That is so if its busiest task
//!   runs, or waits for a PU, nearly all the time, or if all its tasks together keep nearly all PUs busy.
//! - **Steps.** A flow may come in bursts: a checkpoint every ten seconds. Then few readings have nearly all of it, and
//!   the rate is as coarse as a count of so few bursts. The number of equal steps that would vary as much is
//!   `(sum of growths)^2 / sum of growths^2` (Kish's effective sample size).

use pinfold_core::statistics::effective_steps;
use pinfold_core::{Count, Metric, Sample, TaskId};
use std::collections::BTreeMap;
use std::time::Duration;

/// The program sets the pace if it is busy for at least this share of the time.
const BUSY: f64 = 0.8;

/// A flow is judged after this time: shorter waits are part of any program.
pub(crate) const LEAST: Duration = Duration::from_secs(1);

/// What a window has shown of a program's flows.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// The flows, by the position of their metrics.
    growths: BTreeMap<usize, Growth>,
    /// The busy time of each living task at the last sample, and since the window began.
    tasks: BTreeMap<TaskId, (Duration, Duration)>,
    /// The busy time of all tasks since the window began.
    total: Duration,
    began: Option<Duration>,
    lasted: Duration,
}

/// The growth of one flow.
#[derive(Debug, Default)]
struct Growth {
    last: Option<Count>,
    sum: f64,
    squares: f64,
}

/// Who sets the pace of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// The program.
    Program,
    /// Something that the program waits for. Its busiest task waits for this share of the time.
    Others {
        /// From 0 to 1.
        waits: f64,
    },
}

impl Flow {
    /// Begins a window.
    pub(crate) fn begin(&mut self, metrics: &[Metric], sample: &Sample) {
        *self = Self::default();
        self.read(metrics, sample);
    }

    /// Reads the next sample of the window.
    pub(crate) fn read(&mut self, metrics: &[Metric], sample: &Sample) {
        let first = self.began.is_none();
        self.lasted = sample.at.saturating_sub(*self.began.get_or_insert(sample.at));
        for (index, _) in metrics.iter().enumerate().filter(|(_, metric)| metric.source.is_flow) {
            let Some(now) = sample.program.get(index).copied().flatten() else {
                continue;
            };
            let growth = self.growths.entry(index).or_default();
            if let Some(grown) = growth.last.and_then(|last| now.since(&last)) {
                growth.sum += grown;
                growth.squares += grown * grown;
            }
            growth.last = Some(now);
        }
        for task in &sample.tasks {
            let Some(used) = task.cpu_time else { continue };
            let busy = used + task.run_delay.unwrap_or_default();
            // A task that begins within the window has been busy within it only.
            let before = if first { busy } else { Duration::ZERO };
            let (last, since) = self.tasks.entry(task.id).or_insert((before, Duration::ZERO));
            let grown = busy.saturating_sub(*last);
            *last = busy;
            *since += grown;
            self.total += grown;
        }
        let ended = sample.tasks.iter().filter(|task| !task.alive);
        for task in ended {
            self.tasks.remove(&task.id);
        }
    }

    /// The growth a second of the flow at this position; `None` without a reading.
    pub(crate) fn rate(&self, metric: usize) -> Option<f64> {
        let growth = self.growths.get(&metric)?;
        (!self.lasted.is_zero()).then(|| growth.sum / self.lasted.as_secs_f64())
    }

    /// The number of equal steps a second that would vary as much.
    pub(crate) fn steps(&self, metric: usize) -> f64 {
        let growth = self.growths.get(&metric).filter(|_| !self.lasted.is_zero());
        growth.map_or(0.0, |growth| {
            effective_steps(growth.sum, growth.squares) / self.lasted.as_secs_f64()
        })
    }

    /// Whether the window is long enough to judge the pace.
    pub(crate) fn is_long_enough(&self) -> bool {
        self.lasted >= LEAST
    }

    /// Who sets the pace on a machine with this number of PUs.
    pub(crate) fn pace(&self, pus: usize) -> Pace {
        let share = |busy: Duration| busy.as_secs_f64() / self.lasted.as_secs_f64();
        let busiest = self.tasks.values().map(|&(_, since)| share(since)).fold(0.0, f64::max);
        if sets_pace(busiest, share(self.total), pus) {
            return Pace::Program;
        }
        Pace::Others { waits: 1.0 - busiest }
    }
}

/// Whether a program sets the pace of the flow through it. `busiest` is the share of the time that its busiest task
/// runs or waits for a PU, and `total` the sum over all its tasks, on a machine with this number of PUs.
pub fn sets_pace(busiest: f64, total: f64, pus: usize) -> bool {
    busiest >= BUSY || total >= BUSY * pus as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{Scope, TaskSample, sources};
    use proptest::prelude::*;

    const READING: Duration = Duration::from_millis(100);

    /// A sample after this number of readings: the bytes so far, and milliseconds of each task: used, and waited for a
    /// PU.
    fn sample(reading: u32, bytes: Option<u64>, tasks: &[(u64, u64, u64)]) -> Sample {
        let task = |&(serial, used, delay): &(u64, u64, u64)| TaskSample {
            id: TaskId {
                serial,
                process: 1,
                thread: 1,
            },
            name: String::new(),
            alive: true,
            cpu_time: Some(Duration::from_millis(used)),
            run_delay: Some(Duration::from_millis(delay)),
            last_pu: None,
            counts: vec![],
        };
        Sample {
            at: READING * reading,
            tasks: tasks.iter().map(task).collect(),
            program: vec![bytes.map(Count::exact)],
            ..Sample::default()
        }
    }

    fn window(samples: impl IntoIterator<Item = Sample>) -> Flow {
        let metrics = [sources::IO.metric(Scope::Program)];
        let mut flow = Flow::default();
        for sample in samples {
            flow.read(&metrics, &sample);
        }
        flow
    }

    /// A window of a second. `tasks`: what each has used and waited in each reading.
    fn second(tasks: &[(u64, u64)]) -> Flow {
        window((0_u32..=10).map(|reading| {
            let at = u64::from(reading);
            let tasks: Vec<_> = (0..)
                .zip(tasks)
                .map(|(serial, (used, delay))| (serial, used * at, delay * at))
                .collect();
            sample(reading, Some(at * 1000), &tasks)
        }))
    }

    #[test]
    fn a_program_with_a_busy_task_sets_the_pace() {
        assert_eq!(second(&[(95, 0), (10, 0)]).pace(64), Pace::Program);
    }

    #[test]
    fn a_task_that_waits_for_a_pu_is_busy() {
        assert_eq!(second(&[(30, 60), (5, 0)]).pace(64), Pace::Program);
    }

    #[test]
    fn tasks_that_fill_the_machine_together_set_the_pace() {
        let tasks = [(50, 0); 4];
        assert_eq!(second(&tasks).pace(2), Pace::Program);
        assert_ne!(second(&tasks).pace(8), Pace::Program);
    }

    #[test]
    fn a_server_that_sleeps_between_requests_follows_its_clients() {
        let Pace::Others { waits } = second(&[(30, 0), (20, 0)]).pace(64) else {
            panic!("the clients set the pace");
        };
        assert!((waits - 0.7).abs() < 1e-9, "{waits}");
    }

    #[test]
    fn short_lived_tasks_fill_the_machine_together() {
        let flow = window((0_u32..=10).map(|reading| {
            let mut now = sample(
                reading,
                Some(0),
                &[(u64::from(reading), if reading == 0 { 0 } else { 95 }, 0)],
            );
            for task in &mut now.tasks {
                task.alive = false;
            }
            now
        }));
        assert_eq!(flow.pace(1), Pace::Program);
    }

    #[test]
    fn bursts_are_few_steps() {
        let bursts = |reading: u32| u64::from(reading / 5) * 1_000_000 + u64::from(reading);
        let flow = window((0..=50).map(|reading| sample(reading, Some(bursts(reading)), &[])));
        let steps = flow.steps(0) * 5.0;
        assert!((steps - 10.0).abs() < 0.1, "{steps}");
    }

    #[test]
    fn a_reading_that_is_missing_leaves_no_gap_in_the_rate() {
        let bytes = |reading: u32| (!reading.is_multiple_of(2)).then_some(u64::from(reading) * 1000);
        let flow = window((1..=11).map(|reading| sample(reading, bytes(reading), &[])));
        assert_eq!(flow.rate(0), Some(10_000.0));
    }

    proptest! {
        #[test]
        fn there_are_at_most_as_many_steps_as_readings(growths in proptest::collection::vec(0_u64..1_000_000, 1..50)) {
            let mut total = 0;
            let samples: Vec<Sample> = (0_u32..).zip(std::iter::once(&0).chain(&growths)).map(|(reading, grown)| {
                total += grown;
                sample(reading, Some(total), &[])
            }).collect();
            let flow = window(samples);
            let steps = flow.steps(0) * flow.lasted.as_secs_f64();
            prop_assert!(steps <= growths.len() as f64 + 1e-9);
            prop_assert_eq!(steps > 0.0, total > 0);
        }
    }
}
