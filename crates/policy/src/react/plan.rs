//! The requests of `react`: the PUs of each region's threads, and the places of pages.

use super::model::ModelConfiguration;
use crate::program::observed_program::{Observation, ObservedProgram};
use pinfold_core::{
    Applied, Configuration, PageMapping, Pinning, Prefetchers, RefusalCode, RegionConfiguration, RegionId, TaskId,
    Topology,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A request, apart from the machine. The default leaves the program alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The configuration that places the pages, and the code outside of the regions.
    pub(super) base: Option<ModelConfiguration>,
    /// The regions; `None` is unpinned.
    pub(super) regions: BTreeMap<RegionId, Option<ModelConfiguration>>,
}

impl Plan {
    /// All regions run in one configuration.
    pub(super) fn uniform(regions: impl Iterator<Item = RegionId>, configuration: &ModelConfiguration) -> Self {
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

/// The requests so far, and the abilities of the machine.
#[derive(Debug, Default)]
pub(super) struct Requests {
    reach: Reach,
    requested: Plan,
    /// By rank: the last PUs of the unpinned program in the baseline.
    home: Option<Pinning>,
    /// Whether the threads go to these PUs, and are unpinned in the next decision.
    returns: bool,
    /// The longest time that the machine took to move pages.
    moved_pages: Duration,
}

impl Requests {
    /// Reads how the machine applied the last request. Returns whether it refused to set prefetchers, the first time.
    pub(super) fn heed(&mut self, applied: &Applied) -> bool {
        let lasted = applied.pages.as_ref().map(|moves| moves.lasted);
        self.moved_pages = self.moved_pages.max(lasted.unwrap_or_default());
        let mut refused = applied.refused.iter();
        let cannot = self.sets_prefetchers() && refused.any(|refusal| refusal.code == RefusalCode::Prefetchers);
        self.reach.cannot_set_prefetchers |= cannot;
        cannot
    }

    /// Whether the machine can set prefetchers.
    pub(super) fn sets_prefetchers(&self) -> bool {
        !self.reach.cannot_set_prefetchers
    }

    /// The longest time that the machine took to move pages.
    pub(super) fn moved_pages(&self) -> Duration {
        self.moved_pages
    }

    /// The baseline is over: the unpinned program ran here.
    pub(super) fn note_home(&mut self, home: Option<Pinning>) {
        self.home = home;
    }

    /// The last PUs of the unpinned program in the baseline, by rank.
    pub(super) fn home(&self) -> Option<&Pinning> {
        self.home.as_ref()
    }

    /// The configuration of a plan; `None` if the plan was requested last. Before all threads are unpinned they return
    /// to the PUs of the baseline, because the operating system would leave them on the PUs of the plan.
    pub(super) fn configuration(
        &mut self,
        plan: &Plan,
        program: &ObservedProgram,
        seen: &Observation<'_>,
    ) -> Option<Configuration> {
        let returned = std::mem::take(&mut self.returns);
        if *plan == self.requested && !returned {
            return None;
        }
        let home = self.home.clone().filter(|_| self.requested.places() && !plan.places());
        self.returns = home.is_some();
        self.requested.clone_from(plan);
        let wanted = self
            .reach
            .configuration(plan, seen.topology(), program.working(), program.left_alone());
        Some(Configuration {
            pinning: wanted.pinning.clone().or(home),
            ..wanted
        })
    }
}

/// The changes of the machine so far, so that they can be rolled back.
#[derive(Clone, Copy, Debug, Default)]
struct Reach {
    pages: bool,
    prefetchers: bool,
    cannot_set_prefetchers: bool,
}

impl Reach {
    /// The configuration of a plan.
    ///
    /// If a region is unpinned, so is the code outside of the regions; the pages stay where `base` has placed them.
    /// Pages that were never placed are left alone, and others go back to first touch. `working` tasks have ranks.
    fn configuration(
        &mut self,
        plan: &Plan,
        topology: &Topology,
        working: usize,
        left_alone: BTreeSet<TaskId>,
    ) -> Configuration {
        let sets_prefetchers = !self.cannot_set_prefetchers;
        let base = plan.base.as_ref();
        let pages = match base {
            Some(base) => Some(base.pages(topology)),
            None => self.pages.then_some(PageMapping::FirstTouch),
        };
        self.pages |= base.is_some();
        let all_placed = plan.regions.values().all(Option::is_some);
        let pinning = |configuration: &ModelConfiguration| configuration.pinning(topology);
        let prefetchers = |configuration: &ModelConfiguration| sets_prefetchers.then_some(configuration.prefetch);
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
                // Which were on before is not known. A machine usually starts with all of them on.
                None => (self.prefetchers && sets_prefetchers).then_some(Prefetchers::ALL),
            },
            regions: plan.regions.iter().map(|(&id, wanted)| (id, region(wanted))).collect(),
            ..Configuration::default()
        };
        self.prefetchers |= sets_prefetchers && plan.places();
        configuration
    }
}

/// Spreads the pinning of a smaller team over `working` ranks. Neighbouring ranks share the PU of one thread, as
/// neighbouring iterations would share the thread.
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
