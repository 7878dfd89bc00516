//! Candidate pinnings of a machine, for a search without a schedule.
//!
//! 1. The pool of placements: all of them where they are few, else the extremes. An extreme decides for each level that
//!    branches (packages, NUMA groups, last-level caches, cores) whether many or few of its objects are used. It also
//!    decides whether the outer or the inner levels have priority. On a machine with packages and caches these are the
//!    parameters S, L and P of the affinity hints (autofinity-2012, section 2.1 and figure 5). Of placements that
//!    differ only in the kinds of their cores, the pool has the one on the fastest cores.
//! 2. Each placement in two orders of ranks: block, in which neighbouring ranks are close together, and cyclic, in
//!    which they are far apart. The better order depends on which threads communicate. Where both are the same up to
//!    symmetry (distance 0), only one is listed.
//! 3. The list: the fully distributed pinning first, then always the pinning whose least distance to the list is
//!    greatest (farthest-point ordering, as in Gonzalez' clustering). So each prefix of the list has the most different
//!    pinnings. The earlier one in the pool wins a tie.
//!
//! An extreme is filled one thread at a time. Of the free PUs the next thread takes one whose object at the first level
//! has the fewest threads ("many objects") or the most ("few objects"), then the same at the second level, and so on.
//! The faster kind of core wins a tie, then topology order. For "few" an object with more PUs comes before one with
//! fewer, because then fewer objects are needed.
//!
//! Cost: N threads on n PUs take O(N n levels) for a filling and O(N² levels) for a profile. The pool has at most about
//! 64 placements, so 128 fillings and profiles. A profile takes N²/2 bytes. A machine of 384 PUs takes well under 100
//! ms, one of 2048 PUs about a second (optimised build).
//!
//! Known limits: an extreme uses each object fully or as little as it can. So half-filled caches, which some programs
//! prefer, are tried only where the placements are few. Filling greedily for "few" objects is optimal where the objects
//! of a level are alike, and nearly optimal elsewhere.

use super::{Levels, Placements, Profile};
use crate::random::Random;
use crate::{ObjectKind, Pinning, PuId, PuSet, Topology};
use std::cmp::Reverse;
use std::collections::HashSet;

/// Up to this many placements are all candidates. A probe takes 45 s with the default times of autopin, so 64 of them
/// take three quarters of an hour. A user does not try more, so a larger pool need not be complete.
const FEW_PLACEMENTS: u32 = 64;

/// Extremes choose between few and many independently at this many levels. Further levels, which only constructed
/// machines have, follow the last of these. This limits the number of extremes to 64.
const FREE_LEVELS: usize = 5;

/// How a filling treats the objects of one level.
#[derive(Clone, Copy)]
struct Rule {
    level: usize,
    /// Whether to use many of the objects, or few of them.
    many: bool,
}

/// The levels of a machine, and its leaves in the order that breaks ties.
struct Machine {
    levels: Levels,
    preferred: Vec<usize>,
}

/// At most `most` pinnings of `threads` threads that differ as much as possible, the most different ones first. The
/// first is the start of [`distributed`].
///
/// With more threads than allowed PUs, all the PUs are used and a pinning repeats: the candidates are the orders of the
/// PUs. Without threads the list is empty.
pub fn from_topology(topology: &Topology, threads: usize, most: usize) -> Vec<Pinning> {
    let threads = threads.min(topology.allowed_pus().len());
    let Ok(placements) = Placements::new(topology, threads) else {
        return vec![];
    };
    let machine = Machine::new(topology);
    farthest_first(profiled_pool(topology, &machine, &placements, threads), most)
}

/// As [`from_topology`], but exactly `most` pinnings where the machine has as many placements: where the extremes are
/// fewer, other placements complete the pool. These are all of them, or a sample of many, which is always the same.
pub fn most_different(topology: &Topology, threads: usize, most: usize) -> Vec<Pinning> {
    let threads = threads.min(topology.allowed_pus().len());
    let Ok(placements) = Placements::new(topology, threads) else {
        return vec![];
    };
    let machine = Machine::new(topology);
    let mut pool = profiled_pool(topology, &machine, &placements, threads);
    if pool.len() < most {
        let placement_of = |pinning: &Pinning| placements.representative(&pinning.pus().iter().copied().collect());
        let mut seen: HashSet<Pinning> = pool.iter().filter_map(|(pinning, _)| placement_of(pinning)).collect();
        let more: Vec<Pinning> = if placements.count() <= ENUMERATED.into() {
            placements.iter().collect()
        } else {
            sample(&machine, &placements, threads, POOL_PER_PINNING * most)
        };
        let new = more.into_iter().filter(|pinning| seen.insert(pinning.clone()));
        pool.extend(new.map(|pinning| {
            let profile = Profile::new(&machine.levels, &pinning, threads);
            (pinning, profile)
        }));
    }
    farthest_first(pool, most)
}

