//! What a machine has refused, and the configurations that are left out for it.

use super::known::Known;
use super::request::sets_prefetchers;
use super::schedule::Stage;
use super::walk::Walk;
use pinfold_core::{Applied, RefusalCode};

/// The refusals, with their reasons. What was applied instead of the request was refused for a claim.
pub(super) fn of(applied: &Applied) -> Vec<(RefusalCode, String)> {
    let refused = applied.refused.iter().map(|refusal| (refusal.code, &refusal.why));
    let instead = applied
        .instead
        .iter()
        .map(|instead| (RefusalCode::Claimed, &instead.why));
    refused.chain(instead).map(|(code, why)| (code, why.clone())).collect()
}

/// The configurations that cannot be measured after a refusal in this stage.
pub(super) fn left_out(code: RefusalCode, known: &Known, stage: &Stage, walk: &Walk) -> Vec<usize> {
    let configurations = known.configurations();
    let subjects = known.subjects().iter();
    let present = subjects.filter_map(|&subject| walk.configuration(subject));
    match code {
        RefusalCode::Prefetchers => {
            let all = 0..configurations.len();
            all.filter(|&one| sets_prefetchers(&configurations[one])).collect()
        }
        RefusalCode::Pages | RefusalCode::PagesTooLong => {
            let queue = stage.queue.iter().copied();
            queue.filter(|&one| configurations[one].pages.is_some()).collect()
        }
        RefusalCode::Task | RefusalCode::Regions | RefusalCode::Claimed => {
            present.filter(|&one| configurations[one].pinning.is_some()).collect()
        }
        RefusalCode::Unmeasured => present.collect(),
        RefusalCode::Limit | RefusalCode::Unknown => vec![],
    }
}
