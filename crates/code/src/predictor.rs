//! Predicts conditional branches from their address and the recent branches, like processors since about 2010.

/// The number of entries of each table.
const ENTRIES: usize = 1 << 14;

/// The predictor of conditional branches: TAGE (Seznec and Michaud, "A case for (partially) tagged geometric history
/// length branch prediction", JILP 8, 2006). One table of counters has an entry per branch. Each history length has a
/// table with tagged entries. The longest history with an entry for the branch predicts.
pub(crate) struct Predictor {
    /// The last outcomes, as a ring.
    outcomes: Vec<bool>,
    next: usize,
    /// A hash of the last outcomes, for each length of history.
    hashes: [u64; HISTORIES.len()],
    tables: [Vec<Entry>; HISTORIES.len()],
}

/// Lengths of history, in branches: none, and the geometric series from 5 to 130 of Seznec and Michaud (section 5.1).
const HISTORIES: [usize; 6] = [0, 5, 11, 26, 58, 130];
/// The multiplier of the hashes: an odd number with no structure (Knuth's golden ratio).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// The largest value of a counter. Counters have three bits.
const STRONGEST: i8 = 3;
const MOST_USEFUL: u8 = 3;

/// The behaviour of a branch after a history.
#[derive(Clone, Copy, Default)]
struct Entry {
    tag: u16,
    /// The branch is predicted taken if this is not negative.
    counter: i8,
    /// Number of correct predictions where shorter histories were wrong.
    useful: u8,
}

impl Entry {
    fn predicts(self) -> bool {
        self.counter >= 0
    }

    /// Whether the entry is too new to be reliable.
    fn is_weak(self) -> bool {
        matches!(self.counter, -1 | 0)
    }

    fn learn(&mut self, taken: bool) {
        self.counter = (self.counter + if taken { 1 } else { -1 }).clamp(-STRONGEST - 1, STRONGEST);
    }
}

impl Predictor {
    pub(crate) fn new() -> Self {
        Self {
            outcomes: vec![false; HISTORIES[HISTORIES.len() - 1]],
            next: 0,
            hashes: [0; HISTORIES.len()],
            tables: std::array::from_fn(|_| vec![Entry::default(); ENTRIES]),
        }
    }

    /// Whether the prediction matches the outcome. The predictor then learns the outcome.
    pub(crate) fn predicts(&mut self, address: u64, taken: bool) -> bool {
        let places: [(usize, u16); HISTORIES.len()] = self.hashes.map(|history| {
            let hash = (address ^ history.wrapping_mul(MULTIPLIER)).wrapping_mul(0xff51_afd7_ed55_8ccd);
            let tag = u16::try_from(hash >> 20 & 0xfff).unwrap_or(0);
            (usize::try_from(hash >> 50).unwrap_or(0) % ENTRIES, tag)
        });
        let known = |table: &usize| *table == 0 || self.tables[*table][places[*table].0].tag == places[*table].1;
        let mut by_length = (0..HISTORIES.len()).rev().filter(known);
        let provider = by_length.next().unwrap_or(0);
        let other = by_length.next().unwrap_or(0);
        let [provided, alternative] = [provider, other].map(|table| self.tables[table][places[table].0]);
        let predicted = if provided.is_weak() { alternative } else { provided }.predicts();
        let entry = &mut self.tables[provider][places[provider].0];
        entry.learn(taken);
        if provided.predicts() != alternative.predicts() {
            entry.useful = if provided.predicts() == taken {
                (entry.useful + 1).min(MOST_USEFUL)
            } else {
                entry.useful.saturating_sub(1)
            };
        }
        if predicted != taken {
            self.remember_for_longer(provider, &places, taken);
        }
        self.remember(taken);
        predicted == taken
    }

    /// After a misprediction, the next longer history with room gets an entry.
    fn remember_for_longer(&mut self, provider: usize, places: &[(usize, u16); HISTORIES.len()], taken: bool) {
        let longer = self.tables.iter_mut().zip(places).skip(provider + 1);
        for (table, &(place, tag)) in longer {
            let entry = &mut table[place];
            if entry.useful == 0 {
                let counter = if taken { 0 } else { -1 };
                *entry = Entry {
                    tag,
                    counter,
                    useful: 0,
                };
                return;
            }
            entry.useful -= 1;
        }
    }

    /// Adds an outcome to all histories. Each history drops its oldest outcome.
    fn remember(&mut self, taken: bool) {
        let size = self.outcomes.len();
        for (hash, &length) in self.hashes.iter_mut().zip(&HISTORIES) {
            if length > 0 {
                let oldest = self.outcomes[(self.next + size - length) % size];
                let weight = MULTIPLIER.wrapping_pow(u32::try_from(length).unwrap_or(0));
                let left = u64::from(oldest).wrapping_mul(weight);
                *hash = hash
                    .wrapping_mul(MULTIPLIER)
                    .wrapping_add(u64::from(taken))
                    .wrapping_sub(left);
            }
        }
        self.outcomes[self.next] = taken;
        self.next = (self.next + 1) % size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_of_branches_is_learned_and_chance_is_not() {
        let mut predictor = Predictor::new();
        let mut wrong = [0, 0];
        let mut chance = 1u64;
        for time in 0..4000u64 {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            wrong[0] += u64::from(!predictor.predicts(0x10, time % 5 == 0) && time > 2000);
            if time % 8 == 0 {
                wrong[1] += u64::from(!predictor.predicts(0x20, chance >> 63 == 1) && time > 2000);
            }
        }
        assert!(wrong[0] < 400 && wrong[1] > 60, "{wrong:?}");
        let mut rows = Predictor::new();
        let row = |rows: &mut Predictor| (0..17).filter(|&turn| !rows.predicts(0x30, turn < 16)).count();
        (0..20).for_each(|_| _ = row(&mut rows));
        assert_eq!(row(&mut rows), 0);
        // Runs of several lengths that repeat in turn.
        let mut turns = Predictor::new();
        let all = |turns: &mut Predictor| -> usize {
            let row = |turns: &mut Predictor, length| {
                (0..length).filter(|&at| !turns.predicts(0x40, at + 1 < length)).count()
            };
            [4, 28, 12, 20, 8, 24, 15, 17]
                .map(|length| row(turns, length))
                .iter()
                .sum()
        };
        (0..20).for_each(|_| _ = all(&mut turns));
        assert_eq!(all(&mut turns), 0);
    }
}
