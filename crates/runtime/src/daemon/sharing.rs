//! Rates for machines that have no counters: the threads of one process are assumed to share data.
//!
//! Only the CPUs of the threads are known. How much they really share is not measured. It is an assumption, and every
//! output says so.
//!
//! The rate of a task for coherence between domains is the share of the other working threads of its process that run
//! in another last-level-cache domain. The rate within the domain is the share that runs in its own domain. Both are
//! from 0 to 1 and have no unit. With `event` the shares are multiplied by the rate of that event in the task, per
//! second of its processor time. An example is `context-switches`: tasks that wait for each other have many of them.
//!
//! The progress of a task is its part of the bytes that its process reads and writes (`flows`), or else of the calls of
//! a function of it (`functions`). It is shared equally between the working tasks: one task may read and write for all
//! of them.
//!
//! Rates that cannot be assumed in this way are missing: remote accesses and bandwidth.

use super::Rates;
use super::counter_rates::allowed_pus;
use super::flows::{Flows, Paces, Progress};
use super::functions::{Candidate, Functions, Shown};
use super::progress::ProgressBy;
use pinfold_core::{Count, HostSample, Metric, ObjectId, PuId, TaskId, TaskSample, TaskStatus, Topology};
use pinfold_policy::sam::TaskRates;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A thread counts as a working thread of the process when it worked for this share of the interval.
const WORKS: f64 = 0.05;

/// The assumption, and the event that weighs it.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    event: Option<usize>,
    flows: Flows,
    functions: Functions,
    /// What the progress of each process was measured by in the last interval.
    measured_by: BTreeMap<i32, ProgressBy>,
}

impl Sharing {
    /// All working tasks of a process share equally.
    pub fn equal() -> Self {
        Self::default()
    }

    /// The shares are multiplied by the rate of the event at this position of a task's counts.
    pub fn weighed_by(event: usize) -> Self {
        Self {
            event: Some(event),
            ..Self::default()
        }
    }
}

impl Sharing {
    /// The progress of each process between two samples: by its bytes, or else by its function.
    fn progress_of_processes(
        &mut self,
        topology: &Topology,
        before: &HostSample,
        now: &HostSample,
    ) -> BTreeMap<i32, Progress> {
        let paces = Paces::new(topology, before, now);
        let mut progress = self.flows.progress(before, now, &paces);
        let mut candidates = BTreeMap::new();
        for (process, tasks) in working_tasks(now) {
            match progress.get(&process) {
                Some(Progress::Undecided) => {}
                Some(Progress::Rate(_)) => self.functions.stop(process, now.sample.at),
                Some(Progress::Unknown) | None => {
                    candidates.insert(process, candidate(&tasks, paces.are_own(process)));
                }
            }
        }
        self.measured_by = progress
            .iter()
            .filter(|(_, one)| matches!(one, Progress::Rate(_)))
            .map(|(&process, _)| (process, ProgressBy::Bytes))
            .collect();
        for (process, shown) in self.functions.progress(before, now, &candidates) {
            let shown = match shown {
                Shown::Undecided => Progress::Undecided,
                Shown::Calls(calls) => Progress::Rate(calls),
                Shown::Nothing => Progress::Unknown,
            };
            progress.insert(process, shown);
        }
        for &process in candidates.keys() {
            let by = match (progress.get(&process), self.functions.found(process)) {
                (Some(Progress::Undecided), _) => continue,
                (Some(Progress::Rate(_)), Some(function)) => ProgressBy::Function(function.clone()),
                _ => ProgressBy::Nothing {
                    why: self.functions.why_none(process).map(ToOwned::to_owned),
                },
            };
            self.measured_by.insert(process, by);
        }
        progress
    }
}

/// The working tasks of each process.
fn working_tasks(now: &HostSample) -> BTreeMap<i32, Vec<(&TaskSample, &TaskStatus)>> {
    let mut working: BTreeMap<i32, Vec<_>> = BTreeMap::new();
    for (task, status) in now.sample.tasks.iter().zip(&now.statuses) {
        if status.busy.is_some_and(|busy| busy >= WORKS) {
            working.entry(task.id.process).or_default().push((task, status));
        }
    }
    working
}

/// A function of a process is looked for if several of its tasks work and may be moved: others are not compared.
fn candidate(tasks: &[(&TaskSample, &TaskStatus)], sets_pace: bool) -> Candidate {
    let movable = tasks.iter().filter(|(_, status)| status.left_alone.is_none()).count();
    let mut busiest_first = tasks.to_vec();
    let busy = |status: &TaskStatus| status.busy.unwrap_or(0.0);
    busiest_first.sort_by(|(_, one), (_, other)| busy(other).total_cmp(&busy(one)));
    Candidate {
        tasks: busiest_first.iter().map(|(task, _)| task.id).collect(),
        may_search: sets_pace && movable > 1,
        sets_pace,
    }
}

