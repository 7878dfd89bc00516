//! `classify`: a learned model says, after one sample, whether placement matters to a program and which strategy suits
//! it (after Denoyelle, Goglin, Jeannot and Ropars, "Data and Thread Placement in NUMA Architectures: A Statistical
//! Learning Approach", ICPP 2019).
//!
//! The four strategies are the paper's (section 2.1): threads compact or scattered over all nodes, pages on the node of
//! the first touch or interleaved. `features` observes a program under the default strategy, `model` predicts the time
//! in each strategy, `forecast` says what follows from that, `file` reads models, which the Python package learns
//! (`python/pinfold/learn`), and `words` describes them.

mod features;
mod file;
mod forecast;
mod model;
mod policy;
mod words;

pub use features::{FEATURES, Feature, MachinePeaks, OF_MACHINE, OF_STRATEGY, observe};
pub use file::PlacementModelError;
pub(crate) use forecast::{Answer, Figures, ask, figure, figures};
pub use model::{PlacementModel, Prediction, Unknown};
pub use policy::{Classify, ClassifyOptions};

use pinfold_core::ThreadMap;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where the pages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pages {
    /// On the node of the thread that touches the page first.
    FirstTouch,
    /// On all nodes in turn.
    Interleave,
}

/// A placement of threads and pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strategy {
    /// Where the threads are, over all nodes.
    pub threads: ThreadMap,
    /// Where the pages are.
    pub pages: Pages,
}

impl Strategy {
    /// The paper's default.
    pub const DEFAULT: Self = Self {
        threads: ThreadMap::Compact,
        pages: Pages::FirstTouch,
    };

    fn scatters(self) -> bool {
        self.threads == ThreadMap::Scatter
    }

    fn interleaves(self) -> bool {
        self.pages == Pages::Interleave
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = if self.scatters() { "scatter" } else { "compact" };
        let pages = if self.interleaves() {
            "interleave"
        } else {
            "first_touch"
        };
        write!(f, "{threads} with {pages}")
    }
}
