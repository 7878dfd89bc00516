//! The rows of one region, indexed by configuration.

use pinfold_core::measurement::Median;
use pinfold_core::{PageMapping, Prefetchers};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A configuration: the number of its placement, its pages and its prefetchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) placement: usize,
    pub(super) pages: PageMapping,
    pub(super) prefetchers: Prefetchers,
}

/// The time of an execution, and its relative standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) time: f64,
    pub(super) spread: Option<f64>,
}

/// The rows of a region, or of the whole program.
#[derive(Clone, Debug, Default)]
pub(super) struct MeasuredRows {
    /// The configurations, in the order of the rows.
    keys: Vec<Key>,
    rows: HashMap<Key, Vec<Measured>>,
}

impl MeasuredRows {
    /// Adds a row.
    pub(super) fn add(&mut self, key: Key, row: Measured) {
        match self.rows.entry(key) {
            Entry::Occupied(mut rows) => rows.get_mut().push(row),
            Entry::Vacant(rows) => {
                rows.insert(vec![row]);
                self.keys.push(key);
            }
        }
    }

    /// The configurations, in the order of the rows.
    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// What was measured; `None` if the table lacks it. Of several rows of one configuration: the medians.
    pub(super) fn get(&self, key: &Key) -> Option<Measured> {
        let rows = self.rows.get(key)?;
        Some(Measured {
            time: Median::of(rows.iter().map(|row| row.time))?.value,
            spread: Median::of(rows.iter().filter_map(|row| row.spread)).map(|median| median.value),
        })
    }

    /// Whether a row has this configuration.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.rows.contains_key(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_one_configuration_have_their_median() {
        let key = Key {
            placement: 0,
            pages: PageMapping::Interleave,
            prefetchers: Prefetchers::ALL,
        };
        let mut rows = MeasuredRows::default();
        assert_eq!(rows.get(&key), None);
        for (time, spread) in [(3.0, None), (1.0, Some(0.2)), (9.0, None), (5.0, Some(0.4))] {
            rows.add(key, Measured { time, spread });
        }
        let measured = rows.get(&key).unwrap();
        assert!((measured.time - 4.0).abs() < 1e-12);
        assert!((measured.spread.unwrap() - 0.3).abs() < 1e-12);
        assert_eq!(rows.keys(), [key]);
    }
}
