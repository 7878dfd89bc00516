//! A map from addresses to values that are equal over long ranges.

use std::collections::BTreeMap;

/// Ranges that do not overlap, each with a value. Neighbours with equal values are one range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Runs<V> {
    /// By first byte: the byte after the last one, and the value.
    runs: BTreeMap<u64, (u64, V)>,
}

impl<V> Default for Runs<V> {
    fn default() -> Self {
        Self { runs: BTreeMap::new() }
    }
}

impl<V: Copy + PartialEq> Runs<V> {
    /// The value at an address.
    pub(super) fn get(&self, address: u64) -> Option<V> {
        let (_, &(end, value)) = self.runs.range(..=address).next_back()?;
        (address < end).then_some(value)
    }

    /// Sets the value of the bytes from `start` to before `end`.
    pub(super) fn set(&mut self, start: u64, end: u64, value: V) {
        if start >= end {
            return;
        }
        let (mut first, mut last) = (start, end);
        // A range that begins before is cut, or joined if it is adjacent and has the same value.
        if let Some((&before, &(its_end, its_value))) = self.runs.range(..start).next_back()
            && its_end >= start
        {
            if its_value == value {
                first = before;
                last = last.max(its_end);
            } else {
                self.runs.insert(before, (start, its_value));
                if its_end > end {
                    self.runs.insert(end, (its_end, its_value));
                }
            }
        }
        // Ranges that begin within this one, or at its end, are removed; the rest of the last one stays.
        let within: Vec<u64> = self.runs.range(start..=end).map(|(&run, _)| run).collect();
        for run in within {
            let Some(&(its_end, its_value)) = self.runs.get(&run) else {
                continue;
            };
            if its_value == value {
                self.runs.remove(&run);
                last = last.max(its_end);
            } else if run < end {
                self.runs.remove(&run);
                if its_end > end {
                    self.runs.insert(end, (its_end, its_value));
                }
            }
        }
        self.runs.insert(first, (last, value));
    }

    /// The ranges between two addresses: their lengths within, and their values.
    pub(super) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, V)> + '_ {
        let before = self.runs.range(..start).next_back();
        before
            .into_iter()
            .chain(self.runs.range(start..end))
            .filter_map(move |(&first, &(last, value))| {
                let length = last.min(end).saturating_sub(first.max(start));
                (length > 0).then_some((length, value))
            })
    }

    /// The values of all ranges.
    pub(super) fn values(&self) -> impl Iterator<Item = V> + '_ {
        self.runs.values().map(|&(_, value)| value)
    }

    /// Removes all ranges.
    pub(super) fn clear(&mut self) {
        self.runs.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_byte_has_the_value_that_it_was_given_last(
            steps in proptest::collection::vec((0u16..60, 0u16..20, 0u8..3), 0..30)
        ) {
            let mut runs = Runs::default();
            let mut bytes = [None; 80];
            for (start, length, value) in steps {
                runs.set(u64::from(start), u64::from(start + length), value);
                bytes[usize::from(start)..usize::from(start + length)].fill(Some(value));
            }
            for (address, &value) in (0..).zip(&bytes) {
                prop_assert_eq!(runs.get(address), value);
            }
            let stretches: Vec<_> = runs.runs.iter().map(|(&start, &(end, value))| (start, end, value)).collect();
            for pair in stretches.windows(2) {
                let apart = pair[0].1 < pair[1].0 || (pair[0].1 == pair[1].0 && pair[0].2 != pair[1].2);
                prop_assert!(apart, "{:?} are not two", pair);
            }
            for value in 0..3u8 {
                let counted: u64 = runs.within(7, 42).filter(|&(_, its)| its == value).map(|(length, _)| length).sum();
                let there = bytes[7..42].iter().filter(|&&its| its == Some(value)).count();
                prop_assert_eq!(counted, there as u64);
            }
        }
    }
}
