//! The same placement on other PUs.

use super::symmetry::{Node, Tree};
use crate::{Pinning, PuId, PuSet, Topology};
use std::cmp::Reverse;
use std::ops::Range;

/// The symmetries of a machine, for pinnings that are sought again and again.
#[derive(Debug)]
pub struct Symmetries(Tree);

impl Symmetries {
    /// Those of the PUs that may be used.
    pub fn new(topology: &Topology) -> Self {
        Self(Tree::new(topology))
    }

    /// An image of this pinning under a symmetry of the machine whose PUs are all `free`; `None` if none was found. If
    /// several fit, it is one that leaves many ranks near their PUs of `now`.
    ///
    /// Among interchangeable objects the one with most ranks is placed first, on the object that has most of its ranks
    /// already. So a pinning that fits into scattered free PUs in one way only may not be found.
    pub fn elsewhere(&self, pinning: &Pinning, free: &PuSet, now: &[PuId]) -> Option<Pinning> {
        let tree = &self.0;
        let leaf = |pu: PuId| tree.pus.iter().position(|&other| other == pu);
        let ranks: Vec<usize> = pinning.pus().iter().map(|&pu| leaf(pu)).collect::<Option<_>>()?;
        let search = Search {
            free: tree.pus.iter().map(|&pu| free.contains(pu)).collect(),
            now: (0..ranks.len()).map(|rank| leaf(*now.get(rank)?)).collect(),
            ranks,
        };
        let fit = search.fit(&tree.root, &tree.root)?;
        let pu = |from: &usize| {
            let (_, to) = fit.leaves.iter().find(|(leaf, _)| leaf == from)?;
            Some(tree.pus[*to])
        };
        Pinning::new(search.ranks.iter().map(pu).collect::<Option<_>>()?)
    }
}

struct Search {
    /// The leaf of each rank.
    ranks: Vec<usize>,
    /// By leaf.
    free: Vec<bool>,
    /// The leaf of each rank's current PU, if known.
    now: Vec<Option<usize>>,
}

/// A way to map one subtree to another.
struct Fit {
    /// How many ranks stay, added up over all levels.
    stays: usize,
    /// Each leaf that has ranks, and the one that gets them.
    leaves: Vec<(usize, usize)>,
}

impl Search {
    /// The ranks of these leaves.
    fn ranks_of<'a>(&'a self, leaves: &'a Range<usize>) -> impl Iterator<Item = usize> + 'a {
        (0..self.ranks.len()).filter(|&rank| leaves.contains(&self.ranks[rank]))
    }

    /// How the ranks of a subtree go to another one of the same class.
    fn fit(&self, from: &Node, to: &Node) -> Option<Fit> {
        let is_there = |&rank: &usize| self.now[rank].is_some_and(|leaf| to.leaves.contains(&leaf));
        let mut fit = Fit {
            stays: self.ranks_of(&from.leaves).filter(is_there).count(),
            leaves: vec![],
        };
        if from.children.is_empty() {
            fit.leaves.push((from.leaves.start, to.leaves.start));
            return self.free[to.leaves.start].then_some(fit);
        }
        let load = |child: &Node| self.ranks_of(&child.leaves).count();
        let mut children: Vec<(usize, &Node)> = from.children.iter().map(|child| (load(child), child)).collect();
        children.retain(|&(load, _)| load > 0);
        children.sort_by_key(|&(load, _)| Reverse(load));
        let mut left: Vec<&Node> = to.children.iter().collect();
        for (_, child) in children {
            let alike = left.iter().enumerate().filter(|(_, other)| other.class == child.class);
            let fits = alike.filter_map(|(position, other)| Some((position, self.fit(child, other)?)));
            let (position, best) = fits.max_by_key(|(position, fit)| (fit.stays, Reverse(*position)))?;
            left.remove(position);
            fit.stays += best.stays;
            fit.leaves.extend(best.leaves);
        }
        Some(fit)
    }
}
