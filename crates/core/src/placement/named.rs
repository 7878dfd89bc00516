//! Placements with names that users know from elsewhere.

use crate::hint::{AffinityHint, ParseAffinityHintError};
use crate::thread_map::{map_over_nodes, shares};
use crate::{ObjectKind, Pinning, PuId, ThreadMap, Topology};
use std::fmt;
use std::str::FromStr;

/// A placement of any number of threads on any machine, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedPlacement {
    /// That of an affinity hint; `packed` and `distributed` are two of them.
    Hint(AffinityHint),
    /// Neighbouring threads on neighbouring cores: `OMP_PROC_BIND=close` with `OMP_PLACES=cores`, where the primary
    /// thread is on the first core (OpenMP 5.2, section 10.1.3).
    Close,
    /// Threads as far apart as possible in the order of the cores: `OMP_PROC_BIND=spread` with `OMP_PLACES=cores`
    /// (OpenMP 5.2, section 10.1.3). Where the standard leaves open which parts are larger, the first ones are, as in
    /// GCC's libgomp.
    Spread,
    /// A thread map over as many nodes as there are threads for.
    Map(ThreadMap),
}

impl NamedPlacement {
    /// Where `threads` threads run. With more threads than PUs each PU has a rank, and the pinning repeats.
    pub fn pinning(self, topology: &Topology, threads: usize) -> Pinning {
        let threads = threads.clamp(1, topology.allowed_pus().len());
        let pinning = match self {
            Self::Hint(hint) => hint.pinning(topology, threads).ok(),
            Self::Close => None,
            Self::Spread => Pinning::new(in_parts(&cores(topology), threads)),
            Self::Map(map) => map_over_nodes(topology, threads, map),
        };
        let close = || Pinning::new(deal_to_places(&cores(topology), threads));
        pinning.or_else(close).expect("there is an allowed PU")
    }

    /// The PUs of ranks while the number of threads is unknown: one thread on each core, so that the first ranks are
    /// where this placement puts a small number of threads. `None` if this placement then moves the first ranks apart.
    pub fn on_all_cores(self, topology: &Topology) -> Option<Pinning> {
        match self {
            Self::Hint(hint) if hint.spread_across_packages || hint.spread_across_llcs => None,
            Self::Spread => None,
            _ => Some(self.pinning(topology, cores(topology).len())),
        }
    }
}

/// The allowed PUs of each core that has any, in the order of the topology; a PU without a core counts as a core.
pub(crate) fn cores(topology: &Topology) -> Vec<Vec<PuId>> {
    let allowed = topology.allowed_pus();
    let cores = topology.objects_of(ObjectKind::Core);
    let mut places: Vec<Vec<PuId>> = cores
        .map(|(_, core)| core.pus.iter().filter(|&pu| allowed.contains(pu)).collect())
        .filter(|pus: &Vec<PuId>| !pus.is_empty())
        .collect();
    let outside = allowed.iter().filter(|pu| !places.iter().flatten().any(|of| of == pu));
    let outside: Vec<Vec<PuId>> = outside.map(|pu| vec![pu]).collect();
    places.extend(outside);
    places
}

/// The number of `all` that part `part` of `parts` has: the first parts have one more where the division leaves a rest.
fn share(all: usize, parts: usize, part: usize) -> usize {
    all / parts + usize::from(part < all % parts)
}

/// Consecutive threads on each place in turn: one on each of the first places if there are enough places. Otherwise
/// each place has equally many, on its PUs in turn, but not more than it has PUs while another place has an idle PU.
fn deal_to_places(places: &[Vec<PuId>], threads: usize) -> Vec<PuId> {
    let used = &places[..places.len().min(threads)];
    let on_place = |(place, of_place): (&Vec<PuId>, usize)| -> Vec<PuId> {
        place.iter().copied().cycle().take(of_place).collect()
    };
    used.iter().zip(shares(threads, used)).flat_map(on_place).collect()
}

/// The first place of each of as many parts of consecutive places as there are threads; with more threads than places
/// as
/// `by_place`.
fn in_parts(places: &[Vec<PuId>], threads: usize) -> Vec<PuId> {
    if threads > places.len() {
        return deal_to_places(places, threads);
    }
    let mut first = 0;
    let part = |part| {
        let pu = places[first][0];
        first += share(places.len(), threads, part);
        pu
    };
    (0..threads).map(part).collect()
}

impl FromStr for NamedPlacement {
    type Err = ParseAffinityHintError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Ok(match name {
            "packed" => Self::Hint(AffinityHint::PACKED),
            "distributed" => Self::Hint(AffinityHint::DISTRIBUTED),
            "close" => Self::Close,
            "spread" => Self::Spread,
            "compact" => Self::Map(ThreadMap::Compact),
            "scatter" => Self::Map(ThreadMap::Scatter),
            hint => Self::Hint(hint.parse()?),
        })
    }
}

