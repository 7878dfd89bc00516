//! The pinnings that are worth trying on a machine, when the user names none.
//!
//! 1. The pool of placements: all of them where they are few; else the extremes. An extreme says for each level that
//!    branches (packages, NUMA groups, last-level caches, cores …) whether few or many of its objects are used, and
//!    whether the outer or the inner levels come first where both cannot be had. This is what the three parameters S,
//!    L and P of the affinity hints say on a machine with packages and caches (autofinity-2012, section 2.1 and
//!    figure 5).
//!    Where kinds of cores differ, of placements that are equal but for them only the one on the fastest is in the pool.
//! 2. Each placement in two orders of ranks: block, in which neighbouring ranks are close together, and cyclic, in
//!    which they are far apart. Which is better depends on who talks to whom. Where both are the same up to symmetry
//!    (distance 0), one is enough.
//! 3. The list: the fully distributed pinning first, then always the one whose least distance to those in the list is
//!    the greatest (farthest-point ordering, as in Gonzalez' clustering), so that cutting the list anywhere leaves
//!    the most different ones. Ties go to the one that was earlier in the pool.
//!
//! An extreme is filled one thread at a time: of the free PUs the next thread takes one whose object at the first
//! level has the fewest threads ("many objects") or the most ("few objects"), among these the same at the second
//! level, and so on. Among equals the faster kind of core is preferred, then topology order. For "few" an object with
//! more PUs comes before one with fewer, because fewer such objects are then needed.
//!
//! Cost: N threads on n PUs take O(N n levels) for a filling and O(N² levels) for a profile. The pool has about
//! 64 placements at most, and so 128 fillings and profiles; a profile takes N²/2 bytes. A machine of 384 PUs is
//! served in well under 100 ms, one of 2048 in about a second (optimised build).
//!
//! Known limits: extremes use each object as fully or as little as they can, so half-filled caches, which some programs
//! like best, are tried only where the placements are few. Filling greedily for "few" objects is the best that there is
//! where objects of a level are alike, and near to it where they are not.

use pinfold_core::placement::{Levels, Placements, Profile};
use pinfold_core::{ObjectKind, Pinning, PuId, PuSet, Topology};
use std::cmp::Reverse;
use std::collections::HashSet;

/// Up to this many placements are all candidates. A probe takes 45 s with the default times of autopin, 64 of them
/// three quarters of an hour: nobody tries more, and so a larger pool need not be complete.
const FEW_PLACEMENTS: u32 = 64;

/// Extremes choose freely between few and many at this many levels; further levels, which only contrived machines have,
/// go with the last of these. It keeps the number of extremes at 64 or less.
const FREE_LEVELS: usize = 5;

/// How a filling treats the objects of one level.
#[derive(Clone, Copy)]
struct Rule {
    level: usize,
    /// Whether to use many of the objects, or few.
    many: bool,
}

/// The levels of a machine, and its leaves in the order in which equals are taken.
struct Machine {
    levels: Levels,
    preferred: Vec<usize>,
}

/// Pinnings of `threads` threads that differ as much as possible, at most `most` of them, the most different ones
/// first. The first is the start of [`distributed`].
///
/// Where there are more threads than allowed PUs, all the PUs are used, and pinnings go round: the candidates are the
/// orders of the PUs. No threads have no candidates.
pub fn from_topology(topology: &Topology, threads: usize, most: usize) -> Vec<Pinning> {
    let threads = threads.min(topology.allowed_pus().len());
    let Ok(placements) = Placements::new(topology, threads) else {
        return vec![];
    };
    let machine = Machine::new(topology);
    let spread = machine.spread();

    // What is tried first is not the representative but what runs already.
    let first = machine.fill(&spread, threads, &machine.preferred);
    let first_placement = placements.representative(&machine.pus(&first).into_iter().collect());
    let mut others = pool(&machine, &placements, threads);
    if !topology.core_kinds().is_empty() {
        others = on_the_fastest_cores(topology, threads, first_placement.iter().cloned().chain(others));
    }
    let others = others
        .into_iter()
        .filter(|placement| Some(placement) != first_placement.as_ref());

    let mut orders: Vec<[Vec<usize>; 2]> = vec![[first.clone(), sorted(first)]];
    for placement in others {
        let block: Vec<usize> = placement
            .pus()
            .iter()
            .filter_map(|&pu| machine.levels.leaf(pu))
            .collect();
        let cyclic = machine.fill(&spread, threads, &block);
        orders.push([block, cyclic]);
    }

    let mut pool: Vec<(Pinning, Profile)> = vec![];
    for [one, other] in orders {
        let one = machine.profiled(&one);
        let other = machine.profiled(&other);
        let differ = matches!((&one, &other), (Some(one), Some(other)) if one.1.distance(&other.1) > 0);
        pool.extend(one);
        pool.extend(other.filter(|_| differ));
    }
    farthest_first(pool, most)
}

