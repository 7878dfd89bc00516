//! SAM's mapper as a proposer: it would move single threads to other PUs.
//!
//! It is asked about the unpinned program, and about each placement that has become the best one. It moves threads by
//! the rates of one window and remembers nothing, because the trials decide whether a move has helped, and not its own
//! validation. If it moves nothing, it is asked again with the threshold of coherence for faint sharing.

use super::placement::Placement;
use super::proposals::Proposal;
use crate::sam::{Mapper, MapperOptions, Reason, TaskRates, Thresholds};
use pinfold_core::{Pinning, ProposerCode, PuId, TaskId, TaskMove, Topology};
use std::collections::BTreeMap;

/// One decision, without the parts of the mapper that need earlier ones.
const ONCE: MapperOptions = MapperOptions {
    learn_groups: true,
    ..MapperOptions::PAPER
};

/// The placement that the mapper proposes; `None` if it moves nothing. `ranks` are the threads in their order.
pub(super) fn proposal(
    topology: &Topology,
    thresholds: &Thresholds,
    rates: &[TaskRates],
    ranks: &[TaskId],
) -> Option<Proposal> {
    moved(topology, thresholds, rates, ranks).or_else(|| moved(topology, &thresholds.faint(), rates, ranks))
}

/// The placement after the moves of a mapper with these thresholds; `None` without a move.
fn moved(topology: &Topology, thresholds: &Thresholds, rates: &[TaskRates], ranks: &[TaskId]) -> Option<Proposal> {
    let mut mapper = Mapper::new(topology, thresholds.clone(), ONCE);
    let moves = mapper.decide(rates);
    let cause = moves.iter().find(|made| made.from != made.to && !made.makes_room)?;
    let mut pus: BTreeMap<TaskId, PuId> = rates.iter().map(|task| (task.id, task.pu)).collect();
    pus.extend(moves.iter().map(|made| (made.task, made.to)));
    let pinning = ranks.iter().map(|rank| pus.get(rank).copied()).collect::<Option<_>>();
    Some(Proposal {
        placement: Placement::pinned(Pinning::new(pinning?)?),
        by: match cause.reason {
            Reason::Coherence => ProposerCode::Sharing,
            _ => ProposerCode::Contention,
        },
        gain: None,
        why: why(cause, moves, ranks.len()),
    })
}

fn why(cause: &TaskMove, moves: &[TaskMove], threads: usize) -> String {
    let number = moves.iter().filter(|made| !made.stays()).count();
    let excess = cause.excess.map_or_else(String::new, |excess| format!(", {excess}"));
    format!(
        "SAM's mapper moves {number} of {threads} threads: {}{excess}",
        cause.reason
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::synthetic;
    use pinfold_core::PuSet;
    use std::sync::Arc;

    /// Two packages with four cores each.
    fn machine() -> Topology {
        synthetic("package:2 core:4 pu:1")
    }

    fn id(thread: i32) -> TaskId {
        TaskId {
            serial: u64::try_from(thread).unwrap(),
            process: 1,
            thread,
        }
    }

    /// Threads on these PUs. Each has `inter` transfers between packages and `memory` misses of the last-level cache in
    /// a cycle.
    fn rates(pus: &[u32], inter: f64, memory: f64) -> Vec<TaskRates> {
        let allowed: Arc<PuSet> = Arc::new((0..8).map(PuId).collect());
        let of = |(thread, &pu)| TaskRates {
            id: id(i32::try_from(thread).unwrap()),
            pu: PuId(pu),
            allowed: Arc::clone(&allowed),
            busy: 1.0,
            inter: Some(inter),
            intra: Some(0.0),
            remote: Some(0.0),
            memory: Some(memory),
            progress: Some(1.0),
            group: None,
            reads: None,
        };
        pus.iter().enumerate().map(of).collect()
    }

    fn proposed(rates: &[TaskRates], thresholds: &Thresholds) -> Option<Proposal> {
        let ranks: Vec<TaskId> = rates.iter().map(|task| task.id).collect();
        moved(&machine(), thresholds, rates, &ranks)
    }

    /// By rank: the package.
    fn packages(proposal: &Proposal) -> Vec<u32> {
        let pinning = proposal.placement.pinning.as_ref().unwrap();
        pinning.pus().iter().map(|pu| pu.0 / 4).collect()
    }

    #[test]
    fn threads_that_share_are_brought_together_and_the_reason_says_at_what_rate() {
        let thresholds = Thresholds::paper();
        let proposal = proposed(&rates(&[0, 1, 4], 3.0 * thresholds.coherence, 0.0), &thresholds).unwrap();
        assert_eq!(proposal.by, ProposerCode::Sharing);
        assert_eq!(packages(&proposal), [0, 0, 0]);
        let moved = "SAM's mapper moves 1 of 3 threads";
        assert!(
            proposal.why.contains(moved) && proposal.why.contains("7.50e-4"),
            "{}",
            proposal.why
        );
        assert_eq!(proposal.gain, None, "the counts do not say what it gains");
    }

    #[test]
    fn sharing_below_the_threshold_is_seen_with_that_of_faint_sharing() {
        let thresholds = Thresholds::paper();
        let faint = rates(&[0, 4], 0.5 * thresholds.coherence, 0.0);
        assert_eq!(proposed(&faint, &thresholds), None);
        assert_eq!(packages(&proposed(&faint, &thresholds.faint()).unwrap()), [0, 0]);
    }

    #[test]
    fn threads_that_saturate_a_memory_are_separated() {
        let thresholds = Thresholds::paper();
        let memory = 0.4 * thresholds.package_memory;
        let proposal = proposed(&rates(&[0, 1, 2, 3], 0.0, memory), &thresholds).unwrap();
        assert_eq!(proposal.by, ProposerCode::Contention);
        assert_eq!(packages(&proposal).iter().sum::<u32>(), 2);
    }

    #[test]
    fn what_shares_nothing_and_a_thread_that_is_not_known_are_not_moved() {
        let thresholds = Thresholds::paper();
        let sharing = rates(&[0, 4], 3.0 * thresholds.coherence, 0.0);
        assert_eq!(proposed(&rates(&[0, 4], 0.0, 0.0), &thresholds.faint()), None);
        assert_eq!(moved(&machine(), &thresholds, &sharing, &[id(0), id(9)]), None);
        assert_eq!(moved(&machine(), &thresholds, &[], &[id(0)]), None);
    }
}