/// What it is, for messages: `hint SLP`, or the name.
impl fmt::Display for NamedPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hint(hint) => write!(f, "affinity hint {hint}"),
            Self::Close => f.write_str("placement close"),
            Self::Spread => f.write_str("placement spread"),
            Self::Map(map) => write!(f, "placement {map}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NodeId, NumaNode, PuSet, TopologyBuilder};
    use proptest::prelude::*;

    /// Two packages, each a node, of three cores with two PUs; the second PUs are numbered after all first ones.
    fn machine(allowed: impl IntoIterator<Item = u32>) -> Topology {
        let mut builder = TopologyBuilder::new("two");
        for package in 0..2 {
            let object = builder.object(builder.root(), ObjectKind::Package, Some(package));
            let mut pus = PuSet::new();
            for core in 3 * package..3 * package + 3 {
                let parent = builder.object(object, ObjectKind::Core, Some(core));
                for pu in [core, core + 6] {
                    builder.pu(parent, PuId(pu));
                    pus.extend([PuId(pu)]);
                }
            }
            builder.node(NumaNode {
                id: NodeId(package),
                attached_to: object,
                pus,
                memory: Some(1),
                subtype: None,
            });
        }
        let allowed: PuSet = allowed.into_iter().map(PuId).collect();
        builder.build(&allowed, &[NodeId(0), NodeId(1)]).unwrap()
    }

    fn pus(name: &str, topology: &Topology, threads: usize) -> String {
        let placement: NamedPlacement = name.parse().unwrap();
        placement.pinning(topology, threads).to_string()
    }

    #[test]
    fn close_takes_the_next_core_and_then_fills_each_core() {
        let all = machine(0..12);
        assert_eq!(pus("close", &all, 4), "0-3");
        // Eight threads on six cores: the first two cores have two.
        assert_eq!(pus("close", &all, 8), "0,6,1,7,2-5");
    }

    #[test]
    fn spread_takes_the_first_core_of_each_part() {
        let all = machine(0..12);
        assert_eq!(pus("spread", &all, 2), "0,3");
        assert_eq!(pus("spread", &all, 3), "0,2,4");
        // Parts of two, two, one and one cores, the larger ones first.
        assert_eq!(pus("spread", &all, 4), "0,2,4,5");
        assert_eq!(pus("spread", &all, 8), pus("close", &all, 8));
    }

    #[test]
    fn packed_and_distributed_are_hints_and_compact_and_scatter_thread_maps() {
        let all = machine(0..12);
        assert_eq!(pus("packed", &all, 3), pus("slp", &all, 3));
        assert_eq!(pus("distributed", &all, 3), pus("SLP", &all, 3));
        assert_eq!(pus("compact", &all, 4), "0,1,3,4");
        assert_eq!(pus("scatter", &all, 4), "0,3,1,4");
    }

    #[test]
    fn cores_without_an_allowed_pu_are_no_places() {
        let some = machine([1, 7, 4]);
        assert_eq!(pus("close", &some, 2), "1,4");
        assert_eq!(pus("close", &some, 3), "1,7,4");
    }

    #[test]
    fn a_core_with_one_allowed_pu_has_one_thread_while_another_core_has_an_idle_pu() {
        let some = machine([0, 1, 7]);
        for name in ["close", "spread"] {
            assert_eq!(pus(name, &some, 3), "0,1,7", "{name}");
        }
    }

    #[test]
    fn before_the_number_is_known_the_first_ranks_are_where_few_threads_belong() {
        let all = machine(0..12);
        let first = |name: &str| name.parse::<NamedPlacement>().unwrap().on_all_cores(&all);
        for (name, expected) in [
            ("packed", "0-5"),
            ("close", "0-5"),
            ("compact", "0-5"),
            ("scatter", "0,3,1,4,2,5"),
        ] {
            assert_eq!(first(name).unwrap().to_string(), expected, "{name}");
        }
        assert_eq!(["spread", "distributed"].map(first), [None, None]);
    }

    #[test]
    fn an_unknown_name_is_no_placement() {
        assert!("closed".parse::<NamedPlacement>().is_err());
    }

    proptest! {
        #[test]
        fn as_many_threads_as_fit_get_pus_that_are_allowed(
            allowed in proptest::collection::btree_set(0u32..12, 1..12), threads in 1usize..20,
            name in proptest::sample::select(vec!["packed", "distributed", "close", "spread", "compact", "scatter"])
        ) {
            let topology = machine(allowed.iter().copied());
            let placement: NamedPlacement = name.parse().unwrap();
            let pinning = placement.pinning(&topology, threads);
            prop_assert_eq!(pinning.pus().len(), threads.min(allowed.len()));
            prop_assert!(pinning.pus().iter().all(|pu| allowed.contains(&pu.0)));
        }
    }
}
