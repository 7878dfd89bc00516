//! Rates of each task per unhalted cycle, from two samples (sections 2.3 and 3.2 of the paper).
//!
//! There are more events than counters, so counts are scaled by the running time of their counters. A value is `None`
//! if a counter never ran, a total runs backwards, the clock did not advance, or the task began in the interval. Such a
//! task holds its PU and is not moved.

use super::Activity;
use super::rates::{Reads, TaskRates};
use pinfold_core::{Metric, PuSet, Sample, TaskId, TaskSample};
use std::sync::Arc;
use std::time::Duration;

/// The events of an activity: the sum of some minus the sum of others. Names are libpfm4 names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityEvents {
    /// The activity.
    pub activity: Activity,
    /// The events that are added.
    pub add: Vec<String>,
    /// The events that are subtracted.
    pub subtract: Vec<String>,
}

/// The events of a processor for all that the mapper uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapperEvents {
    /// Unhalted cycles.
    pub cycles: String,
    /// Instructions; `None` if they are not counted.
    pub instructions: Option<String>,
    /// The activities that this processor can count.
    pub activities: Vec<ActivityEvents>,
    /// The events of [`TaskRates::reads`]; `None` if they are not counted.
    pub reads: Option<ReadEvents>,
}

/// The events of lines that memory sent to a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadEvents {
    /// Lines from the own node's memory: the sum of these.
    pub local: Vec<String>,
    /// Lines from another node's memory: the sum of these.
    pub remote: Vec<String>,
}

/// The same by position in a sample's counts.
#[derive(Clone, Debug)]
pub struct Observer {
    cycles: usize,
    instructions: Option<usize>,
    activities: [Option<Formula>; Activity::ALL.len()],
    /// Local and remote ones.
    reads: Option<[Vec<usize>; 2]>,
}

#[derive(Clone, Debug)]
struct Formula {
    add: Vec<usize>,
    subtract: Vec<usize>,
}

/// The mapper needs an event that the machine does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not counted here, and SAM's rates need it")]
pub struct NotCounted(pub String);

impl MapperEvents {
    /// All events, each once, in the order of their names here.
    pub fn all(&self) -> Vec<&str> {
        let activities = self
            .activities
            .iter()
            .flat_map(|one| one.add.iter().chain(&one.subtract));
        let reads = self
            .reads
            .iter()
            .flat_map(|reads| reads.local.iter().chain(&reads.remote));
        let mut all: Vec<&str> = vec![];
        for event in [&self.cycles]
            .into_iter()
            .chain(&self.instructions)
            .chain(activities)
            .chain(reads)
        {
            if !all.contains(&event.as_str()) {
                all.push(event);
            }
        }
        all
    }
}

impl Observer {
    /// For samples whose counts are of these metrics.
    pub fn new(events: &MapperEvents, metrics: &[Metric]) -> Result<Self, NotCounted> {
        let position = |event: &String| {
            let named = |metric: &Metric| metric.name.strip_prefix("event:") == Some(event);
            metrics.iter().position(named).ok_or_else(|| NotCounted(event.clone()))
        };
        let positions = |events: &[String]| events.iter().map(position).collect::<Result<Vec<usize>, _>>();
        let cycles = position(&events.cycles)?;
        let instructions = events.instructions.as_ref().map(position).transpose()?;
        let mut activities = [const { None }; Activity::ALL.len()];
        for one in &events.activities {
            activities[one.activity as usize] = Some(Formula {
                add: positions(&one.add)?,
                subtract: positions(&one.subtract)?,
            });
        }
        let reads = match &events.reads {
            Some(reads) => Some([positions(&reads.local)?, positions(&reads.remote)?]),
            None => None,
        };
        Ok(Self {
            cycles,
            instructions,
            activities,
            reads,
        })
    }

