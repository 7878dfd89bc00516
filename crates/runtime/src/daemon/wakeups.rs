//! Rates for machines that have no counters but a scheduler that counts who wakes whom: tasks that wake each other pass
//! data to each other, by a pipe, a socket, a lock or a condition.
//!
//! 1. **Rates of pairs** (`pair_rates`), smoothed.
//! 2. **Rates of tasks.** The rate for coherence between domains is the part of a task's wake-ups whose other task runs in
//!    another last-level-cache domain, and that within the domain is the rest. Both are from 0 to 1 and have no unit. A task
//!    with few wake-ups in a second has a part of that: its waits are too rare to matter.
//! 3. **Groups.** Two tasks are in one group if they wake each other often, and often for one of the two. A group is what is
//!    connected so, across processes: a server with its clients, the stages of a pipeline.
//! 4. Progress is found as with `Sharing`.
//!
//! Wake-ups are measured. That they mean shared data is assumed, and every output says so. Threads that share data and never
//! wait for each other are not seen.

use super::Rates;
use super::pair_rates::PairRates;
use super::progress::ProgressBy;
use super::sharing::{Sharing, domain_of};
use pinfold_core::{HostSample, Metric, TaskId, Topology};
use pinfold_policy::sam::TaskRates;
use std::collections::{BTreeMap, BTreeSet};

/// From this number of wake-ups a second on, a task's rate counts in full.
const IN_FULL: f64 = 200.0;

/// Fewer wake-ups of a pair in a second make no group.
const LEAST: f64 = 20.0;

/// A pair makes a group if it has this share of the wake-ups of one of its tasks.
const OFTEN: f64 = 0.1;

/// Who wakes whom, and what follows from it.
#[derive(Clone, Debug, Default)]
pub struct Wakeups {
    progress: Sharing,
    pairs: PairRates,
}

/// The wake-ups of a thread in a second.
fn all(partners: &BTreeMap<i32, Vec<(i32, f64)>>, thread: i32) -> f64 {
    partners.get(&thread).into_iter().flatten().map(|(_, rate)| rate).sum()
}

/// By thread: the lowest thread of its group; none for a thread in no group.
fn groups(partners: &BTreeMap<i32, Vec<(i32, f64)>>) -> BTreeMap<i32, i32> {
    let mut of: BTreeMap<i32, i32> = BTreeMap::new();
    for &first in partners.keys() {
        if of.contains_key(&first) {
            continue;
        }
        let (mut open, mut members) = (vec![first], BTreeSet::from([first]));
        while let Some(one) = open.pop() {
            for &(other, rate) in partners.get(&one).into_iter().flatten() {
                let often = all(partners, one).min(all(partners, other)) * OFTEN;
                if rate >= LEAST && rate >= often && members.insert(other) {
                    open.push(other);
                }
            }
        }
        if members.len() > 1 {
            of.extend(members.into_iter().map(|member| (member, first)));
        }
    }
    of
}

impl Rates for Wakeups {
    fn rates(
        &mut self,
        topology: &Topology,
        metrics: &[Metric],
        before: &HostSample,
        now: &HostSample,
    ) -> Vec<TaskRates> {
        if let Some(counted) = &now.scheduled {
            self.pairs.read(counted);
        }
        let mut rates = self.progress.rates(topology, metrics, before, now);
        let domains = topology.llc_domains();
        let place: BTreeMap<i32, Option<usize>> = rates
            .iter()
            .map(|one| (one.id.thread, domain_of(topology, &domains, one.pu)))
            .collect();
        let partners = self.pairs.partners(&place.keys().copied().collect());
        let groups = groups(&partners);
        for one in &mut rates {
            let thread = one.id.thread;
            let total = all(&partners, thread);
            let own = place.get(&thread).copied().flatten();
            let near = partners
                .get(&thread)
                .into_iter()
                .flatten()
                .filter(|(other, _)| place.get(other).copied().flatten() == own)
                .fold(0.0, |sum, (_, rate)| sum + rate);
            let much = (total / IN_FULL).min(1.0);
            let share = |some: f64| if total > 0.0 { much * some / total } else { 0.0 };
            let counted = self.pairs.is_read();
            one.inter = counted.then(|| share((total - near).max(0.0)));
            one.intra = counted.then(|| share(near));
            one.group = groups.get(&thread).map(|first| first.unsigned_abs());
        }
        rates
    }

    fn progress(&self) -> &BTreeMap<i32, ProgressBy> {
        self.progress.progress()
    }

    fn functions(&self) -> &BTreeMap<i32, Vec<TaskId>> {
        self.progress.functions()
    }
}

#[cfg(test)]
mod tests {
    use super::super::pair_rates::tests::steady;
    use super::*;

    fn groups_of(pairs: &PairRates) -> BTreeMap<i32, i32> {
        let threads = pairs.rates().keys().flat_map(|&(one, other)| [one, other]).collect();
        groups(&pairs.partners(&threads))
    }

    #[test]
    fn pairs_a_ring_a_pipeline_and_a_server_are_groups() {
        let pairs = steady(&[(1, 2, 500), (3, 4, 500)]);
        assert_eq!(groups_of(&pairs), BTreeMap::from([(1, 1), (2, 1), (3, 3), (4, 3)]));
        let ring = steady(&[(1, 2, 200), (2, 3, 200), (3, 4, 200), (4, 1, 200)]);
        assert_eq!(groups_of(&ring).values().collect::<BTreeSet<_>>().len(), 1);
        let server = steady(&[(1, 2, 50), (1, 3, 60), (1, 4, 5000)]);
        assert_eq!(groups_of(&server).len(), 4, "each client has no other partner");
    }

    #[test]
    fn a_rare_wake_up_joins_no_groups() {
        let wakeups = steady(&[(1, 2, 5000), (3, 4, 5000), (2, 3, 100), (1, 9, 5)]);
        assert_eq!(groups_of(&wakeups), BTreeMap::from([(1, 1), (2, 1), (3, 3), (4, 3)]));
    }
}
