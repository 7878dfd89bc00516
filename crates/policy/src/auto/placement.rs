//! The placement of a program's threads and pages.

use pinfold_core::{PageMapping, Pinning, PuSet, RegionConfiguration, RegionId};
use std::collections::BTreeMap;
use std::fmt;

/// The placement of threads and pages. The default is the unpinned program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Placement {
    /// The PU of each rank; `None` for unpinned threads.
    pub(super) pinning: Option<Pinning>,
    /// The mask of unpinned threads; `None` for all PUs.
    pub(super) within: Option<PuSet>,
    /// Where pages are moved to; `None` leaves them to the operating system.
    pub(super) pages: Option<PageMapping>,
    /// The parallel regions that are pinned elsewhere than the rest of the program.
    pub(super) regions: BTreeMap<RegionId, RegionConfiguration>,
}

impl Placement {
    /// Pinned threads. Pages stay.
    pub(super) fn pinned(pinning: Pinning) -> Self {
        Self {
            pinning: Some(pinning),
            ..Self::default()
        }
    }

    /// The same threads, with this mapping of pages.
    pub(super) fn with_pages(self, pages: Option<PageMapping>) -> Self {
        Self { pages, ..self }
    }

    /// The same, with these pinnings of regions.
    pub(super) fn with_regions(self, regions: BTreeMap<RegionId, RegionConfiguration>) -> Self {
        Self { regions, ..self }
    }

    /// The pinning of a region; `None` for unpinned threads.
    pub(super) fn region_pinning(&self, id: RegionId) -> Option<&Pinning> {
        let region = self.regions.get(&id).and_then(|region| region.pinning.as_ref());
        region.or(self.pinning.as_ref())
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
