//! Affinity hints: wishes for a placement, independent of the machine and the number of threads (Moore and Childers,
//! "Automatic Generation of Program Affinity Policies Using Machine Learning", CC 2012, section 2.1, figures 4 and 5).
//!
//! A hint says whether threads use many packages or few (S), whether they share last-level caches as little as possible
//! or as much (L), and which of the two wishes goes first (P). It orders the placements of a number of threads by two
//! keys:
//!
//! - the number of packages in use: more first with S, fewer first without;
//! - the occupancy of the last-level caches: the numbers of threads of the domains in use, the greatest first, compared
//!   like words in a dictionary; the smaller first with L, the greater first without.
//!
//! The paper only says of occupancy that placements with equal keys are isomorphic. With numbers of threads alone, or
//! their mean, many have equal keys that are not isomorphic. With these two keys some still do, since caches may be
//! distributed over packages differently. Then the more even distribution over packages comes first with S, the less
//! even one without. Then the placement with more threads on the fastest kind of cores comes first. Last, the first
//! packages and domains of the topology get more threads.
//!
//! As in the paper there is one thread per core. With more threads than cores, each core has one, and the others are
//! second on their core; the same keys order these placements.
//!
//! 1. `shape` is the machine as the keys need it: packages of domains, each with the fewest and the most threads that
//!    it can have.
//! 2. `best` finds the first placement by dynamic programming instead of sorting all: both keys of a union of packages
//!    follow from the keys of its parts.
//! 3. `inverse` finds the hints that a placement may come from, with leeway.

mod best;
mod inverse;
mod shape;

pub use inverse::Destinations;

use crate::placement::PlacementError;
use crate::{Pinning, PuSet, Topology};
use serde::{Deserialize, Serialize};
use shape::Shape;
use std::cmp::{Ordering, Reverse};
use std::fmt;
use std::str::FromStr;

/// An affinity hint, written as the letters S, L and P, each capital where its wish holds: `SlP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AffinityHint {
    /// S, the paper's `spreadAcrossSockets`: use many packages, not few.
    pub spread_across_packages: bool,
    /// L, the paper's `spreadAcrossLLCs`: share last-level caches as little as possible.
    pub spread_across_llcs: bool,
    /// P, the paper's `socketOptionGetsPriority`: the wish about packages goes before that about caches.
    pub packages_first: bool,
}

/// The text is not a hint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no affinity hint: it has the letters S (many packages), L (caches apart) and P (packages first) in this order, \
     capital for yes and small for no, such as SLP for distributed and slp for packed"
)]
pub struct ParseAffinityHintError(String);

impl AffinityHint {
    /// Threads close together: few packages, shared caches; the paper's packed policy (section 3.6).
    pub const PACKED: Self = Self::of(false, false, false);
    /// Threads apart: many packages, separate caches; the paper's distributed policy (section 3.6).
    pub const DISTRIBUTED: Self = Self::of(true, true, true);
    /// All eight, from `slp` to `SLP`.
    pub const ALL: [Self; 8] = [
        Self::PACKED,
        Self::of(false, false, true),
        Self::of(false, true, false),
        Self::of(false, true, true),
        Self::of(true, false, false),
        Self::of(true, false, true),
        Self::of(true, true, false),
        Self::DISTRIBUTED,
    ];

    const fn of(spread_across_packages: bool, spread_across_llcs: bool, packages_first: bool) -> Self {
        Self {
            spread_across_packages,
            spread_across_llcs,
            packages_first,
        }
    }

    /// The first placement of `threads` threads by this hint on the allowed PUs: the paper's GETAFFINITY (figure 5).
    /// Ranks follow the topology, depth first.
    pub fn pinning(self, topology: &Topology, threads: usize) -> Result<Pinning, PlacementError> {
        let shape = Shape::new(topology, threads)?;
        Ok(shape.pinning(&best::loads(&shape, self)))
    }

    /// How this hint orders two placements of equally many threads: the less goes first. Equal placements have equal
    /// keys.
    pub fn compare(self, topology: &Topology, one: &PuSet, other: &PuSet) -> Ordering {
        let keys = |pus: &PuSet| self.keys(&shape::loads(topology, pus));
        keys(one).cmp(&keys(other))
    }

    /// The keys of placements, from their threads by package and domain.
    fn keys(self, loads: &[Vec<usize>]) -> impl Ord + use<> {
        let used = loads.iter().filter(|package| package.iter().any(|&load| load > 0));
        let mut occupancy: Vec<usize> = loads.iter().flatten().copied().filter(|&load| load > 0).collect();
        occupancy.sort_unstable_by_key(|&load| Reverse(load));
        let unevenness: usize = loads.iter().map(|package| package.iter().sum::<usize>().pow(2)).sum();
        let packages = Directed::new(vec![used.count()], !self.spread_across_packages);
        let caches = Directed::new(occupancy, self.spread_across_llcs);
        let (first, second) = if self.packages_first {
            (packages, caches)
        } else {
            (caches, packages)
        };
        (
            first,
            second,
            Directed::new(vec![unevenness], self.spread_across_packages),
        )
    }
}

/// Words of numbers, in ascending or descending order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Directed {
    LessFirst(Vec<usize>),
    GreaterFirst(Reverse<Vec<usize>>),
}

impl Directed {
    fn new(word: Vec<usize>, less_first: bool) -> Self {
        if less_first {
            Self::LessFirst(word)
        } else {
            Self::GreaterFirst(Reverse(word))
        }
    }
}

impl fmt::Display for AffinityHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |letter: char, is: bool| if is { letter } else { letter.to_ascii_lowercase() };
        let letters = [
            letter('S', self.spread_across_packages),
            letter('L', self.spread_across_llcs),
            letter('P', self.packages_first),
        ];
        f.pad(&String::from_iter(letters))
    }
}

impl FromStr for AffinityHint {
    type Err = ParseAffinityHintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|hint| hint.to_string() == text);
        found.ok_or_else(|| ParseAffinityHintError(text.to_owned()))
    }
}

impl TryFrom<String> for AffinityHint {
    type Error = ParseAffinityHintError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<AffinityHint> for String {
    fn from(hint: AffinityHint) -> Self {
        hint.to_string()
    }
}

/// The PUs of a placement.
fn pus_of(pinning: &Pinning) -> PuSet {
    pinning.pus().iter().copied().collect()
}
