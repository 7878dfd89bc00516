//! Proposals: placements of threads and pages, each with the reason why it may be faster.
//!
//! A placement that several sources propose is tried once. The belief says which one is next (`expectations`). Where it
//! expects the same of several, the most trusted source comes first: earlier runs of this program, then rules and models
//! that were learned from others, then the program's own counts, then the placements of the topology that differ most.

use super::placement::Placement;
use crate::classify::{Pages, Strategy};
use crate::rules::Rules;
use crate::rules::observed::verdict;
use pinfold_core::hint::AffinityHint;
use pinfold_core::placement::NamedPlacement;
use pinfold_core::placement::different;
use pinfold_core::{Observed, PageMapping, Pinning, ProposerCode, ThreadMap, Topology, map_over_nodes};
use std::collections::HashSet;

/// The number of placements of the topology, with the named ones.
const OF_TOPOLOGY: usize = 8;

/// The named placements that users and runtimes choose, in the order of their trials. The first one puts equally
/// many neighbouring threads on each package. The second one puts all threads on as few packages as possible.
const NAMED: [NamedPlacement; 6] = [
    NamedPlacement::Hint(AffinityHint::DISTRIBUTED),
    NamedPlacement::Close,
    NamedPlacement::Map(ThreadMap::Compact),
    NamedPlacement::Map(ThreadMap::Scatter),
    NamedPlacement::Spread,
    NamedPlacement::Hint(AffinityHint::PACKED),
];

/// The number of placements that neighbours are taken from.
const POOL: usize = 48;

/// The memory of the nodes is used unevenly if the busiest one carries more than this multiple of the mean. Assumed.
const UNEVEN: f64 = 1.25;

/// Pages are interleaved only if the program uses memory: the busiest node carries more than this share of its
/// bandwidth. Assumed.
const USED: f64 = 0.03;

/// The load over the load that misses show, if the reads of prefetchers are not counted. The misses of a program that
/// goes through its memory show a tenth of its load. A program that reads anywhere shows all of it, so its load is
/// overestimated.
const OVER_MISSES: f64 = 10.0;

/// A placement, and the reason to try it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Proposal {
    pub(super) placement: Placement,
    /// The source.
    pub(super) by: ProposerCode,
    /// The expected gain over the unpinned program; `None` without a forecast.
    pub(super) gain: Option<f64>,
    pub(super) why: String,
}

/// The hint of learned rules for these rates, and its placement.
pub(super) fn from_rules(
    rules: &Rules,
    observed: &[Observed],
    topology: &Topology,
    threads: usize,
) -> Option<(AffinityHint, Proposal)> {
    let verdict = verdict(rules, observed, threads);
    let hint: AffinityHint = verdict.outcome.class.parse().ok()?;
    let proposal = Proposal {
        placement: Placement::pinned(NamedPlacement::Hint(hint).pinning(topology, threads)),
        by: ProposerCode::Hints,
        gain: None,
        why: format!("learned rules ask for hint {hint}: {verdict}"),
    };
    Some((hint, proposal))
}

/// Interleaved pages, if one node's memory carries more than the others. The expected gain is the load of the busiest
/// memory, times the gain if this memory alone decides the speed. If the reads of prefetchers are not counted, misses
/// show a part of the load (`OVER_MISSES`).
pub(super) fn from_imbalance(value: impl Fn(&str) -> Option<f64>) -> Option<Proposal> {
    let read = value("busiest_read_load").zip(value("read_imbalance"));
    let missed = || Some((value("busiest_memory_load")? * OVER_MISSES, value("memory_imbalance")?));
    let (load, over_mean) = read.or_else(missed)?;
    let gain = load.min(1.0) * (over_mean - 1.0);
    let about = if read.is_some() { "" } else { "about " };
    (load > USED && over_mean > UNEVEN).then(|| Proposal {
        placement: Placement::default().with_pages(Some(PageMapping::Interleave)),
        by: ProposerCode::Contention,
        gain: Some(gain),
        why: format!(
            "the busiest node's memory carries {about}{load:.2} of what it can, and {over_mean:.1} times as much as the \
             mean, so pages belong on all nodes"
        ),
    })
}

/// Whether all memories are known to carry about as much as the busiest one.
pub(super) fn is_even(value: impl Fn(&str) -> Option<f64>) -> bool {
    let over_mean = value("read_imbalance").or_else(|| value("memory_imbalance"));
    over_mean.is_some_and(|over_mean| over_mean <= UNEVEN)
}

/// The named placements, and then the placements of the topology that differ most. The first of the latter separates
/// neighbouring threads, and comes second. The list is empty if all placements are alike.
pub(super) fn from_topology(topology: &Topology, threads: usize) -> Vec<Proposal> {
    let named = NAMED.map(|name| (name.pinning(topology, threads), format!("it is {name}")));
    let different = different::from_topology(topology, threads, OF_TOPOLOGY).into_iter();
    let mut different = different.map(|pinning| {
        let why = "it is one of the placements of this topology that differ most";
        (pinning, why.to_owned())
    });
    let (Some(apart), true) = (different.next(), different.len() > 0) else {
        return vec![];
    };
    let mut all: Vec<(Pinning, String)> = named.into_iter().chain(different).collect();
    all.insert(1, apart);
    let mut seen = HashSet::new();
    all.retain(|(pinning, _)| seen.insert(pinning.clone()));
    let proposals = all.into_iter().take(OF_TOPOLOGY).map(|(pinning, why)| Proposal {
        placement: Placement::pinned(pinning),
        by: ProposerCode::Topology,
        gain: None,
        why,
    });
    proposals.collect()
}

