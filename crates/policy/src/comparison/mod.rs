//! Which of several configurations is faster, by the rates that a policy measures.
//!
//! - `turns`: two configurations in turns, so that a drift of the program's speed does not mislead.
//! - `race`: several configurations, each dropped when it has lost.
//! - `candidate_results`: the results of all candidates.
//! - `change`: whether the rate of the chosen configuration has changed.

pub(crate) mod candidate_results;
pub(crate) mod change;
pub(crate) mod race;
pub(crate) mod turns;
