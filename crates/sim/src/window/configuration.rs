//! Under what a window is simulated: who runs where, where pages are, which prefetchers are on.

use crate::model::Model;
use pinfold_core::{PageMapping, Pinning, Prefetcher, Prefetchers};

/// Under what a window is simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowConfiguration {
    /// Thread `r`, in the order of the streams, runs on the PU of rank `r`.
    pub pinning: Pinning,
    /// Where pages are.
    pub pages: PageMapping,
    /// Which prefetchers are on.
    pub prefetchers: Prefetchers,
}

/// Those that are on and present in the machine.
pub(crate) fn working(prefetchers: Prefetchers, model: &Model) -> [bool; 4] {
    let present = model.prefetch.present.value();
    Prefetcher::ALL.map(|prefetcher| prefetchers.enabled(prefetcher) && present.0.contains(&prefetcher))
}