    /// The rates between two samples: of living tasks whose PU is known, in the order of `after`. `allowed` gives
    /// the mask of a task.
    pub fn rates(&self, before: &Sample, after: &Sample, allowed: impl Fn(TaskId) -> Arc<PuSet>) -> Vec<TaskRates> {
        let elapsed = after.at.checked_sub(before.at).filter(|elapsed| !elapsed.is_zero());
        let living = after.tasks.iter().filter(|task| task.alive);
        living
            .filter_map(|task| {
                let earlier = before.tasks.binary_search_by_key(&task.id, |one| one.id).ok();
                let earlier = earlier.map(|index| &before.tasks[index]);
                let pair = elapsed.and(earlier);
                let of = |activity: Activity| self.rate(activity, pair?, task);
                Some(TaskRates {
                    id: task.id,
                    pu: task.last_pu?,
                    allowed: allowed(task.id),
                    busy: busy(elapsed, earlier, task),
                    inter: of(Activity::InterPackageCoherence),
                    intra: of(Activity::IntraPackageCoherence),
                    remote: of(Activity::RemoteDram),
                    memory: of(Activity::MemoryBandwidth),
                    progress: pair.and_then(|earlier| {
                        rate(&[self.instructions?], &[], self.cycles, |metric| {
                            growth(metric, earlier, task)
                        })
                    }),
                    group: None,
                    reads: pair.and_then(|earlier| self.reads_of(earlier, task)),
                })
            })
            .collect()
    }

    fn reads_of(&self, before: &TaskSample, after: &TaskSample) -> Option<Reads> {
        let [local, remote] = self.reads.as_ref()?;
        let of = |events: &[usize]| rate(events, &[], self.cycles, |metric| growth(metric, before, after));
        Some(Reads {
            local: of(local)?,
            remote: of(remote)?,
        })
    }

    fn rate(&self, activity: Activity, before: &TaskSample, after: &TaskSample) -> Option<f64> {
        let formula = self.activities[activity as usize].as_ref()?;
        let count = |metric| growth(metric, before, after);
        rate(&formula.add, &formula.subtract, self.cycles, count)
    }
}

/// Events per cycle: the counts at `add` minus the counts at `subtract`, divided by the count at `cycles`. `None` if a
/// count is missing or no cycle was counted.
pub fn rate(add: &[usize], subtract: &[usize], cycles: usize, count: impl Fn(usize) -> Option<f64>) -> Option<f64> {
    let sum = |positions: &[usize]| positions.iter().map(|&position| count(position)).sum::<Option<f64>>();
    let cycles = count(cycles).filter(|&cycles| cycles > 0.0)?;
    // Multiplexed counters can make a small difference negative.
    Some((sum(add)? - sum(subtract)?).max(0.0) / cycles)
}

fn growth(metric: usize, before: &TaskSample, after: &TaskSample) -> Option<f64> {
    let (before, after) = (before.counts.get(metric)?, after.counts.get(metric)?);
    after.as_ref()?.since(before.as_ref()?)
}