/// A task whose place is known.
struct Located<'a> {
    position: usize,
    task: &'a TaskSample,
    pu: PuId,
    domain: usize,
    busy: f64,
}

impl Rates for Sharing {
    fn rates(&mut self, topology: &Topology, _: &[Metric], before: &HostSample, now: &HostSample) -> Vec<TaskRates> {
        let domains = topology.llc_domains();
        let located: Vec<Located<'_>> = now
            .sample
            .tasks
            .iter()
            .zip(&now.statuses)
            .enumerate()
            .filter_map(|(position, (task, status))| {
                let pu = task.last_pu?;
                Some(Located {
                    position,
                    task,
                    pu,
                    domain: domain_of(topology, &domains, pu)?,
                    busy: status.busy?,
                })
            })
            .collect();
        // By process and domain: how many work.
        let mut working: BTreeMap<(i32, usize), usize> = BTreeMap::new();
        let mut together: BTreeMap<i32, usize> = BTreeMap::new();
        for one in located.iter().filter(|one| one.busy >= WORKS) {
            *working.entry((one.task.id.process, one.domain)).or_default() += 1;
            *together.entry(one.task.id.process).or_default() += 1;
        }
        let progress = self.progress_of_processes(topology, before, now);
        let earlier = before
            .sample
            .tasks
            .iter()
            .map(|task| (task.id, task))
            .collect::<BTreeMap<_, _>>();
        located
            .iter()
            .map(|one| {
                let itself = usize::from(one.busy >= WORKS);
                let process = one.task.id.process;
                let all = together.get(&process).copied().unwrap_or(0) - itself;
                let near = working.get(&(process, one.domain)).copied().unwrap_or(0) - itself;
                let much = match self.event {
                    None => Some(1.0),
                    Some(event) => earlier
                        .get(&one.task.id)
                        .and_then(|earlier| a_second_of_work(earlier, one.task, event)),
                };
                let share = |some: usize| if all == 0 { 0.0 } else { some as f64 / all as f64 };
                let working_in = |process| together.get(&process).copied().unwrap_or(0) as f64;
                let shown = progress.get(&process);
                let status = &now.statuses[one.position];
                TaskRates {
                    id: one.task.id,
                    pu: one.pu,
                    allowed: match shown {
                        Some(Progress::Undecided) => Arc::new([one.pu].into_iter().collect()),
                        _ => allowed_pus(Some(one.pu), status),
                    },
                    busy: one.busy,
                    inter: much.map(|much| much * share(all - near)),
                    intra: much.map(|much| much * share(near)),
                    remote: None,
                    memory: None,
                    progress: match shown {
                        Some(Progress::Rate(rate)) if itself == 1 => Some(rate / working_in(process) / one.busy),
                        Some(Progress::Rate(_)) => Some(0.0),
                        Some(Progress::Undecided | Progress::Unknown) | None => None,
                    },
                    group: None,
                    reads: None,
                }
            })
            .collect()
    }

    fn progress(&self) -> &BTreeMap<i32, ProgressBy> {
        &self.measured_by
    }

    fn functions(&self) -> &BTreeMap<i32, Vec<TaskId>> {
        self.functions.requested()
    }
}

/// How often an event happened in a second of the task's processor time.
fn a_second_of_work(earlier: &TaskSample, later: &TaskSample, event: usize) -> Option<f64> {
    let count = |task: &TaskSample| -> Option<Count> { *task.counts.get(event)? };
    let grown = count(later)?.since(&count(earlier)?)?;
    let worked = later.cpu_time?.checked_sub(earlier.cpu_time?)?.as_secs_f64();
    (worked > 0.0).then_some(grown / worked)
}

