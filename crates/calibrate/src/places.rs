//! The PUs for SAM's microbenchmarks: two cores that share a last-level cache, two that do not, and the cores of a
//! package. Pure.

use pinfold_core::measurement::Relation;
use pinfold_core::{ObjectKind, PuId, PuSet, Topology};

/// The assumed size in bytes of a last-level cache, if the machine reports none.
const UNKNOWN_CACHE: u64 = 32 << 20;

/// The PUs for the microbenchmarks. All are allowed, and no two of them are on one core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Two PUs under one last-level cache.
    pub together: [PuId; 2],
    /// The first of these, and a PU under another last-level cache.
    pub apart: [PuId; 2],
    /// The relation of the two PUs in `apart`. They are in different packages if there are several.
    pub relation: Relation,
    /// One PU of each allowed core, in the package that has the most of them.
    pub package: Vec<PuId>,
    /// The number of cores of that package, whether they are allowed or not.
    pub cores: usize,
}

/// Why a machine has no such PUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacesError {
    /// There is one last-level cache.
    #[error(
        "this machine has one last-level cache for all of its CPUs, so the distance between two CPUs makes no difference: there is \
         no coherence between caches to measure, and nothing for SAM to do"
    )]
    OneDomain,
    /// The allowed CPUs are under one last-level cache.
    #[error(
        "only CPUs {allowed} may be used, all of them under one of this machine's {domains} last-level caches; let \
         pinfold use CPUs of another as well (taskset, or the cpuset of the container)"
    )]
    OneAllowed {
        /// The CPUs.
        allowed: PuSet,
        /// The number of last-level caches.
        domains: usize,
    },
    /// Every core has its own last-level cache.
    #[error(
        "every core of this machine has its own last-level cache, so all distances are alike: there \
         is no coherence within one cache for comparison, and nothing for SAM to do"
    )]
    OneCoreEach,
    /// No last-level cache has two allowed cores.
    #[error(
        "only CPUs {allowed} may be used, no two of them on different cores under one last-level cache; let pinfold \
         use two cores of one as well (taskset, or the cpuset of the container)"
    )]
    OneCoreAllowed {
        /// The CPUs.
        allowed: PuSet,
    },
}

impl Places {
    /// The PUs for this machine, from the allowed ones.
    pub fn of(topology: &Topology) -> Result<Self, PlacesError> {
        let usable = one_a_core(topology, topology.allowed_pus());
        let (together, apart, relation) = pairs(topology, &usable).ok_or_else(|| lacking(topology))?;
        let (package, cores) = largest_package(topology, &usable);
        Ok(Self {
            together,
            apart,
            relation,
            package,
            cores,
        })
    }

    /// The sum of the sizes of these PUs' last-level caches, each counted once, in bytes.
    pub fn caches_of(topology: &Topology, pus: &[PuId]) -> u64 {
        let domains = topology.llc_domains();
        let over = domains
            .iter()
            .map(|&domain| topology.object(domain))
            .filter(|domain| pus.iter().any(|&pu| domain.pus.contains(pu)));
        over.map(|domain| domain.cache.and_then(|cache| cache.size).unwrap_or(UNKNOWN_CACHE))
            .sum()
    }
}

/// The first PU that shares its last-level cache with another PU and does not share it with a third: both pairs, and
/// the relation of the second pair.
fn pairs(topology: &Topology, usable: &[PuId]) -> Option<([PuId; 2], [PuId; 2], Relation)> {
    let first_that_is = |one: PuId, wanted: Relation| {
        let mut others = usable.iter().copied();
        let other = others.find(|&other| Relation::between(topology, one, other) == wanted)?;
        Some([one, other])
    };
    usable.iter().find_map(|&one| {
        let together = first_that_is(one, Relation::SameDomain)?;
        let farther = [Relation::OtherPackage, Relation::SamePackage];
        farther.into_iter().find_map(|relation| {
            let apart = first_that_is(one, relation)?;
            Some((together, apart, relation))
        })
    })
}

/// Why the machine lacks such pairs.
fn lacking(topology: &Topology) -> PlacesError {
    let allowed = topology.allowed_pus().clone();
    let domains = topology.llc_domains();
    let domains: Vec<&PuSet> = domains.iter().map(|&domain| &topology.object(domain).pus).collect();
    let may_be_used = domains.iter().filter(|pus| !pus.intersection(&allowed).is_empty());
    let shared = |pus: &&PuSet| one_a_core(topology, pus).len() > 1;
    if domains.len() < 2 {
        PlacesError::OneDomain
    } else if may_be_used.count() < 2 {
        let domains = domains.len();
        PlacesError::OneAllowed { allowed, domains }
    } else if domains.iter().any(shared) {
        PlacesError::OneCoreAllowed { allowed }
    } else {
        PlacesError::OneCoreEach
    }
}

