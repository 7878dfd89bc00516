//! The steps of the policy, and what its windows are for.

use std::time::Duration;

/// The counts that a window should have: its rate is then known to one percent.
pub(super) const COUNTS: f64 = 40.0;

/// What the present window is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The rate and its noise before a search.
    Baseline,
    /// A candidate in turns with another one.
    Trial,
    /// The best one runs until the next trial can be afforded.
    Waiting,
    /// Nothing is left to try at present.
    Watching,
    /// The rate has changed; what are the rates now?
    Signature,
}

/// The present step, and when it began.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Opening,
    Settling {
        purpose: Purpose,
        began: Duration,
        lasts: Duration,
    },
    Measuring {
        purpose: Purpose,
        began: Duration,
        lasts: Duration,
    },
}