/// The allowed PUs in an order in which any number of them from the start is well spread: over packages, then over NUMA
/// groups, caches and cores, and a second PU of a core comes only when every core has one in use.
pub fn distributed(topology: &Topology) -> Vec<PuId> {
    let machine = Machine::new(topology);
    machine.all(&machine.spread())
}

/// The allowed PUs in an order in which any number of them from the start is packed into as few packages, caches and
/// cores as possible.
pub fn packed(topology: &Topology) -> Vec<PuId> {
    let machine = Machine::new(topology);
    let rules: Vec<Rule> = (0..machine.levels.kinds().len())
        .map(|level| Rule { level, many: false })
        .collect();
    machine.all(&rules)
}

/// The placements to try, by their representatives.
fn pool(machine: &Machine, placements: &Placements, threads: usize) -> Vec<Pinning> {
    if placements.count() <= FEW_PLACEMENTS.into() {
        return placements.iter().collect();
    }
    let levels = machine.levels.kinds().len();
    let mut pool = vec![];
    let mut seen = HashSet::new();
    for choice in 0..1usize << levels.min(FREE_LEVELS) {
        let mut rules: Vec<Rule> = (0..levels)
            .map(|level| Rule {
                level,
                many: choice >> level.min(FREE_LEVELS - 1) & 1 == 1,
            })
            .collect();
        for _outer_first_then_inner_first in 0..2 {
            let pus: PuSet = machine
                .pus(&machine.fill(&rules, threads, &machine.preferred))
                .into_iter()
                .collect();
            pool.extend(
                placements
                    .representative(&pus)
                    .filter(|pinning| seen.insert(pinning.clone())),
            );
            rules.reverse();
        }
    }
    pool
}

/// Of placements that are equal but for the kinds of cores the one with most threads on the fastest kind; of these the first.
fn on_the_fastest_cores(
    topology: &Topology,
    threads: usize,
    placements: impl Iterator<Item = Pinning>,
) -> Vec<Pinning> {
    let Ok(without_kinds) = Placements::new(&topology.clone().without_core_kinds(), threads) else {
        return placements.collect();
    };
    let fastest = topology.allowed_pus().iter().map(|pu| topology.core_speed(pu)).max();
    let speeds = |pinning: &Pinning| {
        let mut counts = vec![0u32; fastest.map_or(0, |fastest| fastest as usize + 1)];
        for &pu in pinning.pus() {
            counts[topology.core_speed(pu) as usize] += 1;
        }
        counts.reverse();
        counts
    };
    let mut kept: Vec<(Option<Pinning>, Vec<u32>, Pinning)> = vec![];
    for pinning in placements {
        let equal = without_kinds.representative(&pinning.pus().iter().copied().collect());
        let speeds = speeds(&pinning);
        match kept.iter_mut().find(|(other, ..)| *other == equal) {
            Some((_, best, of)) if speeds > *best => (*best, *of) = (speeds, pinning),
            Some(_) => {}
            None => kept.push((equal, speeds, pinning)),
        }
    }
    kept.into_iter().map(|(.., pinning)| pinning).collect()
}

