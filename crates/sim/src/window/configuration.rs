//! The configuration of a window: the PU of each thread, the nodes of pages, and the prefetchers that are on.

use crate::model::Model;
use pinfold_core::{PageMapping, Pinning, Prefetcher, Prefetchers};

/// The configuration of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowConfiguration {
    /// Thread `r`, in the order of the streams, runs on the PU of rank `r`.
    pub pinning: Pinning,
    /// The page mapping.
    pub pages: PageMapping,
    /// The prefetchers that are on.
    pub prefetchers: Prefetchers,
}

/// The prefetchers that are on and present in the machine.
pub(crate) fn working(prefetchers: Prefetchers, model: &Model) -> [bool; 4] {
    let present = model.prefetch.present.value();
    Prefetcher::ALL.map(|prefetcher| prefetchers.enabled(prefetcher) && present.0.contains(&prefetcher))
}