/// The placements of all affinity hints. The two that one chooses between without counts come first.
pub(super) fn hints(topology: &Topology, threads: usize) -> Vec<Proposal> {
    let first = [AffinityHint::DISTRIBUTED, AffinityHint::PACKED];
    let rest = AffinityHint::ALL.into_iter().filter(move |hint| !first.contains(hint));
    let proposal = |hint| Proposal {
        placement: Placement::pinned(NamedPlacement::Hint(hint).pinning(topology, threads)),
        by: ProposerCode::Topology,
        gain: None,
        why: format!("it is hint {hint}"),
    };
    first.into_iter().chain(rest).map(proposal).collect()
}

/// The strategies of threads and pages that this machine has.
pub(super) fn strategies(topology: &Topology, threads: usize, interleaves: bool) -> Vec<Proposal> {
    let all = ThreadMap::ALL
        .into_iter()
        .flat_map(|threads| [Pages::FirstTouch, Pages::Interleave].map(|pages| Strategy { threads, pages }));
    let proposal = |strategy: Strategy| {
        let pages = match strategy.pages {
            Pages::FirstTouch => None,
            Pages::Interleave => Some(PageMapping::Interleave).filter(|_| interleaves),
        };
        Some(Proposal {
            placement: Placement::pinned(map_over_nodes(topology, threads, strategy.threads)?).with_pages(pages),
            by: ProposerCode::Topology,
            gain: None,
            why: format!("it is the strategy {strategy}"),
        })
    };
    all.filter(|strategy| interleaves || strategy.pages == Pages::FirstTouch)
        .filter_map(proposal)
        .collect()
}

/// Placements by their distance from `best`, the nearest first: other numbers of threads in a domain, and other orders
/// of the ranks.
pub(super) fn neighbours(topology: &Topology, threads: usize, best: &Pinning) -> Vec<Pinning> {
    let mut pool = different::most_different(topology, threads, POOL);
    pool.retain(|pinning| pinning != best);
    pool.sort_by_cached_key(|pinning| pinfold_core::placement::distance(topology, best, pinning));
    pool
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::synthetic;

    /// Packages with a node of two cores each.
    fn packages(number: u32) -> Topology {
        synthetic(&format!("package:{number} numa:1 core:2 pu:1"))
    }

    fn machine() -> Topology {
        packages(2)
    }

    fn values<'a>(list: &'a [(&'a str, f64)]) -> impl Fn(&str) -> Option<f64> + 'a {
        |name| list.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
    }

    #[test]
    fn pages_belong_on_all_nodes_if_one_carries_more_than_it_can() {
        let uneven = [("busiest_memory_load", 0.09), ("memory_imbalance", 2.0)];
        let proposal = from_imbalance(values(&uneven)).unwrap();
        assert_eq!(proposal.placement.pages, Some(PageMapping::Interleave));
        assert!((proposal.gain.unwrap() - 0.9).abs() < 1e-12);
        assert!(proposal.why.contains("about 0.90"), "{}", proposal.why);
        for calm in [
            [("busiest_memory_load", 0.002), ("memory_imbalance", 2.0)],
            [("busiest_memory_load", 0.9), ("memory_imbalance", 1.1)],
        ] {
            assert_eq!(from_imbalance(values(&calm)), None);
        }
        assert_eq!(from_imbalance(values(&uneven[..1])), None);
        // Without counts nothing is known.
        let even = [("memory_imbalance", 1.1)];
        assert!(is_even(values(&even)) && !is_even(values(&uneven)) && !is_even(values(&[])));
        // The reads of prefetchers count, too, if they are known.
        let read = [("busiest_read_load", 0.5), ("read_imbalance", 1.5)];
        let proposal = from_imbalance(values(&[uneven, read].concat())).unwrap();
        assert!((proposal.gain.unwrap() - 0.25).abs() < 1e-12);
        let calm = [("busiest_read_load", 0.02), ("read_imbalance", 2.0)];
        assert_eq!(from_imbalance(values(&calm)), None);
    }

    #[test]
    fn neighbours_lack_the_best_itself_and_the_nearest_are_first() {
        let machine = machine();
        let best = from_topology(&machine, 2).remove(0).placement.pinning.unwrap();
        let near = neighbours(&machine, 2, &best);
        assert!(!near.contains(&best) && !near.is_empty());
        let distances: Vec<u64> = near
            .iter()
            .map(|one| pinfold_core::placement::distance(&machine, &best, one))
            .collect();
        assert!(distances.is_sorted(), "{distances:?}");
    }

    #[test]
    fn the_extremes_come_first_and_each_placement_once() {
        let first: Vec<String> = from_topology(&packages(4), 4)
            .iter()
            .map(|one| one.placement.to_string())
            .collect();
        assert_eq!(first[..2], ["0,2,4,6", "0-3"].map(str::to_owned), "{first:?}");
        let different: HashSet<&String> = first.iter().collect();
        assert_eq!(different.len(), first.len());
        assert!(first.len() <= OF_TOPOLOGY);
    }

    #[test]
    fn a_machine_on_which_all_placements_are_alike_proposes_nothing() {
        assert_eq!(from_topology(&packages(1), 2), []);
    }
}