/// At most `most` pinnings, beginning with the first of the pool, each as far as possible from those before it.
fn farthest_first(pool: Vec<(Pinning, Profile)>, most: usize) -> Vec<Pinning> {
    let mut chosen = vec![];
    let mut rest: Vec<(u64, Pinning, Profile)> = pool
        .into_iter()
        .map(|(pinning, profile)| (u64::MAX, pinning, profile))
        .collect();
    while chosen.len() < most {
        // The maximum that comes first: `max_by_key` would give the last of equals.
        let Some(next) = (0..rest.len()).min_by_key(|&at| Reverse(rest[at].0)) else {
            break;
        };
        let (_, pinning, profile) = rest.remove(next);
        for (nearest, _, other) in &mut rest {
            *nearest = profile.distance(other).min(*nearest);
        }
        chosen.push(pinning);
    }
    chosen
}

fn sorted(mut leaves: Vec<usize>) -> Vec<usize> {
    leaves.sort_unstable();
    leaves
}

impl Machine {
    fn new(topology: &Topology) -> Self {
        let levels = Levels::new(topology);
        let mut preferred: Vec<usize> = (0..levels.pus().len()).collect();
        preferred.sort_by_key(|&leaf| Reverse(topology.core_speed(levels.pus()[leaf])));
        Self { levels, preferred }
    }

    /// The rules that spread threads over everything. Cores come first, so that their second PUs are used last even
    /// where a small package fills up before a large one; for the rest the outer levels come first.
    fn spread(&self) -> Vec<Rule> {
        let kinds = self.levels.kinds();
        let mut rules: Vec<Rule> = (0..kinds.len()).map(|level| Rule { level, many: true }).collect();
        rules.sort_by_key(|rule| kinds[rule.level] != ObjectKind::Core);
        rules
    }

    /// All PUs as these rules order them.
    fn all(&self, rules: &[Rule]) -> Vec<PuId> {
        self.pus(&self.fill(rules, self.preferred.len(), &self.preferred))
    }

    fn pus(&self, leaves: &[usize]) -> Vec<PuId> {
        leaves.iter().map(|&leaf| self.levels.pus()[leaf]).collect()
    }

    fn profiled(&self, leaves: &[usize]) -> Option<(Pinning, Profile)> {
        let pinning = Pinning::new(self.pus(leaves))?;
        let profile = Profile::new(&self.levels, &pinning, leaves.len());
        Some((pinning, profile))
    }

    /// Puts `threads` threads on the leaves of `within`, one after the other as the rules say, the first rule first.
    fn fill(&self, rules: &[Rule], threads: usize, within: &[usize]) -> Vec<usize> {
        let mut is_within = vec![false; self.preferred.len()];
        let mut capacities = vec![0; self.levels.domain_count()];
        for &leaf in within {
            is_within[leaf] = true;
            for &domain in self.levels.domains(leaf) {
                capacities[domain] += 1;
            }
        }
        let mut free: Vec<usize> = self.preferred.iter().copied().filter(|&leaf| is_within[leaf]).collect();
        let mut loads = vec![0usize; self.levels.domain_count()];
        let mut filled = vec![];
        while filled.len() < threads {
            let costs = |leaf: usize| {
                rules.iter().map({
                    let loads = &loads;
                    let capacities = &capacities;
                    move |rule| {
                        let domain = self.levels.domains(leaf)[rule.level];
                        if rule.many {
                            (loads[domain], 0)
                        } else {
                            (usize::MAX - loads[domain], usize::MAX - capacities[domain])
                        }
                    }
                })
            };
            // The first of equals.
            let Some(next) = (0..free.len()).min_by(|&a, &b| costs(free[a]).cmp(costs(free[b]))) else {
                break;
            };
            let leaf = free.remove(next);
            for &domain in self.levels.domains(leaf) {
                loads[domain] += 1;
            }
            filled.push(leaf);
        }
        filled
    }
}
