//! `pinfold run --dry-run`: the calls that would be made for the first candidate, and nothing else.

use super::plan::Plan;
use super::policies::Built;
use crate::daemon::With;
use pinfold_core::placement::why_all_alike;
use pinfold_linux::affinity::CpuMask;
use pinfold_linux::memory::MemoryPolicy;
use pinfold_linux::prefetchers;
use pinfold_view::findings::nothing_to_gain;
use std::fmt::Write as _;

/// A line for each call, as strace shows it, except that future threads have ranks and no numbers; and a line with the
/// reason for each step that would be left out. `policy` is the memory policy of the program at its start. Preferences
/// are not calls of their own; they have sentences.
pub(super) fn calls(plan: &Plan, built: &Built, policy: Option<MemoryPolicy>, with: With) -> String {
    let prefers = with == With::Scx;
    let mut text = String::new();
    if let Some(why) = plan.leaves_program.then(|| why_all_alike(&plan.topology)).flatten() {
        let _ = writeln!(text, "{}", nothing_to_gain(&why));
    }
    if let Some(policy) = policy {
        let _ = writeln!(text, "{policy}");
    }
    if prefers {
        let _ = writeln!(text, "sched_setscheduler(the program, SCHED_EXT)");
    }
    if let Some(within) = &built.within {
        let _ = if prefers {
            writeln!(text, "unpinned threads prefer the last-level caches of {within}")
        } else {
            writeln!(text, "sched_setaffinity(the program, {within})")
        };
    }
    if let Some(pinning) = built.first_pinning() {
        for (rank, pu) in pinning.pus().iter().enumerate() {
            let _ = if prefers {
                writeln!(text, "the thread of rank {rank} prefers the last-level cache of {pu}")
            } else {
                writeln!(text, "sched_setaffinity(thread of rank {rank}, {pu})")
            };
        }
        let ranks = pinning.pus().len();
        let _ = writeln!(text, "and so on: rank {ranks} as rank 0");
    } else {
        let _ = writeln!(text, "no thread is pinned");
    }
    if let Some(setting) = plan.prefetchers {
        let pus: Vec<_> = CpuMask::from(plan.topology.allowed_pus()).pus().collect();
        match prefetchers::calls(&pus, setting) {
            Ok(calls) => {
                for call in calls {
                    let _ = writeln!(text, "{call}");
                }
            }
            Err(why) => {
                let _ = writeln!(text, "the prefetchers stay as they are: {why}");
            }
        }
    }
    text
}
