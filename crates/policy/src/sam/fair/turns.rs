//! The course of one comparison in turns: with the moves, without, without, with, and so on.
//!
//! ```text
//!   with | without   without | with   with | without ...
//!   \___ pair 1 __/  \____ pair 2 __/
//! ```
//!
//! Two turns are a pair. The next pair begins in the arrangement in which the last one ended, so that each second turn
//! needs no change.

/// The state of a comparison.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    /// Whether the tasks are on the PUs that the mapper chose.
    pinned: bool,
    /// Whether the second half of a pair is measured.
    in_second_half: bool,
    pairs: usize,
    /// The intervals without moves, and with moves.
    spent: [u64; 2],
    /// The intervals with pages under way.
    under_way: u64,
}

impl Turns {
    /// Begins with the moves in force. `with_first`: the windows before and after the moves are the first pair.
    pub(super) fn begin(with_first: bool) -> Self {
        Self {
            pinned: true,
            pairs: usize::from(with_first),
            ..Self::default()
        }
    }

    /// Begins again in the same arrangement. The time that was spent still counts.
    pub(super) fn begin_again(&mut self) {
        self.pairs = 0;
        self.in_second_half = false;
    }

    /// Whether the moves are in force.
    pub(super) fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// Whether the second half of a pair is measured.
    pub(super) fn is_in_second_half(&self) -> bool {
        self.in_second_half
    }

    /// The complete pairs.
    pub(super) fn pairs(&self) -> usize {
        self.pairs
    }

    /// The intervals without moves, and with moves.
    pub(super) fn spent(&self) -> [u64; 2] {
        self.spent
    }

    /// The intervals with pages under way.
    pub(super) fn under_way(&self) -> u64 {
        self.under_way
    }

    /// Counts an interval.
    pub(super) fn spend(&mut self) {
        self.spent[usize::from(self.pinned)] += 1;
    }

    /// Counts the interval as one with pages under way.
    pub(super) fn note_pages_under_way(&mut self) {
        self.under_way += 1;
    }

    /// The first half of a pair was measured: the other arrangement follows.
    pub(super) fn begin_second_half(&mut self) {
        self.in_second_half = true;
        self.pinned = !self.pinned;
    }

    /// The second half of a pair was measured.
    pub(super) fn end_pair(&mut self) {
        self.in_second_half = false;
        self.pairs += 1;
    }
}