/// The running time of a task as a share of the interval. If it is unknown, the task counts as running all the time, so
/// it holds its PU.
fn busy(elapsed: Option<Duration>, before: Option<&TaskSample>, after: &TaskSample) -> f64 {
    let used = || {
        let used = after
            .cpu_time?
            .checked_sub(before.map_or(Some(Duration::ZERO), |task| task.cpu_time)?)?;
        Some((used.as_secs_f64() / elapsed?.as_secs_f64()).min(1.0))
    };
    used().unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{Count, PuId, Scope, sources};

    fn events() -> MapperEvents {
        let of = |activity, add: &[&str], subtract: &[&str]| ActivityEvents {
            activity,
            add: add.iter().map(|&name| name.to_owned()).collect(),
            subtract: subtract.iter().map(|&name| name.to_owned()).collect(),
        };
        MapperEvents {
            cycles: "cycles".to_owned(),
            instructions: None,
            activities: vec![
                of(Activity::InterPackageCoherence, &["HITM", "FWD"], &[]),
                of(Activity::IntraPackageCoherence, &["L2_MISS"], &["L3_HIT", "L3_MISS"]),
            ],
            reads: None,
        }
    }

    fn metric(name: &str) -> Metric {
        Metric {
            name: format!("event:{name}"),
            unit: "event".to_owned(),
            source: &sources::EVENT,
            scope: Scope::Task,
        }
    }

    fn observer() -> Observer {
        let metrics: Vec<Metric> = events().all().into_iter().map(metric).collect();
        Observer::new(&events(), &metrics).unwrap()
    }

    const ID: TaskId = TaskId {
        serial: 0,
        process: 1,
        thread: 1,
    };

    /// At this number of milliseconds: cycles, HITM, FWD, `L2_MISS`, `L3_HIT`, `L3_MISS`.
    fn sample(at: u64, cpu: u64, counts: [Option<Count>; 6]) -> Sample {
        let task = TaskSample {
            id: ID,
            name: "task".to_owned(),
            alive: true,
            cpu_time: Some(Duration::from_millis(cpu)),
            run_delay: None,
            last_pu: Some(PuId(0)),
            counts: counts.to_vec(),
        };
        Sample {
            at: Duration::from_millis(at),
            tasks: vec![task],
            ..Sample::default()
        }
    }

    fn exact(counts: [u64; 6]) -> [Option<Count>; 6] {
        counts.map(|count| Some(Count::exact(count)))
    }

    fn rates(before: &Sample, after: &Sample) -> Vec<TaskRates> {
        observer().rates(before, after, |_| Arc::new(PuSet::new()))
    }

    #[test]
    fn rates_are_sums_and_differences_of_counts_per_unhalted_cycle() {
        let before = sample(0, 0, exact([0; 6]));
        let after = sample(100, 50, exact([1000, 3, 4, 100, 60, 30]));
        let rates = rates(&before, &after);
        assert_eq!(
            (rates[0].inter, rates[0].intra, rates[0].busy),
            (Some(0.007), Some(0.01), 0.5)
        );
        assert_eq!(
            (rates[0].memory, rates[0].remote),
            (None, None),
            "there is no event for them"
        );
    }

    #[test]
    fn lines_from_memory_are_counted_per_unhalted_cycle_where_there_are_events_for_them() {
        let reads = ReadEvents {
            local: vec!["HITM".to_owned(), "FWD".to_owned()],
            remote: vec!["L3_MISS".to_owned()],
        };
        let events = MapperEvents {
            reads: Some(reads),
            ..events()
        };
        let metrics: Vec<Metric> = events.all().into_iter().map(metric).collect();
        let observer = Observer::new(&events, &metrics).unwrap();
        let (before, after) = (
            sample(0, 0, exact([0; 6])),
            sample(100, 50, exact([1000, 3, 4, 100, 60, 30])),
        );
        let found = observer.rates(&before, &after, |_| Arc::new(PuSet::new()));
        let expected = Reads {
            local: 0.007,
            remote: 0.03,
        };
        assert_eq!(found[0].reads, Some(expected));
        assert_eq!(rates(&before, &after)[0].reads, None);
    }

    #[test]
    fn a_counter_that_never_ran_leaves_its_activity_missing_and_no_other() {
        let stopped = Count {
            value: 0,
            enabled: Duration::from_millis(100),
            running: Duration::ZERO,
        };
        let mut counts = exact([1000, 3, 4, 100, 60, 30]);
        counts[2] = Some(stopped);
        let one = rates(&sample(0, 0, exact([0; 6])), &sample(100, 100, counts)).remove(0);
        assert_eq!((one.inter, one.intra), (None, Some(0.01)));
    }

    #[test]
    fn multiplexed_counters_are_scaled() {
        let mut counts = exact([1000, 3, 4, 100, 60, 30]);
        counts[1] = Some(Count {
            value: 3,
            enabled: Duration::from_millis(100),
            running: Duration::from_millis(50),
        });
        let one = rates(&sample(0, 0, exact([0; 6])), &sample(100, 100, counts)).remove(0);
        assert_eq!(one.inter, Some(0.01));
    }

    #[test]
    fn a_clock_that_stands_or_runs_backwards_gives_no_rates_and_a_task_that_holds_its_pu() {
        for at in [100, 50] {
            let after = sample(at, 90, exact([1000, 3, 4, 100, 60, 30]));
            let one = rates(&sample(100, 0, exact([0; 6])), &after).remove(0);
            assert_eq!((one.inter, one.intra, one.busy), (None, None, 1.0));
        }
    }

    #[test]
    fn a_task_that_has_ended_is_left_out_and_one_that_began_has_no_rates() {
        let mut after = sample(100, 50, exact([1000, 3, 4, 100, 60, 30]));
        let one = rates(&Sample::default(), &after).remove(0);
        assert_eq!((one.inter, one.busy), (None, 0.5));
        after.tasks[0].alive = false;
        assert_eq!(rates(&Sample::default(), &after), []);
    }

    #[test]
    fn a_difference_below_zero_is_noise_of_multiplexed_counters() {
        let after = sample(100, 90, exact([1000, 0, 0, 10, 60, 30]));
        assert_eq!(rates(&sample(0, 0, exact([0; 6])), &after)[0].intra, Some(0.0));
    }

    #[test]
    fn an_event_that_is_not_counted_is_named() {
        let error = Observer::new(&events(), &[]).unwrap_err();
        assert!(error.to_string().contains("cycles"), "{error}");
    }
}
