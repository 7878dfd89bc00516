//! What the behaviour database says of a program.

use pinfold_core::{PageMapping, Pinning};

/// The best placement of an earlier run.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownPlacement {
    /// The PUs of the ranks; `None` if nothing was faster than the unpinned program.
    pub pinning: Option<Pinning>,
    /// The mapping of its pages; `None` if they were not moved.
    pub pages: Option<PageMapping>,
    /// The metric that was compared.
    pub metric: String,
    /// Its rate in that placement.
    pub rate: f64,
    /// That rate over the unpinned program's, minus one.
    pub gain: f64,
    /// Whether it was another build of the program. Its placement is a proposal then, like any other.
    pub other_build: bool,
}
