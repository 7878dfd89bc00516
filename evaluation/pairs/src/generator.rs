//! The random numbers with which scikit-learn draws the features of a node.

/// `numpy.random.RandomState(0).randint(0, 2**31 - 1)`: the seed of every tree with `random_state=0`.
const SEED: u32 = 209_652_396;

/// Marsaglia's xorshift generator of 32 bits ("Xorshift RNGs", 2003), reduced to 31 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generator(u32);

impl Generator {
    /// The generator at the begin of a tree.
    pub(crate) fn of_a_tree() -> Self {
        Self(SEED)
    }

    /// A whole number from `low`, below `high`.
    pub(crate) fn draw(&mut self, low: usize, high: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        low + (self.0 & 0x7fff_ffff) as usize % (high - low)
    }
}
