//! `auto`: the policies as one. It measures the program as the operating system places it, asks everybody who has
//! something to say, tries what is proposed in turns with the unpinned program, and keeps only what is faster.
//!
//! 1. **Known.** If the behaviour database knows the program with this number of threads, it starts in the placement that
//!    was best, and is compared with the rate of then. If it is slower than that, the search is opened again.
//! 2. **Baseline.** Any other program runs unpinned until its rate and the noise of that are known.
//! 3. **Proposals** (`proposals`, `mapper`). Earlier runs of another build, learned rules, a placement model, SAM's mapper
//!    and the topology propose placements, with the gain that they expect where they forecast one.
//! 4. **Turns** (`turns`). A proposal and the best one so far run in turns, as long as the noise demands. So a program
//!    whose speed drifts does not mislead.
//! 5. **Budget** (`budget`). What trials may lose is a share of the time that the program has run. A trial that may lose
//!    more waits. The neighbourhood of the best one is searched while the expected gain is above the cost.
//! 6. **Regions** (`regions`). The windows of all trials time parallel regions, too. Where some were faster elsewhere, each
//!    where it was fastest is a proposal.
//! 7. **Pages** (`pages`). A placement may move pages, too. The machine refuses what takes longer than the policy allows.
//! 8. **Confirmed.** What is faster than the unpinned program, or than something that is, is kept. It is compared with the
//!    unpinned program again each time when the program has run twice as long.
//! 9. **Watched** (`change`, `phases`). If the rate changes, the program has another phase. A phase that was seen before
//!    gets its placement at once; a new one is searched, and its first placement is the best one until another is faster.
//!
//! A program that the user wants near a device begins there. Unpinned on the whole machine is the first that is compared
//! with that. It leaves only for what is faster.
//!
//! If no metric counts, nothing is tried.

mod ask;
mod budget;
mod candidates;
mod choice;
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
mod watching;

pub use options::{AutoOptions, AutoTimes, Near, Source};
pub use policy::Auto;