/// Up to this many placements, all of them are in the pool of [`most_different`].
const ENUMERATED: u32 = 4096;
/// Where the placements are sampled: the size of the sample for each pinning that is wanted.
const POOL_PER_PINNING: usize = 8;

/// At most `size` placements, each once. Each draw weighs every level at random: by a heavy level, threads are packed
/// into few of its objects; by one without weight, they are spread at random.
fn sample(machine: &Machine, placements: &Placements, threads: usize, size: usize) -> Vec<Pinning> {
    const WEIGHTS: [f64; 3] = [0.0, 1.0, 8.0];
    let mut random = Random::new(threads as u64);
    let mut seen = HashSet::new();
    let mut sampled = vec![];
    for _ in 0..4 * size {
        let levels: Vec<f64> = (machine.levels.kinds().iter())
            .map(|_| WEIGHTS[random.below(WEIGHTS.len())])
            .collect();
        let domains: Vec<f64> = (0..machine.levels.domain_count()).map(|_| random.uniform()).collect();
        let key = |leaf: usize| {
            let weighed = machine.levels.domains(leaf).iter().zip(&levels);
            weighed.map(|(&domain, weight)| weight * domains[domain]).sum::<f64>()
        };
        let mut leaves: Vec<(f64, usize)> = (0..machine.preferred.len())
            .map(|leaf| (key(leaf) + random.uniform(), leaf))
            .collect();
        leaves.sort_by(|one, other| one.0.total_cmp(&other.0));
        let leaves: Vec<usize> = leaves[..threads].iter().map(|&(_, leaf)| leaf).collect();
        let placement = placements.representative(&machine.pus(&leaves).into_iter().collect());
        sampled.extend(placement.filter(|pinning| seen.insert(pinning.clone())));
        if sampled.len() >= size {
            break;
        }
    }
    sampled
}

/// The pool of [`from_topology`]: placements in both orders of ranks.
fn profiled_pool(
    topology: &Topology,
    machine: &Machine,
    placements: &Placements,
    threads: usize,
) -> Vec<(Pinning, Profile)> {
    let spread = machine.spread();

    // The first candidate is the pinning that runs already, not the representative of its placement.
    let first = machine.fill(&spread, threads, &machine.preferred);
    let first_placement = placements.representative(&machine.pus(&first).into_iter().collect());
    let mut others = pool(machine, placements, threads);
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
    pool
}

/// The allowed PUs in an order whose prefixes are all distributed: over packages, then over NUMA groups, caches and
/// cores. A second PU of a core comes only when each core has one in use.
pub fn distributed(topology: &Topology) -> Vec<PuId> {
    let machine = Machine::new(topology);
    machine.all(&machine.spread())
}

/// The allowed PUs in an order whose prefixes all use as few packages, caches and cores as possible.
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

/// Of placements that differ only in the kinds of cores, the one with most threads on the fastest kind; the first wins
/// a tie.
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

/// At most `most` pinnings, beginning with the first of the pool. Each has the greatest possible distance to its
/// predecessors.
fn farthest_first(pool: Vec<(Pinning, Profile)>, most: usize) -> Vec<Pinning> {
    let mut chosen = vec![];
    let mut rest: Vec<(u64, Pinning, Profile)> = pool
        .into_iter()
        .map(|(pinning, profile)| (u64::MAX, pinning, profile))
        .collect();
    while chosen.len() < most {
        // The first maximum: `max_by_key` would give the last one.
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

    /// The rules that distribute threads over all objects. Cores come first, so that their second PUs are used last
    /// even where a small package fills up before a large one. The outer levels follow.
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
            // The first wins a tie.
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
