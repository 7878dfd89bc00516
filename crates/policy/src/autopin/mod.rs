//! `autopin`: tries pinnings while the program runs and keeps the best (Klug, Ott, Weidendorfer, Trinitis, "autopin -
//! Automated Optimization of Thread-to-Core Pinning on Multicore Systems", 2008, section 3).
//!
//! 1. Let the program initialise for `i`, placed as the first candidate says (`opening`).
//! 2. Read the time and each working task's count.
//! 3. Let it run for `t`.
//! 4. Read again.
//! 5. The candidate's rate is the growth per second, averaged over the working tasks (`meter`).
//! 6. Re-pin by the next candidate, let it warm up for `w`, and return to 2.
//! 7. Keep the candidate with the highest rate, and report the rate every `t` from then on.
//!
//! Beyond the paper:
//!
//! - If the user names no pinnings, the first candidate is the unpinned program. A pinning is kept only if its rate is
//!   significantly higher. So nothing is pinned before something is measured. If all pinnings of a machine are alike,
//!   the scheduler places the threads.
//! - A probe is repeated if tasks began or ceased to work during it. If their number stays changed for a whole probe,
//!   candidates are made for the new number and the search begins again.
//! - If the rate falls after the choice and stays low, the search begins again (`comparison::change`).
//! - With `Search::Racing` a candidate that has lost does not get its full time (`race`).
//!
//! Known limits: the effect of one candidate on the program's data (pages that it touched first) remains under the next
//! one. If the phases of a program differ more than its pinnings, and last about as long as a probe, the comparison
//! measures the phases.

mod options;
mod pinned;
mod policy;
mod repeats;

pub use options::{Candidates, Options, OptionsError, Search};
pub use policy::Autopin;
