//! What `react` requests of a machine: where each region's threads run, and where the pages are.

use super::model::ModelConfiguration;
use pinfold_core::{Configuration, PageMapping, Pinning, Prefetchers, RegionConfiguration, RegionId, TaskId, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// A request, apart from the machine. The default leaves the program alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The configuration by which pages are placed, and in which what is outside of the regions runs.
    pub(super) base: Option<ModelConfiguration>,
    /// The regions; `None` is unpinned.
    pub(super) regions: BTreeMap<RegionId, Option<ModelConfiguration>>,
}

impl Plan {
    /// All regions run in one configuration.
    pub(super) fn of_all(regions: impl Iterator<Item = RegionId>, configuration: &ModelConfiguration) -> Self {
        Self {
            base: Some(configuration.clone()),
            regions: regions.map(|id| (id, Some(configuration.clone()))).collect(),
        }
    }

    /// Whether some region is placed.
    pub(super) fn places(&self) -> bool {
        self.regions.values().any(Option::is_some)
    }
}

/// What of a machine was changed so far, so that it can be changed back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    pub(super) pages: bool,
    /// Whether the machine can set prefetchers.
    pub(super) sets_prefetchers: bool,
    pub(super) prefetchers: bool,
}

impl Default for Reach {
    fn default() -> Self {
        Self {
            pages: false,
            sets_prefetchers: true,
            prefetchers: false,
        }
    }
}

impl Reach {
    /// The configuration of a plan.
    ///
    /// Where a region is unpinned, so is what is outside of the regions; the pages stay where `base` has placed them. Pages
    /// that were never placed are left alone, and others go back to first touch. `working` tasks have ranks.
    pub(super) fn configuration(
        &mut self,
        plan: &Plan,
        topology: &Topology,
        working: usize,
        left_alone: BTreeSet<TaskId>,
    ) -> Configuration {
        let base = plan.base.as_ref();
        let pages = match base {
            Some(base) => Some(base.pages(topology)),
            None => self.pages.then_some(PageMapping::FirstTouch),
        };
        self.pages |= base.is_some();
        let all_placed = plan.regions.values().all(Option::is_some);
        let pinning = |configuration: &ModelConfiguration| configuration.pinning(topology);
        let prefetchers = |configuration: &ModelConfiguration| self.sets_prefetchers.then_some(configuration.prefetch);
        let region = |wanted: &Option<ModelConfiguration>| RegionConfiguration {
            pinning: wanted.as_ref().and_then(pinning),
            threads: wanted.as_ref().map(|wanted| wanted.threads),
            prefetchers: wanted.as_ref().and_then(prefetchers),
        };
        let configuration = Configuration {
            pinning: base
                .filter(|_| all_placed)
                .and_then(pinning)
                .map(|pinning| for_all(&pinning, working)),
            left_alone,
            pages,
            prefetchers: match base.filter(|_| all_placed) {
                Some(base) => prefetchers(base),
                // Nothing says which were on before; a machine that pinfold begins with has all on.
                None => (self.prefetchers && self.sets_prefetchers).then_some(Prefetchers::ALL),
            },
            regions: plan.regions.iter().map(|(&id, wanted)| (id, region(wanted))).collect(),
            ..Configuration::default()
        };
        self.prefetchers |= self.sets_prefetchers && plan.places();
        configuration
    }
}

/// The pinning of `working` ranks by that of a smaller team: neighbouring ranks share the PU of one thread, as neighbouring
/// iterations would share the thread.
fn for_all(team: &Pinning, working: usize) -> Pinning {
    let threads = team.pus().len();
    let pus = (0..working.max(threads)).map(|rank| team.pu(rank * threads / working.max(threads)));
    Pinning::new(pus.collect()).unwrap_or_else(|| team.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::PuId;

    #[test]
    fn neighbouring_ranks_share_a_pu_where_the_team_is_smaller() {
        let team = Pinning::new(vec![PuId(0), PuId(8)]).unwrap();
        assert_eq!(for_all(&team, 5).to_string(), "0,0,0,8,8");
        assert_eq!(for_all(&team, 1).to_string(), "0,8");
    }
}
