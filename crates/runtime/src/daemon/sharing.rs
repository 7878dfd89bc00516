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
//! Rates that cannot be assumed in this way are missing: remote accesses, bandwidth, instructions.

use super::Rates;
use super::counter_rates::allowed_pus;
use pinfold_core::{Count, HostSample, Metric, ObjectId, PuId, TaskSample, Topology};
use pinfold_policy::sam::TaskRates;
use std::collections::BTreeMap;

/// A thread counts as a working thread of the process when it worked for this share of the interval.
const WORKS: f64 = 0.05;

/// The assumption, and the event that weighs it.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    /// The factor of the shares; without it all working tasks share equally.
    pub event: Option<usize>,
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
                let status = &now.statuses[one.position];
                TaskRates {
                    id: one.task.id,
                    pu: one.pu,
                    allowed: allowed_pus(Some(one.pu), status),
                    busy: one.busy,
                    inter: much.map(|much| much * share(all - near)),
                    intra: much.map(|much| much * share(near)),
                    remote: None,
                    memory: None,
                    instructions: None,
                    reads: None,
                }
            })
            .collect()
    }
}

/// How often an event happened in a second of the task's processor time.
fn a_second_of_work(earlier: &TaskSample, later: &TaskSample, event: usize) -> Option<f64> {
    let count = |task: &TaskSample| -> Option<Count> { *task.counts.get(event)? };
    let grown = count(later)?.since(&count(earlier)?)?;
    let worked = later.cpu_time?.checked_sub(earlier.cpu_time?)?.as_secs_f64();
    (worked > 0.0).then_some(grown / worked)
}

fn domain_of(topology: &Topology, domains: &[ObjectId], pu: PuId) -> Option<usize> {
    domains
        .iter()
        .position(|&domain| topology.object(domain).pus.contains(pu))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{ObjectKind, PuSet, Sample, TaskId, TaskStatus, TopologyBuilder};
    use std::sync::Arc;
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
        let rates = Sharing::default().rates(&machine(), &[], &sample(0, &tasks), &sample(100, &tasks));
        let expected =
            [(0.5, 0.5), (0.5, 0.5), (1.0, 0.0), (0.0, 0.0)].map(|(inter, intra)| (Some(inter), Some(intra)));
        assert_eq!(pairs(&rates), expected);
    }

    #[test]
    fn kin_that_does_not_work_does_not_count() {
        let tasks = [(1, 0, 1.0, 0), (1, 4, 0.01, 0)];
        let rates = Sharing::default().rates(&machine(), &[], &sample(0, &tasks), &sample(100, &tasks));
        assert_eq!(rates[0].inter, Some(0.0));
    }

    #[test]
    fn a_share_is_weighted_by_its_event_and_missing_without_a_count() {
        let mut sharing = Sharing { event: Some(0) };
        let before = sample(100, &[(1, 0, 1.0, 10), (1, 4, 1.0, 10)]);
        let mut now = sample(200, &[(1, 0, 1.0, 60), (1, 4, 1.0, 10)]);
        now.sample.tasks[1].counts = vec![None];
        // Fifty in a tenth of a second, and all other threads of the process run elsewhere.
        let rates = sharing.rates(&machine(), &[], &before, &now);
        assert_eq!(rates[0].inter, Some(500.0));
        assert_eq!(pairs(&rates)[1], (None, None));
    }

    #[test]
    fn a_task_that_is_left_alone_allowed_pus_where_it_is_and_nowhere_else() {
        let tasks = [(1, 0, 1.0, 0)];
        let mut now = sample(100, &tasks);
        now.statuses[0].left_alone = Some(pinfold_core::LeftAlone::OwnMask);
        let rates = Sharing::default().rates(&machine(), &[], &sample(0, &tasks), &now);
        assert_eq!(rates[0].allowed.to_string(), "0");
    }
}