pub(super) fn domain_of(topology: &Topology, domains: &[ObjectId], pu: PuId) -> Option<usize> {
    domains
        .iter()
        .position(|&domain| topology.object(domain).pus.contains(pu))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{ObjectKind, PuSet, Sample, TopologyBuilder};
    use std::time::Duration;

    /// Two packages of four PUs.
    fn machine() -> Topology {
        let mut builder = TopologyBuilder::new("pair");
        let root = builder.root();
        for package in 0..2 {
            let object = builder.object(root, ObjectKind::Package, Some(package));
            for pu in 0..4 {
                let core = builder.object(object, ObjectKind::Core, Some(pu));
                builder.pu(core, PuId(package * 4 + pu));
            }
        }
        builder.build_all().unwrap()
    }

    /// Tasks given as process, PU, share of time worked, and total of the event.
    fn sample(at: u64, tasks: &[(i32, u32, f64, u64)]) -> HostSample {
        let all: PuSet = "0-7".parse().unwrap();
        let mut sample = HostSample {
            sample: Sample {
                at: Duration::from_millis(at),
                ..Sample::default()
            },
            ..HostSample::default()
        };
        for (serial, &(process, pu, busy, events)) in (0..).zip(tasks) {
            sample.sample.tasks.push(TaskSample {
                id: TaskId {
                    serial,
                    process,
                    thread: i32::try_from(serial).unwrap() + 100,
                },
                name: String::new(),
                alive: true,
                cpu_time: Some(Duration::from_millis(at)),
                run_delay: None,
                last_pu: Some(PuId(pu)),
                counts: vec![Some(Count::exact(events))],
            });
            sample.statuses.push(TaskStatus {
                allowed: Arc::new(all.clone()),
                pinned: None,
                left_alone: None,
                busy: Some(busy),
                container: None,
            });
        }
        sample
    }

    fn pairs(rates: &[TaskRates]) -> Vec<(Option<f64>, Option<f64>)> {
        rates.iter().map(|rates| (rates.inter, rates.intra)).collect()
    }

    #[test]
    fn the_share_of_kin_elsewhere_is_the_traffic_between_domains() {
        let tasks = [(1, 0, 1.0, 0), (1, 1, 1.0, 0), (1, 4, 1.0, 0), (2, 5, 1.0, 0)];
        let rates = Sharing::equal().rates(&machine(), &[], &sample(0, &tasks), &sample(100, &tasks));
        let expected =
            [(0.5, 0.5), (0.5, 0.5), (1.0, 0.0), (0.0, 0.0)].map(|(inter, intra)| (Some(inter), Some(intra)));
        assert_eq!(pairs(&rates), expected);
    }

    #[test]
    fn kin_that_does_not_work_does_not_count() {
        let tasks = [(1, 0, 1.0, 0), (1, 4, 0.01, 0)];
        let rates = Sharing::equal().rates(&machine(), &[], &sample(0, &tasks), &sample(100, &tasks));
        assert_eq!(rates[0].inter, Some(0.0));
    }

    #[test]
    fn a_share_is_weighted_by_its_event_and_missing_without_a_count() {
        let mut sharing = Sharing::weighed_by(0);
        let before = sample(100, &[(1, 0, 1.0, 10), (1, 4, 1.0, 10)]);
        let mut now = sample(200, &[(1, 0, 1.0, 60), (1, 4, 1.0, 10)]);
        now.sample.tasks[1].counts = vec![None];
        // Fifty in a tenth of a second, and all other threads of the process run elsewhere.
        let rates = sharing.rates(&machine(), &[], &before, &now);
        assert_eq!(rates[0].inter, Some(500.0));
        assert_eq!(pairs(&rates)[1], (None, None));
    }

    /// The progress of the first task after a number of intervals in which its process moves bytes, and whether the
    /// task may be moved. `bytes`: the total after each interval. The other task of the process reads and writes.
    fn after(intervals: u64, busy: f64, bytes: impl Fn(u64) -> u64) -> (Option<f64>, bool) {
        let tasks = [(1, 0, busy, 0), (1, 4, busy, 0)];
        let with_bytes = |interval: u64| HostSample {
            bytes: BTreeMap::from([(1, bytes(interval))]),
            ..sample(100 * interval, &tasks)
        };
        let mut sharing = Sharing::equal();
        let mut last = vec![];
        for interval in 1..=intervals {
            last = sharing.rates(&machine(), &[], &with_bytes(interval - 1), &with_bytes(interval));
        }
        (
            last[0].progress.map(|progress| progress * last[0].busy),
            last[0].allowed.len() > 1,
        )
    }

    #[test]
    fn bytes_are_progress_shared_by_the_working_tasks_after_two_seconds() {
        assert_eq!(after(19, 1.0, |interval| 1000 * interval), (None, false));
        let (progress, may_move) = after(20, 1.0, |interval| 1000 * interval);
        assert!((progress.unwrap() - 5000.0).abs() < 1e-6, "{progress:?}");
        assert!(may_move);
    }

    #[test]
    fn bytes_in_bursts_and_those_of_a_process_that_waits_are_no_progress() {
        assert_eq!(after(30, 1.0, |interval| 10_000 * (interval / 10)), (None, true));
        assert_eq!(after(30, 0.3, |interval| 1000 * interval), (None, true));
        assert_eq!(after(30, 1.0, |_| 77), (None, true));
        // The process has read its input.
        assert_eq!(after(60, 1.0, |interval| 1000 * interval.min(50)), (None, true));
    }

    #[test]
    fn a_task_that_is_left_alone_allowed_pus_where_it_is_and_nowhere_else() {
        let tasks = [(1, 0, 1.0, 0)];
        let mut now = sample(100, &tasks);
        now.statuses[0].left_alone = Some(pinfold_core::LeftAlone::OwnMask);
        let rates = Sharing::equal().rates(&machine(), &[], &sample(0, &tasks), &now);
        assert_eq!(rates[0].allowed.to_string(), "0");
    }
}
