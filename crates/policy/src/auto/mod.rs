//! `auto`, the default policy: it joins the other policies. It measures the program unpinned, asks each source for
//! placements, compares these in turns with the unpinned program, and keeps only what is faster.
//!
//! ```text
//!                       policy: the order of events
//!      +----------+---------+---------+-------+----------+--------+
//!      v          v         v         v       v          v        v
//!     ask       pages    regions    known  watching    step    placing
//!      |          |         |         |       |
//!   mapper        v         v         v    phases, thread_sets
//!      +------> search <----+---------+
//!                 |
//!      candidates, expectations, trials, budget, neighbours, choice
//! ```
//!
//! Each part owns its state and changes no other state but the search, which it gets as an argument to propose
//! candidates. It returns what follows. No part knows the policy above it.
//!
//! 1. **Known** (`known`). A program that the behaviour database knows with this number of threads starts in its best
//!    placement. Its rate is compared with the rate of the earlier run. If it is slower, it is searched.
//! 2. **Baseline.** Any other program runs unpinned until its rate and the noise of the rate are known.
//! 3. **Proposals** (`ask`, `proposals`, `mapper`). Earlier runs of another build, learned rules, a placement model,
//!    SAM's mapper and the topology propose placements, some with an expected gain.
//! 4. **Trials** (`search`, `expectations`, `trials`, `trial`). A belief that was learned from other programs says which
//!    candidate is worth a trial, and each trial changes what it says of all. The candidate and the best one run in
//!    turns, for as many windows as the noise demands. So a drift of the program's speed does not mislead.
//! 5. **Budget** (`budget`). Trials may lose a share of the time that the program has run. A more expensive trial
//!    waits. The neighbours of the best candidate are tried while the expected gain is above the cost (`neighbours`).
//! 6. **Regions** (`regions`, `region_times`). The windows of all trials also time parallel regions. If some were
//!    faster elsewhere, the best placement with these regions elsewhere is a candidate.
//! 7. **Pages** (`pages`). A candidate may also move pages. The machine refuses moves that take longer than allowed.
//! 8. **Choice** (`choice`). The best candidate is kept if it beats the unpinned program, or if it beats a candidate
//!    that does. It is compared with the unpinned program again each time the program has run for twice as long.
//! 9. **Watch** (`watching`, `phases`, `thread_sets`). If the rate changes, the program is in another phase. A known
//!    phase gets its placement at once. A new one is searched, and the running placement stays until another is faster.
//!
//! A program that the user wants near a device starts there. The unpinned program on the whole machine is the first
//! candidate.
//!
//! If no metric counts, nothing is tried.

mod ask;
pub(crate) mod budget;
mod candidates;
mod choice;
mod expectations;
mod known;
mod mapper;
mod neighbours;
mod options;
mod pages;
mod phases;
mod placement;
mod placing;
mod policy;
mod proposals;
mod rate_line;
mod region_times;
mod regions;
mod search;
mod step;
mod thread_sets;
mod trial;
mod trials;
mod watching;

pub use options::{AutoOptions, AutoTimes, CountOptions, Learned, Near, Source, Space};
pub use policy::Auto;
