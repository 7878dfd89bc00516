//! The configurations of a survey.

use pinfold_core::memory::node_of_pu;
use pinfold_core::{NodeId, PageMapping, Pinning, Prefetchers, Topology};

/// A configuration to measure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SurveyConfiguration {
    /// The number of threads of each region's team; `None` for the program's own number.
    pub threads: Option<usize>,
    /// The PUs of the ranks; `None` for unpinned threads.
    pub pinning: Option<Pinning>,
    /// Where the pages are; `None` for first touch.
    pub pages: Option<PageMapping>,
    /// The prefetchers that are on; `None` leaves them as they are.
    pub prefetchers: Option<Prefetchers>,
}

/// The places of the program's pages. Changing them moves pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PagePlaces {
    /// The mapping; `None` for first touch.
    pub(super) mapping: Option<PageMapping>,
    /// By rank: the node of the thread, if the places depend on it. Unpinned threads have none.
    nodes: Option<Vec<Option<NodeId>>>,
}

impl SurveyConfiguration {
    /// The pinning of all `working` ranks. Neighbouring ranks share the PU of one thread of a smaller team, as
    /// neighbouring iterations would share the thread.
    pub(super) fn base(&self, working: usize) -> Option<Pinning> {
        let team = self.pinning.as_ref()?;
        let threads = self.threads.unwrap_or(working).max(1);
        let all = working.max(threads);
        Pinning::new((0..all).map(|rank| team.pu(rank * threads / all)).collect())
    }

    /// The places of the pages on this machine, with `working` ranks. Without a mapping, pages follow the threads that
    /// touched them first.
    pub(super) fn page_places(&self, topology: &Topology, working: usize) -> PagePlaces {
        let mapping = self.pages.filter(|&pages| pages != PageMapping::FirstTouch);
        let follows_threads = match mapping {
            None | Some(PageMapping::Local | PageMapping::Remote | PageMapping::Locality | PageMapping::Balance) => {
                true
            }
            Some(_) => false,
        };
        let nodes = (follows_threads && topology.nodes().len() > 1).then(|| {
            let base = self.base(working);
            let pus = base.iter().flat_map(Pinning::pus);
            pus.map(|&pu| node_of_pu(topology, pu)).collect()
        });
        PagePlaces { mapping, nodes }
    }
}
