//! `--policy packed`, `distributed`, `close`, `spread`, `compact` and `scatter`: a placement that users know from
//! elsewhere, for the whole run.

use super::{Built, Initial, PolicyEntry, PolicyRequest, Prepared, Setting};
use anyhow::Result;
use pinfold_core::ThreadMap;
use pinfold_core::hint::AffinityHint;
use pinfold_core::placement::NamedPlacement;
use pinfold_policy::Kept;

/// A placement under its name.
pub(super) struct Named {
    name: &'static str,
    placement: NamedPlacement,
    about: &'static str,
}

pub(super) const PACKED: Named = Named {
    name: "packed",
    placement: NamedPlacement::Hint(AffinityHint::PACKED),
    about: "keeps threads on few packages and shared caches (AutoFinity; the same as hint:slp)",
};

pub(super) const DISTRIBUTED: Named = Named {
    name: "distributed",
    placement: NamedPlacement::Hint(AffinityHint::DISTRIBUTED),
    about: "keeps threads on many packages and separate caches (AutoFinity; the same as hint:SLP)",
};

pub(super) const CLOSE: Named = Named {
    name: "close",
    placement: NamedPlacement::Close,
    about: "keeps neighbouring threads on neighbouring cores, from the first core on (OpenMP's OMP_PROC_BIND=close with \
            OMP_PLACES=cores)",
};

pub(super) const SPREAD: Named = Named {
    name: "spread",
    placement: NamedPlacement::Spread,
    about: "divides the row of cores into a part for each thread and keeps it on the first core there (OpenMP's \
            OMP_PROC_BIND=spread with OMP_PLACES=cores)",
};

pub(super) const COMPACT: Named = Named {
    name: "compact",
    placement: NamedPlacement::Map(ThreadMap::Compact),
    about: "uses all NUMA nodes and keeps neighbouring threads on one node (a strategy of --policy classify; after \
            KMP_AFFINITY=compact, which fills one node before the next)",
};

pub(super) const SCATTER: Named = Named {
    name: "scatter",
    placement: NamedPlacement::Map(ThreadMap::Scatter),
    about: "keeps threads on the NUMA nodes in turn (a strategy of --policy classify; as KMP_AFFINITY=scatter does)",
};

impl PolicyEntry for Named {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn explained(&self) -> &'static str {
        "keeps the placement of this name and only measures"
    }

    fn prepare(&self, _request: &PolicyRequest<'_>) -> Result<Prepared> {
        let (name, placement) = (self.name, self.placement);
        Ok(Prepared::new(move |setting| {
            Ok(kept(setting, name, placement, &format!("--policy {name} asks for it")))
        }))
    }
}

/// The policy `policy` that keeps a placement, for this reason.
pub(super) fn kept(setting: &Setting<'_>, policy: &'static str, placement: NamedPlacement, why: &str) -> Built {
    let kept = Kept::Placement {
        policy,
        placement,
        threads: setting.common.threads,
    };
    Built {
        initial: kept.first_pinning(setting.topology).map(|pinning| Initial {
            pinning,
            why: why.to_owned(),
        }),
        ..Built::new(setting.common.keep(kept))
    }
}