/// The first PU of each core among `pus`. A PU outside cores counts as a core.
fn one_a_core(topology: &Topology, pus: &PuSet) -> Vec<PuId> {
    let mut seen = PuSet::new();
    let mut usable = vec![];
    for pu in pus.iter() {
        if seen.contains(pu) {
            continue;
        }
        usable.push(pu);
        seen.insert(pu);
        if let Some((_, core)) = topology
            .objects_of(ObjectKind::Core)
            .find(|(_, core)| core.pus.contains(pu))
        {
            seen.extend(core.pus.iter());
        }
    }
    usable
}

/// The usable PUs of the package that has the most of them, and its number of cores. A machine without packages is one.
fn largest_package(topology: &Topology, usable: &[PuId]) -> (Vec<PuId>, usize) {
    let mut packages: Vec<&PuSet> = topology
        .objects_of(ObjectKind::Package)
        .map(|(_, package)| &package.pus)
        .collect();
    if packages.is_empty() {
        packages.push(&topology.object(topology.root()).pus);
    }
    let within = |pus: &PuSet| -> Vec<PuId> { usable.iter().copied().filter(|&pu| pus.contains(pu)).collect() };
    let mut largest = (vec![], 0);
    for pus in packages {
        let here = within(pus);
        if here.len() > largest.0.len() {
            largest = (here, one_a_core(topology, pus).len());
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_linux::topology::{self, Source};

    fn machine(description: &str) -> Topology {
        topology::read(&Source::Synthetic(description.to_owned())).unwrap()
    }

    fn restricted(description: &str, pus: &str) -> Topology {
        machine(description).restricted_to(&pus.parse().unwrap()).unwrap()
    }

    fn pus(numbers: &[u32]) -> Vec<PuId> {
        numbers.iter().copied().map(PuId).collect()
    }

    const TWO_PACKAGES: &str = "package:2 l3:1(size=8388608) core:4 pu:2";
    const TWO_COMPLEXES: &str = "package:1 l3:2(size=16777216) core:2 pu:1";

    #[test]
    fn the_distant_pair_is_in_two_packages_where_there_are_two() {
        let places = Places::of(&machine(TWO_PACKAGES)).unwrap();
        assert_eq!(places.together, [PuId(0), PuId(2)], "not the sibling");
        assert_eq!(
            (places.apart, places.relation),
            ([PuId(0), PuId(8)], Relation::OtherPackage)
        );
        assert_eq!((places.package, places.cores), (pus(&[0, 2, 4, 6]), 4));
    }

    #[test]
    fn the_distant_pair_is_under_two_caches_where_there_is_one_package() {
        let places = Places::of(&machine(TWO_COMPLEXES)).unwrap();
        assert_eq!(places.together, [PuId(0), PuId(1)]);
        assert_eq!(
            (places.apart, places.relation),
            ([PuId(0), PuId(2)], Relation::SamePackage)
        );
        assert_eq!(places.package, pus(&[0, 1, 2, 3]));
    }

    #[test]
    fn only_allowed_pus_are_used() {
        let places = Places::of(&restricted(TWO_PACKAGES, "1,9,11-13")).unwrap();
        assert_eq!(
            (places.together, places.apart),
            ([PuId(9), PuId(11)], [PuId(9), PuId(1)])
        );
        assert_eq!((places.package, places.cores), (pus(&[9, 11, 12]), 4));
    }

    #[test]
    fn the_error_names_what_is_missing() {
        for (topology, says) in [
            (machine("package:1 l3:1 core:4 pu:1"), "one last-level cache for all"),
            (
                restricted(TWO_PACKAGES, "0-7"),
                "only CPUs 0-7 may be used, all of them under one of this machine's 2",
            ),
            (
                restricted(TWO_PACKAGES, "0-1,8"),
                "no two of them on different cores under one",
            ),
            (machine("package:2 core:1 pu:2"), "its own last-level cache"),
        ] {
            let error = Places::of(&topology).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn each_cache_over_the_tasks_counts_once() {
        let topology = machine(TWO_COMPLEXES);
        assert_eq!(Places::caches_of(&topology, &pus(&[0])), 16 << 20);
        assert_eq!(Places::caches_of(&topology, &pus(&[0, 1])), 16 << 20);
        assert_eq!(Places::caches_of(&topology, &pus(&[0, 1, 2])), 32 << 20);
    }
}
