//! Shared by the tests of windows.

use pinfold_core::{Pinning, PuId};
use pinfold_sim::model::Model;
use pinfold_sim::window::{
    Event, Options, PageMapping, Prefetchers, Recorded, Stream, WindowConfiguration, WindowResult, simulate,
};

/// Thread `r` on the PU `pus[r]`.
pub(crate) fn configuration(pus: &[u32], pages: PageMapping, prefetchers: Prefetchers) -> WindowConfiguration {
    WindowConfiguration {
        pinning: Pinning::new(pus.iter().copied().map(PuId).collect()).unwrap(),
        pages,
        prefetchers,
    }
}

pub(crate) fn run(model: &Model, configuration: &WindowConfiguration, streams: Vec<Box<dyn Stream>>) -> WindowResult {
    simulate(model, configuration, None, streams, &Options::default()).unwrap()
}

/// A thread with these events.
pub(crate) fn recorded(events: Vec<Event>) -> Box<dyn Stream> {
    Box::new(Recorded::new(events))
}
