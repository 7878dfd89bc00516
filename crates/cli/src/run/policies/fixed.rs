//! `--policy fixed`: one pinning for the whole run.

use super::{Built, Common, Initial, PolicyEntry, PolicyRequest, Prepared};
use anyhow::Result;
use pinfold_core::placement::different;
use pinfold_core::{CandidatesCode, Pinning};
use pinfold_policy::Kept;

pub(super) struct Fixed;

impl PolicyEntry for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn about(&self) -> &'static str {
        "keeps the first candidate"
    }

    fn explained(&self) -> &'static str {
        "keeps one pinning and only measures"
    }

    fn is_compared(&self) -> bool {
        false
    }

    fn prepare(&self, _request: &PolicyRequest<'_>) -> Result<Prepared> {
        Ok(Prepared::new(|setting| {
            let named = setting.common.schedules.first().cloned();
            let code = named
                .as_ref()
                .map_or(CandidatesCode::Topology, |_| CandidatesCode::Schedule);
            let first = named.or_else(|| Pinning::new(different::distributed(setting.topology)));
            let kept = first.map_or(Kept::Nothing, |pinning| Kept::Pinning(pinning, code));
            Ok(Built {
                initial: kept.first_pinning(setting.topology).map(|pinning| Initial {
                    pinning,
                    why: "--policy fixed asks for it".to_owned(),
                }),
                ..Built::new(setting.common.keep(kept))
            })
        }))
    }
}

impl Common {
    /// The policy that keeps this for the whole run.
    pub(super) fn keep(&self, kept: Kept) -> pinfold_policy::Fixed {
        pinfold_policy::Fixed::new(kept, self.times, self.metric.clone(), self.skip.clone())
    }
}
