//! How alike two configurations are: a product over their choices.

use super::point::Point;
use pinfold_core::{PageMapping, Prefetcher, ThreadMap};
use std::f64::consts::FRAC_1_SQRT_2;

/// How far apart values of each choice may be for configurations to be alike. Each is above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lengths {
    /// Of the number of threads, in doublings.
    pub threads: f64,
    /// Of the number of cores, in doublings.
    pub cores: f64,
    /// Of the number of nodes, in doublings.
    pub nodes: f64,
    /// Of the number of last-level-cache domains, in doublings; `None` if they are not compared.
    pub llcs: Option<f64>,
    /// Of different thread maps, whose distance is 1.
    pub thread_map: f64,
    /// Of different page maps, whose distance is 1.
    pub page_map: f64,
    /// Of prefetchers: the distance is the root of the number of prefetchers that differ.
    pub prefetch: f64,
}

/// The kernel, with its part in a belief.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kernel {
    /// The share of the covariance that it has, from 0 to 1. Factors and residuals have the rest.
    pub weight: f64,
    /// The variance of one configuration.
    pub variance: f64,
    /// The length of each choice.
    pub lengths: Lengths,
}

/// The number of coordinates of a place.
const COORDINATES: usize = 16;

/// A configuration as a place in space. Each choice has its coordinates, divided by its length, so the distance of two
/// places is the kernel's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place([f64; COORDINATES]);

impl Lengths {
    /// How alike two configurations are: 1 for equal ones, and nearly 0 for configurations with nothing in common. It
    /// is the squared-exponential kernel with a length for each choice, so the matrix of any configurations is positive
    /// semidefinite.
    pub fn similarity(&self, one: &Point, other: &Point) -> f64 {
        self.place(one).similarity(&self.place(other))
    }

    /// The same lengths, with no comparison of last-level-cache domains.
    pub(super) fn without_llcs(self) -> Self {
        Self { llcs: None, ..self }
    }

    /// The place of a configuration. If `llcs` is given, all configurations that are compared know their
    /// last-level-cache domains.
    pub(super) fn place(&self, point: &Point) -> Place {
        let in_length = |value: f64, length: Option<f64>| length.map_or(0.0, |length| value / length);
        let mut place = [0.0; COORDINATES];
        place[0] = in_length(point.threads.log2(), Some(self.threads));
        place[1] = in_length(point.cores.log2(), Some(self.cores));
        place[2] = in_length(point.nodes.log2(), Some(self.nodes));
        place[3] = in_length(point.llcs.unwrap_or(1.0).log2(), self.llcs);
        place[4] = in_length(
            f64::from(u8::from(point.thread_map == ThreadMap::Scatter)),
            Some(self.thread_map),
        );
        for prefetcher in Prefetcher::ALL {
            let is_off = !point.prefetch.enabled(prefetcher);
            place[5 + prefetcher as usize] = in_length(f64::from(u8::from(is_off)), Some(self.prefetch));
        }
        // Two page maps differ in two coordinates, by a root of a half each.
        place[9 + page_kind(point.page_map)] = in_length(FRAC_1_SQRT_2, Some(self.page_map));
        Place(place)
    }
}

impl Place {
    /// How alike the configurations at two places are.
    pub(super) fn similarity(&self, other: &Self) -> f64 {
        (-0.5 * self.squared_distance(other)).exp()
    }

    /// The sum of the squared distances of all choices, each in its length.
    pub(super) fn squared_distance(&self, other: &Self) -> f64 {
        let apart = self.0.iter().zip(&other.0);
        apart.map(|(one, other)| (one - other) * (one - other)).sum()
    }
}

/// The number of the kind of a page mapping, from 0 to 6.
fn page_kind(mapping: PageMapping) -> usize {
    match Point::page_kind(mapping) {
        PageMapping::Interleave => 1,
        PageMapping::Single(_) => 2,
        PageMapping::Local => 3,
        PageMapping::Remote => 4,
        PageMapping::Locality => 5,
        PageMapping::Balance => 6,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{LENGTHS, point};
    use super::*;

    #[test]
    fn each_choice_has_its_own_distance() {
        let whole = point(1.0);
        let similar = |other: &Point| LENGTHS.similarity(&whole, other);
        let one_length = (-0.5f64).exp();
        assert_eq!(similar(&whole).to_bits(), 1f64.to_bits());
        // Half of the threads on half of the cores: one doubling of each, whose lengths are 1.
        let half = Point {
            nodes: 1.0,
            ..point(0.5)
        };
        assert!((similar(&half) - one_length.powi(2)).abs() < 1e-12);
        for other in [
            Point {
                thread_map: ThreadMap::Scatter,
                ..point(1.0)
            },
            Point {
                page_map: PageMapping::Interleave,
                ..point(1.0)
            },
            Point {
                threads: 2.0,
                ..point(1.0)
            },
        ] {
            assert!((similar(&other) - one_length).abs() < 1e-12, "{other}");
        }
        let switched = |text: &str| Point {
            prefetch: text.parse().unwrap(),
            ..point(1.0)
        };
        assert!((similar(&switched("1000")) - one_length).abs() < 1e-12);
        assert!((similar(&switched("1101")) - one_length.powi(3)).abs() < 1e-12);
    }

    #[test]
    fn domains_count_where_a_length_is_given() {
        let lengths = Lengths {
            llcs: Some(1.0),
            ..LENGTHS
        };
        let with = |llcs| Point { llcs, ..point(1.0) };
        let (half, all) = (with(Some(0.5)), with(Some(1.0)));
        assert!((lengths.similarity(&half, &all) - (-0.5f64).exp()).abs() < 1e-12);
        assert_eq!(LENGTHS.similarity(&half, &all).to_bits(), 1f64.to_bits());
    }
}
