//! Runs of consecutive pages. In most memory long runs of pages are on one node and belong to another, and a list of
//! runs is processed much faster than a list of pages.

use pinfold_core::NodeId;

/// A page, or a range that is moved as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// Its first byte.
    pub(super) address: u64,
    /// Its length in bytes.
    pub(super) bytes: u64,
    /// Its node.
    pub(super) now: NodeId,
}

/// Consecutive units of one size, on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    address: u64,
    /// Bytes of a unit.
    unit: u64,
    units: u64,
    now: NodeId,
}

impl Run {
    fn of(unit: Unit) -> Self {
        Self {
            address: unit.address,
            unit: unit.bytes,
            units: 1,
            now: unit.now,
        }
    }

    /// The units from `start` up to `end`.
    pub(super) fn between(start: u64, end: u64, unit: u64, now: NodeId) -> Self {
        Self {
            address: start,
            unit,
            units: end.saturating_sub(start) / unit,
            now,
        }
    }

    fn end(&self) -> u64 {
        self.address + self.unit * self.units
    }

    /// The same pages. Pages that fill an aligned range of `bytes` become one unit.
    pub(super) fn joined(self, bytes: u64) -> [Self; 3] {
        let part = |start, end, unit| Self::between(start, end, unit, self.now);
        let (first, last) = (self.address.next_multiple_of(bytes), self.end() / bytes * bytes);
        if self.unit >= bytes || first >= last {
            let none = part(self.end(), self.end(), self.unit);
            return [self, none, none];
        }
        [
            part(self.address, first, self.unit),
            part(first, last, bytes),
            part(last, self.end(), self.unit),
        ]
    }

    /// Each unit, by address.
    pub(super) fn units(self) -> impl Iterator<Item = Unit> {
        (0..self.units).map(move |index| Unit {
            address: self.address + index * self.unit,
            bytes: self.unit,
            now: self.now,
        })
    }
}

/// Units in the order of their addition, stored as runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs {
    runs: Vec<Run>,
    bytes: u64,
}

impl Runs {
    /// Adds a unit at the end.
    pub(super) fn add(&mut self, unit: Unit) {
        self.bytes += unit.bytes;
        match self.runs.last_mut() {
            Some(run) if run.end() == unit.address && run.unit == unit.bytes && run.now == unit.now => run.units += 1,
            _ => self.runs.push(Run::of(unit)),
        }
    }

    /// Bytes of all units.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether there are no units.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The runs.
    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Each unit, in the order of addition.
    pub(super) fn units(&self) -> impl Iterator<Item = Unit> {
        self.runs.iter().copied().flat_map(Run::units)
    }

    /// Removes the first unit.
    pub(super) fn take_first(&mut self) -> Option<Unit> {
        self.take(1).units().next()
    }

    /// Removes units from the front until they have at least this many bytes, or all are removed.
    pub(super) fn take(&mut self, bytes: u64) -> Self {
        let mut taken = Self::default();
        let mut whole = 0;
        for run in &mut self.runs {
            let units = (bytes - taken.bytes).div_ceil(run.unit).min(run.units);
            taken.bytes += units * run.unit;
            taken.runs.push(Run { units, ..*run });
            if units < run.units {
                run.address += units * run.unit;
                run.units -= units;
                break;
            }
            whole += 1;
            if taken.bytes >= bytes {
                break;
            }
        }
        self.runs.drain(..whole);
        self.bytes -= taken.bytes;
        taken
    }
}

impl From<Run> for Runs {
    fn from(run: Run) -> Self {
        Self {
            bytes: run.end() - run.address,
            runs: if run.units > 0 { vec![run] } else { vec![] },
        }
    }
}

impl Extend<Unit> for Runs {
    fn extend<T: IntoIterator<Item = Unit>>(&mut self, units: T) {
        for unit in units {
            self.add(unit);
        }
    }
}

impl FromIterator<Unit> for Runs {
    fn from_iter<T: IntoIterator<Item = Unit>>(units: T) -> Self {
        let mut runs = Self::default();
        runs.extend(units);
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 4;
    const HUGE: u64 = 16;

    /// Pages with gaps, on three nodes.
    fn pages() -> impl Strategy<Value = Vec<Unit>> {
        prop::collection::vec((any::<bool>(), 0u32..3), 0..60).prop_map(|slots| {
            let slots = slots.into_iter().enumerate().filter(|(_, (present, _))| *present);
            slots
                .map(|(slot, (_, node))| Unit {
                    address: slot as u64 * PAGE,
                    bytes: PAGE,
                    now: NodeId(node),
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(pages in pages()) {
            let runs: Runs = pages.iter().copied().collect();
            prop_assert_eq!(runs.bytes(), pages.len() as u64 * PAGE);
            prop_assert_eq!(runs.units().collect::<Vec<_>>(), pages);
        }

        #[test]
        fn what_is_taken_and_the_rest_are_all(pages in pages(), bytes in 1u64..100) {
            let mut rest: Runs = pages.iter().copied().collect();
            let taken = rest.take(bytes);
            prop_assert_eq!(taken.bytes(), bytes.next_multiple_of(PAGE).min(pages.len() as u64 * PAGE));
            prop_assert_eq!(rest.bytes() + taken.bytes(), pages.len() as u64 * PAGE);
            prop_assert_eq!(taken.units().chain(rest.units()).collect::<Vec<_>>(), pages);
        }

        #[test]
        fn joining_keeps_every_page_and_leaves_no_whole_stretch_apart(pages in pages()) {
            let runs: Runs = pages.iter().copied().collect();
            for &run in runs.runs() {
                let joined: Vec<Unit> = run.joined(HUGE).into_iter().flat_map(Run::units).collect();
                let single = joined.iter().flat_map(|unit| {
                    (unit.address..unit.address + unit.bytes).step_by(4)
                });
                prop_assert_eq!(single.collect::<Vec<_>>(), run.units().map(|unit| unit.address).collect::<Vec<_>>());
                for unit in &joined {
                    prop_assert!(unit.bytes == PAGE || unit.address.is_multiple_of(HUGE));
                }
                // The number of aligned ranges among them.
                let huge = joined.iter().filter(|unit| unit.bytes == HUGE).count() as u64;
                let aligned = (run.end() / HUGE).saturating_sub(run.address.div_ceil(HUGE));
                prop_assert_eq!(huge, aligned);
            }
        }
    }
}
