//! Where threads and pages of a program are.

use pinfold_core::{PageMapping, Pinning, PuSet, RegionConfiguration, RegionId};
use std::collections::BTreeMap;
use std::fmt;

/// Where threads and pages are. The default is the unpinned program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Placement {
    /// The PUs of the ranks; `None` for unpinned threads.
    pub(super) pinning: Option<Pinning>,
    /// The PUs on which unpinned threads run; `None` for all.
    pub(super) within: Option<PuSet>,
    /// Where pages are moved to; `None` where they stay as the operating system placed them, or go back there.
    pub(super) pages: Option<PageMapping>,
    /// The parallel regions that have a placement of their own.
    pub(super) regions: BTreeMap<RegionId, RegionConfiguration>,
}

impl Placement {
    /// Threads that are pinned, with pages as they are.
    pub(super) fn pinned(pinning: Pinning) -> Self {
        Self {
            pinning: Some(pinning),
            ..Self::default()
        }
    }

    /// Where a region is pinned; `None` for unpinned threads.
    pub(super) fn pinning_of_region(&self, id: RegionId) -> Option<&Pinning> {
        let own = self.regions.get(&id).and_then(|own| own.pinning.as_ref());
        own.or(self.pinning.as_ref())
    }

    /// Where a region runs; unpinned, that is about where the threads ran in the baseline.
    pub(super) fn of_region<'a>(&'a self, id: RegionId, home: &'a Pinning) -> &'a Pinning {
        self.pinning_of_region(id).unwrap_or(home)
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Pinning::text_of_place(
            self.pinning.as_ref(),
            self.within.as_ref(),
            self.pages,
            self.regions.len(),
        ))
    }
}
